//! Bodies of TACKs and IACKs: the payload of a segment with an ACK-Type option.
//!
//! A body takes no sequence space. Numbers are 32 bits on the wire and expanded near what the
//! receiver of the body expects; the cumulative ACK and the window travel in the TCP header.
//! Times are microseconds, rates kbit/s, sizes bytes, ratios 1/65535.
//!
//! ```text
//! TACK (type 0x01), 12 bytes and what the flags say, in this order
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-+-+-+-+-+-+-+-+-------------------------------+
//! |  version (2)  |Q|D|P|M|S|C|R|T|         TACK counter          |
//! +---------------+-+-+-+-+-+-+-+-+-------------------------------+
//! |                   largest PKT.SEQ received                    |
//! |                   TACK interval in force, us                  |
//! +---------------------------------------------------------------+
//!   T  t0*: departure timestamp echoed, 32; dt*: TACK delay, us, 32
//!   Q  how long that packet waited on the data path, us, 32; only with T
//!   R  delivery rate, kbit/s, 32
//!   P  rho, 16
//!   D  packets that brought nothing new, 32
//!   M  end of the highest byte received, 32; received-in-flight data, 32; number of holes n, 16;
//!      n times the left and the right edge of a hole, 32 each
//!   C  the holes named are all there are      S  regime: startup
//!   then as a loss IACK, to the end: it leaves in place of one
//!
//! loss IACK (0x02)       largest PKT.SEQ, second largest PKT.SEQ           [TON Fig. 9]
//!                        and again for each further gap, ascending
//! window IACK (0x03)     nothing
//! frequency IACK (0x04)  version 8, flags 8 (S), rho' 16, interval, RTTmin, L, bdp: 32 each
//! RTT IACK (0x05)        nothing
//! CE IACK (0x06)         packets marked so far, 64
//! ```
//!
//! Deviation: a TACK of [TON Fig. 10] is six words and the holes, whether or not there is something
//! to say. Where nothing is missing, most of it is zero, and a thin return path pays for it with
//! each TACK: here a field that says nothing is left out, 24 bytes in the common case. HOL.SEQ is
//! the right edge of the first hole. Version, flags, the counter, t0*, the highest numbers received,
//! the interval, rho and the duplicates are ours: t0* must not redefine the timestamps that PAWS
//! needs, and rho' cannot be measured without a counter.
//!
//! A peer may write anything. Bytes behind what is read, and behind a gap that is none, are ignored.
//! An inverted hole is an error; what of a hole lies outside `cum_ack..rcv_high` is ignored (a
//! hole that lies there altogether is dropped), and a `rcv_high` below `cum_ack` is raised to it.
//! Holes may repeat or overlap, since the oldest are repeated on purpose: readers take the union.
//! No field can name a time, rate or size that is not finite, and a list costs its own bytes only.

use core::ops::Range;
use core::time::Duration;

use tack::{Frequency, PktSeq, Regime, Timing};
pub use tack::{Iack, IackReason, Tack};
use tack_units::Rate;

use crate::seq::SeqNum;
use crate::wire::tack_option::AckType;

/// Version written, and the only one read.
pub const VERSION: u8 = 2;

/// Bytes of a TACK body that says nothing but what is always said.
pub const TACK_LEAST_LEN: usize = 12;
/// Bytes of a TACK body that says everything, without holes.
pub const TACK_MOST_LEN: usize = 12 + 8 + 4 + 4 + 2 + 4 + 10;

const EDGES_LEN: usize = 8;
const LOSS_LEN: usize = 8;
const FREQUENCY_LEN: usize = 20;
const CE_LEN: usize = 8;

const FLAG_TIMING: u8 = 0x01;
const FLAG_RATE: u8 = 0x02;
const FLAG_COMPLETE: u8 = 0x04;
const FLAG_STARTUP: u8 = 0x08;
const FLAG_MISSING: u8 = 0x10;
const FLAG_RHO: u8 = 0x20;
const FLAG_DUPLICATES: u8 = 0x40;
const FLAG_QUEUED: u8 = 0x80;

