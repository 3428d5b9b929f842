//! The server's way out: names resolved here, the allow-list asked, a connection made.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::allow::AllowList;
use super::protocol::{Cause, Refusal};
use super::target::{Host, Target};

/// Time for a name to be resolved, and for a connection then.
const LIMIT: Duration = Duration::from_secs(10);
/// How long one address has before the next is tried beside it [RFC 8305 §5].
const STAGGER: Duration = Duration::from_millis(250);
/// Most addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;

/// The addresses behind `target` that may be connected to: families alternate, as the resolver
/// orders them.
///
/// # Errors
/// Nobody has the name, or it is not allowed.
pub async fn resolve(target: &Target, allow: &AllowList) -> Result<Vec<SocketAddr>, Refusal> {
    let not_allowed = || {
        let why = format!(
            "{target} is not on the server's allow-list; it is started with --allow {target} for \
             that"
        );
        Refusal::new(Cause::NotAllowed, why)
    };
    let (name, any) = match &target.host {
        Host::Ip(ip) if allow.admits_ip(*ip, target.port) => {
            return Ok(vec![SocketAddr::new(*ip, target.port)]);
        }
        Host::Ip(_) => return Err(not_allowed()),
        Host::Name(name) => (name, allow.admits_name(name, target.port)),
    };
    let unknown = |why: &dyn std::fmt::Display| {
        Refusal::new(Cause::NoSuchHost, format!("cannot find host {name}: {why}"))
    };
    let found = timeout(LIMIT, tokio::net::lookup_host((name.as_str(), target.port))).await;
    let found = found.map_err(|_| unknown(&"no answer from the resolver"))?;
    let found: Vec<SocketAddr> = found.map_err(|e| unknown(&e))?.collect();
    if found.is_empty() {
        return Err(unknown(&"it has no address"));
    }
    let admitted = |a: &SocketAddr| any || allow.admits_ip(a.ip(), target.port);
    let allowed: Vec<SocketAddr> = found.into_iter().filter(admitted).collect();
    if allowed.is_empty() { Err(not_allowed()) } else { Ok(alternate(allowed)) }
}

/// The first address's family, then the other, and so on.
fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (one, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv4() == first);
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    let pairs = std::iter::from_fn(|| match (one.next(), other.next()) {
        (None, None) => None,
        pair => Some(pair),
    });
    pairs.flat_map(|(a, b)| a.into_iter().chain(b)).take(MOST_ADDRESSES).collect()
}

/// A connection to `target`: the first that comes about of those to its addresses, which are tried
/// one after the other without waiting for each to fail.
///
/// # Errors
/// Not allowed, unknown, or why the last of them failed.
pub async fn connect(target: &Target, allow: &AllowList) -> Result<TcpStream, Refusal> {
    let addresses = resolve(target, allow).await?;
    let mut attempts = JoinSet::new();
    let mut left = addresses.into_iter();
    let racing = async {
        let mut last = io::Error::from(io::ErrorKind::TimedOut);
        if let Some(address) = left.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        while !attempts.is_empty() {
            tokio::select! {
                biased;
                Some(ended) = attempts.join_next() => {
                    match ended.unwrap_or_else(|e| Err(io::Error::other(e))) {
                        Ok(stream) => return Ok(stream),
                        Err(error) => last = error,
                    }
                }
                () = sleep(STAGGER), if left.len() > 0 => {}
            }
            if let Some(address) = left.next() {
                attempts.spawn(TcpStream::connect(address));
            }
        }
        Err(last)
    };
    let connected = timeout(LIMIT, racing).await;
    let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let stream = connected.map_err(|e| Refusal::of_attempt(target, &e))?;
    // What a program writes at once should leave at once; it was collected at its own end.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    Ok(stream)
}

/// Any address of `peer`'s family.
pub fn wildcard(like: IpAddr) -> SocketAddr {
    SocketAddr::new(crate::net::unspecified(like.is_ipv6()), 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_alternate_beginning_with_the_resolvers_choice() {
        let of = |text: &str| SocketAddr::new(text.parse().unwrap(), 1);
        let six = ["::1", "::2", "::3"].map(of);
        let four = ["1.1.1.1", "2.2.2.2"].map(of);
        let all = [&six[..2], &four[..], &six[2..]].concat();
        let wanted = [six[0], four[0], six[1], four[1], six[2]];
        assert_eq!(alternate(all), wanted);
        assert_eq!(alternate(four.to_vec()), four);
    }
}
