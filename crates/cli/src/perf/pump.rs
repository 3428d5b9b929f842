//! One stream of a test: a task that sends or receives as fast as it can and counts.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::conn::{Connection, Flow};
use crate::perf::pace::Pace;

/// How long a stream may take to end after its last byte.
const WIND_DOWN: Duration = Duration::from_secs(2);

/// What the engine tells the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Publish the transport's counters.
    Tick(u64),
    /// The test is over, and streams have until then to end.
    Stop(Instant),
}

/// What a stream shows of itself while it runs.
#[derive(Debug, Default)]
pub struct Gauge {
    bytes: AtomicU64,
    flow: Mutex<Option<Flow>>,
}

impl Gauge {
    /// Payload bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The transport's counters as of the last tick.
    pub fn flow(&self) -> Option<Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn publish(&self, conn: &impl Connection) {
        *self.flow.lock().unwrap_or_else(PoisonError::into_inner) = conn.flow();
    }
}

/// Since when no byte has moved on any stream of a test, as whoever looks has seen it.
#[derive(Clone, Debug)]
pub struct Movement {
    gauges: Vec<Arc<Gauge>>,
    bytes: u64,
    since: Instant,
}

impl Movement {
    /// Of these streams, from now on.
    pub fn of(gauges: &[Arc<Gauge>]) -> Self {
        Self { gauges: gauges.to_vec(), bytes: 0, since: Instant::now() }
    }

    /// How long nothing has moved: exact to the time between two looks.
    pub fn silence(&mut self) -> Duration {
        let bytes = self.gauges.iter().map(|gauge| gauge.bytes()).sum();
        if bytes != self.bytes {
            (self.bytes, self.since) = (bytes, Instant::now());
        }
        self.since.elapsed()
    }
}

/// Bytes that all senders of one side may still send; `None` is without end.
#[derive(Clone, Debug, Default)]
pub struct Budget(Option<Arc<AtomicU64>>);

impl Budget {
    /// So many bytes, or without end.
    pub fn new(bytes: Option<u64>) -> Self {
        Self(bytes.map(|n| Arc::new(AtomicU64::new(n))))
    }

    /// Takes up to `want`.
    fn take(&self, want: usize) -> usize {
        let Some(left) = &self.0 else { return want };
        let take = |n: u64| n.min(want as u64);
        let before = left.fetch_update(Relaxed, Relaxed, |n| Some(n - take(n)));
        before.map_or(0, |n| take(n) as usize)
    }

    fn give_back(&self, bytes: usize) {
        if let Some(left) = &self.0 {
            left.fetch_add(bytes as u64, Relaxed);
        }
    }
}

/// What a sender has to send.
#[derive(Clone, Debug)]
pub struct Supply {
    /// Bytes per write.
    pub block_bytes: usize,
    /// How much there is, for all senders together.
    pub budget: Budget,
    /// How fast there is more of it; `None` is at once.
    pub pace: Option<Pace>,
}

/// Sends blocks until told to stop or the budget is spent, then closes.
pub async fn send<C: Connection>(
    mut conn: C,
    supply: Supply,
    gauge: Arc<Gauge>,
    mut signals: watch::Receiver<Signal>,
) -> io::Result<()> {
    let Supply { block_bytes, budget, pace } = supply;
    let block = pattern(block_bytes);
    let started = Instant::now();
    let mut stopped = None;
    'running: loop {
        let due = pace.map(|pace| started + pace.due(gauge.bytes(), block_bytes));
        while let Some(due) = due.filter(|due| *due > Instant::now()) {
            tokio::select! {
                until = signaled(&mut signals) => {
                    gauge.publish(&conn);
                    if until.is_some() {
                        stopped = until;
                        break 'running;
                    }
                }
                () = sleep_until(due) => break,
            }
        }
        let mut left = budget.take(block.len());
        if left == 0 {
            break;
        }
        while left > 0 {
            tokio::select! {
                biased;
                until = signaled(&mut signals) => {
                    gauge.publish(&conn);
                    if until.is_some() {
                        budget.give_back(left);
                        stopped = until;
                        break 'running;
                    }
                }
                written = conn.write(&block[block.len() - left..]) => {
                    let n = written?;
                    if n == 0 {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    left -= n;
                    gauge.bytes.fetch_add(n as u64, Relaxed);
                }
            }
        }
    }
    if stopped.is_none() {
        // Everything has to arrive, however long it takes; the engine watches progress.
        tokio::select! {
            closed = conn.shutdown() => closed?,
            until = stop_signal(&mut signals) => stopped = Some(until),
        }
    }
    let ending = async {
        if stopped.is_some() {
            conn.shutdown().await?;
        }
        drain(&mut conn, block.len()).await
    };
    let ended = wind_down(stopped, ending).await;
    gauge.publish(&conn);
    let_go(conn, stopped.is_some() && !ended);
    Ok(())
}

