//! `tack lab emulate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tack_lab::emulate::EmulatedPath;
use tack_lab::scenario::{Scenario, Wan, WanDirection, Wifi};
use tack_link::wlan::{Preset, Standard};
use tack_units::Rate;

use super::parse_time;
use crate::demo::{parse_preset, parse_standard};
use crate::exit::Failure;
use crate::units::parse_bytes;
use crate::units::{parse_rate, parse_share};

const AFTER: &str = "\
Both sides find each other's addresses in TACK_CLIENT and TACK_SERVER, and in TACK_CLIENT6 and
TACK_SERVER6. Directions are the client's: --loss and --rate are what it downloads, --ack-loss is
what it sends. Needs root, or: unshare -Urn tack lab emulate …

Examples:
  tack lab emulate --rate 20M --rtt 80ms --loss 1%           a shell on a poor line
  tack lab emulate --wifi n --rtt 40ms --server 'iperf3 -s' -- iperf3 -R -c 10.77.0.2
  tack lab emulate scenarios/cafe.toml --pcap cafe.pcapng -- curl http://10.77.0.2/";

/// Run programs in two network namespaces with a modelled path between them, in real time.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct EmulateArgs {
    /// A scenario whose links to use; its flows are not run
    #[arg(value_name = "FILE.toml", conflicts_with = "knobs")]
    pub scenario: Option<PathBuf>,
    /// The path, in flags.
    #[command(flatten)]
    pub knobs: Knobs,
    /// Run this in the server's namespace meanwhile, by a shell
    #[arg(long, value_name = "COMMAND")]
    pub server: Option<String>,
    /// Capture the packets at both ends of the path, for Wireshark
    #[arg(long, value_name = "FILE.pcapng")]
    pub pcap: Option<PathBuf>,
    /// Release packets this far apart at least: less processor time, more lateness
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = parse_time)]
    pub quantum: Duration,
    /// Print the account as JSON
    #[arg(long)]
    pub json: bool,
    /// What to run in the client's namespace [default: your shell]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// What `netem` has knobs for, under its names where it has one.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "knobs", multiple = true)]
pub struct Knobs {
    /// Bottleneck of the wire in either direction, bit/s: 20M, 1.5G
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<Rate>,
    /// Bottleneck from client to server, if it is another
    #[arg(long, value_name = "RATE", value_parser = parse_rate, requires = "rate")]
    pub up_rate: Option<Rate>,
    /// Round trip of the empty path
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub rtt: Option<Duration>,
    /// Delay that wanders between 0 and this in either direction
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub jitter: Option<Duration>,
    /// Share of packets lost towards the client
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub loss: Option<f64>,
    /// Share of packets lost towards the server
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub ack_loss: Option<f64>,
    /// Share of packets that arrive twice
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub duplicate: Option<f64>,
    /// Share of packets with a flipped bit
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub corrupt: Option<f64>,
    /// Share of packets held back by up to 10 ms, so that others overtake them
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    pub reorder: Option<f64>,
    /// Buffer before the bottleneck: 100 packets, or 64K bytes
    /// [default: a bandwidth-delay product, at least 32K]
    #[arg(long, value_name = "SIZE", value_parser = parse_queue, requires = "rate")]
    pub queue: Option<Queue>,
    /// A Wi-Fi before the wire, the client its station: b, g, n, ac or ax
    #[arg(long, value_name = "PHY", value_parser = parse_standard)]
    pub wifi: Option<Standard>,
    /// Its parameters: textbook, paper-a or paper-b
    #[arg(long, value_name = "NAME", value_parser = parse_preset, requires = "wifi")]
    pub preset: Option<Preset>,
    /// Seed of everything random
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// A buffer, in either unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// So many packets.
    Packets(u32),
    /// So many bytes.
    Bytes(u64),
}

/// A bare number counts packets, as `netem`'s `limit` does.
fn parse_queue(text: &str) -> Result<Queue, String> {
    let queue = match text.parse::<u32>() {
        Ok(packets) => Queue::Packets(packets),
        Err(_) => Queue::Bytes(parse_bytes(text)?),
    };
    if matches!(queue, Queue::Packets(0) | Queue::Bytes(0)) {
        return Err("a queue must hold something".to_owned());
    }
    Ok(queue)
}

/// Least buffer: some packets must always fit.
const MIN_BUFFER_BYTES: u64 = 32 << 10;

impl Knobs {
    fn path(&self) -> EmulatedPath {
        let wifi = self
            .wifi
            .map(|phy| Wifi::preset(phy.name(), self.preset.unwrap_or(Preset::Textbook).name()));
        let rtt = self.rtt.unwrap_or_default();
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        let mbps = |rate: Rate| rate.as_bps() as f64 / 1e6;
        let (buffer_packets, buffer_bytes) = match (self.queue, self.rate) {
            (Some(Queue::Packets(n)), _) => (Some(n), None),
            (Some(Queue::Bytes(n)), _) => (None, Some(n)),
            (None, Some(rate)) => (None, Some(rate.bytes_in(rtt).max(MIN_BUFFER_BYTES))),
            (None, None) => (None, None),
        };
        let up = WanDirection {
            loss: Some(self.ack_loss.unwrap_or(0.0)),
            rate_mbps: self.up_rate.map(mbps),
            ..WanDirection::default()
        };
        let wan = Wan {
            rate_mbps: self.rate.map(mbps),
            delay_ms: Some(ms(rtt) / 2.0),
            jitter_ms: self.jitter.map(ms),
            loss: self.loss,
            duplication: self.duplicate,
            corruption: self.corrupt,
            reordering: self.reorder,
            buffer_packets,
            buffer_bytes,
            up: Some(up),
            ..Wan::default()
        };
        EmulatedPath { wifi, wan: Some(wan), seed: self.seed.unwrap_or(1) }
    }
}