/// What 32-bit fields are expanded near to, and the header fields a body goes with.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// `snd_una` of the side that reads: offsets of the stream are expanded near it.
    pub seq_near: u64,
    /// The stream offset whose low 32 bits travel as sequence number zero-point (ISN mapping).
    pub isn: SeqNum,
    /// Highest PKT.SEQ sent by the side that reads.
    pub pkt_seq_near: u64,
    /// Counter of the newest TACK read.
    pub counter_near: u32,
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

/// Takes big-endian numbers off the front of a body.
struct Fields<'a> {
    kind: AckType,
    have: usize,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn new(kind: AckType, bytes: &'a [u8]) -> Fields<'a> {
        Fields { kind, have: bytes.len(), rest: bytes }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], BodyError> {
        let Some((&first, rest)) = self.rest.split_first_chunk::<N>() else {
            let need = self.have - self.rest.len() + N;
            return Err(BodyError::Truncated { kind: self.kind, need, have: self.have });
        };
        self.rest = rest;
        Ok(first)
    }

    fn u16(&mut self) -> Result<u16, BodyError> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, BodyError> {
        self.take().map(u32::from_be_bytes)
    }

    fn version(&mut self) -> Result<u8, BodyError> {
        let [version, flags] = self.take()?;
        if version != VERSION {
            return Err(BodyError::Version { kind: self.kind, found: version });
        }
        Ok(flags)
    }
}

/// Reads a TACK body.
///
/// # Errors
/// As [`BodyError`] lists; nothing of the body may be used then.
pub fn parse_tack(bytes: &[u8], context: &Context) -> Result<Tack, BodyError> {
    let mut fields = Fields::new(AckType::Tack, bytes);
    let flags = fields.version()?;
    let has = |flag: u8| flags & flag != 0;
    let counter = expand_counter(fields.u16()?, context.counter_near);
    let largest_pkt_seq = PktSeq(fields.u32()?).expand(context.pkt_seq_near);
    let interval = micros(fields.u32()?);
    let timing = match has(FLAG_TIMING) {
        true => Some(Timing {
            departure_us: fields.u32()?,
            delay: micros(fields.u32()?),
            queued: if has(FLAG_QUEUED) { micros(fields.u32()?) } else { Duration::ZERO },
        }),
        false => None,
    };
    let delivery_rate = match has(FLAG_RATE) {
        true => Some(Rate::from_kbps(u64::from(fields.u32()?))),
        false => None,
    };
    let rho = if has(FLAG_RHO) { ratio(fields.u16()?) } else { 0.0 };
    let duplicates = if has(FLAG_DUPLICATES) { fields.u32()? } else { 0 };
    let missing = if has(FLAG_MISSING) {
        parse_missing(&mut fields, context)?
    } else {
        Missing { rcv_high: context.cum_ack, in_flight: 0, holes: Vec::new() }
    };
    let lost = parse_gaps(fields.rest, context);
    Ok(Tack {
        counter,
        cum_ack: context.cum_ack,
        timing,
        delivery_rate,
        rho,
        received_in_flight: missing.in_flight,
        window: context.window,
        largest_pkt_seq,
        rcv_high: missing.rcv_high,
        holes: missing.holes,
        holes_complete: has(FLAG_COMPLETE),
        lost,
        // No other holes are listed.
        settled_below: u64::MAX,
        interval,
        regime: regime(flags),
        duplicates,
    })
}

/// What a TACK says of bytes beyond the cumulative ACK.
struct Missing {
    rcv_high: u64,
    in_flight: u64,
    holes: Vec<Range<u64>>,
}

fn parse_missing(fields: &mut Fields<'_>, context: &Context) -> Result<Missing, BodyError> {
    let high = fields.u32()?;
    let rcv_high = SeqNum(high)
        .to_offset(context.isn, context.seq_near)
        .ok_or(BodyError::RcvHigh { rcv_high: high })?
        .max(context.cum_ack);
    // No more can have been received beyond the cumulative ACK.
    let in_flight = u64::from(fields.u32()?).min(rcv_high - context.cum_ack);
    let count = fields.u16()?;
    let holes = parse_holes(count, fields, rcv_high, context)?;
    Ok(Missing { rcv_high, in_flight, holes })
}

