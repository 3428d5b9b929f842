//! Bytes both ways between a program and the other end, over one connection to there after another.
//!
//! Each direction ends by itself. An error at the program's side is a reset at the other program's; one of the
//! connection between the ends is not an end at all: the [`Session`] keeps what the other end may lack, and
//! goes on over another connection from where each end says it is. Whoever writes faster than the other side
//! takes is not read from.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BufMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::timeout;

use super::frame::{End, Frame, Violation};
use super::incoming::{Incoming, Next};
use super::outgoing::Outgoing;

/// How long the other end may take to hear of a reset: then the connection is no good.
const FAREWELL: Duration = Duration::from_secs(2);

/// What passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Bytes from the program.
    pub from: u64,
    /// Bytes to it.
    pub to: u64,
}

/// Why bytes do not move any more, though not both directions have ended.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The program's side broke: [`Session::farewell`] is next.
    #[error("the program's connection broke: {0}")]
    Program(io::Error),
    /// The program at the other end broke.
    #[error("reset at the other end")]
    Reset,
    /// No other connection could be had.
    #[error("no other connection could be had")]
    Abandoned,
    /// The connection between the ends broke; [`Session::restart`] goes on over another one.
    #[error("the connection broke: {0}")]
    Connection(io::Error),
    /// The other end does not keep to the protocol.
    #[error("the other end: {0}")]
    Violation(#[from] Violation),
    /// Its place was taken away: see [`crate::tunnel::limits`].
    #[error("the client held too much")]
    TakenAway,
}

/// One stream: what both directions have come to.
#[derive(Debug, Default)]
pub struct Session {
    outgoing: Outgoing,
    incoming: Incoming,
    unflushed: bool,
    /// What the connection ended with, while what came before is passed on.
    failed: Option<Broken>,
    /// Where it says what it keeps.
    kept: Arc<AtomicUsize>,
}

impl Session {
    /// One that says here, whenever it moves bytes, how many it keeps.
    pub fn told(kept: Arc<AtomicUsize>) -> Session {
        Session { kept, ..Session::default() }
    }

    /// Goes out before everything else.
    pub fn say(&mut self, message: &[u8]) {
        self.outgoing.say(message);
    }

    /// The program has said this already.
    pub fn take(&mut self, early: &[u8]) {
        self.outgoing.take_copy(early);
    }

    /// Goes on over another connection; the other end has everything before `position`.
    ///
    /// # Errors
    /// What it lacks is not kept.
    pub fn restart(&mut self, position: u64) -> Result<(), Violation> {
        self.incoming.restart();
        (self.unflushed, self.failed) = (false, None);
        self.outgoing.restart(position)
    }

    /// Before it everything has come.
    pub fn position(&self) -> u64 {
        self.incoming.position()
    }

    /// What passed so far.
    pub fn passed(&self) -> Passed {
        let to = self.incoming.position() - u64::from(self.incoming.is_over());
        Passed { from: self.outgoing.passed(), to }
    }

