//! Frames [RFC 9000 §19], datagrams [RFC 9221], ACK frequency [draft-ietf-quic-ack-frequency] and
//! TACK's (`docs/quic-tack.md`).
//!
//! Which frames may come in which packets is not decided here.

use super::ParseError;
use super::ack::Ack;
use super::read::{MAX_VARINT, Reader, put_varint, varint_len};
use super::report::{self, Loss, Report};
use crate::ack_frequency;

/// Streams of one kind [RFC 9000 §4.6].
const MAX_STREAMS: u64 = 1 << 60;
const MAX_CONNECTION_ID: u64 = 20;

/// A frame; what it carries is borrowed from the packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// So many PADDING frames in a row.
    Padding(usize),
    /// PING.
    Ping,
    /// ACK.
    Ack(Ack),
    /// RESET_STREAM.
    ResetStream {
        /// Stream.
        id: u64,
        /// Application error code.
        code: u64,
        /// Bytes of the stream.
        final_size: u64,
    },
    /// STOP_SENDING.
    StopSending {
        /// Stream.
        id: u64,
        /// Application error code.
        code: u64,
    },
    /// CRYPTO.
    Crypto {
        /// Of its first byte.
        offset: u64,
        /// Of the handshake.
        data: &'a [u8],
    },
    /// NEW_TOKEN, never empty.
    NewToken(&'a [u8]),
    /// STREAM.
    Stream {
        /// Stream.
        id: u64,
        /// Of its first byte.
        offset: u64,
        /// The stream ends with it.
        fin: bool,
        /// Of the stream.
        data: &'a [u8],
    },
    /// MAX_DATA, bytes of all streams.
    MaxData(u64),
    /// MAX_STREAM_DATA.
    MaxStreamData {
        /// Stream.
        id: u64,
        /// Bytes.
        most: u64,
    },
    /// MAX_STREAMS.
    MaxStreams {
        /// Of streams that both sides send on.
        bidi: bool,
        /// How many, ever; at most 2^60.
        most: u64,
    },
    /// DATA_BLOCKED at so many bytes.
    DataBlocked(u64),
    /// STREAM_DATA_BLOCKED.
    StreamDataBlocked {
        /// Stream.
        id: u64,
        /// Bytes.
        at: u64,
    },
    /// STREAMS_BLOCKED.
    StreamsBlocked {
        /// Of streams that both sides send on.
        bidi: bool,
        /// How many; at most 2^60.
        at: u64,
    },
    /// NEW_CONNECTION_ID.
    NewConnectionId {
        /// Its number.
        sequence: u64,
        /// Those below are to be retired; at most `sequence`.
        retire_prior_to: u64,
        /// 1 to 20 bytes.
        id: &'a [u8],
        /// For a stateless reset.
        token: [u8; 16],
    },
    /// RETIRE_CONNECTION_ID.
    RetireConnectionId(u64),
    /// PATH_CHALLENGE.
    PathChallenge([u8; 8]),
    /// PATH_RESPONSE.
    PathResponse([u8; 8]),
    /// CONNECTION_CLOSE.
    Close(Close<'a>),
    /// HANDSHAKE_DONE.
    HandshakeDone,
    /// DATAGRAM.
    Datagram(&'a [u8]),
    /// ACK_FREQUENCY.
    AckFrequency(ack_frequency::Frame),
    /// IMMEDIATE_ACK.
    ImmediateAck,
    /// TACK_REPORT: what a TACK says beside an ACK frame.
    Report(Report),
    /// TACK_LOSS: gaps of the ACK frame beside it that have settled.
    Loss(Loss),
    /// TACK_FREQUENCY: the sender of data asks for this frequency.
    Frequency(tack::Frequency),
    /// TACK_STAMP: when the packet left, in microseconds of its sender's clock, modulo 2^32.
    Stamp(u32),
}

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    /// A transport error code, or the application's.
    pub code: u64,
    /// The frame type to blame, 0 if none; `None`: the application closes.
    pub frame_type: Option<u64>,
    /// In words; not always UTF-8.
    pub reason: &'a [u8],
}

/// Code points. Those of drafts and ours are in no registry.
mod kind {
    pub(super) const STREAM: u64 = 0x08;
    pub(super) const STREAM_LAST: u64 = 0x0f;
    pub(super) const IMMEDIATE_ACK: u64 = 0x1f;
    pub(super) const DATAGRAM: u64 = 0x30;
    pub(super) const DATAGRAM_LEN: u64 = 0x31;
    pub(super) const ACK_FREQUENCY: u64 = 0xaf;
    pub(super) const TACK_REPORT: u64 = 0x3ac0;
    pub(super) const TACK_LOSS: u64 = 0x3ac1;
    pub(super) const TACK_FREQUENCY: u64 = 0x3ac2;
    pub(super) const TACK_STAMP: u64 = 0x3ac3;
}

/// Type of the next frame, which must be in its fewest bytes [RFC 9000 §12.4].
fn frame_type(reader: &mut Reader<'_>) -> Result<u64, ParseError> {
    let before = reader.rest().len();
    let kind = reader.varint("frame type")?;
    match before - reader.rest().len() == varint_len(kind) {
        true => Ok(kind),
        false => Err(ParseError::LongFrameType(kind)),
    }
}

const OFF: u64 = 0x04;
const LEN: u64 = 0x02;
const FIN: u64 = 0x01;

impl<'a> Frame<'a> {
    /// Reads the next frame.
    ///
    /// # Errors
    /// What makes it none; the rest of the packet is worthless then.
    pub fn parse(reader: &mut Reader<'a>) -> Result<Frame<'a>, ParseError> {
        let kind = frame_type(reader)?;
        Ok(match kind {
            0x00 => {
                let more = reader.rest().iter().take_while(|byte| **byte == 0).count();
                reader.take(more as u64, "PADDING")?;
                Frame::Padding(1 + more)
            }
            0x01 => Frame::Ping,
            0x02 | 0x03 => Frame::Ack(Ack::parse(reader, kind == 0x03)?),
            0x06 => {
                let offset = reader.varint("CRYPTO offset")?;
                let data = data(reader.prefixed("CRYPTO data")?, offset, "CRYPTO offset")?;
                Frame::Crypto { offset, data }
            }
            0x07 => match reader.prefixed("token")? {
                [] => return Err(ParseError::Value { what: "token length", value: 0 }),
                token => Frame::NewToken(token),
            },
            kind::STREAM..=kind::STREAM_LAST => stream(kind, reader)?,
            0x18 => new_connection_id(reader)?,
            0x1a => Frame::PathChallenge(reader.array("PATH_CHALLENGE")?),
            0x1b => Frame::PathResponse(reader.array("PATH_RESPONSE")?),
            0x1c | 0x1d => Frame::Close(Close {
                code: reader.varint("error code")?,
                frame_type: match kind {
                    0x1c => Some(reader.varint("frame type to blame")?),
                    _ => None,
                },
                reason: reader.prefixed("reason")?,
            }),
            0x1e => Frame::HandshakeDone,
            kind::IMMEDIATE_ACK => Frame::ImmediateAck,
            kind::DATAGRAM => Frame::Datagram(reader.take(reader.rest().len() as u64, "datagram")?),
            kind::DATAGRAM_LEN => Frame::Datagram(reader.prefixed("datagram")?),
            kind::ACK_FREQUENCY => Frame::AckFrequency(frequency_request(reader)?),
            kind::TACK_REPORT => Frame::Report(Report::parse(reader)?),
            kind::TACK_LOSS => Frame::Loss(Loss { unsettled: reader.varint("unsettled")? }),
            kind::TACK_FREQUENCY => Frame::Frequency(report::parse_frequency(reader)?),
            kind::TACK_STAMP => Frame::Stamp(u32::from_be_bytes(reader.array("stamp")?)),
            _ => return numbers(kind, reader),
        })
    }

    /// Appends the frame. STREAM and DATAGRAM frames have their length, so that others may follow.
    ///
    /// # Panics
    /// When a number is beyond what its field holds: a bug of the caller.
    pub fn emit(&self, out: &mut Vec<u8>) {
        if self.emit_numbers(out) {
            return;
        }
        let mut put = |values: &[u64]| values.iter().for_each(|value| put_varint(*value, out));
        match self {
            Frame::Padding(len) => out.resize(out.len() + len, 0),
            Frame::Ack(ack) => ack.emit(out),
            Frame::Crypto { offset, data } => {
                put(&[0x06, *offset, data.len() as u64]);
                out.extend_from_slice(data);
            }
            Frame::NewToken(token) => {
                put(&[0x07, token.len() as u64]);
                out.extend_from_slice(token);
            }
            Frame::Stream { id, offset, fin, data } => {
                Frame::put_stream_header(*id, *offset, *fin, data.len(), out);
                out.extend_from_slice(data);
            }
            Frame::NewConnectionId { sequence, retire_prior_to, id, token } => {
                put(&[0x18, *sequence, *retire_prior_to]);
                out.push(id.len() as u8);
                out.extend_from_slice(id);
                out.extend_from_slice(token);
            }
            Frame::PathChallenge(data) => {
                put(&[0x1a]);
                out.extend_from_slice(data);
            }
            Frame::PathResponse(data) => {
                put(&[0x1b]);
                out.extend_from_slice(data);
            }
            Frame::Close(close) => {
                match close.frame_type {
                    Some(frame_type) => put(&[0x1c, close.code, frame_type]),
                    None => put(&[0x1d, close.code]),
                }
                put_varint(close.reason.len() as u64, out);
                out.extend_from_slice(close.reason);
            }
            Frame::Datagram(data) => {
                put(&[kind::DATAGRAM_LEN, data.len() as u64]);
                out.extend_from_slice(data);
            }
            Frame::Report(report) => {
                put(&[kind::TACK_REPORT]);
                report.emit(out);
            }
            Frame::Frequency(frequency) => {
                put(&[kind::TACK_FREQUENCY]);
                report::emit_frequency(frequency, out);
            }
            Frame::Stamp(stamp) => {
                put(&[kind::TACK_STAMP]);
                out.extend_from_slice(&stamp.to_be_bytes());
            }
            other => unreachable!("{other:?} is of numbers"),
        }
    }

    /// Bytes of the header of a STREAM frame with at most `most` bytes of data.
    pub fn stream_header_len(id: u64, offset: u64, most: u64) -> usize {
        let offset_len = if offset > 0 { varint_len(offset) } else { 0 };
        1 + varint_len(id) + offset_len + varint_len(most)
    }

    /// Appends what comes before the `len` bytes of data of a STREAM frame, as [`Frame::emit`] would:
    /// for data that lies in two places.
    pub fn put_stream_header(id: u64, offset: u64, fin: bool, len: usize, out: &mut Vec<u8>) {
        let off = if offset > 0 { OFF } else { 0 };
        let mut put = |value: u64| put_varint(value, out);
        put(kind::STREAM | LEN | off | if fin { FIN } else { 0 });
        put(id);
        if offset > 0 {
            put(offset);
        }
        put(len as u64);
    }

    /// Appends a frame of nothing but numbers; false of others.
    fn emit_numbers(&self, out: &mut Vec<u8>) -> bool {
        let mut put = |values: &[u64]| values.iter().for_each(|value| put_varint(*value, out));
        match self {
            Frame::Ping => put(&[0x01]),
            Frame::ResetStream { id, code, final_size } => put(&[0x04, *id, *code, *final_size]),
            Frame::StopSending { id, code } => put(&[0x05, *id, *code]),
            Frame::MaxData(most) => put(&[0x10, *most]),
            Frame::MaxStreamData { id, most } => put(&[0x11, *id, *most]),
            Frame::MaxStreams { bidi, most } => put(&[if *bidi { 0x12 } else { 0x13 }, *most]),
            Frame::DataBlocked(at) => put(&[0x14, *at]),
            Frame::StreamDataBlocked { id, at } => put(&[0x15, *id, *at]),
            Frame::StreamsBlocked { bidi, at } => put(&[if *bidi { 0x16 } else { 0x17 }, *at]),
            Frame::RetireConnectionId(sequence) => put(&[0x19, *sequence]),
            Frame::HandshakeDone => put(&[0x1e]),
            Frame::ImmediateAck => put(&[kind::IMMEDIATE_ACK]),
            Frame::AckFrequency(ack_frequency::Frame { sequence, request }) => {
                let delay = u64::try_from(request.max_ack_delay.as_micros()).unwrap_or(MAX_VARINT);
                put(&[kind::ACK_FREQUENCY, *sequence, request.ack_eliciting_threshold]);
                put(&[delay.min(MAX_VARINT), request.reordering_threshold]);
            }
            Frame::Loss(loss) => put(&[kind::TACK_LOSS, loss.unsettled]),
            _ => return false,
        }
        true
    }

    /// It asks for an acknowledgment [RFC 9000 §13.2]: all do but PADDING, ACK, CONNECTION_CLOSE and
    /// what rides beside an ACK.
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Frame::Padding(_)
                | Frame::Ack(_)
                | Frame::Close(_)
                | Frame::Report(_)
                | Frame::Loss(_)
                | Frame::Stamp(_)
        )
    }
}

