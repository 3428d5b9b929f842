//! Many connections behind one socket or device: demultiplexing, timers, fairness, listeners.
//!
//! One mutation, then poll until there is nothing more: after every [`Host::handle`],
//! [`Host::handle_timeout`] or operation on a connection, drain [`Host::poll_transmit`] and
//! [`Host::poll_event`], then sleep until [`Host::deadline`] or the next datagram.

mod cookies;
mod demux;
mod dispatch;
mod driven;
mod framing;
mod icmp;
mod ip;
mod listener;
mod path_mtu;
mod ports;
mod ratelimit;
mod secret;
mod settle;
mod slots;
mod stray;
mod timers;
mod timewait;
mod types;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use tack_transport::Leeway;
use tack_units::{Instant, earliest};

use crate::config::{ConnConfig, Encapsulation, HostConfig, Keepalive, ListenConfig};
use crate::conn::{
    BurstBuilder, BurstLimits, Connection, ConnectionError, Ports, Setup, UseError, default_mss,
};
use crate::stats::{Glance, Info};
use demux::{Demux, Key};
use framing::path_limits;
use listener::Listener;
use path_mtu::PathMtus;
use ports::LocalPorts;
use ratelimit::RateLimit;
use secret::{Secret, Use};
use slots::{Entry, Slots};
use stray::Strays;
use timers::TimerQueue;
use timewait::TimeWait;

pub use types::{
    ConnId, ConnectError, Ecn, Event, EventKind, HostCounters, IcmpCounters, Incoming, IpCounters,
    ListenError, Offload, Remote, Transmit,
};

/// A TCP host without clock or socket.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    secret: Secret,
    slots: Slots,
    demux: Demux,
    listeners: BTreeMap<u16, Listener>,
    time_wait: TimeWait,
    timers: TimerQueue,
    /// Slots that may have something to send; they take turns.
    transmit_queue: VecDeque<u32>,
    /// Slots with events.
    event_queue: VecDeque<u32>,
    /// What is sent for no connection.
    strays: Strays,
    resets: RateLimit,
    echo_replies: RateLimit,
    icmp_errors: RateLimit,
    path_mtus: PathMtus,
    ports: LocalPorts,
    scratch: Vec<u8>,
    counters: HostCounters,
    leeway: Leeway,
}

impl Host {
    /// `secret` keys ISNs, cookies, timestamps and hashing: random, and never shown to a peer.
    pub fn new(config: HostConfig, secret: [u8; 32], now: Instant) -> Host {
        let secret = Secret::new(secret);
        let (k0, k1) = secret.table_keys();
        Host {
            demux: Demux::new(k0, k1),
            slots: Slots::default(),
            listeners: BTreeMap::new(),
            time_wait: TimeWait::new(config.time_wait, config.max_time_wait),
            timers: TimerQueue::default(),
            transmit_queue: VecDeque::new(),
            event_queue: VecDeque::new(),
            strays: Strays::default(),
            resets: RateLimit::new(config.resets_per_s, now),
            echo_replies: RateLimit::new(config.ip.echo_replies_per_s, now),
            icmp_errors: RateLimit::new(config.ip.icmp_errors_per_s, now),
            path_mtus: PathMtus::new(config.ip.path_mtu_age, config.ip.max_path_mtus),
            ports: LocalPorts::new(&config.ephemeral_ports),
            scratch: Vec::new(),
            counters: HostCounters::default(),
            leeway: Leeway::default(),
            secret,
            config,
        }
    }

    /// Takes what arrived: one datagram, or several of `segment_size` bytes (the last perhaps
    /// shorter) received as one by generic receive offload. `from` is ignored over IP, where
    /// [`Host::handle_packet`] says the same with fewer words and knows of offloads.
    pub fn handle(
        &mut self,
        from: SocketAddr,
        datagrams: &[u8],
        segment_size: usize,
        ecn: Ecn,
        now: Instant,
    ) {
        let mut touched = None;
        for datagram in datagrams.chunks(segment_size.max(1)) {
            let index = self.dispatch(from, datagram, ecn, now);
            if index != touched
                && let Some(previous) = touched
            {
                self.settle(previous, now);
            }
            touched = index;
        }
        if let Some(index) = touched {
            self.settle(index, now);
        }
    }

