//! Whether a file is qlog 0.3: JSON text sequences [RFC 7464 §2], the header and the events of
//! [draft-ietf-quic-qlog-main-schema-04], the data of [draft-ietf-quic-qlog-quic-events-04], and in it members of
//! our own as `docs/qlog.md` lists them. The drafts let tools add members; what is not listed here is a mistake.

use serde_json::Value;

/// What a field may hold.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Not negative.
    Float,
    /// A whole number of so many bits.
    Uint(u32),
    Bool,
    /// An even number of hexadecimal digits.
    Hex,
    Texts,
    /// What of it fits these fields.
    Object(&'static [Field]),
    /// Lists of one or two numbers of so many bits.
    Ranges(u32),
    /// QUIC's frames, each by its type.
    Frames,
    /// A code of 32 bits, or its name.
    Code,
    Any,
}

/// A field's name, what it holds and whether it must be there.
type Field = (&'static str, Kind, bool);

use Kind::{Any, Bool, Code, Float, Frames, Hex, Object, Ranges, Text, Texts, Uint, Word};

/// Main schema, "QlogFileSeq".
const FILE: &[Field] = &[
    ("qlog_format", Word(&["JSON-SEQ"]), true),
    ("qlog_version", Word(&["0.3"]), true),
    ("title", Text, false),
    ("description", Text, false),
    ("trace", Object(TRACE), true),
];

const TRACE: &[Field] = &[
    ("title", Text, false),
    ("description", Text, false),
    ("common_fields", Object(COMMON), false),
    ("vantage_point", Object(VANTAGE_POINT), false),
];

const VANTAGE_POINT: &[Field] = &[
    ("name", Text, false),
    ("type", Word(&["client", "server", "network", "unknown"]), true),
    ("flow", Word(&["client", "server", "network", "unknown"]), false),
];

/// `reference_time` must be there where times are relative, as ours are.
const COMMON: &[Field] = &[
    ("time_format", Word(&["relative"]), true),
    ("reference_time", Float, true),
    ("protocol_type", Texts, false),
    ("group_id", Text, false),
];

/// Main schema, "Event". Viewers split a trace by `group_id` only if all have one.
const EVENT: &[Field] =
    &[("time", Float, true), ("name", Text, true), ("data", Any, true), ("group_id", Text, true)];

/// Main schema, "RawInfo".
const RAW: &[Field] =
    &[("length", Uint(64), false), ("payload_length", Uint(64), false), ("data", Hex, false)];

const PACKET_TYPES: &[&str] = &[
    "initial",
    "handshake",
    "0RTT",
    "1RTT",
    "retry",
    "version_negotiation",
    "stateless_reset",
    "unknown",
];

/// QUIC events, "PacketHeader", as far as we have it.
const HEADER: &[Field] =
    &[("packet_type", Word(PACKET_TYPES), true), ("packet_number", Uint(64), false)];

/// QUIC events, "packet_sent" and "packet_received", and ours.
const PACKET: &[Field] = &[
    ("header", Object(HEADER), true),
    ("frames", Frames, false),
    ("raw", Object(RAW), true),
    ("segment", Object(SEGMENT), false),
    ("acknowledgment", Object(ACKNOWLEDGMENT), false),
];

const DROPPED: &[Field] = &[
    ("header", Object(HEADER), false),
    ("raw", Object(RAW), true),
    ("details", Object(&[("reason", Text, true)]), true),
    (
        "trigger",
        Word(&[
            "internal_error",
            "rejected",
            "unsupported",
            "invalid",
            "connection_unknown",
            "decryption_failure",
            "general",
        ]),
        true,
    ),
];

const LOST: &[Field] = &[
    ("header", Object(HEADER), true),
    ("trigger", Word(&["reordering_threshold", "time_threshold", "pto_expired"]), false),
];

const STATE: &[Field] = &[
    ("old", Text, false),
    ("new", Text, true),
    ("trigger", Word(&["persistent_congestion", "ECN"]), false),
];

/// QUIC events, "metrics_updated", and two of ours.
const METRICS: &[Field] = &[
    ("min_rtt", Float, false),
    ("smoothed_rtt", Float, false),
    ("latest_rtt", Float, false),
    ("rtt_variance", Float, false),
    ("pto_count", Uint(16), false),
    ("congestion_window", Uint(64), true),
    ("bytes_in_flight", Uint(64), true),
    ("ssthresh", Uint(64), false),
    ("packets_in_flight", Uint(64), false),
    ("pacing_rate", Uint(64), false),
    ("delivery_rate_bps", Uint(64), false),
    ("packets_lost", Uint(64), true),
];

/// Ours: the header of TCP-TACK.
const SEGMENT: &[Field] = &[
    ("sequence_number", Uint(32), true),
    ("flags", Texts, true),
    ("acknowledgment_number", Uint(32), false),
    ("window", Uint(32), false),
    ("form", Word(&["short"]), false),
    ("tsval_us", Uint(32), false),
    ("tsecr_us", Uint(32), false),
    ("tack_permitted", Bool, false),
];

/// Ours. What is not known yet is null.
const ACKNOWLEDGMENT: &[Field] = &[
    ("reason", Word(REASONS), true),
    ("largest_packet_number", Uint(64), false),
    ("interval_ms", Float, false),
    ("delivery_rate_bps", Uint(64), false),
    ("loss_ratio", Float, false),
    ("holes", Ranges(64), false),
    ("holes_complete", Bool, false),
    ("departure_us", Uint(32), false),
    ("delay_us", Uint(64), false),
    ("lost_packet_numbers", Ranges(64), false),
];

const REASONS: &[&str] = &[
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

/// QUIC events, "QuicBaseFrames", without the type; the last ones are of drafts and ours.
const FRAMES: &[(&str, &[Field])] = &[
    ("padding", &[("length", Uint(32), false), ("payload_length", Uint(32), true)]),
    ("ping", &[]),
    (
        "ack",
        &[
            ("ack_delay", Float, false),
            ("acked_ranges", Ranges(64), false),
            ("ect1", Uint(64), false),
            ("ect0", Uint(64), false),
            ("ce", Uint(64), false),
        ],
    ),
    (
        "reset_stream",
        &[
            ("stream_id", Uint(64), true),
            ("error_code", Code, true),
            ("final_size", Uint(64), true),
        ],
    ),
    ("stop_sending", &[("stream_id", Uint(64), true), ("error_code", Code, true)]),
    ("crypto", &[("offset", Uint(64), true), ("length", Uint(64), true)]),
    ("new_token", &[("token", Object(&[("raw", Object(RAW), false)]), true)]),
    (
        "stream",
        &[
            ("stream_id", Uint(64), true),
            ("offset", Uint(64), true),
            ("length", Uint(64), true),
            ("fin", Bool, false),
        ],
    ),
    ("max_data", &[("maximum", Uint(64), true)]),
    ("max_stream_data", &[("stream_id", Uint(64), true), ("maximum", Uint(64), true)]),
    ("max_streams", &[("stream_type", Word(STREAM_TYPES), true), ("maximum", Uint(64), true)]),
    ("data_blocked", &[("limit", Uint(64), true)]),
    ("stream_data_blocked", &[("stream_id", Uint(64), true), ("limit", Uint(64), true)]),
    ("streams_blocked", &[("stream_type", Word(STREAM_TYPES), true), ("limit", Uint(64), true)]),
    (
        "new_connection_id",
        &[
            ("sequence_number", Uint(32), true),
            ("retire_prior_to", Uint(32), true),
            ("connection_id", Hex, true),
        ],
    ),
    ("retire_connection_id", &[("sequence_number", Uint(32), true)]),
    ("path_challenge", &[("data", Hex, false)]),
    ("path_response", &[("data", Hex, false)]),
    (
        "connection_close",
        &[
            ("error_space", Word(&["transport", "application"]), false),
            ("error_code", Code, false),
            ("error_code_value", Uint(64), false),
            ("reason", Text, false),
            ("trigger_frame_type", Uint(64), false),
        ],
    ),
    ("handshake_done", &[]),
    (
        "unknown",
        &[
            ("frame_type_value", Uint(64), true),
            ("raw_frame_type", Uint(64), true),
            ("name", Word(EXTENSIONS), false),
            ("raw", Object(RAW), false),
        ],
    ),
    ("datagram", &[("length", Uint(64), false)]),
];

/// Frames of extensions are unknown to the draft, and have names of ours.
const EXTENSIONS: &[&str] =
    &["ack_frequency", "immediate_ack", "tack_report", "tack_loss", "tack_frequency", "tack_stamp"];
const STREAM_TYPES: &[&str] = &["unidirectional", "bidirectional"];

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
            header(text, &value).map_err(|why| at(&why))?;
        } else {
            event(&value).map_err(|why| at(&why))?;
            parsed.push(value);
        }
    }
    let times = parsed.iter().map(|event| event["time"].as_f64().unwrap_or(f64::NAN));
    if times.is_sorted() { Ok(parsed) } else { Err("times go back".to_owned()) }
}

