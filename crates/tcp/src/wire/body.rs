//! Bodies of TACKs and IACKs: the payload of a segment with an ACK-Type option.
//!
//! A body takes no sequence space. Numbers are 32 bits on the wire and expanded near what the
//! receiver of the body expects; the cumulative ACK and the window travel in the TCP header.
//! Times are microseconds, rates kbit/s, sizes bytes, ratios 1/65535.
//!
//! ```text
//! TACK (type 0x01), 52 bytes and 8 for each additional hole
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------+-+-+-+-+-----------------------------+
//! |  version (1)  |    0  |S|C|H|R|T|             rho             |
//! +---------------+---------------+-------------------------------+
//! |                         TACK counter                          |
//! |            t0*: departure timestamp echoed  (if T)            |
//! |                   largest PKT.SEQ received                    |
//! |               end of the highest byte received                |
//! |                   TACK interval in force, us                  |
//! |                   duplicates received                         |
//! +---------------------------------------------------------------+  from here [TON Fig. 10]
//! |                   dt*: TACK delay, us  (if T)                 |
//! |                   delivery rate, kbit/s  (if R)               |
//! |                   congestion window  (0, ignored)             |
//! |                   received-in-flight data                     |
//! |                   HOL.SEQ                                     |
//! |                   additional hole count n                     |
//! +---------------------------------------------------------------+
//! |                   left edge, right edge: n times              |
//! +---------------------------------------------------------------+
//!   T timing is there    R delivery rate is there    H [ACK, HOL.SEQ) is the first hole
//!   C the holes named are all there are              S regime: startup
//!
//! loss IACK (0x02)       largest PKT.SEQ, second largest PKT.SEQ           [TON Fig. 9]
//! window IACK (0x03)     nothing
//! frequency IACK (0x04)  version 8, flags 8 (S), rho' 16, interval, L, bdp: 32 each
//! RTT IACK (0x05)        nothing
//! CE IACK (0x06)         packets marked so far, 64
//! ```
//!
//! Deviation: the papers' TACK starts with the TACK delay. Here version, flags, rho, the counter,
//! t0*, the highest numbers received, the interval and the duplicates come first (design,
//! section 6): t0* must not redefine the timestamps PAWS needs, and rho' cannot be measured
//! without a counter.
//!
//! A peer may write anything. Bytes behind what is read are ignored, room for later versions.
//! An inverted hole is an error; what of a hole lies outside `cum_ack..rcv_high` is ignored (a
//! hole that lies there altogether is dropped), and a `rcv_high` below `cum_ack` is raised to it.
//! Holes may repeat or overlap, since the oldest are repeated on purpose: readers take the union.
//! No field can name a time, rate or size that is not finite, and a list costs its own bytes only.

use core::ops::Range;
use core::time::Duration;

use tack::{Frequency, Iack, IackReason, PktSeq, Regime, Tack, Timing};
use tack_units::Rate;

use crate::seq::SeqNum;
use crate::wire::tack_option::AckType;

/// Version written, and the only one read.
pub const VERSION: u8 = 1;

/// Bytes of a TACK body without additional holes.
pub const TACK_FIXED_LEN: usize = 52;

const EDGES_LEN: usize = 8;
const LOSS_LEN: usize = 8;
const FREQUENCY_LEN: usize = 16;
const CE_LEN: usize = 8;

const FLAG_TIMING: u8 = 0x01;
const FLAG_RATE: u8 = 0x02;
const FLAG_HEAD_HOLE: u8 = 0x04;
const FLAG_COMPLETE: u8 = 0x08;
const FLAG_STARTUP: u8 = 0x10;

/// What 32-bit fields are expanded near to, and the header fields a body goes with.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// `snd_una` of the side that reads: offsets of the stream are expanded near it.
    pub seq_near: u64,
    /// The stream offset whose low 32 bits travel as sequence number zero-point (ISN mapping).
    pub isn: SeqNum,
    /// Highest PKT.SEQ sent by the side that reads.
    pub pkt_seq_near: u64,
    /// Cumulative ACK of the header, as stream offset.
    pub cum_ack: u64,
    /// Window of the header, scaled to bytes.
    pub window: u64,
}

