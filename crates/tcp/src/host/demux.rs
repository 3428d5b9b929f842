//! Which connection a segment belongs to.

use core::hash::BuildHasher;
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher13;

use crate::config::{Encapsulation, HostConfig};
use crate::conn::{Framing, IpFraming};

/// What tells connections of one host apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Over UDP the datagram's source; over IP the peer's address with port 0.
    pub(crate) path: SocketAddr,
    pub(crate) remote_port: u16,
    pub(crate) local_port: u16,
    /// Unspecified over UDP, where the socket's address is not known here.
    pub(crate) local_ip: IpAddr,
}

impl Key {
    /// Where what is for this peer goes.
    pub(crate) fn address(&self, encapsulation: &Encapsulation) -> SocketAddr {
        match encapsulation {
            Encapsulation::Udp => self.path,
            Encapsulation::Ip { .. } => SocketAddr::new(self.path.ip(), self.remote_port),
        }
    }

    /// What goes around its segments, checksums filled in.
    pub(crate) fn framing(&self, config: &HostConfig, flow_label: u32) -> Framing {
        match &config.encapsulation {
            Encapsulation::Udp => Framing::Bare,
            Encapsulation::Ip { .. } => Framing::Ip(IpFraming {
                src: self.local_ip,
                dst: self.path.ip(),
                hop_limit: config.ip.hop_limit,
                dscp: 0,
                flow_label,
                offload: false,
                partial: false,
            }),
        }
    }

    /// Some peer's, told apart by its port.
    #[cfg(test)]
    pub(crate) fn of_port(port: u16) -> Key {
        Key {
            path: ([10, 0, 0, 1], port).into(),
            remote_port: port,
            local_port: 80,
            local_ip: [0, 0, 0, 0].into(),
        }
    }

    /// As bytes, for keyed hashes.
    pub(crate) fn bytes(&self) -> [u8; 40] {
        let mut out = [0; 40];
        out[..16].copy_from_slice(&v6_octets(self.path.ip()));
        out[16..32].copy_from_slice(&v6_octets(self.local_ip));
        out[32..34].copy_from_slice(&self.path.port().to_be_bytes());
        out[34..36].copy_from_slice(&self.remote_port.to_be_bytes());
        out[36..38].copy_from_slice(&self.local_port.to_be_bytes());
        out
    }
}

fn v6_octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Hashes with the host's secret: a peer cannot choose ports that collide.
#[derive(Clone, Debug)]
struct Keyed(u64, u64);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

/// Connections by key. Never iterated, so its order matters to nobody.
#[derive(Debug)]
pub(crate) struct Demux {
    map: HashMap<Key, u32, Keyed>,
    /// The last answer: bursts belong to one connection.
    last: Option<(Key, u32)>,
}

impl Demux {
    pub(crate) fn new(k0: u64, k1: u64) -> Demux {
        Demux { map: HashMap::with_hasher(Keyed(k0, k1)), last: None }
    }

    #[inline]
    pub(crate) fn find(&mut self, key: &Key) -> Option<u32> {
        if let Some((last, index)) = &self.last
            && last == key
        {
            return Some(*index);
        }
        let index = *self.map.get(key)?;
        self.last = Some((*key, index));
        Some(index)
    }

    pub(crate) fn contains(&self, key: &Key) -> bool {
        self.map.contains_key(key)
    }

    pub(crate) fn insert(&mut self, key: Key, index: u32) {
        let before = self.map.insert(key, index);
        assert!(before.is_none(), "a key belongs to one connection");
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.map.remove(key);
        self.last = None;
    }
}
