//! What a host and its shell exchange: names, bursts, events, errors, counters.

use std::net::{IpAddr, SocketAddr};

use crate::conn::ConnectionError;
use crate::conn::{BurstBuilder, Framing};
pub use crate::wire::ip::Ecn;

/// Names a connection of one host; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    pub(super) index: u32,
    pub(super) generation: u32,
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

impl Transmit {
    /// What a burst comes to; `None` when nothing is in it.
    pub(super) fn of(
        burst: &BurstBuilder<'_>,
        to: SocketAddr,
        framing: Framing,
    ) -> Option<Transmit> {
        let from = match framing {
            Framing::Bare => None,
            Framing::Ip { src, .. } => Some(src),
        };
        (!burst.is_empty()).then(|| Transmit {
            to,
            from,
            segment_size: burst.segment_size(),
            bytes: burst.bytes(),
            segments: burst.segments(),
            ecn: burst.ecn(),
        })
    }
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
    /// A connection waits for [`Host::accept`](crate::Host::accept).
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
    /// read; the id stays valid until [`Host::close`](crate::Host::close).
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
    /// [`HostConfig::max_connections`](crate::HostConfig::max_connections) are open.
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
