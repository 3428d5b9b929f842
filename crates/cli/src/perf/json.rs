//! A test as JSON with iperf3's key names, and a `tack` object beside them.

pub mod partial;
pub mod start;

use serde_json::{Value, json};

use crate::conn::Flow;
use crate::perf::control::{Output, StreamResult};
use crate::perf::params::Direction;
use crate::perf::report::{Extremes, Interrupted, Interval, Report, Start};

/// What only the command knows.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The server's name and port as the user gave it; `None` on the server.
    pub connecting_to: Option<(String, u16)>,
    /// Seconds since the epoch at the start.
    pub timestamp: u64,
    /// Whether streams are encrypted.
    pub encrypted: bool,
    /// Congestion control as asked for; `None` is the default.
    pub congestion: Option<String>,
    /// Seconds between reports; 0 for none.
    pub interval: f64,
    /// Blocks asked for with `-k`; 0 is without.
    pub blocks: u64,
    /// Bound on buffers asked for with `-w`.
    pub window_bytes: Option<usize>,
    /// Bounds of the send and the receive buffer.
    pub buffer_bytes: (usize, usize),
}

/// The whole document. Of an interrupted test it has what was measured, and iperf3's `error`.
pub fn document(report: &Report, context: &Context) -> Value {
    let mut document = json!({
        "start": start::start(&report.start, context),
        "intervals": report.intervals.iter().map(|i| interval(&report.start, i)).collect::<Vec<_>>(),
        "end": end(report, context),
        "tack": tack(report, context),
    });
    let params = &report.start.params;
    for (key, text) in [("title", &params.title), ("extra_data", &params.extra_data)] {
        if let Some(text) = text {
            document[key] = text.as_str().into();
        }
    }
    if let Some(output) = &report.server_output {
        let (key, value) = server_output(output);
        document[key] = value;
    }
    if let Some(interrupted) = report.interrupted {
        document["error"] = interruption(interrupted, context.connecting_to.is_some()).into();
    }
    document
}

/// One line of `--json-stream`.
pub fn event(name: &str, data: Value) -> Value {
    json!({ "event": name, "data": data })
}

/// The last lines of `--json-stream`.
pub fn last_events(report: &Report, context: &Context) -> Vec<Value> {
    let output = report.server_output.as_ref().map(server_output);
    let error = report.interrupted.map(|i| interruption(i, context.connecting_to.is_some()));
    let mut events = vec![event("tack", tack(report, context)), event("end", end(report, context))];
    events.extend(output.map(|(key, value)| event(key, value)));
    events.extend(error.map(|why| event("error", why.into())));
    events
}

/// What the server showed, under iperf3's name for its kind.
fn server_output(output: &Output) -> (&'static str, Value) {
    match output {
        Output::Text(text) => ("server_output_text", text.as_str().into()),
        Output::Json(document) => ("server_output_json", document.clone()),
    }
}

/// What iperf3 says of an interrupted test.
pub fn interruption(interrupted: Interrupted, is_client: bool) -> &'static str {
    match (interrupted, is_client) {
        (Interrupted::Here, true) => "interrupt - the client has terminated",
        (Interrupted::Here, false) => "interrupt - the server has terminated",
        (Interrupted::There, true) => "the server has terminated",
        (Interrupted::There, false) => "the client has terminated",
    }
}

fn flows(report: &Report) -> impl Iterator<Item = &Flow> {
    report.local.streams.iter().filter_map(|s| s.flow.as_ref())
}

fn uses_tack(report: &Report) -> bool {
    flows(report).any(|f| f.tack)
}

/// One interval.
pub fn interval(start: &Start, interval: &Interval) -> Value {
    let lanes = start.lanes.iter().zip(&interval.spans);
    let streams: Vec<_> = lanes
        .map(|(lane, span)| {
            let mut one = amounts(interval.start, interval.end, span.bytes);
            one["socket"] = lane.id.into();
            one["omitted"] = interval.omitted.into();
            one["sender"] = lane.sends.into();
            if let Some(flow) = span.flow.as_ref().filter(|_| lane.sends) {
                one["retransmits"] = span.retransmits.into();
                one["snd_cwnd"] = flow.snd_cwnd.into();
                one["snd_wnd"] = flow.snd_wnd.into();
                one["rtt"] = flow.rtt_us.into();
                one["rttvar"] = flow.rttvar_us.into();
                one["pmtu"] = flow.mss.into();
                one["reorder"] = 0.into();
            }
            one
        })
        .collect();
    let sum = |sends: bool| {
        let these = start.lanes.iter().zip(&interval.spans).filter(|(l, _)| l.sends == sends);
        let mut sum =
            amounts(interval.start, interval.end, these.clone().map(|(_, s)| s.bytes).sum());
        sum["omitted"] = interval.omitted.into();
        sum["sender"] = sends.into();
        if sends {
            sum["retransmits"] = these.map(|(_, s)| s.retransmits).sum::<u64>().into();
        }
        sum
    };
    // From the client, whichever side this is; and back.
    let first = start.lanes[0].sends;
    let mut value = json!({ "streams": streams, "sum": sum(first) });
    if start.params.direction == Direction::Both {
        value["sum_bidir_reverse"] = sum(!first);
    }
    value
}

