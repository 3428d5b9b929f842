//! A stream's beginning at the client: its request and the program's first bytes, until the server answers.
//!
//! They are kept so long, for the connection may turn out to be dead, and then all is said again over
//! another one. The request has a name, so that the server does not carry it out twice.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::protocol::{Answer, Request};
use super::relay::{Opening, PipeStage, RelayError, poll_message};

/// Most bytes of a program that are kept, and so go before the answer: more than the first flight of a
/// connection carries.
const MOST_KEPT: usize = 64 << 10;
const CHUNK: usize = 4 << 10;

/// See the [module's text](self).
#[derive(Debug)]
pub struct Beginning {
    kept: Vec<u8>,
    /// The program has nothing more to say.
    ended: bool,
    /// How far this connection was told.
    told: Told,
}

/// What one connection was told, and has answered so far.
#[derive(Debug, Default)]
struct Told {
    written: usize,
    unflushed: bool,
    shut: bool,
    answer: Vec<u8>,
}

impl Beginning {
    /// With what the program has said already.
    pub fn new(request: &Request, early: &[u8]) -> Beginning {
        let kept = [&request.bytes(), early].concat();
        Beginning { kept, ended: false, told: Told::default() }
    }

    /// Waits for the server's answer; what `program` says meanwhile, if it may, goes along.
    ///
    /// Cancel safe: it can be waited for again, over the same connection.
    ///
    /// # Errors
    /// Which side broke, or that the other one is no tunnel.
    pub async fn answered(
        &mut self,
        mut program: Option<&mut (impl AsyncRead + Unpin)>,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Result<Answer, RelayError> {
        poll_fn(|cx| {
            while self.poll_tell(cx, stream).map_err(RelayError::Stream)?.is_ready() {
                let Some(program) = program.as_deref_mut() else { break };
                if self.poll_hear(cx, program).map_err(RelayError::Program)?.is_pending() {
                    break;
                }
            }
            let answer = ready!(poll_message(cx, stream, &mut self.told.answer, Answer::read));
            Poll::Ready(answer.map_err(RelayError::Stream)?.map_err(RelayError::from))
        })
        .await
    }

    /// Over another connection all is said again.
    pub fn again(&mut self) {
        self.told = Told::default();
    }

    /// How bytes go on after the answer.
    pub fn opening(mut self) -> Opening {
        let up = self.kept.split_off(self.told.written);
        let stage = match (self.told.shut, self.ended) {
            (true, _) => PipeStage::Ended,
            (false, true) => PipeStage::Ending,
            (false, false) => PipeStage::Open,
        };
        Opening { up, stage, down: Vec::new() }
    }

    /// Tells the connection what it does not know yet; ready when it knows all.
    fn poll_tell(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        let told = &mut self.told;
        while let Some(rest @ [_, ..]) = self.kept.get(told.written..) {
            let written = ready!(Pin::new(&mut *stream).poll_write(cx, rest))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            (told.written, told.unflushed) = (told.written + written, true);
        }
        if told.unflushed {
            ready!(Pin::new(&mut *stream).poll_flush(cx))?;
            told.unflushed = false;
        }
        if self.ended && !told.shut {
            ready!(Pin::new(stream).poll_shutdown(cx))?;
            told.shut = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes what the program says, as far as it is kept; ready when there is something new to tell.
    fn poll_hear(
        &mut self,
        cx: &mut Context<'_>,
        program: &mut (impl AsyncRead + Unpin),
    ) -> Poll<io::Result<()>> {
        if self.ended || self.kept.len() >= MOST_KEPT {
            return Poll::Pending;
        }
        let mut bytes = [0; CHUNK];
        let mut room = ReadBuf::new(&mut bytes);
        ready!(Pin::new(program).poll_read(cx, &mut room))?;
        self.ended = room.filled().is_empty();
        self.kept.extend_from_slice(room.filled());
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
#[path = "begin_tests.rs"]
mod tests;
