//! The side that asks for a test.

use std::time::Duration;

use tokio::io::AsyncRead;

use crate::conn::{Connection, Dial};
use crate::perf::PerfError;
use crate::perf::control::{Inbox, Message, Output, open_control, open_stream, send};
use crate::perf::ending::{Conclusion, Side, conclude, ended};
use crate::perf::engine::Engine;
use crate::perf::params::TestParams;
use crate::perf::report::{Interval, Lane, Report, Start};
use crate::stop::Stop;

/// What is shown while a test runs.
pub trait Observer {
    /// All streams are connected.
    fn connected(&mut self, start: &Start);
    /// An interval is over.
    fn interval(&mut self, start: &Start, interval: &Interval);
    /// A test that we serve is over. What is shown of it, for a client that wants to see it.
    fn served(&mut self, _report: &Report) -> Option<Output> {
        None
    }
}

/// Runs one test. `interval` is the time between reports; `None` reports only at the end.
///
/// # Errors
/// Whatever kept the test from running to its end, but for `stop` once it runs.
pub async fn run<D: Dial>(
    dial: &D,
    params: &TestParams,
    interval: Option<Duration>,
    observer: &mut impl Observer,
    stop: &Stop,
) -> Result<Report, PerfError> {
    params.check()?;
    let opened = stop.or(open(dial, params)).await;
    let Opened { control, streams, start } = opened.ok_or(PerfError::Interrupted)??;
    let (from, mut to) = tokio::io::split(control);
    let mut inbox = Inbox::new(from);
    observer.connected(&start);

    let mut intervals = Vec::new();
    let mut engine = Engine::start(params, streams);
    let observe = |interval: Interval| {
        observer.interval(&start, &interval);
        intervals.push(interval);
    };
    let ended = ended(Side::Client, &mut inbox, stop);
    let ended = engine.run(interval, params.duration(), ended, observe).await?;
    let conclusion = conclude(Side::Client, engine, ended, &mut inbox, &mut to, stop).await?;
    let Conclusion { local, remote, interrupted } = conclusion;
    let server_output = match params.server_output && remote.is_some() {
        true => output(&mut inbox, stop).await,
        false => None,
    };
    Ok(Report { start, intervals, local, remote, interrupted, server_output })
}

/// What the server shows. Nothing depends on it.
async fn output<R: AsyncRead + Unpin>(inbox: &mut Inbox<R>, stop: &Stop) -> Option<Output> {
    match stop.or_soon(Duration::MAX, inbox.soon()).await {
        Some(Ok(Message::Output { output })) => Some(output),
        _ => None,
    }
}

/// A test that may start.
struct Opened<C> {
    control: C,
    /// Each with whether this side sends on it.
    streams: Vec<(C, bool)>,
    start: Start,
}

async fn open<D: Dial>(dial: &D, params: &TestParams) -> Result<Opened<D::Conn>, PerfError> {
    let mut control = dial.dial().await.map_err(PerfError::Dial)?;
    open_control(&mut control).await?;
    send(&mut control, &Message::Open { params: params.clone() }).await?;
    let cookie = match Inbox::new(&mut control).soon().await? {
        Message::Accepted { cookie } => cookie,
        Message::Refused { reason } => {
            let reason = crate::transfer::name::printable(reason.as_bytes());
            return Err(PerfError::Refused(reason));
        }
        _ => return Err(PerfError::Protocol("neither accepted nor refused")),
    };
    let mut streams = Vec::new();
    let mut lanes = Vec::new();
    for (index, sends) in params.client_sends().into_iter().enumerate() {
        let mut conn = dial.dial().await.map_err(PerfError::Dial)?;
        let number = u16::try_from(index).expect("streams are at most 256");
        open_stream(&mut conn, &cookie, number).await?;
        lanes.push(Lane::new(index, sends, &conn));
        streams.push((conn, sends));
    }
    match Inbox::new(&mut control).soon().await? {
        Message::Start => {
            let peer = control.addresses().map(|(_, peer)| peer);
            let start = Start { params: params.clone(), lanes, cookie, peer };
            Ok(Opened { control, streams, start })
        }
        _ => Err(PerfError::Protocol("no start")),
    }
}
