//! A connection as tasks use it: each call drives the transport in place.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use tack_tcp::{ConnId, ConnectionError, Host, Info, Remote, State};
use tack_units::Instant;
use tokio::io::ReadBuf;
use tokio::task::coop::poll_proceed;

use crate::error::{ended, misused};
use crate::handle::{Handle, wait};
use crate::host::{Key, What};

/// A connection's place in its endpoint, given up on drop.
#[derive(Debug)]
pub(crate) struct Conn {
    handle: Handle,
    id: ConnId,
    local: SocketAddr,
    peer: Remote,
}

impl Conn {
    pub(crate) fn new(handle: Handle, id: ConnId, local: SocketAddr, peer: Remote) -> Conn {
        Conn { handle, id, local, peer }
    }

    pub(crate) fn peer_addr(&self) -> SocketAddr {
        SocketAddr::new(self.peer.path.ip(), self.peer.port)
    }

    /// Has the transport do something with the connection, and all that follows from it.
    pub(crate) fn tell<T>(&self, what: impl FnOnce(&mut Host, ConnId, Instant) -> T) -> T {
        let shared = &self.handle.0;
        let mut state = shared.lock();
        let done = what(&mut state.host, self.id, shared.clock.now());
        state.settle(shared);
        done
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        let state = self.handle.0.lock();
        let ip = state.host.local_ip(self.id).unwrap_or(self.local.ip());
        SocketAddr::new(ip, state.host.local_port(self.id).unwrap_or(self.local.port()))
    }

    pub(crate) fn datagram_ports(&self) -> (u16, u16) {
        match self.local.port() {
            0 => (self.local_addr().port(), self.peer.port),
            ours => (ours, self.peer.path.port()),
        }
    }

    pub(crate) fn info(&self) -> Info {
        let info = self.handle.0.lock().host.info(self.id);
        info.expect("the host knows a connection until it is given up, which is when this drops")
    }

    pub(crate) fn poll_connected(&self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        let mut state = self.handle.0.lock();
        if let Some(how) = state.host.closed(self.id) {
            return Poll::Ready(Err(how.err().unwrap_or(ConnectionError::Aborted)));
        }
        let attempting = |info: &Info| matches!(info.state, State::SynSent | State::SynReceived);
        if !state.host.info(self.id).as_ref().is_some_and(attempting) {
            return Poll::Ready(Ok(()));
        }
        state.waiters.park(Key::Conn(self.id, What::State), cx);
        Poll::Pending
    }

    /// Waits for the end of everything; any number of tasks may.
    pub(crate) async fn finished(&self) -> Result<(), ConnectionError> {
        let ended = Key::Conn(self.id, What::State);
        wait(&self.handle, ended, |state| state.host.closed(self.id)).await
    }

    pub(crate) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let coop = ready!(poll_proceed(cx));
        let shared = &self.handle.0;
        let mut state = shared.lock();
        // Twice: what has just arrived may wait in the socket.
        for attempt in 0..2 {
            let (first, second) = state.host.readable(self.id);
            let n = put(buf, first) + put(buf, second);
            if n > 0 {
                state.host.consume(self.id, n, shared.clock.now());
                state.settle(shared);
                coop.made_progress();
                return Poll::Ready(Ok(()));
            }
            if state.host.at_end(self.id) {
                return Poll::Ready(Ok(()));
            }
            if let Some(how) = state.host.closed(self.id) {
                return Poll::Ready(how.map_err(ended));
            }
            if attempt == 0 {
                state.receive(shared);
                state.settle(shared);
            }
        }
        state.waiters.park(Key::Conn(self.id, What::Read), cx);
        Poll::Pending
    }

    pub(crate) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let coop = ready!(poll_proceed(cx));
        let shared = &self.handle.0;
        let mut state = shared.lock();
        // Twice: the acknowledgment that makes room may wait in the socket.
        for attempt in 0..2 {
            let written = state.host.write_vectored(self.id, bufs, shared.clock.now());
            let n = match written {
                Ok(n) => n,
                Err(e) => return Poll::Ready(Err(misused(e))),
            };
            if n > 0 || bufs.iter().all(|b| b.is_empty()) {
                state.settle(shared);
                coop.made_progress();
                return Poll::Ready(Ok(n));
            }
            if attempt == 0 {
                state.receive(shared);
                state.settle(shared);
            }
        }
        state.waiters.park(Key::Conn(self.id, What::Write), cx);
        Poll::Pending
    }

    pub(crate) fn shutdown(&self) -> io::Result<()> {
        self.tell(Host::shutdown_write).map_err(misused)
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        let shared = &self.handle.0;
        let mut state = shared.lock();
        state.waiters.forget(Key::all_of(self.id));
        state.host.close(self.id, shared.clock.now());
        state.settle(shared);
        // It may have been the last one somebody waits for.
        state.wake_driver();
    }
}

/// Copies as much of `bytes` into `buf` as there is room for.
fn put(buf: &mut ReadBuf<'_>, bytes: &[u8]) -> usize {
    let n = bytes.len().min(buf.remaining());
    buf.put_slice(&bytes[..n]);
    n
}
