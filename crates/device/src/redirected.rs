//! Where connections went that the kernel redirected to us.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt};
use socket2::SockRef;

/// The destination that a TCP connection had before a rule of the kernel redirected it to its
/// socket here (netfilter's REDIRECT); without such a rule, its local address.
///
/// # Errors
/// The kernel does not track connections, or `socket` is not one of TCP.
pub fn original_destination(socket: &impl AsFd) -> io::Result<SocketAddr> {
    let local = SockRef::from(socket).local_addr()?.as_socket();
    // A socket of both families tells IPv4 apart by its address only.
    match local.ok_or(io::ErrorKind::InvalidInput)?.ip().to_canonical() {
        IpAddr::V4(_) => {
            let original = getsockopt(socket, sockopt::OriginalDst)?;
            let ip = Ipv4Addr::from(u32::from_be(original.sin_addr.s_addr));
            Ok(SocketAddr::new(ip.into(), u16::from_be(original.sin_port)))
        }
        IpAddr::V6(_) => {
            let original = getsockopt(socket, sockopt::Ip6tOriginalDst)?;
            let ip = Ipv6Addr::from(original.sin6_addr.s6_addr);
            Ok(SocketAddr::new(ip.into(), u16::from_be(original.sin6_port)))
        }
    }
}
