//! Datagrams with a differentiated services codepoint [RFC 2474].
//!
//! quinn-udp says the whole octet with each message, for ECN, so a socket's own codepoint never
//! leaves. Where one is asked for, the messages are made here.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, SockaddrStorage, sendmsg};

use super::Transmit;

/// Sends `bytes`, one call's part of `transmit`, with `octet`: the codepoint and the ECN bits.
///
/// # Errors
/// As `sendmsg(2)`.
pub(super) fn send(
    socket: BorrowedFd<'_>,
    transmit: &Transmit<'_>,
    bytes: &[u8],
    octet: u8,
) -> io::Result<()> {
    let wide = i32::from(octet);
    let segment = u16::try_from(transmit.segment_bytes).unwrap_or(u16::MAX);
    let (v4, v6);
    let mut control = Vec::with_capacity(3);
    control.push(match is_ipv4(transmit.to.ip()) {
        true => ControlMessage::Ipv4Tos(&octet),
        false => ControlMessage::Ipv6TClass(&wide),
    });
    if bytes.len() > transmit.segment_bytes {
        control.push(ControlMessage::UdpGsoSegments(&segment));
    }
    match transmit.from {
        None => {}
        Some(IpAddr::V4(from)) => {
            let s_addr = u32::from_ne_bytes(from.octets());
            v4 = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            control.push(ControlMessage::Ipv4PacketInfo(&v4));
        }
        Some(IpAddr::V6(from)) => {
            let ipi6_addr = libc::in6_addr { s6_addr: from.octets() };
            v6 = libc::in6_pktinfo { ipi6_addr, ipi6_ifindex: 0 };
            control.push(ControlMessage::Ipv6PacketInfo(&v6));
        }
    }
    let to: SockaddrStorage = transmit.to.into();
    let parts = [IoSlice::new(bytes)];
    sendmsg(socket.as_raw_fd(), &parts, &control, MsgFlags::empty(), Some(&to))?;
    Ok(())
}

/// The device, or what is on the way to it, does not segment: some say so, others that it failed.
pub(super) fn is_without_offload(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL))
}

/// Also as an IPv6 socket writes it.
fn is_ipv4(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(_) => true,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().is_some(),
    }
}

#[cfg(test)]
mod tests {
    use nix::sys::socket::{ControlMessageOwned, recvmsg, setsockopt, sockopt};
    use nix::{cmsg_space, setsockopt_impl, sockopt_impl};

    use std::net::SocketAddr;

    use super::*;
    use crate::{Ecn, SendOutcome, SocketConfig, UdpSocket};

    /// The octets that datagrams from `from` arrive with at `at`.
    fn octets(from: &str, at: &str, dscp: u8, ecn: Option<Ecn>) -> Vec<i32> {
        #[expect(clippy::disallowed_methods, reason = "the other end is the kernel's as it is")]
        let receiver = std::net::UdpSocket::bind(at).unwrap();
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let _ = setsockopt(&receiver, sockopt::IpRecvTos, &true);
        let _ = setsockopt(&receiver, sockopt::Ipv6RecvTClass, &true);
        let sender = UdpSocket::bind(from.parse().unwrap(), &SocketConfig::default()).unwrap();
        assert!(sender.set_dscp(dscp));
        let mut to: SocketAddr = receiver.local_addr().unwrap();
        if let (IpAddr::V4(v4), true) = (to.ip(), sender.local_addr().is_ipv6()) {
            to.set_ip(v4.to_ipv6_mapped().into());
        }
        let bytes = [7; 2_500];
        let burst = Transmit { to, from: None, ecn, bytes: &bytes, segment_bytes: 1_000 };
        assert_eq!(sender.send(&burst), SendOutcome::Sent);
        let receive = |_| {
            let mut buffer = [0; 4_096];
            let mut control = cmsg_space!(i32, i32);
            let mut parts = [std::io::IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::empty();
            let fd = receiver.as_raw_fd();
            let got = recvmsg::<()>(fd, &mut parts, Some(&mut control), flags).unwrap();
            let octet = got.cmsgs().unwrap().find_map(|message| match message {
                ControlMessageOwned::Ipv4Tos(octet) => Some(i32::from(octet)),
                ControlMessageOwned::Ipv6TClass(octet) => Some(octet),
                _ => None,
            });
            octet.expect("the kernel was asked for it")
        };
        (0..3).map(receive).collect()
    }

    #[test]
    fn datagrams_carry_the_codepoint_beside_the_congestion_mark() {
        for (from, at) in
            [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0"), ("[::]:0", "127.0.0.1:0")]
        {
            assert_eq!(octets(from, at, 46, Some(Ecn::Ect0)), [46 << 2 | 2; 3], "{from}");
            assert_eq!(octets(from, at, 8, None), [8 << 2; 3], "{from}");
        }
    }

    sockopt_impl!(NoChecksum, SetOnly, libc::SOL_SOCKET, libc::SO_NO_CHECK, bool);

    #[test]
    fn where_the_kernel_does_not_segment_datagrams_with_a_codepoint_leave_one_by_one() {
        #[expect(clippy::disallowed_methods, reason = "sockets as the kernel makes them")]
        let [sender, receiver] =
            [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        // Without checksums it refuses to, whatever the device.
        setsockopt(&sender, NoChecksum, &true).unwrap();
        let sender = UdpSocket::from_std(sender).unwrap();
        assert!(sender.set_dscp(8));
        let (to, bytes) = (receiver.local_addr().unwrap(), [7; 2_500]);
        let burst = Transmit { to, from: None, ecn: None, bytes: &bytes, segment_bytes: 1_000 };
        assert_eq!(sender.send(&burst), SendOutcome::Sent);
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        let lengths = [(); 3].map(|()| receiver.recv(&mut [0; 4_096]).unwrap());
        assert_eq!((lengths, sender.max_segments()), ([1_000, 1_000, 500], 1));
    }
}
