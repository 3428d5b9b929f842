//! From a datagram to the connection it is for, or to an answer without one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tack_units::Instant;

use crate::config::Encapsulation;
use crate::conn::{
    Carriage, Connection, ConnectionError, Offer, Reset, SynBits, default_mss, initial_window,
};
use crate::host::demux::Key;
use crate::host::listener::LEAST_WINDOW;
use crate::host::timewait::Verdict;
use crate::host::{ConnId, Host, Incoming, cookies};
use crate::seq::SeqNum;
use crate::wire::ip::Ecn;
use crate::wire::{Flags, Form, Header, Segment, Timestamps};

/// A segment and the addresses it came with.
pub(super) struct Located<'a> {
    pub(super) segment: &'a Segment<'a>,
    pub(super) path: SocketAddr,
    pub(super) local_ip: IpAddr,
    pub(super) carriage: Carriage,
}

/// What comes of the ACK of a cookie.
enum Returned {
    Accepted(u32),
    /// Not yet.
    NoRoom,
    NotOurs,
}

impl Located<'_> {
    fn key(&self) -> Key {
        Key {
            path: self.path,
            remote_port: self.segment.header.src_port,
            local_port: self.segment.header.dst_port,
            local_ip: self.local_ip,
        }
    }
}

impl Host {
    /// The connection that a segment over UDP belongs to, if there is one.
    pub fn connection_of(&mut self, from: SocketAddr, segment: &Segment<'_>) -> Option<ConnId> {
        let key = Key {
            path: from,
            remote_port: segment.header.src_port,
            local_port: segment.header.dst_port,
            local_ip: Ipv4Addr::UNSPECIFIED.into(),
        };
        self.demux.find(&key).map(|index| self.slots.id(index))
    }

    /// Hands one datagram on; returns the slot of the connection it changed.
    pub(super) fn dispatch(
        &mut self,
        from: SocketAddr,
        datagram: &[u8],
        ecn: Ecn,
        now: Instant,
    ) -> Option<u32> {
        if self.config.encapsulation != Encapsulation::Udp {
            return self.dispatch_packet(Incoming::new(datagram), now);
        }
        let Ok(segment) = Segment::parse_datagram(datagram, self.config.codepoints) else {
            self.counters.malformed += 1;
            return None;
        };
        let local_ip = Ipv4Addr::UNSPECIFIED.into();
        let carriage = Carriage { ecn, segments: 1, repeats: false };
        let located = Located { segment: &segment, path: from, local_ip, carriage };
        self.dispatch_segment(&located, now)
    }

    pub(super) fn dispatch_segment(&mut self, located: &Located<'_>, now: Instant) -> Option<u32> {
        let key = located.key();
        let segment = located.segment;
        if let Some(index) = self.demux.find(&key) {
            let Some(port) = self.cookie_beside(index, &key, segment, now) else {
                return self.deliver(index, segment, located.carriage, now);
            };
            return self.take_cookie_instead(index, port, located, now);
        }
        if self.time_wait.contains(&key) {
            match self.time_wait.on_segment(&key, segment, now) {
                Verdict::Ignore => return None,
                Verdict::Answer(header) => {
                    self.answer(key, *header);
                    return None;
                }
                Verdict::Reopen => {}
            }
        }
        if segment.form == Form::Compact {
            // It opens nothing, and without SEG.ACK a RST in answer would not be believed. What
            // its sender repeats after a timeout has a whole header and gets one.
            self.counters.stray += 1;
            return None;
        }
        if let Some(port) = self.listening(key.local_port) {
            return self.arrives_listen(port, &key, segment, located.carriage, now);
        }
        self.refuse(&key, segment, now);
        None
    }

    fn deliver(
        &mut self,
        index: u32,
        seg: &Segment<'_>,
        carriage: Carriage,
        now: Instant,
    ) -> Option<u32> {
        let entry = self.slots.at_mut(index)?;
        if entry.half_open
            && let Some(listener) = entry.listener.and_then(|port| self.listeners.get(&port))
        {
            entry.conn.set_may_establish(listener.has_room_for_connection());
        }
        entry.conn.on_segment(seg, carriage, now);
        self.leeway.on_arrival(entry.conn.leeway());
        Some(index)
    }

