//! From a host's name to a connection: all its addresses are tried, the next one while those before
//! it are silent still [RFC 8305 §5].

use std::io;
#[cfg(all(target_os = "linux", feature = "tun"))]
use std::net::IpAddr;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{ToSocketAddrs, lookup_host};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::ConnectError;

/// Time that an address has before the next one is tried beside it [RFC 8305 §8].
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Addresses of one name that are tried: whoever answers for the name chooses how many there are.
const MAX_ADDRESSES: usize = 8;

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

    /// Of a UDP socket bound there. That of the IPv6 wildcard address takes IPv4 as well.
    pub(crate) fn from_socket(local: SocketAddr) -> Reach {
        let mapped = local.is_ipv6() && local.ip().is_unspecified();
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
    let found =
        in_turn(&lookup_host(host).await.map_err(ConnectError::NoSuchHost)?.collect::<Vec<_>>());
    let found: Vec<_> = found.into_iter().filter_map(|address| reach.address(address)).collect();
    if found.is_empty() {
        return Err(ConnectError::OutOfReach);
    }
    Ok(found)
}

/// Families in turn, beginning with that of the first, in which the resolver's order stays
/// [RFC 8305 §4].
fn in_turn(found: &[SocketAddr]) -> Vec<SocketAddr> {
    let first = found.first().is_some_and(SocketAddr::is_ipv4);
    let of = |v4| found.iter().filter(move |address| address.is_ipv4() == v4);
    let (mut ones, mut others) = (of(first), of(!first));
    let mut ordered = Vec::new();
    while ordered.len() < found.len() {
        ordered.extend(ones.next());
        ordered.extend(others.next());
    }
    ordered.truncate(MAX_ADDRESSES);
    ordered
}

/// What `dial` makes of the first of `addresses` that answers. If none does, the first failure is
/// told: it is about the address that the resolver prefers.
pub(crate) async fn first_of<T, F>(
    addresses: Vec<SocketAddr>,
    dial: impl Fn(SocketAddr) -> F,
) -> Result<T, ConnectError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ConnectError>> + Send + 'static,
{
    if let [only] = addresses[..] {
        return dial(only).await;
    }
    let (mut left, mut attempts, mut failure) =
        (addresses.into_iter(), JoinSet::new(), ConnectError::OutOfReach);
    let mut failed = false;
    loop {
        if let Some(address) = left.next() {
            attempts.spawn(dial(address));
        }
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(made))) => return Ok(made),
                Some(Ok(Err(e))) if !failed => (failure, failed) = (e, true),
                Some(_) => {}
                None => return Err(failure),
            },
            () = sleep(ATTEMPT_DELAY), if left.len() > 0 => {}
        }
    }
}

/// How long an answer is waited for before we ask whether there is anybody.
const PATIENCE: Duration = Duration::from_millis(300);
/// How often we ask: one datagram may be lost.
const QUESTIONS: usize = 3;

/// Waits until the network says that nobody has `peer`'s port. The kernel tells only a socket that
/// has no other peers, and only what was answered to that socket; so an empty datagram goes from one
/// of its own. Nobody who listens takes notice of it.
pub(crate) async fn refused(peer: SocketAddr) {
    let asking = async {
        let socket = tokio::net::UdpSocket::bind(any_addr_like(peer)).await?;
        socket.connect(peer).await?;
        for _ in 0..QUESTIONS {
            tokio::time::sleep(PATIENCE).await;
            socket.send(&[]).await?;
            let answer = tokio::time::timeout(PATIENCE, socket.recv(&mut [])).await;
            answer.map_or(Ok(0), |answer| answer)?;
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
    use std::future::pending;

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn families_take_turns_and_the_resolver_s_order_stays() {
        let [a, b, c, x] = ["[::1]:1", "[::2]:1", "[::3]:1", "10.0.0.1:1"].map(address);
        assert_eq!(in_turn(&[a, b, c, x]), [a, x, b, c]);
        assert_eq!(in_turn(&[x, a, b]), [x, a, b]);
        assert_eq!(in_turn(&[a; 20]).len(), MAX_ADDRESSES);
    }

    #[test]
    fn a_socket_of_both_families_reaches_both_and_others_their_own() {
        let [v4, v6] = ["10.0.0.1:9", "[2001:db8::1]:9"].map(address);
        let reached = |local, peer| Reach::from_socket(address(local)).address(peer);
        assert_eq!(reached("[::]:0", v4), Some(address("[::ffff:10.0.0.1]:9")));
        assert_eq!(reached("[::]:0", v6), Some(v6));
        assert_eq!((reached("[::1]:0", v4), reached("[::1]:0", v6)), (None, Some(v6)));
        assert_eq!((reached("0.0.0.0:0", v4), reached("127.0.0.1:0", v6)), (Some(v4), None));
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_is_silent_holds_the_next_one_up_for_a_moment_only() {
        let (silent, there) = (address("[::1]:1"), address("10.0.0.1:1"));
        let begun = tokio::time::Instant::now();
        let made = first_of(vec![silent, there], |to| async move {
            if to == silent { pending().await } else { Ok(to) }
        });
        assert_eq!(made.await.unwrap(), there);
        assert_eq!(begun.elapsed(), ATTEMPT_DELAY);
    }

    #[tokio::test(start_paused = true)]
    async fn of_many_failures_the_first_is_told_and_none_is_waited_for() {
        let limit = |address: SocketAddr| Duration::from_secs(address.port().into());
        let begun = tokio::time::Instant::now();
        let addresses = [1, 2, 3].map(|port| SocketAddr::new([10, 0, 0, 1].into(), port)).to_vec();
        let made: Result<(), _> =
            first_of(addresses, |to| async move { Err(ConnectError::TimedOut(limit(to))) }).await;
        assert!(matches!(made, Err(ConnectError::TimedOut(d)) if d.as_secs() == 1));
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
