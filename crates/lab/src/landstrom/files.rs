//! L3 and L4: one flow, files of different sizes, buffers of different sizes.

use core::time::Duration;

use tack_cc::Algorithm;

use super::{named, percent};
use crate::dumbbell::{Dumbbell, PACKET_BYTES, Queue, SEGMENT_BYTES, flow};
use crate::reproduce::{Claim, Extent, Finding};
use crate::result::RunResult;
use crate::scenario::{App, Flow, Scenario, Strategy};

const RATE_MBPS: f64 = 1.5;
/// Time for the slowest transfer.
const LONGEST_S: f64 = 120.0;

fn transfer(strategy: Strategy, bytes: u64, rtt: Duration, buffer_bdp: f64) -> Scenario {
    let dumbbell = Dumbbell {
        rate_mbps: RATE_MBPS,
        access_mbps: 10.0,
        rtt,
        queue: Queue::DropTail(buffer_bdp),
        pairs: 1,
        staggered: false,
        processing: core::time::Duration::ZERO,
    };
    let flow = Flow { app: App::File { bytes }, ..flow(strategy, Algorithm::NewReno) };
    dumbbell.scenario(vec![flow], LONGEST_S, 0.0, 1)
}

/// Seconds the only flow took; the whole run if it did not end.
fn seconds(run: &RunResult) -> f64 {
    run.total.completed_at_s.unwrap_or(LONGEST_S)
}

/// L3, Fig. 3: 1.5 Mbit/s and 100 ms, about 18 segments; throughput over buffer and file size.
#[derive(Clone, Debug)]
pub struct Files {
    /// In segments.
    files: Vec<u64>,
    /// In packets.
    buffers: Vec<u32>,
}

const STRATEGIES: [&str; 6] = ["AE", "DAL2", "A4L4", "A8L8", "2W", "4W"];
const RTT: Duration = Duration::from_millis(100);
/// Of these buffers, packets, those that are small: less than half of the path's capacity.
const SMALL: u32 = 9;

impl Files {
    /// Buffers from a few packets to twice the path's capacity.
    pub fn new(extent: Extent) -> Files {
        match extent {
            Extent::Short => Files { files: vec![100, 400], buffers: vec![5, 8, 18] },
            _ => Files {
                files: vec![50, 100, 200, 400, 800, 1_600],
                buffers: vec![4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 40],
            },
        }
    }

    fn bdp_packets() -> f64 {
        RATE_MBPS * 1e6 / 8.0 * RTT.as_secs_f64() / f64::from(PACKET_BYTES)
    }

    fn cells(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.buffers.iter().flat_map(|b| self.files.iter().map(|f| (*b, *f)))
    }
}

impl Claim for Files {
    fn row(&self) -> &'static str {
        "L3"
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let mut scenarios = Vec::new();
        for strategy in STRATEGIES {
            for (buffer, file) in self.cells() {
                let bdps = f64::from(buffer) / Self::bdp_packets();
                let bytes = file * u64::from(SEGMENT_BYTES);
                scenarios.push(transfer(named(strategy, 100), bytes, RTT, bdps));
            }
        }
        scenarios
    }

    fn findings(&self, results: &[RunResult]) -> Vec<Finding> {
        let per_strategy = self.buffers.len() * self.files.len();
        let runs: Vec<&[RunResult]> = results.chunks(per_strategy).collect();
        // Throughput relative to AE's, mean over the cells that count.
        let relative = |strategy: usize, counts: &dyn Fn(u32) -> bool| {
            let cells = self.cells().zip(runs[strategy].iter().zip(runs[0]));
            let ratios: Vec<f64> = cells
                .filter(|((buffer, _), _)| counts(*buffer))
                .map(|(_, (own, ae))| seconds(ae) / seconds(own))
                .collect();
            ratios.iter().sum::<f64>() / (ratios.len() as f64).max(1.0)
        };
        let all: Vec<f64> = (0..STRATEGIES.len()).map(|s| relative(s, &|_| true)).collect();
        let small: Vec<f64> = (0..STRATEGIES.len()).map(|s| relative(s, &|b| b <= SMALL)).collect();
        let text = |v: &[f64], from: usize| {
            let cell = |(s, x): (&&str, &f64)| format!("{s} {}", percent(*x));
            STRATEGIES.iter().zip(v).skip(from).map(cell).collect::<Vec<_>>().join(", ")
        };
        let [_, dal2, a4l4, a8l8, two, four] = all[..] else { return Vec::new() };
        vec![
            Finding::new(
                "L3",
                "DAL2's throughput of AE's, mean over buffers and files",
                "as well as AE: within 10 %",
                percent(dal2),
                (dal2 - 1.0).abs() <= 0.1,
            ),
            Finding::new(
                "L3",
                "throughput of AE's, all buffers",
                "4W best of those that reduce",
                text(&all, 2),
                four >= a4l4.max(a8l8).max(two),
            )
            .because(
                "4W and A4L4 are within a point of each other here; RACK-TLP repairs what cost \
                 ns-2's senders a timeout, so that A4L4's greater bursts cost less",
            ),
            Finding::new(
                "L3",
                "throughput of AE's, buffers of less than half a bdp",
                "A8L8 and 2W poor, 4W better",
                text(&small, 2),
                small[5] > small[3] && small[5] > small[4],
            ),
        ]
    }
}

/// L4, Fig. 4: what counting bytes cannot make up for, per round trip until the path is full.
#[derive(Clone, Debug)]
pub struct ByteCountingDelay {
    segments: u64,
}

/// Longer than the paper's 100 ms: our initial window of ten segments would leave a single round
/// trip to look at.
const LONG_RTT: Duration = Duration::from_millis(400);
const COUNTED: [(&str, f64); 3] = [("DAL2", 1.0), ("A4L4", 3.0), ("A8L8", 7.0)];
const INITIAL_WINDOW: f64 = 10.0;

impl ByteCountingDelay {
    /// A file large enough to fill the path.
    pub fn new(_extent: Extent) -> ByteCountingDelay {
        ByteCountingDelay { segments: 320 }
    }
}

impl Claim for ByteCountingDelay {
    fn row(&self) -> &'static str {
        "L4"
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let bytes = self.segments * u64::from(SEGMENT_BYTES);
        let names = core::iter::once("AE").chain(COUNTED.iter().map(|c| c.0));
        names.map(|name| transfer(named(name, 1_000), bytes, LONG_RTT, 8.0)).collect()
    }

    fn findings(&self, results: &[RunResult]) -> Vec<Finding> {
        let packet_ms = f64::from(PACKET_BYTES) * 8.0 / RATE_MBPS / 1e3;
        let bdp = RATE_MBPS * 1e3 * LONG_RTT.as_secs_f64() * 1e3 / 8.0 / f64::from(PACKET_BYTES);
        let rounds = (bdp / INITIAL_WINDOW).log2().ceil();
        let Some((ae, others)) = results.split_first() else { return Vec::new() };
        COUNTED
            .iter()
            .zip(others)
            .map(|((name, packets), run)| {
                let per_round = (seconds(run) - seconds(ae)) * 1e3 / rounds;
                Finding::new(
                    "L4",
                    format!("{name}: delay against AE per round trip until the path is full"),
                    format!("{:.1} ms ({packets} packet times)", packets * packet_ms),
                    format!("{per_round:.1} ms"),
                    (per_round - packets * packet_ms).abs() <= packet_ms,
                )
                .because(
                    "not settled: the first round trip agrees, later ones double what it left over",
                )
            })
            .collect()
    }
}
