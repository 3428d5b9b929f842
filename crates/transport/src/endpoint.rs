//! What moves packets for a transport: one trait, so that one driver serves TCP and QUIC alike.
//!
//! One change, then poll until there is nothing more: after [`Endpoint::handle`],
//! [`Endpoint::handle_timeout`] or whatever an application does, drain [`Endpoint::poll_transmit`], then
//! [`Endpoint::poll_event`], then sleep until [`Endpoint::deadline`] or the next datagram.

use core::time::Duration;
use std::net::{IpAddr, SocketAddr};

use tack_units::Instant;

/// Any number of connections on one socket or device, without either and without a clock.
pub trait Endpoint {
    /// Something that an application waits for.
    type Event;

    /// Takes what arrived from `from`: one datagram, or several of `segment_size` bytes, the last
    /// perhaps shorter, received as one. Its bytes are worthless afterwards.
    fn handle(
        &mut self,
        from: SocketAddr,
        datagrams: &mut [u8],
        segment_size: usize,
        ecn: Ecn,
        now: Instant,
    );

    /// Takes a packet that a device received. An endpoint that only speaks over UDP drops it.
    fn handle_packet(&mut self, packet: Incoming<'_>, now: Instant) {
        let _ = (packet, now);
    }

    /// Appends the next burst to `out`, at most `most` bytes of it but one datagram at least; `None`:
    /// nothing may or need leave now.
    fn poll_transmit(&mut self, out: &mut Vec<u8>, most: usize, now: Instant) -> Option<Transmit>;

    /// What happened; to be called until `None` after every change.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// How long what arrives next may lie unread without harm, as far as whatever arrived since this was
    /// last asked can tell: a driver may let a fast stream of packets gather for so long.
    fn leeway(&mut self) -> Duration {
        Duration::ZERO
    }

    /// When [`Self::handle_timeout`] is due; `None`: never.
    fn deadline(&self) -> Option<Instant>;

    /// Runs every timer that is due. Harmless when none is.
    fn handle_timeout(&mut self, now: Instant);

    /// No connection is left, and nothing waits to be sent: whoever ends the program now takes
    /// nothing from a peer.
    fn is_idle(&self) -> bool;

    /// Whatever was written has arrived: the peers are owed nothing by now, though connections may
    /// be open.
    fn is_delivered(&self) -> bool;

    /// The program is about to end, and nobody will answer any more: what was said last and may be lost
    /// is said once more.
    fn take_leave(&mut self, now: Instant) {
        let _ = now;
    }
}

/// The least of what connections allow, for [`Endpoint::leeway`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Leeway(Option<Duration>);

impl Leeway {
    /// Something arrived for a connection whose next packets may lie unread for `leeway`.
    pub fn on_arrival(&mut self, leeway: Duration) {
        self.0 = Some(self.0.map_or(leeway, |least| least.min(leeway)));
    }

    /// The least since it was last taken; none if nothing came.
    pub fn take(&mut self) -> Duration {
        self.0.take().unwrap_or_default()
    }
}

/// The ECN field [RFC 3168 §5].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Ecn {
    /// 00: the sender does not take part.
    #[default]
    NotEct,
    /// 01
    Ect1,
    /// 10
    Ect0,
    /// 11: congestion experienced.
    Ce,
}

impl Ecn {
    /// From the two low bits of the traffic class.
    pub const fn from_bits(bits: u8) -> Ecn {
        match bits & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }

    /// The two low bits of the traffic class.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotEct => 0,
            Ecn::Ect1 => 1,
            Ecn::Ect0 => 2,
            Ecn::Ce => 3,
        }
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
    /// complete; always so over UDP.
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
