//! The figures of records: one table of names, units and how each is computed.
//!
//! Names that end in a unit, such as `goodput_bps`, count from the end of the warm-up; the others
//! are of the whole run.

mod run;

use core::time::Duration;
use std::collections::BTreeMap;

use tack_tcp::PathFacts;
use tack_units::{Rate, math};

use crate::result::{FlowResult, VideoResult};
use crate::scenario::{Scenario, StockAcks, Strategy};

#[cfg(target_os = "linux")]
pub(crate) use run::of_live;
pub(crate) use run::unknown;
pub use run::{LIVE, OTHERS, RUN_METRICS, RunMetric, about, of_run, unit};

/// Text of a full segment with timestamps, and under TACK, bytes.
const TEXT_BYTES: u32 = 1_448;
const TACK_TEXT_BYTES: u32 = 1_440;
/// Stream data in a full packet of a stock QUIC stack, as near as a constant can be.
const QUIC_TEXT_BYTES: u32 = 1_400;
/// Of an Ethernet frame around a packet, bytes.
const ETHERNET_BYTES: f64 = 14.0;

/// A figure of the flows under test.
pub struct Metric {
    /// As in records.
    pub name: &'static str,
    /// Of its values.
    pub unit: &'static str,
    /// In a few words.
    pub what: &'static str,
    /// Of these flows of a run of this scenario; `None` where there is none.
    pub of: Of,
}

/// How a figure of several flows is computed.
pub enum Of {
    /// The sum of what each has.
    Sum(fn(&FlowResult) -> f64),
    /// From all of them.
    All(fn(&Scenario, &[FlowResult]) -> Option<f64>),
    /// Of those that are videos: the sum of the first over that of the second.
    Videos(fn(&VideoResult) -> Option<(f64, f64)>),
}

