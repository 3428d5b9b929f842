//! What may be believed of a link's rate, and what it will deliver at least [Sprout §3].
//!
//! ```text
//! lambda      256 rates from 0 to 1000 segments/s, p(lambda) sums to one
//! arrivals    in a time t: Poisson(lambda t)
//! ahead       the mean rate of k ticks is normal around lambda, and its variance that of the mean
//!             of a walk, sigma^2 tau (k + 1)(2 k + 1) / 6k: the forecast is a mixture of Poissons
//! ```

use core::time::Duration;

use tack_units::math;

/// Probabilities of the rates.
#[derive(Clone, Debug)]
pub(super) struct Belief {
    p: Vec<f64>,
    tick: Kernel,
    /// By ticks ahead, less one.
    ahead: Vec<Kernel>,
}

/// Time between observations.
pub(super) const TICK: Duration = Duration::from_millis(20);
/// The farthest forecast, in ticks.
pub(super) const MAX_TICKS: u32 = 8;

const BINS: usize = 256;
/// Segments per second.
const MAX_RATE: f64 = 1_000.0;
const STEP: f64 = MAX_RATE / (BINS - 1) as f64;
/// Brownian noise, segments per second per square root of a second.
const SIGMA: f64 = 200.0;
/// Outages end so often per second.
const OUTAGE_ESCAPE: f64 = 1.0;
/// The pessimist's percentile.
const CAUTION: f64 = 0.05;
/// Ticks of diffusion after which nothing is left of what was known.
const MAX_EVOLVE: u32 = 20;

/// Half of a normal distribution in bins, its middle first.
#[derive(Clone, Debug)]
struct Kernel(Vec<f64>);

impl Kernel {
    /// Of a standard deviation in segments per second.
    fn new(deviation: f64) -> Self {
        let bins = deviation / STEP;
        let reach = (4.0 * bins).ceil() as usize;
        let mut half: Vec<f64> =
            (0..=reach).map(|i| math::exp(-0.5 * (i as f64 / bins).powi(2))).collect();
        let sum = half[0] + 2.0 * half[1..].iter().sum::<f64>();
        half.iter_mut().for_each(|weight| *weight /= sum);
        Kernel(half)
    }

    /// `p` after the walk. What would leave the range stays at its edge; `stuck` of what is at zero
    /// stays there.
    fn walk(&self, p: &[f64], stuck: f64) -> Vec<f64> {
        let mut after = vec![0.0; BINS];
        for (bin, mass) in p.iter().enumerate() {
            let moving = if bin == 0 { mass * (1.0 - stuck) } else { *mass };
            after[bin] += mass - moving;
            // Too little to matter, and there is much of it.
            if moving < 1e-12 {
                after[bin] += moving;
                continue;
            }
            after[bin] += moving * self.0[0];
            for (distance, weight) in self.0.iter().enumerate().skip(1) {
                after[bin.saturating_sub(distance)] += moving * weight;
                after[(bin + distance).min(BINS - 1)] += moving * weight;
            }
        }
        after
    }
}

impl Default for Belief {
    /// Any rate.
    fn default() -> Self {
        let tau = TICK.as_secs_f64();
        let ahead = (1..=MAX_TICKS).map(|k| {
            let k = f64::from(k);
            Kernel::new(SIGMA * (tau * (k + 1.0) * (2.0 * k + 1.0) / (6.0 * k)).sqrt())
        });
        Belief {
            p: vec![1.0 / BINS as f64; BINS],
            tick: Kernel::new(SIGMA * tau.sqrt()),
            ahead: ahead.collect(),
        }
    }
}

fn rate(bin: usize) -> f64 {
    bin as f64 * STEP
}

/// P(Poisson(mean) < n).
fn less_than(n: f64, mean: f64) -> f64 {
    let (mut term, mut sum, mut k) = (math::exp(-mean), 0.0, 0.0);
    while k < n {
        sum += term;
        k += 1.0;
        term *= mean / k;
    }
    sum
}

impl Belief {
    /// `elapsed` passes.
    pub(super) fn evolve(&mut self, elapsed: Duration) {
        let ticks = (elapsed.as_secs_f64() / TICK.as_secs_f64()).round().max(1.0) as u32;
        let stuck = math::exp(-OUTAGE_ESCAPE * TICK.as_secs_f64());
        for _ in 0..ticks.min(MAX_EVOLVE) {
            self.p = self.tick.walk(&self.p, stuck);
        }
    }

