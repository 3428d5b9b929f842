//! When the next TACK is due: Eq. 4 in the time domain [TON §IV-A].
//!
//! ```text
//! Startup:  at once, one TACK per packet (one per poll for packets of one instant, as GRO or
//!           A-MPDUs deliver them: a second one could not say more)
//! Steady:   due = max( arrival that completes L full-sized segments,
//!                      last due time + alpha )
//! always:   due <= oldest unacknowledged arrival + max(alpha, flush), and < 500 ms after it
//! ```
//!
//! While the period rules, the next TACK counts from the *due* time of the last one, not from the
//! time it happened to be polled: a late driver must not lower the frequency. While counting
//! rules, bytes beyond L segments carry over: a burst must not lower it either.
//!
//! Deviation: Eq. 4 has no timer, so a lone packet would never be acknowledged; the flush timer
//! is ours.

use core::time::Duration;

use tack_units::Instant;

use crate::feedback::{Frequency, Regime};

/// Nothing waits longer, whatever the peer asks for: strictly below the 500 ms of
/// [RFC 9293 §3.8.6.3, MUST-40], with room for a late driver.
const MAX_DELAY: Duration = Duration::from_millis(450);

/// Decides when a TACK is due.
#[derive(Debug)]
pub(super) struct Schedule {
    regime: Regime,
    /// Zero until the sender has told it.
    alpha: Duration,
    flush: Duration,
    mss: u64,
    segments_per_ack: u32,
    /// Bytes since the last TACK, plus what the last one carried over.
    counted: u64,
    /// When `counted` reached L segments.
    full_at: Option<Instant>,
    /// When the oldest packet arrived that no TACK has acknowledged.
    oldest: Option<Instant>,
    /// Something arrived that must be acknowledged now.
    at_once: Option<Instant>,
    /// When the last TACK was due.
    last_due: Option<Instant>,
}

impl Schedule {
    pub(super) fn new(segments_per_ack: u32, mss: u32, flush: Duration) -> Self {
        Schedule {
            regime: Regime::Startup,
            alpha: Duration::ZERO,
            flush: flush.min(MAX_DELAY),
            mss: u64::from(mss.max(1)),
            segments_per_ack: segments_per_ack.max(1),
            counted: 0,
            full_at: None,
            oldest: None,
            at_once: None,
            last_due: None,
        }
    }

    /// A packet with `bytes` of data arrived.
    pub(super) fn on_arrival(&mut self, bytes: u64, at_once: bool, now: Instant) {
        self.oldest.get_or_insert(now);
        self.counted = self.counted.saturating_add(bytes);
        if self.counted >= self.quota() {
            self.full_at.get_or_insert(now);
        }
        if at_once {
            self.at_once.get_or_insert(now);
        }
    }

    /// The sender asked for another frequency.
    pub(super) fn on_frequency(&mut self, frequency: &Frequency) {
        self.regime = frequency.regime;
        self.alpha = frequency.interval;
        self.segments_per_ack = frequency.segments_per_ack.max(1);
        if self.counted < self.quota() {
            self.full_at = None;
        } else if self.full_at.is_none() {
            self.full_at = self.oldest;
        }
    }

    /// A TACK is wanted now, whether or not anything arrived.
    pub(super) fn demand(&mut self, now: Instant) {
        self.at_once.get_or_insert(now);
    }

    /// When the next TACK is due; `None` while nothing waits for one.
    pub(super) fn due(&self) -> Option<Instant> {
        let Some(oldest) = self.oldest else { return self.at_once };
        if self.regime == Regime::Startup {
            return Some(oldest);
        }
        let flush = oldest + self.alpha.max(self.flush).min(MAX_DELAY);
        let by_rule =
            self.full_at.map(|full| self.last_due.map_or(full, |last| full.max(last + self.alpha)));
        Some(self.at_once.unwrap_or(flush).min(flush).min(by_rule.unwrap_or(flush)))
    }

    /// A TACK leaves now.
    pub(super) fn on_tack(&mut self, now: Instant) {
        // A TACK sent early (demanded by the host) starts a new period.
        self.last_due = Some(self.due().map_or(now, |due| due.min(now)));
        self.counted = if self.full_at.is_some() { self.counted % self.quota() } else { 0 };
        self.full_at = None;
        self.oldest = None;
        self.at_once = None;
    }

    /// `alpha` in force.
    pub(super) fn alpha(&self) -> Duration {
        self.alpha
    }

    /// Regime in force.
    pub(super) fn regime(&self) -> Regime {
        self.regime
    }

    /// `L` in force.
    pub(super) fn segments_per_ack(&self) -> u32 {
        self.segments_per_ack
    }

    fn quota(&self) -> u64 {
        u64::from(self.segments_per_ack).saturating_mul(self.mss)
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
