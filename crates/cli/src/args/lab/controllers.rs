//! `tack lab controllers`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tack_cc::Algorithm;
use tack_lab::controllers::{Settings, USUAL};

use super::{HowArgs, parse_time};
use crate::exit::Failure;

const AFTER: &str = "\
Plain TCP with delayed ACKs throughout. `ratio` is a mean window over what theory says of it: the
formula published for periodic losses, the renewal argument for the losses at hand (ideal), and the
same with TCP's reaction a round trip after the loss (expected).

Examples:
  tack lab controllers
  tack lab controllers --cc newreno,cubic --mbps 100 --rtt 20ms --out plots/
  tack lab controllers --cc copa,vivace,cubic --no-response
  tack lab controllers --unpaced --json";

/// Put the congestion controllers side by side.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct ControllersArgs {
    /// Which controllers; the usual ones where none is named.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    #[arg(help = which())]
    pub cc: Vec<Algorithm>,
    /// Rate of the bottleneck, Mbit/s
    #[arg(long, value_name = "N", default_value_t = 20.0)]
    pub mbps: f64,
    /// Round trip of the empty path
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = parse_time)]
    pub rtt: Duration,
    /// Simulated seconds measured in each run
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    pub seconds: f64,
    /// Simulated seconds before that, left out of every figure
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub warmup: f64,
    /// Let ACKs alone clock window-based controllers, as Linux does without fq
    #[arg(long)]
    pub unpaced: bool,
    /// Leave out the response functions, which take most of the time
    #[arg(long)]
    pub no_response: bool,
    /// Seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Draw windows and rates over time to SVG files in this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// How it runs.
    #[command(flatten)]
    pub how: HowArgs,
}

fn which() -> String {
    let usual: Vec<_> = USUAL.iter().map(|a| a.name()).collect();
    format!("Which controllers [default: {}]: {}", usual.join(","), Algorithm::names())
}

impl ControllersArgs {
    /// What the user meant.
    pub fn resolve(&self) -> Result<Settings, Failure> {
        let limits = [
            ("--mbps", self.mbps, 0.1, 10_000.0),
            ("--seconds", self.seconds, 1.0, 3_600.0),
            ("--warmup", self.warmup, 0.0, 3_600.0),
            ("--rtt in seconds", self.rtt.as_secs_f64(), 1e-4, 10.0),
        ];
        for (flag, value, least, most) in limits {
            if !(least..=most).contains(&value) {
                let why = format!("{flag} {value}: from {least} to {most} can run");
                return Err(Failure::usage(why));
            }
        }
        let algorithms = if self.cc.is_empty() { USUAL.to_vec() } else { self.cc.clone() };
        Ok(Settings {
            mbps: self.mbps,
            rtt: self.rtt,
            seconds: self.seconds,
            warmup: self.warmup,
            algorithms,
            paced: !self.unpaced,
            response: !self.no_response,
            seed: self.seed,
        })
    }
}
