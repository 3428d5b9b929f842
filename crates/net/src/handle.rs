//! What keeps an endpoint going: everything that an application holds of it has one.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tack_tcp::Host;

use crate::shared::{Machine, Shared, State};
use crate::waiters::Ticket;

/// Keeps an endpoint's driver running.
pub(crate) struct Handle<M: Machine = Host>(pub(crate) Arc<Shared<M>>);

impl<M: Machine> Handle<M> {
    pub(crate) fn new(shared: Arc<Shared<M>>) -> Handle<M> {
        shared.lock().handles += 1;
        Handle(shared)
    }
}

impl<M: Machine> Clone for Handle<M> {
    fn clone(&self) -> Handle<M> {
        Handle::new(self.0.clone())
    }
}

impl<M: Machine> Drop for Handle<M> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.handles -= 1;
        if state.handles == 0 {
            state.wake_driver();
        }
    }
}

impl<M: Machine> fmt::Debug for Handle<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

/// What `look` says as soon as it says something: asked now, and whenever `key` happened. Any number of tasks
/// may wait for the same.
pub(crate) async fn wait<M: Machine, T>(
    handle: &Handle<M>,
    key: M::Key,
    mut look: impl FnMut(&mut State<M>) -> Option<T>,
) -> T {
    let mut waiting = Waiting { handle, key, ticket: None };
    poll_fn(|cx| {
        let mut state = handle.0.lock();
        let found = look(&mut state);
        state.settle(&handle.0);
        if let Some(found) = found {
            return Poll::Ready(found);
        }
        let ticket = *waiting.ticket.get_or_insert_with(|| state.waiters.ticket());
        state.waiters.park_as((key, ticket), cx);
        Poll::Pending
    })
    .await
}

/// A task that waits; one that is cancelled is forgotten.
struct Waiting<'a, M: Machine> {
    handle: &'a Handle<M>,
    key: M::Key,
    ticket: Option<Ticket>,
}

impl<M: Machine> Drop for Waiting<'_, M> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.handle.0.lock().waiters.leave((self.key, ticket));
        }
    }
}

/// Waits until whatever was written has arrived.
#[cfg(feature = "quic")]
pub(crate) async fn wait_delivered<M: Machine>(handle: &Handle<M>) {
    poll_fn(|cx| {
        let mut state = handle.0.lock();
        if state.is_delivered() {
            return Poll::Ready(());
        }
        state.waiters.await_idle(cx);
        Poll::Pending
    })
    .await;
}

/// Waits until nothing is left to do, as before the end of a program.
pub(crate) async fn wait_idle<M: Machine>(handle: &Handle<M>) {
    let mut took_leave = false;
    poll_fn(|cx| {
        let mut state = handle.0.lock();
        if state.nothing_is_left() && !core::mem::replace(&mut took_leave, true) {
            state.take_leave(handle.0.clock.now());
        }
        if state.nothing_is_left() {
            return Poll::Ready(());
        }
        state.waiters.await_idle(cx);
        Poll::Pending
    })
    .await;
}
