//! When the next burst may leave: a token bucket.
//!
//! ```text
//! tokens += rate * elapsed        at most `depth` (one burst)
//! tokens -= bytes                 on every transmission; may go below zero
//! budget  = max(tokens, 0)
//! departure: the time at which `tokens` is one whole burst again
//! ```
//!
//! Waiting for a whole burst, not for one segment, is what lets segmentation offload work: the
//! sender wakes once per burst and hands the kernel that many bytes. A burst is what the rate moves
//! in [`PacerConfig::burst_time`], within bounds:
//!
//! ```text
//! burst = clamp(rate * burst_time, min_burst, max_burst)
//! ```
//!
//! Tokens are kept in bit·ns (rate in bit/s times nanoseconds), so nothing is ever rounded: over a
//! long run, what leaves is the rate times the time, to the byte.
//!
//! An idle sender earns one burst at most. A sender that *waits for the pacer* is owed what a late
//! timer cost it, up to [`PacerConfig::catch_up`]: otherwise a timer 1 ms late would halve the rate
//! of a 1 ms burst.

use core::time::Duration;

use tack_units::{Instant, Rate};

/// Bounds of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacerConfig {
    /// A burst is what the rate moves in this time. 50 to 500 us keeps the queue it makes at the
    /// bottleneck well under the delays at stake.
    pub burst_time: Duration,
    /// A burst is never smaller, in bytes: two segments, so that delayed ACKs are not kept waiting.
    pub min_burst: u64,
    /// A burst is never larger, in bytes: what one offloaded send can carry.
    pub max_burst: u64,
    /// Lateness of the timer that is made up for. The late burst is `burst + rate * catch_up`, and
    /// no more than `burst + max_burst`, bytes.
    pub catch_up: Duration,
}

impl PacerConfig {
    /// Half a millisecond of data, between two segments and 64 KiB; timers may be 2 ms late.
    pub fn new(mss: u32) -> Self {
        Self {
            burst_time: Duration::from_micros(500),
            min_burst: 2 * u64::from(mss.max(1)),
            max_burst: 64 * 1024,
            catch_up: Duration::from_millis(2),
        }
    }
}

/// See the [module's text](self).
#[derive(Clone, Debug)]
pub struct Pacer {
    config: PacerConfig,
    rate: Option<Rate>,
    /// In bit·ns; negative after a segment larger than the budget.
    tokens: i128,
    /// `tokens` is as of this time.
    settled: Instant,
    /// The sender waits for the pacer, and since when it need not: lateness counts from here.
    awaited: Option<Instant>,
}

/// One byte in bit·ns per second of rate: 8 bits times 10^9 ns.
const BYTE: i128 = 8_000_000_000;

impl Pacer {
    /// A full bucket and no rate yet.
    pub fn new(config: PacerConfig, now: Instant) -> Self {
        let min_burst = config.min_burst.max(1);
        let config =
            PacerConfig { min_burst, max_burst: config.max_burst.max(min_burst), ..config };
        Self {
            config,
            rate: None,
            tokens: i128::from(config.max_burst) * BYTE,
            settled: now,
            awaited: None,
        }
    }

    /// Follows the controller's rate from `now` on. `None`: not paced, every burst may be
    /// [`PacerConfig::max_burst`].
    pub fn set_rate(&mut self, rate: Option<Rate>, now: Instant) {
        if rate != self.rate {
            self.settle(now);
            self.rate = rate;
            self.tokens = self.tokens.min(self.depth());
        }
    }

    /// The rate in force.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Bytes in one burst at the present rate.
    pub fn burst(&self) -> u64 {
        let config = &self.config;
        match self.rate {
            None => config.max_burst,
            Some(rate) => {
                rate.bytes_in(config.burst_time).clamp(config.min_burst, config.max_burst)
            }
        }
    }

    /// Bytes that may leave at `now`. Send whole segments while they fit.
    pub fn budget(&mut self, now: Instant) -> u64 {
        if self.rate.is_none() {
            return self.config.max_burst;
        }
        self.settle(now);
        u64::try_from(self.tokens / BYTE).unwrap_or(0)
    }

    /// `bytes` left at `now`. More than the budget is allowed and paid back by waiting longer.
    pub fn on_sent(&mut self, bytes: u64, now: Instant) {
        self.settle(now);
        self.awaited = None;
        if self.rate.is_some() {
            // Debt is bounded so that a host that ignores the budget can recover from it.
            let floor = -i128::from(u32::MAX) * BYTE;
            self.tokens = (self.tokens - i128::from(bytes) * BYTE).max(floor);
        }
    }

    /// When the next burst may leave; not before `now`. To be asked only by a sender that has data
    /// and window but no budget: from then on, a late timer is made up for.
    ///
    /// [`Instant::MAX`] while the rate is zero.
    pub fn next_departure(&mut self, now: Instant) -> Instant {
        self.settle(now);
        let departure = self.departure();
        // A shorter wait wins: the rate may have risen since it was last asked.
        self.awaited = Some(self.awaited.map_or(departure, |a| a.min(departure)));
        departure
    }

    fn departure(&self) -> Instant {
        let missing = i128::from(self.burst()) * BYTE - self.tokens;
        match self.rate {
            None => self.settled,
            Some(_) if missing <= 0 => self.settled,
            Some(Rate::ZERO) => Instant::MAX,
            Some(rate) => {
                let ns = missing.unsigned_abs().div_ceil(u128::from(rate.as_bps()));
                self.settled + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
            }
        }
    }

    /// Most tokens there may be, in bit·ns.
    fn depth(&self) -> i128 {
        let late = match (self.rate, self.awaited) {
            (Some(rate), Some(_)) => rate.bytes_in(self.config.catch_up).min(self.config.max_burst),
            _ => 0,
        };
        (i128::from(self.burst()) + i128::from(late)) * BYTE
    }

    fn settle(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.settled);
        self.settled = self.settled.max(now);
        let Some(rate) = self.rate else { return };
        let earned = i128::from(rate.as_bps())
            .saturating_mul(i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX));
        self.tokens = self.tokens.saturating_add(earned).min(self.depth());
    }
}
