//! The figures of records: one table of names, units and how each is computed.
//!
//! Names that end in a unit, such as `goodput_bps`, count from the end of the warm-up; the others
//! are of the whole run.

mod run;

use core::time::Duration;
use std::collections::BTreeMap;

use tack_tcp::PathFacts;
use tack_units::{Rate, math};

use crate::result::{FlowResult, RunResult, VideoResult};
use crate::scenario::{Flow, Scenario, StockAcks, Strategy};
use crate::stats;

#[cfg(target_os = "linux")]
pub(crate) use run::of_live;
pub use run::{LIVE, of_run};

/// Text of a full segment with timestamps, and under TACK, bytes.
const TEXT_BYTES: u32 = 1_448;
const TACK_TEXT_BYTES: u32 = 1_440;
/// Stream data in a full packet of a stock QUIC stack, as near as a constant can be.
const QUIC_TEXT_BYTES: u32 = 1_400;
/// Of an Ethernet frame around a packet, bytes.
const ETHERNET_BYTES: f64 = 14.0;

/// A figure of a run.
pub struct Metric {
    /// As in records.
    pub name: &'static str,
    /// Of its values.
    pub unit: &'static str,
    /// In a few words.
    pub what: &'static str,
    of: Of,
}

/// How a figure is computed; what comes out as no number is none.
enum Of {
    /// The sum of what each flow has.
    Sum(fn(&FlowResult) -> f64),
    /// The mean of what those have that have it.
    Mean(fn(&FlowResult) -> Option<f64>),
    /// The greatest of the same.
    Greatest(fn(&FlowResult) -> Option<f64>),
    /// One sum over another.
    Ratio(fn(&FlowResult) -> f64, fn(&FlowResult) -> f64),
    /// From all flows.
    Flows(fn(&Scenario, &[FlowResult]) -> Option<f64>),
    /// Of those that are videos: the sum of the first over that of the second.
    Videos(fn(&VideoResult) -> Option<(f64, f64)>),
    /// Of the whole run, whichever flows it has.
    Run(fn(&Scenario, &RunResult) -> Option<f64>),
    /// By another backend, from the course of the run, or in real time.
    Elsewhere,
}

use Of::{Elsewhere, Flows, Greatest, Mean, Ratio, Run, Sum, Videos};

const fn is(name: &'static str, unit: &'static str, what: &'static str) -> Metric {
    Metric { name, unit, what, of: Elsewhere }
}

impl Metric {
    const fn by(self, of: Of) -> Metric {
        Metric { of, ..self }
    }
}

