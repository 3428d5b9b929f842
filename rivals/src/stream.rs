//! A stream of any stack. Each is read and written in the way that is its fastest.

use std::io;

use anyhow::Result;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What is both read and written.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Duplex for T {}

/// A stream, with its connection, which would end without a handle.
#[expect(dead_code, reason = "a handle is held, not read")]
pub(crate) enum Stream {
    Plain(Box<dyn Duplex>),
    #[cfg(feature = "quinn")]
    Quinn(quinn::SendStream, quinn::RecvStream, quinn::Connection),
    #[cfg(feature = "noq")]
    Noq(noq::SendStream, noq::RecvStream, noq::Connection),
    #[cfg(feature = "s2n")]
    S2n(s2n_quic::stream::BidirectionalStream, s2n_quic::connection::Handle),
    #[cfg(feature = "quiche")]
    Quiche(crate::stack::quiche::Stream),
}

impl Stream {
    pub(crate) fn plain(stream: impl Duplex + 'static) -> Stream {
        Stream::Plain(Box::new(stream))
    }

    pub(crate) async fn write(&mut self, data: Bytes) -> Result<()> {
        match self {
            Stream::Plain(stream) => stream.write_all(&data).await?,
            #[cfg(feature = "quinn")]
            Stream::Quinn(send, ..) => send.write_chunk(data).await?,
            #[cfg(feature = "noq")]
            Stream::Noq(send, ..) => send.write_chunk(data).await?,
            #[cfg(feature = "s2n")]
            Stream::S2n(stream, _) => stream.send(data).await?,
            #[cfg(feature = "quiche")]
            Stream::Quiche(stream) => stream.write(data).await?,
        }
        Ok(())
    }

    /// Has what was written leave. It does so by itself where a stack is a library; and s2n-quic's own
    /// `flush` is another thing, which waits until the peer has acknowledged everything.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        if let Stream::Plain(stream) = self {
            stream.flush().await?;
        }
        Ok(())
    }

    /// Says that no more will be written.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        match self {
            Stream::Plain(stream) => stream.shutdown().await?,
            #[cfg(feature = "quinn")]
            Stream::Quinn(send, ..) => send.finish()?,
            #[cfg(feature = "noq")]
            Stream::Noq(send, ..) => send.finish()?,
            #[cfg(feature = "s2n")]
            Stream::S2n(stream, _) => stream.finish()?,
            #[cfg(feature = "quiche")]
            Stream::Quiche(stream) => stream.finish()?,
        }
        Ok(())
    }

    /// How many bytes came, 0 at the end; what they were is forgotten.
    pub(crate) async fn skip(&mut self, scratch: &mut [u8]) -> Result<usize> {
        Ok(match self {
            Stream::Plain(stream) => stream.read(scratch).await?,
            #[cfg(feature = "quinn")]
            Stream::Quinn(_, recv, _) => {
                recv.read_chunk(usize::MAX, true).await?.map_or(0, |chunk| chunk.bytes.len())
            }
            #[cfg(feature = "noq")]
            Stream::Noq(_, recv, _) => {
                recv.read_chunk(usize::MAX).await?.map_or(0, |chunk| chunk.len())
            }
            #[cfg(feature = "s2n")]
            Stream::S2n(stream, _) => stream.receive().await?.map_or(0, |chunk| chunk.len()),
            #[cfg(feature = "quiche")]
            Stream::Quiche(stream) => stream.read(scratch).await?,
        })
    }

    /// Some bytes of what came, how many; 0 at the end. Cancel safe.
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        Ok(match self {
            Stream::Plain(stream) => stream.read(buffer).await?,
            #[cfg(feature = "quinn")]
            Stream::Quinn(_, recv, _) => recv.read(buffer).await?.unwrap_or(0),
            #[cfg(feature = "noq")]
            Stream::Noq(_, recv, _) => recv.read(buffer).await?.unwrap_or(0),
            #[cfg(feature = "s2n")]
            Stream::S2n(stream, _) => stream.read(buffer).await?,
            #[cfg(feature = "quiche")]
            Stream::Quiche(stream) => stream.read(buffer).await?,
        })
    }

    /// Fills `buffer`; `false` where the stream ended before its first byte.
    pub(crate) async fn fill(&mut self, buffer: &mut [u8]) -> Result<bool> {
        let mut at = 0;
        while at < buffer.len() {
            match self.read(&mut buffer[at..]).await? {
                0 if at == 0 => return Ok(false),
                0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                n => at += n,
            }
        }
        Ok(true)
    }
}
