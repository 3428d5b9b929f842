//! Streams of `send -`, `recv -` and `nc` while the network changes under them: each goes on over another
//! connection, without a byte lost or said twice.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, timeout, timeout_at};

use crate::cmd::another_way::{PROBES, another_way};
use crate::conn::{Accept, Connection};
use crate::exit::{ExitCode, Failure};
use crate::net::{NetConn, NetDial, Refusals, Watch};
use crate::notices::Notices;
use crate::relay::handed::{Handed, Handover, MOST_WAITING};
use crate::relay::{Broken, Carrier, Session, Supply};
use crate::stop::Stop;
use crate::task::task;
use crate::terminal::say;
use crate::transfer::TransferError;
use crate::transfer::frame::{SenderId, What};
use crate::transfer::passage::{Asked, Asking, Dialler, answer, hear, refuse};
use crate::transfer::recv::{Limits, busy};
use tack_net::Keepalive;
use tack_net::budget::{Exhausted, Grant, Peer};

/// For how long a stream whose connection broke is kept: longer than it takes to walk from one network to
/// another.
pub const RETURN_LIMIT: Duration = Duration::from_secs(60);

/// For how long the other end of a stream that failed here is told.
const PARTING: Duration = Duration::from_secs(5);

/// For how long the last word of a stream is repeated whose receiver has said that it has everything.
const LAST_WORD: Duration = Duration::from_secs(10);

/// Bytes between a stream and what is done with it.
const BUFFER: usize = 256 << 10;

/// How a listening end finds out that whoever connected is gone, though it has nothing to say itself.
pub fn keepalive() -> Keepalive {
    let interval = Duration::from_secs(10);
    Keepalive { idle: interval, interval, probes: 6 }
}

/// What came of the work, and whether the other end has everything and knows that we have.
pub type Over<T> = (T, Result<(), Failure>);

/// Does `work` with a stream that begins on `first` and goes on over whatever `open` opens.
///
/// # Errors
/// What failed first: the work, or the stream.
pub async fn dialled<T, O>(
    first: (NetDial, NetConn),
    open: impl Fn() -> O + Send + Sync,
    (what, quiet): (What, bool),
    stop: &Stop,
    work: impl AsyncFnOnce(DuplexStream) -> Result<T, Failure>,
) -> Result<Over<T>, Failure>
where
    O: Future<Output = Result<(NetDial, NetConn), Failure>> + Send + 'static,
{
    let redial = Redial {
        open,
        quiet,
        first: Some(first),
        dial: None,
        watch: None,
        until: None,
        refusals: Refusals::default(),
    };
    let asking = Asking::new(redial, what)
        .map_err(|e| Failure::new(ExitCode::Failed, format!("no name for the stream: {e}")))?;
    let mut carrier = Carrier::new(asking, Session::default());
    let over = asked(&mut carrier, what, stop, work).await;
    if let Some(dial) = &carrier.supply().dialler().dial {
        dial.settle_unless(over.is_err(), stop).await;
    }
    over
}

/// The same, whatever opens connections.
///
/// # Errors
/// As there.
pub async fn asked<D: Dialler, T>(
    carrier: &mut Carrier<Asking<D>>,
    what: What,
    stop: &Stop,
    work: impl AsyncFnOnce(DuplexStream) -> Result<T, Failure>,
) -> Result<Over<T>, Failure> {
    let over = over(carrier, what, None, stop, work).await;
    said(over, carrier.supply().why())
}

fn said<T>(
    over: Result<(T, Result<(), Broken>), End>,
    why: Option<Failure>,
) -> Result<Over<T>, Failure> {
    match over {
        Ok((done, Ok(()))) => Ok((done, Ok(()))),
        Ok((done, Err(broken))) => Ok((done, Err(End::from(broken).because(why)))),
        Err(end) => Err(end.because(why)),
    }
}

/// Connections of one stream, one after another.
struct Redial<F> {
    open: F,
    quiet: bool,
    first: Option<(NetDial, NetConn)>,
    /// What the last one was opened from, and how it is watched.
    dial: Option<NetDial>,
    watch: Option<Watch>,
    /// Until when another one is looked for, since that broke.
    until: Option<Instant>,
    refusals: Refusals,
}

