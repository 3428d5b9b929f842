//! How long a burst may be: longer on a long path, shorter where the buffer may not hold one.
//!
//! ```text
//! whole = clamp(RTTmin / 16, base, 1 ms)      where the base holds eight packets; else base
//! a round trip that lost more than 2 % from a queue shorter than a burst   half as long, down to 1/64
//! one that lost anything so, and held fewer than sixteen bursts            half as long
//! sixteen in a row that lost less than ½ %                                 twice as long, up to the whole
//! a thousand, where a round trip would hold fewer than sixteen then        likewise
//! ```
//!
//! And of a pair of segments, which is the shortest burst however slow the path, a queue of a few packets that is
//! full anyway drops one: while more than 15 % is lost, each leaves by itself. (Random loss is less.)
//!
//! A sender wakes once per burst, so long ones are cheap; a millisecond is what Linux sends at once. At a
//! slow rate there is little to save, and packets further apart see less of the path.
//! But half of one, sent at once so that offload works, is more than a small buffer takes at
//! a gigabit per second: at the very rate of the path every burst loses its end. Less would cost
//! every fast path, and those whose losses have another cause, processor time for nothing. One other
//! cause shows itself: where all packets of a round trip waited longer than a burst lasts, the buffer
//! holds more than one, and what overflowed it was the window, as at the end of Startup.

use core::time::Duration;

use tack_units::{Instant, Rate};

use crate::AckSample;

/// Bursts a round trip holds at least, where they are longer than the base or it loses anything.
const PER_ROUND_TRIP: u32 = 16;
/// Bytes that a burst of the base's length holds where longer ones are worth it.
const WORTH: u64 = 8 * 1_500;
/// No burst lasts longer.
const LONGEST: Duration = Duration::from_millis(1);
/// Share of a round trip's bytes lost above which bursts shrink, and below which they may grow.
const SHRINK: f64 = 0.02;
const GROW: f64 = 0.005;
/// The same above which pairs are too long.
const OVERFULL: f64 = 0.15;
/// Bytes over which that is averaged.
const AVERAGED: f64 = 64.0 * 1_500.0;
/// Round trips in a row below [`GROW`] before bursts grow.
const CALM_ROUNDS: u32 = 16;
/// The same before a round trip holds fewer than [`PER_ROUND_TRIP`] of them again: a controller that lives
/// by losses comes to the next one after hundreds.
const LONG_CALM_ROUNDS: u32 = 1_000;
/// Most halvings.
const MAX_HALVINGS: u32 = 6;

/// Fits bursts to the losses they may cause.
#[derive(Clone, Copy, Debug)]
pub struct BurstFit {
    base: Duration,
    whole: Duration,
    /// What makes [`PER_ROUND_TRIP`] of them a round trip.
    fitting: Duration,
    halvings: u32,
    /// Share of bytes lost, smoothed.
    loss: f64,
    began: Option<Instant>,
    lost: u64,
    delivered: u64,
    /// The least that a packet of this round trip waited.
    queued: Option<Duration>,
    calm: u32,
}

impl BurstFit {
    /// Bursts last `base` at first.
    pub fn new(base: Duration) -> Self {
        BurstFit {
            base,
            whole: base,
            fitting: base,
            halvings: 0,
            loss: 0.0,
            began: None,
            lost: 0,
            delivered: 0,
            queued: None,
            calm: 0,
        }
    }

    /// What `sample` says was delivered and lost, by a sender that paces at `rate`. Returns how long a burst
    /// may be.
    pub fn on_ack(&mut self, sample: &AckSample, rate: Option<Rate>) -> Duration {
        self.lost = self.lost.saturating_add(sample.lost_bytes);
        self.delivered = self.delivered.saturating_add(sample.acked_bytes);
        let is_fast = rate.is_some_and(|rate| rate.bytes_in(self.base) >= WORTH);
        self.fitting = sample.rtt_min.map_or(self.base, |rtt_min| rtt_min / PER_ROUND_TRIP);
        self.whole = if is_fast { self.fitting.clamp(self.base, LONGEST) } else { self.base };
        if let Some(queued) = sample.queue() {
            self.queued = Some(self.queued.map_or(queued, |least| least.min(queued)));
        }
        let began = *self.began.get_or_insert(sample.now);
        if sample.srtt.is_some_and(|srtt| sample.now.saturating_since(began) >= srtt) {
            self.end_round(sample.now);
        }
        self.burst()
    }

    /// So much is lost that even two segments at once are too many.
    pub fn is_overfull(&self) -> bool {
        self.loss > OVERFULL
    }

    fn burst(&self) -> Duration {
        self.whole / (1 << self.halvings)
    }

