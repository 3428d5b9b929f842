//! The two directions of a stream as owned halves.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::mem;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tack_tcp::Info;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::TackStream;
use crate::error::ended;
use crate::stream::Conn;

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
    pub(crate) fn new(conn: Arc<Conn>) -> Self {
        OwnedReadHalf { conn }
    }

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
        mem::drop(other);
        Ok(TackStream::from_halves(self.conn))
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
    pub(crate) fn new(conn: Arc<Conn>) -> Self {
        OwnedWriteHalf { conn, shut_down_on_drop: true }
    }

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
        poll_fn(|cx| self.conn.poll_finished(cx)).await.map_err(ended)
    }
}

impl AsyncRead for OwnedReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.conn.poll_read(cx, buf)
    }
}

impl AsyncWrite for OwnedWriteHalf {
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
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.conn.shutdown())
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