    /// Whether a segment for a handshake that holds state belongs to one that holds none, and then
    /// at which port.
    ///
    /// A client that waits for its cookie repeats its SYN. If there is room for a handshake by
    /// then, it gets another one, with a number of its own; but what the client answers is the
    /// cookie, which came first, and it takes itself for connected.
    fn cookie_beside(&self, index: u32, key: &Key, seg: &Segment<'_>, now: Instant) -> Option<u16> {
        let entry = self.slots.at(index).filter(|entry| entry.half_open)?;
        let Header { flags, seq, ack, .. } = seg.header;
        let may_answer = flags.has(Flags::ACK) && !flags.has(Flags::SYN) && !flags.has(Flags::RST);
        if !may_answer || seg.form == Form::Compact || entry.conn.acknowledges_syn(ack) {
            return None;
        }
        let port = entry.listener?;
        let cookies = self.listeners.get(&port)?.config().syn_cookies;
        let (isn, cookie) = (seq.add(u32::MAX), ack.add(u32::MAX));
        let ours = cookies && cookies::check(&self.secret, key, isn, cookie, now).is_some();
        ours.then_some(port)
    }

    /// Lets go of the handshake that holds state, for the one that its client knows of.
    fn take_cookie_instead(
        &mut self,
        index: u32,
        port: u16,
        located: &Located<'_>,
        now: Instant,
    ) -> Option<u32> {
        if !self.listeners.get(&port)?.has_room_for_connection() {
            self.counters.cookies_deferred += 1;
            return None;
        }
        self.slots.at_mut(index)?.conn.fail(ConnectionError::Aborted, now);
        self.settle(index, now);
        self.arrives_listen(port, &located.key(), located.segment, located.carriage, now)
    }

    /// Under which port somebody listens for connections to `port`.
    fn listening(&self, port: u16) -> Option<u16> {
        if self.listeners.contains_key(&port) {
            return Some(port);
        }
        if self.config.encapsulation != Encapsulation::Udp {
            return None;
        }
        self.listeners.iter().find(|(_, listener)| listener.config().any_port).map(|(p, _)| *p)
    }

    /// [RFC 9293 §3.10.7.2], with SYN cookies.
    fn arrives_listen(
        &mut self,
        port: u16,
        key: &Key,
        seg: &Segment<'_>,
        carriage: Carriage,
        now: Instant,
    ) -> Option<u32> {
        let flags = seg.header.flags;
        if flags.has(Flags::RST) {
            return None;
        }
        if flags.has(Flags::ACK) {
            return match self.accept_cookie(port, key, seg, now) {
                Returned::Accepted(index) => self.deliver(index, seg, carriage, now),
                // It takes itself for connected: a RST would end what may yet be.
                Returned::NoRoom => {
                    self.counters.cookies_deferred += 1;
                    None
                }
                Returned::NotOurs => {
                    self.refuse(key, seg, now);
                    None
                }
            };
        }
        // [RFC 1122 §4.2.3.10]: no connection to a group or to everybody.
        if !flags.has(Flags::SYN) || key.path.ip().is_multicast() || key.path.ip().is_unspecified()
        {
            return None;
        }
        let listener = self.listeners.get_mut(&port)?;
        let full = !listener.has_room_for_connection();
        if full || self.slots.len() >= self.config.max_connections {
            self.counters.syns_dropped += 1;
            return None;
        }
        if !listener.has_room_for_handshake() {
            if listener.config().syn_cookies {
                self.send_cookie(port, key, &seg.header, now);
            } else {
                self.counters.syns_dropped += 1;
            }
            return None;
        }
        let config = listener.config().conn.clone();
        let window = listener.window();
        listener.on_handshake_started();
        let iss = config.initial_seq.map_or_else(|| self.secret.isn(key, now), SeqNum);
        let mut conn = Connection::passive(self.setup(key, config, iss), seg, now);
        conn.confine(window);
        Some(self.add(*key, conn, Some(port)))
    }

