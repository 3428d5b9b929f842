//! What a host and its shell exchange: names, bursts, events, errors, counters.

use std::net::SocketAddr;

use crate::conn::ConnectionError;
use crate::conn::{BurstBuilder, Framing};
pub use tack_transport::{Ecn, Incoming, Offload, Transmit};

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

/// What a burst comes to; `None` when nothing is in it.
pub(super) fn transmit_of(
    burst: &mut BurstBuilder<'_>,
    to: SocketAddr,
    framing: Framing,
) -> Option<Transmit> {
    let from = match framing {
        Framing::Bare => None,
        Framing::Ip(ip) => Some(ip.src),
    };
    let offload = burst.finish();
    (!burst.is_empty()).then(|| Transmit {
        to,
        from,
        segment_size: burst.segment_size(),
        bytes: burst.bytes(),
        segments: burst.segments(),
        ecn: burst.ecn(),
        offload,
    })
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
    /// ACKs of cookies dropped because the accept queue was full; whoever sent one repeats itself.
    pub cookies_deferred: u64,
    /// Packets not taken, over IP.
    pub ip: IpCounters,
    /// ICMP, over IP.
    pub icmp: IcmpCounters,
}

/// What came of ICMP messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IcmpCounters {
    /// Too short, or the checksum is wrong.
    pub malformed: u64,
    /// Echo requests.
    pub echo_requests: u64,
    /// Answers to them.
    pub echo_replies: u64,
    /// Errors that a connection, or all to a destination, took in.
    pub heeded: u64,
    /// Errors about nothing that a connection of ours has in flight, or that contradict
    /// themselves.
    pub implausible: u64,
    /// Echo requests and errors beyond what the configuration allows per second, or the memory.
    pub suppressed: u64,
    /// Everything else: source quench, redirects, neighbours, groups, answers.
    pub ignored: u64,
}

/// Packets that a host on IP did not take, by cause; those that are broken are also
/// [`HostCounters::malformed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IpCounters {
    /// Unreadable: version, lengths, extension headers.
    pub bad_header: u64,
    /// IPv4's header checksum is wrong.
    pub bad_header_checksum: u64,
    /// TCP's checksum is wrong.
    pub bad_tcp_checksum: u64,
    /// Too short for its TCP header.
    pub bad_segment: u64,
    /// Fragments: nothing is reassembled, since what TCP sends is never fragmented and fragments
    /// are an attacker's way to make a receiver hold memory.
    pub fragments: u64,
    /// From a source that cannot be: a group, everybody, nobody, ourselves, another family's.
    pub martians: u64,
    /// For none of our addresses; groups and broadcasts among them.
    pub not_ours: u64,
    /// From further away than [`IpConfig::min_hop_limit`](crate::IpConfig::min_hop_limit) allows.
    pub too_far: u64,
    /// Neither TCP nor ICMP of the family.
    pub other_protocols: u64,
}