/// All there are.
pub const METRICS: &[Metric] = &[
    is("flows", "", "flows under test").by(Flows(|_, flows| Some(flows.len() as f64))),
    is("measured", "s", "length of the run after its warm-up")
        .by(Flows(|scenario, _| Some(measured_s(scenario)))),
    is("goodput", "bit/s", "application bytes delivered over the whole run, its warm-up too")
        .by(Flows(|scenario, flows| Some(sum(flows, delivered) * 8.0 / scenario.duration_s))),
    is("delivered", "bytes", "application bytes delivered").by(Sum(delivered)),
    is(
        "completion",
        "s",
        "mean time at which the flows' last bytes were read; none unless all were",
    )
    .by(Flows(|_, flows| {
        let times: Option<Vec<f64>> = flows.iter().map(|f| f.completed_at_s).collect();
        times.map(|t| t.iter().sum::<f64>() / t.len().max(1) as f64)
    })),
    is("acks", "packets", "packets without text, of all kinds and both ends").by(Sum(bare)),
    is("data", "packets", "packets with text").by(Sum(|f| f.data_packets as f64)),
    is("resent", "segments", "segments sent again").by(Sum(|f| f.retransmissions as f64)),
    is("resent_share", "share", "segments sent again, of the packets with text").by(Flows(
        |_, flows| {
            let data = sum(flows, |f| f.data_packets as f64);
            Some(sum(flows, |f| f.retransmissions as f64) / data.max(1.0))
        },
    )),
    is("timeouts", "", "retransmission timeouts")
        .by(Flows(|_, flows| flows.iter().map(|f| f.timeouts.map(|n| n as f64)).sum())),
    is("ack_rate", "1/s", "acknowledgments after the warm-up").by(Sum(|f| f.ack_packets_per_s)),
    is("iack_rate", "1/s", "of them, IACKs").by(Sum(|f| f.iacks_per_s)),
    is(
        "eq4_rate",
        "1/s",
        "acknowledgments by [TON Eq. 4] with what was delivered after the warm-up as bw, as if it was there all \
         the time",
    )
    .by(Flows(|scenario, flows| by_entry(scenario, flows, eq4))),
    is(
        "rtt_min_low",
        "",
        "how far the least RTTmin lies below what any packets really took, relative",
    )
    .by(Greatest(|f| Some(1.0 - f.rtt_min_us? / f.owd_floor_us?))),
    is(
        "rtt_min_high",
        "us",
        "by how much the greatest RTTmin exceeds the data's least delay and the usual one back",
    )
    .by(Greatest(|f| Some(f.rtt_min_us? - f.owd_usual_us?))),
    is(
        "rtt_usual",
        "us",
        "the data's least delay and the usual one back, the greatest of the flows",
    )
    .by(Greatest(|f| f.owd_usual_us)),
    is("rtt_p95", "us", "95th percentile of the smoothed RTT, the greatest of the flows")
        .by(Greatest(|f| f.rtt_p95_us)),
    is("goodput_bps", "bit/s", "application bytes delivered").by(Sum(|f| f.goodput_bps)),
    is(
        "present_goodput_bps",
        "bit/s",
        "goodput while the flow was there, from its start until its last byte was read; the sum of the \
         flows that were",
    )
    .by(Flows(|scenario, flows| {
        let there = flows.iter().filter(|f| f.present_s > 0.0);
        there.map(|f| f.goodput_bps / presence(scenario, f)).reduce(|sum, rate| sum + rate)
    })),
    is("data_packets_per_s", "1/s", "packets with text").by(Sum(data_rate)),
    is("ack_packets_per_s", "1/s", "packets that only acknowledge")
        .by(Sum(|f| f.ack_packets_per_s)),
    is("ack_bytes_per_s", "B/s", "IP-level bytes of packets without text")
        .by(Sum(|f| f.ack_bytes_per_s)),
    is("iacks_per_s", "1/s", "instant acknowledgments of TACK").by(Sum(|f| f.iacks_per_s)),
    is("data_lost_per_s", "1/s", "packets with text that did not arrive")
        .by(Sum(|f| f.data_lost_per_s)),
    is("timeouts_per_s", "1/s", "retransmission timeouts")
        .by(Flows(|_, flows| flows.iter().map(|f| f.timeouts_per_s).sum())),
    is("retransmissions", "segments", "segments sent again, the whole run")
        .by(Sum(|f| f.retransmissions as f64)),
    is("acks_per_packet", "", "acknowledgments per packet with text")
        .by(Ratio(|f| f.ack_packets_per_s, data_rate)),
    is("ack_bytes_per_packet", "bytes", "IP-level bytes of acknowledgments per packet with text")
        .by(Ratio(|f| f.ack_bytes_per_s, data_rate)),
    is("bytes_per_ack", "bytes", "IP-level bytes of an acknowledgment")
        .by(Ratio(|f| f.ack_bytes_per_s, |f| f.ack_packets_per_s)),
    is("acks_per_window", "", "acknowledgments per receive window of data").by(Flows(
        |scenario, flows| {
            let window = f64::from(scenario.flow.first()?.rwnd_segments?);
            Some(ratio(flows, |f| f.ack_packets_per_s, data_rate)? * window)
        },
    )),
    is("return_bytes", "bytes", "Ethernet bytes of packets without text, from the warm-up on").by(
        Flows(|scenario, flows| {
            let per_s = |f: &FlowResult| f.ack_bytes_per_s + f.ack_packets_per_s * ETHERNET_BYTES;
            Some(sum(flows, per_s) * measured_s(scenario))
        }),
    ),
    is(
        "formula_per_s",
        "1/s",
        "acknowledgments by the strategy's formula at the goodput, RTTmin and round trip measured",
    )
    .by(Flows(|scenario, flows| by_entry(scenario, flows, formula))),
    is(
        "throughput_bps",
        "bit/s",
        "a file's bytes over the time from the flow's start until the last was read, or until the \
         run's end",
    )
    .by(Flows(|scenario, flows| {
        Some(sum(flows, |f| delivered(f) * 8.0 / transfer_s(scenario, f)))
    })),
    is(
        "transfer_s",
        "s",
        "mean time from a flow's start until its last byte was read, or the run's end",
    )
    .by(Flows(|scenario, flows| mean(flows, |f| Some(transfer_s(scenario, f))))),
    is(
        "acks_per_transfer_s",
        "1/s",
        "acknowledgments of the whole run over the time of the transfers",
    )
    .by(Flows(|scenario, flows| {
        let took = mean(flows, |f| Some(transfer_s(scenario, f)))?;
        Some(sum(flows, bare) / took)
    })),
    is("data_loss", "share", "packets with text that did not arrive, of those that left")
        .by(Ratio(|f| f.data_lost_per_s, data_rate)),
    is("lost_packets", "packets", "packets with text that did not arrive, from the warm-up on").by(
        Flows(|scenario, flows| Some(sum(flows, |f| f.data_lost_per_s) * measured_s(scenario))),
    ),
    is("cwnd_segments", "segments", "mean congestion window while the flow was there, of 1448 bytes")
        .by(Mean(|f| Some(f.cwnd_mean_bytes / f64::from(TEXT_BYTES)).filter(|w| *w > 0.0))),
    is(
        "round_ms",
        "ms",
        "time in which a mean congestion window leaves: the round trip its controller lives",
    )
    .by(Flows(|scenario, flows| {
        let segment = scenario.flow.first()?.segment_bytes.map_or(TEXT_BYTES, u32::from);
        let rate = |f: &FlowResult| data_rate(f) / presence(scenario, f);
        ratio(flows, |f| f.cwnd_mean_bytes * 1e3 / f64::from(segment), rate)
    })),
    is(
        "events_per_packet",
        "",
        "window reductions, losses and timeouts alike, per packet with text",
    )
    .by(Ratio(FlowResult::reductions_per_s, data_rate)),
    is("lost_per_event", "packets", "packets with text that did not arrive, per window reduction")
        .by(Ratio(|f| f.data_lost_per_s, FlowResult::reductions_per_s)),
    is("window", "segments", "goodput over one mean smoothed round trip").by(Flows(
        |scenario, flows| {
            mean(flows, |f| {
                let bytes = f.goodput_bps / presence(scenario, f) / 8.0 * f.srtt_mean_us / 1e6;
                Some(bytes / f64::from(TEXT_BYTES)).filter(|s| *s > 0.0)
            })
        },
    )),
    is("rtt_p50_us", "us", "median of the smoothed round trip, the mean of the flows")
        .by(Mean(|f| f.rtt_p50_us)),
    is("srtt_mean_us", "us", "mean smoothed round trip, the mean of the flows")
        .by(Mean(|f| Some(f.srtt_mean_us).filter(|us| *us > 0.0))),
    is("rtt_p95_us", "us", "95th percentile of the smoothed round trip, the mean of the flows")
        .by(Mean(|f| f.rtt_p95_us)),
    is("rtt_min_us", "us", "RTTmin in force at the end, the mean of the flows")
        .by(Mean(|f| f.rtt_min_us)),
    is(
        "queue_delay_p95_us",
        "us",
        "95th percentile of the data's one-way delay above its least, the mean of the flows",
    )
    .by(Mean(|f| f.queue_delay_p95_us)),
    is("jain", "", "Jain's index of the flows' goodput: 1 where all have the same").by(Flows(
        |_, flows| {
            let square = sum(flows, |f| f.goodput_bps).powi(2);
            let squares = sum(flows, |f| f.goodput_bps.powi(2));
            (squares > 0.0).then(|| square / squares / flows.len() as f64)
        },
    )),
    is(
        "power",
        "",
        "log2 of goodput in Mbit/s over the 95th percentile of the one-way delay in ms [SIG §6]",
    )
    .by(Flows(|scenario, flows| {
        let mbps = sum(flows, |f| f.goodput_bps) / 1e6;
        let queue_ms = mean(flows, |f| f.queue_delay_p95_us)? / 1e3;
        let entries = scenario.flows().zip(flows);
        let empty = entries.map(|(entry, _)| scenario.base_delay(&entry).as_secs_f64() * 1e3);
        let ms = queue_ms + stats::mean(empty)?;
        (mbps > 0.0 && ms > 0.0).then(|| math::log2(mbps / ms))
    })),
    is("rebuffering", "share", "time in which a video stood still for want of a frame")
        .by(Videos(|v| Some((v.stalled_s, v.watched_s)))),
    is("stalls_per_min", "1/min", "how often a video came to stand still")
        .by(Videos(|v| Some((v.stalls as f64 * 60.0, v.watched_s)))),
    is("late_frames", "share", "frames of a video that were not there when they were due")
        .by(Videos(|v| Some((v.late as f64, v.frames as f64)))),
    is("macroblocking", "in 30 min", "how often a video's picture became wrong")
        .by(Videos(|v| Some((v.macroblockings as f64 * 1_800.0, v.watched_s)))),
    is("damaged_frames", "share", "frames of a video that were shown wrong")
        .by(Videos(|v| Some((v.damaged as f64, v.frames as f64)))),
    is("frame_delay_p50_us", "us", "from a frame's capture until it was there, median")
        .by(Videos(|v| Some((v.delay_p50_us?, 1.0)))),
    is("frame_delay_p95_us", "us", "the same, 95th percentile")
        .by(Videos(|v| Some((v.delay_p95_us?, 1.0)))),
    is(
        "utilisation",
        "share",
        "IP-level bytes out of the bottleneck, server to client, over its mean rate; none of a trace",
    )
    .by(Run(|scenario, run| {
        let down = scenario.wan.as_ref()?.down();
        let mbps = down.mean_mbps(scenario.warmup_s, scenario.duration_s)?;
        Some(run.wan?.down.delivered_bps / mbps / 1e6)
    })),
    is(
        "queue_drop_share",
        "share",
        "packets the bottleneck's queue dropped, of those offered, server to client",
    )
    .by(Run(|_, run| run.wan.map(|w| w.down.queue_drop_share))),
    is("ack_airtime", "share", "time the medium carried acknowledgments of the transport")
        .by(Run(|_, run| run.airtime.map(|a| a.acks))),
    is("collision_share", "share", "channel accesses that collided")
        .by(Run(|_, run| run.collision_share)),
    is("queue_drops", "packets", "packets dropped by queues, both directions, the whole run")
        .by(Run(|_, run| Some(run.queue_drops as f64))),
    is("link_losses", "packets", "packets lost on links, both directions, the whole run")
        .by(Run(|_, run| Some(run.link_losses as f64))),
    is("share", "", "of a group: a flow's mean goodput over that of all flows of its direction"),
    is("ideal_goodput_bps", "bit/s", "goodput of open-loop traffic with as many ACKs"),
    is("wire_bps", "bit/s", "IP-level bytes of open-loop traffic that arrived"),
    is("ack_delivered_per_s", "1/s", "ACKs of open-loop traffic that arrived"),
    is("minimum_window_bdp", "", "W_min in bandwidth-delay products [TON §VIII]"),
    is("bottleneck_buffer_bdp", "", "the buffer W_min asks for, in bdp [TON §VIII]"),
    is("minimum_beta", "", "least beta at the loss rate of the ACK path"),
    is("maximum_l", "", "greatest L at the loss rates of both paths"),
    is("cwnd_bytes", "bytes", "over time: congestion window"),
    is("srtt_us", "us", "over time: smoothed round trip"),
    is("pacing_bps", "bit/s", "over time: pacing rate"),
    is("blocked_bytes", "bytes", "over time: what waits behind a hole"),
    is("blocked_p50_bytes", "bytes", "median over time of what waits behind a hole"),
    is("blocked_p90_bytes", "bytes", "90th percentile of the same"),
    is("blocked_max_bytes", "bytes", "most of the same"),
    is("rtt_min_mean_us", "us", "RTTmin in force, mean over time"),
    is("latency_p50_us", "us", "request to complete response, median"),
    is("latency_p95_us", "us", "the same, 95th percentile"),
    is("latency_p99_us", "us", "the same, 99th percentile"),
    is("acks_per_mb", "1/MB", "packets from the receiver's end, per 10^6 bytes delivered"),
    is("cpu_s_per_gb", "s/GB", "user and system time of both ends' processes, per 10^9 bytes"),
    is("sender_cpu_s_per_gb", "s/GB", "of it, the sender's"),
    is("receiver_cpu_s_per_gb", "s/GB", "of it, the receiver's"),
    is("sender_rss_mb", "MB", "most memory resident at the sender"),
    is("receiver_rss_mb", "MB", "most memory resident at the receiver"),
    is("late_p999_us", "us", "in real time: 999 of 1000 packets left the path no later than this"),
    is("late_max_us", "us", "in real time: the greatest lateness of a packet"),
    is("window_formula", "segments", "mean window by the published formula for periodic losses"),
    is("window_ideal", "segments", "the same for these losses, reductions at once"),
    is("window_expected", "segments", "the same with reductions a round trip after their loss"),
    is(
        "settle_up_s",
        "s",
        "from a rise of the path's rate until the first flow's pacing rate is within 5 %",
    ),
    is(
        "settle_down_s",
        "s",
        "from a fall of the path's rate until the first flow's pacing rate is within 5 %",
    ),
    is(
        "regain_s",
        "s",
        "after the first outage, from the first flow's least window to a quarter of that before",
    ),
];

