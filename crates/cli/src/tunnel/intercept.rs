//! A transparent proxy: the kernel redirects connections of this machine, or of all that it routes
//! for, and tells where they went.
//!
//! The rules are nftables' and in a table of their own, so that they come and go as one. They
//! redirect TCP only; names are resolved by whoever resolves them now.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};

use tack_device::Prefix;
use tokio::net::TcpStream;

use super::routes::own_networks;
use super::target::Target;
use crate::exit::{ExitCode, Failure};
use crate::terminal::say;

/// Networks that are not redirected unless asked for: what is near needs no tunnel.
const NEAR: [&str; 10] = [
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "224.0.0.0/3",
    "fc00::/7",
    "fe80::/10",
    "ff00::/8",
];

/// Most networks of this machine's own among the rules: each connection is held against all of them.
const MOST_OWN: usize = 1_000;

/// What is redirected, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The port we listen on.
    pub port: u16,
    /// The networks whose connections are redirected; none are all but those that are near or our own.
    pub networks: Vec<Prefix>,
    /// Networks behind routes of this machine's own.
    pub own: Vec<Prefix>,
    /// The tunnel's server: it stays reachable as it is.
    pub server: IpAddr,
}

impl Redirect {
    /// To `port`, of `networks` or of what is neither near nor this machine's own business; never to `server`.
    ///
    /// # Errors
    /// This machine's routes cannot be read, or are too many.
    pub fn of(port: u16, networks: Vec<Prefix>, server: IpAddr) -> Result<Redirect, Failure> {
        let failed = |why: String| Failure::new(ExitCode::Failed, why);
        let own = match networks.is_empty() {
            true => own_networks()
                .map_err(|e| failed(format!("cannot read this machine's routes: {e}")))?,
            false => Vec::new(),
        };
        if own.len() > MOST_OWN {
            return Err(failed(format!(
                "this machine has routes of its own to {} networks, which is too many to spare each; say with \
                 --networks what to redirect",
                own.len()
            )));
        }
        Ok(Redirect { port, networks, own, server })
    }

    fn table(&self) -> String {
        format!("tack_tunnel_{}", self.port)
    }

    /// The rules as `nft -f` takes them. Rules of an earlier run that did not end well are replaced.
    pub fn rules(&self) -> String {
        let table = self.table();
        let mut tests = format!("fib daddr type local return\n{}", self.returns(self.server, 128));
        if self.networks.is_empty() {
            let near = NEAR.map(|near| near.parse::<Prefix>().expect("a prefix as it is written"));
            let is_far = |own: &&Prefix| !near.iter().any(|near| near.contains(own.addr()));
            for spared in near.iter().chain(self.own.iter().filter(is_far)) {
                tests += &self.returns(spared.addr(), spared.bits());
            }
            let _ = writeln!(tests, "meta l4proto tcp redirect to :{}", self.port);
        }
        for network in &self.networks {
            let _ = writeln!(
                tests,
                "{} {network} meta l4proto tcp redirect to :{}",
                destination_of(network.addr()),
                self.port
            );
        }
        let tests: String = tests.lines().map(|line| format!("\t\t{line}\n")).collect();
        // Before routing of what comes in, and where the kernel translates what this machine sends.
        let chain = |hook: &str| {
            format!(
                "\tchain {hook} {{\n\t\ttype nat hook {hook} priority -100; policy accept;\n\
                 {tests}\t}}\n"
            )
        };
        let (routed, own) = (chain("prerouting"), chain("output"));
        // Adding a table that is there changes nothing; so it is there to be deleted.
        format!(
            "table inet {table}\ndelete table inet {table}\ntable inet {table} {{\n{routed}{own}}}\n"
        )
    }

    fn returns(&self, ip: IpAddr, bits: u8) -> String {
        let bits = bits.min(if ip.is_ipv4() { 32 } else { 128 });
        format!("{} {ip}/{bits} return\n", destination_of(ip))
    }

