//! Options we speak [RFC 9293 §3.2, RFC 7323, RFC 2018] plus TACK's.
//!
//! Every option is emitted as whole 32-bit words, padded with no-operations in front, so that
//! the header needs no padding at its end:
//!
//! ```text
//!   MSS              2  4  value                         4 bytes   SYN
//!   window scale     1  3  3  shift                      4         SYN
//!   SACK-Permitted   4  2  before the timestamps, else
//!                    1  1  4  2                          4 (0 beside timestamps)  SYN
//!   timestamps       1  1  8  10  TSval  TSecr           12
//!   TACK-Permitted   see `tack_option`                   4         SYN
//!   features         see `tack_option`                   8 or 4    SYN
//!   PKT.SEQ          see `tack_option`                   8 or 12   data
//!   ACK-Type         see `tack_option`                   8 or 4    TACK, IACK
//!   SACK             1  1  5  2+8n  n blocks             4 + 8n    what fits
//! ```
//!
//! A SYN with everything takes 32 of the 40 bytes. Features belong to SYNs, PKT.SEQ and ACK-Type to
//! segments that are none: features beside either mean nothing, read or written. A series is one of
//! text: beside ACK-Type its PKT.SEQ is an ordinary one. All that is left but SACK takes 40 at most,
//! hence nothing but SACK blocks is ever left out.

use crate::seq::SeqNum;
use crate::wire::series::Series;
use crate::wire::tack_option::{
    AckType, COMPACT, Codepoints, PKT_SEQ_BYTES, SERIES, SERIES_BYTES, TackOption,
};
use crate::wire::words::Words;

pub use crate::wire::words::MAX_OPTION_BYTES;

/// Padded length of timestamps.
pub const TIMESTAMPS_BYTES: usize = 12;

/// Option bytes of a data segment with timestamps and PKT.SEQ, in both profiles; the effective
/// MSS is less by as much [RFC 9293 §3.7.1].
pub const DATA_OPTION_BYTES: usize = TIMESTAMPS_BYTES + PKT_SEQ_BYTES;
/// The same with the PKT.SEQ of a series.
pub const SERIES_OPTION_BYTES: usize = TIMESTAMPS_BYTES + SERIES_BYTES;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Largest window shift [RFC 7323 §2.3].
const MAX_WINDOW_SHIFT: u8 = 14;

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

    /// Appends a block; `false` when four are there already.
    pub fn push(&mut self, left: SeqNum, right: SeqNum) -> bool {
        let at = usize::from(self.len);
        let Some(slot) = self.blocks.get_mut(at) else { return false };
        *slot = (left, right);
        self.len += 1;
        true
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
    /// Short headers are understood (SYN); see [`compact`](crate::wire::compact).
    pub compact_permitted: bool,
    /// Series are understood (SYN); see [`series`](crate::wire::series).
    pub series_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks.
    pub sack: SackBlocks,
    /// PKT.SEQ of a data segment, or of the first of its series.
    pub pkt_seq: Option<u32>,
    /// The series that the data segment is of; means nothing without a PKT.SEQ.
    pub series: Option<Series>,
    /// Kind of a TACK or IACK; its body is the payload.
    pub ack_type: Option<AckType>,
}

impl Options {
    /// Reads an option list. Never fails: an option whose length is illegal (below 2, or past the
    /// end) ends the list, since nothing behind it can be found; a known option of a wrong length
    /// and an unknown option are skipped. Of a repeated option the last counts.
    ///
    /// Deviation: [RFC 9293 §3.1 MUST-7] suggests to reset the connection on an illegal length.
    /// That would let a blind attacker or a broken middlebox end it with one segment.
    #[inline]
    pub fn parse(bytes: &[u8], codepoints: Codepoints) -> Options {
        match Self::parse_usual(bytes, codepoints) {
            Some(options) => options,
            None => Self::parse_any(bytes, codepoints),
        }
    }

