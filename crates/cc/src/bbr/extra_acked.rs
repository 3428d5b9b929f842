//! How much more is acknowledged at once than the rate explains: an allowance for aggregation.
//!
//! Wi-Fi, cable and hosts deliver and acknowledge in bunches. Between two bunches the sender must
//! have something in flight beyond the bdp, or it falls idle. The excess is measured per epoch, an
//! epoch being a time over which acknowledgments keep ahead of the estimated bandwidth:
//!
//! ```text
//! extra = acked(epoch) - bandwidth * (time(epoch) + 1/f)   an epoch ends where acked is no more
//!                                                           than bandwidth * time
//! allowance = max(extra over the last 5 to 10 rounds)       at most bandwidth * 100 ms
//! ```
//!
//! `1/f` is zero for plain TCP. A TACK brings one interval's worth at once by design, and the
//! inflight cap allows for that already; only what comes on top is an excess. Of it 40 ms count, unless hardly anything
//! is left in flight: what is kept there for the longest pause of ten rounds stands in a queue in all the others.

use core::time::Duration;

use tack_units::{Instant, Rate};

/// The estimator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtraAcked {
    epoch_began: Instant,
    epoch_acked: u64,
    /// Maxima of this half window and of the one before.
    now: u64,
    before: u64,
    rounds: u32,
}

/// Rounds in half a window: the two halves together remember 5 to 10 rounds, as long as the
/// bandwidth filter does.
const HALF_WINDOW_ROUNDS: u32 = 5;
/// An epoch this long is not aggregation but a rate above the estimate.
const EPOCH_MAX_SEGMENTS: u64 = 1 << 20;
/// Longer pauses are outages, not aggregation.
const MAX_PAUSE: Duration = Duration::from_millis(100);
/// Under TACK, while the flight outlasts it.
const MAX_PAUSE_IN_FLIGHT: Duration = Duration::from_millis(40);

impl ExtraAcked {
    pub(crate) fn new(now: Instant) -> Self {
        Self { epoch_began: now, epoch_acked: 0, now: 0, before: 0, rounds: 0 }
    }

    /// The sender was idle: acknowledgments are counted from here.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.epoch_began = now;
        self.epoch_acked = 0;
    }

    pub(crate) fn on_round(&mut self) {
        self.rounds += 1;
        if self.rounds >= HALF_WINDOW_ROUNDS {
            self.rounds = 0;
            self.before = self.now;
            self.now = 0;
        }
    }

    /// `acked` bytes acknowledged at `now`; no excess counts beyond the window `cwnd`.
    pub(crate) fn on_ack(&mut self, acked: u64, bandwidth: Rate, limits: Limits, now: Instant) {
        if acked == 0 {
            return;
        }
        let mut expected = bandwidth.bytes_in(now - self.epoch_began);
        let counted = self.epoch_acked.saturating_add(acked);
        let longest = EPOCH_MAX_SEGMENTS.saturating_mul(limits.mss);
        if self.epoch_acked <= expected || counted >= longest {
            self.restart(now);
            expected = 0;
        }
        self.epoch_acked = self.epoch_acked.saturating_add(acked);
        let expected = expected.saturating_add(bandwidth.bytes_in(limits.ack_interval));
        let outlasted = !limits.ack_interval.is_zero() && !limits.ran_dry;
        let pause = if outlasted { MAX_PAUSE_IN_FLIGHT } else { MAX_PAUSE };
        let most = limits.cwnd.min(bandwidth.bytes_in(pause));
        let extra = self.epoch_acked.saturating_sub(expected).min(most);
        self.now = self.now.max(extra);
    }

    /// Bytes to allow in flight beyond the target.
    pub(crate) fn allowance(&self, bandwidth: Rate) -> u64 {
        self.now.max(self.before).min(bandwidth.bytes_in(MAX_PAUSE))
    }
}

/// What an excess is measured against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes.
    pub(crate) cwnd: u64,
    /// Bytes.
    pub(crate) mss: u64,
    /// `1/f`; zero for plain TCP.
    pub(crate) ack_interval: Duration,
    /// Hardly anything is left in flight.
    pub(crate) ran_dry: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate::from_mbps(8); // 1000 bytes per ms

    fn limits(ack_interval_ms: u64) -> Limits {
        let ack_interval = Duration::from_millis(ack_interval_ms);
        Limits { cwnd: 1 << 30, mss: 1_000, ack_interval, ran_dry: false }
    }

    #[test]
    fn regular_tacks_are_no_excess_and_a_bunch_is() {
        let mut e = ExtraAcked::new(Instant::ZERO);
        for n in 1..=100 {
            e.on_ack(10_000, RATE, limits(10), Instant::from_millis(10 * n));
        }
        assert_eq!(e.allowance(RATE), 0);
        // Four intervals without feedback, then everything at once.
        e.on_ack(40_000, RATE, limits(10), Instant::from_millis(1_040));
        assert_eq!(e.allowance(RATE), 30_000);
    }

    #[test]
    fn what_one_ack_covers_is_an_excess_of_plain_tcp() {
        let mut e = ExtraAcked::new(Instant::ZERO);
        for n in 1..=100 {
            e.on_ack(2_000, RATE, limits(0), Instant::from_millis(2 * n));
        }
        assert_eq!(e.allowance(RATE), 2_000);
    }

    #[test]
    fn an_excess_is_forgotten_after_five_to_ten_rounds() {
        for first in 0..HALF_WINDOW_ROUNDS {
            let mut e = ExtraAcked::new(Instant::ZERO);
            (0..first).for_each(|_| e.on_round());
            e.on_ack(40_000, RATE, limits(0), Instant::from_millis(1));
            let remembered = (0..20).take_while(|_| {
                e.on_round();
                e.allowance(RATE) > 0
            });
            let rounds = remembered.count();
            assert!((5..10).contains(&rounds), "remembered for {rounds} rounds");
        }
    }

    #[test]
    fn the_allowance_is_bounded_by_the_window_and_by_100_ms() {
        let mut e = ExtraAcked::new(Instant::ZERO);
        e.on_ack(u64::MAX, RATE, limits(0), Instant::ZERO);
        assert_eq!(e.allowance(RATE), 100_000);
        e.on_ack(u64::MAX, Rate::MAX, limits(0), Instant::ZERO);
        assert_eq!(e.allowance(Rate::MAX), 1 << 30);
    }

    #[test]
    fn under_tack_pauses_count_for_40_ms_unless_the_flight_ran_dry() {
        for (ran_dry, allowed) in [(false, 40_000), (true, 100_000)] {
            let mut e = ExtraAcked::new(Instant::ZERO);
            e.on_ack(150_000, RATE, Limits { ran_dry, ..limits(10) }, Instant::ZERO);
            assert_eq!(e.allowance(RATE), allowed);
        }
    }
}
