//! How large a datagram may be.

use std::io;
use std::net::{IpAddr, SocketAddr};

/// Bytes of IPv4 and UDP headers in front of a payload.
pub const UDP_IPV4_OVERHEAD: usize = 20 + 8;
/// Bytes of IPv6 and UDP headers in front of a payload.
pub const UDP_IPV6_OVERHEAD: usize = 40 + 8;

/// The largest UDP payload in an IP packet of `mtu` bytes towards `peer`.
pub fn max_payload_bytes(mtu: usize, peer: IpAddr) -> usize {
    let overhead = match peer.to_canonical() {
        IpAddr::V4(_) => UDP_IPV4_OVERHEAD,
        IpAddr::V6(_) => UDP_IPV6_OVERHEAD,
    };
    // The length field of a UDP header has 16 bits and counts the header.
    mtu.min(usize::from(u16::MAX)).saturating_sub(overhead)
}

/// The kernel's idea of the path MTU towards `peer` in bytes: the interface's, or less where it
/// learned of a narrower place. Sends nothing.
///
/// # Errors
/// No route, or a platform that does not tell (`Unsupported`).
pub fn path_mtu(peer: SocketAddr) -> io::Result<usize> {
    #[cfg(target_os = "linux")]
    {
        use rustix::net::sockopt;
        use socket2::{Domain, Protocol, Socket, Type};

        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let socket = Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
        socket.connect(&peer.into())?;
        let mtu = match peer {
            SocketAddr::V4(_) => sockopt::ip_mtu(&socket)?,
            SocketAddr::V6(_) => sockopt::ipv6_mtu(&socket)?,
        };
        Ok(usize::try_from(mtu).unwrap_or(usize::MAX))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = peer;
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_leaves_room_for_the_headers_and_fits_the_length_field() {
        let v4 = "127.0.0.1".parse().unwrap();
        let v6 = "::1".parse().unwrap();
        assert_eq!(max_payload_bytes(1500, v4), 1472);
        assert_eq!(max_payload_bytes(1500, v6), 1452);
        assert_eq!(max_payload_bytes(65_536, v4), 65_507);
        assert_eq!(max_payload_bytes(10, v6), 0);
        assert_eq!(max_payload_bytes(1500, "::ffff:10.0.0.1".parse().unwrap()), 1472);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn loopback_has_an_mtu() {
        let mtu = path_mtu("127.0.0.1:9".parse().unwrap()).unwrap();
        assert!(mtu >= 1280, "{mtu}");
    }
}