/// Receives until the peer closes. What comes after the stop is read but not counted.
pub async fn receive<C: Connection>(
    mut conn: C,
    block_bytes: usize,
    gauge: Arc<Gauge>,
    mut signals: watch::Receiver<Signal>,
) -> io::Result<()> {
    let mut buffer = vec![0; block_bytes];
    let stopped = loop {
        tokio::select! {
            biased;
            until = signaled(&mut signals) => {
                gauge.publish(&conn);
                if until.is_some() {
                    break until;
                }
            }
            read = conn.read(&mut buffer) => match read? {
                0 => {
                    gauge.publish(&conn);
                    break None;
                }
                n => drop(gauge.bytes.fetch_add(n as u64, Relaxed)),
            },
        }
    };
    let ending = async {
        if stopped.is_some() {
            drain(&mut conn, block_bytes).await?;
        }
        // Our side of the stream carried nothing; closing it lets the sender know we are through.
        conn.shutdown().await
    };
    let ended = wind_down(stopped, ending).await;
    let_go(conn, stopped.is_some() && !ended);
    Ok(())
}

/// Waits for what the engine says; until when the stream has to end, if it is to.
async fn signaled(signals: &mut watch::Receiver<Signal>) -> Option<Instant> {
    if signals.changed().await.is_err() {
        // The engine is gone: nobody waits for us.
        return Some(Instant::now());
    }
    match *signals.borrow_and_update() {
        Signal::Tick(_) => None,
        Signal::Stop(until) => Some(until),
    }
}

/// Waits until the engine says that the stream has to end, and until when.
async fn stop_signal(signals: &mut watch::Receiver<Signal>) -> Instant {
    loop {
        if let Some(until) = signaled(signals).await {
            return until;
        }
    }
}

/// The measurement is done: an error does not matter any more. Returns whether it ended in time.
async fn wind_down(until: Option<Instant>, ending: impl Future<Output = io::Result<()>>) -> bool {
    timeout_at(until.unwrap_or_else(|| Instant::now() + WIND_DOWN), ending).await.is_ok()
}

/// What has not ended by now need not, where the test is over.
fn let_go(conn: impl Connection, abort: bool) {
    if abort {
        conn.abort();
    }
}

async fn drain(conn: &mut impl Connection, block_bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; block_bytes];
    while conn.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// Bytes that no link compresses: a linear congruential generator's high bytes.
fn pattern(n: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let step = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    std::iter::repeat_with(step).take(n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_exactly_however_it_is_shared() {
        let budget = Budget::new(Some(1000));
        let other = budget.clone();
        assert_eq!((budget.take(600), other.take(600), budget.take(1)), (600, 400, 0));
        other.give_back(5);
        assert_eq!(budget.take(10), 5);
        assert_eq!(Budget::new(None).take(7), 7);
    }

    #[test]
    fn the_pattern_uses_every_byte_value() {
        let bytes = pattern(64 * 1024);
        let seen: std::collections::BTreeSet<_> = bytes.iter().collect();
        assert_eq!(seen.len(), 256);
    }
}
