//! QUIC's frames in the words of [draft-ietf-quic-qlog-quic-events-04]. What streams carry is left out, and so is
//! what only the two ends should know: tokens.

use serde_json::{Value, json};
use tack_net::quic::wire::{Close, Frame, Reader};

/// Bytes as the draft writes them.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A frame that the draft does not know, or that cannot be read; its type is the first number of `bytes`. Readers of this
/// version want it by one name or by the other.
pub(super) fn unknown(bytes: &[u8]) -> Value {
    let kind = Reader::new(bytes).varint("frame type").unwrap_or_default();
    json!({ "frame_type": "unknown", "frame_type_value": kind, "raw_frame_type": kind })
}

/// A frame of an extension, by a name of ours.
fn extension(name: &str, frame: &Frame<'_>) -> Value {
    let mut bytes = Vec::new();
    frame.emit(&mut bytes);
    let mut shown = unknown(&bytes);
    shown["name"] = json!(name);
    shown
}

/// A frame by its name, and what it says.
pub(super) fn describe(frame: &Frame<'_>) -> Value {
    let named = |name: &str| json!({ "frame_type": name });
    match frame {
        Frame::Padding(bytes) => {
            json!({ "frame_type": "padding", "length": bytes, "payload_length": bytes })
        }
        Frame::Ping => named("ping"),
        Frame::Ack(ack) => {
            let ranges: Vec<_> = ack.ranges.iter().map(|r| [r.start, r.end - 1]).collect();
            let mut shown = json!({ "frame_type": "ack", "acked_ranges": ranges });
            if let Some(ecn) = &ack.ecn {
                shown["ect0"] = json!(ecn.ect0);
                shown["ect1"] = json!(ecn.ect1);
                shown["ce"] = json!(ecn.ce);
            }
            shown
        }
        Frame::Crypto { offset, data } => {
            json!({ "frame_type": "crypto", "offset": offset, "length": data.len() })
        }
        Frame::Stream { id, offset, fin, data } => {
            let mut shown = json!({
                "frame_type": "stream", "stream_id": id, "offset": offset, "length": data.len(),
            });
            if *fin {
                shown["fin"] = json!(true);
            }
            shown
        }
        Frame::Datagram(data) => json!({ "frame_type": "datagram", "length": data.len() }),
        Frame::HandshakeDone => named("handshake_done"),
        Frame::Close(close) => describe_close(close),
        Frame::PathChallenge(data) => json!({ "frame_type": "path_challenge", "data": hex(data) }),
        Frame::PathResponse(data) => json!({ "frame_type": "path_response", "data": hex(data) }),
        Frame::AckFrequency(_) => extension("ack_frequency", frame),
        Frame::ImmediateAck => extension("immediate_ack", frame),
        Frame::Report(_) => extension("tack_report", frame),
        Frame::Loss(_) => extension("tack_loss", frame),
        Frame::Frequency(_) => extension("tack_frequency", frame),
        Frame::Stamp(_) => extension("tack_stamp", frame),
        of_limits_and_ids => describe_rest(of_limits_and_ids),
    }
}

/// Frames of flow control, of streams that end early, and of connection IDs.
fn describe_rest(frame: &Frame<'_>) -> Value {
    let stream_type = |bidi: bool| if bidi { "bidirectional" } else { "unidirectional" };
    match frame {
        Frame::ResetStream { id, code, final_size } => json!({
            "frame_type": "reset_stream", "stream_id": id, "error_code": error_code(*code),
            "final_size": final_size,
        }),
        Frame::StopSending { id, code } => {
            json!({ "frame_type": "stop_sending", "stream_id": id, "error_code": error_code(*code) })
        }
        Frame::MaxData(most) => json!({ "frame_type": "max_data", "maximum": most }),
        Frame::MaxStreamData { id, most } => {
            json!({ "frame_type": "max_stream_data", "stream_id": id, "maximum": most })
        }
        Frame::MaxStreams { bidi, most } => json!({
            "frame_type": "max_streams", "stream_type": stream_type(*bidi), "maximum": most,
        }),
        Frame::DataBlocked(limit) => json!({ "frame_type": "data_blocked", "limit": limit }),
        Frame::StreamDataBlocked { id, at } => {
            json!({ "frame_type": "stream_data_blocked", "stream_id": id, "limit": at })
        }
        Frame::StreamsBlocked { bidi, at } => json!({
            "frame_type": "streams_blocked", "stream_type": stream_type(*bidi), "limit": at,
        }),
        Frame::NewConnectionId { sequence, retire_prior_to, id, .. } => json!({
            "frame_type": "new_connection_id", "sequence_number": sequence,
            "retire_prior_to": retire_prior_to, "connection_id": hex(id),
        }),
        Frame::RetireConnectionId(sequence) => {
            json!({ "frame_type": "retire_connection_id", "sequence_number": sequence })
        }
        Frame::NewToken(token) => {
            json!({ "frame_type": "new_token", "token": { "raw": { "length": token.len() } } })
        }
        _ => unreachable!("the other ones were described before"),
    }
}

/// The draft has 32 bits for an application's codes, or their names.
fn error_code(code: u64) -> Value {
    u32::try_from(code).map_or_else(|_| json!(format!("0x{code:x}")), |code| json!(code))
}

fn describe_close(close: &Close<'_>) -> Value {
    let space = if close.frame_type.is_some() { "transport" } else { "application" };
    let mut shown = json!({
        "frame_type": "connection_close", "error_space": space, "error_code_value": close.code,
        "reason": String::from_utf8_lossy(close.reason),
    });
    if let Some(blamed) = close.frame_type.filter(|kind| *kind != 0) {
        shown["trigger_frame_type"] = json!(blamed);
    }
    shown
}
