//! What of no connection arrives: first packets, other versions, leftovers.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::Side;
use tack_transport::Ecn;
use tack_units::Instant;

use super::Endpoint;
use super::token::{self, Shown};
use crate::conn::{Accept, Connection};
use crate::error::code;
use crate::protection::{SealKeys, initial_keys, seal};
use crate::secret::CID_LEN;
use crate::wire::{
    Close, ConnectionId, Frame, Header, LongKind, PacketNumber, Protected, Version, invariant_cids,
    put_retry, put_version_negotiation,
};

/// A client's first datagram is no shorter [RFC 9000 §14.1].
const LEAST_INITIAL: usize = 1_200;
/// Answers to strangers that wait to be sent.
const MAX_REPLIES: usize = 64;
/// Stateless resets are this long, or one byte shorter than what they answer [RFC 9000 §10.3.3].
const RESET_LEN: usize = 43;
const LEAST_RESET: usize = 21;
/// Bytes of the ID that a client makes up for a server [RFC 9000 §7.2].
const LEAST_MADE_UP: usize = 8;

impl Endpoint {
    /// Nobody can [accept](Self::accept) a connection any more: others are taken in no more, and those that wait
    /// to be accepted are refused [RFC 9000 §20.1].
    pub fn stop_listening(&mut self, now: Instant) {
        self.listen = None;
        self.arrived.clear();
        let unheld = self.connections.iter_mut().filter(|(_, entry)| !entry.is_held);
        let mut refused = Vec::new();
        for (number, entry) in unheld {
            if entry.conn.side() == Side::Server && !entry.conn.is_leaving() {
                entry.conn.refuse(now);
                refused.push(*number);
            }
        }
        refused.into_iter().for_each(|number| self.touch(number));
    }

    /// What may be a client's first datagram. `None`: it is none, or is not taken in, or not yet.
    pub(super) fn admit_first(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        now: Instant,
    ) -> Option<u64> {
        match Protected::parse(datagram, CID_LEN).ok()?.header {
            Header::Long { version, kind: LongKind::Initial, dcid, scid, token }
                if datagram.len() >= LEAST_INITIAL =>
            {
                self.admit(from, version, (dcid, scid), token, now)
            }
            _ => None,
        }
    }

    fn admit(
        &mut self,
        from: SocketAddr,
        version: Version,
        (dcid, scid): (ConnectionId, ConnectionId),
        token: &[u8],
        now: Instant,
    ) -> Option<u64> {
        let listen = self.listen.as_ref()?;
        if dcid.as_bytes().len() < LEAST_MADE_UP {
            return None;
        }
        let shown = token::read(&self.secret, token, version, from, &dcid, now);
        if shown == Some(Shown::Late) {
            self.refuse_token(from, version, (dcid, scid));
            return None;
        }
        if self.incoming >= listen.max_connections || self.arrived.len() >= listen.max_waiting {
            self.counters.refused += 1;
            return None;
        }
        if shown.is_none() && self.handshakes.len() >= listen.max_handshakes {
            self.retry(from, version, (dcid, scid), now);
            return None;
        }
        if self.handshakes.len() >= listen.max_at_once && !self.make_room(from) {
            self.counters.refused += 1;
            return None;
        }
        let listen = self.listen.as_ref()?;
        let until = now + listen.handshake_time;
        let (original_dcid, retry_scid) = match shown {
            Some(Shown::Retry(original)) => (original, Some(dcid)),
            Some(Shown::Before | Shown::Late) | None => (dcid, None),
        };
        let accept = Accept {
            remote: from,
            is_validated: shown.is_some(),
            version,
            original_dcid,
            retry_scid,
            remote_cid: scid,
            tls: Arc::clone(&listen.tls),
            config: listen.config.clone(),
            seed: [0; 32],
        };
        let number = self.next;
        let conn = Connection::accept_as(accept, self.secret.clone(), number, now).ok()?;
        self.handshakes.begin(number, (from, dcid), until);
        self.incoming += 1;
        self.insert(conn);
        Some(number)
    }

    /// Another handshake makes room for one from there. Whether there is room.
    fn make_room(&mut self, from: SocketAddr) -> bool {
        // What may have been accepted already is somebody's.
        let may_go = |n| self.connections.get(&n).is_some_and(|entry| !entry.is_offered);
        let Some(number) = self.handshakes.displaced_by(from, may_go) else { return false };
        self.handshakes.end(number);
        self.retire(number);
        self.counters.displaced += 1;
        true
    }

