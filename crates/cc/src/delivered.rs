//! What a whole round trip delivered: the ceiling of a receiver-measured rate.
//!
//! The receiver measures over two TACK intervals, half an RTTmin. On Wi-Fi an aggregate (A-MPDU)
//! of milliseconds arrives at one instant, and over so short a window it looks like a faster path.
//! A maximum filter keeps exactly that sample, the sender then sends faster, and larger aggregates
//! follow. The sender's own measure cannot be fooled for long: when `flight` bytes take one round
//! trip, and the queue is what grows, the round trip grows with it.
//!
//! ```text
//! ceiling = (delivered(now) - delivered(t)) / max(now - t - 1/f, min(now - t, srtt))
//! ```
//!
//! where `t` is when the newest acknowledged packet was sent. `1/f` is taken off since `delivered`
//! moves in steps of one TACK interval: `t` may be known one interval too early. A burst after a silence may be
//! shorter than a round trip, which it then says nothing of: what came since its first acknowledgment counts there, if
//! that is more.
//!
//! Deviation: [TON §VI-D] has no such ceiling; its rate is used where it is lower, which it is on
//! every path without aggregation.

use core::time::Duration;
use std::collections::VecDeque;

use tack_units::{Instant, Rate};

use crate::sample::{AckSample, RateSample, RateSource};

/// Remembers when `delivered` was how much.
#[derive(Clone, Debug, Default)]
pub(crate) struct Delivered {
    history: VecDeque<(Instant, u64)>,
    /// When sending began after the last silence.
    resumed: Option<Instant>,
}

/// Marks kept: at [`PER_RTT`] a round trip, four of them. A packet older than that is measured from
/// the oldest mark.
const MARKS: usize = 64;
/// Marks per smoothed RTT, four times as dense as TACKs.
const PER_RTT: u32 = 16;

impl Delivered {
    /// `delivered` bytes had arrived by `now`.
    pub(crate) fn on_ack(&mut self, delivered: u64, srtt: Option<Duration>, now: Instant) {
        let spacing = srtt.unwrap_or(Duration::ZERO) / PER_RTT;
        let due = self.history.back().is_none_or(|last| now - last.0 >= spacing);
        if due {
            self.mark(delivered, now);
        }
    }

    /// The sender was idle until `now`: what is measured starts here.
    pub(crate) fn restart(&mut self, delivered: u64, now: Instant) {
        self.history.clear();
        self.mark(delivered, now);
        // What comes before anything has arrived is no silence.
        self.resumed = (delivered > 0).then_some(now);
    }

    fn mark(&mut self, delivered: u64, now: Instant) {
        if self.history.len() == MARKS {
            self.history.pop_front();
        }
        self.history.push_back((now, delivered));
    }

    /// The rate that `ack` tells, a receiver's no more than the ceiling. One that the application held down is a lower
    /// bound as it is: a whole round trip has its pauses in it.
    pub(crate) fn bounded(&self, ack: &AckSample) -> Option<RateSample> {
        let told = ack.rate?;
        if told.source == RateSource::Sender || told.app_limited {
            return Some(told);
        }
        let times = Times { srtt: ack.srtt, ack_interval: ack.ack_interval };
        let ceiling = self.ceiling(told.prior_delivered, ack.delivered, &times, ack.now);
        let most = ceiling.unwrap_or(Rate::MAX);
        Some(RateSample { delivery_rate: told.delivery_rate.map(|rate| rate.min(most)), ..told })
    }

    /// Rate at which `delivered` grew since the packet acknowledged at `now` was sent, when
    /// `prior_delivered` had arrived; `None` before the first RTT sample, or when no time passed.
    pub(crate) fn ceiling(
        &self,
        prior_delivered: u64,
        delivered: u64,
        times: &Times,
        now: Instant,
    ) -> Option<Rate> {
        let sent = self.history.iter().rev().find(|mark| mark.1 <= prior_delivered);
        let sent = sent.or(self.history.front())?;
        let elapsed = now - sent.0;
        let known = elapsed.min(times.srtt?);
        let over = elapsed.saturating_sub(times.ack_interval).max(known);
        let rate = |from: u64, over| Rate::from_bytes_over(delivered.saturating_sub(from), over);
        let first = self.history.get(1).filter(|_| self.resumed == Some(sent.0));
        let spread = first.and_then(|(at, delivered)| rate(*delivered, now - *at));
        Some(rate(sent.1, over)?.max(spread.unwrap_or(Rate::ZERO)))
    }
}

