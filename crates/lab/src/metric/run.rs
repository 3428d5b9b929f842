//! Figures of whole runs, of each kind of flows, and of other backends.

use std::collections::BTreeMap;

use super::{Of, figures, finite};
use crate::result::{FlowResult, RunResult};
use crate::scenario::{Flow, Scenario};

/// Every figure of a run: of all flows, `GROUP.NAME` of each kind where there are several, and
/// `extra` beside them.
pub fn of_run(
    scenario: &Scenario,
    run: &RunResult,
    extra: &BTreeMap<String, f64>,
) -> BTreeMap<String, f64> {
    let mut all = figures(scenario, &run.flows);
    all.extend(finite(|m| if let Of::Run(of) = m.of { of(scenario, run) } else { None }));
    all.extend(extra.clone());
    let groups = scenario.groups();
    if groups.len() < 2 {
        return all;
    }
    let entries: Vec<Flow> = scenario.flows().collect();
    for (name, members) in groups {
        let flows: Vec<FlowResult> =
            members.iter().filter_map(|i| run.flows.get(*i).cloned()).collect();
        // As if only this group were there: what a formula needs are its entries.
        let own: Vec<Flow> = members.iter().filter_map(|i| entries.get(*i).cloned()).collect();
        let Some(first) = own.first().cloned() else { continue };
        let own = Scenario { flow: own, ..scenario.clone() };
        let rivals: Vec<f64> = entries
            .iter()
            .zip(&run.flows)
            .filter(|(e, _)| e.direction == first.direction)
            .map(|(_, f)| f.goodput_bps)
            .collect();
        let fair = rivals.iter().sum::<f64>() / (rivals.len() as f64).max(1.0);
        let mean = flows.iter().map(|f| f.goodput_bps).sum::<f64>() / (flows.len() as f64).max(1.0);
        if fair > 0.0 {
            all.insert(format!("{name}.share"), mean / fair);
        }
        let figures = figures(&own, &flows).into_iter();
        all.extend(figures.map(|(metric, v)| (format!("{name}.{metric}"), v)));
    }
    all
}

/// What a run in real time knows of: what passed its path.
pub const LIVE: &[&str] = &[
    "flows",
    "measured",
    "goodput",
    "delivered",
    "acks",
    "data",
    "ack_rate",
    "goodput_bps",
    "data_packets_per_s",
    "ack_packets_per_s",
    "ack_bytes_per_s",
    "data_lost_per_s",
    "acks_per_packet",
    "ack_bytes_per_packet",
    "bytes_per_ack",
    "data_loss",
    "lost_packets",
    "jain",
    "share",
    "utilisation",
    "queue_drops",
    "link_losses",
    "late_p999_us",
    "late_max_us",
];

/// Those figures of a run in real time.
#[cfg(target_os = "linux")]
pub(crate) fn of_live(
    scenario: &Scenario,
    run: &RunResult,
    extra: &BTreeMap<String, f64>,
) -> BTreeMap<String, f64> {
    let mut all = of_run(scenario, run, extra);
    all.retain(|name, _| LIVE.contains(&super::base(name)));
    all
}
