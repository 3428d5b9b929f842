//! Which holes were announced in vain: they are a round trip and a TACK old and still there.
//!
//! Their loss IACK was lost, or the retransmission was. A sender in the second case knows from
//! PKT.SEQ; in the first nothing else would ever tell it while TACKs list one hole each and the
//! lowest hole is another one. With a queue on the path a round trip takes longer than RTTmin, and
//! holes are listed whose repair is under way: that costs bytes, and no needless retransmission.

use core::time::Duration;
use std::collections::VecDeque;

use tack_units::Instant;

/// Marks per RTTmin: holes are listed at most so much of it late.
const PER_RTT: u32 = 8;

/// Remembers what was announced when.
#[derive(Debug, Default)]
pub(super) struct InVain {
    /// When a TACK left, and below which byte all holes were announced by then.
    marks: VecDeque<(Instant, u64)>,
    /// Holes that start below this byte are old.
    old_below: u64,
}

impl InVain {
    /// A TACK leaves when all holes below `announced_below` have been announced. Returns below
    /// which byte holes have been announced in vain.
    pub(super) fn on_tack(
        &mut self,
        announced_below: u64,
        rtt_min: Duration,
        alpha: Duration,
        now: Instant,
    ) -> u64 {
        let spacing = (rtt_min / PER_RTT).max(alpha);
        if self.marks.back().is_none_or(|(at, _)| now - *at >= spacing) {
            self.marks.push_back((now, announced_below));
        }
        // The IACK, the retransmission, and what lies between two TACKs.
        let patience = rtt_min.saturating_add(rtt_min / 4).saturating_add(alpha.saturating_mul(2));
        while let Some(&(_, below)) = self.marks.front().filter(|(at, _)| now - *at >= patience) {
            self.old_below = self.old_below.max(below);
            self.marks.pop_front();
        }
        self.old_below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_hole_is_old_a_round_trip_and_two_tacks_after_it_was_announced() {
        let mut holes = InVain::default();
        let mut old_at = None;
        for t in (0..400).step_by(10) {
            let announced = if t < 100 { 0 } else { 5_000 };
            let old = holes.on_tack(announced, ms(40), ms(10), Instant::from_millis(t));
            if old > 0 {
                old_at.get_or_insert(t);
            }
        }
        assert_eq!(old_at, Some(170), "100 + 5/4 of 40 + 2 of 10");
    }

    #[test]
    fn memory_stays_bounded_whatever_the_interval() {
        for (rtt, alpha) in [(0, 0), (100, 0), (100, 1), (1, 400)] {
            let mut holes = InVain::default();
            for t in 0..20_000 {
                holes.on_tack(t, ms(rtt), ms(alpha), Instant::from_micros(t * 100));
                assert!(holes.marks.len() <= 12, "{rtt} {alpha}");
            }
        }
    }
}
