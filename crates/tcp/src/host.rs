//! Many connections behind one socket or device: demultiplexing, timers, fairness, listeners.
//!
//! One mutation, then poll until there is nothing more: after every [`Host::handle`],
//! [`Host::handle_timeout`] or operation on a connection, drain [`Host::poll_transmit`] and
//! [`Host::poll_event`], then sleep until [`Host::deadline`] or the next datagram.

use std::net::{IpAddr, SocketAddr};

use tack_units::Instant;

use crate::config::{ConnConfig, HostConfig, Keepalive, ListenConfig};
use crate::conn::{ConnectionError, UseError};
use crate::stats::Info;
pub use crate::wire::ip::Ecn;

/// Names a connection of one host; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    index: u32,
    generation: u32,
}

/// Whom to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Remote {
    /// Over UDP the address datagrams go to; over IP only its IP address counts.
    pub path: SocketAddr,
    /// TCP port.
    pub port: u16,
}

impl From<SocketAddr> for Remote {
    /// The TCP port is that of the address: over UDP, both are the same number.
    fn from(path: SocketAddr) -> Self {
        Remote { path, port: path.port() }
    }
}

/// A burst for one sendmsg: `bytes` of the buffer are `segments` datagrams of `segment_size`
/// each, the last perhaps shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to: the UDP path, or the IP address with the TCP port.
    pub to: SocketAddr,
    /// Over IP, the source address.
    pub from: Option<IpAddr>,
    /// Bytes of each datagram but the last.
    pub segment_size: usize,
    /// Bytes appended to the buffer.
    pub bytes: usize,
    /// Datagrams among them.
    pub segments: usize,
    /// What to put in the IP header's ECN field (already there over IP).
    pub ecn: Ecn,
}

/// Something an application waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which connection.
    pub conn: ConnId,
    /// What happened.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// `connect` succeeded.
    Connected,
    /// A connection waits for [`Host::accept`].
    Accepted {
        /// The listening port.
        listener: u16,
    },
    /// There is more to read, or the end of the stream.
    Readable,
    /// There is room in a send buffer that was full.
    Writable,
    /// The peer ended its stream; what it sent before can still be read.
    PeerClosed,
    /// Over: `Ok` when both streams ended and were acknowledged. What was received can still be
    /// read; the id stays valid until [`Host::close`].
    Closed(Result<(), ConnectionError>),
}

/// Why a connection attempt could not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Every ephemeral port to this peer is taken.
    #[error("no local port is free for this peer")]
    NoPort,
    /// The chosen local port is taken for this peer.
    #[error("the local port is in use for this peer")]
    PortInUse,
    /// [`HostConfig::max_connections`] are open.
    #[error("too many connections")]
    TooManyConnections,
    /// Over IP: no local address of the peer's family is configured.
    #[error("no local address of the peer's family")]
    NoLocalAddress,
}

/// Why a port cannot be listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody listens there.
    #[error("the port is already listened on")]
    PortInUse,
}

/// Counters of a host: what belongs to no connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostCounters {
    /// Datagrams that are no segment, or whose checksum is wrong.
    pub malformed: u64,
    /// Segments for no connection and no listener.
    pub stray: u64,
    /// RSTs sent in answer to them.
    pub resets_sent: u64,
    /// SYNs dropped because a queue was full.
    pub syns_dropped: u64,
    /// SYN cookies sent.
    pub cookies_sent: u64,
    /// Connections made from returned cookies.
    pub cookies_accepted: u64,
}

/// A TCP host without clock or socket.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
}

impl Host {
    /// `secret` keys ISNs, cookies, timestamps and hashing: random, and never shown to a peer.
    pub fn new(config: HostConfig, secret: [u8; 32], now: Instant) -> Host {
        let _ = (secret, now);
        Host { config }
    }

    /// Takes what arrived: one datagram, or several of `segment_size` bytes (the last perhaps
    /// shorter) received as one by generic receive offload. `from` is ignored over IP.
    pub fn handle(
        &mut self,
        from: SocketAddr,
        datagrams: &[u8],
        segment_size: usize,
        ecn: Ecn,
        now: Instant,
    ) {
        let _ = (from, datagrams, segment_size, ecn, now);
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
        let _ = (buffer, max_bytes, now, &self.config);
        None
    }

    /// When [`Host::handle_timeout`] is next due.
    pub fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Runs every timer that is due. Harmless when none is.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// The next event. Events of one kind on one connection are merged while they wait.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// Opens a connection.
    pub fn connect(
        &mut self,
        remote: impl Into<Remote>,
        config: ConnConfig,
        now: Instant,
    ) -> Result<ConnId, ConnectError> {
        let _ = (remote.into(), config, now);
        Err(ConnectError::NoPort)
    }

