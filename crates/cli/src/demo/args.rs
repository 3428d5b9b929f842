//! The options of `tack demo`.

use std::time::Duration;

use clap::Args;
use tack_link::wlan::{Preset, Standard};
use tack_units::Rate;

use super::{Medium, Path};
use crate::exit::Failure;
use crate::units::{parse_bytes, parse_rate, parse_share, parse_time};

const AFTER: &str = "\
Examples:
  tack demo                                   802.11n, RTT 80 ms
  tack demo --wifi g --rtt 20ms --preset paper-a
  tack demo --rate 100M --loss 1% --ack-loss 1%   a wire instead of Wi-Fi";

/// Loss of the wire in either direction unless told otherwise. The air has troubles of its own.
const WIRE_LOSS: f64 = 0.01;
/// Longest round trip.
const MAX_RTT: Duration = Duration::from_secs(10);

/// Send a file twice over an emulated path, with TACK and with plain TCP, and compare.
///
/// The path is emulated in this process, in real time: by default Wi-Fi, where every
/// acknowledgment takes airtime from data. No privileges are needed.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct DemoArgs {
    /// Size of the file [default: 64M; 16M over 802.11g, 4M over b]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub size: Option<u64>,
    /// 802.11 generation of the path: b, g, n, ac or ax [default: n]
    #[arg(long, value_name = "PHY", value_parser = parse_standard, conflicts_with = "rate")]
    pub wifi: Option<Standard>,
    /// Parameters of the Wi-Fi: textbook, paper-a or paper-b [default: textbook]
    #[arg(long, value_name = "NAME", value_parser = parse_preset, conflicts_with = "rate")]
    pub preset: Option<Preset>,
    /// A wire of this rate in each direction instead of Wi-Fi, in bit/s
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<Rate>,
    /// Round-trip time of the empty path
    #[arg(long, value_name = "TIME", default_value = "80ms", value_parser = parse_time)]
    pub rtt: Duration,
    /// Share of packets the wire loses towards the receiver [default: 0; 1% with --rate]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub loss: Option<f64>,
    /// Share of packets the wire loses on the way back [default: 0; 1% with --rate]
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub ack_loss: Option<f64>,
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
        if self.rtt > MAX_RTT {
            let seconds = self.rtt.as_secs_f64();
            return Err(Failure::usage(format!("--rtt is {seconds} s, but at most 10 s can run")));
        }
        if self.size == Some(0) {
            return Err(Failure::usage("--size is 0, and nothing can be compared"));
        }
        let medium = match self.rate {
            Some(rate) if rate < Rate::from_kbps(10) => {
                return Err(Failure::usage(format!("--rate is {rate}, but 10K is the least")));
            }
            Some(rate) => Medium::Wire(rate),
            None => Medium::Wifi {
                standard: self.wifi.unwrap_or(Standard::N),
                preset: self.preset.unwrap_or(Preset::Textbook),
            },
        };
        let usual = if self.rate.is_some() { WIRE_LOSS } else { 0.0 };
        let share = |flag: &str, given: Option<f64>, most: f64| match given.unwrap_or(usual) {
            loss if loss <= most => Ok(loss),
            loss => Err(Failure::usage(format!(
                "{flag} is {} %, but no transport survives more than {} %",
                loss * 100.0,
                most * 100.0
            ))),
        };
        let loss = share("--loss", self.loss, 0.5)?;
        let ack_loss = share("--ack-loss", self.ack_loss, 0.9)?;
        Ok(Path { medium, rtt: self.rtt, loss, ack_loss })
    }

    /// How many bytes to send: as many as the path carries in some seconds.
    pub fn bytes(&self) -> u64 {
        let usual = match (self.rate, self.wifi) {
            (None, Some(Standard::B)) => 4 << 20,
            (None, Some(Standard::G)) => 16 << 20,
            _ => 64 << 20,
        };
        self.size.unwrap_or(usual)
    }
}

pub(crate) fn parse_standard(text: &str) -> Result<Standard, String> {
    let text = text.strip_prefix("802.11").unwrap_or(text);
    Standard::from_name(text).ok_or_else(|| "802.11 generations here are b, g, n, ac, ax".into())
}

pub(crate) fn parse_preset(text: &str) -> Result<Preset, String> {
    Preset::from_name(text).ok_or_else(|| "presets are textbook, paper-a and paper-b".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Path, String> {
        #[derive(clap::Parser)]
        struct Cli {
            #[command(flatten)]
            demo: DemoArgs,
        }
        let words = std::iter::once("demo").chain(line.split_whitespace());
        let cli = <Cli as clap::Parser>::try_parse_from(words).map_err(|e| e.to_string())?;
        cli.demo.path().map_err(|failure| failure.message)
    }

    #[test]
    fn the_path_is_wifi_unless_a_rate_makes_it_a_wire() {
        let ms = Duration::from_millis;
        let wifi = |standard, preset, rtt, loss| {
            let medium = Medium::Wifi { standard, preset };
            Ok(Path { medium, rtt, loss, ack_loss: 0.0 })
        };
        assert_eq!(read(""), wifi(Standard::N, Preset::Textbook, ms(80), 0.0));
        let line = "--wifi ac --preset paper-b --rtt 20ms --loss 2%";
        assert_eq!(read(line), wifi(Standard::Ac, Preset::PaperB, ms(20), 0.02));
        let medium = Medium::Wire(Rate::from_mbps(50));
        let wire = Path { medium, rtt: ms(80), loss: 0.01, ack_loss: 0.0 };
        assert_eq!(read("--rate 50M --ack-loss 0"), Ok(wire));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, words) in [
            ("--wifi z", ["--wifi", "ac"]),
            ("--preset paper-z", ["--preset", "textbook"]),
            ("--wifi n --rate 100M", ["--wifi", "--rate"]),
            ("--preset paper-a --rate 100M", ["--preset", "--rate"]),
            ("--rtt 11s", ["--rtt", "10 s"]),
            ("--rtt soon", ["--rtt", "80ms"]),
            ("--rate 1K", ["--rate", "10K"]),
            ("--size 0", ["--size", "nothing"]),
            ("--loss 60%", ["--loss", "50 %"]),
            ("--ack-loss 95%", ["--ack-loss", "90 %"]),
        ] {
            let message = read(line).unwrap_err();
            for word in words {
                assert!(message.contains(word), "{line}: {message}");
            }
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for bad in ["", "M", "-1M", "infG", "NaN", "1e40", "0.1", "1001G"] {
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
