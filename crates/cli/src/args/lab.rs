//! `tack lab`.

mod acks;
mod controllers;
#[cfg(target_os = "linux")]
mod emulate;
mod envelope;
mod fairness;
#[cfg(target_os = "linux")]
mod kernel;
mod reproduce;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand};
use tack_lab::airtime::AirtimeSettings;
use tack_lab::compare::Comparison;
use tack_lab::scenario::{Strategy, Wifi};

pub use self::acks::AcksArgs;
pub use self::controllers::ControllersArgs;
#[cfg(target_os = "linux")]
pub use self::emulate::EmulateArgs;
pub use self::envelope::EnvelopeArgs;
pub use self::fairness::FairnessArgs;
#[cfg(target_os = "linux")]
pub use self::kernel::KernelArgs;
pub use self::reproduce::{Paper, ReproduceArgs};
use crate::exit::Failure;

const AFTER: &str = "\
Examples:
  tack lab compare --wifi n --rtt 80ms        every ACK strategy on the same air
  tack lab run scenarios/satellite.toml       an experiment as data
  tack lab airtime --phy ac --mode udpack --l 2
  tack lab acks --rate 20 --rtt 50ms          every ACK strategy on the same wire
  tack lab fairness                           each against acknowledging every segment
  tack lab envelope --draws 200               where TACK breaks a promise, path by path
  tack lab reproduce landstrom                a paper's figures beside ours
  tack lab controllers                        the congestion controllers side by side";

/// Experiments in a deterministic simulator: the real stack over a model of 802.11 and wires.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct LabArgs {
    /// Which.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// What the lab does.
#[derive(Clone, Debug, Subcommand)]
pub enum LabCommand {
    /// Put UDP, TCP with fewer and fewer ACKs, and TACK side by side on the same Wi-Fi
    Compare(CompareArgs),
    /// Run a scenario file, with all its sweeps and seeds
    Run(RunArgs),
    /// Run open-loop traffic on any setting of the 802.11 model
    Airtime(Box<AirtimeArgs>),
    /// Put every ACK strategy on the same path, its formula beside its count
    Acks(Box<AcksArgs>),
    /// Set each ACK strategy against as many flows that acknowledge every segment
    Fairness(Box<FairnessArgs>),
    /// Look for paths and traffic, at random, where TACK breaks a promise
    Envelope(Box<EnvelopeArgs>),
    /// Put a paper's figures beside ours, and judge
    Reproduce(ReproduceArgs),
    /// Put the congestion controllers side by side, against theory and each other
    Controllers(ControllersArgs),
    /// Run programs in two network namespaces with a modelled path between them, in real time
    #[cfg(target_os = "linux")]
    Emulate(Box<EmulateArgs>),
    /// Compare our TCP with the kernel's over the same emulated path
    #[cfg(target_os = "linux")]
    Kernel(KernelArgs),
}

const COMPARE_AFTER: &str = "\
Goodput counts the application's bytes. `ideal` is what open-loop traffic with the same number of
ACKs reaches on the same air: what fewer ACKs alone would give.

Examples:
  tack lab compare
  tack lab compare --wifi n,ac --rtt 80ms --plot compare.svg
  tack lab compare --wifi g --strategies tcp-l2,tack --presets textbook --json";

/// Put every ACK strategy on the same air.
#[derive(Clone, Debug, Args)]
#[command(after_help = COMPARE_AFTER)]
pub struct CompareArgs {
    /// 802.11 generations: b, g, n, ac, ax
    #[arg(long, value_name = "PHY,…", value_delimiter = ',', default_value = "n")]
    pub wifi: Vec<String>,
    /// Round trip of the path behind the access point, e.g. 80ms
    #[arg(long, value_name = "TIME", default_value = "80ms", value_parser = parse_time)]
    pub rtt: Duration,
    /// Runs of each cell, with seeds from 1 on
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub seeds: u64,
    /// Simulated seconds measured in each run
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub seconds: f64,
    /// Simulated seconds before that, left out of every figure
    /// [default: 60 round trips, at least 2]
    #[arg(long, value_name = "S")]
    pub warmup: Option<f64>,
    /// Some of udp, tcp-l1 to tcp-l64, ae, a4l4, a8l8, 2waf, 4w, 4waf, ar10, akdu, picoquic, srt,
    /// tack and their like [default: udp, tcp-l1,2,4,8,16, tack]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub strategies: Vec<Strategy>,
    /// Some of textbook, paper-a, paper-b
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "textbook,paper-a")]
    pub presets: Vec<String>,
    /// Draw the result to this SVG file
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Print CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// How it runs.
    #[command(flatten)]
    pub how: HowArgs,
}

