//! Where a tunnel's server may connect for its clients.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

use tack_device::Prefix;

use super::target::{Host, TargetError};

/// One line of the list: hosts, and ports there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    hosts: Hosts,
    ports: RangeInclusive<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Hosts {
    /// Whatever there is.
    Any,
    /// What the Internet routes: no private, local, shared or reserved address.
    Public,
    Network(Prefix),
    Name(String),
    /// What ends in `.` and this.
    Below(String),
}

/// Text that is no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// No ports.
    #[error("`{0}` is no port nor range of ports; write 443 or 8000-8080")]
    BadPorts(String),
    /// No hosts.
    #[error(
        "`{0}` names no hosts; write any, public, an address, a network such as 10.0.0.0/8 or \
         [fd00::/8], a name, or *.NAME"
    )]
    BadHosts(String),
    /// No host.
    #[error(transparent)]
    BadName(#[from] TargetError),
}

/// All rules; what none of them admits is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowList(Vec<Rule>);

impl FromStr for Rule {
    type Err = RuleError;

    /// `HOSTS[:PORTS]`; IPv6 in brackets where ports follow.
    fn from_str(text: &str) -> Result<Rule, RuleError> {
        let (hosts, ports) = match text.strip_prefix('[') {
            Some(rest) => {
                let (hosts, after) =
                    rest.split_once(']').ok_or_else(|| RuleError::BadHosts(text.to_owned()))?;
                match (after, after.strip_prefix(':')) {
                    ("", _) => (hosts, None),
                    (_, Some(ports)) => (hosts, Some(ports)),
                    _ => return Err(RuleError::BadHosts(text.to_owned())),
                }
            }
            // More colons than one are an IPv6 address.
            None if text.matches(':').count() > 1 => (text, None),
            None => {
                text.split_once(':').map_or((text, None), |(hosts, ports)| (hosts, Some(ports)))
            }
        };
        let ports = ports.map_or(Ok(0..=u16::MAX), parse_ports)?;
        Ok(Rule { hosts: parse_hosts(hosts)?, ports })
    }
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, RuleError> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse::<u16>(), last.parse::<u16>()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok(first..=last),
        _ => Err(RuleError::BadPorts(text.to_owned())),
    }
}

fn parse_hosts(text: &str) -> Result<Hosts, RuleError> {
    // As names, they have no case.
    match text.to_ascii_lowercase().as_str() {
        "any" => return Ok(Hosts::Any),
        "public" => return Ok(Hosts::Public),
        _ => {}
    }
    if text.contains('/') {
        let network: Prefix = text.parse().map_err(|_| RuleError::BadHosts(text.to_owned()))?;
        return Ok(Hosts::Network(canonical(network)));
    }
    if let Some(below) = text.strip_prefix("*.") {
        return match Host::parse(below)? {
            Host::Name(name) => Ok(Hosts::Below(name)),
            Host::Ip(_) => Err(RuleError::BadHosts(text.to_owned())),
        };
    }
    Ok(match Host::parse(text)? {
        Host::Name(name) => Hosts::Name(name),
        Host::Ip(ip) => {
            let bits = if ip.is_ipv4() { 32 } else { 128 };
            Hosts::Network(Prefix::new(ip, bits).expect("as many bits as it has"))
        }
    })
}

/// Addresses are judged as what they are: one of IPv4 that is mapped into IPv6 is one of IPv4, and so is a network.
fn canonical(network: Prefix) -> Prefix {
    let bits = network.bits().checked_sub(96).filter(|_| network.addr().is_ipv6());
    let mapped = bits.zip(Some(network.addr().to_canonical()).filter(IpAddr::is_ipv4));
    mapped.and_then(|(bits, ip)| Prefix::new(ip, bits)).unwrap_or(network)
}

