//! A program's stream at the client: asked for, carried, and taken up again over another connection where one
//! breaks.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::link::{Fresh, Link};
use super::protocol::{Answer, Cause, Name, Open, Opened, ProtocolError, Refusal};
use super::relay::{Broken, Passed, Session, poll_message, read_message};
use super::target::Target;
use crate::conn::Connection;
use crate::net::NetConn;
use crate::stop::Stop;

/// For how long a connection to ask on is looked for.
const BEGIN_LIMIT: Duration = Duration::from_secs(5);
/// How long a server may take to open a stream: longer than its own limits together.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// The same of one that is open already, or was asked for before.
const RESUME_LIMIT: Duration = Duration::from_secs(5);
/// For how long a stream without a connection is kept: as long as a machine may be asleep or out of reach.
pub const PATIENCE: Duration = Duration::from_secs(600);
/// The same of one whose program is gone.
const LAST_WORD: Duration = Duration::from_secs(60);
/// Between attempts.
const BREATHER: Duration = Duration::from_millis(200);

/// Why a stream ended, if not in order.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The program's side broke.
    #[error("the program: {0}")]
    Program(#[from] io::Error),
    /// The server would not open it, or not go on with it.
    #[error("{}", .0.why)]
    Refused(Refusal),
    /// What was carried broke.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// The server said something else.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// We are told to end.
    #[error("stopped")]
    Stopped,
}

impl From<Refusal> for StreamError {
    fn from(refusal: Refusal) -> StreamError {
        StreamError::Refused(refusal)
    }
}

/// See the [module's text](self).
#[derive(Debug)]
pub struct Stream {
    link: Link,
    name: Name,
    target: Target,
    /// The server's process that was asked for it.
    instance: Option<u64>,
    session: Session,
    /// What carries it now.
    fresh: Option<Fresh>,
    /// What came of the answer over it.
    answer: Vec<u8>,
    /// The server has said that it is open.
    is_open: bool,
}

