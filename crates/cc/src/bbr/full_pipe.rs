//! Has Startup filled the pipe?
//!
//! While it has not, the bandwidth estimate doubles every round, or would at least grow by a
//! quarter. Three rounds in a row without that much growth mean that more data in flight brings no
//! more bandwidth. Three, because one round may be lost to a receiver that enlarges its window, and
//! one to losses of the overshoot; the third decides.

use tack_units::Rate;

/// The plateau detector of Startup.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FullPipe {
    /// Estimate at the last real growth.
    baseline: Rate,
    /// Rounds since then.
    rounds: u32,
    reached: bool,
}

/// Growth that counts as growth.
const GROWTH: f64 = 1.25;
/// Rounds without growth that end Startup.
const PATIENCE: u32 = 3;

impl FullPipe {
    /// Once per round, with a sample that the application did not hold down.
    pub(crate) fn on_round(&mut self, bandwidth: Rate) {
        if self.reached {
            return;
        }
        if bandwidth >= self.baseline.mul_f64(GROWTH) {
            self.baseline = bandwidth;
            self.rounds = 0;
            return;
        }
        self.rounds += 1;
        self.reached = self.rounds >= PATIENCE;
    }

    /// Other signs say that it is full.
    pub(crate) fn declare(&mut self) {
        self.reached = true;
    }

    /// The pipe is, or once was, full.
    pub(crate) fn reached(&self) -> bool {
        self.reached
    }

    /// After a timeout, or a reduction that was undone, the plateau seen so far proves nothing.
    pub(crate) fn forget_plateau(&mut self) {
        self.baseline = Rate::ZERO;
        self.rounds = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds_until_full(rates: &[u64]) -> Option<usize> {
        let mut pipe = FullPipe::default();
        rates.iter().position(|r| {
            pipe.on_round(Rate::from_mbps(*r));
            pipe.reached()
        })
    }

    #[test]
    fn doubling_never_fills_and_three_flat_rounds_do() {
        assert_eq!(rounds_until_full(&[1, 2, 4, 8, 16, 32, 64]), None);
        assert_eq!(rounds_until_full(&[10, 20, 40, 41, 42, 43]), Some(5));
    }

    #[test]
    fn growth_of_a_quarter_restarts_the_count() {
        assert_eq!(rounds_until_full(&[40, 44, 45, 50, 51, 52, 53]), Some(6));
    }

    #[test]
    fn a_forgotten_plateau_takes_three_rounds_again() {
        let mut pipe = FullPipe::default();
        for _ in 0..3 {
            pipe.on_round(Rate::from_mbps(10));
        }
        pipe.forget_plateau();
        for _ in 0..3 {
            assert!(!pipe.reached());
            pipe.on_round(Rate::from_mbps(10));
        }
        pipe.on_round(Rate::from_mbps(10));
        assert!(pipe.reached());
    }
}
