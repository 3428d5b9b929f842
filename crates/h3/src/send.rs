//! What is sent on a stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
use h3::quic::{self, SendStreamUnframed, StreamErrorIncoming, StreamId, WriteBuf};
use tack_net::quic as tack;
use tokio::io::AsyncWrite;

use crate::error::of_stream;
use crate::stream::id_of;

/// The sending part of a stream.
pub struct SendStream<B> {
    stream: tack::SendStream,
    /// Was handed over and is not written yet.
    writing: Option<WriteBuf<B>>,
}

impl<B> SendStream<B> {
    pub(crate) fn new(stream: tack::SendStream) -> SendStream<B> {
        SendStream { stream, writing: None }
    }

    fn check_ready(&self) -> Result<(), StreamErrorIncoming> {
        if self.writing.is_none() {
            return Ok(());
        }
        // Whoever gave up waiting in the midst of a frame. It is this stream's end, and no other's.
        let reason = "a stream is written to before it is ready";
        Err(StreamErrorIncoming::Unknown(reason.into()))
    }
}

impl<B> std::fmt::Debug for SendStream<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SendStream").field(&self.stream).finish()
    }
}

impl<B: Buf> quic::SendStream<B> for SendStream<B> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        if let Some(data) = &mut self.writing {
            while data.has_remaining() {
                let writing = Pin::new(&mut self.stream).poll_write(cx, data.chunk());
                match ready!(writing) {
                    Ok(n) => data.advance(n),
                    Err(error) => {
                        // Nothing waits any more, for who tries again is to hear the same.
                        self.writing = None;
                        return Poll::Ready(Err(of_stream(error)));
                    }
                }
            }
        }
        self.writing = None;
        Poll::Ready(Ok(()))
    }

    fn send_data<T: Into<WriteBuf<B>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.check_ready()?;
        self.writing = Some(data.into());
        Ok(())
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        ready!(self.poll_ready(cx))?;
        Poll::Ready(self.stream.finish().map_err(of_stream))
    }

    fn reset(&mut self, reset_code: u64) {
        self.stream.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        id_of(self.stream.id())
    }
}

impl<B: Buf> SendStreamUnframed<B> for SendStream<B> {
    fn poll_send<D: Buf>(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut D,
    ) -> Poll<Result<usize, StreamErrorIncoming>> {
        self.check_ready()?;
        let writing = Pin::new(&mut self.stream).poll_write(cx, buf.chunk());
        let n = ready!(writing).map_err(of_stream)?;
        buf.advance(n);
        Poll::Ready(Ok(n))
    }
}
