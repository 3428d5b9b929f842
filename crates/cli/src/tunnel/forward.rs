//! Where programs find the tunnel: `-L`, `-D`, `--transparent` as they are typed, and the sockets
//! behind them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use tokio::net::TcpListener;

use super::sockets::listener;
use super::target::{Host, Target};
use crate::net::OwnAddress;
use tack_net::HostPort;

/// `[BIND:]PORT`: where programs connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Local {
    /// Which of our addresses; `None` is this machine only.
    bind: Option<Bind>,
    /// Which port; 0 is any.
    pub port: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Bind {
    All,
    Ip(OwnAddress),
}

/// `[BIND:]PORT:HOST:PORT`: a port that leads to one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortForward {
    /// Where programs connect to.
    pub local: Local,
    /// Where they get.
    pub target: Target,
}

/// Text that is neither.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// Not enough parts, or too many.
    #[error("`{0}` is no forward; write [BIND:]PORT:HOST:PORT, IPv6 addresses in brackets")]
    Parts(String),
    /// A port that is none.
    #[error("`{0}` is no port; ports are numbers up to 65535")]
    Port(String),
    /// An address that is none.
    #[error("{0}; write an address, localhost or *")]
    Bind(String),
    /// A host that is none.
    #[error("{0}")]
    Host(String),
}

impl FromStr for Local {
    type Err = ForwardError;

    fn from_str(text: &str) -> Result<Local, ForwardError> {
        let (bind, port) = match text.rsplit_once(':') {
            Some((bind, port)) => (Some(bind), port),
            None => (None, text),
        };
        let port = port.parse().map_err(|_| ForwardError::Port(port.to_owned()))?;
        let bind = match bind {
            None | Some("localhost") => None,
            Some("" | "*") => Some(Bind::All),
            Some(address) => {
                let own = address.parse::<OwnAddress>();
                let own = own.map_err(|e| ForwardError::Bind(e.to_string()))?;
                // Without brackets its last part would be a port.
                if own.ip().is_ipv6() && !address.starts_with('[') {
                    let why = format!("`{address}` needs brackets before a port");
                    return Err(ForwardError::Bind(why));
                }
                Some(Bind::Ip(own))
            }
        };
        Ok(Local { bind, port })
    }
}

impl std::fmt::Display for Local {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bind {
            Some(Bind::Ip(own)) => own.port(self.port).fmt(f),
            Some(Bind::All) | None => write!(f, "port {}", self.port),
        }
    }
}

impl FromStr for PortForward {
    type Err = ForwardError;

    fn from_str(text: &str) -> Result<PortForward, ForwardError> {
        // From the right: the target's port, its host, and the rest is ours.
        let parts = || ForwardError::Parts(text.to_owned());
        let (front, port) = text.rsplit_once(':').ok_or_else(parts)?;
        let (local, host) = match front.strip_suffix(']') {
            // The bracket stays: it says that an IPv6 address is meant.
            Some(inner) => {
                let at = inner.rfind('[').ok_or_else(parts)?;
                (front[..at].strip_suffix(':').ok_or_else(parts)?, &front[at..])
            }
            None => front.rsplit_once(':').ok_or_else(parts)?,
        };
        let target = HostPort::parse(&format!("{host}:{port}"), 0);
        let target = target.map_err(|e| ForwardError::Host(e.to_string()))?;
        let host = Host::parse(&target.name).map_err(|e| ForwardError::Host(e.to_string()))?;
        Ok(PortForward { local: local.parse()?, target: Target::new(host, target.port) })
    }
}

impl Local {
    /// This port of all addresses.
    pub fn everywhere(port: u16) -> Local {
        Local { bind: Some(Bind::All), port }
    }

    /// Listens: on both loopback addresses where there is no other, as far as the system has them.
    ///
    /// # Errors
    /// The address is taken or not ours.
    pub fn listen(&self) -> io::Result<Vec<TcpListener>> {
        match self.bind {
            Some(Bind::Ip(ip)) => Ok(vec![listener(ip.port(self.port))?]),
            Some(Bind::All) => match listener((Ipv6Addr::UNSPECIFIED, self.port).into()) {
                // It takes IPv4 as well.
                Ok(both) => Ok(vec![both]),
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => Err(e),
                Err(_) => Ok(vec![listener((Ipv4Addr::UNSPECIFIED, self.port).into())?]),
            },
            None => {
                let four = listener((Ipv4Addr::LOCALHOST, self.port).into())?;
                let port = four.local_addr()?.port();
                let six = match listener((Ipv6Addr::LOCALHOST, port).into()) {
                    // Who says localhost would reach another program.
                    Err(e) if self.port != 0 && e.kind() == io::ErrorKind::AddrInUse => {
                        return Err(e);
                    }
                    six => six.ok(),
                };
                Ok([Some(four), six].into_iter().flatten().collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read_as_ssh_reads_them() {
        let local = |bind, port| Local { bind, port };
        let ip = |text: &str| Some(Bind::Ip(text.parse().unwrap()));
        for (text, expected, target) in [
            ("8080:host:80", local(None, 8080), "host:80"),
            ("localhost:8080:host:80", local(None, 8080), "host:80"),
            ("*:8080:10.0.0.1:80", local(Some(Bind::All), 8080), "10.0.0.1:80"),
            (":8080:10.0.0.1:80", local(Some(Bind::All), 8080), "10.0.0.1:80"),
            ("127.0.0.2:1:[::1]:22", local(ip("127.0.0.2"), 1), "[::1]:22"),
            ("[::1]:0:[2001:db8::1]:22", local(ip("::1"), 0), "[2001:db8::1]:22"),
            ("[fe80::1%1]:0:host:22", local(ip("fe80::1%1"), 0), "host:22"),
        ] {
            let forward: PortForward = text.parse().unwrap();
            assert_eq!((&forward.local, forward.target.to_string().as_str()), (&expected, target));
        }
    }

    #[tokio::test]
    async fn a_port_that_another_program_has_on_one_loopback_address_is_taken() {
        let Ok(other) = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await else { return };
        let port = other.local_addr().unwrap().port();
        let local = Local { bind: None, port };
        assert_eq!(local.listen().unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn what_is_no_forward_is_refused_with_a_reason() {
        for text in [
            "",
            "80",
            "8080:host",
            "8080:host:",
            "8080::80",
            "x:host:80",
            "::1:80:host:80",
            "8080:host:0",
            "8080:[host]:80",
            "1:2:3:4:5",
            "8080:a b:80",
            "70000:host:80",
        ] {
            assert!(text.parse::<PortForward>().is_err(), "{text}");
        }
        assert!("1080".parse::<Local>().is_ok() && "*:1080".parse::<Local>().is_ok());
        assert!("::1:1080".parse::<Local>().is_err() && "x:1080".parse::<Local>().is_err());
    }

    #[test]
    fn a_zone_is_taken_of_an_address_of_ours_and_refused_with_a_reason_of_a_target() {
        assert!("[fe80::1%1]:1080".parse::<Local>().is_ok());
        let refused = "[fe80::1%no-such-interface]:1080".parse::<Local>().unwrap_err();
        assert!(refused.to_string().contains("no network interface"), "{refused}");
        let refused = "8080:[fe80::1%lo]:80".parse::<PortForward>().unwrap_err();
        assert!(refused.to_string().contains("the server's own"), "{refused}");
    }
}