/// The counter nearest to `near` whose low 16 bits travelled.
fn expand_counter(wire: u16, near: u32) -> u32 {
    near.wrapping_add(i32::from(wire.wrapping_sub(near as u16) as i16) as u32)
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

/// How many holes, and gaps, fit a TACK body of at most `max_bytes`.
pub fn max_holes(max_bytes: usize) -> usize {
    max_bytes.saturating_sub(TACK_MOST_LEN) / EDGES_LEN
}

/// Appends a TACK body: [`TACK_MOST_LEN`] bytes at most, and 8 for each hole and each gap.
///
/// Quantised: times to whole microseconds and at most 71 minutes, the rate to whole kbit/s, rho
/// to 1/65535, sizes to at most 2^32 - 1 bytes. The cumulative ACK and the window are the
/// header's. No more than 65 535 holes are named.
pub fn emit_tack(tack: &Tack, isn: SeqNum, out: &mut Vec<u8>) {
    let rho = ratio_bits(tack.rho);
    let missing = tack.rcv_high > tack.cum_ack;
    let queued = tack.timing.map(|timing| micros_bits(timing.queued)).filter(|us| *us > 0);
    let flags = [
        (queued.is_some(), FLAG_QUEUED),
        (tack.timing.is_some(), FLAG_TIMING),
        (tack.delivery_rate.is_some(), FLAG_RATE),
        (tack.holes_complete, FLAG_COMPLETE),
        (tack.regime == Regime::Startup, FLAG_STARTUP),
        (missing, FLAG_MISSING),
        (rho > 0, FLAG_RHO),
        (tack.duplicates > 0, FLAG_DUPLICATES),
    ];
    let flags = flags.iter().filter(|(set, _)| *set).fold(0, |all, (_, flag)| all | flag);
    out.extend_from_slice(&[VERSION, flags]);
    out.extend_from_slice(&(tack.counter as u16).to_be_bytes());
    let mut word = |word: u32| out.extend_from_slice(&word.to_be_bytes());
    word(PktSeq::truncate(tack.largest_pkt_seq).0);
    word(micros_bits(tack.interval));
    if let Some(timing) = tack.timing {
        word(timing.departure_us);
        word(micros_bits(timing.delay));
    }
    if let Some(queued) = queued {
        word(queued);
    }
    if let Some(rate) = tack.delivery_rate {
        word(saturate(rate.as_bps() / 1_000));
    }
    if rho > 0 {
        out.extend_from_slice(&rho.to_be_bytes());
    }
    if tack.duplicates > 0 {
        out.extend_from_slice(&tack.duplicates.to_be_bytes());
    }
    if missing {
        emit_missing(tack, isn, out);
    }
    emit_gaps(&tack.lost, out);
}

fn emit_missing(tack: &Tack, isn: SeqNum, out: &mut Vec<u8>) {
    let count = u16::try_from(tack.holes.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&SeqNum::from_offset(isn, tack.rcv_high).0.to_be_bytes());
    out.extend_from_slice(&saturate(tack.received_in_flight).to_be_bytes());
    out.extend_from_slice(&count.to_be_bytes());
    for hole in tack.holes.iter().take(usize::from(count)) {
        out.extend_from_slice(&SeqNum::from_offset(isn, hole.start).0.to_be_bytes());
        out.extend_from_slice(&SeqNum::from_offset(isn, hole.end).0.to_be_bytes());
    }
}

/// Appends an IACK body and names its type.
///
/// Quantised as [`emit_tack`] says: rho' to 1/65535, the interval to microseconds, `bdp` to at
/// most 2^32 - 1 bytes.
pub fn emit_iack(iack: &Iack, out: &mut Vec<u8>) -> AckType {
    match &iack.reason {
        IackReason::Loss { gaps } => {
            emit_gaps(gaps, out);
            AckType::LossIack
        }
        IackReason::Window => AckType::WindowIack,
        IackReason::Frequency(frequency) => {
            emit_frequency(frequency, out);
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
    count: u16,
    fields: &mut Fields<'_>,
    rcv_high: u64,
    context: &Context,
) -> Result<Vec<Range<u64>>, BodyError> {
    let (edges, _) = fields.rest.as_chunks::<EDGES_LEN>();
    let Some(edges) = edges.get(..usize::from(count)) else {
        return Err(BodyError::HoleCount { count: u32::from(count), room: edges.len() });
    };
    fields.rest = &fields.rest[edges.as_flattened().len()..];
    let mut holes = Vec::with_capacity(edges.len());
    for &[a, b, c, d, e, f, g, h] in edges {
        let (left, right) =
            (SeqNum(u32::from_be_bytes([a, b, c, d])), SeqNum(u32::from_be_bytes([e, f, g, h])));
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

fn emit_gaps(gaps: &[Range<u64>], out: &mut Vec<u8>) {
    for gap in gaps {
        for pkt_seq in [gap.end, gap.start.saturating_sub(1)] {
            out.extend_from_slice(&PktSeq::truncate(pkt_seq).0.to_be_bytes());
        }
    }
}

fn parse_loss(bytes: &[u8], context: &Context) -> Result<IackReason, BodyError> {
    let gaps = parse_gaps(bytes, context);
    if gaps.is_empty() {
        let [a, b, c, d, e, f, g, h] = Fields::new(AckType::LossIack, bytes).take::<LOSS_LEN>()?;
        let (largest, second_largest) =
            (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
        return Err(BodyError::NoGap { largest, second_largest });
    }
    Ok(IackReason::Loss { gaps })
}

/// Gaps to the end, or to the first that is none.
fn parse_gaps(bytes: &[u8], context: &Context) -> Vec<Range<u64>> {
    let (pairs, _) = bytes.as_chunks::<LOSS_LEN>();
    let mut gaps: Vec<Range<u64>> = Vec::with_capacity(pairs.len());
    for &[a, b, c, d, e, f, g, h] in pairs {
        let high = PktSeq(u32::from_be_bytes([a, b, c, d]));
        let low = PktSeq(u32::from_be_bytes([e, f, g, h]));
        let gap = low.expand(context.pkt_seq_near) + 1..high.expand(context.pkt_seq_near);
        if gap.is_empty() || gaps.last().is_some_and(|before| gap.start < before.end) {
            break;
        }
        gaps.push(gap);
    }
    gaps
}

fn parse_frequency(bytes: &[u8]) -> Result<Frequency, BodyError> {
    let kind = AckType::FrequencyIack;
    if bytes.len() < FREQUENCY_LEN {
        return Err(BodyError::Truncated { kind, need: FREQUENCY_LEN, have: bytes.len() });
    }
    let mut fields = Fields::new(kind, bytes);
    let flags = fields.version()?;
    let rho_prime = ratio(fields.u16()?);
    let (interval, rtt_min) = (micros(fields.u32()?), micros(fields.u32()?));
    let (segments_per_ack, bdp) = (fields.u32()?, u64::from(fields.u32()?));
    if segments_per_ack == 0 {
        return Err(BodyError::ZeroSegmentsPerAck);
    }
    Ok(Frequency { regime: regime(flags), interval, rtt_min, segments_per_ack, rho_prime, bdp })
}

fn emit_frequency(frequency: &Frequency, out: &mut Vec<u8>) {
    let flags = if frequency.regime == Regime::Startup { FLAG_STARTUP } else { 0 };
    let [rho_hi, rho_lo] = ratio_bits(frequency.rho_prime).to_be_bytes();
    out.extend_from_slice(&[VERSION, flags, rho_hi, rho_lo]);
    let (interval, rtt_min) = (micros_bits(frequency.interval), micros_bits(frequency.rtt_min));
    for word in [interval, rtt_min, frequency.segments_per_ack, saturate(frequency.bdp)] {
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
