//! TACK's options in both codepoint profiles of the design (section 6).
//!
//! ```text
//! experimental (kind 253, 16-bit ExID [RFC 6994], told apart by length)
//!   SYN   253 4 ExID            TACK-Permitted
//!   SYN   253 6 ExID features   what else of ours the sender understands
//!   data  253 8 ExID PKT.SEQ
//!   data  253 12 ExID PKT.SEQ anchor size    a series, see `series`
//!   ACK   253 5 ExID type
//! paper [TON Fig. 8], closed networks only
//!   SYN   40 2                  TACK-Permitted
//!   SYN   40 4 features
//!   ACK   41 3 type
//!   data  42 6 PKT.SEQ
//!   data  42 10 PKT.SEQ anchor size    a series
//! ```
//!
//! Padded to 32-bit words with no-operations in front, TACK-Permitted costs 4 bytes, features 8 in
//! the experimental profile and 4 in the paper's, ACK-Type the same, and PKT.SEQ 8, of a series 12: a
//! data segment costs the same in both. Anchor and size have 16 bits each; a size below
//! [`LEAST_SIZE`](crate::wire::series::LEAST_SIZE) makes an option that means nothing.
//!
//! Features are 16 bits beside TACK-Permitted, not in it, so that a peer that knows none reads the
//! option it knows. Bit 0: short headers ([`compact`](crate::wire::compact)). Bit 1: a
//! [`series`](crate::wire::series) is understood, and without it none is sent. Others are sent as zero
//! and ignored.

use crate::wire::series::Series;
use crate::wire::words::Words;

/// The Experiment Identifier of TACK.
///
/// 16 bits as [RFC 6994 §3.1] allows; not registered at IANA yet, chosen clear of those that are.
pub const EXID: u16 = 0x7AC4;

const KIND_EXPERIMENT: u8 = 253;
const KIND_PERMITTED: u8 = 40;
const KIND_ACK_TYPE: u8 = 41;
const KIND_PKT_SEQ: u8 = 42;

const NOP: u8 = 1;
const EXID_BYTES: [u8; 2] = EXID.to_be_bytes();

/// The feature bit of short headers.
pub(super) const COMPACT: u16 = 1;
/// The feature bit of series.
pub(super) const SERIES: u16 = 2;

/// Padded length of PKT.SEQ, in both profiles.
pub const PKT_SEQ_BYTES: usize = 8;
/// Padded length of the PKT.SEQ of a series, in both profiles.
pub const SERIES_BYTES: usize = 12;

/// Which option kinds carry TACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Codepoints {
    /// Kind 253 with an ExID.
    #[default]
    Experimental,
    /// Kinds 40, 41, 42, which IANA reserves.
    Paper,
}

/// Kind of an acknowledgment [TON §VI-A].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AckType {
    /// 0x01
    Tack,
    /// 0x02
    LossIack,
    /// 0x03
    WindowIack,
    /// 0x04
    FrequencyIack,
    /// 0x05, reserved for RTT updates.
    RttIack,
    /// 0x06
    CeIack,
    /// A code we do not know: cumulative ACK and window still count.
    Unknown(u8),
}

impl AckType {
    /// The kind a code on the wire stands for.
    pub const fn from_code(code: u8) -> AckType {
        match code {
            0x01 => AckType::Tack,
            0x02 => AckType::LossIack,
            0x03 => AckType::WindowIack,
            0x04 => AckType::FrequencyIack,
            0x05 => AckType::RttIack,
            0x06 => AckType::CeIack,
            other => AckType::Unknown(other),
        }
    }

    /// The code on the wire.
    pub const fn code(self) -> u8 {
        match self {
            AckType::Tack => 0x01,
            AckType::LossIack => 0x02,
            AckType::WindowIack => 0x03,
            AckType::FrequencyIack => 0x04,
            AckType::RttIack => 0x05,
            AckType::CeIack => 0x06,
            AckType::Unknown(code) => code,
        }
    }
}

impl Codepoints {
    /// Padded length of TACK-Permitted.
    pub(super) const fn permitted_len(self) -> usize {
        4
    }

    /// Padded length of features.
    pub(super) const fn features_len(self) -> usize {
        match self {
            Codepoints::Experimental => 8,
            Codepoints::Paper => 4,
        }
    }

    /// Padded length of PKT.SEQ.
    pub(super) const fn pkt_seq_len(self) -> usize {
        PKT_SEQ_BYTES
    }

    /// Padded length of the PKT.SEQ of a series.
    pub(super) const fn series_len(self) -> usize {
        SERIES_BYTES
    }

    /// Padded length of ACK-Type.
    pub(super) const fn ack_type_len(self) -> usize {
        match self {
            Codepoints::Experimental => 8,
            Codepoints::Paper => 4,
        }
    }

    pub(super) fn emit_permitted(self, out: &mut Words) {
        let [hi, lo] = EXID_BYTES;
        match self {
            Codepoints::Experimental => out.word([KIND_EXPERIMENT, 4, hi, lo]),
            Codepoints::Paper => out.word([NOP, NOP, KIND_PERMITTED, 2]),
        }
    }

