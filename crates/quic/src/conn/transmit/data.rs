//! What a 1-RTT packet carries.

use core::time::Duration;

use rustls::Side;
use tack::Regime;
use tack_transport::Limit;
use tack_units::{Instant, Rate};

use super::{CRYPTO_HEADER, Payload};
use crate::ack_frequency::Path;
use crate::conn::Connection;
use crate::conn::space::{Carried, SpaceId};
use crate::endpoint::token;
use crate::seen::AckReason;
use crate::streams::With;
use crate::wire::{Frame, PacketNumber};

const DATA: usize = SpaceId::Data as usize;
/// Type and length of a DATAGRAM frame, at most.
pub(in crate::conn) const DATAGRAM_HEADER: usize = 1 + 4;
/// Type and time of a TACK_STAMP.
const STAMP_LEN: usize = 2 + 4;
/// Frames of connection IDs, and of paths, are no longer.
const CID_FRAME: usize = 1 + 8 + 8 + 1 + 20 + 16;
const PATH_FRAME: usize = 1 + 8;
/// NEW_TOKEN as it is issued here.
const TOKEN_FRAME: usize = 64;
/// TACK_FREQUENCY or ACK_FREQUENCY, at most.
const FREQUENCY_FRAME: usize = 48;
/// Timeouts in a row after which a client's probes are as long as its first packets.
const IN_VAIN: u32 = 2;

impl Connection {
    /// Bytes of frames that a full packet has room for, when nothing of the handshake goes along.
    pub(in crate::conn) fn most_room(&self) -> usize {
        let stamp = if self.is_tack() { STAMP_LEN } else { 0 };
        usize::from(self.mtu.size()) - self.overhead(SpaceId::Data) - stamp
    }

    pub(super) fn build_data(&mut self, room: usize, now: Instant) -> Option<Payload> {
        let frames = core::mem::take(&mut self.spare);
        let tail = core::mem::take(&mut self.spare_tail);
        let mut payload = Payload { frames, tail, ..Payload::new(SpaceId::Data) };
        let room = room - if self.is_tack() { STAMP_LEN } else { 0 };
        let exponent = self.ours.ack_delay_exponent;
        let told = self.spaces[DATA].acks.poll(room, exponent, now);
        let acknowledges = told.is_some();
        let pings = told.as_ref().is_some_and(|told| told.ping);
        let reason = told.as_ref().map(|told| told.reason);
        if let Some(told) = told {
            self.put_ack(told, &mut payload);
            self.streams.note_limits(With::Ack);
        }
        if pings {
            payload.put(&Frame::Ping);
        }
        let probes = self.spaces[DATA].probes > 0;
        let wants = self.wants_data();
        if wants && (probes || self.may_send(self.waiting(), now)) || self.owes_path() {
            // In front of stream data, which fills what is left. A datagram has its own length.
            if self.datagrams_out.is_empty() && !self.is_whole_repair(room) {
                self.put_piggyback(room, &mut payload, now);
            }
            self.put_others(room, &mut payload, now);
        } else if !wants {
            self.note_idle(now);
        }
        if probes {
            self.spaces[DATA].probes -= 1;
            // Whatever else it has: a packet with nothing but connection IDs and answers to challenges only
            // asks about a path [RFC 9000 §9.1]. A server that has taken another address back, for nobody
            // answered there, would not follow a client to where a NAT has put it.
            if !payload.is_data {
                payload.put(&Frame::Ping);
            }
            self.ask_at_once(room, &mut payload);
            // A server that follows a client may answer with three times what came from there
            // [RFC 9000 §9.3], and some answer with full datagrams or not at all.
            payload.full |= self.side == Side::Client && self.asks_in_vain();
        }
        if payload.is_data && !probes && self.is_too_few(payload.len() as u64) {
            self.ask_at_once(room, &mut payload);
        }
        if payload.eliciting && !acknowledges {
            // Before the rest: it was made sure above that there is room for what follows only.
            self.put_piggyback(room, &mut payload, now);
        }
        self.put_stamp(&mut payload, now);
        payload.end(&mut self.spare_tail);
        if acknowledges && !payload.is_data {
            self.counters.acks_sent += 1;
            let is = |what| u64::from(reason == Some(what));
            self.counters.loss_acks_sent += is(AckReason::Loss);
            self.counters.ce_acks_sent += is(AckReason::CongestionExperienced);
        }
        if payload.frames.is_empty() {
            self.spare = payload.frames;
            return None;
        }
        Some(payload)
    }

