//! The ACK frame [RFC 9000 §19.3]: packet numbers in ranges, from the largest down.

use core::ops::Range;

use super::ParseError;
use super::read::{MAX_VARINT, Reader, put_varint};

const TYPE: u64 = 0x02;
const TYPE_ECN: u64 = 0x03;

/// Packets received by ECN codepoint [RFC 9000 §19.3.2].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Marked ECT(0).
    pub ect0: u64,
    /// Marked ECT(1).
    pub ect1: u64,
    /// Marked Congestion Experienced.
    pub ce: u64,
}

/// An ACK frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The acknowledgment delay as it travels: microseconds shifted right by the sender's
    /// `ack_delay_exponent`.
    pub delay: u64,
    /// Packet numbers that arrived, highest first, with gaps between them; never empty.
    pub ranges: Vec<Range<u64>>,
    /// With it the frame has type 3.
    pub ecn: Option<EcnCounts>,
}

impl Ack {
    /// The largest packet number acknowledged.
    pub fn largest(&self) -> u64 {
        self.ranges[0].end - 1
    }

    pub(super) fn parse(reader: &mut Reader<'_>, has_ecn: bool) -> Result<Ack, ParseError> {
        let largest = reader.varint("largest acknowledged")?;
        let delay = reader.varint("ACK delay")?;
        let more = reader.varint("ACK range count")?;
        let first = reader.varint_up_to(largest, "first ACK range")?;
        // Ranges to come have two bytes at least: the count alone reserves nothing.
        let mut ranges = Vec::with_capacity((reader.rest().len() / 2).min(more as usize) + 1);
        let mut low = largest - first;
        ranges.push(low..largest + 1);
        for _ in 0..more {
            let gap = reader.varint("ACK gap")?;
            // Two numbers lie between ranges with gap 0: the gap's one, and the next largest.
            let high = gap.checked_add(2).and_then(|gap| low.checked_sub(gap));
            let high = high.ok_or(ParseError::Value { what: "ACK gap", value: gap })?;
            let len = reader.varint_up_to(high, "ACK range")?;
            low = high - len;
            ranges.push(low..high + 1);
        }
        let mut ecn = None;
        if has_ecn {
            ecn = Some(EcnCounts {
                ect0: reader.varint("ECT0 count")?,
                ect1: reader.varint("ECT1 count")?,
                ce: reader.varint("ECN-CE count")?,
            });
        }
        Ok(Ack { delay, ranges, ecn })
    }

    /// Appends the frame.
    ///
    /// # Panics
    /// When ranges touch, ascend or are empty, or a number is no variable-length integer: bugs of
    /// the caller.
    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        put_varint(if self.ecn.is_some() { TYPE_ECN } else { TYPE }, out);
        let (first, more) = self.ranges.split_first().expect("an ACK acknowledges something");
        assert!(first.end <= MAX_VARINT + 1 && !first.is_empty());
        put_varint(first.end - 1, out);
        put_varint(self.delay, out);
        put_varint(more.len() as u64, out);
        put_varint(first.end - 1 - first.start, out);
        let mut low = first.start;
        for range in more {
            assert!(!range.is_empty() && range.end < low, "{range:?} below {low}");
            put_varint(low - range.end - 1, out);
            put_varint(range.end - 1 - range.start, out);
            low = range.start;
        }
        if let Some(ecn) = self.ecn {
            for count in [ecn.ect0, ecn.ect1, ecn.ce] {
                put_varint(count, out);
            }
        }
    }
}
