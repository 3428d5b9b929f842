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

mod cell;
mod ours;
mod run;
mod runner;
mod store;
mod table;
mod theirs;

pub use cell::{Cell, Controller};
pub use run::{Figures, KernelRow, KernelRun, Stack, run};
pub use runner::{Runner, Sink};
pub use store::KernelStore;
pub use table::{CellRow, cells, table};
pub(crate) use theirs::{as_ours, no_such};

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
        let mut cells = Vec::new();
        for mbps in [10, 100] {
            for rtt_ms in [20, 80] {
                for loss_percent in [0.0, 0.1, 1.0] {
                    for cc in Controller::ALL {
                        cells.push(Cell { cc, mbps, rtt_ms, loss_percent });
                    }
                }
            }
        }
        KernelPlan { cells, seeds: 3, seconds: 20.0, lossy_factor: 1.5 }
    }

    /// Cells at 10 Mbit/s and 20 ms for a few seconds each: does it work at all?
    pub fn quick() -> KernelPlan {
        let full = KernelPlan::full();
        let cells = full.cells.into_iter().filter(|c| c.mbps == 10 && c.rtt_ms == 20).collect();
        KernelPlan { cells, seeds: 1, seconds: 4.0, lossy_factor: 1.0 }
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
