//! What packets arrive and leave through: a UDP socket, or a TUN device.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use tack_device::{RecvBatch, UdpSocket, max_payload_bytes, path_mtu};

#[cfg(all(target_os = "linux", feature = "tun"))]
use crate::tun::TunLink;

/// What connections assume of a path unless they know better.
const ETHERNET_MTU: usize = 1_500;
/// The MSS option does not count the header [RFC 9293 §3.7.1].
const TCP_HEADER_BYTES: usize = 20;
/// Smaller segments than any IPv4 host may assume [RFC 9293 §3.7.1] are no use: IP fragments.
const MIN_MSS: u16 = 536;

/// The endpoint's way to the network.
#[derive(Debug)]
pub(crate) enum Link {
    /// Segments are the payload of datagrams.
    Udp(UdpSocket),
    /// Segments are the payload of IP packets.
    #[cfg(all(target_os = "linux", feature = "tun"))]
    Tun(TunLink),
}

impl Link {
    /// A socket that takes what is sent to any address of the machine.
    pub(crate) fn is_wildcard(&self) -> bool {
        match self {
            Link::Udp(socket) => socket.local_addr().ip().is_unspecified(),
            #[cfg(all(target_os = "linux", feature = "tun"))]
            Link::Tun(_) => false,
        }
    }

    /// The socket's address.
    #[cfg(feature = "quic")]
    pub(crate) fn local_addr(&self) -> SocketAddr {
        match self {
            Link::Udp(socket) => socket.local_addr(),
            #[cfg(all(target_os = "linux", feature = "tun"))]
            Link::Tun(_) => unreachable!("QUIC runs over UDP"),
        }
    }

    /// Marks what is sent with a codepoint; false: it cannot be done here.
    pub(crate) fn set_dscp(&self, dscp: u8) -> bool {
        match self {
            Link::Udp(socket) => socket.set_dscp(dscp),
            #[cfg(all(target_os = "linux", feature = "tun"))]
            Link::Tun(_) => false,
        }
    }

    /// What it marks datagrams with.
    #[cfg(feature = "quic")]
    pub(crate) fn dscp(&self) -> u8 {
        match self {
            Link::Udp(socket) => socket.dscp(),
            #[cfg(all(target_os = "linux", feature = "tun"))]
            Link::Tun(_) => 0,
        }
    }

    /// What connections assume of their path when nothing else is known, by the way out alone.
    pub(crate) fn narrow_mss(&self, peer: SocketAddr) -> Option<u16> {
        match self {
            Link::Udp(_) => narrow_mss(peer),
            // The host knows its device's MTU.
            #[cfg(all(target_os = "linux", feature = "tun"))]
            Link::Tun(_) => None,
        }
    }
}

/// The MSS towards `peer` if the way out takes less than Ethernet's 1500 bytes (a tunnel, say);
/// `None` leaves it to the default.
fn narrow_mss(peer: SocketAddr) -> Option<u16> {
    let mtu = path_mtu(peer).ok().filter(|mtu| *mtu < ETHERNET_MTU)?;
    let segment = max_payload_bytes(mtu, peer.ip()).checked_sub(TCP_HEADER_BYTES)?;
    u16::try_from(segment).ok().filter(|mss| *mss >= MIN_MSS)
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Link::Udp(socket) => socket.as_fd(),
            #[cfg(all(target_os = "linux", feature = "tun"))]
            Link::Tun(link) => link.0.as_fd(),
        }
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Link::Udp(socket) => socket.as_raw_fd(),
            #[cfg(all(target_os = "linux", feature = "tun"))]
            Link::Tun(link) => link.as_raw_fd(),
        }
    }
}

/// Where what arrives is put, reused for ever.
#[derive(Debug)]
pub(crate) enum Inbox {
    /// Of a socket.
    Datagrams(Box<RecvBatch>),
    /// Of a TUN device: one packet.
    #[cfg(all(target_os = "linux", feature = "tun"))]
    Packet(Box<[u8]>),
}

impl Inbox {
    pub(crate) fn of(link: &Link) -> Inbox {
        match link {
            Link::Udp(_) => Inbox::Datagrams(Box::default()),
            #[cfg(all(target_os = "linux", feature = "tun"))]
            Link::Tun(_) => {
                Inbox::Packet(vec![0; tack_device::MAX_PACKET_BYTES].into_boxed_slice())
            }
        }
    }
}
