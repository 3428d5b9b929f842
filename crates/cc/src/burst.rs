//! How long a burst may be on a path whose buffer may not hold one.
//!
//! ```text
//! a round trip that lost more than 2 %      half as long, down to 1/64
//! sixteen in a row that lost less than ½ %  twice as long, up to the whole
//! ```
//!
//! Half a millisecond of data, sent at once so that offload works, is more than a small buffer takes at
//! a gigabit per second: at the very rate of the path every burst loses its end. Less would cost
//! every fast path, and those whose losses have another cause, processor time for nothing.

use core::time::Duration;

use tack_units::Instant;

/// Share of a round trip's bytes lost above which bursts shrink, and below which they may grow.
const SHRINK: f64 = 0.02;
const GROW: f64 = 0.005;
/// Round trips in a row below [`GROW`] before bursts grow.
const CALM_ROUNDS: u32 = 16;
/// Most halvings.
const MAX_HALVINGS: u32 = 6;

/// Fits bursts to the losses they may cause.
#[derive(Clone, Copy, Debug)]
pub struct BurstFit {
    whole: Duration,
    halvings: u32,
    began: Option<Instant>,
    lost: u64,
    delivered: u64,
    calm: u32,
}

impl BurstFit {
    /// Bursts last `whole` until losses say otherwise.
    pub fn new(whole: Duration) -> Self {
        BurstFit { whole, halvings: 0, began: None, lost: 0, delivered: 0, calm: 0 }
    }

    /// So many bytes more were `delivered` and `lost`, at a smoothed round trip of `srtt`. Returns how
    /// long a burst may be.
    pub fn on_ack(
        &mut self,
        delivered: u64,
        lost: u64,
        srtt: Option<Duration>,
        now: Instant,
    ) -> Duration {
        self.lost = self.lost.saturating_add(lost);
        self.delivered = self.delivered.saturating_add(delivered);
        let began = *self.began.get_or_insert(now);
        if srtt.is_some_and(|srtt| now.saturating_since(began) >= srtt) {
            self.end_round(now);
        }
        self.whole / (1 << self.halvings)
    }

    fn end_round(&mut self, now: Instant) {
        let (lost, delivered) = (self.lost as f64, self.delivered as f64);
        let share = lost / (lost + delivered).max(1.0);
        (self.lost, self.delivered, self.began) = (0, 0, Some(now));
        self.calm = if share < GROW { self.calm + 1 } else { 0 };
        if share > SHRINK {
            self.halvings = (self.halvings + 1).min(MAX_HALVINGS);
        } else if self.calm == CALM_ROUNDS {
            (self.calm, self.halvings) = (0, self.halvings.saturating_sub(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Duration = Duration::from_micros(500);

    /// Of each round of 100 kB, `shares` is lost.
    fn after(fit: &mut BurstFit, from: u64, shares: &[f64]) -> Duration {
        let srtt = Some(Duration::from_millis(10));
        let mut time = WHOLE;
        for (round, share) in (from..).zip(shares) {
            for part in 0..10 {
                let now = Instant::from_millis(round * 10 + part);
                let lost = (share * 10_000.0) as u64;
                time = fit.on_ack(10_000 - lost, lost, srtt, now);
            }
        }
        time
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
    fn a_per_cent_of_loss_changes_nothing() {
        let mut fit = BurstFit::new(WHOLE);
        assert_eq!(after(&mut fit, 0, &[0.01; 200]), WHOLE);
        after(&mut fit, 200, &[0.1; 3]);
        let shrunk = after(&mut fit, 203, &[0.01]);
        assert_eq!(after(&mut fit, 204, &[0.01; 200]), shrunk);
    }
}
