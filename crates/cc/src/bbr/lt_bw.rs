//! Is a policer throttling us? Long-term bandwidth sampling.
//!
//! A token-bucket policer lets bursts through at full speed and then drops everything above its
//! rate. The maximum filter sees the bursts, so the sender keeps losing a fifth or more of what it
//! sends. Two successive intervals of at least four rounds, both with heavy loss and both with the
//! same throughput, give the policer away: that throughput is then used instead of the filter's
//! maximum, with gain 1, for 48 rounds; then the path is probed again.

use tack_units::{Instant, Rate};

/// Detects a policer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LongTerm {
    /// Throughput of the previous interval; zero when there is none.
    bandwidth: Rate,
    in_use: bool,
    /// The interval under way began here; `None` before the first loss.
    interval: Option<Start>,
    /// Rounds in this interval, or of use.
    rounds: u32,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    at: Instant,
    delivered: u64,
    lost: u64,
}

/// Connection totals at an acknowledgment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Totals {
    pub(crate) now: Instant,
    /// Bytes delivered and bytes declared lost since the connection began.
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    /// This acknowledgment declared a loss.
    pub(crate) is_loss: bool,
    pub(crate) round_started: bool,
    pub(crate) app_limited: bool,
}

/// Shorter intervals would measure the bucket's burst, longer ones a change of the path.
const MIN_ROUNDS: u32 = 4;
const MAX_ROUNDS: u32 = 4 * MIN_ROUNDS;
/// Loss that random loss does not reach but policing does: 50/256 of what was delivered.
const LOSS_NUMERATOR: u128 = 50;
const LOSS_DENOMINATOR: u128 = 256;
/// Throughputs that differ by an eighth, or by 4 kbit/s, are the same.
const SAME_RATIO: u64 = 8;
const SAME_BPS: u64 = 4_000;
/// Rounds for which a policed rate is believed.
const USE_ROUNDS: u32 = 48;

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    None,
    /// A policer was found.
    Policed,
    /// Time to probe the path again.
    Released,
}

impl LongTerm {
    /// The policed rate, while one is in use.
    pub(crate) fn bandwidth(&self) -> Option<Rate> {
        self.in_use.then_some(self.bandwidth)
    }

    /// Forgets everything.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }

    /// One acknowledgment. `probing`: the sender is in ProbeBW, where alone use runs out.
    pub(crate) fn on_ack(&mut self, totals: &Totals, probing: bool) -> Verdict {
        if self.in_use {
            if probing && totals.round_started {
                self.rounds += 1;
                if self.rounds >= USE_ROUNDS {
                    self.reset();
                    return Verdict::Released;
                }
            }
            return Verdict::None;
        }
        let Some(start) = self.interval else {
            if totals.is_loss {
                self.begin(totals);
            }
            return Verdict::None;
        };
        if totals.app_limited {
            self.reset();
            return Verdict::None;
        }
        self.rounds += u32::from(totals.round_started);
        if self.rounds > MAX_ROUNDS {
            self.reset();
        } else if self.rounds >= MIN_ROUNDS && totals.is_loss {
            return self.end_interval(start, totals);
        }
        Verdict::None
    }

    fn begin(&mut self, totals: &Totals) {
        self.interval =
            Some(Start { at: totals.now, delivered: totals.delivered, lost: totals.lost });
        self.rounds = 0;
    }

    fn end_interval(&mut self, start: Start, totals: &Totals) -> Verdict {
        let delivered = totals.delivered.saturating_sub(start.delivered);
        let lost = totals.lost.saturating_sub(start.lost);
        let heavy = u128::from(lost) * LOSS_DENOMINATOR >= u128::from(delivered) * LOSS_NUMERATOR;
        if delivered == 0 || !heavy {
            return Verdict::None;
        }
        let Some(rate) = Rate::from_bytes_over(delivered, totals.now - start.at) else {
            return Verdict::None;
        };
        let (old, new) = (self.bandwidth.as_bps(), rate.as_bps());
        let difference = old.abs_diff(new);
        if old > 0 && (difference <= old / SAME_RATIO || difference <= SAME_BPS) {
            self.bandwidth = Rate::from_bps(old / 2 + new / 2);
            self.in_use = true;
            self.rounds = 0;
            return Verdict::Policed;
        }
        self.bandwidth = rate;
        self.begin(totals);
        Verdict::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 10 ms, each delivering 10 kB (8 Mbit/s) and losing `lost` bytes; returns the round
    /// in which the verdict fell.
    fn rounds_until(lt: &mut LongTerm, lost: u64, wanted: Verdict) -> Option<u64> {
        (1..=100).find(|n| {
            let totals = Totals {
                now: Instant::from_millis(10 * n),
                delivered: 10_000 * n,
                lost: lost * n,
                is_loss: lost > 0,
                round_started: true,
                app_limited: false,
            };
            lt.on_ack(&totals, true) == wanted
        })
    }

    #[test]
    fn heavy_loss_at_constant_throughput_is_a_policer_after_two_intervals() {
        let mut lt = LongTerm::default();
        assert_eq!(rounds_until(&mut lt, 3_000, Verdict::Policed), Some(9));
        assert_eq!(lt.bandwidth(), Some(Rate::from_mbps(8)));
    }

    #[test]
    fn a_policed_rate_is_given_up_after_48_rounds() {
        let mut lt = LongTerm::default();
        rounds_until(&mut lt, 3_000, Verdict::Policed);
        assert_eq!(rounds_until(&mut lt, 3_000, Verdict::Released), Some(48));
        assert_eq!(lt.bandwidth(), None);
    }

    #[test]
    fn light_loss_is_no_policer() {
        let mut lt = LongTerm::default();
        assert_eq!(rounds_until(&mut lt, 1_500, Verdict::Policed), None);
        assert_eq!(rounds_until(&mut lt, 0, Verdict::Policed), None);
    }
}
