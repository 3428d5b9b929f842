//! What arrived in one packet number space, and when that is acknowledged.
//!
//! ```text
//! Initial, Handshake      at once                                       [RFC 9000 §13.2.1]
//! 1-RTT, plain peer       every second packet, or 25 ms; as ACK_FREQUENCY asks
//! 1-RTT, TACK             by `tack::Receiver`
//! ```
//!
//! Numbers are kept as PKT.SEQ, one more than the packet number. Below the floor nothing is told any
//! more, and packets that come late there are dropped [RFC 9000 §13.2.3].

mod plain;

use core::time::Duration;

use tack::{Arrival, Buffer, Feedback, Frequency, Ranges, Receiver};
use tack_units::Instant;

use super::mtu::BASE;
use crate::ack_frequency;
use crate::seen::AckReason;
use crate::wire::{Ack, EcnCounts, Report, varint_len};

use plain::Plain;

/// Ranges that are kept; of more, the lowest are forgotten.
const MAX_RANGES: usize = 2_048;
/// What an ACK frame takes beside the further ranges, at most: type, largest number, delay, their count, the
/// first range, ECN counts.
const HEAD_BYTES: usize = 1 + 8 + 8 + 2 + 8 + 3 * 8;
/// A further range takes no more bytes: a gap and a length below 2^30.
const RANGE_BYTES: usize = 8;
/// And without that bound.
const MOST_RANGE_BYTES: usize = 16;
/// No packet with less room for frames acknowledges anything.
pub(super) const LEAST_ROOM: usize = 64;
/// And none of 1-RTT packets, which have room for other frames as well.
pub(super) const LEAST_DATA_ROOM: usize = 256;
/// An acknowledgment of 1-RTT packets leaves this much of a packet to others, as long as all ranges fit.
const SHARE: usize = 2;
/// What a TACK has beside further ranges, at most: the ACK frame's head, TACK_REPORT, PING.
const BESIDE_RANGES: usize = 128;
const _: () = assert!(HEAD_BYTES < LEAST_ROOM && BESIDE_RANGES <= LEAST_DATA_ROOM / SHARE);
/// How late 0-RTT packets are acknowledged at most where TACK is about to begin: as a plain peer's.
const EARLY_DELAY: Duration = Duration::from_millis(25);
/// Ranges that are not worth a packet which makes the peer forget them.
const FEW_RANGES: usize = 8;
/// Of more than so many the peer is to forget some at each TACK: on a long path with much loss they would not fit
/// before the answer to a PING per round trip is here, and what is not listed counts as missing.
const MANY_RANGES: usize = 32;
/// Ranges of a frame to a plain peer.
const PLAIN_RANGES: usize = 32;

/// A packet that arrived, opened and read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) number: u64,
    pub(crate) eliciting: bool,
    pub(crate) bytes: u64,
    /// TACK_STAMP, if it had one.
    pub(crate) stamp: Option<u32>,
    /// IMMEDIATE_ACK, or something of the kind.
    pub(crate) immediate: bool,
    /// It is a 0-RTT packet: it says nothing of time, and TACK has not begun.
    pub(crate) is_early: bool,
    /// ECN field of its IP header.
    pub(crate) ecn: u8,
    /// How long it lay here before there were keys to open it.
    pub(crate) lay: Duration,
}

/// An acknowledgment to send.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) ack: Ack,
    pub(crate) report: Option<Report>,
    /// Everything below this PKT.SEQ is told by it.
    pub(crate) below: u64,
    /// It should be acknowledged itself, so that the floor can rise.
    pub(crate) ping: bool,
    pub(crate) reason: AckReason,
}

#[derive(Debug)]
enum Policy {
    AtOnce,
    Plain(Plain),
    Tack(Box<Receiver>),
}

