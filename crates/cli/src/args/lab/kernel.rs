//! `tack lab kernel`.

use std::path::PathBuf;

use clap::Args;
use tack_lab::kernel::{Controller, Grid, KernelPlan, Runner};

use crate::exit::Failure;

const AFTER: &str = "\
Every cell runs in real time, in network namespaces: the kernel's TCP to itself, and ours (plain,
an ACK per two segments) to itself, over the same path with the same losses and a buffer of one
bandwidth-delay product. Ratios are ours over the kernel's, seed by seed; a star marks cells where
goodput or the number of ACKs differs by more than 5 %. Where the ratios scatter by more than 10 %,
distributions are compared instead, and a star marks what one distribution gives in less than 5 of
100 tables. Leave the machine alone meanwhile: runs that were disturbed are repeated twice, then
left out, and named. Needs root, or: unshare -Urn tack lab kernel

Examples:
  tack lab kernel --quick                     does it work here at all?
  tack lab kernel --out kernel.jsonl          the table; the same command goes on after a break
  tack lab kernel --heavy --out heavy.jsonl   3, 5 and 10 % loss over 200 and 400 ms: four hours
  tack lab kernel --cc cubic --mbps 100 --rtt 20 --loss 0,0.1 --seconds 60";

/// Compare our TCP with the kernel's over the same emulated path.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct KernelArgs {
    /// Only 10 Mbit/s and 20 ms, one seed, 4 s each
    #[arg(long)]
    pub quick: bool,
    /// Instead of mild losses, 3, 5 and 10 % over 200 and 400 ms, seven seeds
    #[arg(long, conflicts_with = "quick")]
    pub heavy: bool,
    /// Some of reno, cubic, bbr [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub cc: Vec<Controller>,
    /// Rates, 1 to 1000 Mbit/s [default: 10,100]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub mbps: Vec<u32>,
    /// Round trips, 1 to 1000 ms [default: 20,80; with --heavy 200,400]
    #[arg(long, value_name = "MS,…", value_delimiter = ',')]
    pub rtt: Vec<u32>,
    /// Losses, 0 to 50 percent [default: 0,0.1,1; with --heavy 3,5,10]
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',')]
    pub loss: Vec<f64>,
    /// Runs of each cell and stack, with seeds from 1 on [default: 3; with --heavy 7]
    #[arg(long, value_name = "N")]
    pub seeds: Option<u64>,
    /// Length of a run; half as long again with loss [default: 20]
    #[arg(long, value_name = "S")]
    pub seconds: Option<f64>,
    /// Runs of 10 Mbit/s at a time; of 100, a quarter of that
    #[arg(short, long, value_name = "N", default_value_t = 4)]
    pub jobs: usize,
    /// Keep runs in this file of JSON lines, and go on with those it lacks
    #[arg(short, long, value_name = "FILE.jsonl")]
    pub out: Option<PathBuf>,
    /// Delete earlier runs in that file and start afresh
    #[arg(long, requires = "out")]
    pub no_resume: bool,
    /// Only print the table of what the file has
    #[arg(long, requires = "out")]
    pub show: bool,
    /// Capture each run's packets into this directory
    #[arg(long, value_name = "DIR")]
    pub pcap: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

impl KernelArgs {
    /// What the user meant.
    ///
    /// # Errors
    /// There is no such path, or a run would be too short or too long.
    pub fn plan(&self) -> Result<KernelPlan, Failure> {
        let (mut plan, grid) = match (self.quick, self.heavy) {
            (true, _) => (KernelPlan::quick(), Grid::quick()),
            (_, true) => (KernelPlan::heavy(), Grid::heavy()),
            _ => (KernelPlan::full(), Grid::full()),
        };
        if self.mbps.iter().chain(&self.rtt).any(|v| !(1..=1_000).contains(v)) {
            return Err(Failure::usage("rates and round trips go from 1 to 1000"));
        }
        if self.loss.iter().any(|v| !(0.0..=50.0).contains(v)) {
            return Err(Failure::usage("losses go from 0 to 50 percent"));
        }
        let grid = Grid {
            cc: named(&self.cc, grid.cc),
            mbps: named(&self.mbps, grid.mbps),
            rtt_ms: named(&self.rtt, grid.rtt_ms),
            loss_percent: named(&self.loss, grid.loss_percent),
        };
        plan.cells = grid.cells();
        plan.seeds = self.seeds.unwrap_or(plan.seeds);
        plan.seconds = self.seconds.unwrap_or(plan.seconds);
        if !(1.0..=1_000.0).contains(&plan.seconds) || !(1..=1_000).contains(&plan.seeds) {
            return Err(Failure::usage("from 1 to 1000 seconds and seeds can run"));
        }
        Ok(plan)
    }

    /// How runs are made.
    pub fn runner(&self) -> Runner {
        Runner { jobs: self.jobs, captures: self.pcap.clone(), ..Runner::default() }
    }
}

/// What was asked for, once each; nothing asked for is `usual`.
fn named<T: Copy + PartialEq>(wanted: &[T], usual: Vec<T>) -> Vec<T> {
    let mut some: Vec<T> = Vec::new();
    for value in wanted {
        if !some.contains(value) {
            some.push(*value);
        }
    }
    if some.is_empty() { usual } else { some }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: KernelArgs,
    }

    fn plan(line: &str) -> Result<KernelPlan, String> {
        let words = std::iter::once("kernel").chain(line.split_whitespace());
        let only = Only::try_parse_from(words).map_err(|e| e.to_string())?;
        only.args.plan().map_err(|failure| failure.message)
    }

    #[test]
    fn flags_name_cells_and_nothing_else_changes() {
        assert_eq!(plan(""), Ok(KernelPlan::full()));
        assert_eq!(plan("--heavy"), Ok(KernelPlan::heavy()));
        let heavy = plan("--heavy --cc bbr --mbps 100 --rtt 200,200 --loss 5").unwrap();
        assert_eq!((heavy.cells.len(), heavy.seeds), (1, 7));
        assert_eq!(plan("--quick"), Ok(KernelPlan::quick()));
        let some = plan("--cc cubic,bbr --mbps 100 --rtt 20 --loss 0,0.1 --seconds 60").unwrap();
        assert_eq!((some.cells.len(), some.seconds, some.seeds), (4, 60.0, 3));
        assert!(some.cells.iter().all(|c| c.mbps == 100 && c.rtt_ms == 20));
    }

    #[test]
    fn what_cannot_run_is_said() {
        for (line, word) in [
            ("--cc vegas", "cubic"),
            ("--mbps 0", "from 1"),
            ("--rtt 1001", "to 1000"),
            ("--loss 51", "50"),
            ("--loss nan", "50"),
            ("--quick --heavy", "cannot be used"),
            ("--seconds 0.1", "from 1"),
            ("--seeds 0", "from 1"),
            ("--show", "--out"),
        ] {
            let message = plan(line).unwrap_err();
            assert!(message.contains(word), "{line}: {message}");
        }
    }
}
