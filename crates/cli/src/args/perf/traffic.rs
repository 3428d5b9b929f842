//! What is sent, how fast and from where: iperf3's `-b`, `-S`, `-M`, `-A`, `-4`, `-6`, `--cport`.

use clap::Args;

use crate::exit::Failure;
use crate::net::{Family, Origin, OwnAddress};
use crate::perf::pace::Pace;
use crate::units::parse_rate;

/// Options of a test's traffic.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Traffic")]
pub struct TrafficArgs {
    /// Client: bits per second of each stream, in blocks or in bursts of so many: an application that
    /// has no more to send (K, M, G; 0 is without limit)
    #[arg(short, long, visible_alias = "bandwidth", value_name = "RATE[/BLOCKS]")]
    #[arg(value_parser = parse_pace, conflicts_with = "server")]
    pub bitrate: Option<Pace>,
    /// Only IPv4
    #[arg(short = '4', long, conflicts_with = "version6")]
    pub version4: bool,
    /// Only IPv6
    #[arg(short = '6', long)]
    pub version6: bool,
    /// Client: port to send from
    #[arg(long, value_name = "PORT", conflicts_with_all = ["server", "tun"])]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub cport: Option<u16>,
    /// Client: type of service of both sides' packets (46, 0x2e, 056 count all eight bits, of which
    /// ECN has the last two)
    #[arg(short = 'S', long, value_name = "OCTET", value_parser = parse_tos)]
    #[arg(conflicts_with_all = ["server", "dscp"])]
    pub tos: Option<u8>,
    /// Client: differentiated services codepoint of both sides' packets: a number below 64, or its
    /// name (ef, af41, cs1, ...)
    #[arg(long, value_name = "CODEPOINT", value_parser = parse_dscp, conflicts_with = "server")]
    pub dscp: Option<u8>,
    /// Client: largest segment in bytes, both ways
    #[arg(short = 'M', long, value_name = "BYTES", conflicts_with = "server")]
    #[arg(value_parser = clap::value_parser!(u16).range(536..=9_216))]
    pub set_mss: Option<u16>,
    /// Run on this processor only; of a client, the server's too
    #[arg(short = 'A', long, value_name = "N[,M]", value_parser = parse_affinity)]
    pub affinity: Option<Affinity>,
    /// Client: milliseconds until the first connection must stand
    #[arg(long, value_name = "MS", conflicts_with = "server")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub connect_timeout: Option<u64>,
}

/// Processors to run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Affinity {
    /// Ours.
    pub here: Option<u16>,
    /// The server's.
    pub there: Option<u16>,
}

impl TrafficArgs {
    /// What the packets are marked with.
    pub fn codepoint(&self) -> u8 {
        self.dscp.or(self.tos.map(|octet| octet >> 2)).unwrap_or(0)
    }

    /// Where connections come from; `bind` is `-B`.
    ///
    /// # Errors
    /// An address of the other family.
    pub fn origin(&self, bind: Option<OwnAddress>) -> Result<Origin, Failure> {
        let family = match (self.version4, self.version6) {
            (true, _) => Some(Family::V4),
            (_, true) => Some(Family::V6),
            _ => None,
        };
        if let (Some(family), Some(address)) = (family, bind)
            && !family.has(address.ip())
        {
            return Err(Failure::usage(format!(
                "-B {address} is no address of the family asked for"
            )));
        }
        let port = self.cport.unwrap_or(0);
        Ok(Origin { family, address: bind, port, dscp: self.codepoint() })
    }
}

/// `20M`, `20M/10`; 0 is without limit.
fn parse_pace(text: &str) -> Result<Pace, String> {
    let (rate, burst) = match text.split_once('/') {
        Some((rate, burst)) => (rate, burst),
        None => (text, "1"),
    };
    let bits_per_second = if rate == "0" { 0 } else { parse_rate(rate)?.as_bps() };
    match burst.parse() {
        Ok(blocks @ 1..=1_000) => Ok(Pace { bits_per_second, blocks }),
        _ => Err("a burst is 1 to 1000 blocks".to_owned()),
    }
}

fn parse_tos(text: &str) -> Result<u8, String> {
    let read = match (text.strip_prefix("0x"), text.strip_prefix('0').filter(|t| !t.is_empty())) {
        (Some(hex), _) => u8::from_str_radix(hex, 16),
        (None, Some(octal)) => u8::from_str_radix(octal, 8),
        (None, None) => text.parse(),
    };
    read.map_err(|_| "a type of service is 0 to 255".to_owned())
}

/// The names are those of [RFC 2474 §4.2.2], [RFC 2597 §6], [RFC 3246 §2.7] and [RFC 8622 §1].
fn parse_dscp(text: &str) -> Result<u8, String> {
    let lower = text.to_ascii_lowercase();
    let digits = |text: &str| text.bytes().map(|b| b.wrapping_sub(b'0')).collect::<Vec<_>>();
    if let Some(class) = lower.strip_prefix("cs")
        && let [class @ 0..=7] = digits(class)[..]
    {
        return Ok(class * 8);
    }
    if let Some(class) = lower.strip_prefix("af")
        && let [class @ 1..=4, drop @ 1..=3] = digits(class)[..]
    {
        return Ok(class * 8 + drop * 2);
    }
    match lower.as_str() {
        "ef" => Ok(46),
        "le" => Ok(1),
        "va" | "voice-admit" => Ok(44),
        _ => match parse_tos(&lower) {
            Ok(codepoint @ 0..=63) => Ok(codepoint),
            _ => Err("a codepoint is 0 to 63, or ef, le, cs0 to cs7, af11 to af43".to_owned()),
        },
    }
}

fn parse_affinity(text: &str) -> Result<Affinity, String> {
    let number = |text: &str| match text {
        "" => Ok(None),
        _ => text.parse().map(Some).map_err(|_| format!("`{text}` is no processor's number")),
    };
    let (here, there) = text.split_once(',').unwrap_or((text, ""));
    Ok(Affinity { here: number(here)?, there: number(there)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_may_come_in_bursts() {
        let pace = |bits_per_second, blocks| Ok(Pace { bits_per_second, blocks });
        assert_eq!(parse_pace("20M/10"), pace(20_000_000, 10));
        assert_eq!(parse_pace("1.5G"), pace(1_500_000_000, 1));
        assert_eq!(parse_pace("0"), pace(0, 1));
        for text in ["20M/", "20M/0", "20M/1001", "x", "-1"] {
            assert!(parse_pace(text).is_err(), "{text}");
        }
    }

    #[test]
    fn codepoints_are_numbers_or_names() {
        for (text, codepoint) in
            [("0", 0), ("46", 46), ("EF", 46), ("0x2e", 46), ("056", 46), ("cs1", 8), ("af41", 34)]
        {
            assert_eq!(parse_dscp(text), Ok(codepoint), "{text}");
        }
        for text in ["64", "cs8", "af44", "af5", "csx", "", "-1"] {
            assert!(parse_dscp(text).is_err(), "{text}");
        }
        assert_eq!(parse_tos("0xb8"), Ok(184));
        assert!(parse_tos("256").is_err());
    }

    #[test]
    fn a_client_may_choose_the_servers_processor_alone() {
        let affinity = |here, there| Ok(Affinity { here, there });
        assert_eq!(parse_affinity("1"), affinity(Some(1), None));
        assert_eq!(parse_affinity("1,0"), affinity(Some(1), Some(0)));
        assert_eq!(parse_affinity(",3"), affinity(None, Some(3)));
        assert!(parse_affinity("a").is_err());
    }
}
