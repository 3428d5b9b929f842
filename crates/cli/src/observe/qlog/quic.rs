//! QUIC's packets in the words that TCP-TACK's segments have: what is the same in both has one name.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tack_net::Figures;
use tack_net::quic::wire::{Ack, ConnectionId, Frame, Loss, Reader, Report};
use tack_net::quic::{AckReason, DropReason, PacketKind, Seen, SeenPacket, What};

/// The name of an event, the connection that it is of, and what it says.
pub(super) fn event(seen: &Seen) -> (&'static str, String, Value) {
    let (name, data) = match &seen.what {
        What::Sent(packet) => ("packet_sent", describe(packet)),
        What::Received(packet) => ("packet_received", describe(packet)),
        What::Dropped(bytes, why) => ("packet_dropped", super::dropped(*bytes, trigger(*why))),
        What::Figures(figures) => ("recovery_metrics_updated", metrics(figures)),
    };
    (name, group(&seen.original_dcid), data)
}

fn group(id: &ConnectionId) -> String {
    id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn trigger(why: DropReason) -> &'static str {
    match why {
        DropReason::Header => "header_parse_error",
        DropReason::Unknown => "connection_unknown",
        DropReason::KeyUnavailable => "key_unavailable",
        DropReason::Decryption => "decryption_failure",
        DropReason::Duplicate => "duplicate",
        DropReason::Unexpected => "unexpected_packet",
    }
}

/// What is not known is left out.
fn metrics(figures: &Figures) -> Value {
    let ms = |duration: Option<Duration>| duration.map(|d| json!(d.as_secs_f64() * 1_000.0));
    let rate = figures.delivery_rate.map(|rate| json!(rate.as_bps()));
    let known = [
        ("smoothed_rtt_ms", ms(figures.srtt)),
        ("rtt_variance_ms", ms(figures.rttvar)),
        ("min_rtt_ms", ms(figures.rtt_min)),
        ("congestion_window", Some(json!(figures.cwnd))),
        ("bytes_in_flight", Some(json!(figures.in_flight))),
        ("delivery_rate_bps", rate),
        ("packets_lost", Some(json!(figures.retransmissions))),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(known.collect::<Map<_, _>>())
}

fn describe(packet: &SeenPacket) -> Value {
    let packet_type = match packet.kind {
        PacketKind::Initial => "initial",
        PacketKind::ZeroRtt => "0RTT",
        PacketKind::Handshake => "handshake",
        PacketKind::OneRtt => "1RTT",
    };
    let mut frames = Vec::new();
    let (mut ack, mut report, mut loss) = (None, None, None);
    let mut reader = Reader::new(&packet.frames);
    while !reader.is_empty() {
        let Ok(frame) = Frame::parse(&mut reader) else {
            // The connection is about to end by it.
            frames.push(json!({ "frame_type": "unknown" }));
            break;
        };
        frames.push(frame_event(&frame));
        match frame {
            Frame::Ack(frame) => ack = Some(frame),
            Frame::Report(frame) => report = Some(frame),
            Frame::Loss(frame) => loss = Some(frame),
            _ => {}
        }
    }
    let mut data = json!({
        "header": { "packet_type": packet_type, "packet_number": packet.number },
        "raw": { "length": packet.bytes, "payload_length": packet.frames.len() },
        "frames": frames,
    });
    if let Some(ack) = ack {
        data["acknowledgment"] = acknowledgment(packet.reason, &ack, report.as_ref(), loss);
    }
    data
}

/// Why, and what it says in TACK's words. Of the peer's, frames say the reason, or nothing does.
fn acknowledgment(
    reason: Option<AckReason>,
    ack: &Ack,
    report: Option<&Report>,
    loss: Option<Loss>,
) -> Value {
    let shown = report.map(|_| AckReason::Tack).or(loss.map(|_| AckReason::Loss));
    let mut said = json!({
        "reason": reason.or(shown).map_or("unknown", name),
        "largest_packet_number": ack.largest(),
    });
    // The mechanism counts from one.
    let from_zero = |range: &std::ops::Range<u64>| (range.start - 1, range.end - 1);
    if let Some(report) = report {
        let tack = report.tack(ack);
        said["interval_ms"] = json!(tack.interval.as_secs_f64() * 1_000.0);
        said["loss_ratio"] = json!(tack.rho);
        said["holes"] = json!(tack.holes.iter().map(from_zero).collect::<Vec<_>>());
        if let Some(rate) = tack.delivery_rate {
            said["delivery_rate_bps"] = json!(rate.as_bps());
        }
        if let Some(timing) = tack.timing {
            said["departure_us"] = json!(timing.departure_us);
            said["delay_us"] = json!(timing.delay.as_micros() as u64);
        }
    }
    if let Some(loss) = loss {
        let lost = loss.gaps(ack);
        let lost = lost.iter().map(from_zero).map(|(start, end)| (start, end - 1));
        said["lost_packet_numbers"] = json!(lost.collect::<Vec<_>>());
    }
    said
}

fn name(reason: AckReason) -> &'static str {
    match reason {
        AckReason::Tack => "tack",
        AckReason::Loss => "loss",
        AckReason::CongestionExperienced => "congestion_experienced",
        AckReason::Count => "count",
        AckReason::Delay => "delay",
        AckReason::Reordering => "reordering",
        AckReason::Immediate => "immediate",
        AckReason::Handshake => "handshake",
        AckReason::Piggyback => "piggyback",
    }
}

