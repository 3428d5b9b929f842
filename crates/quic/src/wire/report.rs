//! TACK's own frames (`docs/quic-tack.md`): what an ACK frame cannot say.
//!
//! A TACK is an ACK frame and a TACK_REPORT in one packet. The ACK frame's ranges are the acked list,
//! the gaps between them the unacked list, and its lowest range begins at the floor. The mechanism
//! counts PKT.SEQ from 1, so packet number `n` is PKT.SEQ `n + 1`.

use core::ops::Range;
use core::time::Duration;

use tack::{Frequency, Iack, IackReason, Regime, Tack, Timing};
use tack_units::Rate;

use super::ParseError;
use super::ack::Ack;
use super::read::{MAX_VARINT, Reader, put_varint};

const HAS_TIMING: u8 = 0x01;
const HAS_RATE: u8 = 0x02;
const STARTUP: u8 = 0x04;
const ALL_FLAGS: u8 = HAS_TIMING | HAS_RATE | STARTUP;

/// TACK_REPORT.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// [`Tack::counter`].
    pub counter: u32,
    /// [`Tack::duplicates`].
    pub duplicates: u32,
    /// Packet numbers, from the largest acknowledged down, whose gaps may be reordering yet.
    pub unsettled: u64,
    /// [`Tack::rho`], in steps of 1/65535.
    pub rho: f64,
    /// [`Tack::interval`], in microseconds.
    pub interval: Duration,
    /// [`Tack::regime`].
    pub regime: Regime,
    /// [`Tack::timing`], in microseconds.
    pub timing: Option<Timing>,
    /// [`Tack::delivery_rate`], in kbit/s.
    pub delivery_rate: Option<Rate>,
}

impl Report {
    /// What `tack` says that an ACK frame does not.
    pub fn of(tack: &Tack) -> Report {
        Report {
            counter: tack.counter,
            duplicates: tack.duplicates,
            unsettled: tack.rcv_high.saturating_sub(tack.settled_below),
            rho: tack.rho,
            interval: tack.interval,
            regime: tack.regime,
            timing: tack.timing,
            delivery_rate: tack.delivery_rate,
        }
    }

    /// The TACK that this report and the ACK frame beside it are. `oldest`: the least PKT.SEQ in flight, from
    /// which a gap below all ranges begins.
    pub fn tack(&self, ack: &Ack, oldest: u64) -> Tack {
        let (cum_ack, rcv_high, holes) = lists(ack, oldest);
        Tack {
            counter: self.counter,
            cum_ack,
            timing: self.timing,
            delivery_rate: self.delivery_rate,
            rho: self.rho,
            received_in_flight: 0,
            window: u64::MAX,
            largest_pkt_seq: rcv_high - 1,
            rcv_high,
            holes,
            holes_complete: true,
            lost: Vec::new(),
            settled_below: rcv_high.saturating_sub(self.unsettled),
            interval: self.interval,
            regime: self.regime,
            duplicates: self.duplicates,
        }
    }

    pub(super) fn parse(reader: &mut Reader<'_>) -> Result<Report, ParseError> {
        let flags = reader.byte("TACK_REPORT's flags")?;
        if flags & !ALL_FLAGS != 0 {
            return Err(ParseError::Value { what: "TACK_REPORT's flags", value: flags.into() });
        }
        let counter = reader.varint_up_to(u32::MAX.into(), "TACK counter")? as u32;
        let duplicates = reader.varint_up_to(u32::MAX.into(), "duplicates")? as u32;
        let unsettled = reader.varint("unsettled")?;
        let rho = f64::from(u16::from_be_bytes(reader.array("rho")?)) / f64::from(u16::MAX);
        let interval = micros(reader, "TACK interval")?;
        let mut timing = None;
        if flags & HAS_TIMING != 0 {
            timing = Some(Timing {
                departure_us: u32::from_be_bytes(reader.array("departure")?),
                delay: micros(reader, "TACK delay")?,
                queued: micros(reader, "queueing delay")?,
            });
        }
        let has_rate = flags & HAS_RATE != 0;
        // In whole kbit/s, so that what no `Rate` holds comes out as it would be written again.
        let most = Rate::from_bps(u64::MAX).as_bps() / 1_000;
        let kbps = if has_rate { Some(reader.varint("delivery rate")?.min(most)) } else { None };
        let regime = if flags & STARTUP != 0 { Regime::Startup } else { Regime::Steady };
        let delivery_rate = kbps.map(Rate::from_kbps);
        Ok(Report { counter, duplicates, unsettled, rho, interval, regime, timing, delivery_rate })
    }

    pub(super) fn emit(&self, out: &mut Vec<u8>) {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            flag(self.timing.is_some(), HAS_TIMING)
                | flag(self.delivery_rate.is_some(), HAS_RATE)
                | flag(self.regime == Regime::Startup, STARTUP),
        );
        put_varint(self.counter.into(), out);
        put_varint(self.duplicates.into(), out);
        put_varint(self.unsettled.min(MAX_VARINT), out);
        out.extend_from_slice(&share(self.rho).to_be_bytes());
        put_micros(self.interval, out);
        if let Some(timing) = &self.timing {
            out.extend_from_slice(&timing.departure_us.to_be_bytes());
            put_micros(timing.delay, out);
            put_micros(timing.queued, out);
        }
        if let Some(rate) = self.delivery_rate {
            put_varint((rate.as_bps() / 1_000).min(MAX_VARINT), out);
        }
    }
}

