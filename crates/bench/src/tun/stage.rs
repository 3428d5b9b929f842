//! The two namespaces, the cable between them, and who has which address.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use tack_device::{Netns, Prefix, TunConfig};

use super::relay::Relay;
use crate::contestant::Role;

/// The cable's ends, where the kernel's TCP is reached.
pub(super) const CABLE: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 214, 0, 1), Ipv4Addr::new(10, 214, 0, 2)];
/// Our ends of the TUN devices.
pub(super) const OURS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 214, 1, 2), Ipv4Addr::new(10, 214, 2, 2)];
/// The kernels' ends of the relay's devices.
pub(super) const RELAYED: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 214, 3, 1), Ipv4Addr::new(10, 214, 4, 1)];

/// The client's and the server's namespace.
pub(super) struct Stage {
    namespaces: [Netns; 2],
}

/// Which of a pair is a role's.
pub(super) fn side(role: Role) -> usize {
    match role {
        Role::Client => 0,
        Role::Server => 1,
    }
}

pub(super) fn network(address: Ipv4Addr) -> Prefix {
    Prefix::new(address.into(), 24).expect("an IPv4 address has 32 bits")
}

impl Stage {
    /// Makes namespaces that forward, joined by a cable with routes to the devices to come.
    pub(super) fn build() -> Result<Stage> {
        let stage = Stage { namespaces: [Netns::new()?, Netns::new()?] };
        let [client, server] = &stage.namespaces;
        let [near, far] = CABLE.map(network);
        client.link(server, "cable", &[near], &[far]).context("veth is needed")?;
        for (here, netns) in stage.namespaces.iter().enumerate() {
            let there = 1 - here;
            netns.sysctl("net.ipv4.ip_forward", "1")?;
            let (network, next) = (network(OURS[there]), CABLE[there]);
            let destination = Ipv4Addr::from_bits(OURS[there].to_bits() & 0xffff_ff00);
            let bits = network.bits();
            netns.ip(&[format!("route add {destination}/{bits} via {next}")])?;
        }
        Ok(stage)
    }

    pub(super) fn namespace(&self, role: Role) -> &Netns {
        &self.namespaces[side(role)]
    }

    /// Starts to carry packets between two further devices.
    pub(super) fn relay(&self) -> Result<Relay> {
        let open = |here: usize| {
            let config = TunConfig::default().with(|it| {
                it.name = "relay".to_owned();
                it.addresses = vec![network(RELAYED[here])];
                it.routes = vec![Prefix::new(RELAYED[1 - here].into(), 32).expect("32 bits")];
                it.offload = true;
            });
            self.namespaces[here].enter(move || tack_device::Tun::open(&config))
        };
        Relay::start(open(0)??, open(1)??)
    }
}