    /// Moves bytes until both directions have ended and the other end knows, or something breaks.
    ///
    /// Cancel safe: it goes on when it is called again.
    ///
    /// # Errors
    /// What broke.
    pub async fn carry(
        &mut self,
        conn: &mut (impl AsyncRead + AsyncWrite + Unpin),
        program: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Result<(), Broken> {
        poll_fn(|cx| match self.poll_told(cx, conn, program) {
            // Who has everything ends the connection.
            Err(Broken::Connection(e))
                if e.kind() == io::ErrorKind::UnexpectedEof && self.is_over() =>
            {
                Poll::Ready(Ok(()))
            }
            Err(broken) => Poll::Ready(Err(broken)),
            // That we have everything is to be heard, too.
            Ok(()) if self.is_over() && !self.unflushed && self.outgoing.bytes().is_none() => {
                Poll::Ready(Ok(()))
            }
            Ok(()) => Poll::Pending,
        })
        .await
    }

    fn is_over(&self) -> bool {
        self.incoming.is_over() && self.outgoing.is_delivered()
    }

    fn poll_told(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut (impl AsyncRead + AsyncWrite + Unpin),
        program: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Result<(), Broken> {
        let polled = self.poll_both(cx, conn, program);
        self.kept.store(self.outgoing.memory() + self.incoming.memory(), Relaxed);
        polled
    }

    fn poll_both(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut (impl AsyncRead + AsyncWrite + Unpin),
        program: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Result<(), Broken> {
        let deaf = self.poll_down(cx, conn, program)?;
        self.poll_up(cx, conn, Some(program), deaf)
    }

    /// Only sends what is to be said, as long as the other end's answer is awaited: see [`Self::carry`].
    ///
    /// # Errors
    /// What broke.
    pub fn poll_ahead(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut (impl AsyncRead + AsyncWrite + Unpin),
        program: Option<&mut (impl AsyncRead + AsyncWrite + Unpin)>,
    ) -> Result<(), Broken> {
        self.poll_up(cx, conn, program, false)
    }

    /// The program's side broke: the other end is told, which is to be certain of it. Over a connection that
    /// works it hears so in its turn, behind what came before; if its program takes nothing, over the next one.
    ///
    /// # Errors
    /// It may not have heard; another connection is to be tried.
    pub async fn farewell(
        &mut self,
        conn: &mut (impl AsyncRead + AsyncWrite + Unpin),
    ) -> Result<(), Broken> {
        self.outgoing.reset();
        let telling = poll_fn(|cx| {
            // What still comes is for nobody.
            let heard = self.poll_deaf(cx, conn)?;
            self.poll_up(cx, conn, None::<&mut tokio::io::Empty>, false)?;
            if heard { Poll::Ready(Ok(())) } else { Poll::Pending }
        });
        let late = || Err(Broken::Connection(io::ErrorKind::TimedOut.into()));
        timeout(FAREWELL, telling).await.unwrap_or_else(|_| late())
    }

    /// The other end's program broke: says that ours is told, as far as that can be said.
    pub async fn part(&mut self, conn: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
        self.outgoing.reset();
        self.outgoing.drop_rest();
        self.flush(conn).await;
    }

    /// Says what there is to say, as far as that can be said soon. Where it cannot, the other end asks once more.
    pub async fn flush(&mut self, conn: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
        let telling = poll_fn(|cx| {
            let told = self.poll_up(cx, conn, None::<&mut tokio::io::Empty>, false);
            let rest = self.unflushed || self.outgoing.bytes().is_some();
            if told.is_ok() && rest { Poll::Pending } else { Poll::Ready(()) }
        });
        let _ = timeout(FAREWELL, telling).await;
    }

    /// From the connection to the program. Whether no more is heard of the connection, since the program does
    /// not take what came.
    fn poll_down(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut (impl AsyncRead + Unpin),
        program: &mut (impl AsyncWrite + Unpin),
    ) -> Result<bool, Broken> {
        let mut drained = false;
        let deaf = loop {
            match self.incoming.poll()? {
                Next::Payload => {
                    let payload = self.incoming.payload();
                    let written = Pin::new(&mut *program).poll_write(cx, payload);
                    match written.map_err(Broken::Program)? {
                        Poll::Ready(0) => {
                            return Err(Broken::Program(io::ErrorKind::WriteZero.into()));
                        }
                        Poll::Ready(n) => self.incoming.passed_on(n),
                        Poll::Pending => break true,
                    }
                }
                Next::End(End::Orderly) => {
                    let told =
                        Pin::new(&mut *program).poll_shutdown(cx).map_err(Broken::Program)?;
                    if told.is_pending() {
                        break true;
                    }
                    self.incoming.ended();
                }
                Next::End(End::Reset) => return Err(Broken::Reset),
                Next::Have(position) => self.outgoing.acked(position)?,
                Next::Nothing if drained => {
                    self.incoming.rest();
                    break false;
                }
                Next::Nothing => drained = self.poll_fill(cx, conn)?,
            }
        };
        if let Some(position) = self.incoming.tell(false) {
            self.outgoing.say(&Frame::Have(position).bytes());
        }
        Ok(deaf)
    }

    /// Reads to the other end's farewell, and past everything before it. True: it has come, or its end.
    fn poll_deaf(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut (impl AsyncRead + Unpin),
    ) -> Result<bool, Broken> {
        let mut drained = false;
        loop {
            match self.incoming.poll()? {
                Next::Payload => self.incoming.passed_on(self.incoming.payload().len()),
                Next::End(End::Orderly) => self.incoming.ended(),
                Next::End(End::Reset) => return Ok(true),
                Next::Have(_) => {}
                Next::Nothing if drained => return Ok(false),
                Next::Nothing => drained = self.poll_fill(cx, conn)?,
            }
        }
    }

    /// Reads until the buffer is full or the connection has no more for now, which is true: so few writes carry
    /// much. What it ended with is told when nothing came before.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut (impl AsyncRead + Unpin),
    ) -> Result<bool, Broken> {
        let mut came = false;
        while self.failed.is_none() {
            let (buffer, most) = self.incoming.room();
            if most == 0 {
                return Ok(false);
            }
            let failed = match pin!(conn.read_buf(&mut buffer.limit(most))).poll(cx) {
                Poll::Pending => return Ok(true),
                Poll::Ready(Ok(0)) => io::ErrorKind::UnexpectedEof.into(),
                Poll::Ready(Err(e)) => e,
                Poll::Ready(Ok(_)) => {
                    self.incoming.came();
                    came = true;
                    continue;
                }
            };
            self.failed = Some(Broken::Connection(failed));
        }
        match self.failed.take_if(|_| !came) {
            Some(failed) => Err(failed),
            None => Ok(false),
        }
    }

    /// From the program, if it still has something to say, to the connection.
    fn poll_up(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut (impl AsyncWrite + Unpin),
        mut program: Option<&mut (impl AsyncRead + Unpin)>,
        deaf: bool,
    ) -> Result<(), Broken> {
        loop {
            while let Some(bytes) = self.outgoing.bytes() {
                let written = Pin::new(&mut *conn).poll_write(cx, bytes);
                match written.map_err(Broken::Connection)? {
                    Poll::Ready(0) => {
                        return Err(Broken::Connection(io::ErrorKind::WriteZero.into()));
                    }
                    Poll::Ready(n) => self.outgoing.wrote(n),
                    Poll::Pending => return Ok(()),
                }
                self.unflushed = true;
            }
            let program = program.as_deref_mut().filter(|_| self.outgoing.takes(deaf));
            if program.map(|program| self.poll_take(cx, program)).transpose()? == Some(true) {
                continue;
            }
            if self.unflushed
                && Pin::new(&mut *conn).poll_flush(cx).map_err(Broken::Connection)?.is_ready()
            {
                self.unflushed = false;
            }
            return Ok(());
        }
    }

    /// Reads from the program. Whether something came.
    fn poll_take(
        &mut self,
        cx: &mut Context<'_>,
        program: &mut (impl AsyncRead + Unpin),
    ) -> Result<bool, Broken> {
        let (mut buffer, most) = self.outgoing.buffer();
        let mut room = (&mut buffer).limit(most);
        let read = pin!(program.read_buf(&mut room)).poll(cx);
        if read.map_err(Broken::Program)?.is_pending() {
            self.outgoing.put_back(buffer);
            self.outgoing.rest();
            return Ok(false);
        }
        if let Some(position) = self.incoming.tell(true) {
            self.outgoing.say(&Frame::Have(position).bytes());
        }
        self.outgoing.take(buffer);
        Ok(true)
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