/// Frames of nothing but numbers.
fn numbers<'a>(kind: u64, reader: &mut Reader<'a>) -> Result<Frame<'a>, ParseError> {
    Ok(match kind {
        0x04 => Frame::ResetStream {
            id: reader.varint("stream")?,
            code: reader.varint("error code")?,
            final_size: reader.varint("final size")?,
        },
        0x05 => {
            Frame::StopSending { id: reader.varint("stream")?, code: reader.varint("error code")? }
        }
        0x10 => Frame::MaxData(reader.varint("MAX_DATA")?),
        0x11 => Frame::MaxStreamData {
            id: reader.varint("stream")?,
            most: reader.varint("MAX_STREAM_DATA")?,
        },
        0x12 | 0x13 => Frame::MaxStreams {
            bidi: kind == 0x12,
            most: reader.varint_up_to(MAX_STREAMS, "MAX_STREAMS")?,
        },
        0x14 => Frame::DataBlocked(reader.varint("DATA_BLOCKED")?),
        0x15 => Frame::StreamDataBlocked {
            id: reader.varint("stream")?,
            at: reader.varint("STREAM_DATA_BLOCKED")?,
        },
        0x16 | 0x17 => Frame::StreamsBlocked {
            bidi: kind == 0x16,
            at: reader.varint_up_to(MAX_STREAMS, "STREAMS_BLOCKED")?,
        },
        0x19 => Frame::RetireConnectionId(reader.varint("RETIRE_CONNECTION_ID")?),
        unknown => return Err(ParseError::FrameType(unknown)),
    })
}

