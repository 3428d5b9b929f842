//! Allegro's search and utility [Dong et al., NSDI 2015].
//!
//! ```text
//! u(x) = T * sigmoid(L - 0.05) - x * L        T = x (1 - L) throughput, L loss rate, Mbit/s
//! sigmoid(y) = 1 / (1 + exp(100 y))           cuts off where 5 % are lost
//!
//! Starting --utility fell--> Deciding --both pairs agree--> Adjusting --utility fell--+
//!                               ^   four intervals at r(1 +- eps); if they do not,    |
//!                               |   eps is one percent more, five at most             |
//!                               +-----------------------------------------------------+
//! Adjusting: r_n = r_(n-1) (1 +- n * 0.01)
//! ```

use tack_units::{Instant, Rate, math};

use super::{Dice, Doubled, Doubling, Driver, Outcome, Plan, Search, Seen};
use crate::config::Config;

/// PCC Allegro.
pub(crate) type Allegro = Driver<Trials>;

impl Allegro {
    /// In its starting state.
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Driver::with(Trials::default(), config, now)
    }
}

/// Randomised trials of a rate a little higher and a little lower.
#[derive(Clone, Debug)]
pub struct Trials {
    base: Rate,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    Starting(Doubling),
    Deciding {
        eps: f64,
        /// Whether each of the four goes up.
        ups: Option<[bool; 4]>,
        planned: usize,
        /// Utilities so far, in the order planned.
        results: Vec<f64>,
    },
    Adjusting {
        up: bool,
        /// Steps planned.
        steps: u32,
        next: Rate,
        /// Rate and utility of the last result.
        last: (Rate, f64),
    },
}

/// Granularity of trials and steps.
const EPS_MIN: f64 = 0.01;
const EPS_MAX: f64 = 0.05;
/// Loss rate at which the utility is cut off, and how sharply.
const CUT_OFF: f64 = 0.05;
const SHARPNESS: f64 = 100.0;
/// Steps do not grow beyond this: half the rate.
const MAX_STEPS: u32 = 50;
/// An interval lasts between so many round trips [§3.1].
const ROUND_TRIPS: (f64, f64) = (1.7, 2.2);

impl Default for Trials {
    fn default() -> Self {
        Trials { base: super::MIN_RATE, state: State::Starting(Doubling::from(super::MIN_RATE)) }
    }
}

fn utility(rate: Rate, loss: f64) -> f64 {
    let x = rate.as_mbps_f64();
    let sigmoid = 1.0 / (1.0 + math::exp(SHARPNESS * (loss - CUT_OFF)));
    x * (1.0 - loss) * sigmoid - x * loss
}

impl Trials {
    fn decide(&mut self, eps: f64) {
        self.state = State::Deciding { eps, ups: None, planned: 0, results: Vec::new() };
    }

    /// Four results are in: a direction and the utility there, or `None` if the pairs disagree.
    fn verdict(ups: &[bool; 4], results: &[f64]) -> Option<(bool, f64)> {
        let prefers_up = |pair: usize| {
            let (a, b) = (results[2 * pair], results[2 * pair + 1]);
            if ups[2 * pair] { a > b } else { b > a }
        };
        let up = prefers_up(0);
        let utility = (0..4).filter(|n| ups[*n] == up).map(|n| results[n]).sum::<f64>() / 2.0;
        (up == prefers_up(1)).then_some((up, utility))
    }
}

impl Search for Trials {
    fn next(&mut self, seen: Seen, dice: &mut Dice) -> Plan {
        match &mut self.state {
            State::Starting(doubling) => doubling.next(seen),
            State::Deciding { eps, ups, planned, .. } => {
                let ups = ups.get_or_insert_with(|| {
                    let (first, second) = (dice.coin(), dice.coin());
                    [first, !first, second, !second]
                });
                let Some(up) = ups.get(*planned) else {
                    return Plan { rate: self.base, wanted: false };
                };
                *planned += 1;
                let gain = if *up { 1.0 + *eps } else { 1.0 - *eps };
                Plan { rate: self.base.mul_f64(gain), wanted: true }
            }
            State::Adjusting { up, steps, next, .. } => {
                *steps = (*steps + 1).min(MAX_STEPS);
                let step = f64::from(*steps) * EPS_MIN;
                *next = next.mul_f64(if *up { 1.0 + step } else { 1.0 - step });
                Plan { rate: *next, wanted: true }
            }
        }
    }

