//! `tack lab`.

mod airtime;
mod compare;
#[cfg(target_os = "linux")]
mod emulate;
mod envelope;
mod experiment;
#[cfg(target_os = "linux")]
mod versus;

use std::time::Duration;

use clap::{Args, Subcommand};

pub use self::airtime::AirtimeArgs;
pub use self::compare::CompareArgs;
#[cfg(target_os = "linux")]
pub use self::emulate::EmulateArgs;
pub use self::envelope::EnvelopeArgs;
pub use self::experiment::{FigureArgs, FigureFile, ReproduceArgs, RunArgs, StoreArgs, files};
#[cfg(target_os = "linux")]
pub use self::versus::VersusArgs;
use crate::exit::Failure;

const AFTER: &str = "\
Examples:
  tack lab compare --wifi n --rtt 80ms        every ACK strategy on the same air
  tack lab run scenarios/satellite.toml       a scenario or an experiment of your own
  tack lab airtime --phy ac --mode udpack --l 2
  tack lab acks --set wan.rate_mbps=100       every ACK strategy on the same wire
  tack lab envelope --draws 200               where TACK breaks a promise, path by path
  tack lab reproduce T-6b custura             the papers' figures beside ours
  tack lab fairness --set flow.1.strategy=tack   against as many that acknowledge every segment
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
    /// Run a scenario or an experiment file, with all its sweeps, variants and seeds
    Run(RunArgs),
    /// Run open-loop traffic on any setting of the 802.11 model
    Airtime(Box<AirtimeArgs>),
    /// Put every ACK strategy on the same path, its formula beside its count
    Acks(FigureArgs),
    /// Set each ACK strategy against as many flows that acknowledge every segment
    Fairness(FigureArgs),
    /// Look for paths and traffic, at random, where TACK breaks a promise
    Envelope(Box<EnvelopeArgs>),
    /// Run the papers' figures, put theirs beside ours, and judge
    Reproduce(ReproduceArgs),
    /// Put the congestion controllers side by side, against theory and each other
    Controllers(FigureArgs),
    /// Run programs in two network namespaces with a modelled path between them, in real time
    #[cfg(target_os = "linux")]
    Emulate(Box<EmulateArgs>),
    /// Compare our TCP with the kernel's over the same emulated path
    #[cfg(target_os = "linux")]
    Kernel(FigureArgs),
    /// Put TACK and the programs of today side by side, in real time on the same path
    #[cfg(target_os = "linux")]
    Versus(VersusArgs),
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

/// Refuses the first flag whose value is not between its least and its most.
fn within(limits: &[(&str, f64, f64, f64)]) -> Result<(), Failure> {
    match limits.iter().find(|(_, value, least, most)| !(*least..=*most).contains(value)) {
        None => Ok(()),
        Some((flag, value, least, most)) => {
            Err(Failure::usage(format!("{flag} {value:?}: from {least} to {most} can run")))
        }
    }
}

/// Reads `2/4`.
fn parse_shard(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((i, n)) if 1 <= i && i <= n && n <= 100_000 => Ok((i, n)),
        _ => Err(format!("`{text}` is no part: write I/N, I from 1 to N, such as 2/4")),
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