fn stream<'a>(kind: u64, reader: &mut Reader<'a>) -> Result<Frame<'a>, ParseError> {
    let id = reader.varint("stream")?;
    let offset = if kind & OFF > 0 { reader.varint("STREAM offset")? } else { 0 };
    let bytes = match kind & LEN > 0 {
        true => reader.prefixed("STREAM data")?,
        false => reader.take(reader.rest().len() as u64, "STREAM data")?,
    };
    let data = data(bytes, offset, "STREAM offset")?;
    Ok(Frame::Stream { id, offset, fin: kind & FIN > 0, data })
}

/// No stream is longer than the greatest integer [RFC 9000 §19.8].
fn data<'a>(data: &'a [u8], offset: u64, what: &'static str) -> Result<&'a [u8], ParseError> {
    let fits = offset + data.len() as u64 <= MAX_VARINT;
    if fits { Ok(data) } else { Err(ParseError::Value { what, value: offset }) }
}

fn new_connection_id<'a>(reader: &mut Reader<'a>) -> Result<Frame<'a>, ParseError> {
    let sequence = reader.varint("connection ID's number")?;
    let retire_prior_to = reader.varint_up_to(sequence, "retire prior to")?;
    let what = "connection ID length";
    let len = u64::from(reader.byte(what)?);
    if !(1..=MAX_CONNECTION_ID).contains(&len) {
        return Err(ParseError::Value { what, value: len });
    }
    let id = reader.take(len, "connection ID")?;
    let token = reader.array("stateless reset token")?;
    Ok(Frame::NewConnectionId { sequence, retire_prior_to, id, token })
}

fn frequency_request(reader: &mut Reader<'_>) -> Result<ack_frequency::Frame, ParseError> {
    Ok(ack_frequency::Frame {
        sequence: reader.varint("ACK_FREQUENCY's number")?,
        request: ack_frequency::Request {
            ack_eliciting_threshold: reader.varint("ack-eliciting threshold")?,
            max_ack_delay: core::time::Duration::from_micros(reader.varint("max ACK delay")?),
            reordering_threshold: reader.varint("reordering threshold")?,
        },
    })
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