fn header(text: &[u8], value: &Value) -> Result<(), String> {
    fits("file", value, Object(FILE))?;
    // By these a tool tells what it is.
    let begin = String::from_utf8_lossy(&text[..text.len().min(256)]);
    match begin.contains("\"qlog_version\"") && begin.contains("\"qlog_format\"") {
        true => Ok(()),
        false => Err("version and format are not in the first 256 bytes".to_owned()),
    }
}

fn event(value: &Value) -> Result<(), String> {
    fits("event", value, Object(EVENT))?;
    let data = &value["data"];
    match value["name"].as_str() {
        Some("transport:packet_sent" | "transport:packet_received") => {
            fits("data", data, Object(PACKET))?;
            let is_quic = data.get("frames").is_some();
            let is_segment = data.get("segment").is_some();
            let kind = data["header"]["packet_type"].as_str();
            match (is_quic, is_segment, kind == Some("unknown")) {
                // A packet of TCP-TACK is none of QUIC's; only its data is numbered.
                (false, true, true) => Ok(()),
                (true, false, false) if data["header"].get("packet_number").is_some() => Ok(()),
                _ => Err(format!("neither a packet of QUIC nor of TCP-TACK: {data}")),
            }
        }
        Some("transport:packet_dropped") => fits("data", data, Object(DROPPED)),
        Some("recovery:packet_lost") => {
            fits("data", data, Object(LOST))?;
            // Without a number a viewer cannot tell which.
            fits("number", &data["header"]["packet_number"], Uint(64))
        }
        Some("recovery:congestion_state_updated") => fits("data", data, Object(STATE)),
        Some("recovery:metrics_updated") => fits("data", data, Object(METRICS)),
        other => Err(format!("no event of ours: {other:?}")),
    }
}

