//! Times during which a part of the path does not work.

use core::time::Duration;

use rand_pcg::Pcg64;
use tack_units::Instant;

use crate::draw;
use crate::error::ConfigError;

/// When. Each window contains its start and not its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Outages {
    /// Never.
    #[default]
    Never,
    /// In exactly these windows `(start, end)`, ascending and without overlap.
    At(Vec<(Instant, Instant)>),
    /// Once per period, for a time drawn uniformly from `[min, max]`, as Wi-Fi scans do.
    Every {
        /// Start of the first.
        first: Instant,
        /// From one start to the next.
        period: Duration,
        /// Shortest.
        min: Duration,
        /// Longest; less than the period.
        max: Duration,
    },
}

impl Outages {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        match self {
            Outages::Never => Ok(()),
            Outages::At(windows) => {
                let forward = windows.iter().all(|(start, end)| start < end);
                let apart = windows.windows(2).all(|w| w[0].1 <= w[1].0);
                if forward && apart { Ok(()) } else { Err(ConfigError::Unsorted("outages")) }
            }
            Outages::Every { min, max, .. } if min > max => Err(ConfigError::EmptyRange("outages")),
            Outages::Every { period, max, .. } if max >= period => Err(ConfigError::OutagePeriod),
            Outages::Every { .. } => Ok(()),
        }
    }
}

/// A running schedule. Questions come in order of time.
#[derive(Debug)]
pub(super) struct OutageClock {
    config: Outages,
    rng: Pcg64,
    /// The window in force or next to come; `None` when there are no more.
    window: Option<(Instant, Instant)>,
    /// Windows made so far.
    made: u64,
}

impl OutageClock {
    pub(super) fn new(config: Outages, rng: Pcg64) -> Self {
        let mut clock = OutageClock { config, rng, window: None, made: 0 };
        clock.window = clock.make();
        clock
    }

    /// The end of the outage in force at `t`.
    pub(super) fn covering(&mut self, t: Instant) -> Option<Instant> {
        self.window_after(t).filter(|(start, _)| *start <= t).map(|(_, end)| end)
    }

    /// The first window that ends after `t`.
    #[inline]
    pub(super) fn window_after(&mut self, t: Instant) -> Option<(Instant, Instant)> {
        while self.window.is_some_and(|(_, end)| end <= t) {
            self.window = self.make();
        }
        self.window
    }

    #[cold]
    fn make(&mut self) -> Option<(Instant, Instant)> {
        let number = self.made;
        self.made += 1;
        match &self.config {
            Outages::Never => None,
            Outages::At(windows) => windows.get(usize::try_from(number).ok()?).copied(),
            Outages::Every { first, period, min, max } => {
                let start_ns = number.checked_mul(draw::nanos(*period))?;
                let start = *first + Duration::from_nanos(start_ns);
                let end = start + draw::between(&mut self.rng, *min, *max);
                // At the end of time the windows no longer move.
                (end < Instant::MAX).then_some((start, end))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn periodic_outages_have_their_period_and_range() {
        let config = Outages::Every {
            first: Instant::from_secs(1),
            period: Duration::from_secs(2),
            min: 100 * MS,
            max: 250 * MS,
        };
        config.validate().unwrap();
        let mut clock = OutageClock::new(config, draw::stream(1, 0));
        let mut t = Instant::ZERO;
        let mut lengths = Vec::new();
        for n in 0..1_000 {
            let (start, end) = clock.window_after(t).unwrap();
            assert_eq!(start, Instant::from_secs(1 + 2 * n));
            assert_eq!(clock.covering(start), Some(end));
            lengths.push(end - start);
            t = end;
            assert_eq!(clock.covering(t), None, "the end is outside");
        }
        assert!(lengths.iter().all(|l| (100 * MS..=250 * MS).contains(l)));
        let mean = lengths.iter().sum::<Duration>() / 1_000;
        assert!((170 * MS..180 * MS).contains(&mean), "{mean:?}");
    }

    #[test]
    fn schedules_that_overlap_are_refused() {
        let at = |ms: &[(u64, u64)]| {
            let point = |ms| Instant::from_millis(ms);
            Outages::At(ms.iter().map(|(a, b)| (point(*a), point(*b))).collect()).validate()
        };
        assert_eq!(at(&[(1, 2), (2, 3)]), Ok(()));
        assert!(at(&[(1, 3), (2, 4)]).is_err());
        assert!(at(&[(2, 2)]).is_err());
        let every =
            |min, max, period| Outages::Every { first: Instant::ZERO, period, min, max }.validate();
        assert_eq!(every(MS, 2 * MS, 2 * MS), Err(ConfigError::OutagePeriod));
        assert_eq!(every(2 * MS, MS, 9 * MS), Err(ConfigError::EmptyRange("outages")));
    }
}