/// A frame by its name, and what tells streams and acknowledgments apart.
fn frame_event(frame: &Frame<'_>) -> Value {
    let named = |name: &str| json!({ "frame_type": name });
    match frame {
        Frame::Padding(bytes) => json!({ "frame_type": "padding", "length": bytes }),
        Frame::Ping => named("ping"),
        Frame::Ack(ack) => {
            let ranges: Vec<_> = ack.ranges.iter().map(|r| [r.start, r.end - 1]).collect();
            json!({ "frame_type": "ack", "acked_ranges": ranges })
        }
        Frame::Crypto { offset, data } => {
            json!({ "frame_type": "crypto", "offset": offset, "length": data.len() })
        }
        Frame::Stream { id, offset, fin, data } => json!({
            "frame_type": "stream", "stream_id": id, "offset": offset, "length": data.len(),
            "fin": fin,
        }),
        Frame::Datagram(data) => json!({ "frame_type": "datagram", "length": data.len() }),
        Frame::ResetStream { id, .. } => json!({ "frame_type": "reset_stream", "stream_id": id }),
        Frame::StopSending { id, .. } => json!({ "frame_type": "stop_sending", "stream_id": id }),
        Frame::MaxStreamData { id, .. } => {
            json!({ "frame_type": "max_stream_data", "stream_id": id })
        }
        Frame::StreamDataBlocked { id, .. } => {
            json!({ "frame_type": "stream_data_blocked", "stream_id": id })
        }
        Frame::NewToken(_) => named("new_token"),
        Frame::MaxData(_) => named("max_data"),
        Frame::MaxStreams { .. } => named("max_streams"),
        Frame::DataBlocked(_) => named("data_blocked"),
        Frame::StreamsBlocked { .. } => named("streams_blocked"),
        Frame::NewConnectionId { .. } => named("new_connection_id"),
        Frame::RetireConnectionId(_) => named("retire_connection_id"),
        Frame::PathChallenge(_) => named("path_challenge"),
        Frame::PathResponse(_) => named("path_response"),
        Frame::Close(_) => named("connection_close"),
        Frame::HandshakeDone => named("handshake_done"),
        Frame::AckFrequency(_) => named("ack_frequency"),
        Frame::ImmediateAck => named("immediate_ack"),
        Frame::Report(_) => named("tack_report"),
        Frame::Loss(_) => named("tack_loss"),
        Frame::Frequency(_) => named("tack_frequency"),
        Frame::Stamp(_) => named("tack_stamp"),
    }
}
