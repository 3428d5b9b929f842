//! One stream of a test: a task that sends or receives as fast as it can and counts.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::conn::{Connection, Flow};

/// How long a stream may take to end after the test.
const WIND_DOWN: Duration = Duration::from_secs(2);

/// What the engine tells the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Publish the transport's counters.
    Tick(u64),
    /// The test is over.
    Stop,
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

/// Sends blocks until told to stop or the budget is spent, then closes.
pub async fn send<C: Connection>(
    mut conn: C,
    block_bytes: usize,
    budget: Budget,
    gauge: Arc<Gauge>,
    mut signals: watch::Receiver<Signal>,
) -> io::Result<()> {
    let block = pattern(block_bytes);
    'running: loop {
        let mut left = budget.take(block.len());
        if left == 0 {
            break;
        }
        while left > 0 {
            tokio::select! {
                biased;
                changed = signals.changed() => {
                    gauge.publish(&conn);
                    if changed.is_err() || *signals.borrow_and_update() == Signal::Stop {
                        budget.give_back(left);
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
    // With a budget, everything has to arrive, however long it takes; the engine watches progress.
    if budget.0.is_some() {
        conn.shutdown().await?
    } else {
        wind_down(conn.shutdown()).await
    }
    wind_down(drain(&mut conn, block.len())).await;
    gauge.publish(&conn);
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
    loop {
        tokio::select! {
            biased;
            changed = signals.changed() => {
                gauge.publish(&conn);
                if changed.is_err() || *signals.borrow_and_update() == Signal::Stop {
                    wind_down(drain(&mut conn, block_bytes)).await;
                    break;
                }
            }
            read = conn.read(&mut buffer) => match read? {
                0 => {
                    gauge.publish(&conn);
                    break;
                }
                n => drop(gauge.bytes.fetch_add(n as u64, Relaxed)),
            },
        }
    }
    // Our side of the stream carried nothing; closing it lets the sender know we are through.
    wind_down(conn.shutdown()).await;
    Ok(())
}

async fn drain(conn: &mut impl Connection, block_bytes: usize) -> io::Result<()> {
    let mut buffer = vec![0; block_bytes];
    while conn.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// The measurement is done: neither an error nor a delay matters any more.
async fn wind_down(work: impl Future<Output = io::Result<()>>) {
    let _ = timeout(WIND_DOWN, work).await;
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
