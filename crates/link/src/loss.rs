//! Which packets the medium loses.
//!
//! The Gilbert–Elliott model [Gilbert 1960; Elliott 1963] is a Markov chain of two states, stepped
//! once per packet:
//!
//! ```text
//!            enter_bad
//!   +------+ --------> +------+      stationary share of Bad  enter_bad / (enter_bad + leave_bad)
//!   | Good |           | Bad  |      mean length of Bad       1 / leave_bad packets
//!   +------+ <-------- +------+
//!            leave_bad
//! ```

use rand_pcg::Pcg64;

use crate::draw;
use crate::error::ConfigError;

/// A loss process. Probabilities are per packet and lie in `0..=1`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossConfig {
    /// Nothing is lost.
    #[default]
    None,
    /// Each packet alone, with this probability.
    Bernoulli(f64),
    /// Losses in bursts.
    GilbertElliott {
        /// From Good to Bad.
        enter_bad: f64,
        /// From Bad to Good; must be positive if `enter_bad` is.
        leave_bad: f64,
        /// Loss probability in Good.
        loss_in_good: f64,
        /// Loss probability in Bad.
        loss_in_bad: f64,
    },
    /// Exactly the packets with these numbers, counted from zero in the order they meet the
    /// medium; ascending. For tests and worked examples.
    Listed(Vec<u64>),
}

impl LossConfig {
    /// Gilbert's model (all of Bad is lost, nothing of Good) with the given share of packets lost
    /// and mean number of packets per burst (at least 1).
    pub fn bursts(loss_rate: f64, mean_burst: f64) -> LossConfig {
        let leave_bad = 1.0 / mean_burst;
        let enter_bad = loss_rate * leave_bad / (1.0 - loss_rate);
        LossConfig::GilbertElliott { enter_bad, leave_bad, loss_in_good: 0.0, loss_in_bad: 1.0 }
    }

    /// The share of packets lost in the long run.
    pub fn mean_rate(&self) -> f64 {
        match self {
            LossConfig::None | LossConfig::Listed(_) => 0.0,
            LossConfig::Bernoulli(p) => *p,
            LossConfig::GilbertElliott { loss_in_good, loss_in_bad, .. } => {
                let bad = self.share_of_bad();
                (1.0 - bad) * loss_in_good + bad * loss_in_bad
            }
        }
    }

    fn share_of_bad(&self) -> f64 {
        match self {
            LossConfig::GilbertElliott { enter_bad, leave_bad, .. } if *enter_bad > 0.0 => {
                enter_bad / (enter_bad + leave_bad)
            }
            _ => 0.0,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            LossConfig::None => Ok(()),
            LossConfig::Bernoulli(p) => ConfigError::check_probability("loss", *p),
            LossConfig::GilbertElliott { enter_bad, leave_bad, loss_in_good, loss_in_bad } => {
                ConfigError::check_probability("enter_bad", *enter_bad)?;
                ConfigError::check_probability("leave_bad", *leave_bad)?;
                ConfigError::check_probability("loss_in_good", *loss_in_good)?;
                ConfigError::check_probability("loss_in_bad", *loss_in_bad)?;
                if *enter_bad > 0.0 && *leave_bad == 0.0 {
                    return Err(ConfigError::BadForever);
                }
                Ok(())
            }
            LossConfig::Listed(numbers) if numbers.is_sorted() => Ok(()),
            LossConfig::Listed(_) => Err(ConfigError::Unsorted("listed losses")),
        }
    }
}

/// A running loss process.
#[derive(Debug)]
pub(crate) struct Loss {
    config: LossConfig,
    rng: Pcg64,
    /// Gilbert–Elliott: the chain is in Bad.
    bad: bool,
    /// Packets seen.
    seen: u64,
    /// Listed: the first entry that is still to come.
    next_listed: usize,
}

impl Loss {
    pub(crate) fn new(config: LossConfig, mut rng: Pcg64) -> Self {
        // Starting in the stationary distribution makes short runs as lossy as long ones.
        let bad = draw::chance(&mut rng, config.share_of_bad());
        Loss { config, rng, bad, seen: 0, next_listed: 0 }
    }

