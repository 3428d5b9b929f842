//! A connection with one stream for both sides, as a byte stream.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tack_quic::{ConnectionError, MOST_LEAVING, UseError};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::{Connection, RecvStream, SendStream};

/// What a connection with one stream is closed with that is given up.
pub const GIVEN_UP: u64 = 1;

/// A connection whose one stream is used like a [`TackStream`](crate::TackStream): for protocols that know
/// byte streams and no more.
///
/// * `shutdown` (of `AsyncWriteExt`) ends our direction after what was written; the peer reads an end of
///   stream and may go on sending.
/// * Dropping it delivers what was written, ends our direction, and then closes the connection with code
///   0. What the peer writes meanwhile is not read any more.
#[derive(Debug)]
pub struct QuicStream {
    // Streams end before the connection is left.
    send: SendStream,
    recv: RecvStream,
    connection: Connection,
}

impl QuicStream {
    /// Opens the stream. The peer hears of it with the first bytes.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn open(connection: Connection) -> io::Result<QuicStream> {
        let (send, recv) = connection.open_bi().await?;
        Ok(QuicStream { send, recv, connection })
    }

    /// Takes the stream that the peer opens.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended.
    pub async fn accept(connection: Connection) -> io::Result<QuicStream> {
        let (send, recv) = connection.accept_bi().await?;
        Ok(QuicStream { send, recv, connection })
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Our socket's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.connection.local_address()
    }

    /// Where the peer's datagrams come from now.
    pub fn peer_addr(&self) -> SocketAddr {
        self.connection.remote_address()
    }

    /// Ends the connection at once, with code 1. What was not acknowledged is lost.
    pub fn abort(self) {
        self.connection.close(GIVEN_UP, &[]);
    }

    /// Waits until the peer has acknowledged all we wrote, and the end, or has closed the connection with
    /// code 0, which says so. Shut down our direction first. A peer that dropped its stream has a minute to
    /// close.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// How the connection ended, if not so.
    pub async fn finished(&self) -> io::Result<()> {
        let finished = self.send.finished().await;
        // Whoever drops its stream stops ours first; how it went, its close says, which is not longer in coming.
        let how = match &finished {
            Err(error) if is_stopped(error) => {
                timeout(MOST_LEAVING, self.connection.closed()).await.ok()
            }
            _ => self.connection.close_reason(),
        };
        match how {
            Some(ConnectionError::ClosedByApplication { code: 0, .. }) => Ok(()),
            _ => finished,
        }
    }
}

/// The peer reads no more, and gives the reason of one that was dropped.
fn is_stopped(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(UseError::Stopped(0)))
}

impl AsyncRead for QuicStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.recv).poll_read(cx, buf)
    }
}

impl AsyncWrite for QuicStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.send).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.send).poll_write_vectored(cx, bufs)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.send).poll_shutdown(cx)
    }
}

impl Drop for QuicStream {
    fn drop(&mut self) {
        // Fails only if nothing is left to end.
        let _ = self.send.finish();
        self.connection.leave();
    }
}
