//! Datagrams that arrive: packets, one after another, opened and read.

use std::net::SocketAddr;

use rustls::Side;
use tack_units::Instant;

use super::acks::{LEAST_ROOM, Packet};
use super::frames::Origin;
use super::mtu::BASE;
use super::space::SpaceId;
use super::{Connection, State};
use crate::error::{ConnectionError, Violation};
use crate::protection::{self, OpenError, initial_keys, is_valid_retry};
use crate::secret::CID_LEN;
use crate::seen::{DropReason, PacketKind, SeenPacket, What};
use crate::wire::{ConnectionId, Form, Head, Header, MAX_CID_LEN, Protected, Version};

/// Packets that may wait for their keys.
const MAX_HELD: usize = 8;
const RESET_TOKEN_LEN: usize = 16;
/// A shorter datagram is no stateless reset [RFC 9000 §10.3].
const LEAST_RESET: usize = 21;

/// How a datagram came: from where, with which ECN field, and when.
#[derive(Clone, Copy, Debug)]
struct Came {
    from: SocketAddr,
    ecn: u8,
    at: Instant,
}

/// A packet without protection.
struct Open<'a> {
    kind: PacketKind,
    number: u64,
    dcid: ConnectionId,
    /// Of a long header.
    scid: Option<ConnectionId>,
    frames: &'a [u8],
}

impl Connection {
    /// Takes a datagram that arrived from `from`; `ecn` is the field of its IP header. Its bytes are
    /// worthless afterwards.
    pub fn handle(&mut self, from: SocketAddr, ecn: u8, datagram: &mut [u8], now: Instant) {
        let head = Protected::parse(datagram, CID_LEN).ok().map(|first| Head::of(&first));
        self.handle_read(from, ecn, datagram, head, now);
    }

    /// As [`Self::handle`], of a datagram whose first packet begins with `head`; `None`: it is none.
    pub(crate) fn handle_read(
        &mut self,
        from: SocketAddr,
        ecn: u8,
        datagram: &mut [u8],
        head: Option<Head>,
        now: Instant,
    ) {
        if matches!(self.state, State::Over) {
            return;
        }
        if from == self.path.remote() {
            self.path.on_received(datagram.len());
        } else if self.side == Side::Client && !is_same_place(from, self.path.remote()) {
            // A server does not move by itself [RFC 9000 §9].
            return self.drop_packet(datagram.len(), DropReason::Unexpected, now);
        }
        let is_reset = self.is_reset_by(datagram);
        let before = self.counters.packets_received;
        self.handle_packets(Came { from, ecn, at: now }, datagram, head, now);
        if is_reset && self.counters.packets_received == before {
            return self.enter_over(ConnectionError::Reset);
        }
        self.replay_held(from, now);
    }

    /// The datagram says that the peer has lost its state, unless it is a packet.
    pub(crate) fn is_reset_by(&self, datagram: &[u8]) -> bool {
        let tail = datagram.len().checked_sub(RESET_TOKEN_LEN);
        datagram.len() >= LEAST_RESET
            && tail.is_some_and(|tail| self.remote_cids.is_reset(&datagram[tail..]))
    }

    /// What came before its keys may be read now.
    fn replay_held(&mut self, from: SocketAddr, now: Instant) {
        if self.held.is_empty() || !self.has_keys_for_held() {
            return;
        }
        for (_, mut packet, ecn, at) in core::mem::take(&mut self.held) {
            let head = Protected::parse(&packet, CID_LEN).ok().map(|first| Head::of(&first));
            self.handle_packets(Came { from, ecn, at }, &mut packet, head, now);
        }
    }

    fn has_keys_for_held(&self) -> bool {
        self.held.iter().any(|(kind, ..)| self.has_keys(*kind))
    }

    fn has_keys(&self, kind: PacketKind) -> bool {
        match kind {
            PacketKind::Initial => self.initial_keys.is_some(),
            PacketKind::ZeroRtt => self.side == Side::Server && self.early.has_keys(),
            PacketKind::Handshake => self.handshake_keys.is_some(),
            PacketKind::OneRtt => self.can_read_data(),
        }
    }

