//! Columns of a table that names none.

use std::collections::BTreeSet;

use crate::draw::Words;
use crate::metric::{METRICS, base};
use crate::pivot::Results;

/// What is looked at first of flows on a path.
pub(super) const USUAL: [&str; 7] = [
    "goodput_bps",
    "data_packets_per_s",
    "ack_packets_per_s",
    "retransmissions",
    "queue_drops",
    "rtt_p50_us",
    "rtt_p95_us",
];

/// Every figure that runs have, where they have none of the usual ones: programs of others, and formulas.
pub(super) fn others(results: &Results<'_>) -> Vec<String> {
    let runs = results.select(&Words::new());
    let names: BTreeSet<&String> = runs.iter().flat_map(|(_, run)| run.metrics.keys()).collect();
    if names.iter().any(|name| USUAL.contains(&base(name))) {
        return Vec::new();
    }
    let mut names: Vec<String> = names.into_iter().cloned().collect();
    names.sort_by_key(|name| METRICS.iter().position(|metric| metric.name == base(name)));
    names
}