    pub(super) fn emit_features(self, features: u16, out: &mut Words) {
        let [hi, lo] = EXID_BYTES;
        let [features_hi, features_lo] = features.to_be_bytes();
        match self {
            Codepoints::Experimental => {
                out.word([NOP, NOP, KIND_EXPERIMENT, 6]);
                out.word([hi, lo, features_hi, features_lo]);
            }
            Codepoints::Paper => out.word([KIND_PERMITTED, 4, features_hi, features_lo]),
        }
    }

    pub(super) fn emit_pkt_seq(self, pkt_seq: u32, out: &mut Words) {
        out.word(self.pkt_seq_prefix());
        out.word(pkt_seq.to_be_bytes());
    }

    pub(super) fn emit_series(self, pkt_seq: u32, series: Series, out: &mut Words) {
        out.word(self.series_prefix());
        out.word(pkt_seq.to_be_bytes());
        let ([a, b], [c, d]) = (series.anchor().to_be_bytes(), series.size().to_be_bytes());
        out.word([a, b, c, d]);
    }

    pub(super) fn emit_ack_type(self, ack_type: AckType, out: &mut Words) {
        let [hi, lo] = EXID_BYTES;
        let code = ack_type.code();
        match self {
            Codepoints::Experimental => {
                out.word([NOP, NOP, NOP, KIND_EXPERIMENT]);
                out.word([5, hi, lo, code]);
            }
            Codepoints::Paper => out.word([NOP, KIND_ACK_TYPE, 3, code]),
        }
    }

    /// The word in front of a PKT.SEQ, for the fast path of a data segment.
    pub(super) const fn pkt_seq_prefix(self) -> [u8; 4] {
        let [hi, lo] = EXID_BYTES;
        match self {
            Codepoints::Experimental => [KIND_EXPERIMENT, 8, hi, lo],
            Codepoints::Paper => [NOP, NOP, KIND_PKT_SEQ, 6],
        }
    }

    /// The word in front of the PKT.SEQ of a series.
    pub(super) const fn series_prefix(self) -> [u8; 4] {
        let [hi, lo] = EXID_BYTES;
        match self {
            Codepoints::Experimental => [KIND_EXPERIMENT, 12, hi, lo],
            Codepoints::Paper => [NOP, NOP, KIND_PKT_SEQ, 10],
        }
    }

    /// Reads one option whose kind plain TCP does not know. Another experiment's ExID, a length
    /// that means nothing, and the other profile's kinds are all "unknown option": ignored.
    pub(super) fn read(self, kind: u8, body: &[u8]) -> Option<TackOption> {
        match (self, kind, body) {
            (Codepoints::Experimental, KIND_EXPERIMENT, &[hi, lo, ref rest @ ..])
                if [hi, lo] == EXID_BYTES =>
            {
                match *rest {
                    [] => Some(TackOption::Permitted),
                    [code] => Some(TackOption::AckType(AckType::from_code(code))),
                    [hi, lo] => Some(TackOption::Features(u16::from_be_bytes([hi, lo]))),
                    ref number => TackOption::number(number),
                }
            }
            (Codepoints::Paper, KIND_PERMITTED, []) => Some(TackOption::Permitted),
            (Codepoints::Paper, KIND_PERMITTED, &[hi, lo]) => {
                Some(TackOption::Features(u16::from_be_bytes([hi, lo])))
            }
            (Codepoints::Paper, KIND_ACK_TYPE, &[code]) => {
                Some(TackOption::AckType(AckType::from_code(code)))
            }
            (Codepoints::Paper, KIND_PKT_SEQ, number) => TackOption::number(number),
            _ => None,
        }
    }
}

/// One of TACK's options, as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TackOption {
    Permitted,
    /// [`COMPACT`], [`SERIES`].
    Features(u16),
    AckType(AckType),
    /// Alone, or of a series.
    PktSeq(u32, Option<Series>),
}

impl TackOption {
    /// PKT.SEQ, alone or of a series; anything else means nothing.
    fn number(body: &[u8]) -> Option<TackOption> {
        match *body {
            [a, b, c, d] => Some(TackOption::PktSeq(u32::from_be_bytes([a, b, c, d]), None)),
            [a, b, c, d, e, f, g, h] => {
                let series = Series::new(u16::from_be_bytes([e, f]), u16::from_be_bytes([g, h]))?;
                Some(TackOption::PktSeq(u32::from_be_bytes([a, b, c, d]), Some(series)))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_names_one_kind_and_back() {
        for code in 0..=u8::MAX {
            assert_eq!(AckType::from_code(code).code(), code);
        }
    }

    #[test]
    fn another_experiment_under_the_same_kind_is_ignored() {
        let [hi, lo] = EXID_BYTES;
        // TARR's ExID 0x00AC, lengths 4 and 5 like ours.
        for body in [&[0x00, 0xac][..], &[0x00, 0xac, 4], &[hi], &[hi, lo, 1, 2, 3]] {
            assert_eq!(Codepoints::Experimental.read(253, body), None);
        }
    }

    #[test]
    fn a_profile_does_not_read_the_other_profiles_kinds() {
        assert_eq!(Codepoints::Experimental.read(40, &[]), None);
        assert_eq!(Codepoints::Experimental.read(42, &[1, 2, 3, 4]), None);
        assert_eq!(Codepoints::Paper.read(253, &EXID_BYTES), None);
    }
}
