//! Any number of connections on one socket: who gets a datagram, who may come in, whose turn it is.
//!
//! ```text
//! datagram ──► by connection ID ──► its connection
//!          ├── an Initial of nobody: accept, ask for a token (Retry), or refuse by silence
//!          ├── another version: Version Negotiation
//!          └── else: a stateless reset, if it could have been a packet of a connection
//! ```
//!
//! It is shaped as `tack_tcp`'s host is: one change, then poll until there is nothing more. What a stranger
//! can make it hold is bounded: connections, handshakes among them, answers that wait.

mod token;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use tack_units::Instant;

use crate::config::Config;
use crate::conn::{Accept, CidChange, Connect, Connection, Event};
use crate::secret::{CID_LEN, Secret};
use crate::wire::{
    ConnectionId, Header, LongKind, ParseError, Protected, Version, invariant_cids, put_retry,
    put_version_negotiation,
};

/// Names a connection of one endpoint; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(u64);

/// How an endpoint takes connections in.
#[derive(Clone, Debug)]
pub struct Listen {
    /// TLS 1.3.
    pub tls: Arc<ServerConfig>,
    /// How its connections are to behave.
    pub config: Config,
    /// Connections at a time, those that others began; of more nothing is heard.
    pub max_connections: usize,
    /// Handshakes under way beyond which a client has to show first that it is where it says (Retry). 0:
    /// always.
    pub max_handshakes: usize,
}

/// Datagrams for one send call: pieces of `segment_size` bytes, the last perhaps shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Whom they are for.
    pub to: SocketAddr,
    /// Bytes of each datagram but the last.
    pub segment_size: usize,
    /// Bytes appended.
    pub bytes: usize,
    /// ECN field of their IP headers.
    pub ecn: u8,
}

/// What strangers were told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Connections taken in.
    pub accepted: u64,
    /// Retry packets sent.
    pub retries: u64,
    /// Version Negotiation packets sent.
    pub negotiations: u64,
    /// Stateless resets sent.
    pub resets: u64,
    /// First packets dropped because there were too many connections.
    pub refused: u64,
}

/// Answers to strangers that wait to be sent.
const MAX_REPLIES: usize = 64;
/// A client's first datagram is no shorter [RFC 9000 §14.1].
const LEAST_INITIAL: usize = 1_200;
/// Stateless resets are this long, or one byte shorter than what they answer [RFC 9000 §10.3.3].
const RESET_LEN: usize = 43;
const LEAST_RESET: usize = 21;
/// How long a Retry's token is good for.
const TOKEN_LIFE: Duration = Duration::from_secs(15);

/// Any number of connections on one socket.
///
/// One change, then [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event) until
/// `None`, then wait for [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Endpoint {
    secret: Secret,
    listen: Option<Listen>,
    connections: BTreeMap<u64, Connection>,
    by_cid: BTreeMap<ConnectionId, u64>,
    /// What first packets were sent to, until the client knows another ID.
    by_first: BTreeMap<(SocketAddr, ConnectionId), u64>,
    handshaking: BTreeMap<u64, (SocketAddr, ConnectionId)>,
    incoming: usize,
    /// Connections that we began.
    began: BTreeSet<u64>,
    next: u64,
    deadlines: BTreeSet<(Instant, u64)>,
    deadline_of: BTreeMap<u64, Instant>,
    /// Changed since they were last polled.
    ready: VecDeque<u64>,
    replies: VecDeque<(SocketAddr, Vec<u8>)>,
    events: VecDeque<(ConnId, Event)>,
    counters: EndpointCounters,
}

impl Endpoint {
    /// `secret`: 32 random bytes, the same after a restart if stateless resets are to work then.
    /// `listen`: how others may connect; `None`: nobody may.
    pub fn new(secret: [u8; 32], listen: Option<Listen>) -> Endpoint {
        Endpoint {
            secret: Secret::new(secret),
            listen,
            connections: BTreeMap::new(),
            by_cid: BTreeMap::new(),
            by_first: BTreeMap::new(),
            handshaking: BTreeMap::new(),
            incoming: 0,
            began: BTreeSet::new(),
            next: 0,
            deadlines: BTreeSet::new(),
            deadline_of: BTreeMap::new(),
            ready: VecDeque::new(),
            replies: VecDeque::new(),
            events: VecDeque::new(),
            counters: EndpointCounters::default(),
        }
    }