/// Whether an object has the fields that it must have, and others only if it may.
fn fields(what: &str, value: &Value, all: &[Field]) -> Result<(), String> {
    let object = value.as_object().ok_or_else(|| format!("{what} is no object"))?;
    for (name, _, _) in all.iter().filter(|(_, _, must)| *must) {
        if object.get(*name).is_none_or(Value::is_null) {
            return Err(format!("{what} has no {name}"));
        }
    }
    for (name, value) in object {
        match all.iter().find(|(known, _, _)| known == name) {
            None => return Err(format!("{what} has {name}, which is no field of it")),
            Some(_) if value.is_null() && what == "acknowledgment" => {}
            Some((name, kind, _)) => fits(name, value, *kind)?,
        }
    }
    Ok(())
}

fn frames(value: &Value) -> Result<(), String> {
    for frame in value.as_array().ok_or("frames are no list")? {
        let kind = frame["frame_type"].as_str().ok_or("a frame without a type")?;
        let known = FRAMES.iter().find(|(name, _)| *name == kind);
        let (_, own) = known.ok_or_else(|| format!("no frame: {kind}"))?;
        let all: Vec<Field> = own.iter().copied().chain([("frame_type", Text, true)]).collect();
        fields(kind, frame, &all)?;
        if frame.get("fin") == Some(&Value::Bool(false)) {
            return Err("fin must only be there if it is true".to_owned());
        }
    }
    Ok(())
}