/// The time scales of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Smoothed RTT; `None` before the first sample.
    pub(crate) srtt: Option<Duration>,
    /// `1/f`.
    pub(crate) ack_interval: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const TIMES: Times =
        Times { srtt: Some(Duration::from_millis(40)), ack_interval: Duration::from_millis(10) };

    /// 1000 bytes per ms arrive in aggregates of `burst` ms; TACKs every 10 ms; RTT 40 ms.
    fn highest_ceiling(burst: u64) -> f64 {
        let mut d = Delivered::default();
        let mut highest = 0.0;
        for ms in (0..2_000).step_by(10) {
            let now = Instant::from_nanos(ms * MS);
            let arrived = |ms: u64| ms / burst * burst * 1_000;
            d.on_ack(arrived(ms), TIMES.srtt, now);
            if ms >= 100 {
                let rate = d.ceiling(arrived(ms - 40), arrived(ms), &TIMES, now);
                highest = rate.map_or(highest, |r| r.as_mbps_f64().max(highest));
            }
        }
        highest
    }

    #[test]
    fn a_smooth_path_is_measured_exactly_or_a_little_high() {
        let rate = highest_ceiling(1);
        assert!((8.0..=10.0).contains(&rate), "{rate} Mbit/s on a path of 8");
    }

    #[test]
    fn aggregates_of_a_whole_tack_interval_inflate_by_one_interval_per_round_at_most() {
        // Over two TACK intervals, the receiver would see up to 1.5 times the rate.
        assert!(highest_ceiling(10) <= 8.0 * 1.25 + 1e-9);
    }

    #[test]
    fn memory_is_bounded_and_what_it_lost_is_measured_from_its_oldest_mark() {
        let mut d = Delivered::default();
        for n in 0..10_000 {
            d.on_ack(n * 1_000, None, Instant::from_nanos(n * MS));
        }
        assert_eq!(d.history.len(), MARKS);
        let now = Instant::from_nanos(10_000 * MS);
        let short = Times { ack_interval: Duration::ZERO, ..TIMES };
        assert_eq!(d.ceiling(0, 10_000_000, &short, now), Some(Rate::from_mbps(8)));
        assert_eq!(Delivered::default().ceiling(0, 1, &TIMES, now), None);
    }

    #[test]
    fn idle_time_is_not_measured() {
        let mut d = Delivered::default();
        d.on_ack(50_000, TIMES.srtt, Instant::ZERO);
        let resumed = Instant::from_secs(9);
        d.restart(50_000, resumed);
        let now = resumed + Duration::from_millis(40);
        assert_eq!(d.ceiling(50_000, 90_000, &TIMES, now), Some(Rate::from_mbps(8)));
    }

    #[test]
    fn a_burst_shorter_than_a_round_trip_is_measured_from_its_first_acknowledgment() {
        let mut d = Delivered::default();
        let (b, at) = (50_000, |ms| Instant::from_millis(ms));
        d.restart(b, Instant::ZERO);
        assert_eq!(d.ceiling(b, b + 2_000, &TIMES, at(40)), Rate::from_kbps(400).into());
        d.on_ack(b + 2_000, TIMES.srtt, at(40));
        // 20 segments in 20 ms, of a path whose round trip is 40.
        assert_eq!(d.ceiling(b, b + 12_000, &TIMES, at(50)), Some(Rate::from_mbps(8)));
        d.on_ack(b + 12_000, TIMES.srtt, at(50));
        assert_eq!(d.ceiling(b, b + 22_000, &TIMES, at(60)), Some(Rate::from_mbps(8)));
        // What is sent after the first acknowledgment has a round trip of its own.
        assert_eq!(d.ceiling(b + 2_000, b + 42_000, &TIMES, at(80)), Some(Rate::from_mbps(8)));
    }
}
