//! From values to pixels, and the numbers beside an axis.

use tack_units::math;

/// A scale from values to pixels.
pub(super) struct Scale {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) log: bool,
    pub(super) pixels: (f64, f64),
}

impl Scale {
    /// Zero has no place on a logarithmic axis: it stands at the low end.
    pub(super) fn at(&self, v: f64) -> f64 {
        let of = |v: f64| if self.log { math::log10(v.max(1e-12)) } else { v };
        let share = (of(v) - of(self.from)) / (of(self.to) - of(self.from)).max(1e-12);
        let share = if self.log && v <= 0.0 { 0.02 } else { share.clamp(-0.02, 1.02) };
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        if self.log {
            let (low, high) =
                (math::log10(self.from).floor() as i32, math::log10(self.to).ceil() as i32);
            let steps: &[f64] = if high - low > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let all = (low..=high).flat_map(|e| steps.iter().map(move |s| s * 10f64.powi(e)));
            return all.filter(|t| (self.from * 0.999..=self.to * 1.001).contains(t)).collect();
        }
        let rough = (self.to - self.from) / 5.0;
        let power = math::pow(10.0, math::log10(rough).floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|s| s * power >= rough);
        let step = step.unwrap_or(10.0) * power;
        let first = (self.from / step).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).take(50).map(|n| n as f64 * step).collect()
    }
}

/// A number beside an axis.
pub(super) fn tick(v: f64) -> String {
    let a = v.abs();
    let trimmed = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if a >= 1e6 || (a > 0.0 && a < 1e-3) {
        let text = format!("{v:.2e}");
        let (mantissa, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!("{}e{power}", trimmed(mantissa));
    }
    let text = trimmed(&format!("{v:.3}"));
    if text == "-0" { "0".to_owned() } else { text }
}
