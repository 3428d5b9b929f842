//! One connection as a byte stream, whoever's it is.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

use super::PATIENCE;

/// Bytes that are written or read at a time.
const PIECE: usize = 64 << 10;
static DATA: [u8; PIECE] = [0x5a; PIECE];

pub(super) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// quinn's is told apart, for its own ways to read and write copy nothing.
pub(super) enum Stream {
    Bytes(Box<dyn Duplex>),
    Quinn(quinn::Connection, quinn::SendStream, quinn::RecvStream),
}

impl Stream {
    pub(super) fn of(stream: impl Duplex + 'static) -> Stream {
        Stream::Bytes(Box::new(stream))
    }

    /// Says a number and hears it again.
    pub(super) async fn heard(&mut self, number: u64) -> bool {
        let mut answer = [0; 8];
        let asking = async {
            self.write_all(&number.to_be_bytes()).await?;
            self.flush().await?;
            self.read_exact(&mut answer).await
        };
        let asked = timeout(PATIENCE, asking).await;
        matches!(asked, Ok(Ok(_))) && answer == number.to_be_bytes()
    }

    /// Says again what it hears, to the end.
    pub(super) async fn echo(mut self) -> io::Result<()> {
        while self.say_again().await.is_ok() {}
        self.shutdown().await?;
        if let Stream::Quinn(connection, ..) = &self {
            // Else it would take back what it said last.
            connection.closed().await;
        }
        Ok(())
    }

    async fn say_again(&mut self) -> io::Result<()> {
        let mut number = [0; 8];
        self.read_exact(&mut number).await?;
        self.write_all(&number).await?;
        self.flush().await
    }

    /// Sends as fast as it goes, until something breaks.
    pub(super) async fn pour(mut self) -> io::Result<()> {
        loop {
            match &mut self {
                Stream::Bytes(stream) => stream.write_all(&DATA).await?,
                Stream::Quinn(_, send, _) => send.write_chunk(Bytes::from_static(&DATA)).await?,
            }
        }
    }

    /// Says its number again, and counts what comes behind it.
    pub(super) async fn drain(mut self, count: &AtomicU64) -> io::Result<()> {
        self.say_again().await?;
        loop {
            let read = match &mut self {
                Stream::Bytes(stream) => poll_fn(|cx| poll_count(stream, cx)).await?,
                Stream::Quinn(_, _, recv) => {
                    let chunk = recv.read_chunk(usize::MAX, true).await?;
                    chunk.map_or(0, |chunk| chunk.bytes.len())
                }
            };
            if read == 0 {
                return Ok(());
            }
            count.fetch_add(read as u64, Relaxed);
        }
    }
}

/// All share one buffer: what a thousand of them held would not be the transport's.
fn poll_count(stream: &mut dyn Duplex, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
    thread_local! {
        static BUFFER: std::cell::RefCell<Vec<u8>> = vec![0; PIECE].into();
    }
    BUFFER.with_borrow_mut(|buffer| {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    })
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Bytes(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Quinn(_, _, recv) => AsyncRead::poll_read(Pin::new(recv), cx, buf),
        }
    }
}

/// Runs a poll method on what is written to.
macro_rules! writer {
    ($self:ident, $method:ident($($arg:expr),*)) => {
        match $self.get_mut() {
            Stream::Bytes(stream) => Pin::new(stream).$method($($arg),*),
            Stream::Quinn(_, send, _) => AsyncWrite::$method(Pin::new(send), $($arg),*),
        }
    };
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        writer!(self, poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        writer!(self, poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        writer!(self, poll_shutdown(cx))
    }
}
