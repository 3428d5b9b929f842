//! Delay that varies, without reordering: no packet leaves before the one in front of it.

use core::time::Duration;

use rand_pcg::Pcg64;
use tack_units::Instant;

use crate::draw;
use crate::error::ConfigError;

/// The law of the extra delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jitter {
    /// None.
    #[default]
    None,
    /// Each packet its own draw, uniform in `[0, max]`.
    ///
    /// Since order is kept, a packet waits for the latest one before it: at many packets per `max`
    /// the delay stays near `max`. [`Jitter::Wander`] models a queue better.
    Uniform {
        /// Greatest extra delay.
        max: Duration,
    },
    /// Each packet its own draw, the absolute value of a normal one.
    HalfNormal {
        /// The normal law's standard deviation.
        deviation: Duration,
    },
    /// Each packet its own draw, exponential.
    Exponential {
        /// Mean extra delay.
        mean: Duration,
    },
    /// A delay that all packets of a time share, as behind a queue of other people's traffic:
    /// every `period` a new level, uniform in `[0, max]`, with straight lines between.
    Wander {
        /// Greatest level.
        max: Duration,
        /// From one level to the next.
        period: Duration,
    },
}

impl Jitter {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Jitter::Wander { period, .. } if period.is_zero() => {
                Err(ConfigError::NotPositive("the jitter's period"))
            }
            _ => Ok(()),
        }
    }
}

/// A running jitter process. Questions come in order of time.
#[derive(Debug)]
pub(super) struct JitterClock {
    config: Jitter,
    rng: Pcg64,
    /// Wander: number of the current period, and its level at start and end.
    period: u64,
    levels: (Duration, Duration),
}

impl JitterClock {
    pub(super) fn new(config: Jitter, rng: Pcg64) -> Self {
        let mut clock =
            JitterClock { config, rng, period: 0, levels: (Duration::ZERO, Duration::ZERO) };
        if let Jitter::Wander { max, .. } = config {
            clock.levels = (clock.level(max), clock.level(max));
        }
        clock
    }

    /// The extra delay of a packet that enters at `t`.
    pub(super) fn extra(&mut self, t: Instant) -> Duration {
        match self.config {
            Jitter::None => Duration::ZERO,
            Jitter::Uniform { max } => self.level(max),
            Jitter::HalfNormal { deviation } => draw::half_normal(&mut self.rng, deviation),
            Jitter::Exponential { mean } => draw::exponential(&mut self.rng, mean),
            Jitter::Wander { max, period } => self.wander(t, max, draw::nanos(period)),
        }
    }

    fn wander(&mut self, t: Instant, max: Duration, period_ns: u64) -> Duration {
        let now = t.as_nanos() / period_ns;
        // After a long silence two fresh levels are as good as all the skipped ones.
        if now > self.period + 1 {
            self.levels.1 = self.level(max);
        }
        if now > self.period {
            self.levels = (self.levels.1, self.level(max));
            self.period = now;
        }
        let share = (t.as_nanos() % period_ns) as f64 / period_ns as f64;
        let (from, to) = (self.levels.0.as_nanos() as f64, self.levels.1.as_nanos() as f64);
        Duration::from_nanos((from + (to - from) * share) as u64)
    }

    fn level(&mut self, max: Duration) -> Duration {
        draw::between(&mut self.rng, Duration::ZERO, max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wandering_delay_is_continuous_and_visits_its_whole_range() {
        let (max, period) = (Duration::from_millis(20), Duration::from_millis(100));
        let mut clock = JitterClock::new(Jitter::Wander { max, period }, draw::stream(1, 0));
        let step = Duration::from_micros(100);
        let (mut previous, mut least, mut greatest) = (None::<Duration>, max, Duration::ZERO);
        for n in 0..1_000_000u32 {
            let extra = clock.extra(Instant::ZERO + n * step);
            if let Some(previous) = previous {
                // The steepest line crosses the range in one period.
                let most = Duration::from_micros(20) + Duration::from_nanos(2);
                assert!(extra.abs_diff(previous) <= most, "{n}");
            }
            previous = Some(extra);
            least = least.min(extra);
            greatest = greatest.max(extra);
        }
        assert!(least < Duration::from_micros(200) && greatest > Duration::from_micros(19_800));
    }

    #[test]
    fn wandering_survives_long_silence() {
        let (max, period) = (Duration::from_millis(20), Duration::from_millis(100));
        let mut clock = JitterClock::new(Jitter::Wander { max, period }, draw::stream(1, 0));
        for s in [0, 1, 1_000, 1_000_000_000, 18_000_000_000] {
            assert!(clock.extra(Instant::from_secs(s)) <= max);
        }
    }
}
