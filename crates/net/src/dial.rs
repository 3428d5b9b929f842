//! From a host's name to addresses in reach, and who is not there.

use std::io;
#[cfg(all(target_os = "linux", feature = "tun"))]
use std::net::IpAddr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{ToSocketAddrs, lookup_host};

use crate::ConnectError;
use crate::race::in_turn;

/// Which families an endpoint reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    v4: bool,
    v6: bool,
    /// IPv4 goes through an IPv6 socket, which wants its addresses so [RFC 4291 §2.5.5.2].
    mapped: bool,
}

impl Reach {
    /// Of an endpoint that is yet to be made, after the peer.
    pub(crate) const ALL: Reach = Reach { v4: true, v6: true, mapped: false };

    /// Of a UDP socket bound there. That of the IPv6 wildcard address takes IPv4 as well, unless it was
    /// made without.
    pub(crate) fn from_socket(local: SocketAddr, v6_only: bool) -> Reach {
        let mapped = local.is_ipv6() && local.ip().is_unspecified() && !v6_only;
        Reach { v4: local.is_ipv4() || mapped, v6: local.is_ipv6(), mapped }
    }

    /// Of a device whose endpoint has these addresses.
    #[cfg(all(target_os = "linux", feature = "tun"))]
    pub(crate) fn through_device(local: &[IpAddr]) -> Reach {
        let has = |v4| local.iter().any(|ip| ip.is_ipv4() == v4);
        Reach { v4: has(true), v6: has(false), mapped: false }
    }

    /// The address as the endpoint has to be told it; `None` if it cannot be reached.
    fn address(self, peer: SocketAddr) -> Option<SocketAddr> {
        match peer {
            SocketAddr::V4(v4) if self.mapped => {
                Some(SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()))
            }
            SocketAddr::V4(_) => self.v4.then_some(peer),
            SocketAddr::V6(_) => self.v6.then_some(peer),
        }
    }
}

/// The wildcard address of the same family, with a port of the system's choice.
pub(crate) fn any_addr_like(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The addresses of `host` in reach, families in turn.
pub(crate) async fn resolve(
    host: impl ToSocketAddrs,
    reach: Reach,
) -> Result<Vec<SocketAddr>, ConnectError> {
    let found = lookup_host(host).await.map_err(ConnectError::NoSuchHost)?;
    let found = in_turn(found.filter_map(|address| reach.address(address)));
    if found.is_empty() {
        return Err(ConnectError::OutOfReach);
    }
    Ok(found)
}

/// How long an answer is waited for before we ask whether there is anybody.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often we ask: one datagram may be lost.
const QUESTIONS: usize = 3;

/// Waits until the network says that nobody has `peer`'s port. The kernel tells only a socket that
/// has no other peers, and only what was answered to that socket; so an empty datagram goes from one
/// of its own. Nobody who listens takes notice of it, and whoever answers soon is never asked.
pub(crate) async fn refused(peer: SocketAddr) {
    let asking = async {
        tokio::time::sleep(PATIENCE).await;
        let socket = tokio::net::UdpSocket::bind(any_addr_like(peer)).await?;
        socket.connect(peer).await?;
        for _ in 0..QUESTIONS {
            socket.send(&[]).await?;
            let answer = tokio::time::timeout(PATIENCE, socket.recv(&mut [])).await;
            answer.map_or(Ok(0), |answer| answer)?;
            tokio::time::sleep(PATIENCE).await;
        }
        Ok::<(), io::Error>(())
    };
    match asking.await {
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
        // It cannot be found out so.
        _ => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_socket_of_both_families_reaches_both_and_others_their_own() {
        let [v4, v6] = ["10.0.0.1:9", "[2001:db8::1]:9"].map(address);
        let reached = |local, peer| Reach::from_socket(address(local), false).address(peer);
        assert_eq!(reached("[::]:0", v4), Some(address("[::ffff:10.0.0.1]:9")));
        assert_eq!(reached("[::]:0", v6), Some(v6));
        assert_eq!((reached("[::1]:0", v4), reached("[::1]:0", v6)), (None, Some(v6)));
        assert_eq!((reached("0.0.0.0:0", v4), reached("127.0.0.1:0", v6)), (Some(v4), None));
        let alone = Reach::from_socket(address("[::]:0"), true);
        assert_eq!((alone.address(v4), alone.address(v6)), (None, Some(v6)));
    }
}
