//! `HOST[:PORT]` as users write it.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

/// A host and a port: `example.org:80`, `10.0.0.1:80`, `[fd00::1]:80`, `[fe80::1%eth0]:80`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// DNS name or address, without brackets.
    pub name: String,
    /// Port.
    pub port: u16,
}

/// Why text is no `HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Nothing before the port.
    #[error("`{0}` has no host; write HOST or HOST:PORT")]
    NoHost(String),
    /// The port is no number from 1 to 65535.
    #[error("`{0}` is no port; ports are numbers from 1 to 65535")]
    BadPort(String),
    /// A bracket is missing.
    #[error("`{0}` is no IPv6 address in brackets; write [ADDRESS]:PORT")]
    BadBrackets(String),
    /// A link-local address means nothing without its link [RFC 4007 §11].
    #[error("`{0}` is on every link: say which one, as in `{0}%eth0`")]
    NoZone(Ipv6Addr),
    /// There is no port, and none to take instead.
    #[error("`{0}` has no port; write HOST:PORT")]
    NoPort(String),
}

impl HostPort {
    /// Reads `HOST`, `HOST:PORT`, `[V6]`, `[V6]:PORT` or a bare IPv6 address.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn parse(text: &str, default_port: u16) -> Result<Self, HostError> {
        let with = |name: &str, port| Ok(HostPort { name: name.to_owned(), port });
        if let Some(rest) = text.strip_prefix('[') {
            let (name, after) =
                rest.split_once(']').ok_or_else(|| HostError::BadBrackets(text.to_owned()))?;
            if !is_ipv6(name)? {
                return Err(HostError::BadBrackets(text.to_owned()));
            }
            return match after.strip_prefix(':') {
                Some(port) => with(name, parse_port(port)?),
                None if after.is_empty() => with(name, default_port),
                None => Err(HostError::BadBrackets(text.to_owned())),
            };
        }
        if is_ipv6(text)? {
            return with(text, default_port);
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => (name, parse_port(port)?),
            None => (text, default_port),
        };
        if name.is_empty() {
            return Err(HostError::NoHost(text.to_owned()));
        }
        with(name, port)
    }
}

/// As [`HostPort::parse`], where a port must be said.
impl FromStr for HostPort {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let host = HostPort::parse(text, 0)?;
        if host.port == 0 {
            return Err(HostError::NoPort(text.to_owned()));
        }
        Ok(host)
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// Whether it is an IPv6 address, with a zone perhaps: `fe80::1%eth0`.
fn is_ipv6(text: &str) -> Result<bool, HostError> {
    let (address, zone) = text.split_once('%').map_or((text, ""), |(ip, zone)| (ip, zone));
    match address.parse::<Ipv6Addr>() {
        Ok(ip) if ip.is_unicast_link_local() && zone.is_empty() => Err(HostError::NoZone(ip)),
        parsed => Ok(parsed.is_ok()),
    }
}

fn parse_port(text: &str) -> Result<u16, HostError> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(HostError::BadPort(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_as_users_write_them() {
        for (text, name, port) in [
            ("example.org", "example.org", 7),
            ("example.org:80", "example.org", 80),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("::1", "::1", 7),
            ("[::1]", "::1", 7),
            ("fe80::1%lo", "fe80::1%lo", 7),
            ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535),
        ] {
            let read = HostPort::parse(text, 7).unwrap();
            assert_eq!((read.name.as_str(), read.port), (name, port), "{text}");
            assert_eq!(HostPort::parse(&read.to_string(), 9), Ok(read));
        }
    }

    #[test]
    fn without_a_default_the_port_must_be_said() {
        assert_eq!("[::1]:80".parse(), Ok(HostPort { name: "::1".to_owned(), port: 80 }));
        for text in ["example.org", "::1", "[::1]"] {
            assert_eq!(text.parse::<HostPort>(), Err(HostError::NoPort(text.to_owned())));
        }
    }

    #[test]
    fn an_address_of_one_link_has_to_say_of_which() {
        for text in ["fe80::1", "[fe80::1]:80", "fe80::1%"] {
            let ip = "fe80::1".parse().unwrap();
            assert_eq!(HostPort::parse(text, 7), Err(HostError::NoZone(ip)), "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused_with_a_reason() {
        for text in ["", ":80", "h:0", "h:65536", "h:http", "[::1", "[::1]80", "[h]:1"] {
            assert!(HostPort::parse(text, 7).is_err(), "{text}");
        }
    }
}
