//! How much the bottleneck can serve, as a function of time.

use core::time::Duration;

use tack_units::{Instant, Rate, earliest};

use super::outage::OutageClock;
use crate::error::ConfigError;
use crate::trace::DeliveryTrace;

/// A rate from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStep {
    /// From when.
    pub at: Instant,
    /// IP-level bit/s; zero stands still.
    pub rate: Rate,
}

/// The bottleneck's capacity over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Capacity {
    /// No bottleneck.
    #[default]
    Unlimited,
    /// Always this rate, on IP-level bytes.
    Constant(Rate),
    /// Piecewise constant; ascending in time and not empty. The first step also holds before its
    /// time, the last one for ever.
    Steps(Vec<RateStep>),
    /// Steps as above over one period, then again from the start.
    Cycle {
        /// The steps; the first at zero, all before `period`.
        steps: Vec<RateStep>,
        /// The cycle's length.
        period: Duration,
    },
    /// Delivery opportunities of a recorded trace.
    Trace(DeliveryTrace),
}

impl Capacity {
    /// The greatest of its rates, of a trace the mean; `None` of no bottleneck.
    pub fn greatest_rate(&self) -> Option<Rate> {
        match self {
            Capacity::Unlimited => None,
            Capacity::Constant(rate) => Some(*rate),
            Capacity::Steps(steps) | Capacity::Cycle { steps, .. } => {
                steps.iter().map(|step| step.rate).max()
            }
            Capacity::Trace(trace) => Some(trace.mean_rate()),
        }
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Capacity::Unlimited | Capacity::Constant(_) | Capacity::Trace(_) => Ok(()),
            Capacity::Steps(steps) => validate_steps(steps),
            Capacity::Cycle { steps, period } => {
                validate_steps(steps)?;
                let within = steps[0].at == Instant::ZERO
                    && steps.last().is_some_and(|s| s.at < Instant::ZERO + *period);
                if within { Ok(()) } else { Err(ConfigError::Unsorted("steps of a cycle")) }
            }
        }
    }
}

fn validate_steps(steps: &[RateStep]) -> Result<(), ConfigError> {
    if steps.is_empty() {
        return Err(ConfigError::NotPositive("the number of rate steps"));
    }
    let ascending = steps.windows(2).all(|w| w[0].at < w[1].at);
    if ascending { Ok(()) } else { Err(ConfigError::Unsorted("rate steps")) }
}

/// A capacity in use, with its standstills. Questions come in order of time.
#[derive(Debug)]
pub(super) struct RateClock {
    shape: Shape,
    holds: OutageClock,
}

#[derive(Debug)]
enum Shape {
    Unlimited,
    Constant(Rate),
    /// `period` is zero when the steps do not repeat; `base` is the start of the current cycle.
    Steps {
        steps: Vec<RateStep>,
        period: Duration,
        base: Instant,
        index: usize,
    },
}

impl RateClock {
    /// `None` for a trace, which has no rate.
    pub(super) fn new(capacity: Capacity, holds: OutageClock) -> RateClock {
        let steps = |steps, period| Shape::Steps { steps, period, base: Instant::ZERO, index: 0 };
        let shape = match capacity {
            Capacity::Unlimited => Shape::Unlimited,
            Capacity::Constant(rate) => Shape::Constant(rate),
            Capacity::Steps(s) => steps(s, Duration::ZERO),
            Capacity::Cycle { steps: s, period } => steps(s, period),
            Capacity::Trace(_) => unreachable!("a trace is served by opportunities, not by a rate"),
        };
        RateClock { shape, holds }
    }

    /// The rate at `t` (`None`: unlimited) and until when it holds (`None`: for ever).
    pub(super) fn at(&mut self, t: Instant) -> (Option<Rate>, Option<Instant>) {
        let hold = self.holds.window_after(t);
        if let Some((start, end)) = hold
            && start <= t
        {
            return (Some(Rate::ZERO), Some(end));
        }
        let (rate, until) = self.shape.at(t);
        let until = earliest(until, hold.map(|(start, _)| start));
        (rate, until)
    }
}

impl Shape {
    #[inline]
    fn at(&mut self, t: Instant) -> (Option<Rate>, Option<Instant>) {
        match self {
            Shape::Unlimited => (None, None),
            Shape::Constant(rate) => (Some(*rate), None),
            Shape::Steps { steps, period, base, index } => loop {
                let next = match steps.get(*index + 1) {
                    Some(step) => Some(*base + (step.at - Instant::ZERO)),
                    None if period.is_zero() => None,
                    None => Some(*base + *period),
                };
                match next {
                    // The end of time has no next cycle.
                    Some(next) if next <= t && next < Instant::MAX => {
                        *index += 1;
                        if *index == steps.len() {
                            *index = 0;
                            *base = next;
                        }
                    }
                    until => return (Some(steps[*index].rate), until),
                }
            },
        }
    }
}
