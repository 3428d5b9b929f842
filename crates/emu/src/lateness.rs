//! How late real time made us.
//!
//! A sleeping thread is woken some 40 µs after its deadline, on a busy machine milliseconds after
//! it. Small lateness is noise in the delay of the path; a stall of many milliseconds is a burst
//! that the model never made, and voids the run.

use core::time::Duration;

/// Lateness beyond this counts as this, except for the greatest.
const MAX_SLOT_US: usize = 100_000;

/// By how much packets left after they were due: a histogram of microseconds.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    counts: Vec<u64>,
    packets: u64,
    greatest: Duration,
}

impl Lateness {
    /// Adds one packet that left `late` after it was due.
    pub fn record(&mut self, late: Duration) {
        self.greatest = self.greatest.max(late);
        let slot = usize::try_from(late.as_micros()).map_or(MAX_SLOT_US, |us| us.min(MAX_SLOT_US));
        if self.counts.len() <= slot {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
        self.packets += 1;
    }

    /// What the share `q`, from 0 to 1, of packets did not exceed, to the microsecond and at most
    /// 0.1 s. Zero before any packet.
    pub fn quantile(&self, q: f64) -> Duration {
        let rank = (self.packets as f64 * q.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        let reaches = |count: &u64| {
            seen += count;
            seen >= rank
        };
        Duration::from_micros(self.counts.iter().position(reaches).unwrap_or(0) as u64)
    }

    /// The greatest of all.
    pub fn greatest(&self) -> Duration {
        self.greatest
    }

    /// Packets recorded.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

/// Beyond what lateness a run is worth nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatenessBound {
    /// Of 999 packets in 1000.
    pub p999: Duration,
    /// Of every packet.
    pub max: Duration,
}

impl Default for LatenessBound {
    /// 3 ms and 10 ms. An undisturbed relay stays below a tenth of either, even at 50 000 packets
    /// per second; what exceeds them was a stalled machine.
    fn default() -> Self {
        LatenessBound { p999: Duration::from_millis(3), max: Duration::from_millis(10) }
    }
}

impl LatenessBound {
    /// No bound: for a look at a path by hand.
    pub const NONE: LatenessBound = LatenessBound { p999: Duration::MAX, max: Duration::MAX };

    /// Whether `lateness` stays within.
    pub fn holds(&self, lateness: &Lateness) -> bool {
        lateness.quantile(0.999) <= self.p999 && lateness.greatest() <= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Duration = Duration::from_micros(1);

    #[test]
    fn lateness_is_told_by_quantile_and_extreme() {
        let mut lateness = Lateness::default();
        assert_eq!(
            (lateness.quantile(0.99), lateness.greatest()),
            (Duration::ZERO, Duration::ZERO)
        );
        for us in (1..=100).rev() {
            lateness.record(us * US);
        }
        lateness.record(Duration::from_secs(9));
        assert_eq!(lateness.quantile(0.0), US);
        assert_eq!(lateness.quantile(0.5), 51 * US);
        assert_eq!(lateness.quantile(0.99), 100 * US);
        assert_eq!(lateness.quantile(1.0), MAX_SLOT_US as u32 * US);
        assert_eq!(lateness.greatest(), Duration::from_secs(9));
        assert_eq!(lateness.packets(), 101);
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_list() {
        // A naive oracle over arbitrary values, multiplicative steps for spread.
        let mut lateness = Lateness::default();
        let (mut values, mut x) = (Vec::new(), 7_u64);
        for _ in 0..5_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let us = (x >> 33) % 3_000;
            values.push(us);
            lateness.record(Duration::from_micros(us));
        }
        values.sort_unstable();
        for q in [0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let rank = (values.len() as f64 * q).ceil() as usize - 1;
            assert_eq!(lateness.quantile(q), Duration::from_micros(values[rank]), "q {q}");
        }
    }

    #[test]
    fn one_stall_voids_a_run_and_so_do_many_small_ones() {
        let ms = Duration::from_millis;
        let bound = LatenessBound::default();
        let mut good = Lateness::default();
        (0..10_000).for_each(|_| good.record(40 * US));
        // One in a thousand may be anything up to the greatest allowed.
        (0..10).for_each(|_| good.record(ms(10)));
        assert!(bound.holds(&good));
        let mut stalled = good.clone();
        stalled.record(ms(10) + US);
        assert!(!bound.holds(&stalled));
        assert!(LatenessBound::NONE.holds(&stalled));
        (0..10).for_each(|_| good.record(ms(4)));
        assert!(!bound.holds(&good));
    }
}
