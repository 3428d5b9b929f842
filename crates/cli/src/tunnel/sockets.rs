//! The kernel's own sockets, which a tunnel's programs and targets speak to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket};

use crate::net::source_towards;

/// Programs that wait to be taken in; the system may allow fewer.
const QUEUE: i32 = 4_096;

/// Listens on `at`. Programs that connect while the queue is full wait for a second, and then twice as long each
/// time.
///
/// # Errors
/// The address is taken or not ours.
pub(super) fn listener(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(at, Type::STREAM)?;
    // As tokio's own listeners: what is left of old connections does not keep the port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    // Those that it takes in have it from here.
    keep_urgent(SockRef::from(&socket))?;
    socket.bind(&at.into())?;
    socket.listen(QUEUE)?;
    TcpListener::from_std(socket.into())
}

/// A connection to `at`.
///
/// # Errors
/// Nobody answers there, or no socket is left.
pub(super) async fn connect(at: SocketAddr) -> io::Result<TcpStream> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    keep_urgent(SockRef::from(&socket))?;
    socket.connect(at).await
}

/// An urgent byte is one of the stream's [RFC 6093 §5]. The kernel takes it out of line unless told, and it
/// would never leave.
fn keep_urgent(socket: SockRef<'_>) -> io::Result<()> {
    socket.set_out_of_band_inline(true)
}

/// Whether `ip` is an address of this machine: only to itself does it speak from the very address it speaks to.
pub(super) fn is_ours(ip: IpAddr) -> bool {
    // Any port does: nothing is sent there.
    source_towards(SocketAddr::new(ip, 9)) == Some(ip)
}

/// A socket for datagrams: of both families where the system has them.
///
/// # Errors
/// No socket is left.
pub(super) fn datagrams() -> io::Result<UdpSocket> {
    let bound = |at: SocketAddr| {
        let socket = socket(at, Type::DGRAM)?;
        socket.bind(&at.into())?;
        UdpSocket::from_std(socket.into())
    };
    bound((Ipv6Addr::UNSPECIFIED, 0).into()).or_else(|_| bound((Ipv4Addr::UNSPECIFIED, 0).into()))
}

/// What is bound to all addresses of IPv6 is to take IPv4, too, whatever the system does unless told
/// (`net.ipv6.bindv6only`).
fn socket(at: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(at), kind, None)?;
    if at.is_ipv6() && at.ip().is_unspecified() {
        // Refused where the system has no such sockets; then it is IPv6 only.
        let _ = socket.set_only_v6(false);
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use tack_device::{Netns, NetnsError};

    use super::*;

    /// A machine of its own, where that may be had.
    fn machine() -> Option<Netns> {
        match Netns::new() {
            Ok(machine) => Some(machine),
            Err(e @ NetnsError::NotPermitted) => {
                assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
                eprintln!("skipped: {e}");
                None
            }
            Err(e) => panic!("{e}"),
        }
    }

    #[test]
    fn public_addresses_of_this_machine_are_its_own_and_no_others() {
        let Some(machine) = machine() else { return };
        machine.sysctl("net.ipv6.conf.default.accept_dad", "0").unwrap();
        machine
            .ip(&[
                "link add wan type veth peer name other",
                "link set wan up",
                "link set other up",
                "addr add 20.1.2.3/24 dev wan",
                "addr add 2600::3/64 dev wan nodad",
                "route add default via 20.1.2.1",
            ])
            .unwrap();
        let judged = machine.enter(|| {
            ["20.1.2.3", "2600::3", "127.0.0.1", "20.1.2.4", "8.8.8.8", "2600::4", "2601::1"]
                .map(|ip| is_ours(ip.parse().unwrap()))
        });
        assert_eq!(judged.unwrap(), [true, true, true, false, false, false, false]);
    }

    #[test]
    fn all_addresses_are_those_of_both_families_whatever_is_the_systems_custom() {
        let Some(machine) = machine() else { return };
        let are_alone = machine.enter(|| {
            std::fs::write("/proc/sys/net/ipv6/bindv6only", "1").unwrap();
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
            let _inside = runtime.enter();
            let listener = listener((Ipv6Addr::UNSPECIFIED, 0).into()).unwrap();
            let datagrams = datagrams().unwrap();
            [SockRef::from(&listener).only_v6(), SockRef::from(&datagrams).only_v6()]
                .map(Result::unwrap)
        });
        assert_eq!(are_alone.unwrap(), [false, false]);
    }
}
