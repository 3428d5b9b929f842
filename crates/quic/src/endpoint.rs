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

mod burst;
mod driven;
mod handshakes;
mod kept;
mod strangers;
pub(crate) mod token;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::ServerName;
use rustls::server::ServerSessionMemoryCache;
use tack_transport::{Ecn, Leeway, Transmit};
use tack_units::{Instant, Timers, earliest};

use crate::config::Config;
use crate::conn::{CidChange, Connect, Connection, Early, Event};
use crate::secret::{CID_LEN, Secret};
use crate::seen::{DropReason, Log, Seen, What};
use crate::wire::{ConnectionId, Head, ParseError, Protected};
use burst::{burst, transmit};
use handshakes::Handshakes;
use kept::{Server, Tokens};

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
    /// Handshakes under way beyond which a client has to show first that it is where it says, by a Retry
    /// unless it has a token of an earlier connection. 0: always.
    pub max_handshakes: usize,
    /// Handshakes under way in all, each of which takes some 100 kB. Of more, a newcomer takes the place of the
    /// oldest of whichever address has the most, and of nobody if that is its own.
    pub max_at_once: usize,
    /// Time for a handshake. Silence alone does not bound one: a client may say something now and then, and
    /// never the end of it.
    pub handshake_time: Duration,
    /// Established connections that wait to be accepted, of which each may hold what its windows allow; of
    /// more nothing is heard.
    pub max_waiting: usize,
}

impl Listen {
    /// A thousand connections, 256 that nobody accepted, 256 handshakes at a time of 10 s each, and a
    /// hundred before clients have to show where they are.
    pub fn new(tls: Arc<ServerConfig>, config: Config) -> Listen {
        Listen {
            tls,
            config,
            max_connections: 1_000,
            max_handshakes: 100,
            max_at_once: 256,
            handshake_time: Duration::from_secs(10),
            max_waiting: 256,
        }
    }
}

/// Sessions that clients may go on with, where early data is taken; of more the oldest are forgotten.
const MAX_SESSIONS: usize = 4_096;
/// What TLS says where early data is taken: how much is QUIC's business [RFC 9001 §4.6.1].
const ANY_EARLY_DATA: u32 = u32::MAX;

impl Listen {
    /// Where early data is taken, TLS has to give tickets for it, each of them good for once, that no other
    /// endpoint takes: what a client remembers of the limits is what they are here [RFC 9000 §7.4.1].
    fn with_its_own_sessions(mut self) -> Listen {
        if self.config.max_early_data > 0 {
            let tls = Arc::make_mut(&mut self.tls);
            tls.max_early_data_size = ANY_EARLY_DATA;
            tls.session_storage = ServerSessionMemoryCache::new(MAX_SESSIONS);
            tls.send_tls13_tickets = tls.send_tls13_tickets.max(1);
        }
        self
    }
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
    /// Handshakes given up for those of others.
    pub displaced: u64,
    /// Handshakes given up because they took too long.
    pub overdue: u64,
}

/// A connection and what the endpoint remembers of it.
#[derive(Debug)]
struct Entry {
    conn: Connection,
    /// It stands in `ready`.
    is_ready: bool,
    /// It stays when it is over, until it is released.
    is_held: bool,
    /// It was taken out of all tables but this.
    is_retired: bool,
    /// It waits to be accepted, or was.
    is_offered: bool,
}

/// Any number of connections on one socket.
///
/// One change, then [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event) until
/// `None`, then wait for [`deadline`](Self::deadline).
#[derive(Debug)]
pub struct Endpoint {
    secret: Secret,
    listen: Option<Listen>,
    connections: BTreeMap<u64, Entry>,
    by_cid: BTreeMap<ConnectionId, u64>,
    handshakes: Handshakes,
    incoming: usize,
    /// Connections that we began, and whom they are to.
    began: BTreeMap<u64, Server>,
    tokens: Tokens,
    next: u64,
    timers: Timers<u64>,
    /// Changed since they were last polled.
    ready: VecDeque<u64>,
    /// Others' connections that are established and were not accepted.
    arrived: VecDeque<u64>,
    /// What goes alone: answers to strangers, and what did not fit its burst.
    alone: VecDeque<(SocketAddr, Ecn, Vec<u8>)>,
    events: VecDeque<(ConnId, Event)>,
    counters: EndpointCounters,
    leeway: Leeway,
    seen: Log,
}

impl Endpoint {
    /// `secret`: 32 random bytes, drawn anew at each start, for connection IDs come from it. `listen`: how
    /// others may connect; `None`: nobody may.
    pub fn new(secret: [u8; 32], listen: Option<Listen>) -> Endpoint {
        Endpoint {
            secret: Secret::new(secret),
            listen: listen.map(Listen::with_its_own_sessions),
            connections: BTreeMap::new(),
            by_cid: BTreeMap::new(),
            handshakes: Handshakes::default(),
            incoming: 0,
            began: BTreeMap::new(),
            tokens: Tokens::default(),
            next: 0,
            timers: Timers::default(),
            ready: VecDeque::new(),
            arrived: VecDeque::new(),
            alone: VecDeque::new(),
            events: VecDeque::new(),
            counters: EndpointCounters::default(),
            leeway: Leeway::default(),
            seen: Log::default(),
        }
    }