    fn end_round(&mut self, now: Instant) {
        let (lost, delivered) = (self.lost as f64, self.delivered as f64);
        let share = lost / (lost + delivered).max(1.0);
        self.loss += (share - self.loss) * ((lost + delivered) / AVERAGED).min(1.0);
        let held_by_more = self.queued.take().is_some_and(|queued| queued > self.burst());
        (self.lost, self.delivered, self.began) = (0, 0, Some(now));
        self.calm = if share < GROW { self.calm + 1 } else { 0 };
        let bound = if self.burst() > self.fitting { 0.0 } else { SHRINK };
        let calm = if self.burst() * 2 > self.fitting { LONG_CALM_ROUNDS } else { CALM_ROUNDS };
        if share > bound && !held_by_more {
            self.halvings = (self.halvings + 1).min(MAX_HALVINGS);
        } else if self.calm >= calm {
            (self.calm, self.halvings) = (0, self.halvings.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;

    const WHOLE: Duration = Duration::from_micros(500);

    /// Of each round of 100 kB, `shares` is lost, from a queue of `queued`.
    fn queued(fit: &mut BurstFit, queued: Duration, from: u64, shares: &[f64]) -> Duration {
        let rtt_min = Duration::from_millis(8);
        let mut time = fit.burst();
        for (round, share) in (from..).zip(shares) {
            for part in 0..10 {
                let lost_bytes = (share * 10_000.0) as u64;
                let sample = AckSample {
                    now: Instant::from_millis(round * 10 + part),
                    acked_bytes: 10_000 - lost_bytes,
                    lost_bytes,
                    srtt: Some(Duration::from_millis(10)),
                    rtt: Some(rtt_min + queued),
                    rtt_min: Some(rtt_min),
                    ..ack()
                };
                time = fit.on_ack(&sample, None);
            }
        }
        time
    }

    fn after(fit: &mut BurstFit, from: u64, shares: &[f64]) -> Duration {
        queued(fit, Duration::ZERO, from, shares)
    }

    #[test]
    fn bursts_shrink_while_much_is_lost_and_grow_again_slowly() {
        let mut fit = BurstFit::new(WHOLE);
        assert_eq!(after(&mut fit, 0, &[0.0; 40]), WHOLE);
        assert_eq!(after(&mut fit, 40, &[0.1; 4]), WHOLE / 8);
        assert_eq!(after(&mut fit, 44, &[0.1; 40]), WHOLE / 64);
        assert_eq!(after(&mut fit, 84, &[0.0; 18]), WHOLE / 32);
        assert_eq!(after(&mut fit, 102, &[0.0; 100]), WHOLE);
    }

    #[test]
    fn pairs_are_too_many_only_while_more_is_lost_than_at_random() {
        let mut fit = BurstFit::new(WHOLE);
        for (from, share, overfull) in [(0, 0.1, false), (40, 0.3, true), (80, 0.1, false)] {
            after(&mut fit, from, &[share; 40]);
            assert_eq!(fit.is_overfull(), overfull, "{share}");
        }
    }

    #[test]
    fn a_per_cent_of_loss_changes_nothing() {
        let mut fit = BurstFit::new(WHOLE);
        assert_eq!(after(&mut fit, 0, &[0.01; 200]), WHOLE);
        after(&mut fit, 200, &[0.1; 3]);
        let shrunk = after(&mut fit, 203, &[0.01]);
        assert_eq!(after(&mut fit, 204, &[0.01; 200]), shrunk);
    }

    #[test]
    fn a_long_fast_path_takes_longer_bursts() {
        let burst = |mbps, rtt_min| {
            let rtt_min = Some(Duration::from_millis(rtt_min));
            let sample = AckSample { rtt_min, ..ack() };
            BurstFit::new(WHOLE).on_ack(&sample, Some(Rate::from_mbps(mbps)))
        };
        assert_eq!(burst(500, 1), WHOLE);
        assert_eq!(burst(500, 12), Duration::from_micros(750));
        assert_eq!(burst(500, 600), LONGEST);
        assert_eq!(burst(100, 600), WHOLE, "a wake-up for four packets is seldom enough");
    }

    #[test]
    fn a_short_round_trip_that_loses_anything_holds_sixteen_bursts_for_long() {
        let mut fit = BurstFit::new(WHOLE);
        let mut round = 0;
        let mut lose = |lost_bytes, times| {
            let rtt_min = Some(Duration::from_micros(800));
            let mut time = WHOLE;
            for _ in 0..times {
                round += 1;
                let (now, acked_bytes) = (Instant::from_millis(round), 100_000);
                let rates = AckSample { now, acked_bytes, lost_bytes, ..ack() };
                let srtt = rtt_min;
                let sample = AckSample { srtt, rtt: rtt_min, rtt_min, ..rates };
                time = fit.on_ack(&sample, Some(Rate::from_mbps(4_000)));
            }
            time
        };
        assert_eq!(lose(0, 2), WHOLE, "ten of them are no fault by themselves");
        assert_eq!(
            lose(1_000, 40),
            WHOLE / 16,
            "31 us; a per cent of loss asks for no shorter ones"
        );
        assert_eq!(lose(0, 900), WHOLE / 16);
        assert_eq!(lose(0, 200), WHOLE / 8);
    }

    #[test]
    fn what_a_window_overflows_leaves_bursts_as_they_are() {
        let mut fit = BurstFit::new(WHOLE);
        assert_eq!(queued(&mut fit, WHOLE * 2, 0, &[0.4; 10]), WHOLE);
        assert_eq!(queued(&mut fit, WHOLE / 3, 10, &[0.4; 10]), WHOLE / 4);
    }
}
