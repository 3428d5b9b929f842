//! Vivace's search and utility [Dong et al., NSDI 2018].
//!
//! ```text
//! u(x) = x^0.9 - 900 x max(dRTT/dT, 0) - 11.35 x L          x in Mbit/s      [§4.1]
//!
//! gamma = (u(r (1 + eps)) - u(r (1 - eps))) / (2 eps r)      eps = 0.05      [§5]
//! r    += m * theta * gamma            theta = 1; m = k for k <= 3 steps in one direction,
//!                                      2k - 3 beyond: confidence grows
//!         at most omega * r            omega = 0.05, and 0.1 more each time it was not enough
//! ```
//!
//! Gradients of the round trip within 1 % are noise and count as none; so do those within one standard error of
//! the line (a Deviation: the idea is of PCC Proteus [Meng et al., SIGCOMM 2020 §5]). Where an acknowledgment
//! tells one round trip of many packets, an interval has few, and 900 times their noise was all it was judged by. One
//! with less than three is held against the interval before.
//!
//! Deviation: a falling round trip is not rewarded. With the sign kept, as the formula has it, a
//! flow that empties the queue it made sees more in it than in its rate, and overshoots downwards.

use tack_units::{Instant, Rate, math};

use super::{Dice, Doubled, Doubling, Driver, Outcome, Plan, Search, Seen};
use crate::config::Config;

/// PCC Vivace, of the latency-aware utility.
pub(crate) type Vivace = Driver<Gradient>;

impl Vivace {
    /// In its starting state.
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Driver::with(Gradient::default(), config, now)
    }
}

/// Ascent along the gradient of the utility.
#[derive(Clone, Debug)]
pub struct Gradient {
    base: Rate,
    starting: Option<Doubling>,
    /// The pair under way: whether the first of it goes up, how many are planned, and the results.
    first_up: Option<bool>,
    planned: u32,
    first: Option<f64>,
    /// Steps in one direction, and whether that is up.
    steps: u32,
    up: bool,
    /// Times in a row the bound held a step back.
    bounded: u32,
}

const EPS: f64 = 0.05;
/// Exponent, latency coefficient, loss coefficient.
const T: f64 = 0.9;
const B: f64 = 900.0;
const C: f64 = 11.35;
/// Mbit/s per unit of gradient.
const THETA: f64 = 1.0;
/// Bound on a step, of the rate, and what each time adds that it was not enough.
const OMEGA: f64 = 0.05;
const DELTA: f64 = 0.1;
/// No step does more than this to the rate.
const MAX_STEP: f64 = 0.5;
/// Smaller changes of the round trip are noise.
const NOISE: f64 = 0.01;

impl Default for Gradient {
    fn default() -> Self {
        Gradient {
            base: super::MIN_RATE,
            starting: Some(Doubling::from(super::MIN_RATE)),
            first_up: None,
            planned: 0,
            first: None,
            steps: 0,
            up: true,
            bounded: 0,
        }
    }
}

fn utility(outcome: &Outcome) -> f64 {
    let x = outcome.rate.as_mbps_f64();
    let rise = if outcome.rtt_gradient > NOISE { outcome.rtt_gradient } else { 0.0 };
    math::pow(x, T) - B * x * rise - C * x * outcome.loss
}

impl Gradient {
    fn probe(&mut self) {
        (self.first_up, self.planned, self.first) = (None, 0, None);
    }

    /// A step along `gradient`.
    fn step(&mut self, gradient: f64) {
        let up = gradient > 0.0;
        self.steps = if up == self.up { self.steps.saturating_add(1) } else { 1 };
        if up != self.up {
            self.bounded = 0;
        }
        self.up = up;
        let k = f64::from(self.steps);
        let confidence = if self.steps <= 3 { k } else { 2.0 * k - 3.0 };
        let rate = self.base.as_mbps_f64();
        let wanted = confidence * THETA * gradient;
        let bound = (OMEGA + f64::from(self.bounded) * DELTA).min(MAX_STEP) * rate;
        self.bounded = if wanted.abs() > bound { self.bounded.saturating_add(1) } else { 0 };
        let rate = rate + wanted.clamp(-bound, bound);
        self.base = Rate::from_bps((rate * 1e6) as u64).clamp(super::MIN_RATE, super::MAX_RATE);
    }
}

