//! What keeps an endpoint going: everything that an application holds of it has one.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tack_tcp::Host;

use crate::shared::{Machine, Shared};

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
