//! Bodies of TACKs and IACKs: the payload of a segment with an ACK-Type option.
//!
//! A body takes no sequence space. Numbers are 32 bits on the wire and expanded near what the
//! receiver of the body expects; the cumulative ACK and the window travel in the TCP header.

use tack::{Iack, Tack};

use crate::wire::tack_option::AckType;

/// What 32-bit fields are expanded near to, and the header fields a body goes with.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// `snd_una` of the side that reads: offsets of the stream are expanded near it.
    pub seq_near: u64,
    /// The stream offset whose low 32 bits travel as sequence number zero-point (ISN mapping).
    pub isn: crate::seq::SeqNum,
    /// Highest PKT.SEQ sent by the side that reads.
    pub pkt_seq_near: u64,
    /// Cumulative ACK of the header, as stream offset.
    pub cum_ack: u64,
    /// Window of the header, scaled to bytes.
    pub window: u64,
}

/// Why a body cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// Shorter than its fixed part.
    #[error("a {kind:?} body needs {need} bytes, {have} are there")]
    Truncated {
        /// Its type.
        kind: AckType,
        /// Least length.
        need: usize,
        /// Length found.
        have: usize,
    },
}

/// Reads a TACK body.
pub fn parse_tack(bytes: &[u8], context: &Context) -> Result<Tack, BodyError> {
    let _ = context;
    Err(BodyError::Truncated { kind: AckType::Tack, need: 1, have: bytes.len() })
}

/// Reads an IACK body; an unknown kind gives `Ok(None)`.
pub fn parse_iack(
    kind: AckType,
    bytes: &[u8],
    context: &Context,
) -> Result<Option<Iack>, BodyError> {
    let _ = context;
    Err(BodyError::Truncated { kind, need: 1, have: bytes.len() })
}

/// How many holes fit a TACK body of at most `max_bytes`.
pub fn max_holes(max_bytes: usize) -> usize {
    let _ = max_bytes;
    0
}

/// Appends a TACK body.
pub fn emit_tack(tack: &Tack, isn: crate::seq::SeqNum, out: &mut Vec<u8>) {
    let _ = (tack, isn, out);
}

/// Appends an IACK body and names its type.
pub fn emit_iack(iack: &Iack, out: &mut Vec<u8>) -> AckType {
    let _ = (iack, out);
    AckType::WindowIack
}
