//! Figures of whole runs, of each kind of flows, and of other backends.

use std::collections::BTreeMap;

use super::{METRICS, figures};
use crate::result::{DirectionResult, FlowResult, RunResult};
use crate::scenario::{Flow, Scenario};

/// A figure of the whole run.
pub struct RunMetric {
    /// As in records.
    pub name: &'static str,
    /// Of its values.
    pub unit: &'static str,
    /// In a few words.
    pub what: &'static str,
    /// `None` where there is none.
    pub of: fn(&Scenario, &RunResult) -> Option<f64>,
}

/// All there are, and what other backends and series add.
pub const RUN_METRICS: &[RunMetric] = &[
    RunMetric {
        name: "utilisation",
        unit: "share",
        what: "IP-level bytes out of the bottleneck, server to client, over its rate",
        of: |scenario, run| {
            let mbps = scenario.wan.as_ref()?.down().rate_mbps?;
            Some(run.wan?.down.delivered_bps / mbps / 1e6)
        },
    },
    RunMetric {
        name: "queue_drop_share",
        unit: "share",
        what: "packets the bottleneck's queue dropped, of those offered, server to client",
        of: |_, run| down(run).map(|d| d.queue_drop_share),
    },
    RunMetric {
        name: "ack_airtime",
        unit: "share",
        what: "time the medium carried acknowledgments of the transport",
        of: |_, run| run.airtime.map(|a| a.acks),
    },
    RunMetric {
        name: "collision_share",
        unit: "share",
        what: "channel accesses that collided",
        of: |_, run| run.collision_share,
    },
    RunMetric {
        name: "queue_drops",
        unit: "packets",
        what: "packets dropped by queues, both directions, the whole run",
        of: |_, run| Some(run.queue_drops as f64),
    },
    RunMetric {
        name: "link_losses",
        unit: "packets",
        what: "packets lost on links, both directions, the whole run",
        of: |_, run| Some(run.link_losses as f64),
    },
];

/// Figures that come from elsewhere: a name, a unit, and what it is.
pub const OTHERS: &[(&str, &str, &str)] = &[
    ("share", "", "of a group: a flow's mean goodput over that of all flows of its direction"),
    ("ideal_goodput_bps", "bit/s", "goodput of open-loop traffic with as many ACKs"),
    ("wire_bps", "bit/s", "IP-level bytes of open-loop traffic that arrived"),
    ("ack_delivered_per_s", "1/s", "ACKs of open-loop traffic that arrived"),
    ("minimum_window_bdp", "", "W_min in bandwidth-delay products [TON §VIII]"),
    ("bottleneck_buffer_bdp", "", "the buffer W_min asks for, in bdp [TON §VIII]"),
    ("minimum_beta", "", "least beta at the loss rate of the ACK path"),
    ("maximum_l", "", "greatest L at the loss rates of both paths"),
    ("cwnd_bytes", "bytes", "over time: congestion window"),
    ("srtt_us", "us", "over time: smoothed round trip"),
    ("pacing_bps", "bit/s", "over time: pacing rate"),
    ("blocked_bytes", "bytes", "over time: what waits behind a hole"),
    ("blocked_p50_bytes", "bytes", "median over time of what waits behind a hole"),
    ("blocked_p90_bytes", "bytes", "90th percentile of the same"),
    ("blocked_max_bytes", "bytes", "most of the same"),
    ("rtt_min_mean_us", "us", "RTTmin in force, mean over time"),
    ("latency_p50_us", "us", "request to complete response, median"),
    ("latency_p95_us", "us", "the same, 95th percentile"),
    ("latency_p99_us", "us", "the same, 99th percentile"),
    ("acks_per_mb", "1/MB", "packets from the receiver's end, per 10^6 bytes delivered"),
    ("cpu_s_per_gb", "s/GB", "user and system time of both ends' processes, per 10^9 bytes"),
    ("sender_cpu_s_per_gb", "s/GB", "of it, the sender's"),
    ("receiver_cpu_s_per_gb", "s/GB", "of it, the receiver's"),
    ("sender_rss_mb", "MB", "most memory resident at the sender"),
    ("receiver_rss_mb", "MB", "most memory resident at the receiver"),
    ("late_p999_us", "us", "in real time: 999 of 1000 packets left the path no later than this"),
    ("late_max_us", "us", "in real time: the greatest lateness of a packet"),
    ("window_formula", "segments", "mean window by the published formula for periodic losses"),
    ("window_ideal", "segments", "the same for these losses, reductions at once"),
    ("window_expected", "segments", "the same with reductions a round trip after their loss"),
    ("settle_up_s", "s", "from a rise of the path's rate until the pacing rate is within 5 %"),
    ("settle_down_s", "s", "from a fall of the path's rate until the pacing rate is within 5 %"),
    ("regain_s", "s", "after the first outage, from the least window to a quarter of that before"),
];

