//! What connections sent and received, as qlog [draft-ietf-quic-qlog-main-schema]: JSON text
//! sequences [RFC 7464], so that a file that ends anywhere is read up to there.
//!
//! Events are `tack:packet_sent` and `tack:packet_received`: the segment's header, PKT.SEQ, and of
//! an acknowledgment its kind and what is in its body. The kind is the reason: a TACK is due by
//! Eq. 4, a loss IACK tells of a gap, a window IACK of room, a frequency IACK of another interval,
//! a CE IACK of a mark. QUIC's packets are told in the same words, with their frames (`qlog/quic.rs`).
//! Connections are told apart by `group_id`.

mod quic;

use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;

use serde_json::{Map, Value, json};
use tack_net::wire::body::{Context, parse_iack, parse_tack};
use tack_net::wire::{AckType, Flags, Form, Segment};
use tack_net::{Direction, Seen, SeqNum, Tap};
use tack_units::Instant;

use super::Output;

/// What begins a record.
const RECORD_SEPARATOR: u8 = 0x1e;

/// A file under way.
pub struct Log<W> {
    out: Output<W>,
}

impl<W> fmt::Debug for Log<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").finish_non_exhaustive()
    }
}

impl<W: Write> Log<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(mut out: W) -> io::Result<Log<W>> {
        let head = json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": "tack",
            "trace": {
                "vantage_point": { "type": "unknown" },
                "event_schemas": ["urn:tack:qlog:events:1"],
                "common_fields": {
                    "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
                    "time_format": "relative_to_epoch",
                },
            },
        });
        record(&mut out, &head)?;
        Ok(Log { out: Output { out: Some(out), what: "qlog" } })
    }
}

fn record(out: &mut impl Write, value: &Value) -> io::Result<()> {
    out.write_all(&[RECORD_SEPARATOR])?;
    serde_json::to_writer(&mut *out, value)?;
    out.write_all(b"\n")
}

impl<W: Write + Send> Tap for Log<W> {
    /// Events are of what datagrams carry.
    fn passed(
        &mut self,
        _direction: Direction,
        _local: SocketAddr,
        _peer: SocketAddr,
        _datagram: &[u8],
        _at: Instant,
    ) {
    }

    fn seen(&mut self, peer: SocketAddr, seen: &Seen<'_>, at: Instant) {
        let (name, group, data) = match seen {
            Seen::Segment(direction, segment, bytes) => {
                let (src, dst) = (segment.header.src_port, segment.header.dst_port);
                let (name, ours, theirs) = match direction {
                    Direction::Sent => ("packet_sent", src, dst),
                    Direction::Received => ("packet_received", dst, src),
                };
                (name, format!("{ours}-{peer}-{theirs}"), describe(segment, *bytes))
            }
            Seen::Unreadable(_, error, bytes) => {
                ("packet_dropped", peer.to_string(), dropped(*bytes, &error.to_string()))
            }
            Seen::Quic(seen) => quic::event(seen),
            _ => return,
        };
        let (time_ms, name) =
            ((at - Instant::ZERO).as_secs_f64() * 1_000.0, format!("tack:{name}"));
        let event = json!({ "time": time_ms, "name": name, "group_id": group, "data": data });
        self.out.write(|out| record(out, &event));
    }
}

fn dropped(bytes: usize, trigger: &str) -> Value {
    json!({ "raw": { "length": bytes }, "trigger": trigger })
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

fn describe(segment: &Segment<'_>, bytes: usize) -> Value {
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
    if let Some(pkt_seq) = options.pkt_seq {
        put("packet_number", json!(pkt_seq));
    }
    if let Some(stamps) = options.timestamps {
        put("tsval_us", json!(stamps.val));
        put("tsecr_us", json!(stamps.ecr));
    }
    if options.tack_permitted {
        put("tack_permitted", json!(true));
    }
    let mut data = json!({ "header": shown, "raw": { "length": bytes } });
    match options.ack_type {
        Some(kind) => data["acknowledgment"] = acknowledgment(kind, segment),
        None => data["raw"]["payload_length"] = json!(segment.payload.len()),
    }
    data
}

/// The reason of an acknowledgment, and what it says. Numbers are as they travel, 32 bits.
fn acknowledgment(kind: AckType, segment: &Segment<'_>) -> Value {
    let cum_ack = u64::from(segment.header.ack.0);
    // Nothing is known here of a connection's numbers but the low 32 bits: they stay as they are.
    let near = 1 << 32;
    let context = Context {
        seq_near: near | cum_ack,
        isn: SeqNum(0),
        pkt_seq_near: near,
        counter_near: 0,
        cum_ack: near | cum_ack,
        window: u64::from(segment.header.window),
    };
    let low = |n: u64| n & u64::from(u32::MAX);
    let reason = match kind {
        AckType::Tack => "tack",
        AckType::LossIack => "loss",
        AckType::WindowIack => "window",
        AckType::FrequencyIack => "frequency",
        AckType::RttIack => "rtt",
        AckType::CeIack => "congestion_experienced",
        AckType::Unknown(_) => "unknown",
    };
    let mut said = json!({ "reason": reason });
    if kind == AckType::Tack {
        match parse_tack(segment.payload, &context) {
            Ok(tack) => {
                said["largest_packet_number"] = json!(low(tack.largest_pkt_seq));
                said["interval_ms"] = json!(tack.interval.as_secs_f64() * 1_000.0);
                said["delivery_rate_bps"] = json!(tack.delivery_rate.map(|rate| rate.as_bps()));
                said["loss_ratio"] = json!(tack.rho);
                let holes = tack.holes.iter().map(|hole| [low(hole.start), low(hole.end)]);
                said["holes"] = json!(holes.collect::<Vec<_>>());
                said["holes_complete"] = json!(tack.holes_complete);
                if let Some(timing) = tack.timing {
                    said["departure_us"] = json!(timing.departure_us);
                    said["delay_us"] = json!(timing.delay.as_micros() as u64);
                }
            }
            Err(error) => said["error"] = json!(error.to_string()),
        }
    } else if let Err(error) = parse_iack(kind, segment.payload, &context) {
        said["error"] = json!(error.to_string());
    } else if kind == AckType::LossIack {
        let number = |bytes: &[u8]| bytes.iter().fold(0_u32, |n, b| n << 8 | u32::from(*b));
        let gaps = segment.payload.chunks_exact(8).map(|gap| {
            let (largest, second) = gap.split_at(4);
            [number(second).wrapping_add(1), number(largest).wrapping_sub(1)]
        });
        said["lost_packet_numbers"] = json!(gaps.collect::<Vec<_>>());
    }
    said
}