impl EmulateArgs {
    /// The path meant.
    ///
    /// # Errors
    /// The scenario cannot be read, or stands for more than one path.
    pub fn path(&self) -> Result<EmulatedPath, Failure> {
        let Some(file) = &self.scenario else { return Ok(self.knobs.path()) };
        let wrong = |e: String| Failure::usage(format!("{}: {e}", file.display()));
        let text = std::fs::read_to_string(file).map_err(|e| wrong(e.to_string()))?;
        let scenario = Scenario::parse(&text).map_err(|e| {
            wrong(match e.key.as_str() {
                "sweep" => {
                    "its sweep stands for several scenarios, and one path can be emulated at a \
                        time"
                        .to_owned()
                }
                _ => e.to_string(),
            })
        })?;
        Ok(EmulatedPath::of(&scenario))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: EmulateArgs,
    }

    fn read(line: &str) -> Result<EmulateArgs, String> {
        let words = std::iter::once("emulate").chain(line.split_whitespace());
        Only::try_parse_from(words).map(|only| only.args).map_err(|e| e.to_string())
    }

    fn path(line: &str) -> EmulatedPath {
        read(line).unwrap().path().unwrap()
    }

    #[test]
    fn flags_become_a_path() {
        let p = path("--rate 20M --up-rate 5M --rtt 80ms --loss 1% --queue 100 --seed 7");
        let wan = p.wan.as_ref().unwrap();
        let (up, down) = (wan.up(), wan.down());
        assert_eq!((down.rate_mbps, up.rate_mbps), (Some(20.0), Some(5.0)));
        assert_eq!((down.delay_ms, up.delay_ms), (Some(40.0), Some(40.0)));
        assert_eq!((down.loss, up.loss), (Some(0.01), Some(0.0)));
        assert_eq!((down.buffer_packets, down.buffer_bytes), (Some(100), None));
        assert_eq!((p.seed, p.wifi), (7, None));
        let p = path("--rate 20M --rtt 80ms --ack-loss 0.5");
        let wan = p.wan.unwrap();
        assert_eq!((wan.down().loss, wan.up().loss), (None, Some(0.5)));
        // 20 Mbit/s over 80 ms.
        assert_eq!(wan.down().buffer_bytes, Some(200_000));
        let p = path("--wifi 802.11ac --preset paper-a --queue 64K --rate 1G --jitter 2ms");
        assert_eq!(p.wifi, Some(Wifi::preset("ac", "paper-a")));
        assert_eq!(p.wan.as_ref().unwrap().buffer_bytes, Some(65_536));
        assert_eq!(p.wan.unwrap().jitter_ms, Some(2.0));
    }

    #[test]
    fn what_follows_two_dashes_is_the_command() {
        let args = read("--rtt 10ms -- ping -c 3 10.77.0.2").unwrap();
        assert_eq!(args.command, ["ping", "-c", "3", "10.77.0.2"]);
        assert!(args.scenario.is_none());
        let args = read("cafe.toml --server nc -- nc -N 10.77.0.2 1").unwrap();
        assert_eq!(args.scenario, Some("cafe.toml".into()));
    }

    #[test]
    fn mistakes_are_named() {
        for (line, word) in [
            ("--queue 0 --rate 1M", "hold something"),
            ("--queue 10", "--rate"),
            ("--preset paper-a", "--wifi"),
            ("--loss 2", "share"),
            ("--wifi z", "ac"),
            ("cafe.toml --rtt 10ms", "--rtt"),
        ] {
            let message = read(line).unwrap_err();
            assert!(message.contains(word), "{line}: {message}");
        }
        let failure = read("no-such-file.toml").unwrap().path().unwrap_err();
        assert!(failure.message.contains("no-such-file.toml"), "{failure}");
    }

    #[test]
    fn a_scenario_is_one_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.toml");
        let plain = "[wan]\nrate_mbps = 10\ndelay_ms = 5\n[[flow]]\nstrategy = \"tack\"\n";
        std::fs::write(&file, plain).unwrap();
        let args = read(file.to_str().unwrap()).unwrap();
        assert_eq!(args.path().unwrap().wan.unwrap().rate_mbps, Some(10.0));
        std::fs::write(&file, format!("{plain}[sweep]\n\"wan.delay_ms\" = [1, 2]\n")).unwrap();
        let failure = args.path().unwrap_err();
        assert!(failure.message.contains("several scenarios"), "{failure}");
    }
}
