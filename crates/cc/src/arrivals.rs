//! What a receiver that measures rates shows a window-based slow start.
//!
//! ```text
//! rate     = greatest rate told in this round trip and the one before [TON §VI-D]
//! least    = least round trip of the same time
//!
//! clear    = the last round trip passed no queue    slow start grows as `growth.rs` says, else by 2
//! room     = rate * (flight * least + 4 ms)         it grows no further
//! held     = rate * srtt, of it rate * RTTmin bdp   once packets wait: bdp and queue
//! ```
//!
//! Growth and room are those of BBR's Startup under such rates (`bbr/overshoot.rs` says why they are
//! safe): the limit is not felt before the path is full. The 4 ms are what 802.11 and hosts gather into one
//! burst: there the rate grows with the window. More of it is a queue of its own on paths of tens of milliseconds, and
//! with 16 ms a short buffer lost twice as much. A loss then cuts what the path held, not what slow start had sent
//! beyond it.

use core::time::Duration;

use tack_units::{Instant, Rate};

use crate::flight::Peak;
use crate::growth::{Clearance, Growth};
use crate::sample::{AckSample, RateSource};

/// Gathered into one burst.
const GATHERED: Duration = Duration::from_millis(4);
/// A round trip longer than the least by this part of it passed a queue [RFC 9406 §4.3]; by less than a quarter of
/// a millisecond, hosts. On paths so near that an aggregate of 802.11 is more, doubling is fast enough.
const RISE_DIVISOR: u32 = 8;
const RISE_MIN: Duration = Duration::from_micros(250);

/// Follows the rates that a receiver tells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrivals {
    /// The initial window, bytes.
    initial: u64,
    began: Option<Instant>,
    now: Round,
    before: Round,
    rtt_min: Option<Duration>,
    /// The newest round trip.
    rtt: Duration,
    peak: Peak,
    /// Whether round trips passed a queue.
    clearance: Clearance,
}

/// What a path was seen to hold while packets waited, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// With its queue.
    pub(crate) all: u64,
    /// Without.
    bdp: u64,
}

/// Jitter shows greater rates than the path has: no more than this part of all is the path's.
const MOST_OF_IT_PATH: f64 = 0.8;

impl Held {
    /// What is left at least when the first slow start ends with a loss.
    ///
    /// Deviation: as Westwood does, where [RFC 5681 §3.1] has half of FlightSize. A sender that learns of the loss when
    /// its window has doubled keeps about as much; half of what the path was seen to hold leaves one with a short buffer
    /// idle until the window has grown back, a segment per round trip.
    pub(crate) fn kept(self) -> u64 {
        self.bdp.min((self.all as f64 * MOST_OF_IT_PATH) as u64)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    rate: Rate,
    least: Option<Duration>,
}

impl Arrivals {
    /// Of a flow whose window begins with so many bytes.
    pub(crate) fn new(initial: u64) -> Arrivals {
        Arrivals {
            initial,
            began: None,
            now: Round::default(),
            before: Round::default(),
            rtt_min: None,
            rtt: Duration::ZERO,
            peak: Peak::default(),
            clearance: Clearance::presumed(false),
        }
    }

    /// Takes in what a TACK tells; nothing from plain TCP.
    pub(crate) fn on_ack(&mut self, ack: &AckSample) {
        let told = ack.rate.filter(|sample| sample.source == RateSource::Receiver);
        let Some(told) = told else { return };
        self.peak.on_ack(ack);
        let Some((rate, rtt)) = told.delivery_rate.zip(ack.rtt) else { return };
        if self.began.is_none_or(|began| ack.now - began >= rtt) {
            self.began = Some(ack.now);
            self.before = core::mem::take(&mut self.now);
        }
        (self.rtt_min, self.rtt) = (ack.rtt_min, rtt);
        let waits = |least: Duration| least.saturating_add((least / RISE_DIVISOR).max(RISE_MIN));
        self.clearance.on_ack(ack.rtt_min.is_some_and(|least| rtt < waits(least)));
        self.now.rate = self.now.rate.max(rate);
        self.now.least = Some(self.now.least.map_or(rtt, |least| least.min(rtt)));
    }

    fn rate(&self) -> Rate {
        self.now.rate.max(self.before.rate)
    }

    fn growth(&self, cwnd: u64) -> Growth {
        self.clearance.growth(cwnd, self.initial, self.rtt_min)
    }

    /// What `acked` bytes let a window of `cwnd` grow by in slow start, if a pacer spreads it.
    pub(crate) fn grown_by(&self, acked: u64, cwnd: u64) -> u64 {
        (acked as f64 * (self.growth(cwnd).per_round() - 1.0)) as u64
    }

    /// Bytes that slow start with a window of `cwnd` may put on the path; `None` before a round trip was measured.
    pub(crate) fn room_for(&self, cwnd: u64) -> Option<u64> {
        let least = self.now.least?.min(self.before.least?);
        let over = least.mul_f64(self.growth(cwnd).flight());
        Some(self.rate().bytes_in(over.saturating_add(GATHERED)))
    }

