//! The side that serves tests, one at a time.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::conn::{Accept, Connection};
use crate::perf::PerfError;
use crate::perf::affinity::Pinned;
use crate::perf::client::Observer;
use crate::perf::control::{
    ANSWER_LIMIT, Cookie, Inbox, Message, Opening, Output, read_opening, send,
};
use crate::perf::ending::{Conclusion, Side, conclude, ended};
use crate::perf::engine::Engine;
use crate::perf::params::{ParamsError, TestParams};
use crate::perf::pump::Movement;
use crate::perf::report::{Interval, Lane, Report, Start};
use crate::random::random;
use crate::stop::Stop;
use crate::task::task;
use tack_net::budget::{Budget, Peer};

/// Most connections that have not yet said what they are, and of one peer: a test has up to 256.
const MAX_OPENING: (usize, usize) = (512, 257);

/// Most clients that are being turned away at once; others just hear that they are.
const MAX_REFUSALS: usize = 64;

/// Most bytes that are read of a client that is turned away.
const MAX_REST: usize = 64 << 10;

/// A test in which nothing has moved for so long, and the pause between two bursts if it makes any, gives way to the
/// next client: its own is gone without a word, as a rule.
const GIVES_WAY_AFTER: Duration = Duration::from_secs(10);

/// Where connections come in and say what they are.
pub struct Door<'a, A: Accept> {
    accept: &'a mut A,
    opening: JoinSet<Result<Opening<A::Conn>, PerfError>>,
    places: Budget,
    refusals: JoinSet<()>,
    /// A client to which a silent test gave way.
    waiting: Option<A::Conn>,
}

impl<'a, A: Accept> Door<'a, A> {
    /// A door on `accept`.
    pub fn new(accept: &'a mut A) -> Self {
        let places = Budget::new(MAX_OPENING.0, MAX_OPENING.1);
        Self { accept, opening: JoinSet::new(), places, refusals: JoinSet::new(), waiting: None }
    }

    /// The next client that wants a test: its control connection.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// No more connections can be taken.
    pub async fn client(&mut self) -> Result<A::Conn, PerfError> {
        if let Some(waiting) = self.waiting.take() {
            return Ok(waiting);
        }
        loop {
            match self.next().await? {
                Opening::Control(conn) => return Ok(conn),
                Opening::Stream { .. } => tracing::info!("a stream of no test"),
            }
        }
    }

    /// The next connection that said what it is; strangers are passed over.
    async fn next(&mut self) -> Result<Opening<A::Conn>, PerfError> {
        loop {
            tokio::select! {
                conn = self.accept.accept() => {
                    let during = PerfError::connection("cannot take connections any more");
                    let conn = conn.map_err(during)?;
                    let peer = Peer::of(conn.addresses().map(|(_, peer)| peer));
                    let Ok(place) = self.places.take_or_displace(peer, 1) else {
                        conn.abort();
                        continue;
                    };
                    self.opening.spawn(task(async move {
                        tokio::select! {
                            biased;
                            opened = read_opening(conn) => opened,
                            () = place.revoked() => Err(PerfError::Protocol("it says nothing")),
                        }
                    }));
                }
                Some(_) = self.refusals.join_next() => {}
                Some(opened) = self.opening.join_next() => match opened {
                    Ok(Ok(opening)) => return Ok(opening),
                    Ok(Err(error)) => tracing::info!(%error, "a stranger"),
                    Err(error) => tracing::warn!(%error, "a connection was aborted"),
                },
            }
        }
    }

    /// Turns every client away while a test runs, until one comes when nothing has moved for `patience`. Returns why
    /// the test can run no longer.
    async fn refuse_all(&mut self, mut movement: Movement, patience: Duration) -> PerfError {
        let mut look = tokio::time::interval(Duration::from_secs(1));
        loop {
            let next = tokio::select! {
                next = self.next() => Some(next),
                _ = look.tick() => None,
            };
            let silence = movement.silence();
            match next {
                Some(Ok(Opening::Control(conn))) if silence >= patience => {
                    self.waiting = Some(conn);
                    return PerfError::Stalled(silence.as_secs());
                }
                Some(Ok(Opening::Control(conn))) => self.refuse(conn),
                Some(Ok(Opening::Stream { .. })) | None => {}
                Some(Err(error)) => return error,
            }
        }
    }
}

impl<A: Accept> Door<'_, A> {
    fn refuse(&mut self, conn: A::Conn) {
        if self.refusals.len() < MAX_REFUSALS {
            self.refusals.spawn(task(refuse(conn)));
        } else {
            conn.abort();
        }
    }
}

/// Says so and waits until the client has read it and closed; what it says is of no interest.
async fn refuse<C: Connection>(mut conn: C) {
    let reason = "another test is running; try again when it is over".to_owned();
    if send(&mut conn, &Message::Refused { reason }).await.is_ok() {
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut conn).await;
        let reading = async {
            let (mut rest, mut read) = ([0; 1024], 0);
            while let Ok(n @ 1..) = tokio::io::AsyncReadExt::read(&mut conn, &mut rest).await {
                read += n;
                if read > MAX_REST {
                    return false;
                }
            }
            true
        };
        if tokio::time::timeout(Duration::from_secs(5), reading).await == Ok(true) {
            return;
        }
    }
    conn.abort();
}

