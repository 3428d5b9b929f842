//! `tack lab envelope`.

use std::path::PathBuf;

use clap::Args;
use tack_lab::envelope::{PROPERTIES, RANDOM, check, contest};
use tack_lab::experiment::Experiment;
use tack_lab::scenario::Strategy;

use super::{HowArgs, parse_shard, within};
use crate::exit::Failure;

const AFTER: &str = "\
Each draw is a path and its traffic, run under TACK and under TCP with an ACK per two segments, with
the same seed; a draw that breaks a property runs again with other seeds, and the mean is judged. A
flow that stands still on a living path is a breach, too. What is drawn, and how large runs are,
stands in the experiment's file.

With --adversarial, the worst draws found for each property are changed a little (the path, the levels
of its rate, where it is cut, the traffic), and the worse of them kept, for as many --draws.

With --strategies, any two are held against each other; one against itself, begun 1.3 ms later, shows
what chance alone breaks.

With --shrink, the worst draws of each property are made small, and printed as scenario files that run
both; --cases puts them into a directory.

With --out, draws are kept as JSON lines as they are done, and the same command goes on where it
stopped; with more --draws it goes on from there. Shards of one search are files of their own; read
them together by naming them with --merge.

Examples:
  tack lab envelope --draws 2000 --seed 42 --out envelope.jsonl
  tack lab envelope --draws 200 --only goodput --only acks
  tack lab envelope --draws 200 --strategies quic-tack,tcp-l2
  tack lab envelope --draws 200 --strategies tcp-l2,tcp-l2
  tack lab envelope --draws 2000 --adversarial --only stall --shrink 1
  tack lab envelope --seed 42 --print 17 > case.toml && tack lab run case.toml
  tack lab envelope --draws 500 --shrink 2 --cases cases/ && tack lab run cases/acks-17.toml
  tack lab envelope --draws 10000 --shard 3/16 --out shard3.jsonl
  tack lab envelope --draws 10000 --merge shard1.jsonl,shard2.jsonl --json";

/// Look for paths and traffic where TACK breaks a promise.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct EnvelopeArgs {
    /// The experiment, in TOML [default: experiments/envelope/random.toml, built in]
    #[arg(value_name = "FILE.toml")]
    pub file: Option<PathBuf>,
    /// Hold this strategy against that one in place of the file's, e.g. quic-tack,tcp-l2
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub strategies: Vec<Strategy>,
    /// How many draws
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub draws: u64,
    /// Seed of all draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Look at this property alone; may be given several times
    #[arg(long, value_name = "PROPERTY")]
    pub only: Vec<String>,
    /// Change the worst draws for worse ones, instead of drawing all at random
    #[arg(long, conflicts_with_all = ["shard", "merge"])]
    pub adversarial: bool,
    /// Make the worst N draws of each property small
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub shrink: usize,
    /// Run nothing; print draw number N as a scenario file
    #[arg(long, value_name = "N", conflicts_with_all = ["shard", "merge", "out", "adversarial"])]
    pub print: Option<u64>,
    /// Write what is left of them to this directory, as PROPERTY-DRAW.toml
    #[arg(long, value_name = "DIR")]
    pub cases: Option<PathBuf>,
    /// Packets that the bottleneck may carry in a run [default: the file's]
    #[arg(long, value_name = "N")]
    pub packets: Option<f64>,
    /// Part I of N of the draws, counted from 1
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    pub shard: Option<(usize, usize)>,
    /// Keep every draw in this file of JSON lines, and go on with what it holds
    #[arg(short, long, value_name = "FILE.jsonl")]
    pub out: Option<PathBuf>,
    /// Forget what the file holds
    #[arg(long)]
    pub no_resume: bool,
    /// Run nothing; show what these files hold
    #[arg(long, value_name = "FILE.jsonl,…", value_delimiter = ',', conflicts_with = "out")]
    pub merge: Vec<PathBuf>,
    /// Write what is printed, but for the worst draws, beside the experiment's file under this directory,
    /// and RESULTS.md from it
    #[arg(long, value_name = "DIR", conflicts_with_all = ["only", "adversarial", "packets", "shard", "strategies"])]
    pub bless: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// How it runs.
    #[command(flatten)]
    pub how: HowArgs,
}

impl EnvelopeArgs {
    /// The experiment, and the properties that are looked at.
    pub fn resolve(&self) -> Result<(Experiment, Vec<&'static str>), Failure> {
        let text = match &self.file {
            None => RANDOM.to_owned(),
            Some(path) => std::fs::read_to_string(path)
                .map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?,
        };
        let name = self.file.as_deref().map_or("experiment".into(), |p| p.display().to_string());
        let wrong = |e| Failure::usage(format!("{name}, {e}"));
        let mut experiment = Experiment::parse(&text).map_err(wrong)?;
        check(&experiment, &text).map_err(wrong)?;
        match self.strategies.as_slice() {
            [] => {}
            [tested, against] => contest(&mut experiment, [*tested, *against]),
            _ => {
                return Err(Failure::usage(
                    "--strategies takes two names, such as quic-tack,tcp-l2",
                ));
            }
        }
        if let Some(packets) = self.packets {
            within(&[("--packets", packets, 1e3, 1e9)])?;
            experiment.limits.packets = packets;
        }
        within(&[("--draws", self.draws as f64, 1.0, 1e7)])?;
        let wanted: Vec<&str> = match self.only.as_slice() {
            [] => experiment.property.iter().map(|p| p.name.as_str()).collect(),
            some => some.iter().map(String::as_str).collect(),
        };
        let known = |name: &&str| {
            let all: Vec<&str> = PROPERTIES.iter().map(|p| p.name).collect();
            all.iter().copied().find(|p| p == name).ok_or_else(|| {
                Failure::usage(format!("`{name}` is no property: {}", all.join(", ")))
            })
        };
        let names = wanted.iter().map(known).collect::<Result<_, _>>()?;
        Ok((experiment, names))
    }

    /// Numbers of the draws that are to be run here.
    pub fn indices(&self) -> Vec<u64> {
        let (part, parts) = self.shard.unwrap_or((1, 1));
        (0..self.draws).skip(part - 1).step_by(parts).collect()
    }
}
