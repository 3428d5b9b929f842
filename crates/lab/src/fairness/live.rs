//! `tack lab fairness --live`: the dumbbell in real time, with the kernel's TCP and with ours.
//!
//! ```text
//! sender's end A ── N flows, half of them acknowledged per segment ──▶ receiver's end B
//!                ◀── four flows with a window of 20 segments ────────
//! ```
//!
//! One path, one queue per direction, two stacks: what the simulator says of our stack can be held
//! against our stack on real packets, and that against Linux. All senders share end A and all
//! receivers end B: there are no access links, which in the simulated dumbbell space what a flow
//! sends at once. Starts are drawn as the simulator draws them.
//!
//! The kernel acknowledges every segment where the route back says `quickack 1`, so its halves come
//! from two addresses; otherwise it delays acknowledgments as it always does. What is switched off
//! is said in `kernel.rs`. Ours is unpaced, as the kernel is without `fq`.
//!
//! Goodput is what receiving applications read between the end of the warm-up and the end; packets
//! are counted on the path, by flow.

mod kernel;
mod ours;
mod run;
mod runner;
mod table;
mod traffic;
mod wire;

use core::time::Duration;

use anyhow::Result;
use rand::Rng as _;
use serde::Serialize;
use tack_link::wired::Wired;
use tack_sim::{AckStrategy, Seed};

use super::{Fairness, Paced, REVERSE_FLOWS, REVERSE_RWND, START_JITTER_S};
use crate::dumbbell::{Dumbbell, Queue, SEGMENT_BYTES};
use crate::kernel::{Controller, Stack};
use crate::scenario::{Strategy, Wan};

pub use run::{LiveFigures, LiveHalf, LiveResult, run};
pub use runner::run_all;
pub use table::{LeftOut, LiveRow, rows, table};

/// What to run.
#[derive(Clone, Debug)]
pub struct LivePlan {
    /// Whose TCP.
    pub stacks: Vec<Stack>,
    /// Of the bottleneck, Mbit/s.
    pub rates_mbps: Vec<f64>,
    /// At the bottleneck, in both directions.
    pub queues: Vec<Queue>,
    /// Forward flows in all, even.
    pub flows: Vec<u32>,
    /// Of our stack, each against every-segment. The kernel has one: its delayed acknowledgment.
    pub strategies: Vec<AckStrategy>,
    /// Controller of every flow.
    pub cc: Controller,
    /// Round trip of the empty path.
    pub rtt: Duration,
    /// Per cell and stack, from 1 on.
    pub seeds: u64,
    /// Seconds of each run.
    pub duration_s: f64,
    /// Of them, left out.
    pub warmup_s: f64,
}

impl Default for LivePlan {
    /// What Linux does among 4, 16 and 64 flows, and ours doing the same.
    fn default() -> Self {
        LivePlan {
            stacks: vec![Stack::Kernel, Stack::Ours],
            rates_mbps: vec![15.0],
            queues: vec![Queue::DropTail(1.0)],
            flows: vec![4, 16, 64],
            strategies: vec![AckStrategy::PLAIN],
            cc: Controller::Reno,
            rtt: Duration::from_millis(50),
            seeds: 4,
            duration_s: 80.0,
            warmup_s: 20.0,
        }
    }
}

/// A setting: a path, and who shares it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LiveCell {
    /// Whose TCP.
    pub stack: Stack,
    /// Of the bottleneck, Mbit/s.
    pub rate_mbps: f64,
    /// At the bottleneck, in both directions.
    pub queue: Queue,
    /// Round trip of the empty path.
    #[serde(skip)]
    pub rtt: Duration,
    /// Controller of every flow.
    pub cc: Controller,
    /// Forward flows in all, half of them with the strategy.
    pub flows: u32,
    /// The strategy of the other half; the kernel's delayed acknowledgment is what ours is after.
    #[serde(skip)]
    pub strategy: AckStrategy,
}

/// One run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LiveRun {
    /// The setting.
    pub cell: LiveCell,
    /// Of the starts and the queue's draws.
    pub seed: u64,
    /// How long, seconds.
    pub duration_s: f64,
    /// Of them, left out.
    pub warmup_s: f64,
}

impl LivePlan {
    /// Settings in the order of the table: stacks next to each other.
    pub fn cells(&self) -> Vec<LiveCell> {
        let mut cells = Vec::new();
        for &rate_mbps in &self.rates_mbps {
            for &queue in &self.queues {
                for &flows in &self.flows {
                    let (rtt, cc) = (self.rtt, self.cc);
                    let cell = |stack, strategy| LiveCell {
                        stack,
                        rate_mbps,
                        queue,
                        rtt,
                        cc,
                        flows,
                        strategy,
                    };
                    for &stack in &self.stacks {
                        match stack {
                            Stack::Kernel => cells.push(cell(stack, AckStrategy::PLAIN)),
                            Stack::Ours => {
                                cells.extend(self.strategies.iter().map(|s| cell(stack, *s)));
                            }
                        }
                    }
                }
            }
        }
        cells
    }

