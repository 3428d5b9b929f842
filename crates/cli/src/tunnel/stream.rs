//! A program's stream at the client: asked for, carried, and taken up again over another connection where one
//! breaks.

use std::future::{pending, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::link::{Fresh, Link};
use super::message::{poll_message, read_message};
use super::protocol::{Answer, Cause, Name, Open, Opened, ProtocolError, Refusal};
use super::target::Target;
use crate::conn::Connection;
use crate::net::NetConn;
use crate::relay::{Broken, Carrier, Passed, Session, Supply};
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
    carrier: Carrier<Source>,
    /// What came of the answer over the first connection.
    answer: Vec<u8>,
}

/// Where its connections come from, and what is said on them.
#[derive(Debug)]
struct Source {
    link: Link,
    name: Name,
    target: Target,
    /// The server's process that was asked for it.
    instance: Option<u64>,
    /// What carries it, for [`Link::dead`].
    number: Option<u64>,
    /// The address that the server has it open from, once it has said so.
    from: Option<SocketAddr>,
    /// Nobody is to open it anew.
    is_late: bool,
    /// For how long another connection is looked for, and until when this time.
    within: Duration,
    until: Option<Instant>,
    /// Why there is none.
    why: Option<StreamError>,
}

impl Stream {
    /// One to this target, not yet asked for.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(link: Link, target: Target) -> io::Result<Stream> {
        let source = Source {
            link,
            name: Name::draw()?,
            target,
            instance: None,
            number: None,
            from: None,
            is_late: false,
            within: ANSWER_LIMIT,
            until: None,
            why: None,
        };
        Ok(Stream { carrier: Carrier::new(source, Session::default()), answer: Vec::new() })
    }

    /// Asks for it and waits for the answer: the address that it is open from.
    ///
    /// # Errors
    /// It cannot be had.
    pub async fn open(&mut self) -> Result<SocketAddr, Refusal> {
        let broke = |e: &dyn std::fmt::Display| {
            Refusal::new(Cause::Unreachable, format!("the tunnel: {e}"))
        };
        let open = self.begin().await?;
        let (Some(conn), _) = self.carrier.current() else { return Err(broke(&unconnected())) };
        match ask(conn, &open, ANSWER_LIMIT).await {
            Ok(Ok(opened)) => self.carrier.supply().from = Some(opened.from),
            Ok(Err(StreamError::Refused(refusal))) => return Err(refusal),
            Ok(Err(_)) | Err(_) => self.carrier.give_up(),
        }
        let begun = self.carrier.begin().await;
        match (self.carrier.supply().from, begun.map_err(|broken| self.reason(broken))) {
            (Some(from), Ok(())) => Ok(from),
            (_, Err(StreamError::Refused(refusal))) => Err(refusal),
            (_, Err(error)) => Err(broke(&error)),
            (None, Ok(())) => Err(broke(&unconnected())),
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
        self.carrier.current().1.take(early);
        let carried = stop.or(self.carry(&mut program)).await;
        match carried {
            Some(Ok(())) => {
                self.carrier.end(&Ok(())).await;
                Ok(self.carrier.passed())
            }
            Some(Err(error)) => {
                program.abort();
                Err(self.break_off(error, stop).await)
            }
            None => {
                program.abort();
                Err(self.break_off(StreamError::Stopped, stop).await)
            }
        }
    }

    /// Ends it for this reason, which comes back. Were it only dropped, the server would wait for another
    /// connection, and keep the target's.
    pub async fn break_off(mut self, error: StreamError, stop: &Stop) -> StreamError {
        let _ = stop.or_soon(LAST_WORD, self.end(&error)).await;
        error
    }

    async fn carry(&mut self, program: &mut impl Connection) -> Result<(), StreamError> {
        if self.carrier.current().0.is_none() {
            let open = self.begin().await?;
            self.carrier.current().1.say(&open.bytes());
            match self.answered(Some(&mut *program)).await {
                Err(StreamError::Broken(Broken::Connection(error))) => {
                    tracing::info!(%error, "asking for a stream once more");
                    self.carrier.give_up();
                }
                answered => answered?,
            }
        }
        self.carrier.supply().within = PATIENCE;
        self.carrier.carry(program).await.map_err(|broken| self.reason(broken))
    }

    /// Waits for the answer, and sends meanwhile what there is to say, the program's bytes among it.
    async fn answered(
        &mut self,
        mut program: Option<&mut impl Connection>,
    ) -> Result<(), StreamError> {
        let bytes = &mut self.answer;
        let (Some(conn), session) = self.carrier.current() else { return Err(unconnected()) };
        let opened = poll_fn(|cx| {
            session.poll_ahead(cx, conn, program.as_deref_mut())?;
            poll_message(cx, conn, bytes, Answer::read)
                .map(|read| verdict(read.map_err(Broken::Connection)?))
        });
        let opened = opened.await?;
        self.carrier.supply().from = Some(opened.from);
        Ok(())
    }

    /// Takes a connection to ask on, for what is returned.
    async fn begin(&mut self) -> Result<Open, Refusal> {
        let source = self.carrier.supply();
        let fresh = begin(&source.link).await?;
        (source.instance, source.number) = (Some(fresh.instance), Some(fresh.number));
        let open = Open::Connect(source.name, source.target.clone());
        self.carrier.begin_on(fresh.conn);
        Ok(open)
    }

    /// Why it broke, as far as that is known.
    fn reason(&mut self, broken: Broken) -> StreamError {
        match broken {
            Broken::Abandoned => self.carrier.supply().why.take().unwrap_or(broken.into()),
            broken => broken.into(),
        }
    }

    /// The other end is told that it is over, if it does not know.
    async fn end(&mut self, error: &StreamError) {
        match error {
            StreamError::Broken(Broken::Reset) | StreamError::Stopped => self.carrier.part().await,
            StreamError::Broken(Broken::Program(_)) => self.insist().await,
            _ => self.carrier.give_up(),
        }
    }

    /// That the program broke is certain to be heard.
    async fn insist(&mut self) {
        if self.carrier.supply().from.is_none() && self.carrier.current().0.is_some() {
            // The answer comes before the other end's farewell.
            let answered = timeout(ANSWER_LIMIT, self.answered(None::<&mut NetConn>)).await;
            match answered {
                Ok(Ok(())) => {}
                Ok(Err(StreamError::Broken(Broken::Connection(_)))) | Err(_) => {
                    self.carrier.give_up();
                }
                Ok(Err(_)) => return self.carrier.give_up(),
            }
        }
        // Of what the server does not know nothing is left.
        let source = self.carrier.supply();
        (source.is_late, source.within) = (true, LAST_WORD);
        self.carrier.insist().await;
    }
}

