//! The side that asks for a test.

use std::time::Duration;

use crate::conn::{Connection, Dial};
use crate::perf::PerfError;
use crate::perf::control::{Message, Results, open_control, open_stream, recv_soon, send};
use crate::perf::engine::Engine;
use crate::perf::params::TestParams;
use crate::perf::report::{Interval, Lane, Report};

/// What is shown while a test runs.
pub trait Observer {
    /// All streams are connected.
    fn connected(&mut self, params: &TestParams, lanes: &[Lane]);
    /// An interval is over.
    fn interval(&mut self, interval: &Interval);
}

/// Runs one test. `interval` is the time between reports; `None` reports only at the end.
///
/// # Errors
/// Whatever kept the test from running to its end.
pub async fn run<D: Dial>(
    dial: &D,
    params: &TestParams,
    interval: Option<Duration>,
    observer: &mut impl Observer,
) -> Result<Report, PerfError> {
    params.check()?;
    let mut control = dial.dial().await.map_err(PerfError::Dial)?;
    open_control(&mut control).await?;
    send(&mut control, &Message::Open { params: params.clone() }).await?;
    let cookie = match recv_soon(&mut control).await? {
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
        lanes.push(Lane { id: Lane::id_of(index), sends, addresses: conn.addresses() });
        streams.push((conn, sends));
    }
    match recv_soon(&mut control).await? {
        Message::Start => {}
        _ => return Err(PerfError::Protocol("no start")),
    }
    observer.connected(params, &lanes);

    let mut intervals = Vec::new();
    let mut engine = Engine::start(params, streams);
    let observe = |interval: Interval| {
        observer.interval(&interval);
        intervals.push(interval);
    };
    // Only the deadline or the streams themselves end it here.
    let never = std::future::pending();
    engine.run(interval, params.duration(), never, observe).await?;
    let mut local = engine.results();
    send(&mut control, &Message::End).await?;
    send(&mut control, &Message::Results { results: local.clone() }).await?;
    let (remote, ()) = tokio::join!(recv_soon(&mut control), engine.stop());
    let Message::Results { results: mut remote } = remote? else {
        return Err(PerfError::Protocol("no results"));
    };
    check_results(&mut local, &mut remote, lanes.len())?;
    Ok(Report { params: params.clone(), lanes, intervals, local, remote })
}

/// A peer's results may be anything; ours and theirs must be about the same streams.
pub(crate) fn check_results(
    local: &mut Results,
    remote: &mut Results,
    lanes: usize,
) -> Result<(), PerfError> {
    let sane =
        |r: &Results| r.streams.len() == lanes && r.streams.iter().all(|s| s.seconds.is_finite());
    if sane(local) && sane(remote) {
        return Ok(());
    }
    Err(PerfError::Protocol("its results are about other streams"))
}