/// Why a body cannot be read. The header it came with counts all the same.
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
    /// Written by a version of the format that we do not read.
    #[error("version {found} of a {kind:?} body, but {VERSION} is read")]
    Version {
        /// Its type.
        kind: AckType,
        /// The version found.
        found: u8,
    },
    /// More holes are announced than bytes are there for.
    #[error("{count} holes announced, {room} fit the bytes that are there")]
    HoleCount {
        /// Holes announced.
        count: u32,
        /// Holes that fit.
        room: usize,
    },
    /// A hole ends before it starts, or where it starts, or starts before the stream.
    #[error("hole from {left:#010x} to {right:#010x}")]
    Hole {
        /// Left edge as it travelled.
        left: u32,
        /// Right edge as it travelled.
        right: u32,
    },
    /// The end of what was received lies before the start of the stream.
    #[error("highest byte received {rcv_high:#010x} is before the stream")]
    RcvHigh {
        /// The field as it travelled.
        rcv_high: u32,
    },
    /// A loss IACK whose numbers enclose no packet.
    #[error("no packet between PKT.SEQ {second_largest:#010x} and {largest:#010x}")]
    NoGap {
        /// As it travelled.
        largest: u32,
        /// As it travelled.
        second_largest: u32,
    },
    /// A frequency IACK with `L` = 0.
    #[error("a frequency of one acknowledgment per 0 segments")]
    ZeroSegmentsPerAck,
}

/// Reads a TACK body.
///
/// # Errors
/// As [`BodyError`] lists; nothing of the body may be used then.
pub fn parse_tack(bytes: &[u8], context: &Context) -> Result<Tack, BodyError> {
    let Some((fixed, edges)) = bytes.split_first_chunk::<TACK_FIXED_LEN>() else {
        let (kind, need, have) = (AckType::Tack, TACK_FIXED_LEN, bytes.len());
        return Err(BodyError::Truncated { kind, need, have });
    };
    let (words, _) = fixed.as_chunks::<4>();
    let word = |i: usize| u32::from_be_bytes(words[i]);
    let [version, flags, rho_hi, rho_lo] = words[0];
    if version != VERSION {
        return Err(BodyError::Version { kind: AckType::Tack, found: version });
    }
    let rcv_high = SeqNum(word(4))
        .to_offset(context.isn, context.seq_near)
        .ok_or(BodyError::RcvHigh { rcv_high: word(4) })?
        .max(context.cum_ack);
    let has = |flag: u8| flags & flag != 0;
    let head = has(FLAG_HEAD_HOLE)
        .then(|| (SeqNum::from_offset(context.isn, context.cum_ack), SeqNum(word(11))));
    Ok(Tack {
        counter: word(1),
        cum_ack: context.cum_ack,
        timing: has(FLAG_TIMING).then(|| Timing { departure_us: word(2), delay: micros(word(7)) }),
        delivery_rate: has(FLAG_RATE).then(|| Rate::from_kbps(u64::from(word(8)))),
        rho: ratio(u16::from_be_bytes([rho_hi, rho_lo])),
        received_in_flight: u64::from(word(10)),
        window: context.window,
        largest_pkt_seq: PktSeq(word(3)).expand(context.pkt_seq_near),
        rcv_high,
        holes: parse_holes(head, word(12), edges, rcv_high, context)?,
        holes_complete: has(FLAG_COMPLETE),
        interval: micros(word(5)),
        regime: regime(flags),
        duplicates: word(6),
    })
}

/// Reads an IACK body; a kind that is none of ours gives `Ok(None)`.
///
/// Whether the PKT.SEQs of a loss IACK were ever sent is for the sender to judge.
///
/// # Errors
/// As [`BodyError`] lists; cumulative ACK and window of the header count all the same.
pub fn parse_iack(
    kind: AckType,
    bytes: &[u8],
    context: &Context,
) -> Result<Option<Iack>, BodyError> {
    let reason = match kind {
        AckType::LossIack => parse_loss(bytes, context)?,
        AckType::WindowIack => IackReason::Window,
        AckType::FrequencyIack => IackReason::Frequency(parse_frequency(bytes)?),
        AckType::RttIack => IackReason::RttUpdate,
        AckType::CeIack => match bytes.first_chunk::<CE_LEN>() {
            Some(&marked) => {
                IackReason::CongestionExperienced { marked: u64::from_be_bytes(marked) }
            }
            None => return Err(BodyError::Truncated { kind, need: CE_LEN, have: bytes.len() }),
        },
        AckType::Tack | AckType::Unknown(_) => return Ok(None),
    };
    Ok(Some(Iack { cum_ack: context.cum_ack, window: context.window, reason }))
}

