//! A test as JSON with iperf3's key names, and a `tack` object beside them.

use serde_json::{Map, Value, json};

use crate::conn::Flow;
use crate::perf::control::StreamResult;
use crate::perf::params::Direction;
use crate::perf::report::{Extremes, Interrupted, Interval, Report};

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
}

/// The whole document. Of an interrupted test it has what was measured, and iperf3's `error`.
pub fn document(report: &Report, context: &Context) -> Value {
    let mut document = json!({
        "start": start(report, context),
        "intervals": intervals(report),
        "end": end(report, context),
        "tack": tack(report, context),
    });
    if let Some(interrupted) = report.interrupted {
        document["error"] = interruption(interrupted, context.connecting_to.is_some()).into();
    }
    document
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

/// The document of a test that failed: iperf3 puts the reason under `error`.
pub fn failure(reason: &str) -> Value {
    json!({ "start": {}, "intervals": [], "end": {}, "error": reason })
}

fn start(report: &Report, context: &Context) -> Value {
    let connected: Vec<_> = report
        .lanes
        .iter()
        .map(|lane| {
            let mut one = Map::new();
            one.insert("socket".into(), lane.id.into());
            if let Some((local, remote)) = lane.addresses {
                one.insert("local_host".into(), local.ip().to_string().into());
                one.insert("local_port".into(), local.port().into());
                one.insert("remote_host".into(), remote.ip().to_string().into());
                one.insert("remote_port".into(), remote.port().into());
            }
            Value::Object(one)
        })
        .collect();
    let params = &report.params;
    let mut start = json!({
        "connected": connected,
        "version": concat!("tack ", env!("CARGO_PKG_VERSION")),
        "system_info": system_info(),
        "timestamp": { "timesecs": context.timestamp },
        "tcp_mss_default": flows(report).map(|f| f.mss).max().unwrap_or(0),
        "test_start": {
            "protocol": if uses_tack(report) { "TACK" } else { "TCP" },
            "num_streams": params.streams,
            "blksize": params.block_bytes,
            "omit": params.omit_seconds,
            "duration": params.duration().map_or(0.0, |d| d.as_secs_f64()),
            "bytes": params.bytes().unwrap_or(0),
            "blocks": 0,
            "reverse": u8::from(params.direction == Direction::Reverse),
            "bidir": u8::from(params.direction == Direction::Both),
            "tos": 0,
            "target_bitrate": 0,
            "interval": context.interval,
        },
    });
    if let Some((host, port)) = &context.connecting_to {
        start["connecting_to"] = json!({ "host": host, "port": port });
    }
    start
}

fn system_info() -> String {
    let uname = rustix::system::uname();
    let parts =
        [uname.sysname(), uname.nodename(), uname.release(), uname.version(), uname.machine()];
    parts.map(|part| part.to_string_lossy().into_owned()).join(" ")
}

fn flows(report: &Report) -> impl Iterator<Item = &Flow> {
    report.local.streams.iter().filter_map(|s| s.flow.as_ref())
}

fn uses_tack(report: &Report) -> bool {
    flows(report).any(|f| f.tack)
}

fn intervals(report: &Report) -> Vec<Value> {
    report.intervals.iter().map(|i| interval(report, i)).collect()
}

fn interval(report: &Report, interval: &Interval) -> Value {
    let lanes = report.lanes.iter().zip(&interval.spans);
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
        let these = report.lanes.iter().zip(&interval.spans).filter(|(l, _)| l.sends == sends);
        let mut sum =
            amounts(interval.start, interval.end, these.clone().map(|(_, s)| s.bytes).sum());
        sum["omitted"] = interval.omitted.into();
        sum["sender"] = sends.into();
        if sends {
            sum["retransmits"] = these.map(|(_, s)| s.retransmits).sum::<u64>().into();
        }
        sum
    };
    if report.params.direction == Direction::Both {
        return json!({
            "streams": streams, "sum": sum(true), "sum_bidir_reverse": sum(false),
        });
    }
    json!({ "streams": streams, "sum": sum(report.lanes[0].sends) })
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
        let lane = &report.lanes[index];
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
    let streams: Vec<_> = (0..report.lanes.len()).map(stream).collect();
    let first_sends = report.lanes[0].sends;
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
    if report.params.direction == Direction::Both {
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