    /// What looked like a first packet was none: nothing of it is kept.
    pub(super) fn turn_away(&mut self, number: u64) {
        self.handshakes.end(number);
        if self.connections.remove(&number).is_some() {
            self.incoming -= 1;
        }
    }

    /// The client shall come again, with a token that shows where it is.
    fn retry(
        &mut self,
        from: SocketAddr,
        version: Version,
        (dcid, scid): (ConnectionId, ConnectionId),
        now: Instant,
    ) {
        // It is nobody's ID: the endpoint only has to know the token by it.
        let ours = self.secret.cid(u64::MAX, self.counters.retries);
        let token = token::of_retry(&self.secret, version, from, &dcid, &ours, now);
        let mut packet = Vec::new();
        put_retry(version, &scid, &ours, &dcid, &token, &mut packet);
        if self.reply(from, packet) {
            self.counters.retries += 1;
        }
    }

    /// The client came back too late, and would wait in vain for another Retry [RFC 9000 §8.1.3].
    fn refuse_token(
        &mut self,
        from: SocketAddr,
        version: Version,
        (dcid, scid): (ConnectionId, ConnectionId),
    ) {
        let mut frames = Vec::new();
        let reason = b"the token is too old";
        Frame::Close(Close { code: code::INVALID_TOKEN, frame_type: Some(0), reason })
            .emit(&mut frames);
        let keys = initial_keys(version, &dcid, Side::Server);
        let kind = LongKind::Initial;
        let header = Header::Long { version, kind, dcid: scid, scid: dcid, token: &[] };
        let (number, mut packet) = (PacketNumber::in_bytes(0, 1), Vec::new());
        seal(SealKeys::from(&keys.local), &header, 0, number, &frames, &mut packet);
        self.reply(from, packet);
    }

    pub(super) fn negotiate(&mut self, from: SocketAddr, datagram: &[u8]) {
        if self.listen.is_none() || datagram.len() < LEAST_INITIAL {
            return;
        }
        let Some((dcid, scid)) = invariant_cids(datagram) else { return };
        let mut packet = Vec::new();
        put_version_negotiation(scid, dcid, &mut packet);
        if self.reply(from, packet) {
            self.counters.negotiations += 1;
        }
    }

    /// A short header of no connection: perhaps the peer of one of ours has lost its state, perhaps we
    /// have. Only what we began is looked through: servers are reset by their clients' silence.
    pub(super) fn on_unknown(
        &mut self,
        from: SocketAddr,
        dcid: ConnectionId,
        datagram: &mut [u8],
        now: Instant,
    ) {
        let number = self.began.keys().copied().find(|number| {
            let conn = self.connections.get(number).map(|entry| &entry.conn);
            conn.is_some_and(|conn| conn.remote() == from && conn.is_reset_by(datagram))
        });
        match number.and_then(|number| self.connections.get_mut(&number).zip(Some(number))) {
            Some((entry, number)) => {
                entry.conn.handle(from, 0, datagram, now);
                self.touch(number);
            }
            None => self.reset(from, dcid, datagram.len()),
        }
    }

    /// What looks like a packet of a connection that is not known any more.
    fn reset(&mut self, from: SocketAddr, dcid: ConnectionId, len: usize) {
        let size = RESET_LEN.min(len - 1);
        if size < LEAST_RESET {
            return;
        }
        // What precedes the token looks like a short header and noise [RFC 9000 §10.3].
        let mut packet = Vec::with_capacity(size);
        let mut index = self.counters.resets << 3;
        while packet.len() < size - 16 {
            packet.extend_from_slice(&self.secret.word(u64::MAX, index).to_le_bytes());
            index += 1;
        }
        packet.truncate(size - 16);
        packet[0] = packet[0] & 0x3f | 0x40;
        packet.extend_from_slice(&self.secret.reset_token(&dcid));
        if self.reply(from, packet) {
            self.counters.resets += 1;
        }
    }

    fn reply(&mut self, to: SocketAddr, packet: Vec<u8>) -> bool {
        let has_room = self.alone.len() < MAX_REPLIES;
        if has_room {
            self.alone.push_back((to, Ecn::NotEct, packet));
        }
        has_room
    }
}