    /// The same, with stateless resets by this secret `key`, so that it can reset what it began before a
    /// restart [RFC 9000 §10.3.2]. `context` is where it listens, for tokens must be those of one endpoint
    /// at a time: whoever gets another to reset an ID would have the token [RFC 9000 §21.11].
    #[must_use]
    pub fn with_reset_key(mut self, key: &[u8; 32], context: &[u8]) -> Endpoint {
        self.secret = self.secret.with_reset_key(key, context);
        self
    }

    /// Looks on: from now on, what happens on connections waits for [`Self::poll_seen`].
    pub fn look(&mut self) {
        self.seen.open();
        self.connections.values_mut().for_each(|entry| entry.conn.look());
    }

    /// What happened, for whoever [looks on](Self::look): in the order in which it did, but for what is of
    /// different connections. To be called until `None` after every change; what waits is bounded.
    pub fn poll_seen(&mut self) -> Option<Seen> {
        self.seen.poll()
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
        let server = (remote, name.to_str().into_owned(), config.version);
        let token = self.tokens.take(&server);
        let connect = Connect { remote, name, tls, config, seed: [0; 32] };
        let conn = Connection::connect_as(connect, token, self.secret.clone(), number, now)?;
        self.began.insert(number, server);
        self.insert(conn);
        Ok(ConnId(number))
    }

    fn insert(&mut self, mut conn: Connection) {
        if self.seen.is_open() {
            conn.look();
        }
        let number = self.next;
        self.next += 1;
        let (is_ready, is_held, is_retired, is_offered) = (false, false, false, false);
        let entry = Entry { conn, is_ready, is_held, is_retired, is_offered };
        self.connections.insert(number, entry);
        self.touch(number);
    }

    /// A connection, to be used; what follows from that is to be polled.
    pub fn connection(&mut self, id: ConnId) -> Option<&mut Connection> {
        self.touch(id.0);
        self.connections.get_mut(&id.0).map(|entry| &mut entry.conn)
    }

    /// A connection, to be looked at.
    pub fn peek(&self, id: ConnId) -> Option<&Connection> {
        self.connections.get(&id.0).map(|entry| &entry.conn)
    }

    /// The next connection that another began and whose handshake is done, or whose
    /// [early data](Config::max_early_data) is taken; it is [held](Self::hold). One that ended before it was asked for is not told of.
    pub fn accept(&mut self) -> Option<ConnId> {
        while let Some(number) = self.arrived.pop_front() {
            if self.connections.contains_key(&number) {
                self.hold(ConnId(number));
                return Some(ConnId(number));
            }
        }
        None
    }

    /// Keeps a connection when it is over, so that what has arrived can be read, until
    /// [`Self::release`].
    pub fn hold(&mut self, id: ConnId) {
        if let Some(entry) = self.connections.get_mut(&id.0) {
            entry.is_held = true;
        }
    }

    /// Closes a connection with code 0, unless it has ended or [is left](Connection::leave), and forgets it
    /// as soon as it is over.
    pub fn release(&mut self, id: ConnId, now: Instant) {
        let Some(entry) = self.connections.get_mut(&id.0) else { return };
        entry.is_held = false;
        if !entry.conn.is_leaving() {
            entry.conn.close(0, &[], now);
        }
        if entry.is_retired {
            self.connections.remove(&id.0);
        } else {
            self.touch(id.0);
        }
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
        if let Some(entry) = self.connections.get_mut(&number)
            && !core::mem::replace(&mut entry.is_ready, true)
        {
            self.ready.push_back(number);
        }
    }

    /// Takes a datagram that arrived from `from`; `ecn` is the field of its IP header. Its bytes are
    /// worthless afterwards.
    pub fn handle(&mut self, from: SocketAddr, ecn: u8, datagram: &mut [u8], now: Instant) {
        let head = match Protected::parse(datagram, CID_LEN) {
            Ok(first) => Head::of(&first),
            Err(error) => {
                let (nobody, len) = (ConnectionId::EMPTY, datagram.len());
                self.note_dropped(from, nobody, len, DropReason::Header, now);
                if matches!(error, ParseError::Version(_)) {
                    self.negotiate(from, datagram);
                }
                return;
            }
        };
        let mut known = self.by_cid.get(&head.dcid).copied();
        if known.is_none() && head.scid.is_none() {
            self.note_dropped(from, head.dcid, datagram.len(), DropReason::Unknown, now);
            return self.on_unknown(from, head.dcid, datagram, now);
        }
        known = known.or_else(|| self.handshakes.find((from, head.dcid)));
        let admitted = if known.is_none() { self.admit_first(from, datagram, now) } else { None };
        let Some(number) = known.or(admitted) else {
            return self.note_dropped(from, head.dcid, datagram.len(), DropReason::Unknown, now);
        };
        let is_new = admitted.is_some();
        let Some(entry) = self.connections.get_mut(&number) else { return };
        entry.conn.handle_read(from, ecn, datagram, Some(head), now);
        self.seen.take_from(entry.conn.seen());
        self.leeway.on_arrival(entry.conn.leeway());
        if !is_new {
            if !core::mem::replace(&mut entry.is_ready, true) {
                self.ready.push_back(number);
            }
        } else if entry.conn.has_heard() {
            self.counters.accepted += 1;
            self.touch(number);
        } else {
            self.turn_away(number);
        }
    }

