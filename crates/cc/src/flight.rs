//! What controllers have in common that keep no [`CongestionWindow`](crate::window::CongestionWindow): the limits
//! of a flight, where rounds end, and how things stood when a packet left. And how large a flight lately was.

use core::time::Duration;
use std::collections::VecDeque;

use tack_units::{Instant, Rate};

use crate::config::Config;
use crate::overload::Overload;
use crate::sample::AckSample;
use crate::withheld::Withheld;

/// The limits of a flight: the configured ones, what a path that drops much holds, and what waits for a TACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) mss: u64,
    max_window: u64,
    acks: Withheld,
    overload: Overload,
    /// Since a timeout nothing has arrived.
    silent: bool,
}

impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        Limits {
            mss: u64::from(config.mss),
            max_window: config.max_window,
            acks: Withheld::default(),
            overload: Overload::default(),
            silent: false,
        }
    }

    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = u64::from(mss).max(1);
    }

    pub(crate) fn on_ack(&mut self, ack: &AckSample) {
        let srtt = ack.srtt.or(ack.rtt).or(self.acks.srtt);
        self.acks = Withheld::told(ack, srtt);
        self.overload.on_ack(ack, srtt, self.mss);
        self.silent &= ack.acked_bytes == 0;
    }

    /// The timer fired: one segment, until something arrives [RFC 5681 §3.1]. Behind a queue of a few packets that drops the
    /// first of what a flow has waiting it would else be the repair, each time.
    pub(crate) fn on_timeout(&mut self) {
        self.silent = true;
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.acks.srtt
    }

    /// What may be in flight where the path is to hold `cwnd` bytes.
    pub(crate) fn window(&self, cwnd: u64) -> u64 {
        let cwnd = self.overload.bound(cwnd);
        self.configured(cwnd.saturating_add(self.acks.of(cwnd, self.mss)))
    }

    /// `bytes` in flight, within the limits.
    pub(crate) fn bound(&self, bytes: u64) -> u64 {
        self.configured(self.overload.bound(bytes))
    }

    fn configured(&self, bytes: u64) -> u64 {
        if self.silent { self.mss } else { bytes.min(self.max_window).max(self.mss) }
    }

    /// `cwnd` bytes, in so many segments.
    pub(crate) fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.mss as f64
    }

    /// So many segments in bytes; what is no number is none of them.
    pub(crate) fn bytes(&self, segments: f64) -> u64 {
        (segments * self.mss as f64) as u64
    }

    /// `rate`, but a segment per second at least, or no acknowledgment could ever correct it.
    pub(crate) fn floor(&self, rate: Rate) -> Rate {
        rate.max(Rate::from_bps(self.mss.saturating_mul(8)))
    }

    /// `gain * cwnd / rtt`; `None` before there is a round trip.
    pub(crate) fn pace(&self, cwnd: u64, gain: f64, rtt: Option<Duration>) -> Option<Rate> {
        let rate = Rate::from_bytes_over(self.overload.bound(cwnd), rtt.or(self.srtt())?)?;
        Some(self.floor(rate.mul_f64(gain)))
    }
}

/// Ends a round when what was in flight at its beginning is acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rounds {
    /// In bytes delivered.
    end: u64,
}

impl Rounds {
    /// True if the round ends with this acknowledgment.
    pub(crate) fn on_ack(&mut self, ack: &AckSample) -> bool {
        if ack.acked_bytes == 0 || ack.delivered < self.end {
            return false;
        }
        self.end = ack.delivered.saturating_add(ack.in_flight).saturating_add(1);
        true
    }
}

/// The greatest flight of this round trip and the one before: what was lost left in it. Where the data ends, TACKs
/// have acknowledged most of it before the loss settles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    began: Option<Instant>,
    now: u64,
    before: u64,
}

impl Peak {
    pub(crate) fn on_ack(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.srtt.or(ack.rtt) else { return };
        let since = self.began.map_or(Duration::MAX, |began| ack.now - began);
        if since >= rtt {
            self.before = if since < rtt.saturating_mul(2) { self.now } else { 0 };
            (self.began, self.now) = (Some(ack.now), 0);
        }
        self.now = self.now.max(ack.prior_in_flight);
    }

