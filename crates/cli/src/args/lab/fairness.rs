//! `tack lab fairness`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tack_cc::Algorithm;
use tack_lab::dumbbell::Queue;
use tack_lab::fairness::{Fairness, Paced};
use tack_lab::scenario::Strategy;

use super::{HowArgs, parse_time};
use crate::exit::Failure;

const AFTER: &str = "\
The dumbbell of Landström & Larzon: half the flows acknowledge every segment, half do as told; four
flows with a window of 20 segments run against them. All have the same controller and 1000-byte
segments. 1.00 is the fair share. Strategies from ns-2 (DAL2, AnLn, xW) are at home where nobody is
paced; QUIC's, SRT's and TACK where everybody is.

Examples:
  tack lab fairness
  tack lab fairness --rates 8,15 --queues drop-tail,red --flows 4,16,64 --paced nobody
  tack lab fairness --strategies tcp-l2,tack --why                     where a share comes from
  tack lab fairness --strategies ae --paced others                     what spreading alone costs
  tack lab fairness --strategies tack --cc newreno --other-cc bbr      another question";

/// Set each acknowledgment strategy against as many flows that acknowledge every segment.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct FairnessArgs {
    /// Rates of the bottleneck, Mbit/s
    #[arg(long, value_name = "MBPS,…", value_delimiter = ',', default_value = "15")]
    pub rates: Vec<f64>,
    /// Of every host's own link, Mbit/s
    #[arg(long, value_name = "MBPS", default_value_t = 10.0)]
    pub access: f64,
    /// Some of drop-tail, drop-tail:BDPS, red, codel
    #[arg(long, value_name = "QUEUE,…", value_delimiter = ',', default_value = "drop-tail,red")]
    pub queues: Vec<Queue>,
    /// Numbers of flows, even
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "2,4,8,16,32,64")]
    pub flows: Vec<u32>,
    /// Which strategies [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub strategies: Vec<Strategy>,
    /// Congestion controller
    #[arg(long, value_name = "NAME", default_value = "newreno")]
    pub cc: Algorithm,
    /// Another one for the half with the strategy [default: the same]
    #[arg(long, value_name = "NAME")]
    pub other_cc: Option<Algorithm>,
    /// Whose window-based controllers are paced, one after the other: nobody, everybody, or the
    /// others than every-segment
    #[arg(long, value_name = "WHO,…", value_delimiter = ',', default_value = "nobody,everybody")]
    pub paced: Vec<Paced>,
    /// Take each share apart: round trips, window reductions, and what neither explains
    #[arg(long)]
    pub why: bool,
    /// Round trip of the empty path
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = parse_time)]
    pub rtt: Duration,
    /// Longest time a host takes over a packet, each its own
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = parse_time)]
    pub processing: Duration,
    /// Runs of each, with seeds from 1 on
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub seeds: u64,
    /// Simulated seconds measured in each run
    #[arg(long, value_name = "S", default_value_t = 80.0)]
    pub seconds: f64,
    /// Simulated seconds before that, left out
    #[arg(long, value_name = "S", default_value_t = 20.0)]
    pub warmup: f64,
    /// Write fairness.svg, fairness.json and fairness.txt into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// How it runs.
    #[command(flatten)]
    pub how: HowArgs,
}

impl FairnessArgs {
    /// What the user meant.
    pub fn resolve(&self) -> Result<Fairness, Failure> {
        for rate in &self.rates {
            super::within(&[("--rates", *rate, 0.1, 10_000.0)])?;
        }
        super::within(&[
            ("--access", self.access, 0.1, 100_000.0),
            ("--rtt in seconds", self.rtt.as_secs_f64(), 0.001, 10.0),
            ("--seeds", self.seeds as f64, 1.0, 10_000.0),
            ("--seconds", self.seconds, 0.1, 36_000.0),
            ("--warmup", self.warmup, 0.0, 36_000.0),
        ])?;
        if let Some(n) = self.flows.iter().find(|n| *n % 2 == 1 || !(2..=500).contains(*n)) {
            return Err(Failure::usage(format!("--flows {n}: even numbers from 2 to 500 can run")));
        }
        if self.strategies.contains(&Strategy::Udp) {
            return Err(Failure::usage("--strategies udp: it has no acknowledgments"));
        }
        let strategies = match self.strategies.as_slice() {
            [] => Strategy::contenders(),
            some => some.to_vec(),
        };
        Ok(Fairness {
            rates_mbps: self.rates.clone(),
            access_mbps: self.access,
            queues: self.queues.clone(),
            flows: self.flows.clone(),
            strategies,
            cc: self.cc,
            other_cc: self.other_cc.unwrap_or(self.cc),
            paced: self.paced.clone(),
            rtt: self.rtt,
            processing: self.processing,
            seeds: self.seeds,
            duration_s: self.warmup + self.seconds,
            warmup_s: self.warmup,
        })
    }
}
