//! Whether a file is qlog: JSON text sequences [RFC 7464 §2], the header and the fields of events of
//! [draft-ietf-quic-qlog-main-schema], and those of our own events as `docs/qlog.md` lists them.

use serde_json::{Map, Value};

/// What a field may hold.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// Not negative.
    Number,
    /// A whole number of 32 bits.
    Word,
    Bool,
    Object,
    List,
    Objects,
    /// A list of pairs of numbers.
    Pairs,
}

/// A field's name, what it holds and whether it must be there.
type Field = (&'static str, Kind, bool);

/// Fields of an event [qlog main schema, "Events"].
const EVENT: [Field; 7] = [
    ("time", Kind::Number, true),
    ("name", Kind::Text, true),
    ("data", Kind::Object, true),
    ("group_id", Kind::Text, false),
    ("tuple", Kind::Text, false),
    ("time_format", Kind::Text, false),
    ("system_info", Kind::Object, false),
];

const PACKET: [Field; 4] = [
    ("header", Kind::Object, true),
    ("raw", Kind::Object, true),
    ("acknowledgment", Kind::Object, false),
    ("frames", Kind::Objects, false),
];

const DROPPED: [Field; 2] = [("raw", Kind::Object, true), ("trigger", Kind::Text, true)];

/// [qlog main schema, "RawInfo"].
const RAW: [Field; 2] = [("length", Kind::Word, true), ("payload_length", Kind::Word, false)];

const HEADER: [Field; 9] = [
    ("sequence_number", Kind::Word, true),
    ("flags", Kind::List, true),
    ("acknowledgment_number", Kind::Word, false),
    ("window", Kind::Word, false),
    ("packet_number", Kind::Word, false),
    ("form", Kind::Text, false),
    ("tsval_us", Kind::Word, false),
    ("tsecr_us", Kind::Word, false),
    ("tack_permitted", Kind::Bool, false),
];

/// Of a QUIC packet.
const QUIC_HEADER: [Field; 2] =
    [("packet_type", Kind::Text, true), ("packet_number", Kind::Number, true)];

const FRAME: [Field; 6] = [
    ("frame_type", Kind::Text, true),
    ("stream_id", Kind::Number, false),
    ("offset", Kind::Number, false),
    ("length", Kind::Word, false),
    ("fin", Kind::Bool, false),
    ("acked_ranges", Kind::Pairs, false),
];

/// By the names of [draft-ietf-quic-qlog-quic-events], with their units.
const METRICS: [Field; 7] = [
    ("smoothed_rtt_ms", Kind::Number, false),
    ("rtt_variance_ms", Kind::Number, false),
    ("min_rtt_ms", Kind::Number, false),
    ("congestion_window", Kind::Number, true),
    ("bytes_in_flight", Kind::Number, true),
    ("delivery_rate_bps", Kind::Number, false),
    ("packets_lost", Kind::Number, true),
];

const ACKNOWLEDGMENT: [Field; 10] = [
    ("reason", Kind::Text, true),
    ("largest_packet_number", Kind::Word, false),
    ("interval_ms", Kind::Number, false),
    ("delivery_rate_bps", Kind::Number, false),
    ("loss_ratio", Kind::Number, false),
    ("holes", Kind::Pairs, false),
    ("holes_complete", Kind::Bool, false),
    ("departure_us", Kind::Word, false),
    ("delay_us", Kind::Number, false),
    ("lost_packet_numbers", Kind::Pairs, false),
];

const REASONS: [&str; 13] = [
    "tack",
    "loss",
    "window",
    "frequency",
    "rtt",
    "congestion_experienced",
    "unknown",
    "count",
    "delay",
    "reordering",
    "immediate",
    "handshake",
    "piggyback",
];

/// The events of a file that is one.
///
/// # Errors
/// Where it is none, and why.
pub(crate) fn events(file: &[u8]) -> Result<Vec<Value>, String> {
    let mut records = file.split(|byte| *byte == 0x1e);
    if records.next().is_none_or(|before| !before.is_empty()) {
        return Err("something before the first record separator".to_owned());
    }
    let mut parsed = Vec::new();
    for (index, record) in records.enumerate() {
        let at = |why: &str| format!("record {index}: {why}");
        let text = record.strip_suffix(b"\n").ok_or_else(|| at("no line feed at its end"))?;
        let value: Value = serde_json::from_slice(text).map_err(|e| at(&e.to_string()))?;
        if index == 0 {
            header(&value).map_err(|why| at(&why))?;
        } else {
            event(&value).map_err(|why| at(&why))?;
            parsed.push(value);
        }
    }
    let times = parsed.iter().map(|event| event["time"].as_f64().unwrap_or(f64::NAN));
    if times.is_sorted() { Ok(parsed) } else { Err("times go back".to_owned()) }
}

/// [qlog main schema, "QlogFileSeq"].
fn header(value: &Value) -> Result<(), String> {
    let text = |pointer: &str| {
        let found = value.pointer(pointer).and_then(Value::as_str);
        found.ok_or_else(|| format!("no {pointer}"))
    };
    let wanted = |pointer: &str, values: &[&str]| match text(pointer)? {
        found if values.contains(&found) => Ok(()),
        found => Err(format!("{pointer} is {found}")),
    };
    wanted("/file_schema", &["urn:ietf:params:qlog:file:sequential"])?;
    wanted("/serialization_format", &["application/qlog+json-seq"])?;
    wanted("/trace/vantage_point/type", &["client", "server", "network", "unknown"])?;
    wanted(
        "/trace/common_fields/time_format",
        &["relative_to_epoch", "relative_to_previous_event"],
    )?;
    wanted("/trace/common_fields/reference_time/clock_type", &["system", "monotonic"])?;
    text("/trace/common_fields/reference_time/epoch")?;
    let schemas = value.pointer("/trace/event_schemas").and_then(Value::as_array);
    match schemas.map(Vec::as_slice) {
        Some([schema]) if schema.as_str().is_some_and(|s| s.starts_with("urn:tack:")) => Ok(()),
        other => Err(format!("event_schemas: {other:?}")),
    }
}

fn event(value: &Value) -> Result<(), String> {
    fields("event", value, &EVENT)?;
    let data = &value["data"];
    match value["name"].as_str() {
        Some("tack:packet_sent" | "tack:packet_received") => {
            fields("data", data, &PACKET)?;
            fields("raw", &data["raw"], &RAW)?;
            match data.get("frames").and_then(Value::as_array) {
                None => fields("header", &data["header"], &HEADER)?,
                Some(frames) => {
                    fields("header", &data["header"], &QUIC_HEADER)?;
                    frames.iter().try_for_each(|frame| fields("frame", frame, &FRAME))?;
                }
            }
            match data.get("acknowledgment") {
                None => Ok(()),
                Some(said) => acknowledgment(said),
            }
        }
        Some("tack:packet_dropped") => {
            fields("data", data, &DROPPED)?;
            fields("raw", &data["raw"], &RAW)
        }
        Some("tack:recovery_metrics_updated") => fields("data", data, &METRICS),
        other => Err(format!("no event of ours: {other:?}")),
    }
}

fn acknowledgment(said: &Value) -> Result<(), String> {
    // What is not known yet is null.
    let known: Map<String, Value> = said
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    fields("acknowledgment", &Value::Object(known), &ACKNOWLEDGMENT)?;
    match said["reason"].as_str() {
        Some(reason) if REASONS.contains(&reason) => Ok(()),
        other => Err(format!("no reason: {other:?}")),
    }
}

/// Whether it has the fields that it must have, and others only if it may.
fn fields(what: &str, value: &Value, all: &[Field]) -> Result<(), String> {
    let object = value.as_object().ok_or_else(|| format!("{what} is no object"))?;
    for (name, _, _) in all.iter().filter(|(_, _, must)| *must) {
        if !object.contains_key(*name) {
            return Err(format!("{what} has no {name}"));
        }
    }
    for (name, value) in object {
        match all.iter().find(|(known, _, _)| known == name) {
            None => return Err(format!("{what} has {name}, which is no field of it")),
            Some((_, kind, _)) if !kind.fits(value) => {
                return Err(format!("{what}.{name} is {value}"));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

impl Kind {
    fn fits(self, value: &Value) -> bool {
        let word = |value: &Value| value.as_u64().is_some_and(|n| n <= u64::from(u32::MAX));
        match self {
            Kind::Text => value.is_string(),
            Kind::Number => value.as_f64().is_some_and(|n| n >= 0.0),
            Kind::Word => word(value),
            Kind::Bool => value.is_boolean(),
            Kind::Object => value.is_object(),
            Kind::List => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
            Kind::Objects => value.as_array().is_some_and(|all| all.iter().all(Value::is_object)),
            Kind::Pairs => value.as_array().is_some_and(|all| {
                all.iter().all(|pair| {
                    pair.as_array().is_some_and(|pair| pair.len() == 2 && pair.iter().all(word))
                })
            }),
        }
    }
}

#[test]
fn what_is_no_qlog_is_named() {
    let head = "\u{1e}{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\
                \"serialization_format\":\"application/qlog+json-seq\",\"trace\":{\
                \"vantage_point\":{\"type\":\"unknown\"},\"event_schemas\":[\"urn:tack:x\"],\
                \"common_fields\":{\"time_format\":\"relative_to_epoch\",\
                \"reference_time\":{\"clock_type\":\"monotonic\",\"epoch\":\"unknown\"}}}}\n";
    let event = "\u{1e}{\"time\":1.5,\"name\":\"tack:packet_sent\",\"data\":{\"raw\":\
                 {\"length\":9},\"header\":{\"sequence_number\":1,\"flags\":[\"ACK\"]}}}\n";
    let whole = format!("{head}{event}");
    assert_eq!(events(whole.as_bytes()).map(|all| all.len()), Ok(1));
    for (from, to, why) in [
        ("\u{1e}{\"file", "x\u{1e}{\"file", "before the first"),
        ("json-seq", "json", "serialization_format"),
        ("\"unknown\"},\"event", "\"nobody\"},\"event", "vantage_point"),
        ("monotonic", "sundial", "clock_type"),
        ("urn:tack:x", "x", "event_schemas"),
        ("\"time\":1.5,", "", "event has no time"),
        ("1.5", "-1", "event.time is -1"),
        ("packet_sent", "packet_lost", "no event of ours"),
        ("\"length\":9", "\"length\":\"9\"", "raw.length"),
        ("\"flags\"", "\"flag\"", "header has no flags"),
        ("\"time\":", "\"when\":1,\"time\":", "which is no field"),
        ("}}}\n\u{1e}", "}}}\u{1e}", "no line feed"),
    ] {
        let broken = whole.replacen(from, to, 1);
        assert_ne!(broken, whole, "{from}");
        let said = events(broken.as_bytes()).unwrap_err();
        assert!(said.contains(why), "{why}: {said}");
    }
    let back = format!("{whole}{}", event.replace("1.5", "1.4"));
    assert_eq!(events(back.as_bytes()), Err("times go back".to_owned()));
}
