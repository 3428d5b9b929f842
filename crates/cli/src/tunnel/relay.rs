//! Bytes both ways between a program's connection and its stream.
//!
//! Each direction ends by itself. An error on one side is one on the other: both are aborted, so
//! that a reset passes through. A direction holds one buffer, and only while bytes are on their way,
//! so that idle connections cost little; whoever writes faster than the other side takes is not read
//! from.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::protocol::{Answer, ProtocolError, Refusal};
use crate::conn::Connection;
use crate::stop::Stop;

/// A direction's buffer at first, and the most it grows to while reads fill it.
const LEAST_CHUNK: usize = 4 << 10;
const MOST_CHUNK: usize = 128 << 10;

/// What passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Bytes from the program into the stream.
    pub up: u64,
    /// Bytes from the stream to the program.
    pub down: u64,
}

/// Why a relay ended before both directions had.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The program's side broke.
    #[error("the program's connection broke: {0}")]
    Program(io::Error),
    /// The tunnel's side broke.
    #[error("the stream broke: {0}")]
    Stream(io::Error),
    /// The server would not open the stream.
    #[error("{}", .0.why)]
    Refused(Refusal),
    /// The server said something else.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// We are told to end.
    #[error("stopped")]
    Stopped,
}

/// What goes before the bytes that are read.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    /// Into the stream, before what the program sends.
    pub up: Vec<u8>,
    /// To the program, before what the stream brings.
    pub down: Vec<u8>,
    /// The stream begins with the server's answer, which is not the program's.
    pub answer: bool,
}

/// Moves bytes until both directions have ended; on an error, or told to stop, aborts both
/// connections.
///
/// # Errors
/// How it ended otherwise.
pub async fn relay<S: Connection, P: Connection>(
    mut stream: S,
    mut program: P,
    opening: Opening,
    stop: &Stop,
) -> Result<Passed, RelayError> {
    let mut up = Pipe::new(opening.up);
    let mut down = Pipe::new(opening.down);
    let mut head = opening.answer.then(Vec::new);
    let moving = poll_fn(|cx| {
        let upward = up.poll(cx, &mut program, &mut stream).map_err(|broken| match broken {
            Broken::Source(e) => RelayError::Program(e),
            Broken::Sink(e) => RelayError::Stream(e),
        })?;
        if let Some(bytes) = &mut head {
            match ready!(poll_message(cx, &mut stream, bytes, Answer::read)) {
                Err(e) => return Poll::Ready(Err(RelayError::Stream(e))),
                Ok(Ok(Answer::Opened(_))) => head = None,
                Ok(Ok(Answer::Refused(refusal))) => {
                    return Poll::Ready(Err(RelayError::Refused(refusal)));
                }
                Ok(Err(e)) => return Poll::Ready(Err(e.into())),
            }
        }
        let downward = down.poll(cx, &mut stream, &mut program).map_err(|broken| match broken {
            Broken::Source(e) => RelayError::Stream(e),
            Broken::Sink(e) => RelayError::Program(e),
        })?;
        match (upward, downward) {
            (Poll::Ready(up), Poll::Ready(down)) => Poll::Ready(Ok(Passed { up, down })),
            _ => Poll::Pending,
        }
    });
    let moved = stop.or(moving).await.unwrap_or(Err(RelayError::Stopped));
    if moved.is_err() {
        stream.abort();
        program.abort();
    }
    moved
}

/// Reads one message and not a byte more: what follows is the program's.
///
/// # Errors
/// The stream broke or ended. The inner error: it is no such message.
pub async fn read_message<M, E>(
    stream: &mut (impl AsyncRead + Unpin),
    read: impl Fn(&[u8]) -> Result<Option<(M, usize)>, E>,
) -> io::Result<Result<M, E>> {
    let mut bytes = Vec::new();
    poll_fn(|cx| poll_message(cx, stream, &mut bytes, &read)).await
}

/// The same in steps. `bytes` is as long as a message at most: it is read as soon as it is whole.
fn poll_message<M, E>(
    cx: &mut Context<'_>,
    stream: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    read: impl Fn(&[u8]) -> Result<Option<(M, usize)>, E>,
) -> Poll<io::Result<Result<M, E>>> {
    loop {
        match read(bytes) {
            Ok(Some((message, _))) => return Poll::Ready(Ok(Ok(message))),
            Ok(None) => {}
            Err(e) => return Poll::Ready(Ok(Err(e))),
        }
        let mut byte = [0];
        let mut room = ReadBuf::new(&mut byte);
        ready!(Pin::new(&mut *stream).poll_read(cx, &mut room))?;
        if room.filled().is_empty() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
        bytes.push(byte[0]);
    }
}

/// Which end of a pipe failed.
enum Broken {
    Source(io::Error),
    Sink(io::Error),
}

/// One direction.
struct Pipe {
    buffer: Vec<u8>,
    /// Part of `buffer` that is to be written.
    start: usize,
    end: usize,
    /// Room the next read offers.
    chunk: usize,
    stage: PipeStage,
    unflushed: bool,
    passed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PipeStage {
    Open,
    /// The source has ended; the sink has yet to hear of it.
    Ending,
    Ended,
}

impl Pipe {
    fn new(first: Vec<u8>) -> Pipe {
        let (end, stage) = (first.len(), PipeStage::Open);
        let chunk = LEAST_CHUNK;
        Pipe { buffer: first, start: 0, end, chunk, stage, unflushed: false, passed: 0 }
    }

    /// Moves what can be moved. Ready when the source has ended and the sink knows.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut (impl AsyncRead + Unpin),
        sink: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<Result<u64, Broken>> {
        loop {
            while self.start < self.end {
                let rest = &self.buffer[self.start..self.end];
                let written = ready!(Pin::new(&mut *sink).poll_write(cx, rest));
                let written = written.map_err(Broken::Sink)?;
                if written == 0 {
                    return Poll::Ready(Err(Broken::Sink(io::ErrorKind::WriteZero.into())));
                }
                self.start += written;
                self.passed += written as u64;
                self.unflushed = true;
            }
            match self.stage {
                PipeStage::Open => {}
                PipeStage::Ending => {
                    ready!(Pin::new(&mut *sink).poll_shutdown(cx)).map_err(Broken::Sink)?;
                    self.stage = PipeStage::Ended;
                    self.buffer = Vec::new();
                }
                PipeStage::Ended => return Poll::Ready(Ok(self.passed)),
            }
            if self.stage == PipeStage::Open {
                ready!(self.poll_fill(cx, source, sink))?;
            }
        }
    }

    /// Reads what is there. With nothing there, what was written leaves, and the buffer goes.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut (impl AsyncRead + Unpin),
        sink: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<Result<(), Broken>> {
        if self.buffer.len() < self.chunk {
            self.buffer.resize(self.chunk, 0);
        }
        let mut room = ReadBuf::new(&mut self.buffer);
        match Pin::new(source).poll_read(cx, &mut room) {
            Poll::Ready(Ok(())) => {
                (self.start, self.end) = (0, room.filled().len());
                if self.end == 0 {
                    self.stage = PipeStage::Ending;
                } else if self.end == self.chunk {
                    self.chunk = (4 * self.chunk).min(MOST_CHUNK);
                }
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(e)) => Poll::Ready(Err(Broken::Source(e))),
            Poll::Pending => {
                (self.buffer, self.start, self.end) = (Vec::new(), 0, 0);
                if self.unflushed {
                    ready!(Pin::new(sink).poll_flush(cx)).map_err(Broken::Sink)?;
                    self.unflushed = false;
                }
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
#[path = "relay_tests.rs"]
mod tests;
