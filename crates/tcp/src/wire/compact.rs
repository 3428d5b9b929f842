//! The short header of a data segment over UDP: a TCP segment without what repeats.
//!
//! Of the 40 bytes in front of text under TACK, the acknowledgment, window and echoed stamp say
//! what the last segment said, the urgent pointer and checksum say nothing, and option kinds are
//! the same in every segment. Where both ends agreed in their SYNs, a segment whose text is all
//! its news travels as
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |                        sequence number                        |
//! +---------------------------------------------------------------+
//! |                            PKT.SEQ                            |
//! +-------+-------+---------------+-------------------------------+
//! |form, 1|  (0)  |     flags     |             TSval             |
//! +-------+-------+---------------+-------------------------------+
//! |             TSval             |            text ...
//! ```
//!
//! The idea is that of [RFC 1144]; unlike there, no field is a difference to the segment before,
//! so a lost segment takes no other with it and the order does not matter. The first four bytes
//! are a TCP header's, and the form stands where a data offset of 1 word would: no TCP segment has
//! one below 5. SYN, FIN, RST, probes and bodies always have a whole header.

use crate::seq::SeqNum;
use crate::wire::header::{Flags, Form, Header, ParseError, Segment};
use crate::wire::options::{Options, Timestamps};
use crate::wire::tack_option::Codepoints;

/// Bytes in front of the text.
pub const COMPACT_LEN: usize = 18;

/// Where the form is, in its upper four bits; the lower are zero.
const FORM_AT: usize = 12;
const FORM: u8 = 1;
/// What may be set beside ACK, which must be.
const LEGAL_FLAGS: u8 = Flags(Flags::ACK.0 | Flags::PSH.0 | Flags::ECE.0 | Flags::CWR.0).octet();

/// A short header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactHeader {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// SEG.SEQ.
    pub seq: SeqNum,
    /// PKT.SEQ.
    pub pkt_seq: u32,
    /// ACK, and perhaps PSH, ECE and CWR.
    pub flags: Flags,
    /// TSval, microseconds.
    pub ts_val: u32,
}

impl CompactHeader {
    /// Appends the header.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let mut bytes = [0; COMPACT_LEN];
        bytes[0..2].copy_from_slice(&self.src_port.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.dst_port.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.seq.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.pkt_seq.to_be_bytes());
        bytes[FORM_AT] = FORM << 4;
        bytes[13] = self.flags.octet();
        bytes[14..18].copy_from_slice(&self.ts_val.to_be_bytes());
        out.extend_from_slice(&bytes);
    }

    /// Reads a short header; what follows is text.
    ///
    /// # Errors
    /// It is another form, or cut short, without text, or with control bits it cannot have.
    pub fn parse(bytes: &[u8]) -> Result<(CompactHeader, &[u8]), ParseError> {
        let have = bytes.len();
        let Some((fixed, text)) = bytes.split_first_chunk::<COMPACT_LEN>() else {
            return Err(ParseError::Truncated { have });
        };
        if fixed[FORM_AT] != FORM << 4 {
            return Err(ParseError::DataOffset { words: fixed[FORM_AT] >> 4, have });
        }
        let flags = Flags::from_octet(fixed[13]);
        if text.is_empty() || !flags.has(Flags::ACK) || flags.octet() & !LEGAL_FLAGS != 0 {
            return Err(ParseError::Compact { flags: flags.octet(), have });
        }
        let half = |i: usize| u16::from_be_bytes([fixed[i], fixed[i + 1]]);
        let word =
            |i: usize| u32::from_be_bytes([fixed[i], fixed[i + 1], fixed[i + 2], fixed[i + 3]]);
        let header = CompactHeader {
            src_port: half(0),
            dst_port: half(2),
            seq: SeqNum(word(4)),
            pkt_seq: word(8),
            flags,
            ts_val: word(14),
        };
        Ok((header, text))
    }
}

impl From<CompactHeader> for Header {
    fn from(short: CompactHeader) -> Header {
        Header {
            src_port: short.src_port,
            dst_port: short.dst_port,
            seq: short.seq,
            flags: short.flags,
            options: Options {
                timestamps: Some(Timestamps { val: short.ts_val, ecr: 0 }),
                pkt_seq: Some(short.pkt_seq),
                ..Options::default()
            },
            ..Header::default()
        }
    }
}