/// What every longer experiment has.
#[derive(Clone, Debug, Args)]
pub struct HowArgs {
    /// Runs at a time; the results do not depend on it [default: one per core]
    #[arg(short, long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub jobs: usize,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

const RUN_AFTER: &str = "\
Results are JSON lines, one per run, with every parameter and the seed. If the file is there, an
interrupted sweep goes on where it stopped.

Examples:
  tack lab run scenarios/sweep-beta.toml --out results/ --csv
  tack lab run my.toml --pcap packets.pcapng --series cwnd.csv";

/// Run a scenario file.
#[derive(Clone, Debug, Args)]
#[command(after_help = RUN_AFTER)]
pub struct RunArgs {
    /// The scenario, in TOML
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// Where results go: a .jsonl file, or a directory [default: FILE.jsonl in this directory]
    #[arg(short, long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Write a CSV file beside it
    #[arg(long)]
    pub csv: bool,
    /// Go on with a sweep that was interrupted: the default
    #[arg(long, action = ArgAction::SetTrue, overrides_with = "no_resume")]
    pub resume: bool,
    /// Delete earlier results and start afresh
    #[arg(long)]
    pub no_resume: bool,
    /// Capture the packets of a scenario's only run, for Wireshark
    #[arg(long, value_name = "FILE.pcapng")]
    pub pcap: Option<PathBuf>,
    /// Write the senders' windows, rates and round trips over time of a scenario's only run
    #[arg(long, value_name = "FILE.csv")]
    pub series: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub how: HowArgs,
}

const AIRTIME_AFTER: &str = "\
The default preset `ns3` is the textbook's with what every ns-3 run adds, so that figures can be
held against ns-3's. l3_mbps counts 1500 bytes per data packet.

Examples:
  tack lab airtime --phy n --mode udpack --l 2 --ap-ampdu-bytes 20100 --uplink-rate 60 --json
  tack lab airtime --phy n --mode relay --offered-mbps 96.97 --l 4";

/// Run open-loop traffic on the 802.11 model.
#[derive(Clone, Debug, Args)]
#[command(after_help = AIRTIME_AFTER)]
pub struct AirtimeArgs {
    /// 802.11 generation: b, g, n, ac, ax
    #[arg(long, default_value = "n")]
    pub phy: String,
    /// textbook, paper-a, paper-b or ns3
    #[arg(long, value_name = "NAME", default_value = "ns3")]
    pub preset: String,
    /// udp (down, no ACKs), udpack (down), relay (station to station), up (no ACKs)
    #[arg(long, default_value = "udpack")]
    pub mode: String,
    /// Data packets per ACK, 0 for none by count [default: 2; 0 in a relay or with a period]
    #[arg(long, value_name = "N")]
    pub l: Option<u32>,
    /// An ACK per this time instead, 0 for none
    #[arg(long, value_name = "MS", default_value_t = 0.0)]
    pub period_ms: f64,
    /// Stations [default: 1, 2 for relay]
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true)]
    pub stations: u32,
    /// Largest A-MPDU of the access point, 0 for none [default: the preset's]
    #[arg(long, value_name = "BYTES")]
    pub ap_ampdu_bytes: Option<u32>,
    /// Largest A-MPDU of a station, 0 for none [default: the preset's]
    #[arg(long, value_name = "BYTES")]
    pub sta_ampdu_bytes: Option<u32>,
    /// PHY rate of stations in Mbit/s; the nearest there is [default: the preset's]
    #[arg(long, value_name = "MBPS")]
    pub uplink_rate: Option<f64>,
    /// UDP payload rate of each sender in Mbit/s; 0 is as much as goes
    #[arg(long, value_name = "MBPS", default_value_t = 0.0)]
    pub offered_mbps: f64,
    /// One-way delay between wired host and access point
    #[arg(long, value_name = "MS", default_value_t = 0.5)]
    pub wired_delay_ms: f64,
    /// Simulated seconds measured
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub seconds: f64,
    /// Seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// A BlockAckReq follows a lost BlockAck, as in ns-3's defaults
    #[arg(long)]
    pub explicit_bar: bool,
    /// RTS/CTS around frames above this [default: ns-3's 65535 with --explicit-bar, else none]
    #[arg(long, value_name = "BYTES")]
    pub rts_threshold: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl AirtimeArgs {
    /// What the user meant.
    pub fn resolve(&self) -> AirtimeSettings {
        AirtimeSettings {
            phy: self.phy.clone(),
            preset: self.preset.clone(),
            mode: self.mode.clone(),
            l: self.l,
            period_ms: self.period_ms,
            stations: self.stations,
            ap_ampdu_bytes: self.ap_ampdu_bytes,
            sta_ampdu_bytes: self.sta_ampdu_bytes,
            uplink_rate: self.uplink_rate,
            offered_mbps: Some(self.offered_mbps),
            wired_delay_ms: self.wired_delay_ms,
            seconds: self.seconds,
            seed: self.seed,
            explicit_bar: self.explicit_bar,
            rts_threshold: self.rts_threshold,
        }
    }
}

