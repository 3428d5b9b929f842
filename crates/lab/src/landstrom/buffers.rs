//! L8, Fig. 8 and Eq. 1: how much buffer a strategy needs.

use core::time::Duration;

use super::{Bottleneck, named, percent};
use crate::plot::{Line, Lines};
use crate::reproduce::{Claim, Extent, Finding};
use crate::result::RunResult;
use crate::scenario::Scenario;

const RATE_MBPS: f64 = 1.0;
/// The paper's is unknown. At 1 Mbit/s a shorter one leaves a window of six segments, of which
/// eight cannot be counted.
const RTT: Duration = Duration::from_millis(200);
const SECONDS: f64 = 50.0;
const DELAY_MS: u32 = 1_000;
/// In the order in which the paper finds their need to grow, A4L4 beside 4W and A8L8 beside 2WAF.
const STRATEGIES: [&str; 6] = ["AE", "4W", "A4L4", "2WAF", "A8L8", "2W"];
/// "Full" utilisation: what one flow reaches with a bdp of buffer, more or less.
const FULL: f64 = 0.97;

/// Utilisation of one flow over the buffer.
#[derive(Clone, Debug)]
pub struct Buffers {
    bdps: Vec<f64>,
}

impl Buffers {
    /// Up to four bandwidth-delay products.
    pub fn new(extent: Extent) -> Buffers {
        let bdps = match extent {
            Extent::Short => vec![0.25, 0.5, 1.0, 2.0],
            _ => (1..=16).map(|n| f64::from(n) / 4.0).collect(),
        };
        Buffers { bdps }
    }

    /// The figure: one line per strategy, buffer in bdp against utilisation.
    pub fn lines(&self, results: &[RunResult]) -> Vec<Line> {
        let runs = results.chunks(self.bdps.len());
        let line = |(name, runs): (&&str, &[RunResult])| {
            let points = self.bdps.iter().zip(runs).map(|(bdp, run)| (*bdp, utilisation(run)));
            Line { name: (*name).to_owned(), points: points.collect() }
        };
        STRATEGIES.iter().zip(runs).map(line).collect()
    }
}

fn utilisation(run: &RunResult) -> f64 {
    run.wan.map_or(0.0, |w| w.down.delivered_bps / RATE_MBPS / 1e6)
}

/// The buffer at which a line reaches `level` for good, between its points by interpolation.
fn reaches(line: &Line, level: f64) -> Option<f64> {
    let points = &line.points;
    let last_below = points.iter().rposition(|p| p.1 < level);
    match last_below {
        None => points.first().map(|p| p.0),
        Some(i) => {
            let ((x0, y0), (x1, y1)) = (points[i], *points.get(i + 1)?);
            Some(x0 + (x1 - x0) * (level - y0) / (y1 - y0).max(1e-9))
        }
    }
}

/// Mean utilisation over all buffers: less where more buffer is needed, and less coarse than a
/// crossing.
fn mean(line: &Line) -> f64 {
    line.points.iter().map(|p| p.1).sum::<f64>() / (line.points.len() as f64).max(1.0)
}

impl Claim for Buffers {
    fn row(&self) -> &'static str {
        "L8"
    }

    fn scenarios(&self) -> Vec<Scenario> {
        let scenario = |name: &str, buffer_bdp: f64| {
            let bottleneck = Bottleneck { rate_mbps: RATE_MBPS, rtt: RTT, buffer_bdp };
            bottleneck.scenario(named(name, DELAY_MS), 1, SECONDS, 1)
        };
        STRATEGIES.iter().flat_map(|s| self.bdps.iter().map(|b| scenario(s, *b))).collect()
    }

    fn findings(&self, results: &[RunResult]) -> Vec<Finding> {
        let lines = self.lines(results);
        let means: Vec<f64> = lines.iter().map(mean).collect();
        let [ae, four, a4l4, two_af, a8l8, two] = means[..] else { return Vec::new() };
        let text = |v: &[f64]| {
            let cell = |(s, x): (&&str, &f64)| format!("{s} {}", percent(*x));
            STRATEGIES.iter().zip(v).map(cell).collect::<Vec<_>>().join(", ")
        };
        // About equal: closer to each other than a step of the order.
        let slack = 0.01;
        let ordered = ae + slack >= four.max(a4l4)
            && four.min(a4l4) + slack >= two_af.max(a8l8)
            && two_af.min(a8l8) + slack >= two;
        let mut findings = vec![Finding::new(
            "L8",
            "1 Mbit/s: mean utilisation over buffers",
            "AE > 4W ~ A4L4 > 2WAF ~ A8L8 > 2W",
            text(&means),
            ordered,
        )];
        let need = |i: usize| reaches(&lines[i], FULL);
        let ae_need = need(0);
        for (i, n) in [(1, 4.0), (5, 2.0)] {
            let paper = 1.0 / (n - 1.0);
            let beyond = need(i).zip(ae_need).map(|(own, ae)| own - ae);
            // A line that never gets there needs more than the greatest buffer tried.
            let most = self.bdps.last().copied().unwrap_or(0.0);
            let ours = beyond.map_or_else(
                || format!("more than {most:.1} bdp in all"),
                |b| format!("{b:.2} bdp"),
            );
            let agrees = beyond.is_some_and(|b| (b - paper).abs() <= 0.5);
            findings.push(
                Finding::new(
                    "L8",
                    format!("{}: buffer beyond AE's to reach {}", STRATEGIES[i], percent(FULL)),
                    format!("{paper:.2} bdp (Eq. 1)"),
                    ours,
                    agrees,
                )
                .because(
                    "Eq. 1 is \"roughly given\" and leaves out that bursts fill the buffer too",
                ),
            );
        }
        findings
    }

    fn figures(&self, results: &[RunResult]) -> Vec<Lines> {
        vec![Lines {
            title: "One flow at 1 Mbit/s: utilisation over the buffer".to_owned(),
            x: "buffer, bandwidth-delay products",
            y: "utilisation",
            level: None,
            lines: self.lines(results),
        }]
    }
}
