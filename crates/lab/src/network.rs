//! A scenario's links and hosts.
//!
//! ```text
//! station 1 ┐                                 client 1 --┐            ┌-- server 1
//! station 2 ┼─ A [wifi] B ── A [wan] B ── 0   client 2 --┼─ A [wan] B ┼-- server 2
//! station n ┘                                 client n --┘            └-- server n
//! ```

use std::collections::VecDeque;
use std::io::Write;

use anyhow::{Context, Result};

use tack_link::wired::Wired;
use tack_link::{End, HostId};
use tack_sim::{LinkId, Seed, Simulation, Site};

use crate::link::Hop;
use crate::scenario::{Access, Flow, Hosts, PerPair, Scenario, Wan};

/// The server's number, or that of the first pair; stations and clients count from 1, as the WLAN
/// model's presets number them; the other servers come after them.
const SERVER: HostId = 0;

/// Where packets are written, if anywhere.
pub(crate) type Capture = Option<Box<dyn Write + Send>>;

/// A simulation with links and hosts, and no traffic yet.
pub(crate) struct Network {
    pub(crate) sim: Simulation<Hop>,
    pub(crate) wlan: Option<LinkId>,
    pub(crate) wan: Option<LinkId>,
    stations: u32,
    has_pairs: bool,
    /// Where each pair's server is; with none, all are where the path ends.
    at_servers: Vec<Site>,
    /// Servers on links of their own, for the flows that have a delay of their own, in order.
    remote: VecDeque<HostId>,
}

impl Network {
    /// That of `scenario`, its first link's packets written to `capture`.
    pub(crate) fn build(scenario: &Scenario, mut capture: Capture) -> Result<Network> {
        let seed = Seed(scenario.seed);
        let mut sim = Simulation::new(seed);
        if capture.is_none() && !scenario.wan.as_ref().is_some_and(Wan::damages) {
            sim.trust_links();
        }
        let mut ends: Option<(Site, Site)> = None;
        let (mut wlan, mut wan) = (None, None);
        if let Some(wifi) = &scenario.wifi {
            let hop = Hop::of_wifi(wifi, seed)?;
            let link = sim.add_link(tap(hop, capture.take(), "wlan")?);
            wlan = Some(link);
            ends = Some((Site { link, end: End::A }, Site { link, end: End::B }));
        }
        if let Some(path) = &scenario.wan {
            let mut hop = Hop::of_wan(path, scenario.base_rtt(), seed)?;
            // Wires among themselves have events at one instant, whose order is part of a result.
            let is_only_wire = scenario.access.is_none()
                && scenario.wifi.is_some()
                && scenario.flows().all(|flow| flow.delay_ms <= 0.0);
            if is_only_wire {
                hop = hop.for_arrivals();
            }
            let link = sim.add_link(tap(hop, capture.take(), "wan")?);
            wan = Some(link);
            let (near, far) = (Site { link, end: End::A }, Site { link, end: End::B });
            if let Some((_, ap)) = ends {
                sim.join(ap, near);
            }
            ends = Some((ends.map_or(near, |e| e.0), far));
        }
        let (clients, servers) = ends.context("the scenario names no link")?;
        let stations = scenario.stations();
        let mut network = Network {
            sim,
            wlan,
            wan,
            stations,
            has_pairs: scenario.access.is_some(),
            at_servers: Vec::new(),
            remote: VecDeque::new(),
        };
        match &scenario.access {
            Some(access) => network.add_pairs(access, clients, servers, seed)?,
            None => {
                network.sim.add_host(servers);
                for _ in 0..stations {
                    network.sim.add_host(clients);
                }
            }
        }
        network.add_remote(scenario, servers, seed)?;
        if let Some(hosts) = &scenario.hosts {
            network.wake_late(hosts);
        }
        Ok(network)
    }

    fn wake_late(&mut self, hosts: &Hosts) {
        let clients = self.client(0)..self.client(self.stations);
        for host in 0..self.sim.world().hosts().len() as HostId {
            let is_client = clients.contains(&host);
            let late = if is_client { hosts.client_late() } else { hosts.server_late() };
            if !late.is_zero() {
                self.sim.wake_late(host, late);
            }
        }
    }

    /// A server at the far end of a link of its own for each flow that has a delay of its own: behind the place
    /// of the server that it would have had.
    fn add_remote(&mut self, scenario: &Scenario, servers: Site, seed: Seed) -> Result<()> {
        let own = scenario.flows().enumerate().filter(|(_, flow)| flow.delay_ms > 0.0);
        for (number, flow) in own {
            let config = Access {
                rate_mbps: None,
                delay_ms: PerPair::All(flow.delay_ms),
                ..Access::uniform(1, 1.0, 0.0)
            };
            let seed = seed.derive(&format!("remote {number}"));
            let wired = Wired::symmetric(config.config(0), seed)?;
            let link = self.sim.add_link(Hop::Wired(Box::new(wired)));
            let place = self.at_servers.get(flow.station as usize).copied().unwrap_or(servers);
            self.sim.join(Site { link, end: End::B }, place);
            self.remote.push_back(self.sim.add_host(Site { link, end: End::A }));
        }
        Ok(())
    }

    /// Two hosts per pair, each at the far end of its own link.
    fn add_pairs(
        &mut self,
        access: &Access,
        clients: Site,
        servers: Site,
        seed: Seed,
    ) -> Result<()> {
        let mut link = |side: &str, pair: u32, router: Site| -> Result<Site> {
            let seed = seed.derive(&format!("access {side} {pair}"));
            let wired = Wired::symmetric(access.config(pair), seed)?;
            let link = self.sim.add_link(Hop::Wired(Box::new(wired)));
            self.sim.join(Site { link, end: End::B }, router);
            Ok(Site { link, end: End::A })
        };
        let pairs = 0..access.pairs;
        let at_servers: Vec<Site> =
            pairs.clone().map(|pair| link("server", pair, servers)).collect::<Result<_>>()?;
        let at_clients: Vec<Site> =
            pairs.map(|pair| link("client", pair, clients)).collect::<Result<_>>()?;
        let (first, others) = at_servers.split_first().context("there is at least one pair")?;
        self.sim.add_host(*first);
        for site in at_clients.iter().chain(others) {
            self.sim.add_host(*site);
        }
        self.at_servers = at_servers;
        Ok(())
    }

    /// The host on the stations' side.
    pub(crate) fn client(&self, station: u32) -> HostId {
        station + 1
    }

    /// Whom the next flow talks to; flows come in the scenario's order.
    pub(crate) fn next_server(&mut self, flow: &Flow) -> HostId {
        match self.remote.pop_front() {
            Some(host) if flow.delay_ms > 0.0 => host,
            other => {
                other.into_iter().for_each(|host| self.remote.push_front(host));
                self.server(flow.station)
            }
        }
    }

    fn server(&self, station: u32) -> HostId {
        if self.has_pairs && station > 0 { self.stations + station } else { SERVER }
    }
}

fn tap(hop: Hop, capture: Capture, name: &str) -> Result<Hop> {
    match capture {
        Some(out) => hop.tapped(out, name).context("the capture cannot be begun"),
        None => Ok(hop),
    }
}
