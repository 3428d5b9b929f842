//! The task behind an endpoint: arrivals, timers and leftovers.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tack_device::Clock;
#[cfg(target_os = "linux")]
use tack_device::Timer;
use tack_units::Instant;
#[cfg(target_os = "linux")]
use tokio::io::unix::AsyncFd;

use crate::shared::{Machine, Received, Shared, State};
use crate::waiters::park;
#[cfg(target_os = "linux")]
use crate::watch::watch;

/// Batches read before other tasks get a turn: what arrived is read while the cache still holds it.
const RECV_TURN_BATCHES: usize = 2;

/// Wakes the driver at a deadline: a kernel timer that any thread may arm.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: AsyncFd<Timer>,
}

#[cfg(target_os = "linux")]
impl Alarm {
    pub(crate) fn new(clock: Clock) -> io::Result<Alarm> {
        Ok(Alarm { timer: watch(Timer::new(clock)?)? })
    }

    /// Be due at `at`. Called under the lock, as the timer asks.
    pub(crate) fn set<M: Machine>(&self, at: Option<Instant>, _state: &State<M>) {
        if let Err(e) = self.timer.get_ref().arm(at) {
            // Only bad arguments can fail, and ours are in range by construction.
            tracing::error!(error = %e, "cannot arm a timer");
        }
    }

    /// Registers `cx` for the next time the alarm is due; takes note if it was.
    fn poll(&self, cx: &mut Context<'_>) {
        while let Poll::Ready(Ok(mut guard)) = self.timer.poll_read_ready(cx) {
            if let Err(e) = self.timer.get_ref().acknowledge() {
                tracing::error!(error = %e, "cannot read a timer");
            }
            guard.clear_ready();
        }
    }
}

/// Wakes the driver at a deadline through the runtime's timers, which are a millisecond or two
/// late: what became due in between leaves as one burst.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    sleep: std::sync::Mutex<(Option<Instant>, Pin<Box<tokio::time::Sleep>>)>,
}

#[cfg(not(target_os = "linux"))]
impl Alarm {
    pub(crate) fn new(clock: Clock) -> io::Result<Alarm> {
        let sleep = Box::pin(tokio::time::sleep(core::time::Duration::ZERO));
        Ok(Alarm { clock, sleep: std::sync::Mutex::new((None, sleep)) })
    }

    /// Be due at `at`: the driver has to look, because only it can register for the sleep.
    pub(crate) fn set<M: Machine>(&self, at: Option<Instant>, state: &State<M>) {
        let mut sleep = self.sleep.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(at) = at else { return };
        if sleep.0.is_some_and(|armed| armed <= at) {
            return;
        }
        sleep.0 = Some(at);
        let delay = at - self.clock.now();
        sleep.1.as_mut().reset(tokio::time::Instant::now() + delay);
        state.wake_driver();
    }

    fn poll(&self, cx: &mut Context<'_>) {
        let mut sleep = self.sleep.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if sleep.0.is_some() && sleep.1.as_mut().poll(cx).is_ready() {
            sleep.0 = None;
        }
    }
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

/// Reads what arrived, if it has gathered for long enough. Returns whether the turn ended before the
/// socket was empty; else `cx` is registered for the next arrival, or the alarm is set.
fn receive_turn<M: Machine>(
    shared: &Shared<M>,
    state: &mut State<M>,
    cx: &mut Context<'_>,
) -> bool {
    let now = shared.clock.now();
    let way = state.way.clone();
    for _ in 0..RECV_TURN_BATCHES {
        let told = match state.gather.until() {
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
