//! One connection as a byte stream.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use tack_tcp::{ConnId, ConnectionError, Info, Keepalive, Remote, State};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::ToSocketAddrs;
use tokio::task::coop::poll_proceed;

use crate::dial::{Reach, first_of, resolve};
use crate::endpoint::{Handle, any_addr_like};
use crate::error::{ended, misused};
use crate::host::{Key, What};
use crate::{ConnectError, Endpoint, OwnedReadHalf, OwnedWriteHalf};

/// A connection as a byte stream, used like tokio's `TcpStream`.
///
/// * `shutdown` (of `AsyncWriteExt`) ends our direction after what was written; the peer reads an
///   end of stream and may go on sending.
/// * Dropping the stream delivers what was written and then ends our direction. If something
///   received was not read, or more arrives, the peer sees a reset, as from a kernel's TCP.
/// * All operations are cancel safe in the sense of their `tokio::io` extension methods.
#[derive(Debug)]
pub struct TackStream {
    conn: Arc<Conn>,
}

impl TackStream {
    /// Connects to a listener at `host` without encryption, from an endpoint of its own with
    /// defaults; see [`Endpoint::connect_plain`].
    ///
    /// # Errors
    /// As there, or no socket.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect_plain(host: impl ToSocketAddrs) -> Result<TackStream, ConnectError> {
        let addresses = resolve(host, Reach::ALL).await?;
        first_of(addresses, |peer| async move {
            Endpoint::bind(any_addr_like(peer))?.connect_plain(peer).await
        })
        .await
    }

    pub(crate) fn new(conn: Conn) -> TackStream {
        TackStream { conn: Arc::new(conn) }
    }

    /// Where the peer's datagrams come from, with its TCP port.
    pub fn peer_addr(&self) -> SocketAddr {
        self.conn.peer_addr()
    }

    /// Our socket's address, or ours on the device, with our TCP port.
    pub fn local_addr(&self) -> SocketAddr {
        self.conn.local_addr()
    }

    /// Everything the connection tells about itself: state, RTT, rates, ACKs by kind.
    pub fn info(&self) -> Info {
        self.conn.info()
    }

    /// Sends short segments at once (the default), or collects them.
    pub fn set_nodelay(&self, nodelay: bool) {
        let shared = &self.conn.handle.0;
        let mut state = shared.lock();
        state.host.set_nodelay(self.conn.id, nodelay, shared.clock.now());
        state.settle(shared);
    }

    /// Probes a silent peer, or no longer.
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) {
        self.conn.set_keepalive(keepalive);
    }

    /// Ends the connection at once; the peer sees a reset. What was not acknowledged is lost.
    pub fn abort(self) {
        let shared = &self.conn.handle.0;
        let mut state = shared.lock();
        state.host.abort(self.conn.id, shared.clock.now());
        state.settle(shared);
    }

    /// Waits until both directions have ended and the peer has acknowledged all we wrote. Shut
    /// down our direction first.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended, if not so.
    pub async fn finished(&self) -> io::Result<()> {
        poll_fn(|cx| self.conn.poll_finished(cx)).await.map_err(ended)
    }

    /// Looks on from beside whoever uses the stream.
    pub fn watch(&self) -> StreamWatch {
        StreamWatch(Arc::downgrade(&self.conn))
    }

    /// Two halves for two tasks. Dropping the writing half ends our direction.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        (OwnedReadHalf::new(self.conn.clone()), OwnedWriteHalf::new(self.conn))
    }

    pub(crate) fn from_halves(conn: Arc<Conn>) -> TackStream {
        TackStream { conn }
    }
}

/// Looks at a stream that somebody else uses, and may end it. Does not keep it open.
#[derive(Clone, Debug)]
pub struct StreamWatch(Weak<Conn>);

impl StreamWatch {
    /// See [`TackStream::info`]; `None` once the stream was dropped.
    pub fn info(&self) -> Option<Info> {
        self.0.upgrade().map(|conn| conn.info())
    }

    /// Bytes of memory that its buffers take; none once the stream was dropped.
    pub fn buffer_memory(&self) -> usize {
        self.info().map_or(0, |info| info.buffer_memory)
    }

    /// See [`TackStream::set_keepalive`].
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) {
        if let Some(conn) = self.0.upgrade() {
            conn.set_keepalive(keepalive);
        }
    }

    /// See [`TackStream::abort`]. Whoever uses the stream finds it ended.
    pub fn abort(&self) {
        let Some(conn) = self.0.upgrade() else { return };
        let shared = &conn.handle.0;
        let mut state = shared.lock();
        state.host.abort(conn.id, shared.clock.now());
        state.settle(shared);
    }
}

impl AsyncRead for TackStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.conn.poll_read(cx, buf)
    }
}

impl AsyncWrite for TackStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.conn.poll_write(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.conn.poll_write(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Writes are handed to the transport at once; nothing waits here.
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.conn.shutdown())
    }
}

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

    fn set_keepalive(&self, keepalive: Option<Keepalive>) {
        let shared = &self.handle.0;
        let mut state = shared.lock();
        state.host.set_keepalive(self.id, keepalive, shared.clock.now());
        state.settle(shared);
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        let state = self.handle.0.lock();
        let ip = state.host.local_ip(self.id).unwrap_or(self.local.ip());
        SocketAddr::new(ip, state.host.local_port(self.id).unwrap_or(self.local.port()))
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

    pub(crate) fn poll_finished(&self, cx: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        let mut state = self.handle.0.lock();
        if let Some(how) = state.host.closed(self.id) {
            return Poll::Ready(how);
        }
        state.waiters.park(Key::Conn(self.id, What::State), cx);
        Poll::Pending
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
        let shared = &self.handle.0;
        let mut state = shared.lock();
        let done = state.host.shutdown_write(self.id, shared.clock.now());
        state.settle(shared);
        match done {
            // Ended before, in order or by us: nothing is left to shut down.
            Ok(()) | Err(tack_tcp::UseError::SendingEnded) => Ok(()),
            Err(e) => Err(misused(e)),
        }
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