impl Search for Gradient {
    fn next(&mut self, seen: Seen, dice: &mut Dice) -> Plan {
        if let Some(doubling) = &mut self.starting {
            return doubling.next(seen);
        }
        let first_up = *self.first_up.get_or_insert_with(|| dice.coin());
        self.planned = self.planned.saturating_add(1);
        if self.planned > 2 {
            return Plan { rate: self.base, wanted: false };
        }
        let up = first_up == (self.planned == 1);
        let rate = self.base.mul_f64(if up { 1.0 + EPS } else { 1.0 - EPS });
        Plan { rate, wanted: true }
    }

    fn on_result(&mut self, outcome: &Outcome) -> bool {
        let u = utility(outcome);
        if let Some(doubling) = &mut self.starting {
            self.base = outcome.rate;
            match doubling.on_result(outcome, u) {
                Doubled::Yet => return false,
                Doubled::Anew(rate) => self.base = rate,
                Doubled::Found(rate) => (self.base, self.starting) = (rate, None),
            }
            self.probe();
            return true;
        }
        let Some(first) = self.first else {
            self.first = Some(u);
            return false;
        };
        let (higher, lower) = if self.first_up == Some(true) { (first, u) } else { (u, first) };
        let gradient = (higher - lower) / (2.0 * EPS * self.base.as_mbps_f64().max(1e-3));
        self.step(gradient);
        self.probe();
        true
    }

    fn retry(&mut self) {
        self.starting = self.starting.map(|doubling| doubling.again(self.base));
        self.probe();
    }

    fn restart(&mut self, rate: Rate) {
        if self.base == super::MIN_RATE && self.starting.is_some() {
            self.starting = Some(Doubling::from(rate));
        } else {
            self.starting = None;
            self.probe();
            (self.steps, self.bounded) = (0, 0);
        }
        self.base = rate;
    }

    fn is_starting(&self) -> bool {
        self.starting.is_some()
    }

    fn base(&self) -> Rate {
        self.base
    }

    fn state(&self) -> &'static str {
        if self.is_starting() { "starting" } else { "probing" }
    }

    fn round_trips(&self, _dice: &mut Dice) -> f64 {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(mbps: f64, loss: f64, rtt_gradient: f64) -> f64 {
        let rate = Rate::from_bps((mbps * 1e6) as u64);
        utility(&Outcome { rate, loss, rtt_gradient, arrived: None })
    }

    #[test]
    fn the_utility_grows_with_the_rate_and_falls_with_queues_that_grow_and_with_loss() {
        assert!(at(11.0, 0.0, 0.0) > at(10.0, 0.0, 0.0));
        assert!(at(11.0, 0.0, 0.1) < at(10.0, 0.0, 0.0));
        assert!(at(11.0, 0.0, 0.009) > at(10.0, 0.0, 0.0), "noise");
        assert!(at(11.0, 0.01, 0.0) > at(10.0, 0.01, 0.0), "random loss it tolerates");
        assert!(at(11.0, 0.1, 0.0) < at(10.0, 0.1, 0.0), "random loss it does not");
    }

    #[test]
    fn confidence_grows_with_steps_in_one_direction_and_a_turn_ends_it() {
        let mut search = Gradient { base: Rate::from_mbps(100), ..Gradient::default() };
        let mut rates = Vec::new();
        for gradient in [0.5, 0.5, 0.5, 0.5, 0.5, -0.5, -0.5] {
            search.step(gradient);
            rates.push(search.base.as_mbps_f64());
        }
        assert_eq!(rates, [100.5, 101.5, 103.0, 105.5, 109.0, 108.5, 107.5]);
    }

    #[test]
    fn a_step_is_bounded_and_the_bound_grows_while_it_is_not_enough() {
        let mut search = Gradient { base: Rate::from_mbps(100), ..Gradient::default() };
        let mut rates = Vec::new();
        for gradient in [90.0, 90.0, -90.0] {
            search.step(gradient);
            rates.push(search.base.as_mbps_f64().round());
        }
        assert_eq!(rates, [105.0, 121.0, 115.0]);
    }
}
