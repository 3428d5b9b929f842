//! What a server tells its user: where it listens, and what to type on the other machine.

use std::net::{IpAddr, Ipv4Addr};

use tack_net::HostPort;

use crate::net::NetAccept;
use crate::terminal::say;

/// The words in which one command's invitation differs from another's.
pub(super) struct Invitation<'a> {
    /// What the server does, as a sentence begins.
    pub(super) doing: &'a str,
    /// What anybody on the way could read, where nothing is encrypted.
    pub(super) what: &'a str,
    /// What anybody may do, where nobody is asked for a key.
    pub(super) may: &'a str,
}

impl Invitation<'_> {
    /// Tells it; `command` makes the line to be typed of the host and of what proves it.
    pub(super) async fn tell(
        &self,
        server: &NetAccept,
        command: impl FnOnce(&HostPort, &str) -> String,
    ) {
        let local = server.local_addr();
        let shown = match local.ip() {
            ip if ip.is_unspecified() => {
                outward_address().await.map_or("HOST".to_owned(), |ip| ip.to_string())
            }
            ip => ip.to_string(),
        };
        let host = HostPort { name: shown, port: local.port() };
        say(format_args!("{}, listening on {local} ({}).", self.doing, server.medium()));
        let proof = match server.fingerprint() {
            Some(key) => {
                say(format_args!("Key: {key}"));
                match server.door().code() {
                    Some(code) => format!("--code {code}"),
                    None => format!("--fingerprint {key}"),
                }
            }
            None => {
                let what = self.what;
                say(format_args!(
                    "Without encryption: anybody on the way can read and change {what}."
                ));
                "--insecure-plaintext".to_owned()
            }
        };
        if server.door().is_open() {
            say(format_args!("Anybody who reaches this port may {}.", self.may));
        }
        say(format_args!("On the other machine:\n  {}", command(&host, &proof)));
    }
}

/// The address by which others probably reach us: that of the default route. Nothing is sent.
async fn outward_address() -> Option<IpAddr> {
    let socket = tokio::net::UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await.ok()?;
    // A documentation address [RFC 5737]: it is routed by the default route and never exists.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).await.ok()?;
    socket.local_addr().ok().map(|a| a.ip())
}