impl Source {
    /// What is said on another connection.
    fn open(&self, position: u64) -> Open {
        match self.from.is_some() || self.is_late {
            true => Open::Resume(self.name, position),
            // It may or may not have been asked for.
            false => Open::Again(self.name, self.target.clone()),
        }
    }
}

impl Supply for Source {
    type Conn = NetConn;
    const LEAVES: bool = true;

    /// A connection that is dead is [given up](super::patrol) by others.
    async fn next(&mut self, broken: bool) -> Option<NetConn> {
        if !broken {
            return pending().await;
        }
        let until = *self.until.get_or_insert_with(|| Instant::now() + self.within);
        if let Some(number) = self.number.take() {
            self.link.dead(number).await;
        }
        loop {
            let conn = timeout_at(until, self.link.conn()).await;
            let refusal = match conn {
                Ok(Ok(fresh)) if Some(fresh.instance) != self.instance => {
                    // What was asked of a process that ended nobody knows.
                    fresh.conn.abort();
                    let why = "the server was started anew in the middle of a stream";
                    self.why = Some(Refusal::new(Cause::Gone, why).into());
                    return None;
                }
                Ok(Ok(fresh)) if Instant::now() < until => {
                    self.number = Some(fresh.number);
                    return Some(fresh.conn);
                }
                Ok(Err(gone)) if gone.cause == Cause::Gone => {
                    self.why = Some(gone.into());
                    return None;
                }
                Ok(Err(refusal)) => refusal,
                Ok(Ok(_)) | Err(_) => Refusal::new(Cause::TimedOut, "no connection"),
            };
            if Instant::now() >= until {
                self.why = Some(refusal.into());
                return None;
            }
            sleep(BREATHER).await;
        }
    }

    async fn agree(&mut self, conn: &mut NetConn, position: u64) -> io::Result<Option<u64>> {
        let limit = if self.from.is_some() { RESUME_LIMIT } else { ANSWER_LIMIT };
        match ask(conn, &self.open(position), limit).await {
            Ok(Ok(opened)) => {
                (self.from, self.until) = (Some(opened.from), None);
                Ok(Some(opened.position))
            }
            Ok(Err(error)) => {
                self.why = Some(error);
                Ok(None)
            }
            Err(error) => {
                sleep(BREATHER).await;
                Err(error)
            }
        }
    }
}

/// Says `open` on a connection; the answer.
async fn ask(
    conn: &mut NetConn,
    open: &Open,
    limit: Duration,
) -> io::Result<Result<Opened, StreamError>> {
    let asking = async {
        conn.write_all(&open.bytes()).await?;
        conn.flush().await?;
        read_message(conn, Answer::read).await
    };
    let late = || Err(io::ErrorKind::TimedOut.into());
    timeout(limit, asking).await.unwrap_or_else(|_| late()).map(verdict)
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
        match ask(&mut conn, &Open::Associate, RESUME_LIMIT).await {
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