fn amounts(start: f64, end: f64, bytes: u64) -> Value {
    let seconds = end - start;
    let rate = if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 };
    json!({
        "start": start, "end": end, "seconds": seconds, "bytes": bytes, "bits_per_second": rate,
    })
}

/// A sender's or a receiver's total; null if it is unknown. As in iperf3, `sender` says whether
/// *this side* sends.
fn total(one: Option<&StreamResult>, sends: bool, is_sender: bool) -> Value {
    let Some(one) = one else { return Value::Null };
    let mut value = amounts(0.0, one.seconds, one.bytes);
    value["sender"] = sends.into();
    if is_sender && let Some(flow) = &one.flow {
        value["retransmits"] = flow.retransmits.into();
    }
    value
}

fn end(report: &Report, context: &Context) -> Value {
    let stream = |index: usize| {
        let lane = &report.start.lanes[index];
        let (sender, receiver) = report.ends(index);
        let (mut s, mut r) = (total(sender, lane.sends, true), total(receiver, lane.sends, false));
        if let Some(s) = s.as_object_mut() {
            let extremes = Extremes::of(&report.intervals, index);
            s.insert("max_snd_cwnd".into(), extremes.max_snd_cwnd.into());
            s.insert("max_snd_wnd".into(), extremes.max_snd_wnd.into());
            s.insert("max_rtt".into(), extremes.max_rtt.into());
            s.insert("min_rtt".into(), extremes.min_rtt.into());
            s.insert("mean_rtt".into(), extremes.mean_rtt.into());
        }
        for known in [&mut s, &mut r].into_iter().filter_map(Value::as_object_mut) {
            known.insert("socket".into(), lane.id.into());
        }
        json!({ "sender": s, "receiver": r })
    };
    let streams: Vec<_> = (0..report.start.lanes.len()).map(stream).collect();
    let first_sends = report.start.lanes[0].sends;
    let (sent, received) = report.sums(first_sends);
    let (local, remote) = (report.local.cpu, report.remote.as_ref().map(|r| r.cpu));
    let congestion = context.congestion.as_deref().unwrap_or("bbr");
    let mut end = json!({
        "streams": streams,
        "sum_sent": total(sent.as_ref(), first_sends, true),
        "sum_received": total(received.as_ref(), first_sends, false),
        "cpu_utilization_percent": {
            "host_total": local.total, "host_user": local.user, "host_system": local.system,
            "remote_total": remote.map(|r| r.total), "remote_user": remote.map(|r| r.user),
            "remote_system": remote.map(|r| r.system),
        },
        "sender_tcp_congestion": congestion,
        "receiver_tcp_congestion": congestion,
    });
    if report.start.params.direction == Direction::Both {
        let (sent, received) = report.sums(!first_sends);
        end["sum_sent_bidir_reverse"] = total(sent.as_ref(), !first_sends, true);
        end["sum_received_bidir_reverse"] = total(received.as_ref(), !first_sends, false);
    }
    end
}

/// What TACK adds: the acknowledgments of each side and what they were for.
fn tack(report: &Report, context: &Context) -> Value {
    let side = |results| Report::total_flow(results).map(|flow| side(&flow, seconds(report)));
    json!({
        "enabled": uses_tack(report),
        "encryption": if context.encrypted { "tls1.3" } else { "none" },
        "local": side(&report.local),
        "remote": report.remote.as_ref().and_then(side),
    })
}

fn seconds(report: &Report) -> f64 {
    report.local.streams.iter().map(|s| s.seconds).fold(0.0, f64::max)
}

fn side(flow: &Flow, seconds: f64) -> Value {
    let per_second = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
    let ratio = |acks: u64, data: u64| if data > 0 { acks as f64 / data as f64 } else { 0.0 };
    let (received, sent) = (flow.acks_received_total(), flow.acks_sent_total());
    json!({
        "data_packets_sent": flow.data_packets_sent,
        "data_packets_received": flow.data_packets_received,
        "retransmissions": flow.retransmits,
        "needless_retransmissions": flow.needless_retransmits,
        "acks_received": received,
        "acks_received_by_kind": flow.acks_received,
        "acks_received_per_s": per_second(received),
        "acks_received_per_data_packet": ratio(received, flow.data_packets_sent),
        "acks_sent": sent,
        "acks_sent_by_kind": flow.acks_sent,
        "acks_sent_per_s": per_second(sent),
        "acks_sent_per_data_packet": ratio(sent, flow.data_packets_received),
        "eq4_acks_per_s": flow.eq4_acks_per_s,
        "rtt_min_us": flow.rtt_min_us,
    })
}