    /// There are none, but there may be.
    fn expects_keys(&self, kind: PacketKind) -> bool {
        match kind {
            PacketKind::Initial => false,
            PacketKind::ZeroRtt => self.config.max_early_data > 0 && self.one_rtt.is_none(),
            PacketKind::Handshake => !self.confirmed && self.one_rtt.is_none(),
            PacketKind::OneRtt => true,
        }
    }

    /// A server reads 1-RTT packets once its handshake is done [RFC 9001 §5.7].
    fn can_read_data(&self) -> bool {
        self.one_rtt.is_some() && !matches!(self.state, State::Handshaking)
    }

    fn handle_packets(
        &mut self,
        came: Came,
        datagram: &mut [u8],
        first: Option<Head>,
        now: Instant,
    ) {
        let (mut at, mut next) = (0, first);
        while at < datagram.len() && !matches!(self.state, State::Over) {
            let (Some(head), Some(first)) = (next, first) else {
                return self.drop_packet(datagram.len() - at, DropReason::Header, now);
            };
            let is_small = datagram.len() < usize::from(BASE) && self.side == Side::Server;
            let packet = &mut datagram[at..at + head.end];
            // Packets to others, and small ones to a server that anybody can ask for large answers
            // [RFC 9000 §12.2, §14.1].
            if head.dcid != first.dcid || is_small && head.is_initial() {
                self.drop_packet(head.end, DropReason::Header, now);
            } else {
                self.handle_packet(came, packet, &head, now);
            }
            at += head.end;
            if at < datagram.len() {
                let behind = Protected::parse(&datagram[at..], CID_LEN);
                next = behind.ok().map(|packet| Head::of(&packet));
            }
        }
    }

    fn handle_packet(&mut self, came: Came, packet: &mut [u8], head: &Head, now: Instant) {
        let len = packet.len();
        match self.open_packet(came, packet, head, now) {
            Ok(Ok(open)) => {
                if let Err(violation) = self.on_packet(came, len, &open, now) {
                    self.fail(violation, now);
                }
            }
            Ok(Err(why)) => self.drop_packet(len, why, now),
            Err(violation) => self.fail(violation, now),
        }
    }

    /// A client that was led to another version repeats what it said in the first.
    fn is_first(&self, version: Version, kind: PacketKind) -> bool {
        let first = self.first_keys.as_ref().map(|(first, _)| *first);
        kind == PacketKind::Initial && first == Some(version)
    }

    fn drop_packet(&mut self, bytes: usize, why: DropReason, now: Instant) {
        self.counters.packets_dropped += 1;
        self.note(now, || What::Dropped(bytes, why));
    }

