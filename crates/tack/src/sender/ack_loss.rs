//! rho': the share of TACKs lost on the ACK path [TON §VI-C].
//!
//! Deviation: the papers' TACKs carry no number, so the sender could only compare with the count
//! it expected. Ours carry a counter, and rho' is exact.

/// TACKs over which rho' averages.
const LONG_RUN: f64 = 256.0;
/// Fewer than this many say nothing yet.
const ENOUGH: f64 = 16.0;

/// More than the ends of a full queue.
const LOSSY: f64 = 0.005;

/// What a TACK's counter says about its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// The newest so far.
    Newest,
    /// Overtaken by a newer one, or a duplicate: nothing in it is news.
    Stale,
}

/// Counts TACKs.
#[derive(Debug, Default)]
pub(super) struct AckLoss {
    newest: u32,
    /// Bit i: counter `newest - i` has arrived.
    seen: u64,
    expected: f64,
    received: f64,
    /// Nothing has come by this path: what is missing before the next one was lost on the one that was left.
    is_anew: bool,
}

impl AckLoss {
    /// Counter of the newest TACK; zero before the first.
    pub(super) fn newest(&self) -> u32 {
        self.newest
    }

    /// A TACK with this counter arrived. Serial-number arithmetic on the wrap.
    pub(super) fn on_tack(&mut self, counter: u32) -> Age {
        let ahead = counter.wrapping_sub(self.newest);
        if ahead == 0 || ahead >= 1 << 31 {
            let back = self.newest.wrapping_sub(counter);
            if back < 64 && self.seen >> back & 1 == 0 {
                self.seen |= 1 << back;
                self.received += 1.0;
            }
            return Age::Stale;
        }
        self.newest = counter;
        self.seen = self.seen.checked_shl(ahead).unwrap_or(0) | 1;
        self.expected += if self.is_anew { 1.0 } else { f64::from(ahead) };
        if core::mem::take(&mut self.is_anew) {
            self.seen = u64::MAX;
        }
        self.received += 1.0;
        if self.expected > LONG_RUN {
            let factor = LONG_RUN / 2.0 / self.expected;
            self.expected *= factor;
            self.received *= factor;
        }
        Age::Newest
    }

    /// They come by another way from now on.
    pub(super) fn on_path_change(&mut self) {
        (self.expected, self.received) = (0.0, 0.0);
        (self.seen, self.is_anew) = (u64::MAX, self.newest > 0);
    }

    /// Every TACK after this one has arrived, as far as is known.
    pub(super) fn none_since(&self, counter: u32) -> bool {
        let after =
            1_u64.checked_shl(self.newest.wrapping_sub(counter)).map_or(u64::MAX, |bit| bit - 1);
        self.seen & after == after
    }

    /// So many are lost that silence may mean that and nothing else.
    pub(super) fn is_lossy(&self) -> bool {
        self.rho_prime() > LOSSY
    }

    /// rho', in [0, 1]; 0 until enough TACKs were sent to tell.
    pub(super) fn rho_prime(&self) -> f64 {
        if self.expected < ENOUGH {
            return 0.0;
        }
        (1.0 - self.received / self.expected).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_tacks_are_counted_and_late_ones_taken_back() {
        let mut loss = AckLoss::default();
        for counter in (1..=100).filter(|c| c % 10 != 0) {
            assert_eq!(loss.on_tack(counter), Age::Newest);
        }
        assert!((loss.rho_prime() - 9.0 / 99.0).abs() < 1e-9);
        for late in [50, 60, 70, 80, 90, 90] {
            assert_eq!(loss.on_tack(late), Age::Stale);
        }
        assert!((loss.rho_prime() - 4.0 / 99.0).abs() < 1e-9, "a duplicate counts once");
    }

    #[test]
    fn what_was_lost_on_the_path_that_was_left_is_not_lost_on_the_new_one() {
        let mut loss = AckLoss::default();
        for counter in (1..=100).filter(|c| c % 10 != 0) {
            loss.on_tack(counter);
        }
        loss.on_path_change();
        assert!(!loss.is_lossy());
        for counter in 150..170 {
            assert_eq!(loss.on_tack(counter), Age::Newest);
        }
        assert_eq!(loss.on_tack(149), Age::Stale);
        assert_eq!(loss.rho_prime(), 0.0);
        loss.on_tack(171);
        assert!((loss.rho_prime() - 1.0 / 22.0).abs() < 1e-9, "{}", loss.rho_prime());
    }

    #[test]
    fn the_counter_wraps() {
        let mut loss = AckLoss { newest: u32::MAX - 1, ..Default::default() };
        for _ in 0..20 {
            assert_eq!(loss.on_tack(loss.newest.wrapping_add(1)), Age::Newest);
        }
        assert_eq!(loss.rho_prime(), 0.0);
        assert_eq!(loss.on_tack(u32::MAX - 5), Age::Stale);
    }

    #[test]
    fn any_sequence_of_counters_gives_a_share() {
        let mut loss = AckLoss::default();
        let mut x = 0x2545_f491u32;
        for i in 0..10_000u32 {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            loss.on_tack(if i % 3 == 0 { x } else { loss.newest.wrapping_add(x % 80) });
            assert!((0.0..=1.0).contains(&loss.rho_prime()));
        }
    }

    #[test]
    fn few_tacks_say_nothing() {
        let mut loss = AckLoss::default();
        loss.on_tack(9);
        assert_eq!(loss.rho_prime(), 0.0);
    }
}