/// TACK_LOSS: a loss IACK, beside an ACK frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// As [`Report::unsettled`]: gaps that begin below are lost.
    pub unsettled: u64,
}

impl Loss {
    /// The IACK that this and the ACK frame beside it are; `oldest` as of [`Report::tack`].
    pub fn iack(&self, ack: &Ack, oldest: u64) -> Iack {
        let (cum_ack, ..) = lists(ack, oldest);
        Iack {
            cum_ack,
            window: u64::MAX,
            reason: IackReason::Loss { gaps: self.gaps(ack, oldest) },
        }
    }

    /// The PKT.SEQ that it declares lost; `oldest` as of [`Report::tack`].
    pub fn gaps(&self, ack: &Ack, oldest: u64) -> Vec<Range<u64>> {
        let (_, rcv_high, mut gaps) = lists(ack, oldest);
        let settled_below = rcv_high.saturating_sub(self.unsettled);
        gaps.retain(|gap| gap.start < settled_below);
        gaps
    }
}

/// The floor, one past the largest, and the gaps between, ascending, in PKT.SEQ. Where packets from the `oldest`
/// in flight on have not arrived, they are a gap as any other: it may be reordering, or is a loss that
/// congestion control has to hear of.
fn lists(ack: &Ack, oldest: u64) -> (u64, u64, Vec<Range<u64>>) {
    let lowest = ack.ranges.last().map_or(0, |lowest| lowest.start) + 1;
    let floor = lowest.min(oldest.max(1));
    let between = ack.ranges.windows(2).rev().map(|pair| pair[1].end + 1..pair[0].start + 1);
    let first = (floor < lowest).then_some(floor..lowest);
    (floor, ack.largest() + 2, first.into_iter().chain(between).collect())
}

/// The acked list of `tack` as an ACK frame has it. Of a list of holes that is not complete only what
/// is certain: what lies below them, and the largest.
impl From<&Tack> for Ack {
    fn from(tack: &Tack) -> Ack {
        let mut at = tack.cum_ack;
        let mut ranges: Vec<Range<u64>> = Vec::with_capacity(tack.holes.len() + 1);
        for hole in &tack.holes {
            ranges.push(at..hole.start);
            at = hole.end;
        }
        let top = if tack.holes_complete { at } else { at.max(tack.rcv_high - 1) };
        ranges.push(top..tack.rcv_high);
        ranges.retain(|range| !range.is_empty());
        let ranges = ranges.into_iter().rev().map(|r| r.start - 1..r.end - 1).collect();
        Ack { delay: 0, ranges, ecn: None }
    }
}

/// Reads TACK_FREQUENCY behind its type.
///
/// # Errors
/// It is cut off, or a field has a value that it cannot have.
pub fn parse_frequency(reader: &mut Reader<'_>) -> Result<Frequency, ParseError> {
    let what = "TACK_FREQUENCY's flags";
    let flags = reader.byte(what)?;
    if flags & !STARTUP != 0 {
        return Err(ParseError::Value { what, value: flags.into() });
    }
    Ok(Frequency {
        regime: if flags & STARTUP != 0 { Regime::Startup } else { Regime::Steady },
        interval: micros(reader, "TACK interval")?,
        rtt_min: micros(reader, "RTTmin")?,
        segments_per_ack: reader.varint_up_to(u32::MAX.into(), "packets per TACK")? as u32,
        rho_prime: f64::from(u16::from_be_bytes(reader.array("rho'")?)) / f64::from(u16::MAX),
        bdp: reader.varint("bdp")?,
    })
}

/// Appends TACK_FREQUENCY without its type.
pub fn emit_frequency(frequency: &Frequency, out: &mut Vec<u8>) {
    out.push(if frequency.regime == Regime::Startup { STARTUP } else { 0 });
    put_micros(frequency.interval, out);
    put_micros(frequency.rtt_min, out);
    put_varint(frequency.segments_per_ack.into(), out);
    out.extend_from_slice(&share(frequency.rho_prime).to_be_bytes());
    put_varint(frequency.bdp.min(MAX_VARINT), out);
}

/// A share in steps of 1/65535; not a number is nothing.
fn share(share: f64) -> u16 {
    (share.clamp(0.0, 1.0) * f64::from(u16::MAX)).round() as u16
}

fn micros(reader: &mut Reader<'_>, what: &'static str) -> Result<Duration, ParseError> {
    Ok(Duration::from_micros(reader.varint(what)?))
}

fn put_micros(duration: Duration, out: &mut Vec<u8>) {
    put_varint(u64::try_from(duration.as_micros()).unwrap_or(MAX_VARINT).min(MAX_VARINT), out);
}
