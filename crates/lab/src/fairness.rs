//! `tack lab fairness`: half the flows acknowledge every segment, half do otherwise; who gets what
//! [Landström & Larzon §4.6].
//!
//! ```text
//! share = mean goodput of the others / mean goodput of all         1 is fair
//! ```
//!
//! Whether senders are paced is a dimension of its own ([`Paced`]), and [`why`](Why) takes each
//! share apart.

#[cfg(target_os = "linux")]
pub mod live;
mod pacing;
mod table;
mod why;

use core::time::Duration;

use serde::Serialize;
use tack_cc::Algorithm;

use crate::dumbbell::{Dumbbell, Queue, flow};
use crate::result::{FlowResult, RunResult};
use crate::scenario::{Direction, Flow, Scenario, Strategy};
use crate::stats::Estimate;

pub use pacing::Paced;
pub use table::{figures, table, why_table};
pub use why::{Lived, Why};

/// Flows against the direction of the others, and their receive window in segments
/// [Landström & Larzon §4.6].
const REVERSE_FLOWS: u32 = 4;
const REVERSE_RWND: u32 = 20;
/// Every flow starts at a random time within these first seconds.
const START_JITTER_S: f64 = 5.0;
/// How far from the fair share a strategy may be: the issue's measure.
pub const TOLERANCE: f64 = 0.1;

/// What to set against each other.
#[derive(Clone, Debug)]
pub struct Fairness {
    /// Of the bottleneck, Mbit/s.
    pub rates_mbps: Vec<f64>,
    /// Of every access link, Mbit/s.
    pub access_mbps: f64,
    /// At the bottleneck.
    pub queues: Vec<Queue>,
    /// Forward flows in all, even.
    pub flows: Vec<u32>,
    /// Each against every-segment.
    pub strategies: Vec<Strategy>,
    /// Controller of every flow: only then is it the strategies that are compared.
    pub cc: Algorithm,
    /// Controller of the other half, where another question is asked.
    pub other_cc: Algorithm,
    /// Whose window-based controllers are paced, one after the other.
    pub paced: Vec<Paced>,
    /// Round trip without queues.
    pub rtt: Duration,
    /// Longest time a host takes over a packet; see [`crate::scenario::Access::processing_ms`].
    pub processing: Duration,
    /// Per cell, from 1 on.
    pub seeds: u64,
    /// Virtual seconds of each run.
    pub duration_s: f64,
    /// Of them, left out.
    pub warmup_s: f64,
}

impl Default for Fairness {
    /// The paper's dumbbell, with drop-tail at 15 Mbit/s and without pacing.
    fn default() -> Self {
        Fairness {
            rates_mbps: vec![15.0],
            access_mbps: 10.0,
            queues: vec![Queue::DropTail(1.0)],
            flows: vec![2, 4, 8, 16, 32, 64],
            strategies: Strategy::contenders(),
            cc: Algorithm::NewReno,
            other_cc: Algorithm::NewReno,
            paced: vec![Paced::Nobody],
            rtt: Duration::from_millis(50),
            processing: Duration::ZERO,
            seeds: 5,
            duration_s: 100.0,
            warmup_s: 20.0,
        }
    }
}

/// One strategy against every-segment in one setting, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FairnessRow {
    /// Of the bottleneck.
    pub rate_mbps: f64,
    /// At the bottleneck.
    pub queue: String,
    /// Whose window-based controllers are paced.
    pub paced: Paced,
    /// Forward flows, half of them with the strategy.
    pub flows: u32,
    /// The strategy.
    pub strategy: String,
    /// Mean goodput of its flows, relative to that of all.
    pub share: f64,
    /// Half-width of its 95 % confidence interval; `None` with one seed.
    pub share_ci95: Option<f64>,
    /// Share of its data packets that were lost, and of those of every-segment.
    pub loss: f64,
    /// See `loss`.
    pub loss_every_segment: f64,
    /// Timeouts per flow and minute.
    pub timeouts_per_min: f64,
    /// See `timeouts_per_min`.
    pub timeouts_per_min_every_segment: f64,
    /// Acknowledgments per data packet.
    pub acks_per_packet: f64,
    /// Of the bottleneck in the forward direction, IP level.
    pub utilisation: f64,
    /// What the flows with the strategy lived.
    pub lived: Lived,
    /// What those of every-segment did.
    pub lived_every_segment: Lived,
    /// The ratio of the two, taken apart.
    pub why: Why,
    /// How many seeds.
    pub seeds: usize,
}

impl FairnessRow {
    /// Whether the mean share is within the tolerance.
    pub fn is_fair(&self) -> bool {
        (self.share - 1.0).abs() <= TOLERANCE
    }

    /// Whether it is not, and chance does not explain that: the whole confidence interval lies
    /// outside.
    pub fn is_surely_unfair(&self) -> bool {
        (self.share - 1.0).abs() - self.share_ci95.unwrap_or(0.0) > TOLERANCE
    }
}

/// A cell's setting.
#[derive(Clone, Copy, Debug)]
struct Cell {
    rate_mbps: f64,
    queue: Queue,
    paced: Paced,
    flows: u32,
    strategy: Strategy,
}

