//! Which networks are this machine's own business: those that it has a way to other than the one to everywhere else.
//!
//! What it redirected of them would come back to it through the far end, and be redirected again, without end.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use tack_device::Prefix;

/// What is shorter is a way to everywhere, whoever has divided it: `0.0.0.0/1` of a VPN, `2000::/3`.
const LEAST_BITS: u8 = 8;

/// A line of the kernel's table of routes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Route {
    network: Prefix,
    /// The interface, and the router there if there is one.
    way: (String, IpAddr),
}

/// The networks behind routes of their own, in order.
///
/// # Errors
/// The kernel's tables cannot be read.
pub fn own_networks() -> io::Result<Vec<Prefix>> {
    let v4 = std::fs::read_to_string("/proc/net/route")?;
    // Where there is no IPv6, it has no table.
    let v6 = match std::fs::read_to_string("/proc/net/ipv6_route") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read?,
    };
    let routes = v4.lines().filter_map(ipv4).chain(v6.lines().filter_map(ipv6));
    Ok(own(&routes.collect::<Vec<_>>()))
}

fn own(routes: &[Route]) -> Vec<Prefix> {
    let defaults = |route: &&Route| route.network.bits() == 0;
    let elsewhere = |route: &&Route| {
        !routes.iter().filter(defaults).any(|default| default.way == route.way)
            && route.network.bits() >= LEAST_BITS
    };
    let mut own: Vec<Prefix> = routes.iter().filter(elsewhere).map(|r| r.network).collect();
    own.sort();
    own.dedup();
    own
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask ...`: addresses as the machine's numbers, in hexadecimal.
fn ipv4(line: &str) -> Option<Route> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [interface, destination, router, _, _, _, _, mask, ..] = fields[..] else { return None };
    let address =
        |text| u32::from_str_radix(text, 16).ok().map(|n| Ipv4Addr::from(n.to_ne_bytes()));
    let bits = u8::try_from(address(mask)?.to_bits().leading_ones()).ok()?;
    let network = Prefix::new(address(destination)?.into(), bits)?;
    Some(Route { network, way: (interface.to_owned(), address(router)?.into()) })
}

/// `destination bits source bits router metric refcnt use flags iface`, all of it in hexadecimal.
fn ipv6(line: &str) -> Option<Route> {
    const REJECT: u32 = 0x200;
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [destination, bits, _, _, router, _, _, _, flags, interface] = fields[..] else {
        return None;
    };
    let address = |text| u128::from_str_radix(text, 16).ok().map(Ipv6Addr::from_bits);
    let bits = u8::from_str_radix(bits, 16).ok()?;
    // On `lo` the kernel keeps our own addresses, which rules know by another name, and a way to nowhere for
    // everything; but also what was given to us and is not in use.
    let refuses = u32::from_str_radix(flags, 16).ok()? & REJECT != 0;
    if interface == "lo" && (!refuses || bits == 0) {
        return None;
    }
    let network = Prefix::new(address(destination)?.into(), bits)?;
    Some(Route { network, way: (interface.to_owned(), address(router)?.into()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel of a machine of little-endian numbers writes it.
    fn table_v4(routes: &[(&str, &str, &str, u8)]) -> Vec<Route> {
        let number = |text: &str| u32::from_ne_bytes(text.parse::<Ipv4Addr>().unwrap().octets());
        let lines = routes.iter().map(|(interface, network, router, bits)| {
            let mask = u32::from_ne_bytes(
                u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0).to_be_bytes(),
            );
            let (network, router) = (number(network), number(router));
            format!("{interface}\t{network:08X}\t{router:08X}\t0003\t0\t0\t0\t{mask:08X}\t0\t0\t0 ")
        });
        let title =
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT "
                .to_owned();
        std::iter::once(title).chain(lines).filter_map(|line| ipv4(&line)).collect()
    }

    fn shown(routes: &[Route]) -> Vec<String> {
        own(routes).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_has_a_way_of_its_own_is_ours_and_what_goes_where_all_goes_is_not() {
        let routes = table_v4(&[
            ("wan0", "0.0.0.0", "198.51.100.1", 0),
            ("wan0", "198.51.100.0", "0.0.0.0", 24),
            ("lan0", "203.0.113.0", "0.0.0.0", 25),
            ("lan0", "192.0.2.0", "203.0.113.2", 24),
            ("wan0", "100.100.0.0", "198.51.100.1", 16),
            ("tun0", "0.0.0.0", "10.8.0.1", 1),
            ("tun0", "128.0.0.0", "10.8.0.1", 1),
        ]);
        assert_eq!(routes.len(), 7);
        assert_eq!(shown(&routes), ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/25"]);
    }

    #[test]
    fn of_ipv6_a_network_that_was_given_to_us_and_is_not_in_use_is_ours_too() {
        let zero = "00000000000000000000000000000000";
        let line = |network: &str, bits: u8, router: &str, flags: u32, interface: &str| {
            format!(
                "{network} {bits:02x} {zero} 00 {router} 00000400 00000001 00000000 {flags:08x} {interface:>8}"
            )
        };
        let router = "fe800000000000000000000000000001";
        let routes: Vec<Route> = [
            line(zero, 0, router, 0x3, "wan0"),
            line("20010db8000100020000000000000000", 64, zero, 0x1, "lan0"),
            line("20010db8000100000000000000000000", 48, zero, 0x201, "lo"),
            line("20010db8000100020000000000000001", 128, zero, 0x8020_0001, "lo"),
            line(zero, 0, zero, 0x20_0200, "lo"),
        ]
        .iter()
        .filter_map(|line| ipv6(line))
        .collect();
        assert_eq!(shown(&routes), ["2001:db8:1::/48", "2001:db8:1:2::/64"]);
    }
}