    /// In whichever space: before the handshake is confirmed no timer but that of the handshake runs.
    pub(super) fn asks_in_vain(&self) -> bool {
        self.timeouts_in_a_row.max(self.recovery.probes_in_vain()) >= IN_VAIN
    }

    /// The window ends behind `len` bytes of frames, and holds fewer packets than a TACK is for: nothing would come
    /// that lets one leave before its timer, although more waits here.
    fn is_too_few(&self, len: u64) -> bool {
        let Some(params) = self.config.tack.filter(|_| self.is_tack()) else { return false };
        let size = u64::from(self.mtu.size());
        let next = size.min(self.streams.waiting(size));
        let in_flight = self.recovery.in_flight() + len + self.overhead(SpaceId::Data) as u64;
        self.streams.has_data()
            && self.congestion.window() < in_flight + next
            && in_flight + size / 2 < u64::from(params.segments_per_ack) * size
    }

    fn ask_at_once(&self, room: usize, payload: &mut Payload) {
        if self.may_ask_at_once() && payload.len() < room + self.spare_of_number() {
            payload.put(&Frame::ImmediateAck);
        }
    }

    /// The peer takes IMMEDIATE_ACK. The answer to a probe has waited long enough: it need not wait for a
    /// timer, nor for a second packet.
    fn may_ask_at_once(&self) -> bool {
        let takes = self.peer.as_ref().is_some_and(|peer| peer.min_ack_delay.is_some());
        takes && self.one_rtt.is_some()
    }

    /// Bytes of the longest packet number that the next one does not take.
    fn spare_of_number(&self) -> usize {
        let (number, largest_acked) = self.recovery.next_number(SpaceId::Data);
        4 - PacketNumber::if_late(number + 1, largest_acked).len()
    }

    /// When it leaves, if it is to be acknowledged.
    pub(super) fn put_stamp(&self, payload: &mut Payload, now: Instant) {
        if payload.eliciting && self.is_tack() {
            payload.put_last(&Frame::Stamp(now.as_micros() as u32));
        }
    }

    /// What leaves next was a packet that was lost, and fills one with `room`. With anything in front of it, it
    /// would take two: that goes with the packets behind.
    fn is_whole_repair(&self, room: usize) -> bool {
        self.streams.repairs_more_than(room.saturating_sub(PIGGYBACK) as u64)
    }

    /// An acknowledgment that is owed rides along.
    fn put_piggyback(&mut self, room: usize, payload: &mut Payload, now: Instant) {
        let exponent = self.ours.ack_delay_exponent;
        // MAX_DATA comes again, as data does. HANDSHAKE_DONE does not.
        let is_last = self.handshake_done_owed && !self.streams.has_data();
        if room.saturating_sub(payload.len()) >= PIGGYBACK
            && let Some(told) = self.spaces[DATA].acks.piggyback(PIGGYBACK, exponent, !is_last, now)
        {
            self.put_ack(told, payload);
        }
    }

    fn put_ack(&mut self, told: super::super::acks::Told, payload: &mut Payload) {
        payload.reason = Some(told.reason);
        payload.put(&Frame::Ack(told.ack));
        if let Some(report) = told.report {
            payload.put_last(&Frame::Report(report));
        }
        if told.below > 0 {
            payload.carried.push(Carried::Acks(told.below));
        }
    }

