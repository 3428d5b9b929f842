//! The sending part of a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tack_quic::UseError;
use tack_quic::streams::StreamId;
use tokio::io::AsyncWrite;
use tokio::task::coop::poll_proceed;

use super::connection::Place;
use super::error::{closed, ended, refused};
use super::machine::{Key, What};

/// The sending part of a stream.
///
/// `shutdown` (of `AsyncWriteExt`) ends it after what was written, and so does dropping it. Its
/// operations are cancel safe in the sense of their `tokio::io` extension methods.
#[derive(Debug)]
pub struct SendStream {
    place: Arc<Place>,
    id: StreamId,
    /// It was finished or reset.
    over: bool,
}

impl SendStream {
    pub(super) fn new(place: Arc<Place>, id: StreamId) -> SendStream {
        SendStream { place, id, over: false }
    }

    /// Its ID.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Ends the stream after what was written.
    ///
    /// # Errors
    /// The peer stopped it, or the connection ended.
    pub fn finish(&mut self) -> io::Result<()> {
        if self.over {
            return Ok(());
        }
        let shared = &self.place.handle.0;
        let mut state = shared.lock();
        let conn = state.host.connection(self.place.id);
        let done = conn.map_or(Err(UseError::Closed), |conn| conn.finish(self.id));
        let done = done.map_err(|error| refused(&state, self.place.id, error));
        state.settle(shared);
        self.over = done.is_ok();
        done
    }

    /// Gives the stream up, and tells the peer the application's `code`; what was written may never
    /// arrive.
    pub fn reset(&mut self, code: u64) {
        let shared = &self.place.handle.0;
        let mut state = shared.lock();
        if let Some(conn) = state.host.connection(self.place.id) {
            // Fails only for a stream that is done with.
            let _ = conn.reset(self.id, code);
        }
        state.settle(shared);
        self.over = true;
    }

    /// Streams of greater priority are sent first, those of the same take turns; 0 at first.
    pub fn set_priority(&self, priority: i32) {
        let mut state = self.place.handle.0.lock();
        if let Some(conn) = state.host.connection(self.place.id) {
            // Fails only for a stream that is done with.
            let _ = conn.set_priority(self.id, priority);
        }
    }

    /// Waits until the peer has acknowledged everything, the end included: finish it first. A stream
    /// that was reset is done with when the peer knows.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The peer wants no more of it, or the connection ended.
    pub async fn finished(&self) -> io::Result<()> {
        let (place, id) = (&self.place, self.id);
        place
            .wait(What::Done(id), |state| {
                let conn = state.host.peek(place.id);
                // Before whether it is done: one that was stopped is, too, once the peer knows.
                if let Some(code) = conn.and_then(|conn| conn.stopped(id)) {
                    return Some(Err(refused(state, place.id, UseError::Stopped(code))));
                }
                if conn.is_some_and(|conn| conn.is_done(id)) {
                    return Some(Ok(()));
                }
                closed(state, place.id).map(|error| Err(ended(error)))
            })
            .await
    }
}

impl AsyncWrite for SendStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let coop = ready!(poll_proceed(cx));
        let (place, id) = (&self.place, self.id);
        let shared = &place.handle.0;
        let mut state = shared.lock();
        // Twice: the acknowledgment that makes room may wait in the socket.
        for attempt in 0..2 {
            let conn = state.host.connection(place.id);
            match conn.map_or(Err(UseError::Closed), |conn| conn.write(id, buf)) {
                Ok(n) if n > 0 || buf.is_empty() => {
                    state.settle(shared);
                    coop.made_progress();
                    return Poll::Ready(Ok(n));
                }
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(refused(&state, place.id, error))),
            }
            if attempt == 0 {
                state.receive(shared);
                state.settle(shared);
            }
        }
        state.waiters.park(Key::Conn(place.id, What::Write(id)), cx);
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Writes are handed to the transport at once; nothing waits here.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.finish())
    }
}

impl Drop for SendStream {
    fn drop(&mut self) {
        // Fails only if nothing is left to end.
        let _ = self.finish();
        let (id, write) = (self.place.id, Key::Conn(self.place.id, What::Write(self.id)));
        let mut state = self.place.handle.0.lock();
        state.waiters.forget(write..=write);
        if let Some(conn) = state.host.connection(id) {
            conn.let_go(self.id);
        }
    }
}
