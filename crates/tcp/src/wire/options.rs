//! Options we speak [RFC 9293 §3.2, RFC 7323, RFC 2018] plus TACK's.

use crate::seq::SeqNum;
use crate::wire::tack_option::AckType;

/// Timestamps [RFC 7323 §3].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval.
    pub val: u32,
    /// TSecr.
    pub ecr: u32,
}

/// Up to four SACK blocks [RFC 2018 §3], first one most recent; the first may be a DSACK
/// [RFC 2883 §4].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackBlocks {
    /// (left edge, right edge) of each block.
    pub blocks: [(SeqNum, SeqNum); 4],
    /// How many count.
    pub len: u8,
}

impl SackBlocks {
    /// The blocks that count.
    pub fn as_slice(&self) -> &[(SeqNum, SeqNum)] {
        &self.blocks[..usize::from(self.len.min(4))]
    }
}

/// The options of one segment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Maximum segment size (SYN).
    pub mss: Option<u16>,
    /// Window scale shift (SYN); clamped to 14 on parsing.
    pub window_scale: Option<u8>,
    /// SACK-Permitted (SYN).
    pub sack_permitted: bool,
    /// TACK-Permitted (SYN).
    pub tack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks.
    pub sack: SackBlocks,
    /// PKT.SEQ of a data segment.
    pub pkt_seq: Option<u32>,
    /// Kind of a TACK or IACK; its body is the payload.
    pub ack_type: Option<AckType>,
}
