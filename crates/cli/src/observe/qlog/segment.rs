//! TCP-TACK's segments as packets of qlog: what such a packet has of QUIC's is in its words.

use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use tack_net::Direction;
use tack_net::wire::{AckType, Flags, Form, Segment};

use super::Event;
use crate::observe::said::{Said, lost, said};

/// The connection that a segment to or from `peer` is of.
pub(super) fn group(direction: Direction, segment: &Segment<'_>, peer: SocketAddr) -> String {
    let (src, dst) = (segment.header.src_port, segment.header.dst_port);
    let (ours, theirs) = match direction {
        Direction::Sent => (src, dst),
        Direction::Received => (dst, src),
    };
    format!("{ours}-{peer}-{theirs}")
}

/// A datagram of `bytes` as it passed.
pub(super) fn event(direction: Direction, segment: &Segment<'_>, bytes: usize) -> Event {
    let name = match direction {
        Direction::Sent => "transport:packet_sent",
        Direction::Received => "transport:packet_received",
    };
    let mut data = json!({
        "header": header(segment.header.options.pkt_seq),
        "raw": { "length": bytes },
        "segment": describe(segment),
    });
    match segment.header.options.ack_type {
        Some(kind) => data["acknowledgment"] = acknowledgment(kind, segment),
        None => data["raw"]["payload_length"] = json!(segment.payload.len()),
    }
    (name, data)
}

/// The header of a packet in the draft's words: it is none of QUIC's kinds, and PKT.SEQ is its number.
pub(super) fn header(pkt_seq: Option<u32>) -> Value {
    match pkt_seq {
        None => json!({ "packet_type": "unknown" }),
        Some(number) => json!({ "packet_type": "unknown", "packet_number": number }),
    }
}

/// The names of what is set.
fn flags(flags: Flags) -> Vec<&'static str> {
    let names = [
        (Flags::SYN, "SYN"),
        (Flags::ACK, "ACK"),
        (Flags::FIN, "FIN"),
        (Flags::RST, "RST"),
        (Flags::PSH, "PSH"),
        (Flags::ECE, "ECE"),
        (Flags::CWR, "CWR"),
        (Flags::POLL, "POLL"),
    ];
    names.into_iter().filter(|(flag, _)| flags.has(*flag)).map(|(_, name)| name).collect()
}

fn describe(segment: &Segment<'_>) -> Map<String, Value> {
    let header = &segment.header;
    let options = &header.options;
    let mut shown = Map::new();
    let mut put = |name: &str, value: Value| drop(shown.insert(name.to_owned(), value));
    put("sequence_number", json!(header.seq.0));
    put("flags", json!(flags(header.flags)));
    if segment.form == Form::Compact {
        put("form", json!("short"));
    } else {
        put("acknowledgment_number", json!(header.ack.0));
        put("window", json!(header.window));
    }
    if let Some(stamps) = options.timestamps {
        put("tsval_us", json!(stamps.val));
        put("tsecr_us", json!(stamps.ecr));
    }
    if options.tack_permitted {
        put("tack_permitted", json!(true));
    }
    shown
}

/// The reason of an acknowledgment, and what it says. Numbers are as they travel, 32 bits.
fn acknowledgment(kind: AckType, segment: &Segment<'_>) -> Value {
    let reason = match kind {
        AckType::Tack => "tack",
        AckType::LossIack => "loss",
        AckType::WindowIack => "window",
        AckType::FrequencyIack => "frequency",
        AckType::RttIack => "rtt",
        AckType::CeIack => "congestion_experienced",
        AckType::Unknown(_) => "unknown",
    };
    let mut data = json!({ "reason": reason });
    let said = match said(kind, segment) {
        Ok(said) => said,
        Err(error) => {
            data["error"] = json!(error.to_string());
            return data;
        }
    };
    if let Said::Tack(tack) = &said {
        let low = |n: u64| n & u64::from(u32::MAX);
        data["largest_packet_number"] = json!(low(tack.largest_pkt_seq));
        data["interval_ms"] = json!(tack.interval.as_secs_f64() * 1_000.0);
        data["delivery_rate_bps"] = json!(tack.delivery_rate.map(|rate| rate.as_bps()));
        data["loss_ratio"] = json!(tack.rho);
        let holes = tack.holes.iter().map(|hole| [low(hole.start), low(hole.end)]);
        data["holes"] = json!(holes.collect::<Vec<_>>());
        data["holes_complete"] = json!(tack.holes_complete);
        if let Some(timing) = tack.timing {
            data["departure_us"] = json!(timing.departure_us);
            data["delay_us"] = json!(timing.delay.as_micros() as u64);
        }
    }
    let lost = lost(&said);
    if !lost.is_empty() {
        data["reason"] = json!("loss");
        data["lost_packet_numbers"] = json!(lost);
    }
    data
}