/// Serves one test from its request, which comes on `control`, to its results.
///
/// # Errors
/// Whatever kept the test from running to its end, but for `stop` once it runs. The next one may be
/// served all the same.
pub async fn serve_one<A: Accept>(
    door: &mut Door<'_, A>,
    control: A::Conn,
    interval: Option<Duration>,
    observer: &mut impl Observer,
    stop: &Stop,
) -> Result<Report, PerfError> {
    let peer = control.addresses().map(|(_, peer)| peer);
    let (from, mut to) = tokio::io::split(control);
    let mut inbox = Inbox::new(from);
    let opened = stop.or(open(door, &mut inbox, &mut to)).await;
    let Opened { start, streams, pinned } = opened.ok_or(PerfError::Interrupted)??;
    let start = Start { peer, ..start };
    observer.connected(&start);

    let mut engine = Engine::start(&start.params, streams);
    let mut intervals = Vec::new();
    let observe = |interval: Interval| {
        observer.interval(&start, &interval);
        intervals.push(interval);
    };
    let ended = ended(Side::Server, &mut inbox, stop);
    let patience = GIVES_WAY_AFTER + start.params.gap();
    let movement = engine.movement();
    let ended = tokio::select! {
        ended = engine.run(interval, None, ended, observe) => ended?,
        error = door.refuse_all(movement, patience) => return Err(error),
    };
    let conclusion = conclude(Side::Server, engine, ended, &mut inbox, &mut to, stop).await?;
    let Conclusion { local, remote, interrupted } = conclusion;
    drop(pinned);
    door.accept.mark(0);
    let report = Report { start, intervals, local, remote, interrupted, server_output: None };
    let output = observer.served(&report);
    if report.remote.is_some() {
        if let Some(output) = output.filter(|_| report.start.params.server_output) {
            let too_long = || Output::Text("(more than a message holds)".to_owned());
            let output = Some(output).filter(Output::fits).unwrap_or_else(too_long);
            // The test is over: who is gone needs nothing any more.
            let _ = send(&mut to, &Message::Output { output }).await;
        }
        // Until the client has our results and closes; it may be gone without a word.
        stop.or_soon(Duration::from_secs(2), inbox.closed()).await;
    }
    Ok(report)
}

/// A test that may start.
struct Opened<C> {
    start: Start,
    /// Each with whether this side sends on it.
    streams: Vec<(C, bool)>,
    /// The processor asked for is ours as long as this lives.
    pinned: Option<Pinned>,
}

/// Agrees to what the client asks for, and waits for its streams.
async fn open<A: Accept>(
    door: &mut Door<'_, A>,
    inbox: &mut Inbox<impl AsyncRead + Unpin>,
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<Opened<A::Conn>, PerfError> {
    let Message::Open { params } = inbox.soon().await? else {
        return Err(PerfError::Protocol("no request for a test"));
    };
    let pinned = match possible(door, &params) {
        Ok(pinned) => pinned,
        Err(error) => {
            send(to, &Message::Refused { reason: error.to_string() }).await?;
            return Err(error.into());
        }
    };
    let cookie = new_cookie()?;
    send(to, &Message::Accepted { cookie }).await?;
    let (streams, lanes) = tokio::select! {
        gathered = gather(door, &params, &cookie) => gathered?,
        // Until it may start there is nothing for the client to say, but that it wants no more.
        said = inbox.next() => {
            return Err(said.err().unwrap_or(PerfError::Protocol("a word before its streams are here")));
        }
    };
    send(to, &Message::Start).await?;
    Ok(Opened { start: Start { params, lanes, cookie, peer: None }, streams, pinned })
}

/// Does here what a test asks for beside its streams.
fn possible<A: Accept>(
    door: &mut Door<'_, A>,
    params: &TestParams,
) -> Result<Option<Pinned>, ParamsError> {
    params.check()?;
    if !door.accept.mark(params.dscp) {
        return Err(ParamsError::Dscp(params.dscp));
    }
    let pin = |processor| Pinned::to(processor).map_err(|_| ParamsError::Processor(processor));
    params.server_processor.map(pin).transpose()
}

/// Streams with whether this side sends on each, and what is shown of them.
type Streams<C> = (Vec<(C, bool)>, Vec<Lane>);

/// Waits until each stream of the test is here.
async fn gather<A: Accept>(
    door: &mut Door<'_, A>,
    params: &TestParams,
    cookie: &Cookie,
) -> Result<Streams<A::Conn>, PerfError> {
    let client_sends = params.client_sends();
    let mut streams: Vec<Option<A::Conn>> = client_sends.iter().map(|_| None).collect();
    let deadline = Instant::now() + ANSWER_LIMIT;
    while streams.iter().any(Option::is_none) {
        let next = timeout_at(deadline, door.next()).await;
        match next.map_err(|_| PerfError::Stalled(ANSWER_LIMIT.as_secs()))?? {
            Opening::Control(conn) => door.refuse(conn),
            Opening::Stream { conn, cookie: theirs, number } => {
                match streams.get_mut(usize::from(number)) {
                    Some(place @ None) if theirs == *cookie => *place = Some(conn),
                    _ => tracing::info!(number, "a stream of another test"),
                }
            }
        }
    }
    let with_direction = |(conn, client_sends): (Option<_>, bool)| Some((conn?, !client_sends));
    let streams: Vec<(A::Conn, bool)> =
        streams.into_iter().zip(client_sends).filter_map(with_direction).collect();
    let lanes = streams.iter().enumerate();
    let lanes = lanes.map(|(index, (conn, sends))| Lane::new(index, *sends, conn)).collect();
    Ok((streams, lanes))
}

fn new_cookie() -> Result<Cookie, PerfError> {
    random().map_err(PerfError::connection("no random numbers"))
}