/// From the end of the warm-up on.
fn measured_s(scenario: &Scenario) -> f64 {
    scenario.duration_s - scenario.warmup_s
}

/// How much of the measured time a flow was there; all of it where that is not known.
fn presence(scenario: &Scenario, flow: &FlowResult) -> f64 {
    if flow.present_s > 0.0 { flow.present_s / measured_s(scenario) } else { 1.0 }
}

fn delivered(flow: &FlowResult) -> f64 {
    flow.delivered_bytes as f64
}

fn bare(flow: &FlowResult) -> f64 {
    flow.bare_packets as f64
}

fn data_rate(flow: &FlowResult) -> f64 {
    flow.data_packets_per_s
}

/// The unit of a figure, whichever group it is of; `None`: there is no such figure.
pub fn unit(name: &str) -> Option<&'static str> {
    about(name).map(|(unit, _)| unit)
}

/// Unit and meaning of a figure, whichever group it is of; `None`: there is no such figure.
pub fn about(name: &str) -> Option<(&'static str, &'static str)> {
    METRICS.iter().find(|m| m.name == base(name)).map(|m| (m.unit, m.what))
}

/// A figure's name without that of a group.
pub(crate) fn base(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |parts| parts.1)
}

/// Figures that are known over time alone.
const OVER_TIME: [&str; 4] = ["cwnd_bytes", "srtt_us", "pacing_bps", "blocked_bytes"];