    /// Listens on a TCP port.
    pub fn listen(&mut self, port: u16, config: ListenConfig) -> Result<(), ListenError> {
        let _ = (port, config);
        Ok(())
    }

    /// The next connection established on a listening port.
    pub fn accept(&mut self, port: u16) -> Option<ConnId> {
        let _ = port;
        None
    }

    /// Stops listening; connections not yet accepted are aborted.
    pub fn close_listener(&mut self, port: u16, now: Instant) {
        let _ = (port, now);
    }

    /// Takes as much of `data` as the send buffer has room for (0: wait for
    /// [`EventKind::Writable`]).
    pub fn write(&mut self, conn: ConnId, data: &[u8], now: Instant) -> Result<usize, UseError> {
        let _ = (conn, data, now);
        Err(UseError::NoSuchConnection)
    }

    /// As [`Host::write`], from several slices in order.
    pub fn write_vectored(
        &mut self,
        conn: ConnId,
        data: &[std::io::IoSlice<'_>],
        now: Instant,
    ) -> Result<usize, UseError> {
        let _ = (conn, data, now);
        Err(UseError::NoSuchConnection)
    }

    /// Room in the send buffer, in bytes; 0 for an unknown or ended connection.
    pub fn write_space(&self, conn: ConnId) -> usize {
        let _ = conn;
        0
    }

    /// Copies what arrived into `out`. `Ok(None)`: nothing yet; `Ok(Some(0))`: the peer ended its
    /// stream and all of it was read. What arrived before an error is read before the error shows.
    pub fn read(
        &mut self,
        conn: ConnId,
        out: &mut [u8],
        now: Instant,
    ) -> Result<Option<usize>, UseError> {
        let _ = (conn, out, now);
        Err(UseError::NoSuchConnection)
    }

    /// What arrived and was not read, where it lies: two slices of a ring, in order.
    pub fn readable(&self, conn: ConnId) -> (&[u8], &[u8]) {
        let _ = conn;
        (&[], &[])
    }

    /// Drops the first `bytes` of [`Host::readable`], at most all of it.
    pub fn consume(&mut self, conn: ConnId, bytes: usize, now: Instant) {
        let _ = (conn, bytes, now);
    }

    /// The peer ended its stream and all of it was read.
    pub fn at_end(&self, conn: ConnId) -> bool {
        let _ = conn;
        false
    }

    /// Ends our stream after what was written (half-close).
    pub fn shutdown_write(&mut self, conn: ConnId, now: Instant) -> Result<(), UseError> {
        let _ = (conn, now);
        Ok(())
    }

    /// Ends the connection at once with RST. The id stays valid until [`Host::close`].
    pub fn abort(&mut self, conn: ConnId, now: Instant) {
        let _ = (conn, now);
    }

    /// Gives the connection up: the id is invalid from here on and no events follow. What was
    /// written is still delivered and our stream ended, unless received data was not read: then
    /// the peer is told by RST [RFC 9293 §3.6.1].
    pub fn close(&mut self, conn: ConnId, now: Instant) {
        let _ = (conn, now);
    }

    /// Send short segments at once, or collect them [RFC 9293 §3.7.4].
    pub fn set_nodelay(&mut self, conn: ConnId, nodelay: bool, now: Instant) {
        let _ = (conn, nodelay, now);
    }

    /// Probes a silent peer, or no longer.
    pub fn set_keepalive(&mut self, conn: ConnId, keepalive: Option<Keepalive>, now: Instant) {
        let _ = (conn, keepalive, now);
    }

    /// See [`ConnConfig::user_timeout`].
    pub fn set_user_timeout(
        &mut self,
        conn: ConnId,
        timeout: Option<core::time::Duration>,
        now: Instant,
    ) {
        let _ = (conn, timeout, now);
    }

    /// Everything a connection tells about itself; `None` for an unknown id.
    pub fn info(&self, conn: ConnId) -> Option<Info> {
        let _ = conn;
        None
    }

    /// The other end; `None` for an unknown id.
    pub fn remote(&self, conn: ConnId) -> Option<Remote> {
        let _ = conn;
        None
    }

    /// The local TCP port; `None` for an unknown id.
    pub fn local_port(&self, conn: ConnId) -> Option<u16> {
        let _ = conn;
        None
    }

    /// How the connection ended, once it has; `None` while it lives and for an unknown id.
    pub fn closed(&self, conn: ConnId) -> Option<Result<(), ConnectionError>> {
        let _ = conn;
        None
    }

    /// All connections not given up by [`Host::close`].
    pub fn connections(&self) -> impl Iterator<Item = ConnId> + '_ {
        core::iter::empty()
    }

    /// Counters of what belongs to no connection.
    pub fn counters(&self) -> HostCounters {
        HostCounters::default()
    }
}