/// How many holes fit a TACK body of at most `max_bytes`.
pub fn max_holes(max_bytes: usize) -> usize {
    max_bytes.saturating_sub(TACK_FIXED_LEN) / EDGES_LEN
}

/// Appends a TACK body: `TACK_FIXED_LEN + 8 * holes` bytes at most.
///
/// Quantised: times to whole microseconds and at most 71 minutes, the rate to whole kbit/s, rho
/// to 1/65535, sizes to at most 2^32 - 1 bytes. The cumulative ACK and the window are the
/// header's.
pub fn emit_tack(tack: &Tack, isn: SeqNum, out: &mut Vec<u8>) {
    let (head, additional) = match tack.holes.split_first() {
        Some((first, rest)) if first.start == tack.cum_ack => (Some(first), rest),
        _ => (None, &tack.holes[..]),
    };
    let flags = [
        (tack.timing.is_some(), FLAG_TIMING),
        (tack.delivery_rate.is_some(), FLAG_RATE),
        (head.is_some(), FLAG_HEAD_HOLE),
        (tack.holes_complete, FLAG_COMPLETE),
        (tack.regime == Regime::Startup, FLAG_STARTUP),
    ];
    let flags = flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag);
    let [rho_hi, rho_lo] = ratio_bits(tack.rho).to_be_bytes();
    let timing = tack.timing.unwrap_or(Timing { departure_us: 0, delay: Duration::ZERO });
    let rate_kbps = tack.delivery_rate.unwrap_or(Rate::ZERO).as_bps() / 1_000;
    let hol = SeqNum::from_offset(isn, head.map_or(tack.cum_ack, |hole| hole.end));
    out.extend_from_slice(&[VERSION, flags, rho_hi, rho_lo]);
    let words = [
        tack.counter,
        timing.departure_us,
        PktSeq::truncate(tack.largest_pkt_seq).0,
        SeqNum::from_offset(isn, tack.rcv_high).0,
        micros_bits(tack.interval),
        tack.duplicates,
        micros_bits(timing.delay),
        saturate(rate_kbps),
        0,
        saturate(tack.received_in_flight),
        hol.0,
        saturate(additional.len() as u64),
    ];
    for word in words {
        out.extend_from_slice(&word.to_be_bytes());
    }
    for hole in additional {
        out.extend_from_slice(&SeqNum::from_offset(isn, hole.start).0.to_be_bytes());
        out.extend_from_slice(&SeqNum::from_offset(isn, hole.end).0.to_be_bytes());
    }
}

/// Appends an IACK body and names its type.
///
/// Quantised as [`emit_tack`] says: rho' to 1/65535, the interval to microseconds, `bdp` to at
/// most 2^32 - 1 bytes.
pub fn emit_iack(iack: &Iack, out: &mut Vec<u8>) -> AckType {
    match iack.reason {
        IackReason::Loss { largest, second_largest } => {
            for pkt_seq in [largest, second_largest] {
                out.extend_from_slice(&PktSeq::truncate(pkt_seq).0.to_be_bytes());
            }
            AckType::LossIack
        }
        IackReason::Window => AckType::WindowIack,
        IackReason::Frequency(frequency) => {
            emit_frequency(&frequency, out);
            AckType::FrequencyIack
        }
        IackReason::RttUpdate => AckType::RttIack,
        IackReason::CongestionExperienced { marked } => {
            out.extend_from_slice(&marked.to_be_bytes());
            AckType::CeIack
        }
    }
}

