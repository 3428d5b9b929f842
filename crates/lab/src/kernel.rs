//! Our TCP against the kernel's: same path, same controller, real packets.
//!
//! ```text
//! cell = controller x rate x RTT x loss; each with every seed, once per stack
//!
//! kernel: socket ── TUN ── path in real time ── TUN ── socket
//! ours:   host ── TUN ── kernel forwards ── TUN ── path ── TUN ── kernel forwards ── TUN ── host
//! ```
//!
//! Both meet the same path with the same draws: the n-th packet that crosses the bottleneck is lost
//! in both runs or in neither. What is counted is counted on the path, before anything of it is
//! lost, so that no endpoint is asked about itself. The buffer is one bandwidth-delay product,
//! drop-tail; acknowledgments are not lost.
//!
//! Ours is set as the kernel is: an acknowledgment per two segments, window-based controllers
//! clocked by acknowledgments alone. The kernel keeps no metrics, sends segments one by one, does
//! not compress acknowledgments and has receive buffers of sixteen bandwidth-delay products;
//! everything else is its default. Goodput counts the whole run, acknowledgments what comes after
//! its first third.
//!
//! Cells of heavy loss ([`KernelPlan::heavy`]) are compared by distribution: BBRv1 has two modes
//! there, whoever wrote it. Losses among its first dozen packets can hold three rounds in a row
//! below a quarter of growth, and Startup ends at a hundredth of the rate ([`report`]).

mod cell;
mod ours;
mod report;
mod run;
mod runner;
mod store;
mod table;
mod theirs;

pub use cell::{Cell, Controller};
pub use report::{CellRow, Distribution, Report, Voided, report};
pub use run::{Figures, KernelRow, KernelRun, Stack, run};
pub use runner::{Runner, Sink};
pub use store::KernelStore;
pub use table::table;
pub(crate) use theirs::{as_ours, no_such};

/// Cells by their axes.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Controllers.
    pub cc: Vec<Controller>,
    /// Rates, Mbit/s.
    pub mbps: Vec<u32>,
    /// Round trips, ms.
    pub rtt_ms: Vec<u32>,
    /// Losses, percent.
    pub loss_percent: Vec<f64>,
}

impl Grid {
    /// Of [`KernelPlan::full`].
    pub fn full() -> Grid {
        Grid {
            cc: Controller::ALL.to_vec(),
            mbps: vec![10, 100],
            rtt_ms: vec![20, 80],
            loss_percent: vec![0.0, 0.1, 1.0],
        }
    }

    /// Of [`KernelPlan::heavy`].
    pub fn heavy() -> Grid {
        Grid { rtt_ms: vec![200, 400], loss_percent: vec![3.0, 5.0, 10.0], ..Grid::full() }
    }

    /// Of [`KernelPlan::quick`].
    pub fn quick() -> Grid {
        Grid { mbps: vec![10], rtt_ms: vec![20], ..Grid::full() }
    }

    /// Every combination.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &mbps in &self.mbps {
            for &rtt_ms in &self.rtt_ms {
                for &loss_percent in &self.loss_percent {
                    let of = |&cc| Cell { cc, mbps, rtt_ms, loss_percent };
                    cells.extend(self.cc.iter().map(of));
                }
            }
        }
        cells
    }
}

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelPlan {
    /// The cells.
    pub cells: Vec<Cell>,
    /// Seeds from 1 to this.
    pub seeds: u64,
    /// Length of a run without loss, seconds. Runs with loss are `lossy_factor` times as long.
    pub seconds: f64,
    /// See `seconds`.
    pub lossy_factor: f64,
}

impl KernelPlan {
    /// All of issue 4's measure: reno, cubic and bbr at 10 and 100 Mbit/s, 20 and 80 ms, without
    /// loss, with 0.1 % and with 1 %.
    pub fn full() -> KernelPlan {
        KernelPlan { cells: Grid::full().cells(), seeds: 3, seconds: 20.0, lossy_factor: 1.5 }
    }

    /// Where losses are heavy: the same at 200 and 400 ms, with 3, 5 and 10 %. One seed may end
    /// elsewhere than the next, so there are as many as make a distribution.
    pub fn heavy() -> KernelPlan {
        KernelPlan { cells: Grid::heavy().cells(), seeds: 7, seconds: 20.0, lossy_factor: 1.5 }
    }

    /// Cells at 10 Mbit/s and 20 ms for a few seconds each: does it work at all?
    pub fn quick() -> KernelPlan {
        KernelPlan { cells: Grid::quick().cells(), seeds: 1, seconds: 4.0, lossy_factor: 1.0 }
    }

    /// Every run, kernel and ours of one seed next to each other.
    pub fn runs(&self) -> Vec<KernelRun> {
        let mut runs = Vec::new();
        for cell in &self.cells {
            let factor = if cell.loss_percent > 0.0 { self.lossy_factor } else { 1.0 };
            let seconds = self.seconds * factor;
            for seed in 1..=self.seeds {
                for stack in [Stack::Kernel, Stack::Ours] {
                    runs.push(KernelRun { cell: *cell, seed, stack, seconds });
                }
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests;