impl<F, O> Dialler for Redial<F>
where
    F: Fn() -> O + Send + Sync,
    O: Future<Output = Result<(NetDial, NetConn), Failure>> + Send + 'static,
{
    type Conn = NetConn;

    async fn another(&mut self, broken: bool, known: bool) -> Result<NetConn, Failure> {
        if let Some(first) = self.first.take() {
            return Ok(self.opened(first));
        }
        if !known {
            // What it is to carry did not get there: as if nobody had been.
            return Err(Failure::new(ExitCode::Failed, "the connection broke as it began"));
        }
        let (open, refusals) = (&self.open, &mut self.refusals);
        let mut last = None;
        let is_of_use = |failure: &Failure| {
            last = Some(failure.message.clone());
            failure.code == ExitCode::Failed && !refusals.add(failure, Instant::now())
        };
        let opened = if broken {
            let until = *self.until.get_or_insert_with(|| Instant::now() + RETURN_LIMIT);
            let opening = another_way(None::<&Watch>, open, is_of_use);
            timeout_at(until, opening).await.unwrap_or_else(|_| {
                let last = last.unwrap_or_else(|| "nobody answers".to_owned());
                Err(Failure::new(ExitCode::Failed, format!("the connection broke, and {last}")))
            })
        } else {
            another_way(self.watch.as_ref(), open, is_of_use).await
        };
        let opened = opened?;
        if !self.quiet {
            say(format_args!("tack: the connection broke; going on over another one"));
        }
        Ok(self.opened(opened))
    }

    fn carries(&mut self) {
        (self.until, self.refusals) = (None, Refusals::default());
    }
}

impl<F> Redial<F> {
    fn opened(&mut self, (dial, conn): (NetDial, NetConn)) -> NetConn {
        self.watch = Some(conn.watched(PROBES));
        self.dial = Some(dial);
        conn
    }
}

/// Does `work` with the first stream that comes to `server` within `wait`. Strangers that do not even open
/// properly are passed over, and so is everybody else as long as it goes on.
///
/// # Errors
/// What failed first: the work, the stream, or the listener.
pub async fn served<A: Accept, T>(
    server: &mut A,
    what: What,
    wait: Option<Duration>,
    stop: &Stop,
    work: impl AsyncFnOnce(DuplexStream) -> Result<T, Failure>,
) -> Result<Over<T>, Failure> {
    let (hand, mut handed) = mpsc::channel(MOST_WAITING);
    let desk = Arc::new(Desk { what, hand, stream: Mutex::new(None), stop: stop.clone() });
    let answer = |_: &A::Conn, position| answer(position);
    let supply = Handed::new(None, &mut handed, RETURN_LIMIT, answer);
    let mut carrier = Carrier::new(supply, Session::default());
    let mut serving = std::pin::pin!(over(&mut carrier, what, wait, stop, work));
    let (limit, notices) = (Limits::default().opening, Notices::default());
    let mut visitors = JoinSet::new();
    loop {
        tokio::select! {
            over = &mut serving => return said(over, None),
            conn = server.accept() => {
                let conn = conn.map_err(|e| {
                    let why = format!("cannot take connections any more: {e}");
                    Failure::new(ExitCode::Failed, why)
                })?;
                let peer = Peer::of(conn.addresses().map(|(_, peer)| peer));
                match limit.take_or_displace(peer, 1) {
                    Ok(place) => drop(visitors.spawn(task(desk.clone().hear(conn, place)))),
                    Err(_) => conn.abort(),
                }
            }
            Some(heard) = visitors.join_next() => match heard {
                Ok(Err(error)) => notices.say(format_args!("{error}; still listening")),
                Ok(Ok(())) => {}
                Err(error) => tracing::warn!(%error, "a connection was aborted"),
            },
        }
    }
}

/// Where those who connect say what they want.
struct Desk<C> {
    what: What,
    hand: mpsc::Sender<Handover<C>>,
    /// The one that is served.
    stream: Mutex<Option<SenderId>>,
    stop: Stop,
}

impl<C: Connection> Desk<C> {
    async fn hear(self: Arc<Self>, conn: C, place: Grant) -> Result<(), TransferError> {
        tokio::select! {
            biased;
            () = place.revoked() => Err(busy(Exhausted::All)),
            heard = self.heard(conn) => heard,
        }
    }

    async fn heard(&self, conn: C) -> Result<(), TransferError> {
        let Asked { conn, name, is_rest, position } = hear(conn, self.what, &self.stop).await?;
        let served = {
            let mut served = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
            if served.is_none() && !is_rest {
                *served = Some(name);
            }
            *served
        };
        if served == Some(name) {
            return match self.hand.try_send((conn, position)) {
                Ok(()) => Ok(()),
                // It is over, or its client was impatient and tries again.
                Err(error) => {
                    error.into_inner().0.abort();
                    Ok(())
                }
            };
        }
        let why = match is_rest {
            true => TransferError::Gone,
            false => TransferError::Busy("somebody else is served".to_owned()),
        };
        refuse(conn, why, &self.stop).await
    }
}