impl Stream {
    /// One to this target, not yet asked for.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(link: Link, target: Target) -> io::Result<Stream> {
        let (name, session) = (Name::draw()?, Session::default());
        let (instance, fresh, answer) = (None, None, Vec::new());
        Ok(Stream { link, name, target, instance, session, fresh, answer, is_open: false })
    }

    /// Asks for it and waits for the answer: the address that it is open from.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn open(&mut self) -> Result<SocketAddr, Refusal> {
        let broke = |e: &dyn std::fmt::Display| {
            Refusal::new(Cause::Unreachable, format!("the tunnel: {e}"))
        };
        let first = Open::Connect(self.name, self.target.clone());
        let again = self.again();
        self.begin().await?;
        match self.ask(&first, ANSWER_LIMIT).await {
            Ok(opened) => Ok(opened.from),
            Err(StreamError::Refused(refusal)) => Err(refusal),
            Err(_) => match self.take_up(&again, ANSWER_LIMIT).await {
                Ok(opened) => Ok(opened.from),
                Err(StreamError::Refused(refusal)) => Err(refusal),
                Err(error) => Err(broke(&error)),
            },
        }
    }

    /// Carries what `program` says and hears, `early` first, until it is over. The stream is asked for now if
    /// it was not yet: then the program's bytes go along. However it ends, the program hears of it as of its own
    /// connection's end.
    ///
    /// # Errors
    /// How it ended, if not in order.
    pub async fn run(
        mut self,
        mut program: impl Connection,
        early: &[u8],
        stop: &Stop,
    ) -> Result<Passed, StreamError> {
        self.session.take(early);
        let carried = stop.or(self.carry(&mut program)).await;
        match carried.unwrap_or(Err(StreamError::Stopped)) {
            Ok(()) => {
                self.leave().await;
                Ok(self.session.passed())
            }
            Err(error) => {
                program.abort();
                let _ = stop.or_soon(LAST_WORD, self.part(&error)).await;
                Err(error)
            }
        }
    }

    async fn carry(&mut self, program: &mut impl Connection) -> Result<(), StreamError> {
        if self.fresh.is_none() {
            self.begin().await?;
            self.session.say(&Open::Connect(self.name, self.target.clone()).bytes());
        }
        loop {
            match self.carry_over_one(program).await {
                Err(StreamError::Broken(Broken::Connection(error))) => {
                    tracing::info!(name = ?self.name, %error, "going on over another connection");
                    let open = if self.is_open { self.resume() } else { self.again() };
                    self.take_up(&open, PATIENCE).await?;
                }
                carried => return carried,
            }
        }
    }

    /// As far as the present connection goes.
    async fn carry_over_one(&mut self, program: &mut impl Connection) -> Result<(), StreamError> {
        if !self.is_open {
            self.answered(Some(&mut *program)).await?;
        }
        let Some(Fresh { conn, .. }) = &mut self.fresh else { return Err(unconnected()) };
        Ok(self.session.carry(conn, program).await?)
    }

    /// Waits for the answer, and sends meanwhile what there is to say, the program's bytes among it.
    async fn answered(
        &mut self,
        mut program: Option<&mut impl Connection>,
    ) -> Result<(), StreamError> {
        let Some(Fresh { conn, .. }) = &mut self.fresh else { return Err(unconnected()) };
        let (bytes, session) = (&mut self.answer, &mut self.session);
        let opened = poll_fn(|cx| {
            session.poll_ahead(cx, conn, program.as_deref_mut())?;
            poll_message(cx, conn, bytes, Answer::read)
                .map(|read| verdict(read.map_err(Broken::Connection)?))
        });
        let _: Opened = opened.await?;
        self.is_open = true;
        Ok(())
    }

    /// Asks for it where it may or may not have been asked for.
    fn again(&self) -> Open {
        Open::Again(self.name, self.target.clone())
    }

    /// Asks for it where nobody is to open it anew.
    fn resume(&self) -> Open {
        Open::Resume(self.name, self.session.position())
    }

    /// Takes a connection to ask on.
    async fn begin(&mut self) -> Result<(), Refusal> {
        let fresh = begin(&self.link).await?;
        self.instance = Some(fresh.instance);
        self.fresh = Some(fresh);
        Ok(())
    }

    /// Goes on over another connection, for which there is so much time; says `open` on it.
    async fn take_up(&mut self, open: &Open, within: Duration) -> Result<Opened, StreamError> {
        let until = Instant::now() + within;
        loop {
            self.answer.clear();
            if let Some(Fresh { conn, number, .. }) = self.fresh.take() {
                conn.abort();
                self.link.dead(number).await;
            }
            let conn = timeout_at(until, self.link.conn()).await;
            match conn.unwrap_or_else(|_| Err(Refusal::new(Cause::TimedOut, "no connection"))) {
                // What was asked of a process that ended nobody knows.
                Ok(fresh) if Some(fresh.instance) != self.instance => {
                    fresh.conn.abort();
                    let why = "the server was started anew in the middle of a stream";
                    return Err(Refusal::new(Cause::Gone, why).into());
                }
                Ok(fresh) => {
                    self.fresh = Some(fresh);
                    let limit = if self.is_open { RESUME_LIMIT } else { ANSWER_LIMIT };
                    match self.ask(open, limit).await {
                        Ok(opened) => {
                            self.session.restart(opened.position).map_err(Broken::Violation)?;
                            return Ok(opened);
                        }
                        Err(StreamError::Broken(Broken::Connection(error))) => {
                            tracing::debug!(%error, "that connection broke too");
                        }
                        Err(other) => return Err(other),
                    }
                }
                Err(refusal) if Instant::now() >= until => return Err(refusal.into()),
                Err(_) => {}
            }
            sleep(BREATHER).await;
        }
    }

    /// Says `open` on the present connection; the answer.
    async fn ask(&mut self, open: &Open, limit: Duration) -> Result<Opened, StreamError> {
        let Some(Fresh { conn, .. }) = &mut self.fresh else { return Err(unconnected()) };
        let asking = async {
            conn.write_all(&open.bytes()).await?;
            conn.flush().await?;
            read_message(conn, Answer::read).await
        };
        let late = || Err(io::ErrorKind::TimedOut.into());
        let answer = timeout(limit, asking).await.unwrap_or_else(|_| late());
        let opened = verdict(answer.map_err(Broken::Connection)?)?;
        self.is_open = true;
        Ok(opened)
    }

    /// The other end is told that it is over, if it does not know.
    async fn part(&mut self, error: &StreamError) {
        match error {
            StreamError::Broken(Broken::Reset) | StreamError::Stopped => {
                if let Some(Fresh { conn, .. }) = &mut self.fresh {
                    self.session.part(conn).await;
                    self.leave().await;
                }
            }
            StreamError::Broken(Broken::Program(_)) => self.insist().await,
            _ => self.abort(),
        }
    }

    /// That the program broke is certain to be heard.
    async fn insist(&mut self) {
        if !self.is_open {
            // The answer comes before the other end's farewell.
            let answered = timeout(ANSWER_LIMIT, self.answered(None::<&mut NetConn>)).await;
            match answered {
                Ok(Err(StreamError::Broken(Broken::Connection(_)))) | Err(_) => {
                    let resume = self.resume();
                    if self.take_up(&resume, LAST_WORD).await.is_err() {
                        return self.abort();
                    }
                }
                Ok(Err(_)) => return self.abort(),
                Ok(Ok(())) => {}
            }
        }
        while let Some(Fresh { conn, .. }) = &mut self.fresh {
            match self.session.farewell(conn).await {
                Ok(()) => return self.leave().await,
                Err(error) => {
                    tracing::debug!(%error, "the other end may not have heard of a reset");
                    // Of what the server does not know nothing is left.
                    let resume = self.resume();
                    if self.take_up(&resume, LAST_WORD).await.is_err() {
                        return self.abort();
                    }
                }
            }
        }
    }

    /// Ends the connection in order.
    async fn leave(&mut self) {
        if let Some(Fresh { mut conn, .. }) = self.fresh.take() {
            // The other end knows all that matters.
            let _ = conn.shutdown().await;
        }
    }

    fn abort(&mut self) {
        if let Some(Fresh { conn, .. }) = self.fresh.take() {
            conn.abort();
        }
    }
}

