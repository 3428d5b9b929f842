//! `tack lab fairness`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tack_cc::Algorithm;
use tack_lab::dumbbell::Queue;
#[cfg(target_os = "linux")]
use tack_lab::fairness::live::LivePlan;
use tack_lab::fairness::{Fairness, Paced};
#[cfg(target_os = "linux")]
use tack_lab::kernel::{Controller, Stack};
use tack_lab::scenario::Strategy;

use super::{HowArgs, parse_time};
use crate::exit::Failure;

const AFTER: &str = "\
The dumbbell of Landström & Larzon: half the flows acknowledge every segment, half do as told; four
flows with a window of 20 segments run against them. All have the same controller and 1000-byte
segments. 1.00 is the fair share. Strategies from ns-2 (DAL2, AnLn, xW) are at home where nobody is
paced; QUIC's, SRT's and TACK where everybody is.

With --live the flows run in real time over an emulated path, in network namespaces: those of the
kernel's TCP, whose other half delays acknowledgments as Linux does, and those of ours, unpaced, with
tcp-l2 unless told otherwise. There are no access links then; the simulator's share, which has them,
stands beside. Runs that a busy machine disturbed are named and left out: 64 flows take a fifth of a
core. Needs root, or: unshare -Urn tack lab fairness --live

Examples:
  tack lab fairness
  tack lab fairness --rates 8,15 --queues drop-tail,red --flows 4,16,64 --paced nobody
  tack lab fairness --strategies tcp-l2,tack --why                     where a share comes from
  tack lab fairness --strategies ae --paced others                     what spreading alone costs
  tack lab fairness --strategies tack --cc newreno --other-cc bbr      another question
  tack lab fairness --live --flows 16 --seeds 4 -j 4                   the kernel's TCP, and ours";

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
    #[arg(
        long,
        value_name = "QUEUE,…",
        value_delimiter = ',',
        default_value = "drop-tail,red",
        default_value_if("live", "true", "drop-tail")
    )]
    pub queues: Vec<Queue>,
    /// Numbers of flows, even
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_value = "2,4,8,16,32,64",
        default_value_if("live", "true", "4,16,64")
    )]
    pub flows: Vec<u32>,
    /// Which strategies [default: all; with --live tcp-l2, of ours alone]
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
    /// Seconds measured in each run
    #[arg(long, value_name = "S", default_value_t = 80.0)]
    pub seconds: f64,
    /// Seconds before that, left out
    #[arg(long, value_name = "S", default_value_t = 20.0)]
    pub warmup: f64,
    /// In real time: the kernel's TCP, and ours
    #[cfg(target_os = "linux")]
    #[arg(long, conflicts_with_all = ["other_cc", "paced", "processing", "why"])]
    pub live: bool,
    /// Whose TCP runs live: some of kernel, ours [default: both]
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "STACK,…", value_delimiter = ',', requires = "live")]
    pub stacks: Vec<Stack>,
    /// Capture each live run's packets into this directory
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "DIR", requires = "live")]
    pub pcap: Option<PathBuf>,
    /// Write fairness.svg, fairness.json and fairness.txt into this directory; with --live,
    /// fairness-live.json and fairness-live.txt
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

    /// Live runs at a time.
    #[cfg(target_os = "linux")]
    pub fn jobs(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        if self.how.jobs == 0 { cores() } else { self.how.jobs }
    }

    /// What the user meant with `--live`.
    #[cfg(target_os = "linux")]
    pub fn resolve_live(&self) -> Result<LivePlan, Failure> {
        let simulated = self.resolve()?;
        let of_ours = |s: &Strategy| match s {
            Strategy::Tcp(ack) => Some(*ack),
            Strategy::Udp => None,
        };
        let usual = LivePlan::default();
        let stacks = if self.stacks.is_empty() { usual.stacks } else { self.stacks.clone() };
        if !stacks.contains(&Stack::Ours) && !self.strategies.is_empty() {
            let what = "--strategies: the kernel has one, its delayed acknowledgment; add ours to \
                        --stacks";
            return Err(Failure::usage(what));
        }
        let cc = match self.cc {
            Algorithm::NewReno => Controller::Reno,
            Algorithm::CubicLinux => Controller::Cubic,
            Algorithm::Bbr => Controller::Bbr,
            other => {
                let other = other.name();
                let what = format!("--cc {other}: live can run newreno, cubic-linux and bbr");
                return Err(Failure::usage(what));
            }
        };
        Ok(LivePlan {
            stacks,
            rates_mbps: simulated.rates_mbps,
            queues: simulated.queues,
            flows: simulated.flows,
            strategies: match self.strategies.as_slice() {
                [] => usual.strategies,
                some => some.iter().filter_map(of_ours).collect(),
            },
            cc,
            rtt: simulated.rtt,
            seeds: simulated.seeds,
            duration_s: simulated.duration_s,
            warmup_s: simulated.warmup_s,
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        args: FairnessArgs,
    }

    fn parse(line: &str) -> Result<FairnessArgs, String> {
        let words = std::iter::once("fairness").chain(line.split_whitespace());
        Ok(Only::try_parse_from(words).map_err(|e| e.to_string())?.args)
    }

    fn plan(line: &str) -> Result<LivePlan, String> {
        parse(line)?.resolve_live().map_err(|failure| failure.message)
    }

    #[test]
    fn live_flags_are_the_simulators_and_defaults_are_what_real_time_bears() {
        let live = plan("--live").unwrap();
        assert_eq!((live.flows.as_slice(), live.queues.len()), (&[4, 16, 64][..], 1));
        assert_eq!((live.stacks.len(), live.strategies.len()), (2, 1));
        assert_eq!((live.duration_s, live.warmup_s), (100.0, 20.0));
        let all = parse("").unwrap().resolve().map_err(|f| f.message).unwrap();
        assert_eq!((all.flows.len(), all.queues.len(), all.paced.len()), (6, 2, 2));
        let some =
            "--live --flows 8 --queues red,codel --strategies tack,tcp-l2 --rates 8 --rtt 80ms";
        let some = plan(some).unwrap();
        assert_eq!((some.flows.as_slice(), some.queues.len()), (&[8][..], 2));
        assert_eq!((some.strategies.len(), some.rtt), (2, Duration::from_millis(80)));
        assert_eq!(plan("--live --cc cubic-linux").unwrap().cc, Controller::Cubic);
    }

    #[test]
    fn what_makes_no_sense_live_is_said() {
        for (line, word) in [
            ("--live --why", "--why"),
            ("--live --paced nobody", "--paced"),
            ("--live --processing 1ms", "--processing"),
            ("--live --other-cc bbr", "--other-cc"),
            ("--live --cc vegas", "vegas"),
            ("--live --stacks theirs", "kernel"),
            ("--live --stacks kernel --strategies tack", "--strategies"),
            ("--live --strategies udp", "udp"),
            ("--stacks ours", "--live"),
            ("--pcap there", "--live"),
        ] {
            let message = plan(line).map(|_| ()).unwrap_err();
            assert!(message.contains(word), "{line}: {message}");
        }
    }
}