impl Fairness {
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for &rate_mbps in &self.rates_mbps {
            for &queue in &self.queues {
                for &paced in &self.paced {
                    for &strategy in &self.strategies {
                        let cell = |&flows| Cell { rate_mbps, queue, paced, flows, strategy };
                        cells.extend(self.flows.iter().map(cell));
                    }
                }
            }
        }
        cells
    }

    /// Every run, seeds of a cell next to each other.
    pub fn scenarios(&self) -> Vec<Scenario> {
        let cells = self.cells();
        let of = |cell: &Cell| (1..=self.seeds).map(|seed| self.scenario(*cell, seed)).collect();
        cells.iter().flat_map(|cell| -> Vec<Scenario> { of(cell) }).collect()
    }

    fn scenario(&self, cell: Cell, seed: u64) -> Scenario {
        let pairs = cell.flows + REVERSE_FLOWS;
        let dumbbell = Dumbbell {
            rate_mbps: cell.rate_mbps,
            access_mbps: self.access_mbps,
            rtt: self.rtt,
            queue: cell.queue,
            pairs,
            staggered: true,
            processing: self.processing,
        };
        // One of each on a pair of equal delays: neither half is nearer.
        let mut flows: Vec<Flow> = (0..cell.flows)
            .map(|station| {
                let (strategy, cc, paced) = if station % 2 == 0 {
                    (Strategy::every_segment(), self.cc, cell.paced.every_segment())
                } else {
                    (cell.strategy, self.other_cc, cell.paced.others())
                };
                Flow { station, paced, ..flow(strategy, cc) }
            })
            .collect();
        flows.push(Flow {
            direction: Direction::Up,
            station: cell.flows,
            count: REVERSE_FLOWS,
            rwnd_segments: Some(REVERSE_RWND),
            paced: cell.paced.every_segment(),
            ..flow(Strategy::every_segment(), self.cc)
        });
        for flow in &mut flows {
            flow.start_jitter_s = START_JITTER_S.min(self.warmup_s);
        }
        dumbbell.scenario(flows, self.duration_s, self.warmup_s, seed)
    }

    /// The rows of finished runs, which must be those of [`Self::scenarios`] in order.
    pub fn summarise(&self, results: &[RunResult]) -> Vec<FairnessRow> {
        let seeds = usize::try_from(self.seeds).unwrap_or(usize::MAX).max(1);
        let cells = self.cells();
        cells.iter().zip(results.chunks(seeds)).map(|(cell, runs)| self.row(cell, runs)).collect()
    }

    fn row(&self, cell: &Cell, runs: &[RunResult]) -> FairnessRow {
        let halves: Vec<Halves> = runs.iter().map(|r| Halves::of(r, cell.flows)).collect();
        let mean = |f: &dyn Fn(&Halves) -> f64| {
            halves.iter().map(f).sum::<f64>() / (halves.len() as f64).max(1.0)
        };
        let shares: Vec<f64> = halves.iter().map(Halves::share).collect();
        let share = Estimate::of(&shares);
        let lived = Lived::of(&halves.iter().map(|h| &h.others).collect::<Vec<_>>());
        let lived_every_segment = Lived::of(&halves.iter().map(|h| &h.every).collect::<Vec<_>>());
        FairnessRow {
            rate_mbps: cell.rate_mbps,
            queue: cell.queue.to_string(),
            paced: cell.paced,
            flows: cell.flows,
            strategy: cell.strategy.to_string(),
            share: share.map_or(0.0, |e| e.mean),
            share_ci95: share.and_then(|e| e.ci95),
            loss: mean(&|h| h.others.mean(|f| f.data_loss)),
            loss_every_segment: mean(&|h| h.every.mean(|f| f.data_loss)),
            timeouts_per_min: 60.0 * lived.timeouts_per_s,
            timeouts_per_min_every_segment: 60.0 * lived_every_segment.timeouts_per_s,
            why: Why::of(&lived, &lived_every_segment),
            lived,
            lived_every_segment,
            acks_per_packet: mean(&|h| {
                let sum = |f: fn(&FlowResult) -> f64| h.others.mean(f);
                sum(|f| f.ack_packets_per_s) / sum(|f| f.data_packets_per_s).max(1e-9)
            }),
            utilisation: runs
                .iter()
                .filter_map(|r| Some(r.wan?.down.delivered_bps))
                .map(|bps| bps / cell.rate_mbps / 1e6)
                .sum::<f64>()
                / (runs.len() as f64).max(1.0),
            seeds: runs.len(),
        }
    }
}

/// The forward flows of a run by what they are.
struct Halves<'a> {
    every: Half<'a>,
    others: Half<'a>,
}

struct Half<'a>(Vec<&'a FlowResult>);

impl Half<'_> {
    fn mean(&self, f: impl Fn(&FlowResult) -> f64) -> f64 {
        self.0.iter().map(|flow| f(flow)).sum::<f64>() / (self.0.len() as f64).max(1.0)
    }
}

impl<'a> Halves<'a> {
    fn of(run: &'a RunResult, forward: u32) -> Halves<'a> {
        let forward = run.flows.iter().take(forward as usize).enumerate();
        let (every, others): (Vec<_>, Vec<_>) = forward.partition(|(i, _)| i % 2 == 0);
        let half =
            |list: Vec<(usize, &'a FlowResult)>| Half(list.into_iter().map(|f| f.1).collect());
        Halves { every: half(every), others: half(others) }
    }

    fn share(&self) -> f64 {
        let (every, others) =
            (self.every.mean(|f| f.goodput_bps), self.others.mean(|f| f.goodput_bps));
        2.0 * others / (every + others).max(1e-9)
    }
}
