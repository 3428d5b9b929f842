//! When the next TACK is due: Eq. 4 in the time domain [TON §IV-A].
//!
//! ```text
//! due = max( arrival that completes L full-sized segments,
//!            last due time + alpha * max(1, 1/2 + queued/RTTmin) )
//! due <= oldest unacknowledged arrival + max(alpha, patience), and < 500 ms after it
//! ```
//!
//! Deviation: Eq. 4 has `beta` TACKs per RTTmin. Where packets wait in a queue on the way here, a round
//! trip is longer by that, and `beta` TACKs in it are as good for what they are for; the others only
//! take the medium. Twenty stations behind one access point have a round trip of several RTTmin, and
//! by the equation as many times the accesses. The queue is what is measured now: when it is gone, so
//! is the stretch.
//!
//! While the sender probes for bandwidth, alpha is shorter, and so is patience with packets that came
//! close together: a window of an odd number of segments must not wait for a timer to grow. Per packet, as [TON §VI-D] has it, is one
//! TACK per poll for packets of one instant, as GRO or A-MPDUs deliver them: a second one could not
//! say more. Before anything is known of the path, L segments or the timer count.
//!
//! While the period rules, the next TACK counts from the *due* time of the last one, not from the
//! time it happened to be polled: a late driver must not lower the frequency. While counting
//! rules, L segments are the least that a TACK covers: of a burst it covers all, and counting begins
//! anew, as TCPs do. Bytes beyond L that carried over to the next TACK would cost such a flow more
//! acknowledgments than TCP sends.
//!
//! Where data goes the other way, too, it carries the cumulative acknowledgment, and a TACK would
//! repeat it: then one per RTTmin is enough, for what only TACKs tell (rate, round trip, loss).
//!
//! Deviation: Eq. 4 has no timer, so a lone packet would never be acknowledged; the flush timer
//! is ours, and so is what data in return saves.

use core::time::Duration;

use tack_units::Instant;

use crate::feedback::{Frequency, Regime};
use crate::{Params, StartupAcks, equations};

/// Nothing waits longer, whatever the peer asks for: strictly below the 500 ms of
/// [RFC 9293 §3.8.6.3, MUST-40], with room for a late driver.
const MAX_DELAY: Duration = Duration::from_millis(450);
/// Patience while bandwidth is probed: packets of a window that is paced over a round trip come
/// closer together unless the round trip is so long that alpha is longer than this.
const STARTUP_PATIENCE: Duration = Duration::from_millis(10);

/// Bytes of options that some segments carry and others do not, as where a short header follows a
/// whole one. With them a segment is full-sized, too, or its TACK would wait for one beyond `L`.
const OPTIONS: u64 = 24;

/// Where data in return acknowledges, a TACK is worth its packet once it covers this many times `L`
/// segments: a bulk flow's rate, not that of requests and answers.
const WORTH_ESTIMATES: u64 = 8;

/// Decides when a TACK is due.
#[derive(Debug)]
pub(super) struct Schedule {
    regime: Regime,
    /// A TACK per packet while bandwidth is probed.
    per_packet: bool,
    /// Zero while nothing is known of the path.
    alpha: Duration,
    /// Zero while unknown.
    rtt_min: Duration,
    /// How long packets wait on the way here.
    queued: Duration,
    flush: Duration,
    mss: u64,
    segments_per_ack: u32,
    /// Bytes since the last TACK.
    counted: u64,
    /// When `counted` reached L segments.
    full_at: Option<Instant>,
    /// When the oldest packet arrived that no TACK has acknowledged.
    oldest: Option<Instant>,
    /// When the latest packet arrived.
    last_arrival: Option<Instant>,
    /// It came soon after the one before it: part of a window that grows, not of a sparse flow.
    brisk: bool,
    /// Something arrived that must be acknowledged now.
    at_once: Option<Instant>,
    /// When the last TACK was due.
    last_due: Option<Instant>,
    /// Data that left since the last TACK has acknowledged something.
    said_by_data: bool,
}

impl Schedule {
    pub(super) fn new(params: &Params) -> Self {
        Schedule {
            regime: Regime::Startup,
            per_packet: params.startup == StartupAcks::PerPacket,
            alpha: Duration::ZERO,
            rtt_min: Duration::ZERO,
            queued: Duration::ZERO,
            flush: params.flush.min(MAX_DELAY),
            mss: u64::from(params.mss.max(1)),
            segments_per_ack: params.segments_per_ack.max(1),
            counted: 0,
            full_at: None,
            oldest: None,
            last_arrival: None,
            brisk: false,
            at_once: None,
            last_due: None,
            said_by_data: false,
        }
    }

