//! Three machines in a row, of which the middle one is a router and nothing else.
//!
//! ```text
//!   namespace "left"                       "router"                      namespace "right"
//!   ours -- TUN -- kernel -- veth "cable" -- kernel -- veth "behind" -- kernel -- TUN -- ours
//!   10.78.0.2     10.80.0.1          10.80.0.2  10.81.0.2         10.81.0.1       10.79.0.2
//! ```

use std::net::SocketAddr;

use tack_device::{Netns, NetnsError, Prefix};
use tack_link::End;
use tack_net::{ConnConfig, Endpoint};

use crate::Family;
use crate::world::{available, device_ip, endpoint, netns_is_unavailable};

/// Kernel parameters of every machine here; others are as a machine starts with them, the limit of
/// ICMP errors too.
const SYSCTLS: [(&str, &str); 3] = [
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    // Else the kernel finds duplicates of addresses that only exist once.
    ("net.ipv6.conf.default.accept_dad", "0"),
];

/// Two endpoints of ours and the machines under and between them.
pub struct Routed {
    /// The endpoint on the left.
    pub left: Endpoint,
    /// The endpoint on the right.
    pub right: Endpoint,
    router: Netns,
    /// Under the endpoints, for as long as these.
    _hosts: [Netns; 2],
}

/// What a kernel counts of IP and ICMP, both families together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Packets passed on; a super-packet is one.
    pub forwarded: u64,
    /// "Fragmentation needed" and other unreachabilities over IPv4, sent.
    pub unreachable: u64,
    /// "Packet too big" over IPv6, sent.
    pub too_big: u64,
}

impl Routed {
    /// Sets all up; the cable behind the router takes packets of `narrow_mtu` bytes, every other
    /// place 1500. `None` where this process may not, and says so.
    ///
    /// # Panics
    /// When it fails for another reason; outside a tokio runtime.
    pub fn start(conn: &ConnConfig, narrow_mtu: u16, offload: bool) -> Option<Routed> {
        let machine = || available(machine(), netns_is_unavailable);
        let (left, router, right) = (machine()?, machine()?, machine()?);
        cable(&left, &router, "cable", 80, End::A);
        cable(&right, &router, "behind", 81, End::B);
        for netns in [&router, &right] {
            netns.ip(&[format!("link set dev behind mtu {narrow_mtu}")]).expect("a size for IPv6");
        }
        Some(Routed {
            left: endpoint(&left, End::A, conn.clone(), offload)?,
            right: endpoint(&right, End::B, conn.clone(), offload)?,
            router,
            _hosts: [left, right],
        })
    }

    /// The address of the endpoint on the right.
    pub fn right_address(&self, family: Family, port: u16) -> SocketAddr {
        SocketAddr::new(device_ip(End::B, family, 2), port)
    }

    /// What the router counted since it was set up.
    ///
    /// # Panics
    /// If its kernel does not tell.
    pub fn routing(&self) -> Routing {
        let read = || ["snmp", "snmp6"].map(|f| std::fs::read_to_string(format!("{PROC_NET}/{f}")));
        // Which namespace they tell of depends on who reads them.
        let [v4, v6] = self.router.enter(read).expect("it is there");
        routing(&v4.expect("counters of IPv4"), &v6.expect("counters of IPv6"))
    }
}

const PROC_NET: &str = "/proc/thread-self/net";

fn machine() -> Result<Netns, NetnsError> {
    let netns = Netns::new()?;
    for (name, value) in SYSCTLS {
        netns.sysctl(name, value)?;
    }
    Ok(netns)
}

/// Joins the host at `end` with the router: `10.NET.0.1` and `10.NET.0.2`, and so with IPv6.
fn cable(host: &Netns, router: &Netns, name: &str, net: u8, end: End) {
    let addresses = |n: u8| -> [Prefix; 2] {
        let texts = [format!("10.{net}.0.{n}/24"), format!("fd{net}::{n}/64")];
        texts.map(|text| text.parse().expect("a prefix"))
    };
    host.link(router, name, &addresses(1), &addresses(2)).expect("a cable");
    let routes = [format!("10.{net}.0.2"), format!("fd{net}::2")];
    host.ip(&routes.map(|via| format!("route add default via {via}"))).expect("routes");
    let [v4, v6] = Family::BOTH.map(|family| device_ip(end, family, 0));
    let routes = [
        format!("route add {v4}/24 via 10.{net}.0.1"),
        format!("route add {v6}/64 via fd{net}::1"),
    ];
    router.ip(&routes).expect("routes");
}

/// `/proc/net/snmp` is lines of names, each followed by a line of numbers; `snmp6` is pairs.
fn routing(snmp: &str, snmp6: &str) -> Routing {
    let v4 = |group: &str, name: &str| -> Option<u64> {
        let mut lines = snmp.lines().filter_map(|l| l.strip_prefix(group));
        let (names, numbers) = (lines.next()?, lines.next()?);
        let at = names.split_whitespace().position(|n| n == name)?;
        numbers.split_whitespace().nth(at)?.parse().ok()
    };
    let v6 = |name: &str| -> Option<u64> {
        let mut pairs = snmp6.lines().filter_map(|l| l.split_once(char::is_whitespace));
        pairs.find(|(n, _)| *n == name)?.1.trim().parse().ok()
    };
    let forwarded = v4("Ip:", "ForwDatagrams").zip(v6("Ip6OutForwDatagrams"));
    Routing {
        forwarded: forwarded.map(|(v4, v6)| v4 + v6).expect("a count"),
        unreachable: v4("Icmp:", "OutDestUnreachs").expect("a count"),
        too_big: v6("Icmp6OutPktTooBigs").expect("a count"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_by_their_names() {
        let snmp = "Ip: Forwarding ForwDatagrams InDiscards\nIp: 1 700 3\n\
                    Icmp: InMsgs OutDestUnreachs OutErrors\nIcmp: 5 2 0\n\
                    IcmpMsg: OutType3\nIcmpMsg: 2\n";
        let snmp6 = "Ip6InReceives                   \t9\n\
                     Ip6OutForwDatagrams             \t40\n\
                     Icmp6OutPktTooBigs              \t1\n";
        let counted = Routing { forwarded: 740, unreachable: 2, too_big: 1 };
        assert_eq!(routing(snmp, snmp6), counted);
    }
}