    fn parse_any(bytes: &[u8], codepoints: Codepoints) -> Options {
        let mut options = Options::default();
        let mut rest = bytes;
        loop {
            match *rest {
                [] | [END, ..] => break,
                [NOP, ref next @ ..] => rest = next,
                [kind, len, ..] if len >= 2 && usize::from(len) <= rest.len() => {
                    let (option, next) = rest.split_at(usize::from(len));
                    options.apply(kind, &option[2..], codepoints);
                    rest = next;
                }
                _ => break,
            }
        }
        let features = options.names_features();
        options.compact_permitted &= features;
        options.series_permitted &= features;
        options.series = options.numbered_series();
        options
    }

    /// Features have their place.
    fn names_features(&self) -> bool {
        self.features() != 0 && self.pkt_seq.is_none() && self.ack_type.is_none()
    }

    /// And so has a series.
    fn numbered_series(&self) -> Option<Series> {
        self.series.filter(|_| self.pkt_seq.is_some() && self.ack_type.is_none())
    }

    /// Bytes that [`Self::emit`] appends: a multiple of 4, at most 40.
    pub fn len(&self, codepoints: Codepoints) -> usize {
        let fixed = self.len_without_sack(codepoints);
        match self.sack_blocks_that_fit(fixed) {
            0 => fixed,
            n => fixed + 4 + 8 * n,
        }
    }

    /// How many SACK blocks [`Self::emit`] sends of those there are: what fits beside the rest
    /// (4 alone, 3 beside timestamps, 2 beside timestamps and PKT.SEQ).
    pub fn sack_blocks_sent(&self, codepoints: Codepoints) -> usize {
        self.sack_blocks_that_fit(self.len_without_sack(codepoints))
    }

    /// Appends the options, aligned to 32-bit words.
    pub fn emit(&self, codepoints: Codepoints, out: &mut Vec<u8>) {
        let mut words = Words::default();
        self.write(codepoints, &mut words);
        out.extend_from_slice(words.as_slice());
    }

    /// The shape of nearly every segment: timestamps, in a data segment of TACK's a PKT.SEQ behind
    /// them, and nothing else.
    #[inline]
    fn parse_usual(bytes: &[u8], codepoints: Codepoints) -> Option<Options> {
        let (words, behind) = bytes.split_first_chunk::<TIMESTAMPS_BYTES>()?;
        let word = |i: usize| [words[i], words[i + 1], words[i + 2], words[i + 3]];
        if word(0) != [NOP, NOP, TIMESTAMPS, 10] {
            return None;
        }
        let timestamps =
            Some(Timestamps { val: u32::from_be_bytes(word(4)), ecr: u32::from_be_bytes(word(8)) });
        let (pkt_seq, series) = match *behind {
            [] => (None, None),
            [p, q, r, s, a, b, c, d, ref rest @ ..] => {
                let series = match *rest {
                    [] if [p, q, r, s] == codepoints.pkt_seq_prefix() => None,
                    [e, f, g, h] if [p, q, r, s] == codepoints.series_prefix() => {
                        Some(Series::new(u16::from_be_bytes([e, f]), u16::from_be_bytes([g, h]))?)
                    }
                    _ => return None,
                };
                (Some(u32::from_be_bytes([a, b, c, d])), series)
            }
            _ => return None,
        };
        Some(Options { timestamps, pkt_seq, series, ..Options::default() })
    }

    fn apply(&mut self, kind: u8, body: &[u8], codepoints: Codepoints) {
        match (kind, body) {
            (MSS, &[hi, lo]) => self.mss = Some(u16::from_be_bytes([hi, lo])),
            (WINDOW_SCALE, &[shift]) => self.window_scale = Some(shift.min(MAX_WINDOW_SHIFT)),
            (SACK_PERMITTED, []) => self.sack_permitted = true,
            (SACK, blocks) => self.apply_sack(blocks),
            (TIMESTAMPS, &[a, b, c, d, e, f, g, h]) => {
                self.timestamps = Some(Timestamps {
                    val: u32::from_be_bytes([a, b, c, d]),
                    ecr: u32::from_be_bytes([e, f, g, h]),
                });
            }
            (kind, body) => {
                if let Some(option) = codepoints.read(kind, body) {
                    self.apply_tack(option);
                }
            }
        }
    }