/// All there are.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "flows",
        unit: "",
        what: "flows under test",
        of: Of::All(|_, flows| Some(flows.len() as f64)),
    },
    Metric {
        name: "measured",
        unit: "s",
        what: "length of the run after its warm-up",
        of: Of::All(|scenario, _| Some(scenario.duration_s - scenario.warmup_s)),
    },
    Metric {
        name: "goodput",
        unit: "bit/s",
        what: "application bytes delivered, from the flows' start to the end of the run",
        of: Of::All(|scenario, flows| {
            Some(sum(flows, |f| f.delivered_bytes) * 8.0 / scenario.duration_s)
        }),
    },
    Metric {
        name: "delivered",
        unit: "bytes",
        what: "application bytes delivered",
        of: Of::All(|_, flows| Some(sum(flows, |f| f.delivered_bytes))),
    },
    Metric {
        name: "completion",
        unit: "s",
        what: "mean time at which the flows' last bytes were read; none unless all were",
        of: Of::All(|_, flows| {
            let times: Option<Vec<f64>> = flows.iter().map(|f| f.completed_at_s).collect();
            times.map(|t| t.iter().sum::<f64>() / t.len().max(1) as f64)
        }),
    },
    Metric {
        name: "acks",
        unit: "packets",
        what: "packets without text, of all kinds and both ends",
        of: Of::All(|_, flows| Some(sum(flows, |f| f.bare_packets))),
    },
    Metric {
        name: "data",
        unit: "packets",
        what: "packets with text",
        of: Of::All(|_, flows| Some(sum(flows, |f| f.data_packets))),
    },
    Metric {
        name: "resent",
        unit: "segments",
        what: "segments sent again",
        of: Of::All(|_, flows| Some(sum(flows, |f| f.retransmissions))),
    },
    Metric {
        name: "resent_share",
        unit: "share",
        what: "segments sent again, of the packets with text",
        of: Of::All(|_, flows| {
            Some(sum(flows, |f| f.retransmissions) / sum(flows, |f| f.data_packets).max(1.0))
        }),
    },
    Metric {
        name: "timeouts",
        unit: "",
        what: "retransmission timeouts",
        of: Of::All(|_, flows| Some(sum(flows, |f| f.timeouts))),
    },
    Metric {
        name: "ack_rate",
        unit: "1/s",
        what: "acknowledgments after the warm-up",
        of: Of::All(|_, flows| Some(flows.iter().map(|f| f.ack_packets_per_s).sum())),
    },
    Metric {
        name: "iack_rate",
        unit: "1/s",
        what: "of them, IACKs",
        of: Of::All(|_, flows| Some(flows.iter().map(|f| f.iacks_per_s).sum())),
    },
    Metric {
        name: "eq4_rate",
        unit: "1/s",
        what: "acknowledgments by [TON Eq. 4] with what was delivered after the warm-up as bw",
        of: Of::All(|scenario, flows| flows.iter().map(|f| eq4(scenario, f)).sum()),
    },
    Metric {
        name: "rtt_min_low",
        unit: "",
        what: "how far the least RTTmin lies below what any packets really took, relative",
        of: Of::All(|_, flows| {
            let low = |f: &FlowResult| Some(1.0 - f.rtt_min_us? / f.owd_floor_us?);
            flows.iter().filter_map(low).reduce(f64::max)
        }),
    },
    Metric {
        name: "rtt_min_high",
        unit: "us",
        what: "by how much the greatest RTTmin exceeds the data's least delay and the usual one \
               back",
        of: Of::All(|_, flows| {
            let high = |f: &FlowResult| Some(f.rtt_min_us? - f.owd_usual_us?);
            flows.iter().filter_map(high).reduce(f64::max)
        }),
    },
    Metric {
        name: "rtt_usual",
        unit: "us",
        what: "the data's least delay and the usual one back, the greatest of the flows",
        of: Of::All(|_, flows| flows.iter().filter_map(|f| f.owd_usual_us).reduce(f64::max)),
    },
    Metric {
        name: "rtt_p95",
        unit: "us",
        what: "95th percentile of the smoothed RTT, the greatest of the flows",
        of: Of::All(|_, flows| flows.iter().filter_map(|f| f.rtt_p95_us).reduce(f64::max)),
    },
    rate("goodput_bps", "bit/s", "application bytes delivered", |f| f.goodput_bps),
    Metric {
        name: "present_goodput_bps",
        unit: "bit/s",
        what: "goodput while the flow was there, from its start to its stop; the sum of the flows",
        of: Of::All(|scenario, flows| {
            let measured = scenario.duration_s - scenario.warmup_s;
            let there = flows.iter().filter(|f| f.present_s > 0.0);
            Some(there.map(|f| f.goodput_bps * measured / f.present_s).sum())
        }),
    },
    rate("data_packets_per_s", "1/s", "packets with text", |f| f.data_packets_per_s),
    rate("ack_packets_per_s", "1/s", "packets that only acknowledge", |f| f.ack_packets_per_s),
    rate("ack_bytes_per_s", "B/s", "IP-level bytes of packets without text", |f| f.ack_bytes_per_s),
    rate("iacks_per_s", "1/s", "instant acknowledgments of TACK", |f| f.iacks_per_s),
    rate("data_lost_per_s", "1/s", "packets with text that did not arrive", |f| f.data_lost_per_s),
    rate("timeouts_per_s", "1/s", "retransmission timeouts", |f| f.timeouts_per_s),
    rate("retransmissions", "segments", "segments sent again, the whole run", |f| {
        f.retransmissions as f64
    }),
    Metric {
        name: "acks_per_packet",
        unit: "",
        what: "acknowledgments per packet with text",
        of: Of::All(|_, flows| ratio(flows, |f| f.ack_packets_per_s, |f| f.data_packets_per_s)),
    },
    Metric {
        name: "ack_bytes_per_packet",
        unit: "bytes",
        what: "IP-level bytes of acknowledgments per packet with text",
        of: Of::All(|_, flows| ratio(flows, |f| f.ack_bytes_per_s, |f| f.data_packets_per_s)),
    },
    Metric {
        name: "bytes_per_ack",
        unit: "bytes",
        what: "IP-level bytes of an acknowledgment",
        of: Of::All(|_, flows| ratio(flows, |f| f.ack_bytes_per_s, |f| f.ack_packets_per_s)),
    },
    Metric {
        name: "acks_per_window",
        unit: "",
        what: "acknowledgments per receive window of data",
        of: Of::All(|scenario, flows| {
            let window = f64::from(scenario.flow.first()?.rwnd_segments?);
            Some(ratio(flows, |f| f.ack_packets_per_s, |f| f.data_packets_per_s)? * window)
        }),
    },
    Metric {
        name: "return_bytes",
        unit: "bytes",
        what: "Ethernet bytes of packets without text, from the warm-up on",
        of: Of::All(|scenario, flows| {
            let per_s: f64 = flows
                .iter()
                .map(|f| f.ack_bytes_per_s + f.ack_packets_per_s * ETHERNET_BYTES)
                .sum();
            Some(per_s * (scenario.duration_s - scenario.warmup_s))
        }),
    },
    Metric {
        name: "formula_per_s",
        unit: "1/s",
        what: "acknowledgments by the strategy's formula at the goodput, RTTmin and round trip \
               measured",
        of: Of::All(|scenario, flows| flows.iter().map(|f| formula(scenario, f)).sum()),
    },
    Metric {
        name: "throughput_bps",
        unit: "bit/s",
        what: "a file's bytes over the time from the flow's start until the last was read, or until the \
               run's end",
        of: Of::All(|scenario, flows| {
            let each =
                flows.iter().map(|f| f.delivered_bytes as f64 * 8.0 / transfer_s(scenario, f));
            Some(each.sum())
        }),
    },
    Metric {
        name: "transfer_s",
        unit: "s",
        what: "mean time from a flow's start until its last byte was read, or the run's end",
        of: Of::All(|scenario, flows| mean(flows, |f| Some(transfer_s(scenario, f)))),
    },
    Metric {
        name: "acks_per_transfer_s",
        unit: "1/s",
        what: "acknowledgments of the whole run over the time of the transfers",
        of: Of::All(|scenario, flows| {
            let took = mean(flows, |f| Some(transfer_s(scenario, f)))?;
            Some(sum(flows, |f| f.bare_packets) / took)
        }),
    },
    Metric {
        name: "data_loss",
        unit: "share",
        what: "packets with text that did not arrive, of those that left",
        of: Of::All(|_, flows| mean(flows, |f| Some(f.data_loss))),
    },
    Metric {
        name: "lost_packets",
        unit: "packets",
        what: "packets with text that did not arrive, from the warm-up on",
        of: Of::All(|scenario, flows| {
            let per_s: f64 = flows.iter().map(|f| f.data_lost_per_s).sum();
            Some(per_s * (scenario.duration_s - scenario.warmup_s))
        }),
    },
    Metric {
        name: "cwnd_segments",
        unit: "segments",
        what: "mean congestion window, of 1448 bytes",
        of: Of::All(|_, flows| mean(flows, |f| Some(f.cwnd_mean_bytes / f64::from(TEXT_BYTES)))),
    },
    Metric {
        name: "round_ms",
        unit: "ms",
        what: "time in which a mean congestion window leaves: the round trip its controller lives",
        of: Of::All(|scenario, flows| {
            let segment = scenario.flow.first()?.segment_bytes.map_or(TEXT_BYTES, u32::from);
            let windows = |f: &FlowResult| f.cwnd_mean_bytes * 1e3 / f64::from(segment);
            ratio(flows, windows, |f| f.data_packets_per_s)
        }),
    },
    Metric {
        name: "events_per_packet",
        unit: "",
        what: "window reductions, losses and timeouts alike, per packet with text",
        of: Of::All(|_, flows| {
            let events = |f: &FlowResult| f.loss_episodes_per_s + f.timeouts_per_s;
            ratio(flows, events, |f| f.data_packets_per_s)
        }),
    },
    Metric {
        name: "lost_per_event",
        unit: "packets",
        what: "packets with text that did not arrive, per window reduction",
        of: Of::All(|_, flows| {
            let events = |f: &FlowResult| f.loss_episodes_per_s + f.timeouts_per_s;
            ratio(flows, |f| f.data_lost_per_s, events)
        }),
    },
    Metric {
        name: "window",
        unit: "segments",
        what: "goodput over one mean smoothed round trip",
        of: Of::All(|_, flows| {
            let segments =
                |f: &FlowResult| f.goodput_bps / 8.0 * f.srtt_mean_us / 1e6 / f64::from(TEXT_BYTES);
            mean(flows, |f| Some(segments(f)).filter(|s| *s > 0.0))
        }),
    },
    Metric {
        name: "rtt_p50_us",
        unit: "us",
        what: "median of the smoothed round trip, the mean of the flows",
        of: Of::All(|_, flows| mean(flows, |f| f.rtt_p50_us)),
    },
    Metric {
        name: "srtt_mean_us",
        unit: "us",
        what: "mean smoothed round trip, the mean of the flows",
        of: Of::All(|_, flows| mean(flows, |f| Some(f.srtt_mean_us).filter(|us| *us > 0.0))),
    },
    Metric {
        name: "rtt_p95_us",
        unit: "us",
        what: "95th percentile of the smoothed round trip, the mean of the flows",
        of: Of::All(|_, flows| mean(flows, |f| f.rtt_p95_us)),
    },
    Metric {
        name: "rtt_min_us",
        unit: "us",
        what: "RTTmin in force at the end, the mean of the flows",
        of: Of::All(|_, flows| mean(flows, |f| f.rtt_min_us)),
    },
    Metric {
        name: "queue_delay_p95_us",
        unit: "us",
        what: "95th percentile of the data's one-way delay above its least, the mean of the flows",
        of: Of::All(|_, flows| mean(flows, |f| f.queue_delay_p95_us)),
    },
    Metric {
        name: "jain",
        unit: "",
        what: "Jain's index of the flows' goodput: 1 where all have the same",
        of: Of::All(|_, flows| {
            let square: f64 = flows.iter().map(|f| f.goodput_bps).sum::<f64>().powi(2);
            let squares: f64 = flows.iter().map(|f| f.goodput_bps.powi(2)).sum();
            (squares > 0.0).then(|| square / squares / flows.len() as f64)
        }),
    },
    Metric {
        name: "power",
        unit: "",
        what: "log2 of goodput in Mbit/s over the 95th percentile of the one-way delay in ms \
               [SIG §6]",
        of: Of::All(|scenario, flows| {
            let mbps = flows.iter().map(|f| f.goodput_bps).sum::<f64>() / 1e6;
            let queue_ms = mean(flows, |f| f.queue_delay_p95_us)? / 1e3;
            let ms = queue_ms + scenario.base_rtt().as_secs_f64() * 500.0;
            (mbps > 0.0 && ms > 0.0).then(|| math::log2(mbps / ms))
        }),
    },
    video("rebuffering", "share", "time in which a video stood still for want of a frame", |v| {
        Some((v.stalled_s, v.watched_s))
    }),
    video("stalls_per_min", "1/min", "how often a video came to stand still", |v| {
        Some((v.stalls as f64 * 60.0, v.watched_s))
    }),
    video(
        "late_frames",
        "share",
        "frames of a video that were not there when they were due",
        |v| Some((v.late as f64, v.frames as f64)),
    ),
    video("macroblocking", "in 30 min", "how often a video's picture became wrong", |v| {
        Some((v.macroblockings as f64 * 1_800.0, v.watched_s))
    }),
    video("damaged_frames", "share", "frames of a video that were shown wrong", |v| {
        Some((v.damaged as f64, v.frames as f64))
    }),
    video("frame_delay_p50_us", "us", "from a frame's capture until it was there, median", |v| {
        Some((v.delay_p50_us?, 1.0))
    }),
    video("frame_delay_p95_us", "us", "the same, 95th percentile", |v| {
        Some((v.delay_p95_us?, 1.0))
    }),
];

