//! Taking connections in.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};

use crate::conn::Conn;
use crate::handle::Handle;
use crate::host::Key;
use crate::{ListenError, TackStream};

/// A listening port of an [`Endpoint`](crate::Endpoint). Dropping it aborts what was not accepted.
#[derive(Debug)]
pub struct TackListener {
    handle: Handle,
    local: SocketAddr,
    port: u16,
}

impl TackListener {
    pub(crate) fn new(handle: Handle, local: SocketAddr, port: u16) -> TackListener {
        TackListener { handle, local, port }
    }

    /// The socket's address, with the TCP port listened on.
    pub fn local_addr(&self) -> SocketAddr {
        SocketAddr::new(self.local.ip(), self.port)
    }

    /// The next connection and where it comes from.
    ///
    /// Cancel safe: a connection is taken only when it is returned. One task waits at a time: of
    /// several, the last to ask is woken.
    ///
    /// # Errors
    /// The endpoint was closed.
    pub async fn accept(&self) -> io::Result<(TackStream, SocketAddr)> {
        std::future::poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Poll form of [`TackListener::accept`].
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TackStream, SocketAddr)>> {
        let mut state = self.handle.0.lock();
        if state.closed {
            return Poll::Ready(Err(ListenError::EndpointClosed.into()));
        }
        while let Some(id) = state.host.accept(self.port) {
            // A connection may end while it waits; then nobody is there any more.
            let Some(peer) = state.host.remote(id) else { continue };
            state.settle(&self.handle.0);
            drop(state);
            let conn = Conn::new(self.handle.clone(), id, self.local, peer);
            return Poll::Ready(Ok((TackStream::new(conn), peer.path)));
        }
        state.waiters.park(Key::Listener(self.port), cx);
        Poll::Pending
    }
}

impl Drop for TackListener {
    fn drop(&mut self) {
        let shared = &self.handle.0;
        let mut state = shared.lock();
        let listener = Key::Listener(self.port);
        state.waiters.forget(listener..=listener);
        state.host.close_listener(self.port, shared.clock.now());
        state.settle(shared);
    }
}