    fn apply_tack(&mut self, option: TackOption) {
        match option {
            TackOption::Permitted => self.tack_permitted = true,
            TackOption::Features(features) => {
                self.compact_permitted = features & COMPACT != 0;
                self.series_permitted = features & SERIES != 0;
            }
            TackOption::AckType(ack_type) => self.ack_type = Some(ack_type),
            TackOption::PktSeq(pkt_seq, series) => {
                (self.pkt_seq, self.series) = (Some(pkt_seq), series);
            }
        }
    }

    /// As in [`TackOption::Features`].
    fn features(&self) -> u16 {
        let bit = |set: bool, bit: u16| if set { bit } else { 0 };
        bit(self.compact_permitted, COMPACT) | bit(self.series_permitted, SERIES)
    }

    fn apply_sack(&mut self, body: &[u8]) {
        if body.is_empty() || !body.len().is_multiple_of(8) {
            return;
        }
        let mut sack = SackBlocks::default();
        for block in body.chunks_exact(8) {
            let left = u32::from_be_bytes([block[0], block[1], block[2], block[3]]);
            let right = u32::from_be_bytes([block[4], block[5], block[6], block[7]]);
            if !sack.push(SeqNum(left), SeqNum(right)) {
                break;
            }
        }
        self.sack = sack;
    }

    fn len_without_sack(&self, codepoints: Codepoints) -> usize {
        let mut len = 0;
        if self.mss.is_some() {
            len += 4;
        }
        if self.window_scale.is_some() {
            len += 4;
        }
        match (self.timestamps, self.sack_permitted) {
            (Some(_), _) => len += 12,
            (None, true) => len += 4,
            (None, false) => {}
        }
        if self.tack_permitted {
            len += codepoints.permitted_len();
        }
        if self.names_features() {
            len += codepoints.features_len();
        }
        if self.pkt_seq.is_some() {
            len += match self.numbered_series() {
                Some(_) => codepoints.series_len(),
                None => codepoints.pkt_seq_len(),
            };
        }
        if self.ack_type.is_some() {
            len += codepoints.ack_type_len();
        }
        len
    }

    fn sack_blocks_that_fit(&self, fixed: usize) -> usize {
        let room = (MAX_OPTION_BYTES - fixed).saturating_sub(4) / 8;
        self.sack.as_slice().len().min(room)
    }

    pub(super) fn write(&self, codepoints: Codepoints, out: &mut Words) {
        if let Some(mss) = self.mss {
            let [hi, lo] = mss.to_be_bytes();
            out.word([MSS, 4, hi, lo]);
        }
        if let Some(shift) = self.window_scale {
            out.word([NOP, WINDOW_SCALE, 3, shift.min(MAX_WINDOW_SHIFT)]);
        }
        let lead = if self.sack_permitted { [SACK_PERMITTED, 2] } else { [NOP, NOP] };
        if let Some(timestamps) = self.timestamps {
            out.word([lead[0], lead[1], TIMESTAMPS, 10]);
            out.word(timestamps.val.to_be_bytes());
            out.word(timestamps.ecr.to_be_bytes());
        } else if self.sack_permitted {
            out.word([NOP, NOP, SACK_PERMITTED, 2]);
        }
        if self.tack_permitted {
            codepoints.emit_permitted(out);
        }
        if self.names_features() {
            codepoints.emit_features(self.features(), out);
        }
        if let Some(pkt_seq) = self.pkt_seq {
            match self.numbered_series() {
                Some(series) => codepoints.emit_series(pkt_seq, series, out),
                None => codepoints.emit_pkt_seq(pkt_seq, out),
            }
        }
        if let Some(ack_type) = self.ack_type {
            codepoints.emit_ack_type(ack_type, out);
        }
        let blocks = self.sack_blocks_that_fit(out.len());
        if blocks > 0 {
            out.word([NOP, NOP, SACK, 2 + 8 * blocks as u8]);
            for &(left, right) in &self.sack.as_slice()[..blocks] {
                out.word(left.0.to_be_bytes());
                out.word(right.0.to_be_bytes());
            }
        }
    }
}

#[cfg(test)]
#[path = "options_tests.rs"]
pub(super) mod tests;