const fn video(
    name: &'static str,
    unit: &'static str,
    what: &'static str,
    of: fn(&VideoResult) -> Option<(f64, f64)>,
) -> Metric {
    Metric { name, unit, what, of: Of::Videos(of) }
}

const fn rate(
    name: &'static str,
    unit: &'static str,
    what: &'static str,
    of: fn(&FlowResult) -> f64,
) -> Metric {
    Metric { name, unit, what, of: Of::Sum(of) }
}

fn mean(flows: &[FlowResult], of: impl Fn(&FlowResult) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = flows.iter().filter_map(of).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn ratio<T>(flows: &[T], above: impl Fn(&T) -> f64, below: impl Fn(&T) -> f64) -> Option<f64> {
    let (above, below): (f64, f64) = (flows.iter().map(above).sum(), flows.iter().map(below).sum());
    (below > 0.0).then(|| above / below)
}

/// From the flow's start until its last byte was read, or the run's end.
fn transfer_s(scenario: &Scenario, flow: &FlowResult) -> f64 {
    flow.completed_at_s.unwrap_or(scenario.duration_s) - flow.started_at_s
}

/// The strategy's own formula at what the run measured: goodput, RTTmin, and as the send window
/// the median round trip's worth of goodput.
fn formula(scenario: &Scenario, flow: &FlowResult) -> Option<f64> {
    let entry = scenario.flow.first()?;
    let Strategy::Tcp(mut ack) = entry.strategy else { return None };
    if let Some(params) = ack.tack_mut() {
        *params = entry.tack_params(*params);
    }
    let time = |us: f64| Duration::from_secs_f64(us / 1e6);
    let bw = Rate::from_bps(flow.goodput_bps as u64);
    let window = bw.bytes_in(time(flow.rtt_p50_us?));
    let mss = if ack.tack().is_some() { TACK_TEXT_BYTES } else { TEXT_BYTES };
    Some(ack.frequency(&PathFacts { bw, rtt_min: time(flow.rtt_min_us?), window, mss }))
}

/// Every figure that these flows of a run have.
pub fn figures(scenario: &Scenario, flows: &[FlowResult]) -> BTreeMap<String, f64> {
    let value = |m: &Metric| match m.of {
        Of::Sum(of) => Some(flows.iter().map(of).sum()),
        Of::All(of) => of(scenario, flows),
        Of::Videos(of) => {
            let parts: Vec<(f64, f64)> =
                flows.iter().filter_map(|f| f.video.as_ref()).filter_map(of).collect();
            ratio(&parts, |p| p.0, |p| p.1)
        }
    };
    let figure = |m: &Metric| Some((m.name.to_owned(), value(m)?));
    METRICS.iter().filter_map(figure).filter(|(_, v)| v.is_finite()).collect()
}

fn sum(flows: &[FlowResult], of: impl Fn(&FlowResult) -> u64) -> f64 {
    flows.iter().map(|f| of(f) as f64).sum()
}

/// Of the first entry's settings, which the flows under test share.
fn eq4(scenario: &Scenario, flow: &FlowResult) -> Option<f64> {
    let entry = scenario.flow.first()?;
    let text_bytes = match entry.strategy {
        Strategy::Tcp(ack) => ack.tack().map(|_| TACK_TEXT_BYTES)?,
        Strategy::Quic(stock) if stock.acks == StockAcks::Eq4 => QUIC_TEXT_BYTES,
        Strategy::Quic(_) | Strategy::Udp => return None,
    };
    let bw = Rate::from_bps(flow.goodput_bps as u64);
    // A queue that never empties makes the sender's RTTmin grow in the end; what it was all the while
    // is not known, but it was not less than this.
    let least = |a: f64, b: Option<f64>| b.map_or(a, |b| a.min(b));
    let rtt_min_us =
        flow.rtt_min_us.or(flow.owd_floor_us).map(|us| least(us, flow.owd_floor_us))?;
    let rtt_min = Duration::from_secs_f64(rtt_min_us / 1e6);
    let params = entry.tack_params(tack::Params::default());
    let l = f64::from(params.segments_per_ack);
    let counting = bw.as_bps() as f64 / (8.0 * l * f64::from(text_bytes));
    Some(counting.min(f64::from(params.beta) / rtt_min.as_secs_f64().max(1e-9)))
}
