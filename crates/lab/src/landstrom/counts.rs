//! L1, Fig. 1: acknowledgments per send window.

use core::time::Duration;

use tack_cc::Algorithm;

use super::{access_mbps, named};
use crate::dumbbell::{Dumbbell, Queue, flow};
use crate::reproduce::{Claim, Extent, Finding};
use crate::result::RunResult;
use crate::scenario::{Flow, Scenario};

const RATE_MBPS: f64 = 20.0;
const RTT: Duration = Duration::from_millis(100);
const STRATEGIES: [&str; 6] = ["AE", "DAL2", "A4L4", "A8L8", "2W", "4W"];
/// Counting stops in the middle of a window: one window of hundreds.
const TOLERANCE: f64 = 0.02;

/// A receive window pins the send window, and acknowledgments are counted against it.
#[derive(Clone, Debug)]
pub struct Counts {
    windows: Vec<u32>,
    seconds: f64,
}

impl Counts {
    /// Windows up to what the path can carry.
    pub fn new(extent: Extent) -> Counts {
        match extent {
            Extent::Short => Counts { windows: vec![4, 16, 64], seconds: 20.0 },
            _ => Counts { windows: vec![4, 8, 16, 32, 64, 128], seconds: 60.0 },
        }
    }
}

/// Acknowledgments per window of `w` segments [Landström & Larzon §3.2].
fn expected(strategy: &str, w: f64) -> f64 {
    match strategy {
        "AE" => w,
        "DAL2" => w / 2.0,
        "A4L4" => (w / 4.0).max(2.0),
        "A8L8" => (w / 8.0).max(2.0),
        "2W" => 2.0,
        _ => 4.0,
    }
}

impl Claim for Counts {
    fn row(&self) -> &'static str {
        "L1"
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let dumbbell = Dumbbell {
            rate_mbps: RATE_MBPS,
            access_mbps: access_mbps(RATE_MBPS),
            rtt: RTT,
            queue: Queue::DropTail(4.0),
            pairs: 1,
            staggered: false,
            processing: core::time::Duration::ZERO,
        };
        let scenario = |strategy: &str, w: u32| {
            let flow =
                Flow { rwnd_segments: Some(w), ..flow(named(strategy, 1_000), Algorithm::NewReno) };
            dumbbell.scenario(vec![flow], self.seconds, self.seconds / 4.0, 1)
        };
        STRATEGIES.iter().flat_map(|s| self.windows.iter().map(|w| scenario(s, *w))).collect()
    }

    fn findings(&self, results: &[RunResult]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (strategy, runs) in STRATEGIES.iter().zip(results.chunks(self.windows.len())) {
            let (mut agrees, mut paper, mut ours) = (true, Vec::new(), Vec::new());
            for (w, run) in self.windows.iter().zip(runs) {
                let w = f64::from(*w);
                let should = expected(strategy, w);
                let ratio = run.total.ack_packets_per_s / run.total.data_packets_per_s.max(1e-9);
                let counted = ratio * w;
                agrees &= (counted / should - 1.0).abs() <= TOLERANCE;
                paper.push(format!("{should:.4}"));
                ours.push(format!("{counted:.2}"));
            }
            let trim = |v: Vec<String>| {
                let short = |s: &String| s.trim_end_matches('0').trim_end_matches('.').to_owned();
                v.iter().map(short).collect::<Vec<_>>().join(" ")
            };
            let windows: Vec<String> = self.windows.iter().map(u32::to_string).collect();
            let what = format!("{strategy}: ACKs per window of {}", windows.join(" "));
            findings.push(Finding::new("L1", what, trim(paper), trim(ours), agrees));
        }
        findings
    }
}