    fn on_result(&mut self, outcome: &Outcome) -> bool {
        let u = utility(outcome.rate, outcome.loss);
        match &mut self.state {
            State::Starting(doubling) => {
                self.base = outcome.rate;
                match doubling.on_result(outcome, u) {
                    Doubled::Yet => return false,
                    Doubled::Anew(rate) => self.base = rate,
                    Doubled::Found(rate) => {
                        self.base = rate;
                        self.decide(EPS_MIN);
                    }
                }
            }
            State::Deciding { eps, ups, results, .. } => {
                results.push(u);
                let Some(ups) = ups.filter(|_| results.len() >= 4) else { return false };
                let eps = *eps;
                match Self::verdict(&ups, results) {
                    Some((up, utility)) => {
                        let rate = self.base.mul_f64(if up { 1.0 + eps } else { 1.0 - eps });
                        self.base = rate;
                        self.state =
                            State::Adjusting { up, steps: 0, next: rate, last: (rate, utility) };
                    }
                    None => self.decide((eps + EPS_MIN).min(EPS_MAX)),
                }
            }
            State::Adjusting { last, .. } => {
                if u > last.1 {
                    *last = (outcome.rate, u);
                    self.base = outcome.rate;
                    return false;
                }
                self.base = last.0;
                self.decide(EPS_MIN);
            }
        }
        true
    }

    fn retry(&mut self) {
        match self.state {
            State::Starting(doubling) => self.state = State::Starting(doubling.again(self.base)),
            State::Deciding { eps, .. } => self.decide(eps),
            State::Adjusting { last, .. } => {
                self.base = last.0;
                self.decide(EPS_MIN);
            }
        }
    }

    fn restart(&mut self, rate: Rate) {
        // After a first rate is known there is nothing to double from.
        if self.base == super::MIN_RATE && self.is_starting() {
            self.state = State::Starting(Doubling::from(rate));
        } else {
            self.decide(EPS_MIN);
        }
        self.base = rate;
    }

    fn is_starting(&self) -> bool {
        matches!(self.state, State::Starting(_))
    }

    fn base(&self) -> Rate {
        self.base
    }

    fn state(&self) -> &'static str {
        match self.state {
            State::Starting(_) => "starting",
            State::Deciding { .. } => "deciding",
            State::Adjusting { .. } => "adjusting",
        }
    }

    fn round_trips(&self, dice: &mut Dice) -> f64 {
        ROUND_TRIPS.0 + (ROUND_TRIPS.1 - ROUND_TRIPS.0) * dice.unit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_utility_grows_with_the_rate_up_to_five_percent_of_loss_and_is_negative_beyond() {
        let at = |mbps, loss| utility(Rate::from_mbps(mbps), loss);
        for loss in [0.0, 0.01, 0.03] {
            assert!(at(11, loss) > at(10, loss), "{loss}");
        }
        assert!(at(10, 0.08) < 0.0 && at(11, 0.08) < at(10, 0.08));
        // A rate a tenth above capacity loses a tenth: not worth it.
        assert!(at(11, 1.0 / 11.0) < at(10, 0.0));
    }

    #[test]
    fn both_pairs_must_agree() {
        let ups = [true, false, false, true];
        assert_eq!(Trials::verdict(&ups, &[2.0, 1.0, 1.0, 3.0]), Some((true, 2.5)));
        assert_eq!(Trials::verdict(&ups, &[1.0, 2.0, 3.0, 2.0]), Some((false, 2.5)));
        assert_eq!(Trials::verdict(&ups, &[2.0, 1.0, 2.0, 1.0]), None);
    }
}
