//! The server's way out: names resolved here, the allow-list asked, a connection made.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tack_net::race::{NoneAnswered, first_of, in_turn};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::allow::AllowList;
use super::protocol::{Cause, Refusal};
use super::sockets;
use super::target::{Host, Target};

/// Time for a name to be resolved, and for a connection then.
const LIMIT: Duration = Duration::from_secs(10);

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
        Host::Ip(ip) if allow.admits_ip(*ip, target.port, sockets::is_ours) => {
            return Ok(vec![SocketAddr::new(*ip, target.port)]);
        }
        Host::Ip(_) => return Err(not_allowed()),
        Host::Name(name) => (name, allow.admits_name(name, target.port)),
    };
    // Whoever may not connect asks nothing of the server's resolver either.
    if !any && !allow.admits_addresses(target.port) {
        return Err(not_allowed());
    }
    let unknown = |why: &dyn std::fmt::Display| {
        Refusal::new(Cause::NoSuchHost, format!("cannot find host {name}: {why}"))
    };
    let found = timeout(LIMIT, tokio::net::lookup_host((name.as_str(), target.port))).await;
    let found = found.map_err(|_| unknown(&"no answer from the resolver"))?;
    let found: Vec<SocketAddr> = found.map_err(|e| unknown(&e))?.collect();
    if found.is_empty() {
        return Err(unknown(&"it has no address"));
    }
    let admitted = |a: &SocketAddr| any || allow.admits_ip(a.ip(), target.port, sockets::is_ours);
    let allowed: Vec<SocketAddr> = found.into_iter().filter(admitted).collect();
    if allowed.is_empty() { Err(not_allowed()) } else { Ok(in_turn(allowed)) }
}

/// A connection to `target`: the first that comes about of those to its addresses, which are tried
/// one after the other without waiting for each to fail.
///
/// # Errors
/// Not allowed, unknown, or why all of them failed.
pub async fn connect(target: &Target, allow: &AllowList) -> Result<TcpStream, Refusal> {
    let addresses = resolve(target, allow).await?;
    let connected = timeout(LIMIT, first_of(addresses, sockets::connect)).await;
    let stream = match connected {
        Ok(connected) => connected.map_err(|none| none_answered(target, none))?,
        Err(_) => return Err(Refusal::of_attempt(target, &io::ErrorKind::TimedOut.into())),
    };
    // What a program writes at once should leave at once; it was collected at its own end.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    Ok(stream)
}

/// What a program at the other end is told: how far the attempt that got furthest came, and all of them in
/// words.
fn none_answered(target: &Target, none: NoneAnswered<io::Error>) -> Refusal {
    let none = match none.only() {
        Ok(error) => return Refusal::of_attempt(target, &error),
        Err(several) => several,
    };
    let causes = none.attempts().iter().map(|(_, error)| Cause::of_attempt(error));
    let furthest = |cause: &Cause| match cause {
        Cause::ConnectionRefused => 0,
        Cause::TimedOut => 1,
        Cause::Unreachable => 2,
        _ => 3,
    };
    let cause = causes.min_by_key(furthest).unwrap_or(Cause::Failed);
    Refusal::new(cause, format!("cannot connect to {target} ({none})"))
}
