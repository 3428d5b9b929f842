//! Where a stream leads to: a name or an address, and a port.
//!
//! On the wire as SOCKS has it [RFC 1928 §5]: a type (1 IPv4, 3 name, 4 IPv6), the address, the port
//! in network order.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Most bytes of a target on the wire.
pub const MAX_TARGET_BYTES: usize = 1 + 1 + 255 + 2;

/// A name or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// An address; never an IPv4 address mapped into IPv6.
    Ip(IpAddr),
    /// A name, to be resolved at the far end: 1 to 255 letters, digits, `-`, `_` and `.`.
    Name(String),
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Which host.
    pub host: Host,
    /// Which port.
    pub port: u16,
}

/// Why bytes or text are no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// No type of address that SOCKS knows.
    #[error("{0} is no type of address; 1 is IPv4, 3 a name, 4 IPv6")]
    BadType(u8),
    /// Characters that no name of a host has, or too many of them.
    #[error("`{0}` is no name of a host")]
    BadName(String),
    /// An address with a zone, which SOCKS and HTTP have no place for.
    #[error(
        "`{0}`: what follows the % is an interface of the server's own, which no stream can say; \
         write a name that it resolves, or an address without a zone"
    )]
    Zone(String),
}

impl Host {
    /// A name or an address as text, without brackets.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<Host, TargetError> {
        if let Ok(ip) = text.parse::<IpAddr>() {
            return Ok(Host::Ip(ip.to_canonical()));
        }
        if let Some((address, _)) = text.split_once('%')
            && address.parse::<Ipv6Addr>().is_ok()
        {
            return Err(TargetError::Zone(text.chars().flat_map(char::escape_default).collect()));
        }
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        // What ends in a number is an address written wrongly, which some resolvers would read in ways of
        // their own: `127.1`, `0x7f.1`; or a range of addresses.
        let last = text.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
        let digits = last.strip_prefix("0x").or(last.strip_prefix("0X"));
        let is_name = match digits {
            Some(digits) => digits.bytes().any(|b| !b.is_ascii_hexdigit()),
            None => last.bytes().any(|b| !b.is_ascii_digit()),
        };
        if (1..=255).contains(&text.len()) && text.bytes().all(fits) && is_name {
            Ok(Host::Name(text.to_ascii_lowercase()))
        } else {
            Err(TargetError::BadName(
                text.chars().take(255).flat_map(char::escape_default).collect(),
            ))
        }
    }
}

impl Target {
    /// This host and port.
    pub fn new(host: Host, port: u16) -> Target {
        Target { host, port }
    }

    /// Appends it to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match &self.host {
            Host::Ip(IpAddr::V4(ip)) => {
                out.push(IPV4);
                out.extend(ip.octets());
            }
            Host::Ip(IpAddr::V6(ip)) => {
                out.push(IPV6);
                out.extend(ip.octets());
            }
            Host::Name(name) => {
                let length = u8::try_from(name.len()).expect("a name is 255 bytes at most");
                out.extend([NAME, length]);
                out.extend(name.bytes());
            }
        }
        out.extend(self.port.to_be_bytes());
    }

    /// The target that `bytes` begin with and how many of them it takes; `None` if more are needed.
    ///
    /// # Errors
    /// They begin with none.
    pub fn read(bytes: &[u8]) -> Result<Option<(Target, usize)>, TargetError> {
        let Some((&kind, rest)) = bytes.split_first() else { return Ok(None) };
        let (host, used) = match kind {
            IPV4 => match rest.first_chunk::<4>() {
                Some(octets) => (Host::Ip(Ipv4Addr::from(*octets).into()), 4),
                None => return Ok(None),
            },
            IPV6 => match rest.first_chunk::<16>() {
                Some(octets) => {
                    (Host::Ip(IpAddr::from(Ipv6Addr::from(*octets)).to_canonical()), 16)
                }
                None => return Ok(None),
            },
            NAME => {
                let Some((&length, rest)) = rest.split_first() else { return Ok(None) };
                let length = usize::from(length);
                let Some(name) = rest.get(..length) else { return Ok(None) };
                (Host::parse(&String::from_utf8_lossy(name))?, 1 + length)
            }
            kind => return Err(TargetError::BadType(kind)),
        };
        let Some(port) = rest[used..].first_chunk::<2>() else { return Ok(None) };
        Ok(Some((Target::new(host, u16::from_be_bytes(*port)), 1 + used + 2)))
    }
}

impl From<SocketAddr> for Target {
    fn from(address: SocketAddr) -> Target {
        Target::new(Host::Ip(address.ip().to_canonical()), address.port())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Ip(ip) => SocketAddr::new(*ip, self.port).fmt(f),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_every_beginning_of_it_asks_for_more() {
        for (host, shown) in [
            ("10.0.0.1", "10.0.0.1:80"),
            ("2001:db8::1", "[2001:db8::1]:80"),
            ("Example.org", "example.org:80"),
            ("::ffff:10.0.0.1", "10.0.0.1:80"),
        ] {
            let target = Target::new(Host::parse(host).unwrap(), 80);
            assert_eq!(target.to_string(), shown);
            let mut bytes = Vec::new();
            target.write(&mut bytes);
            assert!(bytes.len() <= MAX_TARGET_BYTES);
            for end in 0..bytes.len() {
                assert_eq!(Target::read(&bytes[..end]), Ok(None), "{shown}, {end}");
            }
            let length = bytes.len();
            bytes.push(7);
            assert_eq!(Target::read(&bytes), Ok(Some((target, length))));
        }
    }

    #[test]
    fn what_no_resolver_should_see_is_no_name() {
        for text in ["", "a b", "a\nb", "a/b", "127.1", "2130706433", "ü", &"a".repeat(256)] {
            assert!(matches!(Host::parse(text), Err(TargetError::BadName(_))), "{text}");
        }
        for text in ["0x7f000001", "0X7F.1", "127.0x1", "10.0.0.1-10.0.0.9", "10.0.0.1.", ".", "0x"]
        {
            assert!(matches!(Host::parse(text), Err(TargetError::BadName(_))), "{text}");
        }
        for text in ["1and1.com", "10.in-addr.arpa", "web-1", "0xg", "127.0.0.1.example.", "_a"] {
            assert!(matches!(Host::parse(text), Ok(Host::Name(_))), "{text}");
        }
        assert_eq!(Target::read(&[2]), Err(TargetError::BadType(2)));
        // An IPv4 address that says it is IPv6 is judged as what it is.
        let mapped = [&[4][..], &"::ffff:127.0.0.1".parse::<Ipv6Addr>().unwrap().octets(), &[0, 1]];
        let (read, _) = Target::read(&mapped.concat()).unwrap().unwrap();
        assert_eq!(read, Target::new(Host::Ip(Ipv4Addr::LOCALHOST.into()), 1));
    }
}