    /// Begins a connection.
    ///
    /// # Errors
    /// TLS cannot do QUIC as it is configured.
    pub fn connect(
        &mut self,
        remote: SocketAddr,
        name: ServerName<'static>,
        tls: Arc<rustls::ClientConfig>,
        config: Config,
        now: Instant,
    ) -> Result<ConnId, rustls::Error> {
        let number = self.next;
        let connect = Connect { remote, name, tls, config, seed: [0; 32] };
        let conn = Connection::connect_as(connect, self.secret.clone(), number, now)?;
        self.began.insert(number);
        self.insert(conn);
        Ok(ConnId(number))
    }

    fn insert(&mut self, conn: Connection) {
        let number = self.next;
        self.next += 1;
        self.connections.insert(number, conn);
        self.touch(number);
    }

    /// A connection, to be used; what follows from that is to be polled.
    pub fn connection(&mut self, id: ConnId) -> Option<&mut Connection> {
        self.touch(id.0);
        self.connections.get_mut(&id.0)
    }

    /// The connections there are.
    pub fn connections(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.connections.keys().map(|number| ConnId(*number))
    }

    /// What strangers were told.
    pub fn counters(&self) -> EndpointCounters {
        self.counters
    }

    fn touch(&mut self, number: u64) {
        if self.connections.contains_key(&number) && !self.ready.contains(&number) {
            self.ready.push_back(number);
        }
    }

    /// Takes a datagram that arrived from `from`; `ecn` is the field of its IP header. Its bytes are
    /// worthless afterwards.
    pub fn handle(&mut self, from: SocketAddr, ecn: u8, datagram: &mut [u8], now: Instant) {
        let parsed = Protected::parse(datagram, CID_LEN).map(|protected| protected.header);
        let header = match parsed {
            Ok(header) => header,
            Err(ParseError::Version(_)) => return self.negotiate(from, datagram),
            Err(_) => return,
        };
        let (dcid, initial) = match header {
            Header::Long { version, kind: LongKind::Initial, dcid, scid, token } => {
                (dcid, Some((version, scid, token.to_vec())))
            }
            Header::Long { dcid, .. }
            | Header::Retry { dcid, .. }
            | Header::VersionNegotiation { dcid, .. } => (dcid, None),
            Header::Short { dcid, .. } => {
                if !self.by_cid.contains_key(&dcid) {
                    return self.on_unknown(from, dcid, datagram, now);
                }
                (dcid, None)
            }
        };
        let known = self.by_cid.get(&dcid).or_else(|| self.by_first.get(&(from, dcid))).copied();
        let number = match (known, initial) {
            (Some(number), _) => number,
            (None, Some((version, scid, token))) if datagram.len() >= LEAST_INITIAL => {
                let Some(number) = self.admit(from, version, (dcid, scid), &token, now) else {
                    return;
                };
                number
            }
            (None, _) => return,
        };
        if let Some(conn) = self.connections.get_mut(&number) {
            conn.handle(from, ecn, datagram, now);
            self.touch(number);
        }
    }

    /// A client's first packet. `None`: it is not taken in, or not yet.
    fn admit(
        &mut self,
        from: SocketAddr,
        version: Version,
        (dcid, scid): (ConnectionId, ConnectionId),
        token: &[u8],
        now: Instant,
    ) -> Option<u64> {
        let listen = self.listen.as_ref()?;
        if self.incoming >= listen.max_connections {
            self.counters.refused += 1;
            return None;
        }
        let shown = token::original(&self.secret, token, from, &dcid, TOKEN_LIFE, now);
        if shown.is_none() && self.handshaking.len() >= listen.max_handshakes {
            self.retry(from, version, (dcid, scid), now);
            return None;
        }
        let accept = Accept {
            remote: from,
            version,
            original_dcid: shown.unwrap_or(dcid),
            retry_scid: shown.map(|_| dcid),
            remote_cid: scid,
            tls: Arc::clone(&listen.tls),
            config: listen.config.clone(),
            seed: [0; 32],
        };
        let number = self.next;
        let conn = Connection::accept_as(accept, self.secret.clone(), number, now).ok()?;
        self.by_first.insert((from, dcid), number);
        self.handshaking.insert(number, (from, dcid));
        self.incoming += 1;
        self.counters.accepted += 1;
        self.insert(conn);
        Some(number)
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
        let token = token::new(&self.secret, from, &dcid, &ours, now);
        let mut packet = Vec::new();
        put_retry(version, &scid, &ours, &dcid, &token, &mut packet);
        if self.reply(from, packet) {
            self.counters.retries += 1;
        }
    }

    fn negotiate(&mut self, from: SocketAddr, datagram: &[u8]) {
        if self.listen.is_none() || datagram.len() < LEAST_INITIAL {
            return;
        }
        let Some((dcid, scid)) = invariant_cids(datagram) else { return };
        let mut packet = Vec::new();
        put_version_negotiation(&scid, &dcid, &mut packet);
        if self.reply(from, packet) {
            self.counters.negotiations += 1;
        }
    }

