//! The receiving part of a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tack_quic::UseError;
use tack_quic::streams::StreamId;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::coop::poll_proceed;

use super::connection::Place;
use super::error::{closed, ended, refused};
use super::machine::{Key, What};

/// The receiving part of a stream. Dropping it before its end tells the peer that no more is wanted,
/// with code 0.
#[derive(Debug)]
pub struct RecvStream {
    place: Arc<Place>,
    id: StreamId,
    /// The end was read, or there is none.
    over: bool,
    /// Why there is none.
    failed: Option<UseError>,
}

impl RecvStream {
    pub(super) fn new(place: Arc<Place>, id: StreamId) -> RecvStream {
        RecvStream { place, id, over: false, failed: None }
    }

    /// Its ID.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// Wants no more of it, and tells the peer the application's `code`; what arrives is dropped.
    pub fn stop(&mut self, code: u64) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let shared = &self.place.handle.0;
        let mut state = shared.lock();
        if let Some(conn) = state.host.connection(self.place.id) {
            // Fails only for a stream that is done with.
            let _ = conn.stop(self.id, code);
        }
        state.settle(shared);
    }
}

impl AsyncRead for RecvStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 || self.over && self.failed.is_none() {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = self.failed {
            // Whoever asks again is not to take it for an end.
            let state = self.place.handle.0.lock();
            return Poll::Ready(Err(refused(&state, self.place.id, error)));
        }
        let coop = ready!(poll_proceed(cx));
        let (place, id) = (self.place.clone(), self.id);
        let shared = &place.handle.0;
        let mut state = shared.lock();
        // Twice: what has just arrived may wait in the socket.
        for attempt in 0..2 {
            let Some(conn) = state.host.connection(place.id) else { break };
            match conn.read(id, buf.initialize_unfilled()) {
                Ok(Some(n @ 1..)) => {
                    buf.advance(n);
                    state.settle(shared);
                    coop.made_progress();
                    return Poll::Ready(Ok(()));
                }
                Ok(Some(0)) => {}
                Ok(_) => {
                    state.settle(shared);
                    self.over = true;
                    return Poll::Ready(Ok(()));
                }
                Err(error) => {
                    state.settle(shared);
                    (self.over, self.failed) = (true, Some(error));
                    return Poll::Ready(Err(refused(&state, place.id, error)));
                }
            }
            if let Some(error) = closed(&state, place.id) {
                return Poll::Ready(Err(ended(error)));
            }
            if attempt == 0 {
                state.receive(shared);
                state.settle(shared);
            }
        }
        state.waiters.park(Key::Conn(place.id, What::Read(id)), cx);
        Poll::Pending
    }
}

impl Drop for RecvStream {
    fn drop(&mut self) {
        self.stop(0);
        let read = Key::Conn(self.place.id, What::Read(self.id));
        self.place.handle.0.lock().waiters.forget(read..=read);
    }
}
