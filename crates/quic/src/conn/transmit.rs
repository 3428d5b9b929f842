//! Datagrams that leave: one packet of each space that has something to say, in one datagram.

mod data;

pub(super) use data::DATAGRAM_HEADER;

use rustls::Side;
use tack_transport::Limit;
use tack_units::Instant;

use super::acks::{LEAST_DATA_ROOM, LEAST_ROOM};
use super::mtu::BASE;
use super::path::MAX_RESPONSES;
use super::recovery::Sent;
use super::space::{Carried, Load, SpaceId};
use super::{Connection, Datagram, State};
use crate::error::{ConnectionError, code};
use crate::protection::{SealKeys, seal};
use crate::seen::{AckReason, PacketKind, SeenPacket, What};
use crate::wire::{ConnectionId, Frame, Header, LongKind, PacketNumber, Version};

/// Of every cipher suite of TLS 1.3 that QUIC has [RFC 9001 §5.3].
const TAG_LEN: usize = 16;
/// A length that does not fit one byte, and does two.
const LENGTH_LEN: usize = 2;
/// No packet with a PATH_CHALLENGE alone is longer.
const LEAST_ASKING: u64 = 64;
/// Of a PATH_CHALLENGE or PATH_RESPONSE datagram, and of every one with an Initial packet.
const FULL: usize = BASE as usize;

/// Bytes that a server keeps for what it says of the handshake when that was lost.
const HANDSHAKE_AGAIN: u64 = 2 * FULL as u64;

/// The frames of a packet, before it has a number.
#[derive(Debug)]
struct Payload {
    space: SpaceId,
    frames: Vec<u8>,
    /// Frames of TACK, which go last: whoever does not know them reads all others.
    tail: Vec<u8>,
    carried: Load,
    eliciting: bool,
    /// It leaves with an ECN mark.
    marked: bool,
    /// It has stream data.
    is_data: bool,
    /// The datagram is to be full-sized.
    full: bool,
    /// It goes to another of the peer's IDs than everything else.
    to: Option<ConnectionId>,
    /// Why it acknowledges something.
    reason: Option<AckReason>,
}

impl Payload {
    fn new(space: SpaceId) -> Payload {
        let (frames, tail, carried) = (Vec::new(), Vec::new(), Load::default());
        let (eliciting, marked, is_data, full) = (false, false, false, false);
        let (to, reason) = (None, None);
        Payload { space, frames, tail, carried, eliciting, marked, is_data, full, to, reason }
    }

    fn put(&mut self, frame: &Frame<'_>) {
        self.eliciting |= frame.is_ack_eliciting();
        frame.emit(&mut self.frames);
    }

    fn put_last(&mut self, frame: &Frame<'_>) {
        self.eliciting |= frame.is_ack_eliciting();
        frame.emit(&mut self.tail);
    }

    /// Bytes of all frames.
    fn len(&self) -> usize {
        self.frames.len() + self.tail.len()
    }

    /// Nothing else is put; the buffer of what went last is given back to `spare`.
    fn end(&mut self, spare: &mut Vec<u8>) {
        self.frames.append(&mut self.tail);
        *spare = core::mem::take(&mut self.tail);
    }
}