/// Refuses what no run has one number of: what goes on from a key.
pub(crate) fn check(name: &str) -> Result<(), String> {
    match unit(name) {
        None => Err(unknown(name)),
        Some(_) if OVER_TIME.contains(&base(name)) => Err(format!(
            "is `{name}`, which is known over time: a view of kind = \"series\" has it"
        )),
        Some(_) => Ok(()),
    }
}

/// That there is no figure of that name, and which one may be meant.
fn unknown(name: &str) -> String {
    if name.is_empty() {
        return "is missing: a figure of docs/experiments.md".to_owned();
    }
    let near = METRICS.iter().min_by_key(|known| strsim::levenshtein(known.name, base(name)));
    let meant = near.map(|n| format!("; {}, perhaps", n.name)).unwrap_or_default();
    format!("is `{name}`, which no record has{meant} (docs/experiments.md has all)")
}

fn mean(flows: &[FlowResult], of: impl Fn(&FlowResult) -> Option<f64>) -> Option<f64> {
    stats::mean(flows.iter().filter_map(of))
}

fn ratio<T>(flows: &[T], above: impl Fn(&T) -> f64, below: impl Fn(&T) -> f64) -> Option<f64> {
    let (above, below): (f64, f64) = (flows.iter().map(above).sum(), flows.iter().map(below).sum());
    (below > 0.0).then(|| above / below)
}