impl AllowList {
    /// These rules; without any, the public Internet: what a client could reach by itself, and not
    /// the server's own services or neighbours.
    pub fn new(rules: Vec<Rule>) -> AllowList {
        let public = Rule { hosts: Hosts::Public, ports: 0..=u16::MAX };
        AllowList(if rules.is_empty() { vec![public] } else { rules })
    }

    /// Whether this name may be connected to, whatever its addresses are.
    pub fn admits_name(&self, name: &str, port: u16) -> bool {
        let name = name.trim_end_matches('.');
        self.0.iter().filter(|rule| rule.ports.contains(&port)).any(|rule| match &rule.hosts {
            Hosts::Any => true,
            Hosts::Name(ours) => ours.trim_end_matches('.').eq_ignore_ascii_case(name),
            Hosts::Below(parent) => {
                let parent = parent.trim_end_matches('.');
                let before = name.len().checked_sub(parent.len() + 1);
                before.is_some_and(|at| at > 0 && name.as_bytes()[at] == b'.')
                    && name[name.len() - parent.len()..].eq_ignore_ascii_case(parent)
            }
            Hosts::Public | Hosts::Network(_) => false,
        })
    }

    /// Whether any address at all may be connected to on this port: where none may, a name that is not allowed need
    /// not be resolved to be refused.
    pub fn admits_addresses(&self, port: u16) -> bool {
        self.0.iter().filter(|rule| rule.ports.contains(&port)).any(|rule| match &rule.hosts {
            Hosts::Any | Hosts::Public | Hosts::Network(_) => true,
            Hosts::Name(_) | Hosts::Below(_) => false,
        })
    }

    /// Whether this address may be connected to. Where `is_ours` an address is this machine's, which the public
    /// Internet is not, whatever the address.
    pub fn admits_ip(&self, ip: IpAddr, port: u16, is_ours: impl Fn(IpAddr) -> bool) -> bool {
        let ip = ip.to_canonical();
        self.0.iter().filter(|rule| rule.ports.contains(&port)).any(|rule| match &rule.hosts {
            Hosts::Any => true,
            Hosts::Public => is_public(ip) && !is_ours(ip),
            Hosts::Network(network) => network.contains(ip),
            Hosts::Name(_) | Hosts::Below(_) => false,
        })
    }
}

/// What is not the public Internet [RFC 6890 and its registries].
const SPECIAL_V4: [(Ipv4Addr, u32); 15] = [
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    (Ipv4Addr::new(240, 0, 0, 0), 4),
];