/// See the [module's text](self).
#[derive(Debug)]
pub(crate) struct Acks {
    policy: Policy,
    arrived: Ranges,
    floor: u64,
    /// When the packet with the largest number arrived.
    largest_at: Instant,
    delivered: u64,
    ecn: EcnCounts,
    /// Something that asks for it was not acknowledged in any packet.
    owed: bool,
    /// Arrival less departure by the last stamp, microseconds of two clocks.
    offset_us: u32,
    /// When 0-RTT packets are acknowledged at the latest, whatever the policy.
    early_due: Option<Instant>,
    /// Length of a full packet, as TACK counts, and of the longest that came.
    full: u64,
    longest: u64,
    /// When a TACK last had a PING.
    pinged: Option<Instant>,
    /// What arrived from this PKT.SEQ on did not fit the last TACK, and is told next.
    rest: Option<u64>,
    /// And below this one has been told so.
    rest_told: u64,
    rtt_min: Duration,
    /// The packet that told the frequency in force.
    frequency_of: Option<u64>,
    sent: u64,
}

impl Acks {
    /// Of Initial or Handshake packets.
    pub(crate) fn at_once(now: Instant) -> Acks {
        Acks {
            policy: Policy::AtOnce,
            arrived: Ranges::new(),
            floor: 1,
            largest_at: now,
            delivered: 0,
            ecn: EcnCounts::default(),
            owed: false,
            offset_us: 0,
            early_due: None,
            full: u64::from(BASE),
            longest: u64::from(BASE),
            pinged: None,
            rest: None,
            rest_told: 0,
            rtt_min: Duration::ZERO,
            frequency_of: None,
            sent: 0,
        }
    }

    /// Of 1-RTT packets of a plain peer, which was told `max_ack_delay`.
    pub(crate) fn plain(max_ack_delay: Duration, now: Instant) -> Acks {
        Acks { policy: Policy::Plain(Plain::new(max_ack_delay)), ..Acks::at_once(now) }
    }

    /// Of 1-RTT packets of a peer with TACK.
    pub(crate) fn tack(params: tack::Params, now: Instant) -> Acks {
        let params = tack::Params { rbb: tack::RbbPolicy::Every, ..params };
        Acks { policy: Policy::Tack(Box::new(Receiver::new(params, 1))), ..Acks::at_once(now) }
    }

    /// The handshake took `rtt`: what is assumed until the peer tells a frequency.
    pub(crate) fn on_handshake(&mut self, rtt: Duration) {
        if let Policy::Tack(receiver) = &mut self.policy
            && self.rtt_min.is_zero()
        {
            self.rtt_min = rtt;
            receiver.on_handshake(rtt);
        }
    }

    /// One past the largest number that arrived.
    pub(crate) fn expected(&self) -> u64 {
        self.arrived.last().map_or(self.floor - 1, |last| last.end - 1)
    }

    /// It has not arrived before, as far as that is known.
    pub(crate) fn is_new(&self, number: u64) -> bool {
        number + 1 >= self.floor && !self.arrived.contains(&(number + 1..number + 2))
    }

    /// A packet arrived that [`Self::is_new`].
    pub(crate) fn on_packet(&mut self, packet: &Packet, now: Instant) {
        let pkt_seq = packet.number + 1;
        let expected = self.expected();
        if packet.number >= expected {
            self.largest_at = now - packet.lay;
        }
        self.arrived.insert(pkt_seq..pkt_seq + 1);
        if self.arrived.len() > MAX_RANGES
            && let Some(lowest) = self.arrived.first()
        {
            self.floor = lowest.end;
            self.arrived.remove_below(self.floor);
        }
        self.count(packet.ecn);
        self.delivered += packet.bytes;
        self.owed |= packet.eliciting;
        let ce = packet.ecn == 3;
        match &mut self.policy {
            Policy::AtOnce => {}
            Policy::Plain(plain) if packet.eliciting => {
                let missing = self.arrived.len() > 1;
                plain.on_packet(packet, expected, missing, ce, now);
            }
            Policy::Plain(_) => {}
            Policy::Tack(receiver) => {
                let buffer = buffer(self.floor, &self.arrived, self.delivered);
                // What lay here says nothing of time either.
                if !packet.eliciting || packet.is_early || !packet.lay.is_zero() {
                    if packet.eliciting {
                        self.early_due.get_or_insert(now + EARLY_DELAY);
                    }
                    return receiver.on_unasked(pkt_seq, buffer, now);
                }
                if packet.bytes > self.full {
                    // How long the peer's full packets are nobody says. One alone may be a probe of the path; with
                    // a second one its length is known to pass.
                    let passes = self.longest > self.full;
                    self.longest = self.longest.max(packet.bytes);
                    if passes {
                        self.full = self.longest;
                        receiver.set_mss(u32::try_from(self.full).unwrap_or(u32::MAX));
                    }
                }
                let arrival_us = now.as_micros() as u32;
                if let Some(stamp) = packet.stamp {
                    self.offset_us = arrival_us.wrapping_sub(stamp);
                }
                let arrival = Arrival {
                    pkt_seq,
                    bytes: packet.bytes,
                    departure_us: arrival_us.wrapping_sub(self.offset_us),
                    arrival_us,
                    push: false,
                    immediate: packet.immediate,
                    ce,
                    duplicate: false,
                };
                receiver.on_data(&arrival, buffer, now);
            }
        }
    }