/// The unit of a figure, whichever group it is of; `None`: there is no such figure.
pub fn unit(name: &str) -> Option<&'static str> {
    about(name).map(|(unit, _)| unit)
}

/// Unit and meaning of a figure, whichever group it is of; `None`: there is no such figure.
pub fn about(name: &str) -> Option<(&'static str, &'static str)> {
    let name = name.rsplit_once('.').map_or(name, |parts| parts.1);
    let flows = METRICS.iter().map(|m| (m.name, m.unit, m.what));
    let runs = RUN_METRICS.iter().map(|m| (m.name, m.unit, m.what));
    let all = flows.chain(runs).chain(OTHERS.iter().copied());
    all.into_iter().find(|(n, ..)| *n == name).map(|(_, unit, what)| (unit, what))
}

/// That there is no figure of that name, and which one may be meant: what goes on from a key.
pub(crate) fn unknown(name: &str) -> String {
    if name.is_empty() {
        return "is missing: a figure of docs/experiments.md".to_owned();
    }
    let flows = METRICS.iter().map(|m| m.name);
    let all = flows.chain(RUN_METRICS.iter().map(|m| m.name)).chain(OTHERS.iter().map(|m| m.0));
    let base = name.rsplit_once('.').map_or(name, |parts| parts.1);
    let near = all.min_by_key(|known| strsim::levenshtein(known, base));
    let meant = near.map(|n| format!("; {n}, perhaps")).unwrap_or_default();
    format!("is `{name}`, which no record has{meant} (docs/experiments.md has all)")
}

/// Every figure of a run: of all flows, `GROUP.NAME` of each kind where there are several, and
/// `extra` beside them.
pub fn of_run(
    scenario: &Scenario,
    run: &RunResult,
    extra: &BTreeMap<String, f64>,
) -> BTreeMap<String, f64> {
    let mut all = figures(scenario, &run.flows);
    let whole =
        RUN_METRICS.iter().filter_map(|m| Some((m.name.to_owned(), (m.of)(scenario, run)?)));
    all.extend(whole.filter(|(_, v)| v.is_finite()));
    all.extend(extra.clone());
    let groups = scenario.groups();
    if groups.len() < 2 {
        return all;
    }
    let entries: Vec<Flow> = scenario.flows().collect();
    for (name, members) in groups {
        let flows: Vec<FlowResult> =
            members.iter().filter_map(|i| run.flows.get(*i).cloned()).collect();
        let Some(first) = members.first().and_then(|i| entries.get(*i)) else { continue };
        // As if only this group were there: what a formula needs is its entry.
        let own = Scenario { flow: vec![first.clone()], ..scenario.clone() };
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
    all.retain(|name, _| LIVE.contains(&name.rsplit_once('.').map_or(name.as_str(), |p| p.1)));
    all
}

fn down(run: &RunResult) -> Option<DirectionResult> {
    run.wan.map(|w| w.down)
}
