//! Addresses with the length of their network's prefix.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

/// An address and how many of its leading bits name its network: `10.7.0.1/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    addr: IpAddr,
    bits: u8,
}

/// Why a text is no [`Prefix`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("expected ADDRESS/BITS, such as 10.7.0.2/24 or fd07::2/64")]
pub struct PrefixError;

impl Prefix {
    /// `None` if the address has fewer than `bits` bits.
    pub fn new(addr: IpAddr, bits: u8) -> Option<Prefix> {
        (bits <= width(addr)).then_some(Prefix { addr, bits })
    }

    /// The address, host bits and all.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// Length of the network's part in bits.
    pub fn bits(&self) -> u8 {
        self.bits
    }

    /// Whether `other` is an address of the network.
    pub fn contains(&self, other: IpAddr) -> bool {
        self.addr.is_ipv4() == other.is_ipv4() && self.network() == self.network_of(other)
    }

    /// The first address of the network that a host may have and that is not ours: the kernel's
    /// end of a TUN unless it is told another. `None` if the network has no two such addresses.
    pub fn first_other(&self) -> Option<IpAddr> {
        let hosts = width(self.addr) - self.bits;
        // The two addresses of a /31 or /127 are both hosts [RFC 3021, RFC 6164]; else the first
        // names the network (IPv4) or its routers (IPv6), and IPv4's last is everybody.
        let first = match hosts {
            0 => return None,
            1 => 0,
            _ => 1,
        };
        let candidate = |host: u128| self.with_bits(self.network() | host);
        let other = [first, first + 1].map(candidate).into_iter().find(|a| *a != self.addr)?;
        self.contains(other).then_some(other)
    }

    fn network(&self) -> u128 {
        self.network_of(self.addr)
    }

    fn network_of(&self, addr: IpAddr) -> u128 {
        let number = match addr {
            IpAddr::V4(v4) => v4.to_bits().into(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let hosts = u32::from(width(addr).saturating_sub(self.bits));
        number.checked_shr(hosts).unwrap_or(0).checked_shl(hosts).unwrap_or(0)
    }

    fn with_bits(&self, number: u128) -> IpAddr {
        match self.addr {
            IpAddr::V4(_) => Ipv4Addr::from_bits(number as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(number).into(),
        }
    }
}

/// Bits of an address.
fn width(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.bits)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Prefix, PrefixError> {
        let (addr, bits) = text.split_once('/').ok_or(PrefixError)?;
        let addr = addr.parse().map_err(|_| PrefixError)?;
        Prefix::new(addr, bits.parse().map_err(|_| PrefixError)?).ok_or(PrefixError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn text_is_read_and_written() {
        for text in ["10.7.0.1/24", "0.0.0.0/0", "fd07::2/64", "::/0", "10.0.0.1/32"] {
            assert_eq!(prefix(text).to_string(), text);
        }
        for text in ["10.7.0.1", "10.7.0.1/33", "10.7.0.1/-1", "::/129", "a/8", "10.0.0.1/", "/8"] {
            assert_eq!(text.parse::<Prefix>(), Err(PrefixError), "{text}");
        }
    }

    #[test]
    fn a_network_contains_its_addresses_only() {
        let net = prefix("10.7.0.2/24");
        assert!(net.contains([10, 7, 0, 255].into()));
        assert!(!net.contains([10, 7, 1, 2].into()));
        assert!(!net.contains("::1".parse().unwrap()));
        assert!(prefix("::/0").contains("fd07::1".parse().unwrap()));
        assert!(prefix("0.0.0.0/0").contains([255, 255, 255, 255].into()));
        assert!(!prefix("fd07::1/128").contains("fd07::2".parse().unwrap()));
    }

    #[test]
    fn the_other_end_is_the_first_host_that_is_not_us() {
        let other = |text| prefix(text).first_other().map(|a| a.to_string());
        assert_eq!(other("10.7.0.2/24").as_deref(), Some("10.7.0.1"));
        assert_eq!(other("10.7.0.1/24").as_deref(), Some("10.7.0.2"));
        assert_eq!(other("10.7.0.9/29").as_deref(), Some("10.7.0.10"));
        assert_eq!(other("10.7.0.4/31").as_deref(), Some("10.7.0.5"));
        assert_eq!(other("10.7.0.5/31").as_deref(), Some("10.7.0.4"));
        assert_eq!(other("10.7.0.5/32"), None);
        assert_eq!(other("fd07::2/64").as_deref(), Some("fd07::1"));
        assert_eq!(other("fd07::1/126").as_deref(), Some("fd07::2"));
    }
}