    fn count(&mut self, ecn: u8) {
        match ecn {
            1 => self.ecn.ect1 += 1,
            2 => self.ecn.ect0 += 1,
            3 => self.ecn.ce += 1,
            _ => {}
        }
    }

    /// When [`Self::poll`] has something to say.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let own = match &self.policy {
            Policy::AtOnce => self.owed.then_some(Instant::ZERO),
            Policy::Plain(plain) => plain.due().filter(|_| self.owed),
            Policy::Tack(receiver) => receiver.deadline(),
        };
        let rest = self.rest.map(|_| Instant::ZERO);
        [own, self.early_due, rest].into_iter().flatten().min()
    }

    /// What arrived is told once more: the peer may not have heard it, and cannot make itself heard before.
    pub(crate) fn tell_again(&mut self, now: Instant) {
        self.early_due = self.arrived.last().map(|_| now).or(self.early_due);
    }

    /// The acknowledgment that is due; `room` bytes are left in its packet, at least [`LEAST_ROOM`], of 1-RTT
    /// packets [`LEAST_DATA_ROOM`].
    pub(crate) fn poll(&mut self, room: usize, exponent: u64, now: Instant) -> Option<Told> {
        if self.deadline().is_none_or(|at| at > now) || self.arrived.is_empty() {
            return None;
        }
        if let Some(from) = self.rest.take() {
            return self.tell_rest(from, room, exponent, now);
        }
        let is_early = self.early_due.is_some_and(|at| at <= now);
        let (reason, room) = match &self.policy {
            Policy::Tack(_) if !is_early => return self.poll_tack(room, exponent, now),
            Policy::Plain(plain) if !is_early => (plain.reason(), room / SHARE),
            Policy::AtOnce if !is_early => (AckReason::Handshake, room),
            _ => (AckReason::Delay, room / SHARE),
        };
        self.tell_all(reason, room, exponent, now)
    }

    /// An acknowledgment of `room` bytes at most for a packet that leaves anyway, and others after it if it `goes_on`;
    /// `None`: there is nothing to tell.
    pub(crate) fn piggyback(
        &mut self,
        room: usize,
        exponent: u64,
        goes_on: bool,
        now: Instant,
    ) -> Option<Told> {
        if !self.owed || self.arrived.is_empty() {
            return None;
        }
        // TACKs wait for more of the kind.
        if let Policy::Tack(receiver) = &mut self.policy
            && goes_on
        {
            receiver.on_acknowledged_by_data(true, now);
        }
        self.tell_all(AckReason::Piggyback, room, exponent, now)
    }

    /// Something asks for an acknowledgment and has none.
    pub(crate) fn owes(&self) -> bool {
        self.owed
    }

    /// What a range may take. Its numbers are the peer's, which may leave out as many as it likes.
    fn range_bytes(&self) -> usize {
        let span = self.arrived.last().map_or(0, |last| last.end - self.floor);
        if span < 1 << 30 { RANGE_BYTES } else { MOST_RANGE_BYTES }
    }

    /// All ranges, as many as a plain peer is told and fit.
    fn tell_all(
        &mut self,
        reason: AckReason,
        room: usize,
        exponent: u64,
        now: Instant,
    ) -> Option<Told> {
        let most = 1 + room.saturating_sub(HEAD_BYTES) / self.range_bytes();
        let ranges = self.arrived.iter().rev().take(most.min(PLAIN_RANGES));
        let ranges: Vec<_> = ranges.map(|range| range.start - 1..range.end - 1).collect();
        let below = ranges.first()?.end + 1;
        let ack = Ack { delay: self.delay(exponent, now), ranges, ecn: self.ecn_counts() };
        if let Policy::Plain(plain) = &mut self.policy {
            plain.on_told(below - 2, now);
        }
        (self.owed, self.early_due) = (false, None);
        self.sent += 1;
        let below = if matches!(self.policy, Policy::Tack(_)) { 0 } else { below };
        Some(Told { ack, report: None, below, ping: false, reason })
    }

    fn poll_tack(&mut self, room: usize, exponent: u64, now: Instant) -> Option<Told> {
        let (delay, ecn) = (self.delay(exponent, now), self.ecn_counts());
        let most = self.most_holes(room);
        let Policy::Tack(receiver) = &mut self.policy else { return None };
        let buffer = buffer(self.floor, &self.arrived, self.delivered);
        let reason = if receiver.tells_loss(now) { AckReason::Loss } else { AckReason::Tack };
        let mut told = match receiver.poll(buffer, most, now)? {
            Feedback::Tack(mut tack) => {
                let mut below = tack.rcv_high;
                if !tack.holes_complete {
                    // The lowest are listed, so all below the last of them is told. What is not listed may
                    // have arrived, and has its turn when the floor has risen over these.
                    below = tack.holes.last().map_or(self.floor, |hole| hole.end);
                    tack.settled_below = tack.settled_below.min(below);
                    let last = self.arrived.last().map_or(0, |last| last.start);
                    self.rest = Some(below.max(self.rest_told)).filter(|from| *from < last);
                }
                // A few gaps are told once more for less than a PING and its answer cost.
                let ranges = self.arrived.len();
                let rests = self.pinged.is_some_and(|at| now.saturating_since(at) < self.rtt_min);
                let ping = ranges > if rests { MANY_RANGES } else { FEW_RANGES };
                self.pinged = if ping { Some(now) } else { self.pinged };
                let (mut ack, report) = (Ack::from(&tack), Some(Report::of(&tack)));
                if let Some(last) = self.arrived.last().filter(|_| !tack.holes_complete) {
                    // What goes on arriving is told in any case, or the sender would hear nothing of it.
                    ack.ranges[0].start = last.start.max(below + 1) - 1;
                }
                Told { ack, report, below, ping, reason }
            }
            // Of marks: a TACK tells of losses, there is no window to tell, and nobody asks for an RTT sample.
            Feedback::Iack(_) => {
                let ranges = self.arrived.iter().rev();
                let ranges = ranges.map(|range| range.start - 1..range.end - 1).take(most);
                let ack = Ack { delay: 0, ranges: ranges.collect(), ecn: None };
                let reason = AckReason::CongestionExperienced;
                Told { ack, report: None, below: 0, ping: false, reason }
            }
        };
        (told.ack.delay, told.ack.ecn) = (delay, ecn);
        (self.owed, self.early_due) = (false, None);
        self.sent += 1;
        Some(told)
    }

    /// What arrived from `from` on, as much as fits: a sender that waited a round trip for the floor to rise would send
    /// again meanwhile what is here. Of what is missing there a later TACK tells.
    fn tell_rest(&mut self, from: u64, room: usize, exponent: u64, now: Instant) -> Option<Told> {
        let last = self.arrived.last()?;
        let mut left = room.saturating_sub(HEAD_BYTES + MOST_RANGE_BYTES);
        let (mut ranges, mut end) = (Vec::new(), from);
        for range in self.arrived.iter().filter(|range| range.end > from) {
            let range = range.start.max(from)..range.end;
            let bytes = varint_len(range.start - end) + varint_len(range.end - range.start);
            let Some(rest) = left.checked_sub(bytes) else { break };
            (left, end) = (rest, range.end);
            ranges.push(range.start - 1..range.end - 1);
        }
        self.rest_told = end;
        if end < last.end {
            // The largest, of which the delay is.
            ranges.push(last.start.max(end + 1) - 1..last.end - 1);
            self.rest = Some(end).filter(|from| *from < last.start);
        }
        ranges.reverse();
        let ack = Ack { delay: self.delay(exponent, now), ranges, ecn: self.ecn_counts() };
        self.sent += 1;
        Some(Told { ack, report: None, below: 0, ping: false, reason: AckReason::Tack })
    }

    /// How many holes a TACK lists in a packet with this room. Where there are more than half of it holds for
    /// sure, they have nearly all of it: until they are told nothing of what lies above them is.
    fn most_holes(&self, room: usize) -> usize {
        let most = (room / SHARE / self.range_bytes()).max(1);
        if self.arrived.len() <= most {
            return most;
        }
        let mut left = room.saturating_sub(BESIDE_RANGES + MOST_RANGE_BYTES);
        let (mut fit, mut end) = (0, self.floor);
        for range in self.arrived.iter() {
            let bytes = varint_len(range.start - end) + varint_len(range.end - range.start);
            let Some(rest) = left.checked_sub(bytes) else { break };
            (left, end, fit) = (rest, range.end, fit + 1);
        }
        most.max(fit)
    }

    fn delay(&self, exponent: u64, now: Instant) -> u64 {
        let us = now.saturating_since(self.largest_at).as_micros();
        u64::try_from(us).unwrap_or(u64::MAX >> 2) >> exponent
    }

    fn ecn_counts(&self) -> Option<EcnCounts> {
        (self.ecn != EcnCounts::default()).then_some(self.ecn)
    }

    /// A packet of ours arrived that told everything below `below`.
    pub(crate) fn on_told(&mut self, below: u64) {
        let settled = match &self.policy {
            Policy::Tack(receiver) => receiver.settled_below(),
            _ => u64::MAX,
        };
        // The largest stays: the next number is expanded near it.
        let largest = self.arrived.last().map_or(self.floor, |last| last.end - 1);
        self.floor = self.floor.max(below.min(settled).min(largest));
        self.arrived.remove_below(self.floor);
    }

    /// TACK_FREQUENCY came in packet `number`; of two the one with the greater number holds.
    pub(crate) fn on_frequency(&mut self, frequency: &Frequency, number: u64, now: Instant) {
        if self.frequency_of.is_some_and(|newest| number < newest) {
            return;
        }
        self.frequency_of = Some(number);
        self.rtt_min = frequency.rtt_min;
        if let Policy::Tack(receiver) = &mut self.policy {
            receiver.on_frequency(frequency, now);
        }
    }

    /// ACK_FREQUENCY came.
    pub(crate) fn on_ack_frequency(&mut self, frame: &ack_frequency::Frame) {
        if let Policy::Plain(plain) = &mut self.policy {
            plain.on_frequency(frame);
        }
    }

    /// How long packets may lie unread.
    pub(crate) fn leeway(&self) -> Duration {
        match &self.policy {
            Policy::Tack(receiver) => receiver.leeway(),
            Policy::AtOnce | Policy::Plain(_) => Duration::ZERO,
        }
    }

    /// TACKs sent so far, modulo 2^32; 0 without TACK.
    pub(crate) fn tacks(&self) -> u32 {
        match &self.policy {
            Policy::Tack(receiver) => receiver.tacks(),
            _ => 0,
        }
    }

    /// ACK frames sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
mod tests;

/// Packets are what is received or missing; flow control is none of the mechanism's business.
fn buffer(floor: u64, arrived: &Ranges, delivered: u64) -> Buffer<'_> {
    Buffer { rcv_nxt: floor, queued: arrived, delivered, window: u64::MAX, capacity: u64::MAX }
}