impl Connection {
    /// Appends the next datagram to send to `out`; `None`: nothing may or need leave now.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>, now: Instant) -> Option<Datagram> {
        if self.one_rtt.as_ref().is_some_and(|keys| keys.is_worn_out()) && !self.is_ending() {
            let reason = "keys are worn out";
            self.fail(crate::error::Violation::new(code::AEAD_LIMIT_REACHED, reason), now);
        }
        if let Some(datagram) = self.answer_elsewhere(out, now) {
            return Some(datagram);
        }
        let may_say_so = || self.notice_len().is_some_and(|len| len <= self.path.credit());
        if self.is_blocked() && !may_say_so() {
            return self.ask_within_credit(out, now);
        }
        let payloads = match &self.state {
            State::Over => return None,
            State::Ending(_) => self.last_payloads()?,
            _ => {
                if let Some(datagram) = self.probe_mtu(out, now) {
                    return Some(datagram);
                }
                if self.confirmed {
                    // One packet, nearly always: nothing is gathered.
                    let room = self.size().checked_sub(self.overhead(SpaceId::Data));
                    let room = room.filter(|room| *room >= LEAST_DATA_ROOM)?;
                    let payload = self.build_data(room, now)?;
                    return Some(self.emit(Vec::new(), payload, out, now));
                }
                self.payloads(now)
            }
        };
        let mut payloads = payloads;
        let last = payloads.pop()?;
        Some(self.emit(payloads, last, out, now))
    }

    /// Nothing full-sized may go to where the peer seems to be, but the question whether it is there: what
    /// it sends may be a few short acknowledgments for long [RFC 9000 §8.2.1].
    fn ask_within_credit(&mut self, out: &mut Vec<u8>, now: Instant) -> Option<Datagram> {
        if self.one_rtt.is_none() || self.is_ending() || self.path.credit() < LEAST_ASKING {
            return None;
        }
        let mut payload = Payload::new(SpaceId::Data);
        payload.put(&Frame::PathChallenge(self.path.take_challenge(true, now)?));
        let start = out.len();
        self.seal(payload, 0, out, now);
        self.path.on_sent(out.len() - start);
        Some(Datagram { to: self.path.remote(), ecn: 0, is_data: false })
    }

    /// The peer asks whether it would be heard at another address: it is told so there, under an ID that
    /// nobody else has seen [RFC 9000 §8.2.2, §9.5].
    fn answer_elsewhere(&mut self, out: &mut Vec<u8>, now: Instant) -> Option<Datagram> {
        if self.one_rtt.is_none() || self.is_ending() || !self.may_answer() {
            return None;
        }
        let responses = self.path.take_responses_elsewhere();
        let to = responses.first()?.to;
        let mut payload = Payload::new(SpaceId::Data);
        // Without an ID to spare the peer had better not go there.
        payload.to = Some(self.remote_cids.elsewhere()?);
        responses.iter().for_each(|response| payload.put(&Frame::PathResponse(response.data)));
        let least = if responses.iter().any(|response| response.full) { FULL } else { 0 };
        self.seal(payload, least, out, now);
        Some(Datagram { to, ecn: 0, is_data: false })
    }

    /// Answers to challenges have to leave when the window is full as well, for it may be full of what was lost
    /// where this side was before; but who acknowledges nothing gets only a few beyond it [RFC 9000 §8.2.2].
    fn may_answer(&self) -> bool {
        let beyond = (MAX_RESPONSES * FULL) as u64;
        self.recovery.in_flight() < self.congestion.window().saturating_add(beyond)
    }

    /// Something about the path may leave.
    fn owes_path(&self) -> bool {
        self.path.owes_challenge() || self.path.owes_response() && self.may_answer()
    }

    /// Bytes of a datagram that may leave.
    fn size(&self) -> usize {
        usize::from(self.mtu.size()).min(usize::try_from(self.path.credit()).unwrap_or(usize::MAX))
    }

    fn payloads(&mut self, now: Instant) -> Vec<Payload> {
        self.finish_again(now);
        let mut left = self.size();
        let mut payloads = Vec::new();
        for space in SpaceId::ALL {
            let overhead = self.overhead(space);
            let Some(room) = left.checked_sub(overhead).filter(|room| *room > LEAST_ROOM) else {
                break;
            };
            // What fills a datagram that is full-sized anyway costs nothing.
            let is_free = payloads.iter().any(|payload: &Payload| payload.full);
            let payload = match space {
                SpaceId::Data if self.withholds_data() && !is_free => None,
                // It goes in a datagram of its own.
                SpaceId::Data if room < LEAST_DATA_ROOM => None,
                SpaceId::Data if !payloads.is_empty() && self.asks_where_it_is() => None,
                SpaceId::Data if self.can_send_data() => self.build_data(room, now),
                SpaceId::Handshake if self.handshake_keys.is_some() => {
                    self.build_handshake(space, room, now)
                }
                SpaceId::Initial if self.initial_keys.is_some() => {
                    self.build_handshake(space, room, now)
                }
                _ => None,
            };
            if let Some(payload) = payload {
                left = left.saturating_sub(overhead + payload.frames.len());
                payloads.push(payload);
            }
        }
        payloads
    }

    /// A server reads nothing of what follows a client's Finished before it has that. Where the datagram with it is
    /// lost the first window waits for three round trips, so it goes along with another one, once.
    fn finish_again(&mut self, now: Instant) {
        let is_due = self.side == Side::Client && self.is_established() && self.has_sent_data;
        if !is_due || self.has_finished_again || !self.streams.has_data() {
            return;
        }
        if self.may_send(self.waiting(), now) {
            self.has_finished_again = true;
            self.recovery.repeat_oldest(SpaceId::Handshake);
            self.read_fates(now);
        }
    }

    /// Which keys protect a packet of `space` that leaves now.
    fn kind(&self, space: SpaceId) -> PacketKind {
        match space {
            SpaceId::Initial => PacketKind::Initial,
            SpaceId::Handshake => PacketKind::Handshake,
            SpaceId::Data if self.one_rtt.is_none() => PacketKind::ZeroRtt,
            SpaceId::Data => PacketKind::OneRtt,
        }
    }

    /// What an application has written may leave.
    pub(super) fn can_send_data(&self) -> bool {
        self.one_rtt.is_some() || self.side == Side::Client && self.early.has_keys()
    }

    /// What may be sent before the client has shown where it is has to do for a handshake that is said again:
    /// a client that waits for it need not say anything that would allow more, as quinn's does not.
    pub(super) fn withholds_data(&self) -> bool {
        let in_handshake = self.side == Side::Server && matches!(self.state, State::Handshaking);
        in_handshake && self.path.credit() < HANDSHAKE_AGAIN + FULL as u64
    }

    /// The probes of a client that has finished, and is not heard, may be the first from where it is now. A server
    /// may count what came from there, and so what it may answer, by the packets that it can read, and has no
    /// keys of the handshake any more; quinn counts none of a datagram that begins with such a packet.
    fn asks_where_it_is(&self) -> bool {
        let has_finished = self.side == Side::Client && self.is_established();
        has_finished && self.spaces[SpaceId::Data as usize].probes > 0 && self.asks_in_vain()
    }

    /// What a packet of `space` takes beside its frames, at most.
    pub(super) fn overhead(&self, space: SpaceId) -> usize {
        let dcid = self.remote_cids.current().as_bytes().len();
        if self.kind(space) == PacketKind::OneRtt {
            return 1 + dcid + 4 + TAG_LEN;
        }
        let scid = self.local_cids.first().as_bytes().len();
        let token_len = if self.token.len() < 64 { 1 } else { LENGTH_LEN };
        let token = if space == SpaceId::Initial { token_len + self.token.len() } else { 0 };
        1 + 4 + 1 + dcid + 1 + scid + token + LENGTH_LEN + 4 + TAG_LEN
    }

    /// A packet of the handshake: ACK, CRYPTO, PING.
    fn build_handshake(&mut self, space: SpaceId, room: usize, now: Instant) -> Option<Payload> {
        // Deviation: [RFC 9002 §7] counts 1-RTT packets as well. They may fill the window before a peer that
        // lacks the end of the handshake can read any, and no timer runs for them until it has it.
        let may_send = self.recovery.handshake_in_flight() < self.congestion.window();
        let Space { acks, sending, probes, .. } = &mut self.spaces[space as usize];
        let may_send = may_send || *probes > 0;
        let mut payload = Payload::new(space);
        if let Some(told) = acks.poll(room, 0, now) {
            payload.put(&Frame::Ack(told.ack));
            payload.reason = Some(told.reason);
            payload.carried.push(Carried::Acks(told.below));
        }
        let end = room;
        while may_send && payload.frames.len() + CRYPTO_HEADER < end {
            let room = (end - payload.frames.len() - CRYPTO_HEADER) as u64;
            let Some(part) = sending.next(room, u64::MAX) else { break };
            let (a, b) = sending.slices(&part.range);
            let data = &[a, b].concat()[..];
            payload.eliciting = true;
            Frame::Crypto { offset: part.range.start, data }.emit(&mut payload.frames);
            payload.carried.push(Carried::Crypto(part.range));
        }
        if *probes > 0 {
            *probes -= 1;
            if !payload.eliciting {
                payload.put(&Frame::Ping);
            }
        }
        // A server's Initial that asks for an answer, and each of a client's [RFC 9000 §14.1].
        payload.full =
            space == SpaceId::Initial && (self.side == Side::Client || payload.eliciting);
        (!payload.frames.is_empty()).then_some(payload)
    }

    /// CONNECTION_CLOSE, in every space that the peer may be able to read.
    fn last_payloads(&mut self) -> Option<Vec<Payload>> {
        let [in_handshake, in_data] = self.take_notice()?;
        let mut payloads = Vec::new();
        for space in SpaceId::ALL {
            let frames = match space {
                SpaceId::Initial if self.initial_keys.is_some() => &in_handshake,
                SpaceId::Handshake if self.handshake_keys.is_some() => &in_handshake,
                SpaceId::Data if self.one_rtt.is_some() => &in_data,
                _ => continue,
            };
            let full = space == SpaceId::Initial && self.side == Side::Client;
            payloads.push(Payload { frames: frames.clone(), full, ..Payload::new(space) });
        }
        Some(payloads)
    }

    /// Seals the packets of a datagram.
    fn emit(
        &mut self,
        before: Vec<Payload>,
        mut last: Payload,
        out: &mut Vec<u8>,
        now: Instant,
    ) -> Datagram {
        let start = out.len();
        let any = |is: fn(&Payload) -> bool| before.iter().any(is) || is(&last);
        let is_full = any(|payload| payload.full);
        let is_data = any(|payload| payload.is_data);
        let is_handshake = any(|payload| payload.space == SpaceId::Handshake);
        let only_data = self.one_rtt.is_some() && !any(|payload| payload.space != SpaceId::Data);
        for payload in before {
            self.seal(payload, 0, out, now);
        }
        let least = if is_full { (FULL).saturating_sub(out.len() - start) } else { 0 };
        last.full = is_full;
        let ecn = if only_data { self.ecn.mark(last.eliciting) } else { 0 };
        last.marked = ecn > 0;
        self.seal(last, least, out, now);
        if self.side == Side::Client && (is_handshake || only_data) {
            self.discard_initial(now);
        }
        self.path.on_sent(out.len() - start);
        Datagram { to: self.path.remote(), ecn, is_data }
    }

    /// Appends a packet of `least` bytes at least.
    fn seal(&mut self, payload: Payload, least: usize, out: &mut Vec<u8>, now: Instant) {
        let Payload { space, mut frames, carried, eliciting, marked, to, reason, .. } = payload;
        let kind = self.kind(space);
        if kind == PacketKind::OneRtt && eliciting {
            self.skip_if_due(now);
        }
        let (number, largest_acked) = self.recovery.next_number(space);
        let as_sent = PacketNumber::if_late(number, largest_acked);
        let short_of = least.saturating_sub(self.overhead(space) - 4 + as_sent.len());
        if frames.len() < short_of {
            frames.resize(short_of, 0);
        }
        let dcid = to.unwrap_or_else(|| self.remote_cids.current());
        let scid = self.local_cids.first();
        let long =
            |kind, version: Version, token| Header::Long { version, kind, dcid, scid, token };
        let before = out.len();
        let sealing = match kind {
            PacketKind::Initial => {
                let keys = self.initial_keys.as_ref().map(|keys| SealKeys::from(&keys.local));
                keys.map(|keys| (keys, long(LongKind::Initial, self.version, &self.token)))
            }
            PacketKind::ZeroRtt => {
                let keys = self.early.seal_keys();
                keys.map(|keys| (keys, long(LongKind::ZeroRtt, self.version, &[])))
            }
            PacketKind::Handshake => {
                let keys = self.handshake_keys.as_ref().map(|keys| SealKeys::from(&keys.local));
                keys.map(|keys| (keys, long(LongKind::Handshake, self.version, &[])))
            }
            PacketKind::OneRtt => self.one_rtt.as_mut().map(|keys| {
                let (keys, key_phase) = keys.seal(number);
                (keys, Header::Short { dcid, key_phase })
            }),
        };
        let (keys, header) = sealing.expect("a packet is built only for a space with keys");
        seal(keys, &header, number, as_sent, &frames, out);
        let bytes = out.len() - before;
        self.note(now, || {
            let frames = frames.clone();
            What::Sent(SeenPacket { kind, number, bytes, frames, reason })
        });
        frames.clear();
        self.spare = frames;
        self.on_sealed(space, Sent { eliciting, marked, bytes: bytes as u32, carried }, now);
    }

    fn on_sealed(&mut self, space: SpaceId, sent: Sent, now: Instant) {
        let (eliciting, bytes) = (sent.eliciting, u64::from(sent.bytes));
        self.counters.packets_sent += 1;
        self.recovery.on_sent(space, sent, now);
        if !eliciting {
            return;
        }
        let app_limited = !self.streams.has_data();
        self.congestion.on_sent(bytes, self.recovery.in_flight(), app_limited, now);
        self.allowance.1 = self.allowance.1.saturating_sub(bytes);
        if self.heard_since_asking {
            self.heard_since_asking = false;
            self.idle_since = now;
        }
    }

    /// Some numbers are left out, the rarer the more there are.
    fn skip_if_due(&mut self, now: Instant) {
        let (number, _) = self.recovery.next_number(SpaceId::Data);
        if number >= self.next_skip {
            let draw = self.draw();
            self.recovery.skip(now);
            self.next_skip = number + number / 2 + draw % number.max(1);
        }
    }

    /// Congestion control and the pacer let a packet go with `waiting` bytes of frames, or as many as fit.
    fn may_send(&mut self, waiting: u64, now: Instant) -> bool {
        let size = u64::from(self.mtu.size());
        let overhead = self.overhead(SpaceId::Data) as u64;
        let len = size.min(waiting.saturating_add(overhead));
        let in_flight = self.recovery.in_flight();
        let room = self.congestion.window().saturating_sub(in_flight);
        if room < len && in_flight > 0 {
            self.congestion.note_limit(Some(Limit::Cwnd), in_flight, now);
            return false;
        }
        if self.allowance.0 != now {
            self.allowance = (now, 0);
        }
        if self.allowance.1 < len {
            // Nobody waits for a burst that he cannot fill.
            let burst = room.min(waiting.saturating_add(overhead)).max(len);
            match self.congestion.budget(burst, now) {
                Some(budget) => self.allowance.1 = budget.max(len),
                None => {
                    self.paced_until = Some(self.congestion.next_departure(now));
                    self.congestion.note_limit(Some(Limit::Pacing), in_flight, now);
                    return false;
                }
            }
        }
        self.paced_until = None;
        true
    }

    /// The next datagram may be longer than the one before.
    pub(crate) fn may_grow(&self, now: Instant) -> bool {
        self.mtu.wanted(now).is_some() || self.path.owes()
    }

    /// A packet that is longer than those before, where more waits than these hold.
    fn probe_mtu(&mut self, out: &mut Vec<u8>, now: Instant) -> Option<Datagram> {
        let size = self.mtu.wanted(now).filter(|_| self.is_established() && self.has_sent_data)?;
        // An acknowledgment that is due does not go with what may be lost for its length alone: a peer whose window
        // is full hears of it only when it asks again, and the search may begin anew with each of its answers.
        let acknowledges = self.spaces[SpaceId::Data as usize].acks.owes();
        let waits = !acknowledges && self.waiting() > self.most_room() as u64;
        let fits = self.path.is_validated() && self.path.credit() >= u64::from(size);
        if !waits || !fits || !self.may_send(self.waiting(), now) {
            return None;
        }
        let room = usize::from(size) - self.overhead(SpaceId::Data);
        let mut payload = match self.mtu.is_doubtful() {
            false => self.build_data(room, now)?,
            true => {
                let mut payload = Payload::new(SpaceId::Data);
                payload.put(&Frame::Ping);
                self.put_stamp(&mut payload, now);
                payload.end(&mut self.spare_tail);
                payload
            }
        };
        let start = out.len();
        let (is_data, eliciting) = (payload.is_data, payload.eliciting);
        let ecn = self.ecn.mark(eliciting);
        payload.marked = ecn > 0;
        self.seal(payload, if eliciting { size.into() } else { 0 }, out, now);
        if eliciting {
            let (next, _) = self.recovery.next_number(SpaceId::Data);
            self.mtu.on_sent(next - 1, size);
        }
        self.path.on_sent(out.len() - start);
        Some(Datagram { to: self.path.remote(), ecn, is_data })
    }

    /// The keys of the handshake could not be agreed on in time, or some such.
    pub(super) fn time_out(&mut self) {
        self.enter_over(ConnectionError::TimedOut);
    }

    /// The handshake was waited for long enough. Nothing is said: who repeats its first packets would have
    /// that repeated.
    pub(crate) fn give_up_handshake(&mut self) {
        self.enter_over(ConnectionError::HandshakeTimedOut);
    }
}

use super::Space;

/// Type, offset and length of a CRYPTO frame, at most.
const CRYPTO_HEADER: usize = 1 + 8 + 2;