    /// Whether the next packet is lost.
    pub(crate) fn strikes(&mut self) -> bool {
        let number = self.seen;
        self.seen += 1;
        match &self.config {
            LossConfig::None => false,
            LossConfig::Bernoulli(p) => draw::chance(&mut self.rng, *p),
            LossConfig::GilbertElliott { enter_bad, leave_bad, loss_in_good, loss_in_bad } => {
                let flip = if self.bad { *leave_bad } else { *enter_bad };
                self.bad ^= draw::chance(&mut self.rng, flip);
                let p = if self.bad { *loss_in_bad } else { *loss_in_good };
                draw::chance(&mut self.rng, p)
            }
            LossConfig::Listed(numbers) => {
                let listed = numbers.get(self.next_listed) == Some(&number);
                while numbers.get(self.next_listed).is_some_and(|n| *n <= number) {
                    self.next_listed += 1;
                }
                listed
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(config: LossConfig, seed: u64, n: usize) -> Vec<bool> {
        config.validate().unwrap();
        let mut loss = Loss::new(config, draw::stream(seed, 0));
        (0..n).map(|_| loss.strikes()).collect()
    }

    /// Lengths of the runs of `true`, found the naive way.
    fn bursts(struck: &[bool]) -> Vec<usize> {
        struck.split(|s| !s).map(<[bool]>::len).filter(|n| *n > 0).collect()
    }

    #[test]
    fn bernoulli_loses_its_share() {
        for (seed, p) in [(1, 0.001), (2, 0.01), (3, 0.3)] {
            let n = 400_000;
            let lost = run(LossConfig::Bernoulli(p), seed, n).iter().filter(|l| **l).count();
            let deviation = (p * (1.0 - p) * n as f64).sqrt();
            assert!((lost as f64 - p * n as f64).abs() < 5.0 * deviation, "seed {seed}: {lost}");
        }
    }

    #[test]
    fn gilbert_has_the_loss_rate_and_mean_burst_asked_for() {
        for (seed, rate, burst) in [(4, 0.01, 3.0), (5, 0.05, 10.0), (6, 0.2, 1.5)] {
            let config = LossConfig::bursts(rate, burst);
            assert!((config.mean_rate() - rate).abs() < 1e-12);
            let struck = run(config, seed, 1_000_000);
            let lost = struck.iter().filter(|l| **l).count() as f64 / struck.len() as f64;
            let lengths = bursts(&struck);
            let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
            assert!((lost / rate - 1.0).abs() < 0.06, "seed {seed}: rate {lost}");
            assert!((mean / burst - 1.0).abs() < 0.04, "seed {seed}: burst {mean}");
        }
    }

    #[test]
    fn elliott_mixes_the_loss_of_both_states() {
        let config = LossConfig::GilbertElliott {
            enter_bad: 0.02,
            leave_bad: 0.08,
            loss_in_good: 0.01,
            loss_in_bad: 0.5,
        };
        let expected = 0.8 * 0.01 + 0.2 * 0.5;
        assert!((config.mean_rate() - expected).abs() < 1e-12);
        let struck = run(config, 7, 1_000_000);
        let lost = struck.iter().filter(|l| **l).count() as f64 / struck.len() as f64;
        assert!((lost / expected - 1.0).abs() < 0.03, "{lost}");
    }

    #[test]
    fn listed_packets_and_no_others_are_lost() {
        let struck = run(LossConfig::Listed(vec![0, 3, 3, 4, 9]), 8, 12);
        let numbers: Vec<_> = (0..12).filter(|i| struck[*i]).collect();
        assert_eq!(numbers, [0, 3, 4, 9]);
    }

    #[test]
    fn impossible_probabilities_and_an_endless_bad_state_are_refused() {
        for p in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(LossConfig::Bernoulli(p).validate().is_err(), "{p}");
        }
        assert_eq!(
            LossConfig::GilbertElliott {
                enter_bad: 0.1,
                leave_bad: 0.0,
                loss_in_good: 0.0,
                loss_in_bad: 1.0
            }
            .validate(),
            Err(ConfigError::BadForever)
        );
        assert!(LossConfig::bursts(0.1, 0.5).validate().is_err(), "bursts shorter than a packet");
        assert!(LossConfig::Listed(vec![2, 1]).validate().is_err());
    }
}
