//! The options of `tack demo`.

use std::time::Duration;

use clap::Args;
use tack_units::Rate;

use super::Path;
use crate::exit::Failure;
use crate::units::parse_bytes;

/// Send a file twice over an emulated path, with TACK and with plain TCP, and compare
#[derive(Clone, Debug, Args)]
pub struct DemoArgs {
    /// Size of the file
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_bytes)]
    pub size: u64,
    /// Rate of the path in each direction, in bit/s
    #[arg(long, value_name = "RATE", default_value = "100M", value_parser = parse_rate)]
    pub rate: Rate,
    /// Round-trip time of the empty path
    #[arg(long, value_name = "TIME", default_value = "80ms", value_parser = parse_time)]
    pub rtt: Duration,
    /// Share of packets lost towards the receiver
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = parse_share)]
    pub loss: f64,
    /// Share of packets lost on the way back
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = parse_share)]
    pub ack_loss: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl DemoArgs {
    /// The path meant.
    ///
    /// # Errors
    /// A path that carries nothing.
    pub fn path(&self) -> Result<Path, Failure> {
        if self.rate < Rate::from_kbps(10) {
            return Err(Failure::usage("--rate must be at least 10K"));
        }
        if self.rtt > Duration::from_secs(10) {
            return Err(Failure::usage("--rtt must be at most 10s"));
        }
        if self.loss > 0.5 || self.ack_loss > 0.9 {
            return Err(Failure::usage("no transport survives that much loss"));
        }
        Ok(Path { rate: self.rate, rtt: self.rtt, loss: self.loss, ack_loss: self.ack_loss })
    }
}

/// `100M`, `1.5G`, `100Mbit/s`: bits per second in powers of 1000.
fn parse_rate(text: &str) -> Result<Rate, String> {
    let text = text.trim_end_matches("bit/s").trim_end_matches("bps");
    let (number, factor) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1e3),
        Some((at, 'm' | 'M')) => (&text[..at], 1e6),
        Some((at, 'g' | 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(n) if n.is_finite() && n > 0.0 => Ok(Rate::from_bps((n * factor) as u64)),
        _ => Err("a rate looks like 100M or 1.5G (bit/s)".to_owned()),
    }
}

/// `80ms`, `1.5s`, `300us`; a bare number is milliseconds.
fn parse_time(text: &str) -> Result<Duration, String> {
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
fn parse_share(text: &str) -> Result<f64, String> {
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
    fn what_is_no_amount_is_refused() {
        for bad in ["", "M", "-1M", "infG", "NaN"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
        for bad in ["", "ms", "-1ms", "infs", "80 parsecs"] {
            assert!(parse_time(bad).is_err(), "{bad}");
        }
        for bad in ["", "%", "101%", "-1%", "2", "NaN"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }
}
