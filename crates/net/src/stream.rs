//! One connection as a byte stream, whole or in two halves.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use tack_tcp::{Host, Info, Keepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::conn::Conn;
use crate::error::ended;

/// A connection as a byte stream, used like tokio's `TcpStream`.
///
/// * `shutdown` (of `AsyncWriteExt`) ends our direction after what was written; the peer reads an
///   end of stream and may go on sending. It fails once the connection has, as `write` does.
/// * Dropping the stream delivers what was written and then ends our direction. If something
///   received was not read, or more arrives, or the peer takes nothing for minutes
///   ([`ConnConfig::max_retransmissions`](crate::ConnConfig)), it sees a reset, as from a kernel's TCP.
/// * All operations are cancel safe in the sense of their `tokio::io` extension methods.
#[derive(Debug)]
pub struct TackStream {
    conn: Arc<Conn>,
}

impl TackStream {
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

    /// The UDP ports of our end and of the peer's, between which datagrams go; over a device, where there are none,
    /// the TCP ports.
    pub fn datagram_ports(&self) -> (u16, u16) {
        self.conn.datagram_ports()
    }

    /// Everything the connection tells about itself: state, RTT, rates, ACKs by kind.
    pub fn info(&self) -> Info {
        self.conn.info()
    }

    /// Sends short segments at once (the default), or collects them.
    pub fn set_nodelay(&self, nodelay: bool) {
        self.conn.tell(|host, id, now| host.set_nodelay(id, nodelay, now));
    }

    /// Probes a silent peer, or no longer.
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) {
        self.conn.tell(|host, id, now| host.set_keepalive(id, keepalive, now));
    }

    /// Ends the connection at once; the peer sees a reset. What was not acknowledged is lost.
    pub fn abort(self) {
        self.conn.tell(Host::abort);
    }

    /// Waits until both directions have ended and the peer has acknowledged all we wrote. Shut
    /// down our direction first.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended, if not so.
    pub async fn finished(&self) -> io::Result<()> {
        self.conn.finished().await.map_err(ended)
    }

    /// Looks on from beside whoever uses the stream.
    pub fn watch(&self) -> StreamWatch {
        StreamWatch(Arc::downgrade(&self.conn))
    }

    /// Two halves for two tasks. Dropping the writing half ends our direction.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let write = OwnedWriteHalf { conn: self.conn.clone(), shut_down_on_drop: true };
        (OwnedReadHalf { conn: self.conn }, write)
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
            conn.tell(|host, id, now| host.set_keepalive(id, keepalive, now));
        }
    }

    /// See [`TackStream::abort`]. Whoever uses the stream finds it ended.
    pub fn abort(&self) {
        if let Some(conn) = self.0.upgrade() {
            conn.tell(Host::abort);
        }
    }
}

/// The reading half of a [`TackStream`].
#[derive(Debug)]
pub struct OwnedReadHalf {
    conn: Arc<Conn>,
}

/// The writing half of a [`TackStream`]. Dropping it ends our direction.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    conn: Arc<Conn>,
    shut_down_on_drop: bool,
}

impl OwnedReadHalf {
    /// Puts both halves together again.
    ///
    /// # Errors
    /// Gives both back if they are not halves of one stream.
    pub fn reunite(
        self,
        mut other: OwnedWriteHalf,
    ) -> Result<TackStream, (OwnedReadHalf, OwnedWriteHalf)> {
        if !Arc::ptr_eq(&self.conn, &other.conn) {
            return Err((self, other));
        }
        other.shut_down_on_drop = false;
        Ok(TackStream { conn: self.conn })
    }

    /// See [`TackStream::peer_addr`].
    pub fn peer_addr(&self) -> SocketAddr {
        self.conn.peer_addr()
    }

    /// See [`TackStream::info`].
    pub fn info(&self) -> Info {
        self.conn.info()
    }
}

impl OwnedWriteHalf {
    /// See [`TackStream::peer_addr`].
    pub fn peer_addr(&self) -> SocketAddr {
        self.conn.peer_addr()
    }

    /// See [`TackStream::info`].
    pub fn info(&self) -> Info {
        self.conn.info()
    }

    /// See [`TackStream::finished`].
    ///
    /// # Errors
    /// As there.
    pub async fn finished(&self) -> io::Result<()> {
        self.conn.finished().await.map_err(ended)
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.shut_down_on_drop {
            // Fails only if the connection is over, and then there is nothing to end.
            let _ = self.conn.shutdown();
        }
    }
}

/// Reading and writing are the connection's, whoever has it.
macro_rules! by_conn {
    (AsyncRead for $type:ty) => {
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.conn.poll_read(cx, buf)
            }
        }
    };
    (AsyncWrite for $type:ty) => {
        impl AsyncWrite for $type {
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
    };
}

by_conn!(AsyncRead for TackStream);
by_conn!(AsyncWrite for TackStream);
by_conn!(AsyncRead for OwnedReadHalf);
by_conn!(AsyncWrite for OwnedWriteHalf);