    /// Appends the next burst to `buffer`: segments of one connection, at most
    /// [`HostConfig::max_burst_segments`] and at most `max_bytes` (at least one segment).
    /// Connections take turns. Call until `None`.
    pub fn poll_transmit(
        &mut self,
        buffer: &mut Vec<u8>,
        max_bytes: usize,
        now: Instant,
    ) -> Option<Transmit> {
        if let Some(stray) = self.strays.pop() {
            return Some(self.transmit_stray(stray, buffer));
        }
        self.path_mtus.expire(now);
        while let Some(index) = self.transmit_queue.pop_front() {
            self.tell_path_mtu(index, now);
            let Some(entry) = self.slots.at_mut(index) else { continue };
            entry.in_transmit_queue = false;
            let (to, framing) = (entry.to, entry.framing);
            let bytes = max_bytes.min(usize::from(u16::MAX));
            let limits = BurstLimits { bytes, segments: self.config.max_burst_segments };
            let (scratch, codepoints) = (&mut self.scratch, self.config.codepoints);
            let mut burst = BurstBuilder::new(buffer, scratch, framing, codepoints, limits);
            entry.conn.transmit(&mut burst, now);
            if burst.is_empty() {
                self.settle_sent(index, now);
                continue;
            }
            let transmit = types::transmit_of(&mut burst, to, framing);
            // Perhaps there is more: at the end of the queue, so that others have their turn.
            self.settle(index, now);
            return transmit;
        }
        None
    }

    /// See [`tack_transport::Endpoint::leeway`].
    pub fn leeway(&mut self) -> Duration {
        self.leeway.take()
    }

    /// When [`Host::handle_timeout`] is next due, once [`Host::poll_transmit`] had nothing more.
    pub fn deadline(&self) -> Option<Instant> {
        earliest(self.timers.earliest(), self.time_wait.deadline())
    }