    /// A short header of no connection: perhaps the peer of one of ours has lost its state, perhaps we
    /// have. Only what we began is looked through: servers are reset by their clients' silence.
    fn on_unknown(
        &mut self,
        from: SocketAddr,
        dcid: ConnectionId,
        datagram: &mut [u8],
        now: Instant,
    ) {
        let number = self.began.iter().copied().find(|number| {
            let conn = self.connections.get(number);
            conn.is_some_and(|conn| conn.remote() == from && conn.is_reset_by(datagram))
        });
        match number.and_then(|number| self.connections.get_mut(&number).zip(Some(number))) {
            Some((conn, number)) => {
                conn.handle(from, 0, datagram, now);
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
        let has_room = self.replies.len() < MAX_REPLIES;
        if has_room {
            self.replies.push_back((to, packet));
        }
        has_room
    }

    /// Appends the next burst to `out`, at most `most` bytes of it but one datagram at least; `None`:
    /// nothing may or need leave now.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>, most: usize, now: Instant) -> Option<Burst> {
        if let Some((to, packet)) = self.replies.pop_front() {
            out.extend_from_slice(&packet);
            return Some(Burst { to, segment_size: packet.len(), bytes: packet.len(), ecn: 0 });
        }
        while let Some(number) = self.ready.pop_front() {
            let burst = self.connections.get_mut(&number).and_then(|c| burst(c, out, most, now));
            self.settle(number);
            if burst.is_some() {
                // Others have their turn before it has another.
                self.touch(number);
                return burst;
            }
        }
        None
    }

    /// After a connection was changed and polled: its IDs, its events, its timer.
    fn settle(&mut self, number: u64) {
        let Some(conn) = self.connections.get_mut(&number) else { return };
        for change in conn.take_cid_changes() {
            match change {
                CidChange::Issued(cid) => drop(self.by_cid.insert(cid, number)),
                CidChange::Retired(cid) => drop(self.by_cid.remove(&cid)),
            }
        }
        while let Some(event) = conn.poll_event() {
            self.events.push_back((ConnId(number), event));
        }
        let is_over = conn.is_over();
        let deadline = conn.deadline();
        if conn.is_established() || is_over {
            self.forget_handshake(number);
        }
        if let Some(old) = self.deadline_of.remove(&number) {
            self.deadlines.remove(&(old, number));
        }
        if let Some(at) = deadline {
            self.deadlines.insert((at, number));
            self.deadline_of.insert(number, at);
        }
        if is_over {
            self.forget(number);
        }
    }

    fn forget_handshake(&mut self, number: u64) {
        if let Some(first) = self.handshaking.remove(&number) {
            self.by_first.remove(&first);
        }
    }

    fn forget(&mut self, number: u64) {
        let Some(conn) = self.connections.remove(&number) else { return };
        for cid in conn.cids() {
            self.by_cid.remove(&cid);
        }
        self.began.remove(&number);
        self.incoming -= usize::from(conn.side() == rustls::Side::Server);
    }

    /// What happened; to be called until `None` after [`Self::poll_transmit`] said so.
    pub fn poll_event(&mut self) -> Option<(ConnId, Event)> {
        self.events.pop_front()
    }

    /// When [`Self::handle_timeout`] is due; `None`: never.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Runs every timer that is due. Harmless when none is.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((at, number)) = self.deadlines.first().copied().filter(|d| d.0 <= now) {
            self.deadlines.remove(&(at, number));
            self.deadline_of.remove(&number);
            if let Some(conn) = self.connections.get_mut(&number) {
                conn.handle_timeout(now);
                self.touch(number);
            }
        }
    }
}

/// Datagrams of one connection, of one length but the last.
fn burst(conn: &mut Connection, out: &mut Vec<u8>, most: usize, now: Instant) -> Option<Burst> {
    let start = out.len();
    let first = conn.poll_transmit(out, now)?;
    let segment_size = out.len() - start;
    let mut last_len = segment_size;
    // A datagram of another length, mark or address would need a burst of its own: what cannot be known
    // before it is made is its length, and no longer one comes but when the path's MTU is probed.
    while last_len == segment_size
        && out.len() - start + segment_size <= most
        && conn.is_established()
        && !conn.may_grow(now)
    {
        let before = out.len();
        let Some(next) = conn.poll_transmit(out, now) else { break };
        debug_assert!((next.to, next.ecn) == (first.to, first.ecn));
        last_len = out.len() - before;
    }
    let bytes = out.len() - start;
    Some(Burst { to: first.to, segment_size, bytes, ecn: first.ecn })
}
