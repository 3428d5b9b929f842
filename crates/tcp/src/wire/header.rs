//! The TCP header [RFC 9293 §3.1].
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |                        sequence number                        |
//! +---------------------------------------------------------------+
//! |                     acknowledgment number                     |
//! +-------+-------+---------------+-------------------------------+
//! |offset | (0)   |     flags     |            window             |
//! +-------+-------+---------------+-------------------------------+
//! |           checksum            |        urgent pointer         |
//! +-------------------------------+-------------------------------+
//! |                   options, 0 to 40 bytes                      |
//! ```

use crate::seq::SeqNum;
use crate::wire::options::Options;
use crate::wire::tack_option::Codepoints;
use crate::wire::words::Words;

/// Control bits: the octet of them, and of the four reserved ones before it the one we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Flags(pub u16);

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
    /// Poll mark: acknowledge this segment at once [Landström & Larzon §4.1]. In a SYN it offers
    /// polls, in a SYN/ACK it agrees to them; where both did not, it means nothing. The first of
    /// the reserved bits; the last, beside CWR, is AccECN's AE.
    pub const POLL: Flags = Flags(0x0800);

    /// Of the octet of control bits.
    pub const fn from_octet(octet: u8) -> Flags {
        Flags(octet as u16)
    }

    /// The octet of control bits, without the poll mark.
    pub const fn octet(self) -> u8 {
        self.0 as u8
    }

    /// These but for what `other` has.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

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

/// What is in front of a segment's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Form {
    /// A TCP header.
    #[default]
    Full,
    /// A short one. SEG.ACK, SEG.WND and TSecr are not there: they are as they were, and zero in
    /// the [`Header`].
    Compact,
}

/// A parsed segment: header by value, payload borrowed.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment<'a> {
    /// The header.
    pub header: Header,
    /// Everything behind the header: data, or a TACK/IACK body when `options.ack_type` is set.
    pub payload: &'a [u8],
    /// What the header was on the wire.
    pub form: Form,
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
    /// The data offset points into the fixed header or past the end.
    #[error("data offset of {words} words in a segment of {have} bytes")]
    DataOffset {
        /// Header length it claims, in 32-bit words.
        words: u8,
        /// Bytes there.
        have: usize,
    },
    /// A short header without text, or with control bits that need a whole one.
    #[error("a short header with control bits {flags:#04x} in {have} bytes")]
    Compact {
        /// Its control bits.
        flags: u8,
        /// Bytes there.
        have: usize,
    },
}

/// The poll mark in its octet.
const POLL_OCTET: u8 = (Flags::POLL.0 >> 8) as u8;

/// Length of the header without options, bytes.
pub const FIXED_LEN: usize = 20;

impl<'a> Segment<'a> {
    /// Reads a segment. Unknown options are skipped; malformed ones end option parsing the way
    /// [RFC 9293 §3.1] asks (never a panic). Reserved bits but the poll mark are ignored. The
    /// checksum is not looked at: see [`checksum`](crate::wire::checksum), since a host may have had it verified.
    ///
    /// # Errors
    /// The segment is shorter than its header.
    #[inline]
    pub fn parse(bytes: &'a [u8], codepoints: Codepoints) -> Result<Segment<'a>, ParseError> {
        let Some((fixed, behind)) = bytes.split_first_chunk::<FIXED_LEN>() else {
            return Err(ParseError::Truncated { have: bytes.len() });
        };
        let words = fixed[12] >> 4;
        let option_bytes = (usize::from(words) * 4).checked_sub(FIXED_LEN);
        let Some((options, payload)) = option_bytes.and_then(|n| behind.split_at_checked(n)) else {
            return Err(ParseError::DataOffset { words, have: bytes.len() });
        };
        let half = |i: usize| u16::from_be_bytes([fixed[i], fixed[i + 1]]);
        let word =
            |i: usize| u32::from_be_bytes([fixed[i], fixed[i + 1], fixed[i + 2], fixed[i + 3]]);
        let header = Header {
            src_port: half(0),
            dst_port: half(2),
            seq: SeqNum(word(4)),
            ack: SeqNum(word(8)),
            flags: Flags(u16::from_be_bytes([fixed[12], fixed[13]]) & (0xff | Flags::POLL.0)),
            window: half(14),
            urgent: half(18),
            options: Options::parse(options, codepoints),
        };
        Ok(Segment { header, payload, form: Form::Full })
    }
}

impl Header {
    /// Length of header and padded options in bytes (multiple of 4, at most 60).
    pub fn len(&self, codepoints: Codepoints) -> usize {
        FIXED_LEN + self.options.len(codepoints)
    }

    /// Appends the header with options; the checksum field is zero (see `checksum`). Allocates
    /// only if `out` has less than 60 bytes to spare.
    pub fn emit(&self, codepoints: Codepoints, out: &mut Vec<u8>) {
        let mut words = Words::default();
        self.options.write(codepoints, &mut words);
        let options = words.as_slice();
        let data_offset = (FIXED_LEN + options.len()) / 4;
        let mut fixed = [0; FIXED_LEN];
        fixed[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        fixed[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        fixed[8..12].copy_from_slice(&self.ack.0.to_be_bytes());
        let [reserved, flags] = self.flags.0.to_be_bytes();
        fixed[12] = (data_offset as u8) << 4 | reserved & POLL_OCTET;
        fixed[13] = flags;
        fixed[14..16].copy_from_slice(&self.window.to_be_bytes());
        fixed[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        out.extend_from_slice(&fixed);
        out.extend_from_slice(options);
    }
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
