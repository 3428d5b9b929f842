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
/// each, the last perhaps shorter. With [`Offload::gso_size`] they are one packet of so many
/// segments, and `segment_size` is all of it: cutting the buffer into pieces of `segment_size`
/// gives the packets to be written in either case.
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
    /// Segments among them.
    pub segments: usize,
    /// What to put in the IP header's ECN field (already there over IP).
    pub ecn: Ecn,
    /// What the device has yet to do with every packet of the burst. `None`: nothing, they are
    /// complete; always without
    /// [`IpConfig::segmentation_offload`](crate::IpConfig::segmentation_offload).
    pub offload: Option<Offload>,
}

/// Work left to the device: the fields of `struct virtio_net_hdr` by the same names.
///
/// Every packet's TCP checksum field holds the sum over the pseudo-header, not complemented; the
/// device adds the rest of the packet from `checksum_start` on and stores the complement
/// `checksum_offset` bytes behind it (`VIRTIO_NET_HDR_F_NEEDS_CSUM`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// The burst is one packet, to be cut into segments with so many bytes of text, the last
    /// perhaps fewer (`VIRTIO_NET_HDR_GSO_TCPV4` or `_TCPV6`). CWR goes on the first segment only,
    /// FIN and PSH on the last only. `None`: every packet is a segment.
    pub gso_size: Option<u16>,
    /// IP and TCP header, options included, of the first packet, in bytes.
    pub header_len: u16,
    /// Where the TCP header begins.
    pub checksum_start: u16,
    /// Where the checksum is, from `checksum_start` on.
    pub checksum_offset: u16,
    /// CWR is set (`VIRTIO_NET_HDR_GSO_ECN`).
    pub cwr: bool,
}

impl Transmit {
    /// What a burst comes to; `None` when nothing is in it.
    pub(super) fn of(
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
}

/// An IP packet as a device received it.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// The packet; it may be a super-packet of several segments of one connection, up to what an
    /// IP header can say.
    pub bytes: &'a [u8],
    /// The device vouches for the transport's checksum, or it was never on a wire and is only
    /// partly there (`VIRTIO_NET_HDR_F_DATA_VALID`, `_NEEDS_CSUM`): it is not looked at.
    pub checksum_valid: bool,
    /// Text per segment of a super-packet, bytes, as the device tells. `None`: one segment.
    pub gso_size: Option<u16>,
}

impl<'a> Incoming<'a> {
    /// A packet as it was on the wire.
    pub fn new(bytes: &'a [u8]) -> Incoming<'a> {
        Incoming { bytes, checksum_valid: false, gso_size: None }
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