/// Within 2000::/3, the only public part of IPv6: Teredo and 6to4, which lead to any IPv4 address,
/// what is set aside for protocols, and documentation.
const SPECIAL_V6: [(Ipv6Addr, u32); 4] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let within =
                |&(net, bits): &(Ipv4Addr, u32)| (ip.to_bits() ^ net.to_bits()) >> (32 - bits) == 0;
            !SPECIAL_V4.iter().any(within)
        }
        IpAddr::V6(ip) => {
            let within = |&(net, bits): &(Ipv6Addr, u32)| {
                (ip.to_bits() ^ net.to_bits()) >> (128 - bits) == 0
            };
            ip.segments()[0] >> 13 == 1 && !SPECIAL_V6.iter().any(within)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rules: &[&str]) -> AllowList {
        AllowList::new(rules.iter().map(|rule| rule.parse().unwrap()).collect())
    }

    fn nobody(_: IpAddr) -> bool {
        false
    }

    fn everybody(_: IpAddr) -> bool {
        true
    }

    #[test]
    fn an_address_of_this_machine_is_not_the_public_internet_and_allowed_only_by_name() {
        let ours: IpAddr = "8.8.8.8".parse().unwrap();
        let is_ours = |ip| ip == ours;
        let public = list(&[]);
        assert!(
            !public.admits_ip(ours, 80, is_ours)
                && public.admits_ip("8.8.4.4".parse().unwrap(), 80, is_ours)
        );
        for rule in ["8.8.8.8:80", "8.8.8.0/24", "any"] {
            assert!(list(&["public", rule]).admits_ip(ours, 80, is_ours), "{rule}");
        }
    }

    #[test]
    fn without_rules_only_the_public_internet_is_allowed() {
        let list = list(&[]);
        for ip in ["1.1.1.1", "2606:4700::1111", "172.32.0.1", "::ffff:8.8.8.8", "100.128.0.1"] {
            assert!(list.admits_ip(ip.parse().unwrap(), 80, nobody), "{ip}");
        }
        for ip in [
            "127.0.0.1",
            "127.255.255.255",
            "10.1.2.3",
            "172.31.0.1",
            "192.168.1.1",
            "0.0.0.0",
            "169.254.169.254",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "::127.0.0.1",
        ] {
            assert!(!list.admits_ip(ip.parse().unwrap(), 80, nobody), "{ip}");
        }
        // A name is judged by its addresses.
        assert!(!list.admits_name("example.org", 80));
    }

    #[test]
    fn rules_name_networks_names_and_ports() {
        let list = list(&[
            "10.0.0.0/8:22",
            "[fd00::/8]:8000-8080",
            "db.example.org:5432",
            "*.example.com",
            "192.168.1.1",
            "2001:db8::1",
        ]);
        let ip = |text: &str, port| list.admits_ip(text.parse().unwrap(), port, nobody);
        assert!(ip("10.9.9.9", 22) && !ip("10.9.9.9", 23) && !ip("11.0.0.1", 22));
        assert!(ip("fd00::1", 8000) && ip("fd00::1", 8080) && !ip("fd00::1", 8081));
        assert!(ip("192.168.1.1", 1) && !ip("192.168.1.2", 1) && ip("2001:db8::1", 9));
        assert!(!ip("1.1.1.1", 80), "the list is all there is");
        let name = |text, port| list.admits_name(text, port);
        assert!(name("db.example.org", 5432) && name("DB.example.org.", 5432));
        assert!(!name("db.example.org", 80) && !name("xdb.example.org", 5432));
        assert!(name("a.example.com", 1) && name("a.b.example.com", 1));
        for other in ["example.com", "notexample.com", ".example.com", "example.com.evil.org"] {
            assert!(!name(other, 1), "{other}");
        }
    }

    #[test]
    fn what_an_operator_may_write_otherwise_is_no_rule_that_never_matches() {
        let ip = |rule, ip: &str| list(&[rule]).admits_ip(ip.parse().unwrap(), 80, nobody);
        assert!(ip("ANY", "10.0.0.1") && ip("Public:80", "8.8.8.8") && !ip("Public", "10.0.0.1"));
        assert!(ip("::ffff:10.0.0.0/104", "10.9.9.9") && !ip("::ffff:10.0.0.0/104", "11.0.0.1"));
        assert!(ip("::/0", "2600::1") && !ip("::/0", "10.0.0.1"));
    }

    #[test]
    fn a_name_that_no_rule_could_admit_need_not_be_resolved() {
        let list = list(&["10.0.0.0/8:22", "db.example.org:5432"]);
        assert!(list.admits_addresses(22), "it may be in the network");
        assert!(!list.admits_addresses(5432), "only by that name");
        assert!(!list.admits_addresses(80));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_a_reason() {
        for text in [
            "",
            ":80",
            "a:0",
            "a:9-8",
            "a:x",
            "10.0.0.0/33",
            "[::1",
            "[::1]80",
            "*.",
            "*.1.1.1.1",
            "10.0.0.1-10.0.0.9",
            "a b",
        ] {
            assert!(text.parse::<Rule>().is_err(), "{text}");
        }
        assert!(list(&["any"]).admits_ip("127.0.0.1".parse().unwrap(), 22, everybody));
        assert!(list(&["any:22"]).admits_name("x", 22) && !list(&["any:22"]).admits_name("x", 23));
    }
}