    /// The simulator's view of it, with access links of `access_mbps`.
    pub fn simulated(&self, access_mbps: f64) -> Fairness {
        let kernel = self.stacks.contains(&Stack::Kernel).then_some(AckStrategy::PLAIN);
        let mut strategies: Vec<AckStrategy> = kernel.into_iter().collect();
        if self.stacks.contains(&Stack::Ours) {
            let others = self.strategies.iter().filter(|s| Some(**s) != kernel);
            strategies.extend(others);
        }
        let cc = self.cc.algorithm();
        Fairness {
            rates_mbps: self.rates_mbps.clone(),
            access_mbps,
            queues: self.queues.clone(),
            flows: self.flows.clone(),
            strategies: strategies.into_iter().map(Strategy::Tcp).collect(),
            cc,
            other_cc: cc,
            paced: vec![Paced::Nobody],
            rtt: self.rtt,
            processing: Duration::ZERO,
            seeds: self.seeds,
            duration_s: self.duration_s,
            warmup_s: self.warmup_s,
        }
    }

    /// Every run, seed by seed: what disturbs the machine for a while disturbs every cell.
    pub fn runs(&self) -> Vec<LiveRun> {
        let (duration_s, warmup_s) = (self.duration_s, self.warmup_s);
        let cells = self.cells();
        let of = |seed| {
            let run = move |cell: &LiveCell| LiveRun { cell: *cell, seed, duration_s, warmup_s };
            cells.iter().map(run).collect::<Vec<_>>()
        };
        (1..=self.seeds).flat_map(of).collect()
    }
}

/// Who a flow is, by the port its listener has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Acknowledged per segment.
    Every,
    /// With the strategy.
    Others,
    /// Against the direction of both.
    Reverse,
}

impl Class {
    const ALL: [Class; 3] = [Class::Every, Class::Others, Class::Reverse];
    const FIRST_PORT: u16 = 5_001;

    /// Where its listener is, at end B.
    const fn port(self) -> u16 {
        Class::FIRST_PORT + self as u16
    }

    fn of_port(port: u16) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.port() == port)
    }

    /// Whether its data goes from A to B.
    fn is_forward(self) -> bool {
        self != Class::Reverse
    }
}

/// A flow to be.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Start {
    class: Class,
    /// From the beginning of the run.
    after: Duration,
}

impl LiveRun {
    /// All flows, forward ones first and one of each half in turn: the n-th starts when the
    /// simulator's n-th does.
    fn starts(&self) -> Vec<Start> {
        let forward =
            (0..self.cell.flows).map(|i| if i % 2 == 0 { Class::Every } else { Class::Others });
        let all = forward.chain((0..REVERSE_FLOWS).map(|_| Class::Reverse));
        let within = START_JITTER_S.min(self.warmup_s);
        let start = |(number, class): (usize, Class)| {
            let mut rng = Seed(self.seed).stream(&format!("start {number}"));
            let share = (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            Start { class, after: Duration::from_secs_f64(within * share) }
        };
        all.enumerate().map(start).collect()
    }

    /// The path: the dumbbell's bottleneck with all of its delay.
    fn path(&self) -> Result<Wired> {
        let LiveCell { rate_mbps, queue, rtt, flows, .. } = self.cell;
        let dumbbell = Dumbbell {
            rate_mbps,
            access_mbps: rate_mbps,
            rtt,
            queue,
            pairs: flows + REVERSE_FLOWS,
            staggered: false,
            processing: Duration::ZERO,
        };
        let scenario = dumbbell.scenario(Vec::new(), self.duration_s, self.warmup_s, self.seed);
        let wan = scenario.wan.expect("a dumbbell has a bottleneck");
        let wan = Wan { delay_ms: Some(rtt.as_secs_f64() * 500.0), ..wan };
        let (up, down) = (wan.up().config(rtt), wan.down().config(rtt));
        Ok(Wired::new(up, down, Seed(self.seed).derive("wan"))?)
    }

    /// In a few words.
    pub fn describe(&self) -> String {
        let LiveCell { stack, rate_mbps, queue, flows, strategy, .. } = self.cell;
        format!(
            "{stack} {strategy}, {flows} flows, {rate_mbps} Mbit/s, {queue}, seed {}",
            self.seed
        )
    }
}

/// What receivers of reverse flows offer at most, bytes.
const REVERSE_WINDOW_BYTES: usize = REVERSE_RWND as usize * SEGMENT_BYTES as usize;
/// MSS of a segment with timestamps, as options announce it.
const MSS: u16 = SEGMENT_BYTES + 12;

#[cfg(test)]
mod tests;
