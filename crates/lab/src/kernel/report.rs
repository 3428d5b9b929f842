//! What the rows of a table amount to.

use serde::Serialize;

use super::cell::Cell;
use super::run::{Figures, KernelRow, Stack};
use crate::ranks::{Spread, ks_p_value, superiority};
use crate::stats::Estimate;

/// How near is near enough.
pub(super) const GOAL: f64 = 0.05;
/// Seeds whose ratios differ by more than this have no mean that says anything.
const SCATTER: f64 = 0.10;
/// Less likely than this is no accident.
const SIGNIFICANT: f64 = 0.05;

/// All there is to say: cells, and what was left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// A row per cell that has both stacks for some seed.
    pub rows: Vec<CellRow>,
    /// Runs whose figures are worth nothing, in the order they were made.
    pub voided: Vec<Voided>,
    /// Cells without a pair of sound runs.
    pub missing: Vec<Cell>,
}

/// A run that had to be left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Voided {
    /// Which.
    pub run: String,
    /// Why.
    pub why: String,
}

/// Both stacks' goodput as distributions, bit/s.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// The kernel's.
    pub kernel: Spread,
    /// Ours.
    pub ours: Spread,
    /// Share of pairs of any two runs in which ours is the greater.
    pub ours_greater: f64,
    /// Probability of such a difference between samples of one distribution (Kolmogorov-Smirnov).
    pub p_value: f64,
}

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
    /// Ratios of goodput differ by more than 10 % from seed to seed: their mean says nothing, the
    /// distribution does.
    pub scattered: bool,
    /// Of all sound runs, paired or not.
    pub distribution: Distribution,
}

impl CellRow {
    /// Goodput is the kernel's within 5 %; where runs scatter, it cannot be told from the kernel's.
    pub fn goodput_agrees(&self) -> bool {
        if self.scattered {
            self.distribution.p_value >= SIGNIFICANT
        } else {
            (self.goodput_ratio - 1.0).abs() <= GOAL
        }
    }

    /// As many acknowledgments within 5 %; where runs scatter, as many per data packet.
    pub fn acks_agree(&self) -> bool {
        let ratio = if self.scattered {
            self.kernel_data_per_ack / self.ours_data_per_ack.max(f64::MIN_POSITIVE)
        } else {
            self.acks_ratio
        };
        (ratio - 1.0).abs() <= GOAL
    }

    /// Both.
    pub fn agrees(&self) -> bool {
        self.goodput_agrees() && self.acks_agree()
    }
}

/// What `rows` say of `cells`, in their order.
pub fn report(cells: &[Cell], rows: &[KernelRow]) -> Report {
    let asked = |row: &&KernelRow| cells.contains(&row.run.cell);
    let voided = rows.iter().filter(asked).filter_map(|row| {
        let why = row.figures.void.clone()?;
        Some(Voided { run: row.run.describe(), why })
    });
    let summaries = cells.iter().map(|cell| (*cell, summarise(*cell, rows)));
    let (some, none): (Vec<_>, Vec<_>) = summaries.partition(|(_, row)| row.is_some());
    Report {
        rows: some.into_iter().filter_map(|(_, row)| row).collect(),
        voided: voided.collect(),
        missing: none.into_iter().map(|(cell, _)| cell).collect(),
    }
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
    let ratio = |(k, o): &(&Figures, &Figures)| o.goodput_bps / k.goodput_bps;
    let goodput_ratio = estimate(&ratio)?;
    let ratios = Spread::of(&pairs.iter().map(ratio).collect::<Vec<f64>>())?;
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
        scattered: ratios.max > ratios.min * (1.0 + SCATTER),
        distribution: distribution(&of_cell)?,
    })
}

/// Of all sound runs that are as long as some sound run of the other stack.
fn distribution(of_cell: &[&KernelRow]) -> Option<Distribution> {
    let sound: Vec<&KernelRow> =
        of_cell.iter().copied().filter(|row| row.figures.void.is_none()).collect();
    let goodputs = |stack: Stack| -> Vec<f64> {
        let as_long = |row: &&KernelRow| {
            sound.iter().any(|r| r.run.stack != stack && r.run.seconds == row.run.seconds)
        };
        let own = sound.iter().copied().filter(|row| row.run.stack == stack).filter(as_long);
        own.map(|row| row.figures.goodput_bps).collect()
    };
    let (kernel, ours) = (goodputs(Stack::Kernel), goodputs(Stack::Ours));
    Some(Distribution {
        kernel: Spread::of(&kernel)?,
        ours: Spread::of(&ours)?,
        ours_greater: superiority(&kernel, &ours),
        p_value: ks_p_value(&kernel, &ours),
    })
}
