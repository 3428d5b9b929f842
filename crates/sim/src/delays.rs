//! A histogram of delays: 1.6 % wide buckets, constant memory, no allocation per sample.

use core::time::Duration;

/// Buckets per octave: their relative width is at most 1/64.
const STEPS: u64 = 64;
/// Octaves above `STEPS` microseconds: up to about 73 minutes.
const OCTAVES: u64 = 26;

/// Counts delays from one microsecond up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    counts: Vec<u32>,
    samples: u64,
    /// In nanoseconds, as the two below: a sample comes with each packet.
    sum: u128,
    least: u64,
    greatest: u64,
}

impl Default for Delays {
    fn default() -> Self {
        Delays { counts: Vec::new(), samples: 0, sum: 0, least: u64::MAX, greatest: 0 }
    }
}

impl Delays {
    /// Adds a sample.
    pub fn record(&mut self, delay: Duration) {
        if self.counts.is_empty() {
            self.counts = vec![0; ((OCTAVES + 1) * STEPS) as usize];
        }
        let nanos = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX);
        let count = &mut self.counts[Self::bucket(nanos / 1_000)];
        *count = count.saturating_add(1);
        self.samples += 1;
        self.sum += u128::from(nanos);
        self.least = self.least.min(nanos);
        self.greatest = self.greatest.max(nanos);
    }

    /// What was recorded since `earlier`, a copy of this histogram from then. Quantiles and mean
    /// are of those samples alone; least and greatest stay those of the whole time.
    #[must_use]
    pub fn since(&self, earlier: &Delays) -> Delays {
        let mut counts = self.counts.clone();
        for (count, before) in counts.iter_mut().zip(&earlier.counts) {
            *count = count.saturating_sub(*before);
        }
        Delays {
            counts,
            samples: self.samples.saturating_sub(earlier.samples),
            sum: self.sum.saturating_sub(earlier.sum),
            ..*self
        }
    }

    /// Samples so far.
    pub fn len(&self) -> u64 {
        self.samples
    }

    /// Nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// The exact mean; `None` without samples.
    pub fn mean(&self) -> Option<Duration> {
        let nanos = self.sum.checked_div(u128::from(self.samples))?;
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }

    /// The exact least; `None` without samples.
    pub fn least(&self) -> Option<Duration> {
        (!self.is_empty()).then_some(Duration::from_nanos(self.least))
    }

    /// The delay that the share `q` in `0..=1` of samples does not exceed: at most 1/64 too
    /// great. `None` without samples.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        if self.is_empty() {
            return None;
        }
        let rank = ((self.samples as f64 * q).ceil() as u64).clamp(1, self.samples);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|n| {
            seen += u64::from(*n);
            seen >= rank
        });
        let greatest = Duration::from_nanos(self.greatest);
        let upper = bucket.map_or(greatest, |b| Duration::from_micros(Self::end(b as u64)));
        Some(upper.min(greatest))
    }

    /// The delays below `STEPS` have a bucket each; every octave above has `STEPS` of them.
    fn bucket(us: u64) -> usize {
        if us < STEPS {
            return us as usize;
        }
        let octave = u64::from(us.ilog2() - STEPS.ilog2());
        let step = (us >> octave) - STEPS;
        (((octave + 1) * STEPS + step).min((OCTAVES + 1) * STEPS - 1)) as usize
    }

    /// The first microsecond beyond a bucket.
    fn end(bucket: u64) -> u64 {
        let (octave, step) = (bucket / STEPS, bucket % STEPS);
        if octave == 0 { step + 1 } else { (STEPS + step + 1) << (octave - 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_line_and_are_narrow() {
        let mut start = 0;
        for bucket in 0..(OCTAVES + 1) * STEPS {
            let end = Delays::end(bucket);
            assert_eq!(Delays::bucket(start), bucket as usize);
            assert_eq!(Delays::bucket(end - 1), bucket as usize);
            assert!(end - start == 1 || (end - start) * STEPS <= start);
            start = end;
        }
    }

    #[test]
    fn quantiles_agree_with_a_sorted_list() {
        let mut delays = Delays::default();
        let mut list = Vec::new();
        let mut x = 1u64;
        for _ in 0..10_000 {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let delay = Duration::from_micros((x >> 40) % 200_000 + 1_000);
            delays.record(delay);
            list.push(delay);
        }
        list.sort();
        for q in [0.0, 0.01, 0.5, 0.95, 0.99, 1.0] {
            let exact = list[((10_000.0 * q) as usize).clamp(1, 10_000) - 1].as_secs_f64();
            let got = delays.quantile(q).unwrap().as_secs_f64();
            assert!((exact..=exact * 1.016 + 1e-6).contains(&got), "{q}: {got} for {exact}");
        }
        assert_eq!(delays.least(), list.first().copied());
        let mean = list.iter().sum::<Duration>() / 10_000;
        assert_eq!(delays.mean(), Some(mean));
        assert_eq!(Delays::default().quantile(0.5), None);
        let before = delays.clone();
        assert!(delays.since(&before).is_empty());
        for _ in 0..3 {
            delays.record(Duration::from_millis(7));
        }
        let since = delays.since(&before);
        assert_eq!((since.len(), since.mean()), (3, Some(Duration::from_millis(7))));
        let median = since.quantile(0.5).unwrap();
        assert!((7_000..=7_112).contains(&median.as_micros()), "{median:?}");
        assert_eq!(Delays::default().mean(), None);
    }
}
