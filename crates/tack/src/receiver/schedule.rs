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
//! Patience is a timer's, 40 ms, or longer where packets come at a pace that is slower ([`Pace`]): their
//! TACKs would cover one segment each. While the sender probes for bandwidth, alpha is shorter, and so is
//! patience with packets that came close together: a window of an odd number of segments must not wait
//! for a timer to grow. Per packet, as [TON §VI-D] has it, is one TACK per poll for packets of one
//! instant, as GRO or A-MPDUs deliver them: a second one could not say more. Before anything is known of
//! the path, L segments or the timer count.
//!
//! While the period rules, the next TACK counts from the *due* time of the last one, not from the time it
//! happened to be polled: a late driver must not lower the frequency, and one that leaves early because the host
//! will be late ([`Lateness`](super::late::Lateness)) must not raise it. While counting rules, L segments are the
//! least that a TACK covers: of a burst it covers all, and counting begins anew, as TCPs do. Bytes beyond L that
//! carried over to the next TACK would cost such a flow more acknowledgments than TCP sends.
//!
//! Where data goes the other way, too, it carries the cumulative acknowledgment, and a TACK would
//! repeat it: then one per RTTmin is enough, for what only TACKs tell (rate, round trip, loss), as long
//! as data leaves. A TACK waits for that for three usual gaps, half an RTTmin at most, and the next
//! sixteen not at all if that was in vain: a response does not begin before the request is whole. Of a dialogue whose
//! TACKs come before its data, nothing is left for the data to say: there it waits for as long as data usually
//! takes to follow L segments, three times that, if that is within half an RTTmin.
//!
//! What is needless tells that the sender has not heard, and is answered at once; others that follow within alpha of
//! such an answer wait for the rest of it. A timeout in vain sends a whole window, and a TACK for each of thousands
//! of its packets took the air from the one that would have told.
//!
//! What arrives together is acknowledged together. An A-MPDU of sixty packets often comes when a TACK is overdue:
//! acknowledged at its second packet, it left the others to another TACK a period later, and behind an access
//! point with twenty stations those were twice the accesses to the medium, at times when others contend.
//!
//! Deviation: Eq. 4 has no timer, so a lone packet would never be acknowledged; the flush timer
//! is ours, and so is what data in return saves.

use core::time::Duration;

use tack_units::{Instant, earliest};

use crate::feedback::{Frequency, Regime};
use crate::pace::Pace;
use crate::quota::quota;
use crate::{Params, StartupAcks, equations};

/// Nothing waits longer, whatever the peer asks for: strictly below the 500 ms of
/// [RFC 9293 §3.8.6.3, MUST-40], with room for a late driver.
const MAX_DELAY: Duration = Duration::from_millis(450);
/// Patience while bandwidth is probed: packets of a window that is paced over a round trip come
/// closer together unless the round trip is so long that alpha is longer than this.
const STARTUP_PATIENCE: Duration = Duration::from_millis(10);

/// By so much later a TACK leaves, so that what arrives at one instant is acknowledged together even where a host
/// hands it over packet by packet.
const SAME_INSTANT: Duration = Duration::from_nanos(1);

/// TACKs that do not wait for the pace of packets, or for data in return, after one did in vain.
const DISTRUST: u32 = 16;

/// Where data in return acknowledges, a TACK is worth its packet once it covers this many times `L`
/// segments within [`BULK_RTTS`]: a bulk flow's rate. Of requests and answers, [`DIALOGUE`] times as many.
const WORTH_ESTIMATES: u64 = 8;
const BULK_RTTS: u32 = 4;
const DIALOGUE: u64 = 8;
/// Usual gaps between departures of data after which it has paused.
const PACE_SLACK: u32 = 3;