/// From the flow's start until its last byte was read, or the run's end.
fn transfer_s(scenario: &Scenario, flow: &FlowResult) -> f64 {
    flow.completed_at_s.unwrap_or(scenario.duration_s) - flow.started_at_s
}

/// The sum of what each flow has by its own entry of the scenario, given how much of the measured time
/// it was there; `None` if one has none.
fn by_entry(
    scenario: &Scenario,
    flows: &[FlowResult],
    of: fn(&Flow, &FlowResult, f64) -> Option<f64>,
) -> Option<f64> {
    let entries = scenario.flows().zip(flows);
    entries.map(|(entry, flow)| of(&entry, flow, presence(scenario, flow))).sum()
}

/// The strategy's own formula at what the run measured while the flow was there: goodput, RTTmin, and as
/// the send window the median round trip's worth of goodput.
fn formula(entry: &Flow, flow: &FlowResult, presence: f64) -> Option<f64> {
    let Strategy::Tcp(mut ack) = entry.strategy else { return None };
    if let Some(params) = ack.tack_mut() {
        *params = entry.tack_params(*params);
    }
    let time = |us: f64| Duration::from_secs_f64(us / 1e6);
    let bw = Rate::from_bps((flow.goodput_bps / presence) as u64);
    let window = bw.bytes_in(time(flow.rtt_p50_us?));
    let mss = if ack.tack().is_some() { TACK_TEXT_BYTES } else { TEXT_BYTES };
    let rtt_min = time(flow.rtt_min_us?);
    Some(ack.frequency(&PathFacts { bw, rtt_min, window, mss }) * presence)
}

