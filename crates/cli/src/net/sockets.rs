//! What connections leave from.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use tack_net::{ConnConfig, SocketConfig};

use super::carrier::Carrier;
use super::{Origin, Way};
use crate::exit::Failure;

/// One socket for each family of addresses that is tried, opened when it is, or one device for all.
#[derive(Debug)]
pub(super) struct Sockets {
    way: Way,
    origin: Origin,
    config: ConnConfig,
    opened: Mutex<[Option<Carrier>; 2]>,
}

impl Sockets {
    pub(super) fn new(way: Way, origin: Origin, config: ConnConfig) -> Sockets {
        let config = config.with(|it| it.dscp = origin.dscp);
        Sockets { way, origin, config, opened: Mutex::default() }
    }

    /// Others, from the same place, for connections configured otherwise.
    pub(super) fn configured(&self, config: ConnConfig) -> Sockets {
        Sockets::new(self.way.clone(), self.origin, config)
    }

    pub(super) fn way(&self) -> &Way {
        &self.way
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// That for `peer`'s family, if it was opened.
    pub(super) fn opened(&self, peer: SocketAddr) -> Option<Carrier> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened[self.place(peer)].clone()
    }

    /// That for `peer`'s family.
    pub(super) fn towards(&self, peer: SocketAddr) -> Result<Carrier, Failure> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &mut opened[self.place(peer)];
        if let Some(carrier) = place {
            return Ok(carrier.clone());
        }
        // One port may have to do for both families.
        let socket = SocketConfig::default().with(|it| it.v6_only = true);
        let carrier = self.way.open(self.config.clone(), self.origin.local(peer), socket, None)?;
        if !self.way.is_ip() && !carrier.set_dscp(self.origin.dscp) {
            return Err(Failure::usage("-S, --dscp: this system cannot mark datagrams"));
        }
        Ok(place.insert(carrier).clone())
    }

    /// Opens others from here on: what left from these went by another network.
    pub(super) fn forget(&self) {
        *self.opened.lock().unwrap_or_else(PoisonError::into_inner) = Default::default();
    }

    fn place(&self, peer: SocketAddr) -> usize {
        usize::from(peer.is_ipv6() && !self.way.is_ip())
    }
}