/// What a packet asks for beyond being counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// Nothing.
    None,
    /// To be told that it was needless, but not of each such packet.
    Needless,
    /// A TACK now.
    AtOnce,
}

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
    mss: u32,
    segments_per_ack: u32,
    /// Packets since the last TACK.
    packets: u32,
    /// Their bytes.
    counted: u64,
    /// When the first of them arrived.
    began: Option<Instant>,
    /// When they were worth a TACK although data in return acknowledges.
    worth_at: Option<Instant>,
    /// Of them, bytes that no data in return has acknowledged.
    unsaid: u64,
    /// When those became L segments.
    full_at: Option<Instant>,
    /// When the oldest of their packets arrived.
    oldest: Option<Instant>,
    /// When the latest packet arrived.
    last_arrival: Option<Instant>,
    /// How far apart they come.
    pace: Pace,
    /// So many TACKs more that do not wait for the pace: the last one that did, did so in vain.
    distrust: u32,
    /// So many TACKs more that do not wait for data in return to say the same.
    silent: u32,
    /// Something arrived that must be acknowledged at this time, whatever the count.
    at_once: Option<Instant>,
    /// When something last was.
    answered: Option<Instant>,
    /// When the last TACK was due.
    last_due: Option<Instant>,
    /// Data that left since the last TACK has acknowledged something.
    said_by_data: bool,
    /// When data last left, and how long after other data, smoothed.
    departures: Option<(Instant, Duration)>,
    /// When L segments were here since then.
    unanswered: Option<Instant>,
    /// How long after that data leaves, smoothed; `None` before it ever did.
    answer: Option<Duration>,
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
            mss: params.mss.max(1),
            segments_per_ack: params.segments_per_ack.max(1),
            packets: 0,
            counted: 0,
            began: None,
            worth_at: None,
            unsaid: 0,
            full_at: None,
            oldest: None,
            last_arrival: None,
            pace: Pace::default(),
            distrust: 0,
            silent: 0,
            at_once: None,
            answered: None,
            last_due: None,
            said_by_data: false,
            departures: None,
            unanswered: None,
            answer: None,
        }
    }

    /// The host knows a round trip before the sender has told one.
    pub(super) fn on_handshake(&mut self, interval: Duration, rtt: Duration) {
        if self.alpha.is_zero() {
            (self.alpha, self.rtt_min) = (interval, rtt);
        }
    }

    /// A packet with `bytes` of data arrived.
    pub(super) fn on_arrival(&mut self, bytes: u64, urgency: Urgency, now: Instant) {
        let gap = self.last_arrival.map_or(Duration::ZERO, |last| now - last);
        self.pace.on_gap(gap);
        self.last_arrival = Some(now);
        self.oldest.get_or_insert(now);
        self.packets = self.packets.saturating_add(1);
        self.counted = self.counted.saturating_add(bytes);
        self.unsaid = self.unsaid.saturating_add(bytes);
        if self.unsaid >= self.quota() {
            self.full_at.get_or_insert(now);
            self.unanswered.get_or_insert(now);
        }
        let began = *self.began.get_or_insert(now);
        if self.worth_at.is_none() && self.counted >= self.worth(now - began) {
            self.worth_at = Some(now);
        }
        let at = match urgency {
            Urgency::None => None,
            Urgency::Needless => Some(self.answered.map_or(now, |at| now.max(at + self.alpha))),
            Urgency::AtOnce => Some(now),
        };
        self.at_once = earliest(self.at_once, at);
    }

    /// Bytes within a time that are worth a TACK.
    fn worth(&self, within: Duration) -> u64 {
        let near = self.rtt_min.saturating_mul(BULK_RTTS);
        let is_bulk = within <= near || self.rtt_min.is_zero();
        let quotas = WORTH_ESTIMATES * if is_bulk { 1 } else { DIALOGUE };
        self.quota().max(1).saturating_mul(quotas)
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
        if self.unsaid < self.quota() {
            self.full_at = None;
        } else if self.full_at.is_none() {
            self.full_at = self.oldest;
        }
    }

    /// Data leaves. Where it acknowledges everything received, nothing is owed but estimates.
    pub(super) fn on_data_left(&mut self, says_all: bool, now: Instant) {
        self.departures = match self.departures {
            None => Some((now, self.flush)),
            // Packets of one instant are one departure.
            Some((last, gap)) if last == now => Some((last, gap)),
            Some((last, gap)) => Some((now, gap * 3 / 4 + (now - last).min(self.flush) / 4)),
        };
        if let Some(full) = self.unanswered.take() {
            let usual = self.answer.unwrap_or(self.flush);
            self.answer = Some(usual * 3 / 4 + (now - full).min(self.flush) / 4);
        }
        if says_all && self.oldest.is_some() && self.at_once.is_none() && !self.per_packet {
            self.said_by_data = true;
            // What has come is said; what comes next is not.
            (self.unsaid, self.full_at, self.oldest) = (0, None, None);
        }
    }

    /// A TACK is wanted now, whether or not anything arrived.
    pub(super) fn demand(&mut self, now: Instant) {
        self.at_once.get_or_insert(now);
    }

    /// Packets wait for a TACK.
    pub(super) fn owes(&self) -> bool {
        self.oldest.is_some()
    }

    /// When the next TACK is due; `None` while nothing waits for one.
    pub(super) fn due(&self) -> Option<Instant> {
        let by_rules = self.by_rules()?;
        let urgent = self.at_once.is_some() || self.per_packet;
        Some(by_rules + if urgent { Duration::ZERO } else { SAME_INSTANT })
    }

    /// When the rules of the [module's text](self) have it due.
    fn by_rules(&self) -> Option<Instant> {
        let Some(oldest) = self.oldest else { return self.at_once };
        if self.per_packet {
            return Some(oldest);
        }
        let by_count = self.by_count();
        // What counting has due by then needs no patience, which takes time to work out and is no less than this.
        let least = self.alpha.max(self.flush.min(STARTUP_PATIENCE));
        let soon = oldest + least.min(MAX_DELAY);
        let flush = match by_count {
            Some(at) if at <= soon => at,
            _ => oldest + self.alpha.max(self.patience()).min(MAX_DELAY),
        };
        earliest(earliest(self.at_once, by_count), Some(flush))
    }

    /// The earliest time for a TACK that `L` segments ask for, or what only TACKs tell.
    fn by_count(&self) -> Option<Instant> {
        let spaced = |from: Instant, spacing: Duration| {
            self.last_due.map_or(from, |last| from.max(last + spacing))
        };
        let full = self.full_at.map(|full| {
            let spacing = equations::stretched(self.alpha, self.queued, self.rtt_min);
            spaced(full + self.for_data(), spacing)
        });
        let worth = self.worth_at.filter(|_| self.said_by_data).map(|at| {
            // A sender that probes for bandwidth learns it from TACKs alone.
            let probing = self.regime == Regime::Startup;
            spaced(at, if probing { self.alpha } else { self.alpha.max(self.rtt_min) })
        });
        earliest(full, worth)
    }

    /// How long a TACK waits for data in return that would say the same.
    #[inline]
    fn for_data(&self) -> Duration {
        let most = || self.alpha.max(self.rtt_min / 2);
        let usual = if self.silent > 0 {
            None
        } else if self.said_by_data {
            self.departures.map(|(_, gap)| gap)
        } else {
            // So much without data in return is no dialogue.
            self.answer.filter(|answer| self.worth_at.is_none() && *answer <= most())
        };
        usual.map_or(Duration::ZERO, |usual| (usual * PACE_SLACK).min(most()))
    }

    fn patience(&self) -> Duration {
        // Part of a window that grows, not of a sparse flow.
        let brisk = self.pace.last() < STARTUP_PATIENCE / 2;
        if self.regime == Regime::Startup && brisk {
            return self.flush.min(STARTUP_PATIENCE);
        }
        let steady = self.pace.steady(self.segments_per_ack, self.flush);
        let slow = self.pace.slow(self.flush);
        steady.filter(|_| self.distrust == 0).map_or(slow, |steady| steady.max(slow))
    }

    /// A TACK leaves now, `ahead` of when it is due at most.
    pub(super) fn on_tack(&mut self, ahead: Duration, now: Instant) {
        // A window may have been what made the pace, and no packet more fits it before this TACK.
        let slow = self.pace.slow(self.flush);
        let waited =
            self.patience() > slow && self.oldest.is_some_and(|oldest| now - oldest > slow);
        self.distrust = match self.at_once {
            None if waited && self.packets < self.segments_per_ack => DISTRUST,
            _ => self.distrust.saturating_sub(1),
        };
        // One that did not wait says nothing of whether it would have been in vain.
        let in_vain = self.full_at.is_some() && !self.for_data().is_zero();
        self.silent = if in_vain && self.at_once.is_none() && self.worth_at.is_none() {
            DISTRUST
        } else {
            self.silent.saturating_sub(1)
        };
        // A TACK sent early (demanded by the host) starts a new period.
        self.last_due = Some(self.by_rules().map_or(now, |due| due.min(now + ahead)));
        (self.packets, self.counted, self.began, self.worth_at) = (0, 0, None, None);
        (self.unsaid, self.full_at, self.oldest) = (0, None, None);
        if self.at_once.take().is_some() {
            self.answered = Some(now);
        }
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

    /// See [`Receiver::set_mss`](super::Receiver::set_mss).
    pub(super) fn set_mss(&mut self, mss: u32) {
        self.mss = mss.max(1);
    }

    /// `L` in force.
    pub(super) fn segments_per_ack(&self) -> u32 {
        self.segments_per_ack
    }

    fn quota(&self) -> u64 {
        quota(self.segments_per_ack, self.mss)
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