/// Why a stream came to nothing.
enum End {
    Work(Failure),
    Stream(Broken),
}

impl From<Broken> for End {
    fn from(broken: Broken) -> End {
        End::Stream(broken)
    }
}

impl End {
    /// Where no other connection could be had, `why` says more.
    fn because(self, why: Option<Failure>) -> Failure {
        match (self, why) {
            (End::Work(failure), _) => failure,
            (End::Stream(Broken::Abandoned), Some(why)) => why,
            (End::Stream(Broken::Abandoned), None) => Failure::new(
                ExitCode::Failed,
                format!("the connection broke, and nobody came back for {RETURN_LIMIT:?}"),
            ),
            (End::Stream(broken @ Broken::Violation(_)), _) => {
                Failure::new(ExitCode::Integrity, broken.to_string())
            }
            (End::Stream(broken), _) => Failure::new(ExitCode::Failed, broken.to_string()),
        }
    }
}

/// Waits for the stream to begin, and does `work` with it. Whichever of the two fails first ends the other.
async fn over<S: Supply, T>(
    carrier: &mut Carrier<S>,
    what: What,
    wait: Option<Duration>,
    stop: &Stop,
    work: impl AsyncFnOnce(DuplexStream) -> Result<T, Failure>,
) -> Result<(T, Result<(), Broken>), End> {
    let begun = stop.or(waiting(wait, carrier.begin())).await;
    begun.unwrap_or_else(|| Err(Failure::interrupted())).map_err(End::Work)??;
    let last_word = if what == What::Stream { LAST_WORD } else { Duration::MAX };
    let (inner, mut program) = duplex(BUFFER);
    let mut working = std::pin::pin!(work(inner));
    let (done, carried) = {
        let mut carrying = std::pin::pin!(carrier.carry(&mut program));
        tokio::select! {
            biased;
            done = &mut working => {
                // Of a talk nobody else says that it has arrived.
                let limit = if done.is_ok() { last_word } else { PARTING };
                (Some(done), stop.or_soon(limit, carrying).await)
            }
            carried = &mut carrying => match carried {
                Ok(()) => (Some(working.as_mut().await), Some(Ok(()))),
                broken => (None, Some(broken)),
            }
        }
    };
    drop(program);
    let done = match done {
        // What the other end said last may have come with its reset, and nobody has read it yet.
        None if what == What::Stream && matches!(carried, Some(Err(Broken::Reset))) => {
            stop.or_soon(PARTING, working).await.filter(Result::is_err)
        }
        done => done,
    };
    match &carried {
        Some(carried) => {
            let limit = if carried.is_ok() { RETURN_LIMIT.min(last_word) } else { PARTING };
            let _ = stop.or_soon(limit, carrier.end(carried)).await;
        }
        None => drop(stop.or_soon(PARTING, carrier.part()).await),
    }
    carrier.give_up();
    let carried = carried.unwrap_or(Err(Broken::Abandoned));
    match done {
        Some(done) => Ok((done.map_err(End::Work)?, carried)),
        None => Err(carried.err().unwrap_or(Broken::Abandoned).into()),
    }
}

/// Does `work`, which is to begin within `limit`.
///
/// # Errors
/// Nobody was there.
pub async fn waiting<T>(
    limit: Option<Duration>,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    let Some(limit) = limit else { return Ok(work.await) };
    timeout(limit, work).await.map_err(|_| {
        Failure::new(ExitCode::Failed, format!("nobody was there within {} s", limit.as_secs()))
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::relay::frame::{self, Frame};

    #[test]
    fn what_the_other_end_says_right_before_its_reset_is_heard() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().unwrap().block_on(async {
            let why = "no room";
            let said = [
                &Frame::Data(why.len()).bytes(),
                why.as_bytes(),
                &Frame::End(frame::End::Reset).bytes(),
            ];
            let (near, mut far) = duplex(1_000);
            far.write_all(&said.concat()).await.unwrap();
            let (_hand, mut handed) = mpsc::channel(MOST_WAITING);
            let supply =
                Handed::new(Some((near, 0)), &mut handed, Duration::MAX, |_: &_, _| Vec::new());
            let mut carrier = Carrier::new(supply, Session::default());
            let work = async |mut stream: DuplexStream| {
                let mut heard = String::new();
                stream.read_to_string(&mut heard).await.expect("text");
                Err::<(), _>(Failure::new(ExitCode::Failed, heard))
            };
            let came_of = over(&mut carrier, What::Stream, None, &Stop::never(), work).await;
            let failure = came_of.expect_err("it was reset").because(None);
            assert_eq!(failure.to_string(), why);
        });
    }
}