    fn send_cookie(&mut self, port: u16, key: &Key, syn: &Header, now: Instant) {
        let Some(listener) = self.listeners.get(&port) else { return };
        let config = &listener.config().conn;
        let ipv6 = key.path.is_ipv6();
        let offer = Offer::new(config, default_mss(&self.config, ipv6));
        let answer = offer.answer(&syn.options, SynBits::default());
        let micros = answer.tack;
        let ticks = if micros { now.as_micros() } else { now.as_nanos() / 1_000_000 };
        let clock = self.secret.clock_offset(key).wrapping_add(ticks as u32);
        let mut options = answer.options(Timestamps { val: 0, ecr: 0 });
        let theirs = syn.options.window_scale;
        let asked = crate::wire::Options { window_scale: theirs, ..options.clone() };
        options.timestamps = syn
            .options
            .timestamps
            .filter(|_| options.timestamps.is_some())
            .map(|ts| Timestamps { val: cookies::stamp(clock, &asked), ecr: ts.val });
        if options.timestamps.is_none() {
            options.window_scale = None;
            options.sack_permitted = false;
            options.tack_permitted = false;
        }
        let mss = syn.options.mss.unwrap_or(if ipv6 { 1_220 } else { 536 }).min(offer.mss());
        let header = Header {
            src_port: key.local_port,
            dst_port: key.remote_port,
            seq: cookies::make(&self.secret, key, syn.seq, mss, now),
            ack: syn.seq.add(1),
            flags: Flags::SYN | Flags::ACK,
            window: initial_window(config).min(LEAST_WINDOW) as u16,
            urgent: 0,
            options,
        };
        self.counters.cookies_sent += 1;
        self.answer(*key, header);
    }

    /// A connection out of the ACK of a cookie.
    fn accept_cookie(&mut self, port: u16, key: &Key, seg: &Segment<'_>, now: Instant) -> Returned {
        let header = &seg.header;
        let (client_isn, cookie) = (header.seq.add(u32::MAX), header.ack.add(u32::MAX));
        let Some(listener) = self.listeners.get_mut(&port) else { return Returned::NotOurs };
        let made = cookies::check(&self.secret, key, client_isn, cookie, now);
        let Some(mss) = made.filter(|_| listener.config().syn_cookies) else {
            return Returned::NotOurs;
        };
        if !listener.has_room_for_connection() || self.slots.len() >= self.config.max_connections {
            return Returned::NoRoom;
        }
        let syn = Segment {
            header: Header {
                seq: client_isn,
                flags: Flags::SYN,
                window: header.window,
                options: cookies::options(mss, header.options.timestamps),
                ..header.clone()
            },
            payload: &[],
            form: Form::Full,
        };
        let config = listener.config().conn.clone();
        listener.on_handshake_started();
        self.counters.cookies_accepted += 1;
        let mut conn = Connection::from_cookie(self.setup(key, config, cookie), &syn, now);
        conn.confine(LEAST_WINDOW);
        Returned::Accepted(self.add(*key, conn, Some(port)))
    }

    /// RST to a segment of no connection.
    fn refuse(&mut self, key: &Key, seg: &Segment<'_>, now: Instant) {
        self.counters.stray += 1;
        // A body takes no sequence space, but only segments without ACK are numbered by length.
        if let Some(reset) = Reset::answering(&seg.header, seg.payload.len())
            && self.resets.admit(now)
        {
            self.counters.resets_sent += 1;
            self.answer(*key, reset.header(key.local_port, key.remote_port));
        }
    }

    fn answer(&mut self, key: Key, header: Header) {
        self.strays.push_segment(key, header);
    }

    /// The program is about to end: the ACK of a FIN that came in the last second leaves once more. Were it
    /// lost, the peer would repeat its FIN, and nobody would be there to answer.
    pub fn take_leave(&mut self, now: Instant) {
        for (key, ack) in self.time_wait.repeat_last_words(now) {
            self.answer(key, ack);
        }
    }
}