    /// Has the kernel follow the rules until what is returned is dropped.
    ///
    /// # Errors
    /// There is no `nft`, it may not, or it says why not.
    pub fn install(&self) -> Result<Installed, Failure> {
        nft(&["-f", "-"], &self.rules()).map_err(|e| {
            let why = format!(
                "cannot install nftables rules: {e}; without --install-rules they \
                               are printed, for root to install"
            );
            Failure::new(ExitCode::Failed, why)
        })?;
        Ok(Installed { table: self.table() })
    }

    /// What to type to be rid of them.
    pub fn removal(&self) -> String {
        format!("nft delete table inet {}", self.table())
    }
}

fn destination_of(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "ip daddr" } else { "ip6 daddr" }
}

/// Rules in force; dropping it removes them.
#[derive(Debug)]
pub struct Installed {
    table: String,
}

impl Drop for Installed {
    fn drop(&mut self) {
        if let Err(error) = nft(&["delete", "table", "inet", &self.table], "") {
            say(format_args!(
                "tack: nftables rules are left over: {error}; try nft delete table inet {}",
                self.table
            ));
        }
    }
}

/// Runs `nft` to its end.
fn nft(args: &[&str], input: &str) -> io::Result<()> {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut child = Command::new("nft")
        .args(args)
        .env("PATH", format!("{path}:/usr/sbin:/sbin"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| io::Error::new(e.kind(), format!("nft: {e}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If it does not read, it has something to say.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().next().unwrap_or("it does not say why");
    Err(io::Error::other(format!("nft: {first}")))
}

/// Where a redirected connection went before.
///
/// # Errors
/// It was not redirected: somebody connected to our port itself.
pub fn destination(program: &TcpStream) -> io::Result<Target> {
    let original = tack_device::original_destination(program)?;
    if is_same(original, program.local_addr()?) {
        let why = "a connection that was made to the port of --transparent itself";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(original.into())
}

/// A socket of both families writes IPv4 as IPv6, and a link-local address with its link.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    one.port() == other.port() && one.ip().to_canonical() == other.ip().to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_to_the_port_itself_is_known_however_its_address_is_written() {
        let same = |one: &str, other: &str| is_same(one.parse().unwrap(), other.parse().unwrap());
        assert!(same("10.0.0.1:1081", "[::ffff:10.0.0.1]:1081"));
        assert!(same("[fe80::1]:1081", "[fe80::1%2]:1081"));
        assert!(
            !same("10.0.0.1:80", "[::ffff:10.0.0.1]:1081") && !same("10.0.0.2:1", "10.0.0.1:1")
        );
    }

    #[test]
    fn rules_spare_the_server_and_what_is_near_or_redirect_only_what_is_asked_for() {
        let own = ["10.3.0.0/16", "fe80::/64", "203.0.113.0/24", "2001:db8:7::/48"];
        let own = own.map(|network| network.parse().unwrap()).to_vec();
        let server = [9, 9, 9, 9].into();
        let all = Redirect { port: 1_081, networks: Vec::new(), own, server };
        let rules = all.rules();
        for line in [
            "delete table inet tack_tunnel_1081",
            "type nat hook prerouting priority -100; policy accept;",
            "type nat hook output priority -100; policy accept;",
            "ip daddr 9.9.9.9/32 return",
            "ip daddr 192.168.0.0/16 return",
            "ip6 daddr fc00::/7 return",
            "ip daddr 203.0.113.0/24 return",
            "ip6 daddr 2001:db8:7::/48 return",
            "meta l4proto tcp redirect to :1081",
        ] {
            assert!(rules.contains(line), "{line} in {rules}");
        }
        assert!(
            !rules.contains("10.3.0.0") && !rules.contains("fe80::/64"),
            "near anyway: {rules}"
        );
        let networks = vec!["10.1.0.0/16".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        let some = Redirect { networks, server: "fd00::1".parse().unwrap(), ..all }.rules();
        assert!(some.contains("ip6 daddr fd00::1/128 return"), "{some}");
        assert!(some.contains("ip daddr 10.1.0.0/16 meta l4proto tcp redirect to :1081"), "{some}");
        assert!(some.contains("ip6 daddr 2001:db8::/32 meta l4proto tcp redirect"), "{some}");
        assert!(!some.contains("\t\tmeta l4proto"), "{some}");
    }
}