fn parse_holes(
    head: Option<(SeqNum, SeqNum)>,
    count: u32,
    edges: &[u8],
    rcv_high: u64,
    context: &Context,
) -> Result<Vec<Range<u64>>, BodyError> {
    let (edges, _) = edges.as_chunks::<EDGES_LEN>();
    // Compared as u64: a count must not wrap on a machine with small addresses.
    if u64::from(count) > edges.len() as u64 {
        return Err(BodyError::HoleCount { count, room: edges.len() });
    }
    let edges = edges[..count as usize].iter().map(|&[a, b, c, d, e, f, g, h]| {
        (SeqNum(u32::from_be_bytes([a, b, c, d])), SeqNum(u32::from_be_bytes([e, f, g, h])))
    });
    let mut holes = Vec::with_capacity(count as usize + usize::from(head.is_some()));
    for (left, right) in head.into_iter().chain(edges) {
        let offset = |edge: SeqNum| edge.to_offset(context.isn, context.seq_near);
        let (Some(start), Some(end)) = (offset(left), offset(right)) else {
            return Err(BodyError::Hole { left: left.0, right: right.0 });
        };
        if start >= end {
            return Err(BodyError::Hole { left: left.0, right: right.0 });
        }
        let hole = start.max(context.cum_ack)..end.min(rcv_high);
        if !hole.is_empty() {
            holes.push(hole);
        }
    }
    Ok(holes)
}

fn parse_loss(bytes: &[u8], context: &Context) -> Result<IackReason, BodyError> {
    let Some(&[a, b, c, d, e, f, g, h]) = bytes.first_chunk::<LOSS_LEN>() else {
        let (kind, need, have) = (AckType::LossIack, LOSS_LEN, bytes.len());
        return Err(BodyError::Truncated { kind, need, have });
    };
    let high = PktSeq(u32::from_be_bytes([a, b, c, d]));
    let low = PktSeq(u32::from_be_bytes([e, f, g, h]));
    let largest = high.expand(context.pkt_seq_near);
    let second_largest = low.expand(context.pkt_seq_near);
    if largest <= second_largest.saturating_add(1) {
        return Err(BodyError::NoGap { largest: high.0, second_largest: low.0 });
    }
    Ok(IackReason::Loss { largest, second_largest })
}

fn parse_frequency(bytes: &[u8]) -> Result<Frequency, BodyError> {
    let kind = AckType::FrequencyIack;
    let Some(fixed) = bytes.first_chunk::<FREQUENCY_LEN>() else {
        return Err(BodyError::Truncated { kind, need: FREQUENCY_LEN, have: bytes.len() });
    };
    let (words, _) = fixed.as_chunks::<4>();
    let word = |i: usize| u32::from_be_bytes(words[i]);
    let [version, flags, rho_hi, rho_lo] = words[0];
    if version != VERSION {
        return Err(BodyError::Version { kind, found: version });
    }
    if word(2) == 0 {
        return Err(BodyError::ZeroSegmentsPerAck);
    }
    Ok(Frequency {
        regime: regime(flags),
        interval: micros(word(1)),
        segments_per_ack: word(2),
        rho_prime: ratio(u16::from_be_bytes([rho_hi, rho_lo])),
        bdp: u64::from(word(3)),
    })
}

fn emit_frequency(frequency: &Frequency, out: &mut Vec<u8>) {
    let flags = if frequency.regime == Regime::Startup { FLAG_STARTUP } else { 0 };
    let [rho_hi, rho_lo] = ratio_bits(frequency.rho_prime).to_be_bytes();
    out.extend_from_slice(&[VERSION, flags, rho_hi, rho_lo]);
    let interval = micros_bits(frequency.interval);
    for word in [interval, frequency.segments_per_ack, saturate(frequency.bdp)] {
        out.extend_from_slice(&word.to_be_bytes());
    }
}

fn regime(flags: u8) -> Regime {
    if flags & FLAG_STARTUP != 0 { Regime::Startup } else { Regime::Steady }
}

fn micros(us: u32) -> Duration {
    Duration::from_micros(u64::from(us))
}

fn micros_bits(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}

fn ratio(bits: u16) -> f64 {
    f64::from(bits) / f64::from(u16::MAX)
}

/// NaN travels as 0: `as` sends it there, and sends what is out of range to the nearest end.
fn ratio_bits(ratio: f64) -> u16 {
    (ratio * f64::from(u16::MAX)).round() as u16
}

fn saturate(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