    /// Takes protection off; or why it is to be dropped, or was dealt with.
    fn open_packet<'a>(
        &mut self,
        came: Came,
        packet: &'a mut [u8],
        head: &Head,
        now: Instant,
    ) -> Result<Result<Open<'a>, DropReason>, Violation> {
        let (kind, number_at) = match head.form {
            Form::Retry => {
                self.on_retry(packet, now);
                return Ok(Err(DropReason::Unexpected));
            }
            Form::VersionNegotiation => {
                self.on_version_negotiation(packet);
                return Ok(Err(DropReason::Unexpected));
            }
            Form::Numbered { version: Some(version), kind, .. }
                if version != self.version && !self.is_first(version, kind) =>
            {
                return Ok(Err(DropReason::Header));
            }
            // Tokens are for servers [RFC 9000 §17.2.2].
            Form::Numbered { has_token: true, .. } if self.side == Side::Client => {
                return Ok(Err(DropReason::Header));
            }
            Form::Numbered { kind, number_at, .. } => (kind, number_at),
        };
        let (space, dcid, scid) = (SpaceId::of(kind), head.dcid, head.scid);
        let expected = self.spaces[space as usize].acks.expected();
        if !self.has_keys(kind) {
            if self.expects_keys(kind) && self.held.len() < MAX_HELD {
                self.held.push((kind, packet.to_vec(), came.ecn, came.at));
            }
            return Ok(Err(DropReason::KeyUnavailable));
        }
        let keys = match kind {
            PacketKind::Initial => match &self.first_keys {
                Some((first, keys)) if head.form.version() == Some(*first) => Some(keys),
                _ => self.initial_keys.as_ref().map(|keys| &keys.remote),
            },
            PacketKind::Handshake => self.handshake_keys.as_ref().map(|keys| &keys.remote),
            PacketKind::ZeroRtt => self.early.open_keys(packet.len()),
            PacketKind::OneRtt => None,
        };
        let opened = match (keys, &mut self.one_rtt) {
            (Some(keys), _) => protection::open(keys, packet, number_at, expected),
            (None, Some(keys)) if kind == PacketKind::OneRtt => {
                keys.open(packet, number_at, expected)?
            }
            // More than is taken early.
            _ => return Ok(Err(DropReason::Unexpected)),
        };
        match opened {
            Ok(opened) => {
                let (number, frames) = (opened.number, opened.frames);
                Ok(Ok(Open { kind, number, dcid, scid, frames }))
            }
            Err(OpenError::Damaged) => Ok(Err(DropReason::Decryption)),
            Err(OpenError::Reserved) => Err(Violation::of_protocol("reserved bits are set")),
        }
    }

    /// The packet is the peer's.
    fn on_packet(
        &mut self,
        Came { from, ecn, at }: Came,
        len: usize,
        open: &Open<'_>,
        now: Instant,
    ) -> Result<(), Violation> {
        let kind = open.kind;
        let space = SpaceId::of(kind);
        if !self.spaces[space as usize].acks.is_new(open.number) {
            self.counters.duplicates += 1;
            self.note(now, || What::Dropped(len, DropReason::Duplicate));
            return Ok(());
        }
        if !self.is_peer(open.scid) {
            self.note(now, || What::Dropped(len, DropReason::Unexpected));
            return Ok(());
        }
        self.counters.packets_received += 1;
        self.note(now, || {
            let (number, frames) = (open.number, open.frames.to_vec());
            What::Received(SeenPacket { kind, number, bytes: len, frames, reason: None })
        });
        match kind {
            PacketKind::ZeroRtt => self.early.on_packet(len),
            // Whoever has these keys says nothing by the others any more [RFC 9001 §4.9.3].
            PacketKind::OneRtt => self.early.drop_keys(),
            PacketKind::Initial | PacketKind::Handshake => {}
        }
        self.idle_since = now;
        self.heard_since_asking = true;
        if self.is_ending() {
            return self.on_packet_at_end(open.frames, now);
        }
        if space == SpaceId::Handshake && self.side == Side::Server {
            // Only who got our Initial has the keys of this one [RFC 9000 §8.1].
            self.path.validate();
            self.discard_initial(now);
        }
        // Of what the server has answered something is missing.
        let is_asking = space == SpaceId::Initial && self.has_flight_in_flight();
        let is_newest = open.number >= self.spaces[space as usize].acks.expected();
        let origin = Origin { from, number: open.number, bytes: len, dcid: open.dcid };
        let read = self.read_frames(kind, open.frames, &origin, now)?;
        if self.is_ending() {
            return Ok(());
        }
        if !self.has_keys(kind) {
            // They have gone in between, and with them the space.
            return Ok(());
        }
        let packet = Packet {
            number: open.number,
            eliciting: read.eliciting,
            bytes: len as u64,
            stamp: read.stamp,
            immediate: read.immediate,
            is_early: kind == PacketKind::ZeroRtt,
            ecn,
            lay: now - at,
        };
        self.spaces[space as usize].acks.on_packet(&packet, now);
        self.apply_acks(space, &read, now)?;
        if is_asking && read.eliciting {
            self.say_flight_again(now);
        }
        if kind == PacketKind::OneRtt && is_newest && !read.only_probes {
            self.follow(from, len, now);
        }
        Ok(())
    }

    /// A long header's source is the peer, or becomes it with a server's first packet.
    fn is_peer(&mut self, scid: Option<ConnectionId>) -> bool {
        let Some(scid) = scid else { return true };
        let knows = self.side == Side::Server
            || self.spaces[..2].iter().any(|space| space.acks.expected() > 0)
            || self.confirmed;
        if !knows {
            self.remote_cids.replace_first(scid);
        }
        !knows || self.remote_cids.current() == scid || self.one_rtt.is_some()
    }

    /// The peer writes from elsewhere: a NAT has rebound, or it has moved [RFC 9000 §9.3].
    fn follow(&mut self, from: SocketAddr, len: usize, now: Instant) {
        if from == self.path.remote() || self.side == Side::Client {
            return;
        }
        let data = self.draw().to_le_bytes();
        let pto = self.recovery.pto_interval();
        self.path.move_to(from, data, pto, now);
        self.path.on_received(len);
        self.recovery.on_move(now);
        self.remote_cids.advance();
        self.counters.moves += 1;
    }

    /// A random number, another each time.
    pub(super) fn draw(&mut self) -> u64 {
        let (next, _) = self.recovery.next_number(SpaceId::Data);
        self.secret.word(self.number, (1 << 32) + next)
    }

    /// The server wants to see a token [RFC 9000 §17.2.5].
    fn on_retry(&mut self, packet: &[u8], now: Instant) {
        let untouched = self.side == Side::Client
            && self.retry_scid.is_none()
            && self.counters.packets_received == 0;
        if !untouched || !is_valid_retry(&self.original_dcid, packet) {
            return;
        }
        let Ok(Protected { header: Header::Retry { version, scid, token, .. }, .. }) =
            Protected::parse(packet, CID_LEN)
        else {
            return;
        };
        // An ID that is not another is nobody's [RFC 9000 §17.2.5.1].
        if version != self.version || token.is_empty() || scid == self.original_dcid {
            return;
        }
        self.token = token.to_vec();
        self.retry_scid = Some(scid);
        self.remote_cids.replace_first(scid);
        if !self.has_room_for_hello() {
            // No close would reach a server that wants to see the token first.
            return self.enter_over(ConnectionError::RetryToken(self.token.len()));
        }
        self.initial_keys = Some(initial_keys(version, &scid, self.side));
        // What was said early was not read either [RFC 9000 §17.2.3].
        self.recovery.repeat_all(SpaceId::Initial);
        self.recovery.repeat_all(SpaceId::Data);
        self.read_fates(now);
    }

    /// An Initial packet holds more than the server's token, whichever ID the server is called by.
    fn has_room_for_hello(&self) -> bool {
        let grown = MAX_CID_LEN - self.remote_cids.current().as_bytes().len();
        usize::from(BASE) > self.overhead(SpaceId::Initial) + grown + LEAST_ROOM
    }

    /// The server does not speak our version [RFC 9000 §6.2].
    fn on_version_negotiation(&mut self, packet: &[u8]) {
        let Ok(Protected { header: Header::VersionNegotiation { versions, scid, .. }, .. }) =
            Protected::parse(packet, CID_LEN)
        else {
            return;
        };
        let ours = self.version.number().to_be_bytes();
        let names_ours = versions.chunks_exact(4).any(|version| version == ours);
        let is_late = self.counters.packets_received > 0 || self.retry_scid.is_some();
        // It must come from whom our packet went to.
        if self.side == Side::Client && !is_late && !names_ours && scid == self.original_dcid {
            self.enter_over(ConnectionError::VersionMismatch);
        }
    }
}

/// The same host and port, whichever way a socket of both families writes them.
fn is_same_place(a: SocketAddr, b: SocketAddr) -> bool {
    (a.ip().to_canonical(), a.port()) == (b.ip().to_canonical(), b.port())
}
