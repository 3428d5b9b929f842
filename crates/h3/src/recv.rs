//! What is received of a stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h3::quic::{self, StreamErrorIncoming, StreamId};
use tack_net::quic as tack;
use tokio::io::{AsyncRead, ReadBuf};

use crate::error::of_stream;
use crate::stream::id_of;

/// Bytes handed on at a time, at most.
const PIECE_BYTES: usize = 16 << 10;

/// The receiving part of a stream.
#[derive(Debug)]
pub struct RecvStream {
    stream: tack::RecvStream,
    /// What is read goes through here; empty before the first time.
    scratch: Vec<u8>,
}

impl RecvStream {
    pub(crate) fn new(stream: tack::RecvStream) -> RecvStream {
        RecvStream { stream, scratch: Vec::new() }
    }
}

impl quic::RecvStream for RecvStream {
    type Buf = Bytes;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, StreamErrorIncoming>> {
        self.scratch.resize(PIECE_BYTES, 0);
        let mut buf = ReadBuf::new(&mut self.scratch);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buf)).map_err(of_stream)?;
        let piece = buf.filled();
        Poll::Ready(Ok((!piece.is_empty()).then(|| Bytes::copy_from_slice(piece))))
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.stream.stop(error_code);
    }

    fn recv_id(&self) -> StreamId {
        id_of(self.stream.id())
    }
}