fn unconnected() -> StreamError {
    Broken::Connection(io::ErrorKind::NotConnected.into()).into()
}

/// A connection to ask on. What fails while the network changes is tried once more.
async fn begin(link: &Link) -> Result<Fresh, Refusal> {
    let until = Instant::now() + BEGIN_LIMIT;
    loop {
        match link.conn().await {
            Err(refusal) if refusal.cause == Cause::Unreachable && Instant::now() < until => {
                sleep(BREATHER).await;
            }
            taken => return taken,
        }
    }
}

/// Datagrams, over one connection. Nothing is lost where one that stood ready proves dead: another is asked.
///
/// # Errors
/// They cannot be had.
pub async fn associate(link: &Link) -> Result<NetConn, Refusal> {
    let until = Instant::now() + ANSWER_LIMIT;
    loop {
        let Fresh { mut conn, number, .. } = begin(link).await?;
        let asking = async {
            conn.write_all(&Open::Associate.bytes()).await?;
            conn.flush().await?;
            read_message(&mut conn, Answer::read).await
        };
        let late = || Err(io::ErrorKind::TimedOut.into());
        match timeout(RESUME_LIMIT, asking).await.unwrap_or_else(|_| late()).map(verdict) {
            Ok(Ok(_)) => return Ok(conn),
            Ok(Err(StreamError::Refused(refusal))) => return Err(refusal),
            Ok(Err(error)) => return Err(Refusal::new(Cause::Failed, error.to_string())),
            Err(error) if Instant::now() >= until => {
                return Err(Refusal::new(Cause::Unreachable, format!("the tunnel: {error}")));
            }
            Err(error) => {
                tracing::debug!(%error, "a connection that stood ready was dead");
                conn.abort();
                link.dead(number).await;
            }
        }
    }
}

fn verdict(answer: Result<Answer, ProtocolError>) -> Result<Opened, StreamError> {
    match answer? {
        Answer::Opened(opened) => Ok(opened),
        Answer::Refused(refusal) => Err(StreamError::Refused(refusal)),
    }
}
