//! QUIC's packets, with the reason of each acknowledgment.

use serde_json::{Value, json};
use tack_net::quic::wire::{Ack, ConnectionId, Frame, Loss, Reader, Report};
use tack_net::quic::{AckReason, DropReason, LossReason, PacketKind, SeenPacket, What};

use super::recovery::{Recoveries, packet_lost};
use super::{Event, dropped, frame};

/// What happened on a connection, whose `group_id` is `group`.
pub(super) fn events(what: &What, group: &str, recoveries: &mut Recoveries) -> Vec<Event> {
    let event = match what {
        What::Sent(packet) => ("transport:packet_sent", describe(packet)),
        What::Received(packet) => ("transport:packet_received", describe(packet)),
        What::Dropped(bytes, why) => {
            let (trigger, reason) = trigger(*why);
            dropped(*bytes, trigger, reason)
        }
        What::Lost(kind, number, reason) => packet_lost(header(*kind, *number), lost(*reason)),
        What::Figures(figures) => return recoveries.on_figures(group, figures),
    };
    vec![event]
}

/// The name of a connection.
pub(super) fn group(id: &ConnectionId) -> String {
    frame::hex(id.as_bytes())
}

/// The draft's word, and the one that drafts have had since.
fn trigger(why: DropReason) -> (&'static str, &'static str) {
    match why {
        DropReason::Header => ("invalid", "header_parse_error"),
        DropReason::Unknown => ("connection_unknown", "connection_unknown"),
        DropReason::KeyUnavailable => ("general", "key_unavailable"),
        DropReason::Decryption => ("decryption_failure", "decryption_failure"),
        DropReason::Duplicate => ("rejected", "duplicate"),
        DropReason::Unexpected => ("rejected", "unexpected_packet"),
    }
}

/// The draft has no word for what TACK's receiver tells.
fn lost(reason: LossReason) -> Option<&'static str> {
    match reason {
        LossReason::Overtaken => Some("reordering_threshold"),
        LossReason::Late => Some("time_threshold"),
        LossReason::Told => None,
    }
}

fn header(kind: PacketKind, number: u64) -> Value {
    let packet_type = match kind {
        PacketKind::Initial => "initial",
        PacketKind::ZeroRtt => "0RTT",
        PacketKind::Handshake => "handshake",
        PacketKind::OneRtt => "1RTT",
    };
    json!({ "packet_type": packet_type, "packet_number": number })
}

fn describe(packet: &SeenPacket) -> Value {
    let mut frames = Vec::new();
    let (mut ack, mut report, mut loss) = (None, None, None);
    let mut reader = Reader::new(&packet.frames);
    while !reader.is_empty() {
        let rest = reader.rest();
        let Ok(parsed) = Frame::parse(&mut reader) else {
            // The connection is about to end by it.
            frames.push(frame::unknown(rest));
            break;
        };
        frames.push(frame::describe(&parsed));
        match parsed {
            Frame::Ack(frame) => ack = Some(frame),
            Frame::Report(frame) => report = Some(frame),
            Frame::Loss(frame) => loss = Some(frame),
            _ => {}
        }
    }
    let mut data = json!({
        "header": header(packet.kind, packet.number),
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
        let tack = report.tack(ack, OLDEST);
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
        let lost = loss.gaps(ack, OLDEST);
        let lost = lost.iter().map(from_zero).map(|(start, end)| (start, end - 1));
        said["lost_packet_numbers"] = json!(lost.collect::<Vec<_>>());
    }
    said
}

/// What the sender has in flight is nothing that the packet tells: only gaps between ranges are shown.
const OLDEST: u64 = u64::MAX;

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
