//! The figures of records: one table of names, units and how each is computed.

use core::time::Duration;
use std::collections::BTreeMap;

use tack_units::Rate;

use crate::result::FlowResult;
use crate::scenario::{Scenario, Strategy};

/// Text of a full segment under TACK, bytes.
const TACK_TEXT_BYTES: u32 = 1_440;

/// A figure of the flows under test.
pub struct Metric {
    /// As in records.
    pub name: &'static str,
    /// Of its values.
    pub unit: &'static str,
    /// In a few words.
    pub what: &'static str,
    /// Of these flows of a run of this scenario; `None` where there is none.
    pub of: fn(&Scenario, &[FlowResult]) -> Option<f64>,
}

/// All there are.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "flows",
        unit: "",
        what: "flows under test",
        of: |_, flows| Some(flows.len() as f64),
    },
    Metric {
        name: "measured",
        unit: "s",
        what: "length of the run after its warm-up",
        of: |scenario, _| Some(scenario.duration_s - scenario.warmup_s),
    },
    Metric {
        name: "goodput",
        unit: "bit/s",
        what: "application bytes delivered, from the flows' start to the end of the run",
        of: |scenario, flows| Some(sum(flows, |f| f.delivered_bytes) * 8.0 / scenario.duration_s),
    },
    Metric {
        name: "delivered",
        unit: "bytes",
        what: "application bytes delivered",
        of: |_, flows| Some(sum(flows, |f| f.delivered_bytes)),
    },
    Metric {
        name: "completion",
        unit: "s",
        what: "mean time at which the flows' last bytes were read; none unless all were",
        of: |_, flows| {
            let times: Option<Vec<f64>> = flows.iter().map(|f| f.completed_at_s).collect();
            times.map(|t| t.iter().sum::<f64>() / t.len().max(1) as f64)
        },
    },
    Metric {
        name: "acks",
        unit: "packets",
        what: "packets without text, of all kinds and both ends",
        of: |_, flows| Some(sum(flows, |f| f.bare_packets)),
    },
    Metric {
        name: "data",
        unit: "packets",
        what: "packets with text",
        of: |_, flows| Some(sum(flows, |f| f.data_packets)),
    },
    Metric {
        name: "resent",
        unit: "segments",
        what: "segments sent again",
        of: |_, flows| Some(sum(flows, |f| f.retransmissions)),
    },
    Metric {
        name: "timeouts",
        unit: "",
        what: "retransmission timeouts",
        of: |_, flows| Some(sum(flows, |f| f.timeouts)),
    },
    Metric {
        name: "ack_rate",
        unit: "1/s",
        what: "acknowledgments after the warm-up",
        of: |_, flows| Some(flows.iter().map(|f| f.ack_packets_per_s).sum()),
    },
    Metric {
        name: "iack_rate",
        unit: "1/s",
        what: "of them, IACKs",
        of: |_, flows| Some(flows.iter().map(|f| f.iacks_per_s).sum()),
    },
    Metric {
        name: "eq4_rate",
        unit: "1/s",
        what: "acknowledgments by [TON Eq. 4] with what was delivered after the warm-up as bw",
        of: |scenario, flows| flows.iter().map(|f| eq4(scenario, f)).sum(),
    },
    Metric {
        name: "rtt_min_low",
        unit: "",
        what: "how far the least RTTmin lies below what any packets really took, relative",
        of: |_, flows| {
            let low = |f: &FlowResult| Some(1.0 - f.rtt_min_us? / f.owd_floor_us?);
            flows.iter().filter_map(low).reduce(f64::max)
        },
    },
    Metric {
        name: "rtt_min_high",
        unit: "us",
        what: "by how much the greatest RTTmin exceeds the data's least delay and the usual one \
               back",
        of: |_, flows| {
            let high = |f: &FlowResult| Some(f.rtt_min_us? - f.owd_usual_us?);
            flows.iter().filter_map(high).reduce(f64::max)
        },
    },
    Metric {
        name: "rtt_usual",
        unit: "us",
        what: "the data's least delay and the usual one back, the greatest of the flows",
        of: |_, flows| flows.iter().filter_map(|f| f.owd_usual_us).reduce(f64::max),
    },
    Metric {
        name: "rtt_p95",
        unit: "us",
        what: "95th percentile of the smoothed RTT, the greatest of the flows",
        of: |_, flows| flows.iter().filter_map(|f| f.rtt_p95_us).reduce(f64::max),
    },
];

/// Every figure that these flows of a run have.
pub fn figures(scenario: &Scenario, flows: &[FlowResult]) -> BTreeMap<String, f64> {
    let figure = |m: &Metric| Some((m.name.to_owned(), (m.of)(scenario, flows)?));
    METRICS.iter().filter_map(figure).filter(|(_, v)| v.is_finite()).collect()
}

fn sum(flows: &[FlowResult], of: impl Fn(&FlowResult) -> u64) -> f64 {
    flows.iter().map(|f| of(f) as f64).sum()
}

/// Of the first entry's settings, which the flows under test share.
fn eq4(scenario: &Scenario, flow: &FlowResult) -> Option<f64> {
    let entry = scenario.flow.first()?;
    let Strategy::Tcp(ack) = entry.strategy else { return None };
    ack.tack()?;
    let bw = Rate::from_bps(flow.goodput_bps as u64);
    // A queue that never empties makes the sender's RTTmin grow in the end; what it was all the while
    // is not known, but it was not less than this.
    let rtt_min_us = flow.rtt_min_us?.min(flow.owd_floor_us.unwrap_or(f64::INFINITY));
    let rtt_min = Duration::from_secs_f64(rtt_min_us / 1e6);
    let counting =
        bw.as_bps() as f64 / (8.0 * f64::from(entry.segments_per_ack) * f64::from(TACK_TEXT_BYTES));
    Some(counting.min(f64::from(entry.beta) / rtt_min.as_secs_f64().max(1e-9)))
}