impl<'a> Segment<'a> {
    /// Reads the payload of a UDP datagram: a segment whose header is whole or short.
    ///
    /// # Errors
    /// As [`Segment::parse`] and [`CompactHeader::parse`].
    pub fn parse_datagram(
        bytes: &'a [u8],
        codepoints: Codepoints,
    ) -> Result<Segment<'a>, ParseError> {
        if bytes.get(FORM_AT).is_none_or(|b| b >> 4 != FORM) {
            return Segment::parse(bytes, codepoints);
        }
        let (header, payload) = CompactHeader::parse(bytes)?;
        Ok(Segment { header: header.into(), payload, form: Form::Compact })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHORT: CompactHeader = CompactHeader {
        src_port: 0x0102,
        dst_port: 0x0304,
        seq: SeqNum(0x0506_0708),
        pkt_seq: 0x090a_0b0c,
        flags: Flags::from_octet(0x18),
        ts_val: 0x0d0e_0f10,
    };

    fn datagram(header: &CompactHeader, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        header.emit(&mut out);
        out.extend_from_slice(text);
        out
    }

    #[test]
    fn the_layout_is_the_one_drawn() {
        let bytes = datagram(&SHORT, b"x");
        let drawn = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x10, 0x18, 13, 14, 15, 16, b'x'];
        assert_eq!(bytes, drawn);
    }

    #[test]
    fn no_form_is_taken_for_the_other() {
        let bytes = datagram(&SHORT, &[0; 60]);
        assert!(Segment::parse(&bytes, Codepoints::Experimental).is_err());
        let segment = Segment::parse_datagram(&bytes, Codepoints::Experimental).expect("short");
        assert_eq!((segment.form, segment.payload.len()), (Form::Compact, 60));
        let mut full = Vec::new();
        Header::default().emit(Codepoints::Experimental, &mut full);
        let segment = Segment::parse_datagram(&full, Codepoints::Experimental).expect("full");
        assert_eq!(segment.form, Form::Full);
        assert!(CompactHeader::parse(&full).is_err());
    }

    #[test]
    fn what_needs_a_whole_header_is_refused_in_a_short_one() {
        for flags in 0..=u8::MAX {
            let bytes =
                datagram(&CompactHeader { flags: Flags::from_octet(flags), ..SHORT }, b"text");
            let legal = flags & 0x10 != 0 && flags & 0x27 == 0;
            assert_eq!(CompactHeader::parse(&bytes).is_ok(), legal, "{flags:#04x}");
        }
        let bytes = datagram(&SHORT, &[]);
        assert_eq!(
            CompactHeader::parse(&bytes),
            Err(ParseError::Compact { flags: 0x18, have: 18 })
        );
    }

    #[test]
    fn another_form_or_a_reserved_bit_is_refused() {
        let mut bytes = datagram(&SHORT, &[0; 60]);
        for first in (0..0x50).filter(|b| *b != 0x10) {
            bytes[FORM_AT] = first;
            assert!(Segment::parse_datagram(&bytes, Codepoints::Paper).is_err(), "{first:#04x}");
        }
    }

    proptest! {
        #[test]
        fn any_short_header_survives_the_wire(
            ports in any::<(u16, u16)>(),
            words in any::<[u32; 3]>(),
            flags in any::<u8>(),
            text in proptest::collection::vec(any::<u8>(), 1..50),
        ) {
            let header = CompactHeader {
                src_port: ports.0,
                dst_port: ports.1,
                seq: SeqNum(words[0]),
                pkt_seq: words[1],
                flags: Flags::from_octet(flags & LEGAL_FLAGS) | Flags::ACK,
                ts_val: words[2],
            };
            let bytes = datagram(&header, &text);
            prop_assert_eq!(CompactHeader::parse(&bytes), Ok((header, &text[..])));
            let segment = Segment::parse_datagram(&bytes, Codepoints::Paper).expect("legal");
            prop_assert_eq!(segment.header, Header::from(header));
        }

        #[test]
        fn random_bytes_are_read_or_refused(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..80),
            compact in any::<bool>(),
        ) {
            if let Some(form) = bytes.get_mut(FORM_AT).filter(|_| compact) {
                *form = FORM << 4;
            }
            if let Ok((header, text)) = CompactHeader::parse(&bytes) {
                prop_assert_eq!(datagram(&header, text), bytes.clone());
            }
            let _either = Segment::parse_datagram(&bytes, Codepoints::Experimental);
        }
    }
}
