//! Amounts and rates for people: read from flags, shown in summaries and interval lines.

use std::time::Duration;

use tack_units::Rate;

/// Scales of bytes: powers of 1024, as iperf3 has them.
const BYTE_UNITS: [&str; 5] = ["Bytes", "KBytes", "MBytes", "GBytes", "TBytes"];

/// Scales of bits per second: powers of 1000.
const BIT_UNITS: [&str; 5] = ["bits", "Kbits", "Mbits", "Gbits", "Tbits"];

/// `1.50 GBytes`: three digits that matter.
pub fn bytes_text(bytes: u64) -> String {
    scaled(bytes as f64, 1024.0, &BYTE_UNITS)
}

/// `941 Mbits/sec`; zero time is no rate.
pub fn rate_text(bytes: u64, seconds: f64) -> String {
    let bits = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    format!("{}/sec", scaled_bits(bits))
}

/// A unit that rates are shown in, as iperf3's `-f` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateUnit {
    /// Bytes instead of bits.
    bytes: bool,
    /// Which power.
    scale: usize,
}

impl std::str::FromStr for RateUnit {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let scale = ["k", "m", "g", "t"].iter().position(|&u| text.eq_ignore_ascii_case(u));
        let scale = scale.ok_or("units are k, m, g, t (bits) and K, M, G, T (bytes)")? + 1;
        Ok(Self { bytes: text.bytes().all(|b| b.is_ascii_uppercase()), scale })
    }
}

impl RateUnit {
    /// `941 Mbits/sec`, `112 MBytes/sec`; zero time is no rate.
    pub fn text(self, bytes: u64, seconds: f64) -> String {
        let per_second = if seconds > 0.0 { bytes as f64 / seconds } else { 0.0 };
        let power = i32::try_from(self.scale).expect("four powers");
        let (value, unit) = match self.bytes {
            true => (per_second / 1024_f64.powi(power), BYTE_UNITS[self.scale]),
            false => (per_second * 8.0 / 1000_f64.powi(power), BIT_UNITS[self.scale]),
        };
        format!("{value:.0$} {unit}/sec", digits(value))
    }
}

fn scaled(mut value: f64, base: f64, units: &[&str; 5]) -> String {
    let mut unit = 0;
    // 999.5 and more would round to a fourth digit.
    while value >= 999.5 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    format!("{value:.0$} {1}", digits(value), units[unit])
}

/// Digits behind the point, for three that matter.
fn digits(value: f64) -> usize {
    match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    }
}

/// `941 Mbits`.
pub fn scaled_bits(bits: f64) -> String {
    scaled(bits, 1000.0, &BIT_UNITS)
}

/// Reads an amount as iperf3 does: `128K`, `1.5M`, `10G` in powers of 1024.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_u64 << 10),
        Some((at, 'm' | 'M')) => (&text[..at], 1 << 20),
        Some((at, 'g' | 'G')) => (&text[..at], 1 << 30),
        Some((at, 't' | 'T')) => (&text[..at], 1 << 40),
        _ => (text, 1),
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(|| format!("`{text}` is too much"));
    }
    match number.parse::<f64>() {
        Ok(n) if n.is_finite() && n >= 0.0 && n * factor as f64 <= 1e18 => {
            Ok((n * factor as f64) as u64)
        }
        _ => Err(format!("`{text}` is no amount; write a number, or one with K, M, G or T")),
    }
}

/// No path is faster, bit/s; and beyond it, what passes in a nanosecond is no whole number of bytes.
const MAX_BPS: f64 = 1e12;

/// `100M`, `1.5G`, `100Mbit/s`: bits per second in powers of 1000.
pub(crate) fn parse_rate(text: &str) -> Result<Rate, String> {
    let text = text.trim_end_matches("bit/s").trim_end_matches("bps");
    let (number, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(n) if n * factor >= 1.0 && n * factor <= MAX_BPS => {
            Ok(Rate::from_bps((n * factor) as u64))
        }
        _ => Err("a rate looks like 100M or 1.5G (bit/s), and is 1000G at most".to_owned()),
    }
}

/// `80ms`, `1.5s`, `300us`; a bare number is milliseconds.
pub(crate) fn parse_time(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("us", 1e-6), ("s", 1.0)];
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1e-3));
    match number.trim().parse::<f64>() {
        Ok(n) if n.is_finite() && (0.0..1e6).contains(&n) => {
            Ok(Duration::from_secs_f64(n * factor))
        }
        _ => Err("a time looks like 80ms, 300us or 1.5s".to_owned()),
    }
}

/// `1%` or `0.01`.
pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let (number, factor) = text.strip_suffix('%').map_or((text, 1.0), |n| (n, 0.01));
    match number.trim().parse::<f64>() {
        Ok(n) if (0.0..=1.0).contains(&(n * factor)) => Ok(n * factor),
        _ => Err("a share looks like 1% or 0.01".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        assert_eq!(parse_rate("100M"), Ok(Rate::from_mbps(100)));
        assert_eq!(parse_rate("1.5Gbit/s"), Ok(Rate::from_mbps(1_500)));
        assert_eq!(parse_time("80ms"), Ok(Duration::from_millis(80)));
        assert_eq!(parse_time("80"), Ok(Duration::from_millis(80)));
        assert_eq!(parse_time("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_time("300us"), Ok(Duration::from_micros(300)));
        assert_eq!(parse_share("1%"), Ok(0.01));
        assert_eq!(parse_share("0.5"), Ok(0.5));
    }

    #[test]
    fn amounts_show_three_digits_that_matter() {
        for (bytes, text) in [
            (0, "0.00 Bytes"),
            (999, "999 Bytes"),
            (1000, "0.98 KBytes"),
            (1 << 20, "1.00 MBytes"),
            (1_288_490_189, "1.20 GBytes"),
            (u64::MAX, "16777216 TBytes"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
        assert_eq!(rate_text(125_000_000, 1.0), "1.00 Gbits/sec");
        assert_eq!(rate_text(1, 0.0), "0.00 bits/sec");
    }

    #[test]
    fn a_rate_may_be_shown_in_one_unit_whatever_it_is() {
        let shown = |unit: &str, bytes| unit.parse::<RateUnit>().unwrap().text(bytes, 1.0);
        assert_eq!(shown("k", 125_000_000), "1000000 Kbits/sec");
        assert_eq!(shown("m", 125_000), "1.00 Mbits/sec");
        assert_eq!(shown("M", 3 << 20), "3.00 MBytes/sec");
        assert_eq!(shown("g", 0), "0.00 Gbits/sec");
        assert!("x".parse::<RateUnit>().is_err() && "".parse::<RateUnit>().is_err());
    }

    #[test]
    fn amounts_are_read_in_powers_of_1024() {
        for (text, bytes) in
            [("0", 0), ("77", 77), ("128K", 131_072), ("1.5m", 1_572_864), ("2G", 2 << 30)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes));
        }
        for text in ["", "K", "-1", "1X", "nan", "inf", "1e30", "99999999999T", "ü"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
