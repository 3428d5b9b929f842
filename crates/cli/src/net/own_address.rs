//! An address of this machine as users write it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// `10.0.0.1`, `fd00::1`, `fe80::1%eth0`; IPv6 in brackets or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnAddress(SocketAddr);

/// Text that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnAddressError {
    /// Neither IPv4 nor IPv6.
    #[error("`{0}` is no address to listen on or to connect from")]
    Syntax(String),
    /// What follows the % is no network interface [RFC 4007 §11.2].
    #[error("`{0}` names no network interface of this machine after its %")]
    Zone(String),
}

impl OwnAddress {
    /// Without its zone.
    pub fn ip(self) -> IpAddr {
        self.0.ip()
    }

    /// A port of it.
    pub fn port(self, port: u16) -> SocketAddr {
        let mut address = self.0;
        address.set_port(port);
        address
    }
}

impl From<IpAddr> for OwnAddress {
    fn from(ip: IpAddr) -> OwnAddress {
        OwnAddress(SocketAddr::new(ip, 0))
    }
}

impl FromStr for OwnAddress {
    type Err = OwnAddressError;

    fn from_str(text: &str) -> Result<OwnAddress, OwnAddressError> {
        let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let bare = inner.unwrap_or(text);
        if let Ok(ip) = bare.parse::<IpAddr>()
            && (inner.is_none() || ip.is_ipv6())
        {
            return Ok(ip.into());
        }
        let syntax = || OwnAddressError::Syntax(text.to_owned());
        let (address, _zone) = bare.split_once('%').ok_or_else(syntax)?;
        address.parse::<Ipv6Addr>().map_err(|_| syntax())?;
        // The system knows its interfaces; an address is no question to any name server.
        let found = (bare, 0).to_socket_addrs().ok().and_then(|mut found| found.next());
        found.map(OwnAddress).ok_or_else(|| OwnAddressError::Zone(text.to_owned()))
    }
}

impl fmt::Display for OwnAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => write!(f, "{}%{}", v6.ip(), v6.scope_id()),
            other => other.ip().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_brackets_and_zones() {
        for text in ["10.0.0.1", "::1", "[fd00::1]"] {
            let ip = text.trim_matches(['[', ']']).parse::<IpAddr>().unwrap();
            assert_eq!(text.parse::<OwnAddress>().unwrap().port(7), SocketAddr::new(ip, 7));
        }
        for text in ["", "host", "[10.0.0.1]", "[::1", "10.0.0.1%1", "%1", "host%1"] {
            assert_eq!(text.parse::<OwnAddress>(), Err(OwnAddressError::Syntax(text.to_owned())));
        }
        let nowhere = "fe80::1%no-such-interface";
        assert_eq!(nowhere.parse::<OwnAddress>(), Err(OwnAddressError::Zone(nowhere.to_owned())));
    }

    #[test]
    fn a_link_local_address_keeps_its_zone() {
        for text in ["fe80::1%1", "[fe80::1%1]"] {
            let own = text.parse::<OwnAddress>().unwrap();
            let SocketAddr::V6(socket) = own.port(7) else { panic!("{own}") };
            assert_eq!((socket.port(), socket.scope_id()), (7, 1));
            assert_eq!(own.to_string(), "fe80::1%1");
        }
    }
}
