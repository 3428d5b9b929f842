//! The table a person reads.

use std::fmt::Write as _;

use serde::Serialize;

use super::cell::Cell;
use super::run::{Figures, KernelRow, Stack};
use crate::stats::Estimate;

/// How near is near enough.
const GOAL: f64 = 0.05;

/// A cell: means over seeds, and ratios seed by seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellRow {
    /// The setting.
    #[serde(flatten)]
    pub cell: Cell,
    /// Seeds for which both stacks have a sound run.
    pub seeds: usize,
    /// The kernel's goodput, bit/s.
    pub kernel_goodput_bps: f64,
    /// Ours, bit/s.
    pub ours_goodput_bps: f64,
    /// Ours over the kernel's, mean of the seeds.
    pub goodput_ratio: f64,
    /// Half of its 95 % confidence interval; `None` with a single seed.
    pub goodput_ratio_ci95: Option<f64>,
    /// Acknowledgments of the kernel.
    pub kernel_acks: f64,
    /// Ours.
    pub ours_acks: f64,
    /// Ours over the kernel's, mean of the seeds.
    pub acks_ratio: f64,
    /// Half of its 95 % confidence interval; `None` with a single seed.
    pub acks_ratio_ci95: Option<f64>,
    /// Data packets per acknowledgment of the kernel.
    pub kernel_data_per_ack: f64,
    /// Ours.
    pub ours_data_per_ack: f64,
    /// Greatest lateness of the emulator in any of the runs, µs.
    pub late_max_us: u64,
    /// Runs that had to be left out: the machine was too busy.
    pub void_runs: usize,
}

impl CellRow {
    /// Goodput and number of acknowledgments are the kernel's within 5 %.
    pub fn agrees(&self) -> bool {
        (self.goodput_ratio - 1.0).abs() <= GOAL && (self.acks_ratio - 1.0).abs() <= GOAL
    }
}

/// One row per cell that has both stacks for some seed, in the order of `cells`.
pub fn cells(cells: &[Cell], rows: &[KernelRow]) -> Vec<CellRow> {
    cells.iter().filter_map(|cell| summarise(*cell, rows)).collect()
}

fn summarise(cell: Cell, rows: &[KernelRow]) -> Option<CellRow> {
    let of_cell: Vec<&KernelRow> = rows.iter().filter(|row| row.run.cell == cell).collect();
    let sound = |row: &&&KernelRow| row.figures.void.is_none();
    let pairs: Vec<(&Figures, &Figures)> = of_cell
        .iter()
        .filter(sound)
        .filter(|row| row.run.stack == Stack::Kernel)
        .filter_map(|kernel| {
            let twin = |row: &&&KernelRow| {
                let (a, b) = (&row.run, &kernel.run);
                a.stack == Stack::Ours && a.seed == b.seed && a.seconds == b.seconds
            };
            let ours = of_cell.iter().filter(sound).find(twin)?;
            Some((&kernel.figures, &ours.figures))
        })
        .collect();
    let estimate = |of: &dyn Fn(&(&Figures, &Figures)) -> f64| {
        Estimate::of(&pairs.iter().map(of).collect::<Vec<f64>>())
    };
    let mean = |of: &dyn Fn(&(&Figures, &Figures)) -> f64| estimate(of).map_or(0.0, |e| e.mean);
    let acks = |f: &Figures| f.ack_packets as f64;
    let per_ack = |f: &Figures| f.data_packets as f64 / acks(f).max(1.0);
    let goodput_ratio = estimate(&|(k, o)| o.goodput_bps / k.goodput_bps)?;
    let acks_ratio = estimate(&|(k, o)| acks(o) / acks(k).max(1.0))?;
    Some(CellRow {
        cell,
        seeds: pairs.len(),
        kernel_goodput_bps: mean(&|(k, _)| k.goodput_bps),
        ours_goodput_bps: mean(&|(_, o)| o.goodput_bps),
        goodput_ratio: goodput_ratio.mean,
        goodput_ratio_ci95: goodput_ratio.ci95,
        kernel_acks: mean(&|(k, _)| acks(k)),
        ours_acks: mean(&|(_, o)| acks(o)),
        acks_ratio: acks_ratio.mean,
        acks_ratio_ci95: acks_ratio.ci95,
        kernel_data_per_ack: mean(&|(k, _)| per_ack(k)),
        ours_data_per_ack: mean(&|(_, o)| per_ack(o)),
        late_max_us: pairs.iter().map(|(k, o)| k.late_max_us.max(o.late_max_us)).max()?,
        void_runs: of_cell.iter().filter(|row| row.figures.void.is_some()).count(),
    })
}

/// The table, and how many of its cells agree within 5 %.
pub fn table(rows: &[CellRow]) -> String {
    let mut out = format!(
        "{:<6}{:>7} {:>5} {:>5}  {:>19} {:>15}  {:>17} {:>15}  {:>13} {:>8}\n{:<6}{:>7} {:>5} {:>5}  \
         {:>9} {:>9} {:>15}  {:>8} {:>8} {:>15}  {:>6} {:>6} {:>8}\n",
        "",
        "",
        "",
        "",
        "goodput, Mbit/s",
        "",
        "ACKs",
        "",
        "data per ACK",
        "late",
        "",
        "Mbit/s",
        "ms",
        "loss",
        "kernel",
        "ours",
        "ratio",
        "kernel",
        "ours",
        "ratio",
        "kernel",
        "ours",
        "max ms",
    );
    for row in rows {
        let Cell { cc, mbps, rtt_ms, loss_percent } = row.cell;
        let mark = if row.agrees() { "" } else { "  *" };
        let _ = writeln!(
            out,
            "{cc:<6}{mbps:>7} {rtt_ms:>5} {loss_percent:>4}%  {:>9.2} {:>9.2} {:>15}  {:>8.0} \
             {:>8.0} {:>15}  {:>6.2} {:>6.2} {:>8.1}{mark}",
            row.kernel_goodput_bps / 1e6,
            row.ours_goodput_bps / 1e6,
            ratio(row.goodput_ratio, row.goodput_ratio_ci95),
            row.kernel_acks,
            row.ours_acks,
            ratio(row.acks_ratio, row.acks_ratio_ci95),
            row.kernel_data_per_ack,
            row.ours_data_per_ack,
            row.late_max_us as f64 / 1e3,
        );
    }
    let agree = |of: &dyn Fn(&CellRow) -> f64| {
        rows.iter().filter(|row| (of(row) - 1.0).abs() <= GOAL).count()
    };
    let (goodput, acks) = (agree(&|r| r.goodput_ratio), agree(&|r| r.acks_ratio));
    let n = rows.len();
    let _ = writeln!(out, "within 5 % of the kernel: goodput {goodput} of {n}, ACKs {acks} of {n}");
    let void: usize = rows.iter().map(|row| row.void_runs).sum();
    if void > 0 {
        let _ = writeln!(out, "{void} runs left out: packets left the emulator too late");
    }
    out
}

fn ratio(mean: f64, ci95: Option<f64>) -> String {
    match ci95 {
        Some(ci) => format!("{mean:.3} ± {ci:.3}"),
        None => format!("{mean:.3}"),
    }
}