    fn note_dropped(
        &mut self,
        peer: SocketAddr,
        original_dcid: ConnectionId,
        bytes: usize,
        why: DropReason,
        now: Instant,
    ) {
        let what = || What::Dropped(bytes, why);
        self.seen.note(|| Seen { at: now, peer, original_dcid, what: what() });
    }

    /// Appends the next burst to `out`, at most `most` bytes of it but one datagram at least; `None`:
    /// nothing may or need leave now.
    pub fn poll_transmit(
        &mut self,
        out: &mut Vec<u8>,
        most: usize,
        now: Instant,
    ) -> Option<Transmit> {
        if let Some((to, ecn, packet)) = self.alone.pop_front() {
            out.extend_from_slice(&packet);
            return Some(transmit(to, ecn, packet.len(), packet.len()));
        }
        while let Some(number) = self.ready.pop_front() {
            let Some(entry) = self.connections.get_mut(&number) else { continue };
            entry.is_ready = false;
            let burst = burst(&mut entry.conn, &mut self.alone, out, most, now);
            self.seen.take_from(entry.conn.seen());
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
        let Some(entry) = self.connections.get_mut(&number) else { return };
        let conn = &mut entry.conn;
        for change in conn.take_cid_changes() {
            match change {
                CidChange::Issued(cid) => drop(self.by_cid.insert(cid, number)),
                CidChange::Retired(cid) => drop(self.by_cid.remove(&cid)),
            }
        }
        while let Some(event) = conn.poll_event() {
            self.events.push_back((ConnId(number), event));
        }
        let given = conn.take_new_token();
        self.timers.set(number, conn.deadline());
        let (is_over, is_established) = (conn.is_over(), conn.is_established());
        let is_incoming = conn.side() == rustls::Side::Server;
        let may_be_accepted = is_incoming && (is_established || conn.early() == Early::Accepted);
        if may_be_accepted && !is_over && !core::mem::replace(&mut entry.is_offered, true) {
            self.arrived.push_back(number);
        }
        if is_established || is_over {
            self.handshakes.end(number);
        }
        if let Some((server, token)) = self.began.get(&number).cloned().zip(given) {
            self.tokens.keep(server, token);
        }
        if is_over {
            self.retire(number);
        }
    }

    /// A connection is over: nothing finds it any more but who holds it.
    fn retire(&mut self, number: u64) {
        let Some(entry) = self.connections.get_mut(&number) else { return };
        if !core::mem::replace(&mut entry.is_retired, true) {
            for cid in entry.conn.cids() {
                self.by_cid.remove(&cid);
            }
            self.timers.set(number, None);
            self.began.remove(&number);
            self.incoming -= usize::from(entry.conn.side() == rustls::Side::Server);
            self.arrived.retain(|arrived| *arrived != number);
        }
        if !entry.is_held {
            self.connections.remove(&number);
        }
    }

    /// What happened; to be called until `None` after every change.
    pub fn poll_event(&mut self) -> Option<(ConnId, Event)> {
        if self.events.is_empty() {
            // Those that could not be polled for packets yet have something to tell all the same.
            for index in 0..self.ready.len() {
                self.settle(self.ready[index]);
            }
        }
        self.events.pop_front()
    }

    /// No connection is left, and nothing waits to be sent.
    pub fn is_idle(&self) -> bool {
        self.alone.is_empty() && self.connections.values().all(|entry| entry.conn.is_over())
    }

    /// Whatever was written has arrived.
    pub fn is_delivered(&self) -> bool {
        self.alone.is_empty() && self.connections.values().all(|entry| entry.conn.is_delivered())
    }

    /// When [`Self::handle_timeout`] is due; `None`: never.
    pub fn deadline(&self) -> Option<Instant> {
        earliest(self.timers.earliest(), self.handshakes.deadline())
    }

    /// Runs every timer that is due. Harmless when none is.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(number) = self.handshakes.take_overdue(now) {
            if let Some(entry) = self.connections.get_mut(&number) {
                entry.conn.give_up_handshake();
                self.counters.overdue += 1;
                self.touch(number);
            }
        }
        while let Some(number) = self.timers.pop_due(now) {
            if let Some(entry) = self.connections.get_mut(&number) {
                entry.conn.handle_timeout(now);
                self.seen.take_from(entry.conn.seen());
                self.touch(number);
            }
        }
    }
}
