//! Where connections come from, where the user has a say in it.

use std::net::{IpAddr, SocketAddr};

use super::{OwnAddress, unspecified};

/// A version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Version 4.
    V4,
    /// Version 6.
    V6,
}

impl Family {
    /// Whether the address is of it.
    pub fn has(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == (self == Family::V4)
    }
}

/// The client's own end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// `None` takes the family of the first address found.
    pub family: Option<Family>,
    /// `None` lets the kernel choose.
    pub address: Option<OwnAddress>,
    /// Zero lets the kernel choose.
    pub port: u16,
    /// Differentiated services codepoint of what is sent, 6 bits.
    pub dscp: u8,
}

impl Origin {
    /// Whether a peer can be reached from there.
    pub(super) fn reaches(&self, peer: IpAddr) -> bool {
        self.family.is_none_or(|family| family.has(peer))
            && self.address.is_none_or(|ours| ours.ip().is_ipv4() == peer.is_ipv4())
    }

    /// What the socket is bound to.
    pub(super) fn local(&self, peer: SocketAddr) -> SocketAddr {
        self.address.unwrap_or(unspecified(peer.is_ipv6()).into()).port(self.port)
    }
}
