//! `tack lab kernel`.

use std::path::PathBuf;

use clap::Args;
use tack_lab::kernel::{Controller, KernelPlan, Runner};

use crate::exit::Failure;

const AFTER: &str = "\
Every cell runs in real time, in network namespaces: the kernel's TCP to itself, and ours (plain,
an ACK per two segments) to itself, over the same path with the same losses and a buffer of one
bandwidth-delay product. Ratios are ours over the kernel's, seed by seed; a star marks cells where
goodput or the number of ACKs differs by more than 5 %. Leave the machine alone meanwhile: runs
that were disturbed are repeated twice, then left out. Needs root, or: unshare -Urn tack lab kernel

Examples:
  tack lab kernel --quick                     does it work here at all?
  tack lab kernel --out kernel.jsonl          the table; the same command goes on after a break
  tack lab kernel --cc cubic --mbps 100 --rtt 20 --loss 0,0.1 --seconds 60";

/// Compare our TCP with the kernel's over the same emulated path.
#[derive(Clone, Debug, Args)]
#[command(after_help = AFTER)]
pub struct KernelArgs {
    /// Only 10 Mbit/s and 20 ms, one seed, 4 s each
    #[arg(long)]
    pub quick: bool,
    /// Some of reno, cubic, bbr [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    pub cc: Vec<Controller>,
    /// Some of the rates 10 and 100, Mbit/s [default: both]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub mbps: Vec<u32>,
    /// Some of the round trips 20 and 80, ms [default: both]
    #[arg(long, value_name = "MS,…", value_delimiter = ',')]
    pub rtt: Vec<u32>,
    /// Some of the losses 0, 0.1 and 1, percent [default: all]
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',')]
    pub loss: Vec<f64>,
    /// Runs of each cell and stack, with seeds from 1 on [default: 3]
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
    /// No cell is left, or a run would be too short or too long.
    pub fn plan(&self) -> Result<KernelPlan, Failure> {
        let mut plan = if self.quick { KernelPlan::quick() } else { KernelPlan::full() };
        plan.cells.retain(|cell| {
            among(&self.cc, &cell.cc)
                && among(&self.mbps, &cell.mbps)
                && among(&self.rtt, &cell.rtt_ms)
                && among(&self.loss, &cell.loss_percent)
        });
        if plan.cells.is_empty() {
            let what = "no cell is left: rates are 10 and 100, round trips 20 and 80, losses 0, 0.1 \
                        and 1";
            return Err(Failure::usage(what));
        }
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

/// Whether it was asked for; nothing asked for is everything.
fn among<T: PartialEq>(wanted: &[T], value: &T) -> bool {
    wanted.is_empty() || wanted.contains(value)
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
    fn filters_pick_cells_and_nothing_else_changes() {
        assert_eq!(plan(""), Ok(KernelPlan::full()));
        assert_eq!(plan("--quick"), Ok(KernelPlan::quick()));
        let some = plan("--cc cubic,bbr --mbps 100 --rtt 20 --loss 0,0.1 --seconds 60").unwrap();
        assert_eq!((some.cells.len(), some.seconds, some.seeds), (4, 60.0, 3));
        assert!(some.cells.iter().all(|c| c.mbps == 100 && c.rtt_ms == 20));
    }

    #[test]
    fn what_cannot_run_is_said() {
        for (line, word) in [
            ("--cc vegas", "cubic"),
            ("--mbps 50", "100"),
            ("--seconds 0.1", "from 1"),
            ("--seeds 0", "from 1"),
            ("--show", "--out"),
        ] {
            let message = plan(line).unwrap_err();
            assert!(message.contains(word), "{line}: {message}");
        }
    }
}