    /// `segments` arrived in `elapsed`; unless `exact`, more might have.
    pub(super) fn observe(&mut self, segments: f64, elapsed: Duration, exact: bool) {
        let t = elapsed.as_secs_f64();
        // More than the model can explain is the most that it can.
        let segments = segments.clamp(0.0, 2.0 * MAX_RATE * t);
        let log = |bin: usize| {
            let mean = rate(bin) * t;
            if !exact {
                return math::ln((1.0 - less_than(segments, mean)).max(1e-300));
            }
            if mean > 0.0 { segments * math::ln(mean) - mean } else { -segments * 700.0 }
        };
        let logs: Vec<f64> = (0..BINS).map(log).collect();
        let greatest = logs.iter().copied().fold(f64::MIN, f64::max);
        let weighed = self.p.iter().zip(&logs).map(|(p, log)| p * math::exp(log - greatest));
        let p: Vec<f64> = weighed.collect();
        let sum: f64 = p.iter().sum();
        // What was believed excluded what was seen: anything may be.
        self.p = if sum > 1e-200 {
            p.into_iter().map(|p| p / sum).collect()
        } else {
            vec![1.0 / BINS as f64; BINS]
        };
    }

    /// Segments that arrive in the next `ticks` with 95 % certainty.
    pub(super) fn cautious(&self, ticks: u32) -> u32 {
        let ticks = ticks.clamp(1, MAX_TICKS);
        let t = TICK.as_secs_f64() * f64::from(ticks);
        let p = self.ahead[ticks as usize - 1].walk(&self.p, 0.0);
        // Terms of each Poisson, advanced together.
        let mut terms: Vec<f64> = (0..BINS).map(|bin| p[bin] * math::exp(-rate(bin) * t)).collect();
        let (mut below, mut n) = (0.0, 0);
        loop {
            below += terms.iter().sum::<f64>();
            if below > CAUTION || f64::from(n) > 2.0 * MAX_RATE * t {
                return n;
            }
            n += 1;
            for (bin, term) in terms.iter_mut().enumerate() {
                *term *= rate(bin) * t / f64::from(n);
            }
        }
    }

    /// Expected rate, segments per second.
    pub(super) fn mean(&self) -> f64 {
        self.p.iter().enumerate().map(|(bin, p)| p * rate(bin)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After many ticks of a link that delivers so many segments in each.
    fn after(per_tick: f64, exact: bool) -> Belief {
        let mut belief = Belief::default();
        for _ in 0..100 {
            belief.evolve(TICK);
            belief.observe(per_tick, TICK, exact);
        }
        belief
    }

    #[test]
    fn a_steady_link_is_believed_and_the_forecast_is_less_than_its_mean() {
        for per_tick in [3.0, 5.0, 10.0] {
            let belief = after(per_tick, true);
            // A prior of all rates alike adds a little, the more the less arrives.
            let mean = belief.mean() / (50.0 * per_tick);
            assert!((1.0..1.15).contains(&mean), "{per_tick}: {mean}");
            let forecast = f64::from(belief.cautious(5));
            let share = forecast / (5.0 * per_tick);
            assert!((0.1..0.9).contains(&share), "{per_tick}: {forecast}");
            assert!(belief.cautious(8) > belief.cautious(5));
        }
    }

    #[test]
    fn what_might_have_been_more_raises_the_belief_and_never_lowers_it() {
        assert!(after(5.0, false).mean() > after(5.0, true).mean() * 1.5);
        assert!(after(0.0, false).mean() > 300.0, "nothing learnt");
    }

    #[test]
    fn an_outage_is_believed_and_forecast() {
        let mut belief = after(10.0, true);
        for _ in 0..30 {
            belief.evolve(TICK);
            belief.observe(0.0, TICK, true);
        }
        assert_eq!(belief.cautious(5), 0);
    }

    #[test]
    fn the_forecast_holds_in_ninety_five_of_a_hundred_random_futures() {
        use rand_pcg::rand_core::Rng;
        let mut dice = rand_pcg::Pcg32::new(5, 5);
        let mut unit = || (f64::from(dice.next_u32()) + 0.5) / (f64::from(u32::MAX) + 1.0);
        let belief = after(8.0, true);
        let forecast = belief.cautious(5);
        let (tau, mut short) = (TICK.as_secs_f64(), 0);
        for _ in 0..4_000 {
            // A rate drawn from the belief, its walk, and arrivals along it.
            let (mut bin, mut left) = (0, unit());
            while left > belief.p[bin] && bin + 1 < BINS {
                left -= belief.p[bin];
                bin += 1;
            }
            let (mut lambda, mut arrived) = (rate(bin), 0);
            for _ in 0..5 {
                let normal =
                    (-2.0 * math::ln(unit())).sqrt() * math::cos(core::f64::consts::TAU * unit());
                lambda = (lambda + SIGMA * tau.sqrt() * normal).clamp(0.0, MAX_RATE);
                let mut product = unit();
                while product > math::exp(-lambda * tau) {
                    arrived += 1;
                    product *= unit();
                }
            }
            short += u32::from(arrived < forecast);
        }
        let share = f64::from(short) / 4_000.0;
        assert!((0.02..=0.06).contains(&share), "{share} of the futures fall short of {forecast}");
    }
}