    /// Something waits that asks for an acknowledgment.
    pub(in crate::conn) fn wants_data(&self) -> bool {
        self.streams.has_control(self.recovery.in_flight() > 0)
            || self.streams.has_data()
            || self.spaces[DATA].sending.has_data(u64::MAX)
            || !self.datagrams_out.is_empty()
            || self.handshake_done_owed
            || self.new_token_owed
            || self.local_cids.owes()
            || self.remote_cids.owes()
    }

    /// Bytes that may leave, as far as they matter: of the pacer's burst.
    pub(super) fn waiting(&self) -> u64 {
        let others = !self.datagrams_out.is_empty() || self.spaces[DATA].sending.has_data(u64::MAX);
        if others { u64::MAX } else { self.streams.waiting(MOST_BURST) }
    }

    fn put_others(&mut self, room: usize, payload: &mut Payload, now: Instant) {
        if room >= payload.len() + FREQUENCY_FRAME {
            self.put_frequency(room, payload, now);
        }
        self.put_connection_frames(room, payload, now);
        if payload.full {
            return;
        }
        self.put_crypto(room, payload);
        if self.streams.has_data() {
            self.streams.note_limits(With::Data);
        }
        let rides_along = self.spaces[DATA].acks.owes() && !self.is_whole_repair(room);
        let reserved = if rides_along { PIGGYBACK } else { 0 };
        let whole = room;
        let room = room.saturating_sub(reserved);
        let before = payload.frames.len();
        let left = room.saturating_sub(payload.len());
        self.streams.put_control(left, &mut payload.frames, &mut payload.carried);
        if !(core::mem::take(&mut self.streams_waited) && self.streams.has_data()) {
            self.put_datagrams(room, whole, payload);
        }
        let left = room.saturating_sub(payload.len());
        let before_data = payload.frames.len();
        let again = self.streams.put_data(left, &mut payload.frames, &mut payload.carried);
        self.counters.data_packets_resent += u64::from(again);
        let has_stream_data = payload.frames.len() > before_data;
        self.streams_waited = payload.is_data && !has_stream_data && self.streams.has_data();
        payload.is_data |= has_stream_data;
        self.has_sent_data |= payload.is_data;
        self.counters.data_packets_sent += u64::from(payload.is_data);
        payload.eliciting |= payload.frames.len() > before;
    }

    /// How often the peer is to acknowledge, if that is to be told.
    fn put_frequency(&mut self, room: usize, payload: &mut Payload, now: Instant) {
        // Of the same moment there is nothing new.
        if !self.has_sent_data || self.frequency_at == Some(now) {
            return;
        }
        let since = self.frequency_at.map_or(Duration::MAX, |at| now - at);
        let can_wait = since < self.recovery.srtt().unwrap_or_default();
        if can_wait && self.is_whole_repair(room) {
            return;
        }
        self.frequency_at = Some(now);
        let estimate = self.congestion.snapshot();
        if let Some(frequency) = self.recovery.poll_frequency(&estimate, now) {
            payload.put_last(&Frame::Frequency(frequency));
        }
        let (rtt_min, srtt) = (self.recovery.rtt_min(), self.recovery.srtt());
        if let (Some(asks), Some(rtt_min), Some(srtt)) = (&mut self.ack_frequency, rtt_min, srtt) {
            asks.set_mss(self.mtu.size().into());
            let guess = || Rate::from_bytes_over(estimate.cwnd, srtt);
            let bw = estimate.bandwidth.or_else(guess).unwrap_or(Rate::ZERO);
            let regime = if estimate.startup { Regime::Startup } else { Regime::Steady };
            if let Some(frame) = asks.poll(&Path { bw, rtt_min, regime }, srtt, now) {
                self.recovery.max_ack_delay = asks.max_ack_delay();
                payload.carried.push(Carried::AckFrequency(frame.sequence));
                payload.put(&Frame::AckFrequency(frame));
            }
        }
    }