fn fits(what: &str, value: &Value, kind: Kind) -> Result<(), String> {
    let uint = |value: &Value, bits: u32| value.as_u64().is_some_and(|n| n >> (bits - 1) <= 1);
    let list = |of: &dyn Fn(&Value) -> bool| value.as_array().is_some_and(|all| all.iter().all(of));
    let is_so = match kind {
        Any => true,
        Text => value.is_string(),
        Word(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Float => value.as_f64().is_some_and(|n| n >= 0.0),
        Uint(bits) => uint(value, bits),
        Code => value.is_string() || uint(value, 32),
        Bool => value.is_boolean(),
        Hex => value.as_str().is_some_and(|text| {
            text.len() % 2 == 0
                && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        }),
        Texts => list(&Value::is_string),
        Ranges(bits) => list(&|range| {
            let ends = range.as_array().map_or(&[][..], Vec::as_slice);
            (1..=2).contains(&ends.len()) && ends.iter().all(|end| uint(end, bits))
        }),
        Frames => return frames(value),
        Object(all) => return fields(what, value, all),
    };
    if is_so { Ok(()) } else { Err(format!("{what} is {value}")) }
}

#[test]
fn what_is_no_qlog_is_named() {
    let head = "\u{1e}{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"trace\":{\
                \"vantage_point\":{\"type\":\"unknown\"},\"common_fields\":{\
                \"time_format\":\"relative\",\"reference_time\":7.5}}}\n";
    let event = |time: &str, name: &str, data: &str| {
        format!(
            "\u{1e}{{\"time\":{time},\"group_id\":\"g\",\"name\":\"{name}\",\"data\":{data}}}\n"
        )
    };
    let segment = "{\"raw\":{\"length\":9},\"header\":{\"packet_type\":\"unknown\"},\
                   \"segment\":{\"sequence_number\":1,\"flags\":[\"ACK\"]}}";
    let packet = "{\"raw\":{\"length\":9},\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":3},\
                  \"frames\":[{\"frame_type\":\"ack\",\"acked_ranges\":[[1,2],[7]]},\
                  {\"frame_type\":\"max_data\",\"maximum\":5}]}";
    let lost = "{\"header\":{\"packet_type\":\"1RTT\",\"packet_number\":4}}";
    let whole = [
        head.to_owned(),
        event("1.5", "transport:packet_sent", segment),
        event("1.5", "transport:packet_received", packet),
        event("2", "recovery:packet_lost", lost),
        event("3", "recovery:congestion_state_updated", "{\"new\":\"slow_start\"}"),
    ]
    .concat();
    assert_eq!(events(whole.as_bytes()).map(|all| all.len()), Ok(4));
    for (from, to, why) in [
        ("\u{1e}{\"qlog", "x\u{1e}{\"qlog", "before the first"),
        ("JSON-SEQ", "JSON", "qlog_format is"),
        ("0.3", "0.4", "qlog_version is"),
        ("\"unknown\"},\"common", "\"nobody\"},\"common", "type is \"nobody\""),
        ("\"time_format\":\"relative\",", "", "common_fields has no time_format"),
        (",\"reference_time\":7.5", "", "common_fields has no reference_time"),
        ("\"time\":1.5,", "", "event has no time"),
        ("\"group_id\":\"g\",", "", "event has no group_id"),
        ("\"time\":1.5", "\"time\":-1", "time is -1"),
        ("transport:packet_sent", "tack:packet_sent", "no event of ours"),
        ("\"length\":9", "\"length\":\"9\"", "length is"),
        ("\"flags\"", "\"flag\"", "segment has no flags"),
        ("\"segment\"", "\"segments\"", "data has segments, which is no field"),
        ("\"packet_type\":\"unknown\"", "\"packet_type\":\"2RTT\"", "packet_type is"),
        (",\"packet_number\":3", "", "neither a packet of QUIC"),
        ("max_data", "most_data", "no frame: most_data"),
        ("\"maximum\":5", "\"maximum\":-5", "maximum is -5"),
        (",\"maximum\":5", "", "max_data has no maximum"),
        ("[7]", "[7,8,9]", "acked_ranges is"),
        (",\"packet_number\":4", "", "number is null"),
        ("\"new\"", "\"now\"", "data has no new"),
        ("}}}\n\u{1e}", "}}}\u{1e}", "no line feed"),
    ] {
        let broken = whole.replacen(from, to, 1);
        assert_ne!(broken, whole, "{from}");
        let said = events(broken.as_bytes()).unwrap_err();
        assert!(said.contains(why), "{why}: {said}");
    }
    let back = format!("{whole}{}", event("2.9", "transport:packet_sent", segment));
    assert_eq!(events(back.as_bytes()), Err("times go back".to_owned()));
}