    /// The flight of which `left` bytes are left: while data flows they are most of it, or a TACK's worth less.
    pub(crate) fn behind(&self, left: u64) -> u64 {
        let peak = self.now.max(self.before);
        if left < peak / 2 { peak } else { left }
    }
}

/// How things stood right after a departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) at: Instant,
    /// All bytes sent until then, these included.
    pub(crate) sent: u64,
    /// Bytes in flight, these included.
    pub(crate) in_flight: u64,
    /// All bytes known to be lost by then.
    pub(crate) lost: u64,
}

/// The departures of the last while: who hears when a packet left finds here what stood then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Departures {
    marks: VecDeque<Mark>,
    sent: u64,
}

/// Departures remembered: at a gigabit per second and a burst each half a millisecond, one second.
const MARKS: usize = 2_048;

impl Departures {
    /// `bytes` left. Those of one instant are one departure.
    pub(crate) fn on_sent(&mut self, bytes: u64, in_flight: u64, lost: u64, now: Instant) {
        self.sent = self.sent.saturating_add(bytes);
        let mark = Mark { at: now, sent: self.sent, in_flight, lost };
        match self.marks.back_mut() {
            Some(last) if last.at >= now => *last = Mark { at: last.at, ..mark },
            _ => self.marks.push_back(mark),
        }
        if self.marks.len() > MARKS {
            self.marks.pop_front();
        }
    }

    /// All bytes sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The latest departure not after `at`, or the earliest one remembered; `None` before any.
    pub(crate) fn at(&self, at: Instant) -> Option<Mark> {
        let after = self.marks.partition_point(|mark| mark.at <= at);
        self.marks.get(after.saturating_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;

    #[test]
    fn random_departures_are_found_again_as_by_a_walk_over_all_of_them() {
        use rand_pcg::rand_core::Rng;
        let mut dice = rand_pcg::Pcg32::new(1, 1);
        let (mut departures, mut all) = (Departures::default(), Vec::new());
        let (mut now, mut sent) = (Instant::ZERO, 0);
        for _ in 0..1_000 {
            now += Duration::from_micros(u64::from(dice.next_u32() % 3));
            let bytes = u64::from(dice.next_u32() % 3_000);
            sent += bytes;
            departures.on_sent(bytes, bytes * 2, sent / 10, now);
            all.push(Mark { at: now, sent, in_flight: bytes * 2, lost: sent / 10 });
            let at = Instant::from_nanos(1_000 * u64::from(dice.next_u32() % 1_200));
            let found = all.iter().rev().find(|mark| mark.at <= at).or(all.first());
            // Of several at one instant the oldest remembered is the last one.
            let found = found.map(|f| *all.iter().rev().find(|mark| mark.at == f.at).unwrap());
            assert_eq!(departures.at(at), found);
        }
        assert_eq!(departures.sent(), sent);
    }

    #[test]
    fn old_departures_are_forgotten_and_the_oldest_left_stands_for_them() {
        let mut departures = Departures::default();
        for n in 0..10_000 {
            departures.on_sent(1, 0, 0, Instant::from_millis(n));
        }
        assert_eq!(departures.marks.len(), MARKS);
        assert_eq!(departures.at(Instant::ZERO).map(|mark| mark.sent), Some(10_001 - 2_048));
    }

    #[test]
    fn a_peak_is_that_of_two_round_trips_and_of_no_idle_time() {
        let mut peak = Peak::default();
        let rtt = Some(Duration::from_millis(100));
        let mut at = |ms, prior_in_flight| {
            let now = Instant::from_millis(ms);
            peak.on_ack(&AckSample { now, srtt: rtt, prior_in_flight, ..ack() });
            peak.behind(0)
        };
        assert_eq!([at(0, 7), at(50, 9), at(110, 3), at(190, 2), at(220, 1)], [7, 9, 9, 9, 3]);
        assert_eq!(at(500, 8), 8);
        assert_eq!((peak.behind(3), peak.behind(4)), (8, 4));
    }

    #[test]
    fn a_round_ends_when_its_flight_is_acknowledged() {
        let mut rounds = Rounds::default();
        let ends = (1..=40).filter(|&delivered| {
            rounds.on_ack(&AckSample { acked_bytes: 1, delivered, in_flight: 9, ..ack() })
        });
        assert_eq!(ends.collect::<Vec<_>>(), [1, 11, 21, 31]);
    }
}
