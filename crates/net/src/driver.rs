//! The task behind an endpoint: arrivals, timers and leftovers.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tack_device::Clock;

use crate::handle::Handle;
use crate::link::Link;
use crate::passed::Received;
use crate::shared::{Machine, Shared, State};
use crate::tap::Tapped;
use crate::waiters::park;

/// Batches read before other tasks get a turn: what arrived is read while the cache still holds it.
const RECV_TURN_BATCHES: usize = 2;
/// Timers wait until all that arrived is read, but for no more turns than a full socket takes: whoever
/// floods it must not stop them.
const MOST_TURNS_UNREAD: u32 = 32;

/// Has `machine` driven on the runtime that this is called in.
pub(crate) fn start<M: Machine>(
    link: Link,
    machine: M,
    clock: Clock,
    answer_each_datagram: bool,
    tapped: Option<Tapped>,
) -> io::Result<Handle<M>> {
    let shared = Arc::new(Shared::new(link, machine, clock, answer_each_datagram, tapped)?);
    let handle = Handle::new(shared.clone());
    tokio::spawn(Driver(shared));
    Ok(handle)
}

/// Runs until no handle is left and the peers have everything they are owed.
#[derive(Debug)]
pub(crate) struct Driver<M: Machine>(pub(crate) Arc<Shared<M>>);

impl<M: Machine> Future for Driver<M> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = &*self.0;
        let mut state = shared.lock();
        park(&mut state.driver, cx);
        shared.alarm.poll(cx);
        let turn_used = receive_turn(shared, &mut state, cx);
        state.turns_unread = if turn_used { state.turns_unread + 1 } else { 0 };
        if !turn_used || state.turns_unread.is_multiple_of(MOST_TURNS_UNREAD) {
            state.run_timers(shared);
        }
        let mut more = state.advance(shared);
        if state.is_blocked() {
            more = send_when_possible(shared, &mut state, cx);
        }
        let is_done = |state: &State<M>| state.nothing_is_left() || state.is_delivered();
        if state.waiters.somebody_awaits_idle() && is_done(&state) {
            state.waiters.wake_idle();
        }
        if state.handles == 0 && state.is_idle() {
            return Poll::Ready(());
        }
        if turn_used || more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

impl<M: Machine> Drop for Driver<M> {
    /// With something left to do its runtime was shut down: who waits in another one must not wait for ever.
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if state.handles > 0 || !state.is_idle() {
            state.abandon(&self.0);
        }
    }
}

/// Reads what arrived, if it has gathered for long enough. Returns whether the turn ended before the
/// socket was empty; else `cx` is registered for the next arrival, or the alarm is set.
fn receive_turn<M: Machine>(
    shared: &Shared<M>,
    state: &mut State<M>,
    cx: &mut Context<'_>,
) -> bool {
    let now = shared.clock.now();
    let way = state.way.clone();
    // A late host's runtime may not know yet of what its timers must not be blind to.
    let mut look = state.is_due(shared);
    for _ in 0..RECV_TURN_BATCHES {
        let told = match state.gather.until() {
            _ if look => None,
            Some(until) if now < until => return false,
            Some(_) => None,
            None => match way.arrivals.poll(&way.link, cx) {
                Poll::Pending => return false,
                Poll::Ready(Err(e)) => {
                    tracing::error!(error = %e, "the runtime is shutting down");
                    return false;
                }
                Poll::Ready(Ok(guard)) => Some(guard),
            },
        };
        if state.receive(shared) == Received::Drained {
            look = false;
            if let Some(mut guard) = told {
                guard.clear_ready();
            }
            state.drained(shared);
        }
        // Acknowledgments must not wait for the end of the turn.
        state.advance(shared);
    }
    true
}

/// A burst waits for room in the socket's buffer. Sends once there is some, else registers `cx`
/// for when there will be. Returns whether there is more to send at once.
fn send_when_possible<M: Machine>(
    shared: &Shared<M>,
    state: &mut State<M>,
    cx: &mut Context<'_>,
) -> bool {
    let way = state.way.clone();
    while let Poll::Ready(Ok(mut guard)) = way.link.poll_write_ready(cx) {
        guard.clear_ready();
        drop(guard);
        let more = state.advance(shared);
        if !state.is_blocked() {
            return more;
        }
    }
    false
}