    /// Runs every timer that is due. Harmless when none is.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.time_wait.expire(now);
        self.take_ports_back();
        // All that are due first: a timer that stays due until the connection has sent must not
        // be met again in this call.
        let mut due = Vec::new();
        while let Some(index) = self.timers.pop_due(now) {
            due.push(index);
        }
        for index in due {
            if let Some(entry) = self.slots.at_mut(index) {
                entry.deadline = None;
                entry.conn.on_deadline(now);
                self.settle(index, now);
            }
        }
    }

    /// The next event. Events of one kind on one connection are merged while they wait.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.event_queue.is_empty() { None } else { self.front_event() }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// No local port or address is free for it, or there are too many connections.
    pub fn connect(
        &mut self,
        remote: impl Into<Remote>,
        config: ConnConfig,
        now: Instant,
    ) -> Result<ConnId, ConnectError> {
        if self.slots.len() >= self.config.max_connections {
            return Err(ConnectError::TooManyConnections);
        }
        let chosen = self.choose_key(remote.into(), config.local_port, now)?;
        let key = chosen.key;
        let iss = match config.initial_seq {
            Some(iss) => crate::seq::SeqNum(iss),
            None => chosen.iss(self.secret.isn(&key, now)),
        };
        let conn = Connection::active(self.setup(&key, config, iss), now);
        let index = self.add(key, conn, None);
        if let Some(entry) = self.slots.at_mut(index) {
            entry.borrowed = chosen.borrowed;
        }
        self.settle(index, now);
        Ok(self.slots.id(index))
    }

    /// Listens on a TCP port.
    ///
    /// # Errors
    /// Somebody listens there.
    pub fn listen(&mut self, port: u16, config: ListenConfig) -> Result<(), ListenError> {
        if self.listeners.contains_key(&port) {
            return Err(ListenError::PortInUse);
        }
        self.listeners.insert(port, Listener::new(config));
        Ok(())
    }

    /// The next connection established on a listening port, which may be sent more from here on.
    pub fn accept(&mut self, port: u16) -> Option<ConnId> {
        let id = self.listeners.get_mut(&port)?.pop()?;
        if let Some(entry) = self.slots.find(id).and_then(|index| self.slots.at_mut(index)) {
            entry.waiting = false;
            entry.conn.release();
            if !core::mem::replace(&mut entry.in_transmit_queue, true) {
                self.transmit_queue.push_back(id.index);
            }
        }
        Some(id)
    }

    /// Stops listening; connections not yet accepted are aborted.
    pub fn close_listener(&mut self, port: u16, now: Instant) {
        let Some(listener) = self.listeners.remove(&port) else { return };
        for id in listener.into_waiting() {
            self.abort(id, now);
            self.close(id, now);
        }
        self.abort_half_open(port, now);
    }

    /// Takes as much of `data` as the send buffer has room for (0: wait for
    /// [`EventKind::Writable`]).
    ///
    /// # Errors
    /// The id is unknown, our stream was ended, or the connection is over.
    pub fn write(&mut self, conn: ConnId, data: &[u8], now: Instant) -> Result<usize, UseError> {
        self.with(conn, now, |c| c.write(data))?
    }

    /// As [`Host::write`], from several slices in order.
    ///
    /// # Errors
    /// As [`Host::write`].
    pub fn write_vectored(
        &mut self,
        conn: ConnId,
        data: &[std::io::IoSlice<'_>],
        now: Instant,
    ) -> Result<usize, UseError> {
        self.with(conn, now, |c| {
            let mut written = 0;
            for slice in data {
                let n = c.write(slice)?;
                written += n;
                if n < slice.len() {
                    break;
                }
            }
            Ok(written)
        })?
    }

    /// Room in the send buffer, in bytes; 0 for an unknown or ended connection.
    pub fn write_space(&self, conn: ConnId) -> usize {
        self.conn(conn).map_or(0, Connection::write_space)
    }

    /// Bytes written that were never sent; 0 for an unknown connection. An application that writes
    /// only while this is low keeps its data fresh and the buffer small.
    pub fn unsent(&self, conn: ConnId) -> u64 {
        self.conn(conn).map_or(0, Connection::unsent)
    }

    /// Copies what arrived into `out`. `Ok(None)`: nothing yet; `Ok(Some(0))`: the peer ended its
    /// stream and all of it was read. What arrived before an error is read before the error shows.
    ///
    /// # Errors
    /// The id is unknown, or the connection ended with an error and all that came was read.
    pub fn read(
        &mut self,
        conn: ConnId,
        out: &mut [u8],
        now: Instant,
    ) -> Result<Option<usize>, UseError> {
        self.with(conn, now, |c| c.read(out, now))?
    }

    /// What arrived and was not read, where it lies: two slices of a ring, in order.
    pub fn readable(&self, conn: ConnId) -> (&[u8], &[u8]) {
        self.conn(conn).map_or((&[], &[]), Connection::readable)
    }

    /// Drops the first `bytes` of [`Host::readable`], at most all of it.
    pub fn consume(&mut self, conn: ConnId, bytes: usize, now: Instant) {
        let _unknown = self.with(conn, now, |c| c.consume(bytes, now));
    }

    /// The peer ended its stream and all of it was read.
    pub fn at_end(&self, conn: ConnId) -> bool {
        self.conn(conn).is_some_and(Connection::at_end)
    }

    /// Ends our stream after what was written (half-close), if it has not ended before.
    ///
    /// # Errors
    /// The id is unknown, or the connection ended with an error: the peer will not hear of the end.
    pub fn shutdown_write(&mut self, conn: ConnId, now: Instant) -> Result<(), UseError> {
        self.with(conn, now, Connection::end_stream)?
    }

    /// Ends the connection at once with RST. The id stays valid until [`Host::close`].
    pub fn abort(&mut self, conn: ConnId, now: Instant) {
        let _unknown = self.with(conn, now, |c| c.abort(now));
    }

    /// Gives the connection up: the id is invalid from here on and no events follow. What was
    /// written is still delivered and our stream ended, unless received data was not read, or the peer's
    /// window stays closed: then the peer is told by RST [RFC 9293 §3.6.1].
    pub fn close(&mut self, conn: ConnId, now: Instant) {
        let Some(index) = self.slots.find(conn) else { return };
        let Some(entry) = self.slots.at_mut(index) else { return };
        entry.conn.orphan(now);
        entry.detached = true;
        if core::mem::take(&mut entry.waiting)
            && let Some(listener) = entry.listener.and_then(|port| self.listeners.get_mut(&port))
        {
            listener.forget(conn);
        }
        self.settle(index, now);
    }

    /// Send short segments at once, or collect them [RFC 9293 §3.7.4].
    pub fn set_nodelay(&mut self, conn: ConnId, nodelay: bool, now: Instant) {
        let _unknown = self.with(conn, now, |c| c.set_nodelay(nodelay));
    }

    /// Probes a silent peer, or no longer.
    pub fn set_keepalive(&mut self, conn: ConnId, keepalive: Option<Keepalive>, now: Instant) {
        let _unknown = self.with(conn, now, |c| c.set_keepalive(keepalive, now));
    }

    /// See [`ConnConfig::user_timeout`].
    pub fn set_user_timeout(&mut self, conn: ConnId, timeout: Option<Duration>, now: Instant) {
        let _unknown = self.with(conn, now, |c| c.set_user_timeout(timeout, now));
    }

    /// Everything a connection tells about itself; `None` for an unknown id.
    pub fn info(&self, conn: ConnId) -> Option<Info> {
        self.conn(conn).map(Connection::info)
    }

    /// The few figures of [`Host::info`] that change with every packet.
    pub fn glance(&self, conn: ConnId) -> Option<Glance> {
        self.conn(conn).map(Connection::glance)
    }

    /// The other end; `None` for an unknown id.
    pub fn remote(&self, conn: ConnId) -> Option<Remote> {
        let entry = self.slots.at(self.slots.find(conn)?)?;
        Some(Remote { path: entry.to, port: entry.key.remote_port })
    }

    /// The local TCP port; `None` for an unknown id.
    pub fn local_port(&self, conn: ConnId) -> Option<u16> {
        self.conn(conn).map(|c| c.ports().local)
    }

    /// How the connection ended, once it has; `None` while it lives and for an unknown id.
    pub fn closed(&self, conn: ConnId) -> Option<Result<(), ConnectionError>> {
        self.conn(conn)?.outcome()
    }

    /// All connections not given up by [`Host::close`].
    pub fn connections(&self) -> impl Iterator<Item = ConnId> + '_ {
        self.slots.ids()
    }

    /// Counters of what belongs to no connection.
    pub fn counters(&self) -> HostCounters {
        self.counters
    }

    /// No connection is left but in TIME-WAIT, given up or not, and nothing waits to be sent:
    /// whoever ends the program now takes nothing from a peer.
    pub fn is_idle(&self) -> bool {
        self.slots.len() == 0 && self.strays.is_empty()
    }

    /// Whatever was written has arrived, and what was ended has ended there: the peers are owed
    /// nothing by now, though connections may be open.
    pub fn is_delivered(&self) -> bool {
        self.strays.is_empty() && self.slots.entries().all(|entry| entry.conn.owes_nothing())
    }

    /// 4-tuples in TIME-WAIT.
    pub fn time_wait_len(&self) -> usize {
        self.time_wait.len()
    }

    fn conn(&self, id: ConnId) -> Option<&Connection> {
        Some(&self.slots.at(self.slots.find(id)?)?.conn)
    }

    /// One mutation of a connection by its application.
    fn with<T>(
        &mut self,
        id: ConnId,
        now: Instant,
        f: impl FnOnce(&mut Connection) -> T,
    ) -> Result<T, UseError> {
        let index = self.slots.find(id).ok_or(UseError::NoSuchConnection)?;
        let entry = self.slots.at_mut(index).ok_or(UseError::NoSuchConnection)?;
        let result = f(&mut entry.conn);
        self.settle(index, now);
        Ok(result)
    }

    fn setup(&self, key: &Key, config: ConnConfig, iss: crate::seq::SeqNum) -> Setup {
        let udp = self.config.encapsulation == Encapsulation::Udp;
        Setup {
            ports: Ports { local: key.local_port, remote: key.remote_port },
            default_mss: default_mss(&self.config, key.path.is_ipv6()),
            path: path_limits(&self.config, key.path.is_ipv6()),
            compact: self.config.compact && udp,
            series: self.config.ip.segmentation_offload && !udp,
            bare: !udp,
            config,
            iss,
            clock_offset: self.secret.clock_offset(key),
            seed: self.secret.hash(Use::Seed, key, u64::from(iss.0)),
        }
    }

    fn add(&mut self, key: Key, conn: Connection, listener: Option<u16>) -> u32 {
        let dscp = conn.dscp();
        let index = self.slots.insert(Entry {
            to: key.address(&self.config.encapsulation),
            framing: self.framing_of(&key, dscp),
            conn,
            key,
            listener,
            half_open: listener.is_some(),
            waiting: false,
            // Nobody knows of it before it is established.
            detached: listener.is_some(),
            reachable: true,
            borrowed: false,
            path_generation: 0,
            deadline: None,
            in_transmit_queue: false,
            in_event_queue: false,
        });
        self.demux.insert(key, index);
        index
    }
}