/// Every figure that these flows of a run have.
pub fn figures(scenario: &Scenario, flows: &[FlowResult]) -> BTreeMap<String, f64> {
    let value = |of: &Of| match of {
        Sum(of) => Some(sum(flows, of)),
        Mean(of) => mean(flows, of),
        Greatest(of) => flows.iter().filter_map(of).reduce(f64::max),
        Ratio(above, below) => ratio(flows, above, below),
        Flows(of) => of(scenario, flows),
        Videos(of) => {
            let videos = flows.iter().filter_map(|f| f.video.as_ref());
            let parts: Vec<(f64, f64)> = videos.filter_map(of).collect();
            ratio(&parts, |p| p.0, |p| p.1)
        }
        Run(_) | Elsewhere => None,
    };
    finite(|m| value(&m.of))
}

fn finite(value: impl Fn(&Metric) -> Option<f64>) -> BTreeMap<String, f64> {
    let figure = |m: &Metric| Some((m.name.to_owned(), value(m)?));
    METRICS.iter().filter_map(figure).filter(|(_, v)| v.is_finite()).collect()
}

fn sum(flows: &[FlowResult], of: impl Fn(&FlowResult) -> f64) -> f64 {
    flows.iter().map(of).sum()
}

/// [TON Eq. 4] at what was delivered and the least round trip.
fn eq4(entry: &Flow, flow: &FlowResult, _: f64) -> Option<f64> {
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