    /// The host knows a round trip before the sender has told one.
    pub(super) fn on_handshake(&mut self, interval: Duration, rtt: Duration) {
        if self.alpha.is_zero() {
            (self.alpha, self.rtt_min) = (interval, rtt);
        }
    }

    /// A packet with `bytes` of data arrived.
    pub(super) fn on_arrival(&mut self, bytes: u64, at_once: bool, now: Instant) {
        self.brisk = self.last_arrival.is_none_or(|last| now - last < STARTUP_PATIENCE / 2);
        self.last_arrival = Some(now);
        self.oldest.get_or_insert(now);
        self.counted = self.counted.saturating_add(bytes);
        if self.counted >= self.quota() {
            self.full_at.get_or_insert(now);
        }
        if at_once {
            self.at_once.get_or_insert(now);
        }
    }

    /// Packets now wait so long on the data path.
    pub(super) fn on_queue(&mut self, queued: Duration) {
        self.queued = queued;
    }

    /// The sender asked for another frequency.
    pub(super) fn on_frequency(&mut self, frequency: &Frequency) {
        self.regime = frequency.regime;
        self.alpha = frequency.interval;
        self.rtt_min = frequency.rtt_min;
        self.per_packet = frequency.regime == Regime::Startup && frequency.interval.is_zero();
        self.segments_per_ack = frequency.segments_per_ack.max(1);
        if self.counted < self.quota() {
            self.full_at = None;
        } else if self.full_at.is_none() {
            self.full_at = self.oldest;
        }
    }

    /// Data left that acknowledges everything received: nothing is owed but estimates.
    pub(super) fn on_said_by_data(&mut self) {
        if self.oldest.is_some() && self.at_once.is_none() && !self.per_packet {
            self.said_by_data = true;
            // What has come is said; what comes next is not.
            self.oldest = None;
        }
    }

    /// A TACK is wanted now, whether or not anything arrived.
    pub(super) fn demand(&mut self, now: Instant) {
        self.at_once.get_or_insert(now);
    }

    /// When the next TACK is due; `None` while nothing waits for one.
    pub(super) fn due(&self) -> Option<Instant> {
        let Some(oldest) = self.oldest else { return self.at_once };
        if self.per_packet {
            return Some(oldest);
        }
        let flush = oldest + self.alpha.max(self.patience()).min(MAX_DELAY);
        let by_rule = self.full_at.and_then(|full| self.spaced(full)).unwrap_or(flush);
        Some(self.at_once.unwrap_or(flush).min(flush).min(by_rule))
    }

    /// The earliest time for a TACK that `L` segments ask for at `full`; `None` while data in
    /// return says all that is worth saying.
    fn spaced(&self, full: Instant) -> Option<Instant> {
        let spacing = match self.said_by_data {
            true if self.counted < self.quota().saturating_mul(WORTH_ESTIMATES) => return None,
            // A sender that probes for bandwidth learns it from TACKs alone.
            true if self.regime == Regime::Startup => self.alpha,
            true => self.alpha.max(self.rtt_min),
            false => equations::stretched(self.alpha, self.queued, self.rtt_min),
        };
        Some(self.last_due.map_or(full, |last| full.max(last + spacing)))
    }

    fn patience(&self) -> Duration {
        match self.regime {
            Regime::Startup if self.brisk => self.flush.min(STARTUP_PATIENCE),
            Regime::Startup | Regime::Steady => self.flush,
        }
    }

    /// A TACK leaves now.
    pub(super) fn on_tack(&mut self, now: Instant) {
        // A TACK sent early (demanded by the host) starts a new period.
        self.last_due = Some(self.due().map_or(now, |due| due.min(now)));
        self.counted = 0;
        self.full_at = None;
        self.oldest = None;
        self.at_once = None;
        self.said_by_data = false;
    }

    /// `alpha` in force.
    pub(super) fn alpha(&self) -> Duration {
        self.alpha
    }

    /// RTTmin as far as known; zero before.
    pub(super) fn rtt_min(&self) -> Duration {
        self.rtt_min
    }

    /// Regime in force.
    pub(super) fn regime(&self) -> Regime {
        self.regime
    }

    /// `L` in force.
    pub(super) fn segments_per_ack(&self) -> u32 {
        self.segments_per_ack
    }

    /// Bytes that are `L` full-sized segments, each less [`OPTIONS`].
    fn quota(&self) -> u64 {
        let full_sized = self.mss - OPTIONS.min(self.mss / 4);
        u64::from(self.segments_per_ack).saturating_mul(full_sized)
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
