//! L10 and L12, Fig. 10 to 12: each strategy against as many flows of AE.

use tack_cc::Algorithm;

use super::{named, percent};
use crate::dumbbell::Queue;
use crate::fairness::{self, Fairness, FairnessRow, TOLERANCE};
use crate::plot::Lines;
use crate::reproduce::{Claim, Extent, Finding};
use crate::result::RunResult;
use crate::scenario::Scenario;

/// The paper's strategies; DAL2 first with its long timer, then with the short one.
const STRATEGIES: [(&str, u32); 6] =
    [("DAL2", 1_000), ("DAL2", 100), ("A4L4", 100), ("A8L8", 100), ("2WAF", 100), ("4WAF", 100)];

/// Half the flows AE.
#[derive(Clone, Debug)]
pub struct Sharing {
    fairness: Fairness,
}

impl Sharing {
    /// Drop-tail and RED, from few flows to many.
    pub fn new(extent: Extent) -> Sharing {
        let usual = Fairness {
            strategies: STRATEGIES.iter().map(|(name, ms)| named(name, *ms)).collect(),
            queues: vec![Queue::DropTail(1.0), Queue::Red],
            cc: Algorithm::NewReno,
            other_cc: Algorithm::NewReno,
            ..Fairness::default()
        };
        let fairness = match extent {
            Extent::Short => Fairness {
                queues: vec![Queue::Red],
                flows: vec![8, 32],
                seeds: 2,
                duration_s: 40.0,
                warmup_s: 10.0,
                ..usual
            },
            Extent::Usual => usual,
            Extent::Full => Fairness { rates_mbps: vec![8.0, 15.0], seeds: 10, ..usual },
        };
        Sharing { fairness }
    }

    fn of_strategy(rows: &[FairnessRow], index: usize) -> Finding {
        let (name, ms) = STRATEGIES[index];
        let long = (name, ms) == ("DAL2", 1_000);
        let shares: Vec<String> = rows.iter().map(|r| format!("{:.2}", r.share)).collect();
        let flows: Vec<String> = rows.iter().map(|r| r.flows.to_string()).collect();
        let worst = rows.iter().map(|r| r.share).fold(f64::MAX, f64::min);
        let what = format!(
            "{} Mbit/s, {}: {name}@{ms} ms, share with {} flows",
            rows[0].rate_mbps,
            rows[0].queue,
            flows.join(" ")
        );
        let ours = shares.join(" ");
        if long {
            let paper = "clearly below 1 at high loss";
            let agrees = worst < 1.0 - TOLERANCE;
            return Finding::new("L10", what, paper, ours, agrees).because(
                "TLP and the immediate acknowledgment of what fills a hole leave few timeouts \
                 that a long timer could repeat",
            );
        }
        let fair = rows.iter().all(FairnessRow::is_fair);
        Finding::new("L10", what, "1 +- 0.1", ours, fair).because(if rows[0].queue == "red" {
            "acknowledged later, a window takes longer to leave, and rates go by that round; \
             windows themselves are what as many losses leave of AE's"
        } else {
            "acknowledged later, a window takes longer to leave; and a full drop-tail queue takes \
             several packets of a clump but single ones of what timers spread, and windows fall \
             by the event: AE loses a tenth to AE when it alone is paced"
        })
    }

    fn losses(rows: &[FairnessRow], index: usize) -> Finding {
        let (name, ms) = STRATEGIES[index];
        let ratio = |r: &FairnessRow| r.loss / r.loss_every_segment.max(1e-9);
        let ratios: Vec<f64> =
            rows.iter().filter(|r| r.loss_every_segment > 0.005).map(ratio).collect();
        let text: Vec<String> = ratios.iter().map(|r| format!("{r:.2}")).collect();
        let most = rows.iter().map(|r| r.loss_every_segment).fold(0.0, f64::max);
        let what = format!(
            "{} Mbit/s, {}: {name}@{ms} ms, loss rate of AE's (up to {})",
            rows[0].rate_mbps,
            rows[0].queue,
            percent(most)
        );
        let (paper, agrees) = if name == "DAL2" {
            ("lower at high loss", ratios.last().is_none_or(|last| *last < 1.0))
        } else {
            ("equal", ratios.iter().all(|r| (r - 1.0).abs() <= 0.2))
        };
        Finding::new("L12", what, paper, text.join(" "), agrees)
            .because("bursts lose more at a full drop-tail queue than single segments do")
    }
}

impl Claim for Sharing {
    fn row(&self) -> &'static str {
        "L10"
    }

    fn scenarios(&self) -> Vec<Scenario> {
        self.fairness.scenarios()
    }

    fn findings(&self, results: &[RunResult]) -> Vec<Finding> {
        let rows = self.fairness.summarise(results);
        let strategies: Vec<&[FairnessRow]> = rows.chunks(self.fairness.flows.len()).collect();
        let mut findings = Vec::new();
        for (i, rows) in strategies.iter().enumerate() {
            findings.push(Self::of_strategy(rows, i % STRATEGIES.len()));
        }
        for (i, rows) in strategies.iter().enumerate() {
            findings.push(Self::losses(rows, i % STRATEGIES.len()));
        }
        findings
    }

    fn figures(&self, results: &[RunResult]) -> Vec<Lines> {
        fairness::figures(&self.fairness.summarise(results))
    }
}