    /// The flight of which `left` bytes are left, as far as the receiver's words tell.
    pub(crate) fn flight_behind(&self, left: u64) -> u64 {
        self.peak.behind(left)
    }

    /// Packets wait in a queue of half a bandwidth-delay product and more.
    pub(crate) fn is_deep(&self, srtt: Duration) -> bool {
        self.rtt_min.is_some_and(|least| srtt > least.saturating_add(least / 2))
    }

    /// What the path holds, if it is full; `None` before anything was told.
    pub(crate) fn held(&self, srtt: Duration) -> Option<Held> {
        let (rate, full) = (self.rate(), self.full(srtt));
        self.rtt_min.map(|least| Held { all: rate.bytes_in(full), bdp: rate.bytes_in(least) })
    }

    /// What the path holds; `None` unless packets wait.
    pub(crate) fn held_at(&self, srtt: Duration) -> Option<Held> {
        let least = self.rtt_min?;
        let waits = self.full(srtt) >= least.saturating_add(least / RISE_DIVISOR);
        self.held(srtt).filter(|_| waits)
    }

    /// The round trip over a queue that is full now: where few packets fill it, `srtt` knows half of it.
    fn full(&self, srtt: Duration) -> Duration {
        srtt.max(self.rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::RateSample;
    use crate::sample::tests::ack;

    const LEAST: Duration = Duration::from_millis(100);
    /// No small one.
    const CWND: u64 = 1_000_000;

    fn told(now_ms: u64, mbps: u64, rtt_ms: u64) -> AckSample {
        let rate = RateSample {
            delivery_rate: Some(Rate::from_mbps(mbps)),
            app_limited: false,
            source: RateSource::Receiver,
            prior_delivered: 0,
            interval: Duration::ZERO,
        };
        AckSample {
            now: Instant::from_millis(now_ms),
            rate: Some(rate),
            rtt: Some(Duration::from_millis(rtt_ms)),
            rtt_min: Some(LEAST),
            ..ack()
        }
    }

    fn after(acks: &[AckSample]) -> Arrivals {
        let mut arrivals = Arrivals::new(0);
        acks.iter().for_each(|ack| arrivals.on_ack(ack));
        arrivals
    }

    #[test]
    fn the_greatest_rate_and_the_least_round_trip_of_two_rounds_make_the_room() {
        let first = [told(0, 8, 100), told(50, 16, 104)];
        assert_eq!(after(&first).room_for(CWND), None, "one round trip tells of no growth");
        // 16 Mbit/s are 2 000 bytes per ms, for 200 and 4 ms.
        let both = [first[0], first[1], told(110, 12, 110)];
        assert_eq!(after(&both).room_for(CWND), Some(2_000 * 204));
        let later = [first[0], first[1], told(110, 12, 110), told(230, 12, 120)];
        assert_eq!(after(&later).room_for(CWND), Some((1_500.0 * (2.0 * 110.0 + 4.0)) as u64));
    }

    #[test]
    fn the_path_holds_what_arrives_in_a_round_trip_once_packets_wait() {
        let held = |newest, srtt| {
            let arrivals = after(&[told(0, 8, 100), told(100, 8, newest)]);
            arrivals.held_at(Duration::from_millis(srtt))
        };
        assert_eq!(held(112, 112), None);
        let full = Some(Held { all: 150_000, bdp: 100_000 });
        assert_eq!([held(100, 150), held(150, 110)], [full; 2]);
        let kept = [held(100, 150), held(100, 115)].map(|held| held.map(Held::kept));
        assert_eq!(kept, [Some(100_000), Some(92_000)]);
    }

    #[test]
    fn growth_is_faster_while_nothing_waits_and_fastest_at_first() {
        let small = Arrivals { initial: 10_000, ..after(&[told(0, 8, 112)]) };
        assert_eq!(small.grown_by(1_000, 50_000), 3_000);
        assert_eq!(after(&[told(0, 8, 112)]).grown_by(1_000, CWND), 1_885);
        assert_eq!(after(&[told(0, 8, 113)]).grown_by(1_000, CWND), 1_000);
    }

    #[test]
    fn on_a_near_path_a_fraction_of_a_millisecond_is_a_queue() {
        let near = |rtt_us| {
            let rtt = Some(Duration::from_micros(rtt_us));
            let rtt_min = Some(Duration::from_micros(400));
            after(&[AckSample { rtt, rtt_min, ..told(0, 600, 1) }])
        };
        assert_eq!(near(640).grown_by(1_000, CWND), 1_885);
        assert_eq!(near(650).grown_by(1_000, CWND), 1_000);
    }

    #[test]
    fn rates_of_the_sender_are_no_news() {
        let mut plain = told(0, 8, 100);
        plain.rate.as_mut().unwrap().source = RateSource::Sender;
        let arrivals = after(&[plain, AckSample { now: Instant::from_millis(200), ..plain }]);
        assert_eq!(arrivals.room_for(CWND), None);
        assert_eq!(arrivals.held_at(LEAST * 2), None);
        assert_eq!(arrivals.grown_by(1_000, CWND), 1_000);
    }
}
