//! Bits per second, and the arithmetic that joins bytes and time.

use core::fmt;
use core::time::Duration;

/// A byte in bit/s times nanoseconds.
const WORK_PER_BYTE: u64 = 8_000_000_000;

/// A data rate in bit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Nothing moves.
    pub const ZERO: Rate = Rate(0);
    /// Faster than any link.
    pub const MAX: Rate = Rate(u64::MAX);

    /// `bps` bits per second.
    #[inline]
    pub const fn from_bps(bps: u64) -> Self {
        Rate(bps)
    }

    /// `kbps` times 1000 bits per second.
    pub const fn from_kbps(kbps: u64) -> Self {
        Rate(kbps.saturating_mul(1_000))
    }

    /// `mbps` times 10^6 bits per second.
    pub const fn from_mbps(mbps: u64) -> Self {
        Rate(mbps.saturating_mul(1_000_000))
    }

    /// The rate that moves `bytes` in `over`; `None` when `over` is zero.
    pub fn from_bytes_over(bytes: u64, over: Duration) -> Option<Rate> {
        let ns = over.as_nanos();
        if ns == 0 {
            return None;
        }
        let bps = u128::from(bytes) * 8_000_000_000 / ns;
        Some(Rate(u64::try_from(bps).unwrap_or(u64::MAX)))
    }

    /// Bits per second.
    #[inline]
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Megabits (10^6) per second, for printing.
    pub fn as_mbps_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Whole bytes moved in `d`, rounded down.
    #[inline]
    pub fn bytes_in(self, d: Duration) -> u64 {
        let work = u128::from(self.0).saturating_mul(d.as_nanos());
        // Dividing 128 bits is slow, and hardly ever needed.
        match u64::try_from(work) {
            Ok(work) => work / WORK_PER_BYTE,
            Err(_) => u64::try_from(work / u128::from(WORK_PER_BYTE)).unwrap_or(u64::MAX),
        }
    }

    /// Time to move `bytes`, rounded up to the nanosecond; `None` at rate zero.
    #[inline]
    pub fn time_for(self, bytes: u64) -> Option<Duration> {
        if self.0 == 0 {
            return None;
        }
        let ns = (u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0));
        Some(Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX)))
    }

    /// This rate times `factor`; negative and NaN factors give zero.
    #[inline]
    pub fn mul_f64(self, factor: f64) -> Rate {
        // `as` saturates and sends NaN to zero, which is what we promise.
        Rate((self.0 as f64 * factor) as u64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bps = self.0 as f64;
        match self.0 {
            0..1_000 => write!(f, "{bps} bit/s"),
            1_000..1_000_000 => write!(f, "{:.1} kbit/s", bps / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} Mbit/s", bps / 1e6),
            _ => write!(f, "{:.2} Gbit/s", bps / 1e9),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_time_are_inverse_within_rounding() {
        let r = Rate::from_mbps(100);
        assert_eq!(r.time_for(1_250), Some(Duration::from_micros(100)));
        assert_eq!(r.bytes_in(Duration::from_micros(100)), 1_250);
        assert_eq!(Rate::from_bytes_over(1_250, Duration::from_micros(100)), Some(r));
    }

    #[test]
    fn zero_rate_and_zero_time_have_no_quotient() {
        assert_eq!(Rate::ZERO.time_for(1), None);
        assert_eq!(Rate::from_bytes_over(1, Duration::ZERO), None);
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(Rate::MAX.bytes_in(Duration::MAX), u64::MAX);
        assert_eq!(Rate::from_bps(1).mul_f64(-1.0), Rate::ZERO);
        assert_eq!(Rate::MAX.mul_f64(f64::NAN), Rate::ZERO);
    }
}