    fn put_connection_frames(&mut self, room: usize, payload: &mut Payload, now: Instant) {
        if self.path.owes() && room >= payload.len() + 5 * PATH_FRAME {
            while let Some(data) = self.path.take_response() {
                payload.put(&Frame::PathResponse(data));
            }
            if let Some(data) = self.path.take_challenge(false, now) {
                payload.put(&Frame::PathChallenge(data));
            }
            // It shows that the path takes as much [RFC 9000 §8.2.1].
            payload.full = self.path.credit() >= super::FULL as u64;
        }
        if core::mem::take(&mut self.handshake_done_owed) {
            payload.carried.push(Carried::HandshakeDone);
            payload.put(&Frame::HandshakeDone);
        }
        if self.new_token_owed && room >= payload.len() + TOKEN_FRAME {
            self.new_token_owed = false;
            let token = token::for_later(&self.secret, self.version, self.path.remote().ip(), now);
            payload.carried.push(Carried::NewToken);
            payload.put(&Frame::NewToken(&token));
        }
        while room >= payload.len() + CID_FRAME {
            let Some((sequence, cid, token)) = self.local_cids.take_untold() else { break };
            payload.carried.push(Carried::NewCid(sequence));
            let id = cid.as_bytes();
            payload.put(&Frame::NewConnectionId { sequence, retire_prior_to: 0, id, token });
        }
        while room >= payload.len() + PATH_FRAME {
            let Some(sequence) = self.remote_cids.take_retiring() else { break };
            payload.carried.push(Carried::RetireCid(sequence));
            payload.put(&Frame::RetireConnectionId(sequence));
        }
    }

    /// Session tickets.
    fn put_crypto(&mut self, room: usize, payload: &mut Payload) {
        while room > payload.len() + CRYPTO_HEADER {
            let left = (room - payload.len() - CRYPTO_HEADER) as u64;
            let sending = &mut self.spaces[DATA].sending;
            let Some(part) = sending.next(left, u64::MAX) else { return };
            let (a, b) = sending.slices(&part.range);
            let data = &[a, b].concat()[..];
            Frame::Crypto { offset: part.range.start, data }.emit(&mut payload.frames);
            payload.eliciting = true;
            payload.carried.push(Carried::Crypto(part.range));
        }
    }

    /// One that leaves no room for an acknowledgment has the `whole` packet.
    fn put_datagrams(&mut self, room: usize, whole: usize, payload: &mut Payload) {
        while let Some(next) = self.datagrams_out.front() {
            // It was taken when packets were longer, or by what was remembered of the peer.
            if !self.takes_datagram(next.len()) {
                self.datagrams_out.pop();
                continue;
            }
            let has_all = payload.len() == 0 && DATAGRAM_HEADER + next.len() <= whole;
            if !has_all && payload.len() + DATAGRAM_HEADER + next.len() > room {
                return;
            }
            payload.put(&Frame::Datagram(next));
            self.datagrams_out.pop();
            payload.is_data = true;
        }
    }

    /// There is nothing to send although it were allowed.
    fn note_idle(&mut self, now: Instant) {
        if !self.has_sent_data {
            return;
        }
        let in_flight = self.recovery.in_flight();
        let limit = if self.streams.is_blocked() { Limit::Rwnd } else { Limit::App };
        self.congestion.note_limit(Some(limit), in_flight, now);
        if in_flight < self.congestion.window() {
            self.recovery.on_app_limited();
        }
    }
}

/// No burst of the pacer is longer, bytes.
const MOST_BURST: u64 = 64 << 10;
/// What an acknowledgment that rides along may take.
const PIGGYBACK: usize = 32 * 8 + 48;
const _: () = assert!(FREQUENCY_FRAME < PIGGYBACK);