impl CompareArgs {
    /// What the user meant.
    pub fn resolve(&self) -> Result<Comparison, Failure> {
        for phy in &self.wifi {
            for preset in &self.presets {
                let wrong = |e| Failure::usage(format!("--wifi {phy} --presets {preset}: {e}"));
                Wifi::preset(phy, preset).checked_config(1).map_err(wrong)?;
            }
        }
        if self.rtt > Duration::from_secs(10) {
            return Err(Failure::usage(format!("--rtt {:?}: at most 10s can run", self.rtt)));
        }
        if !(1..=10_000).contains(&self.seeds) {
            return Err(Failure::usage(format!("--seeds {}: 1 to 10000 can run", self.seeds)));
        }
        let warmup = self.warmup.unwrap_or_else(|| (60.0 * self.rtt.as_secs_f64()).max(2.0));
        for (flag, value, least) in [("--seconds", self.seconds, 0.01), ("--warmup", warmup, 0.0)] {
            if !(least..=36_000.0).contains(&value) {
                let why = format!("{flag} {value}: from {least} to 36000 can run");
                return Err(Failure::usage(why));
            }
        }
        let strategies = match self.strategies.as_slice() {
            [] => Strategy::COMPARED.to_vec(),
            some => some.to_vec(),
        };
        let warmup = Duration::from_secs_f64(warmup);
        Ok(Comparison {
            phys: self.wifi.clone(),
            presets: self.presets.clone(),
            strategies,
            rtt: self.rtt,
            seeds: self.seeds,
            duration: warmup + Duration::from_secs_f64(self.seconds),
            warmup,
        })
    }
}

impl RunArgs {
    /// Where the JSON lines go.
    pub fn results(&self) -> PathBuf {
        let mut name = self.file.file_stem().unwrap_or("results".as_ref()).to_owned();
        name.push(".jsonl");
        match &self.out {
            None => name.into(),
            Some(path) if path.extension().is_some_and(|e| e == "jsonl") => path.clone(),
            Some(dir) => dir.join(name),
        }
    }
}

/// Refuses the first flag whose value is not between its least and its most.
fn within(limits: &[(&str, f64, f64, f64)]) -> Result<(), Failure> {
    match limits.iter().find(|(_, value, least, most)| !(*least..=*most).contains(value)) {
        None => Ok(()),
        Some((flag, value, least, most)) => {
            Err(Failure::usage(format!("{flag} {value}: from {least} to {most} can run")))
        }
    }
}

/// Reads `80ms`, `0.5s` or `250us`.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no time; write a number with us, ms or s, such as 80ms");
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &text[..text.len() - unit.len()];
    let factor = match unit.trim_start() {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(wrong()),
    };
    let value: f64 = number.parse().map_err(|_| wrong())?;
    if value * factor > 1e6 {
        return Err(format!("`{text}` is too long"));
    }
    Ok(Duration::from_secs_f64(value * factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_number_and_a_unit() {
        let us = Duration::from_micros;
        for (text, time) in
            [("80ms", us(80_000)), ("0.5s", us(500_000)), ("250 us", us(250)), ("0ms", us(0))]
        {
            assert_eq!(parse_time(text), Ok(time), "{text}");
        }
        for text in ["", "80", "ms", "-1ms", "1.2.3s", "1h", "nans", "1e9s", "9999999s", "µ"] {
            let wrong = parse_time(text).unwrap_err();
            assert!(wrong.contains("no time") || wrong.contains("too long"), "{wrong}");
        }
    }
}
