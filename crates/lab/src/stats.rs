//! Means over seeds and how sure they are.

/// Mean and half-width of the 95 % confidence interval of independent samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half of the 95 % interval by Student's t; `None` for fewer than two samples, which say
    /// nothing about their spread.
    pub ci95: Option<f64>,
}

impl Estimate {
    /// From samples; `None` when there are none.
    pub fn of(samples: &[f64]) -> Option<Estimate> {
        let mean = mean(samples.iter().copied())?;
        let ci95 = standard_error(samples).map(|error| t975(samples.len() - 1) * error);
        Some(Estimate { mean, ci95 })
    }

    /// Half of the interval, where there is one to speak of: computed figures have none.
    pub fn interval(&self) -> Option<f64> {
        self.ci95.filter(|half| *half > 1e-9 * self.mean.abs())
    }
}

/// The arithmetic mean; `None` of nothing.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    (n > 0.0).then(|| sum / n)
}

/// Standard error of the mean; `None` of fewer than two samples.
pub fn standard_error(samples: &[f64]) -> Option<f64> {
    let n = samples.len() as f64;
    let mean = mean(samples.iter().copied()).filter(|_| n > 1.0)?;
    let squares: f64 = samples.iter().map(|s| (s - mean).powi(2)).sum();
    Some((squares / (n - 1.0) / n).sqrt())
}

/// The 97.5th percentile of Student's t with `df` degrees of freedom (at least 1).
///
/// Tabulated to 10, beyond that by the Cornish–Fisher expansion of the normal quantile, which is
/// within 0.003 there.
fn t975(df: usize) -> f64 {
    const TABLE: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    if let Some(t) = df.checked_sub(1).and_then(|i| TABLE.get(i)) {
        return *t;
    }
    let (z, n) = (1.959_964_f64, df as f64);
    let (z3, z5) = (z.powi(3), z.powi(5));
    z + (z3 + z) / (4.0 * n) + (5.0 * z5 + 16.0 * z3 + 3.0 * z) / (96.0 * n * n)
}

/// The `q` quantile (0 to 1) of unordered samples by the nearest rank; `None` when there are none.
pub fn quantile(samples: &mut [f64], q: f64) -> Option<f64> {
    let last = samples.len().checked_sub(1)?;
    samples.sort_by(f64::total_cmp);
    let rank = (q.clamp(0.0, 1.0) * samples.len() as f64).ceil() as usize;
    Some(samples[rank.saturating_sub(1).min(last)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_samples_have_the_textbook_interval() {
        // s = 1.5811, t(4) = 2.776, so 2.776 * 1.5811 / sqrt(5) = 1.963.
        let e = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((e.mean - 3.0).abs() < 1e-12 && (e.ci95.unwrap() - 1.963).abs() < 1e-3);
        assert_eq!(Estimate::of(&[7.0]), Some(Estimate { mean: 7.0, ci95: None }));
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn student_t_joins_its_table_and_tends_to_the_normal_law() {
        assert!((t975(11) - 2.201).abs() < 0.003);
        assert!((t975(30) - 2.042).abs() < 0.001);
        assert!((t975(100_000) - 1.96).abs() < 0.001);
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let mut s: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(quantile(&mut s, 0.5), Some(50.0));
        assert_eq!(quantile(&mut s, 0.95), Some(95.0));
        assert_eq!(quantile(&mut s, 0.0), Some(1.0));
        assert_eq!(quantile(&mut s, 1.0), Some(100.0));
        assert_eq!(quantile(&mut [], 0.5), None);
    }
}
