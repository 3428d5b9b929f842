//! Hosts, links and a virtual clock.
//!
//! One event wakes one host or one link. A host's packets enter its link at once; a link's
//! deliveries reach their hosts at once, and a host is drained after every single packet, so what
//! one packet triggers is on its way before the next one is looked at. An event costs the work it
//! causes and the logarithm of the number of hosts, never a walk over all of them.

use std::collections::VecDeque;

use tack_link::{HostId, Link, Output, Packet};
use tack_units::Instant;

use crate::endpoint::{Endpoint, Spare};
use crate::events::{Events, Target};
use crate::topology::{LinkId, Next, Site, Topology};

/// Events at one instant after which a world is stuck: something answers itself without delay.
const MAX_EVENTS_PER_INSTANT: u32 = 1 << 22;

/// Hosts of one kind, links of one kind (boxed by default) and the time.
///
/// ```
/// use core::time::Duration;
/// use tack_link::{End, Packet, PacketKind};
/// use tack_link::wired::{DirectionConfig, Wired};
/// use tack_sim::{Endpoint, Outgoing, Site, Spare, World};
/// use tack_units::Instant;
///
/// /// Sends what it has, and notes when something arrived.
/// struct Toy { out: Option<Outgoing>, arrived: Option<Instant> }
/// impl Endpoint for Toy {
///     fn handle(&mut self, _packet: &Packet, now: Instant) { self.arrived = Some(now); }
///     fn poll_transmit(&mut self, _: &mut Spare, _: Instant) -> Option<Outgoing> { self.out.take() }
///     fn deadline(&self) -> Option<Instant> { None }
///     fn handle_timeout(&mut self, _now: Instant) {}
/// }
///
/// let path = DirectionConfig { delay: Duration::from_millis(40), ..Default::default() };
/// let mut world = World::new();
/// let link = world.add_link(Wired::symmetric(path, 1)?);
/// let ping = Outgoing { dst: 1, ip_bytes: 100, kind: PacketKind::Data, bytes: vec![], ecn: 0 };
/// world.add_host(Toy { out: Some(ping), arrived: None }, Site { link, end: End::A });
/// let b = world.add_host(Toy { out: None, arrived: None }, Site { link, end: End::B });
/// world.run_until(Instant::from_secs(1));
/// assert_eq!(world.host(b).arrived, Some(Instant::from_millis(40)));
/// # Ok::<(), tack_link::wired::ConfigError>(())
/// ```
#[derive(Debug)]
pub struct World<E, L = Box<dyn Link + Send>> {
    now: Instant,
    hosts: Vec<E>,
    links: Vec<L>,
    topology: Topology,
    events: Events,
    /// Links that took a packet and were not polled since.
    fed: VecDeque<LinkId>,
    is_fed: Vec<bool>,
    events_now: u32,
    totals: Totals,
    spare: Spare,
}

/// Counts over the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events worked off.
    pub events: u64,
    /// Packets that hosts sent.
    pub sent: u64,
    /// Packets that reached their host.
    pub arrived: u64,
    /// Packets for a host that no link leads to.
    pub unroutable: u64,
    /// A digest of every arrival: its time, host, number and size. Equal runs have equal ones.
    pub fingerprint: u64,
}

impl<E: Endpoint, L: Link> World<E, L> {
    /// An empty world at time zero.
    #[allow(clippy::new_without_default, reason = "an empty world is a start, not a default")]
    pub fn new() -> Self {
        World {
            now: Instant::ZERO,
            hosts: Vec::new(),
            links: Vec::new(),
            topology: Topology::default(),
            events: Events::default(),
            fed: VecDeque::new(),
            is_fed: Vec::new(),
            events_now: 0,
            totals: Totals::default(),
            spare: Spare::default(),
        }
    }

    /// Puts a link into the world, joined to nothing.
    pub fn add_link(&mut self, link: L) -> LinkId {
        let id = self.topology.add_link();
        self.links.push(link);
        self.is_fed.push(false);
        // A link may have events of its own, such as beacons.
        self.events.wake(Target::Link(id.0), Some(self.now));
        id
    }

    /// Puts a host at one end of a link. Hosts are numbered from zero in order of arrival.
    pub fn add_host(&mut self, host: E, site: Site) -> HostId {
        let id = self.topology.add_host(site);
        self.hosts.push(host);
        self.events.wake(Target::Host(id), Some(self.now));
        id
    }

    /// Joins two ends of links, as a router does.
    pub fn join(&mut self, a: Site, b: Site) {
        self.topology.join(a, b);
    }

    /// The time of the last event, or what was run until.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// A host.
    ///
    /// # Panics
    /// If there is no such host; so do the other accessors.
    pub fn host(&self, id: HostId) -> &E {
        &self.hosts[id as usize]
    }

    /// Changes a host from outside, then lets it send and set its timer.
    pub fn with_host<T>(&mut self, id: HostId, change: impl FnOnce(&mut E, Instant) -> T) -> T {
        let out = change(&mut self.hosts[id as usize], self.now);
        self.drain_host(id);
        self.poll_fed_links();
        out
    }

    /// All hosts, by number.
    pub fn hosts(&self) -> &[E] {
        &self.hosts
    }

    /// A link.
    pub fn link(&self, id: LinkId) -> &L {
        &self.links[id.0 as usize]
    }

    /// All links, in the order they were added.
    pub fn links(&self) -> &[L] {
        &self.links
    }

    /// Every link's name, in the order they were added.
    pub fn link_ids(&self) -> impl Iterator<Item = LinkId> + use<E, L> {
        (0..self.links.len() as u32).map(LinkId)
    }

    /// The links, for their own accounts at the end of a run.
    pub fn into_links(self) -> Vec<L> {
        self.links
    }

    /// Counts so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Works off every event up to and including `until`, and moves the time there.
    pub fn run_until(&mut self, until: Instant) {
        while self.step_by(until).is_some() {}
        self.advance(until);
        // A wire may wake nobody for a packet that only leaves its queue: whoever looks now is to find
        // it as of now.
        for link in self.link_ids() {
            self.poll_link(link);
        }
    }

    /// Works off the next event; its time, or `None` when nothing will ever happen.
    ///
    /// # Panics
    /// When the world is stuck: hosts and links without delay answer each other for ever.
    pub fn step(&mut self) -> Option<Instant> {
        self.step_by(Instant::MAX)
    }

    /// Works off the next event, if it is due by `until`.
    fn step_by(&mut self, until: Instant) -> Option<Instant> {
        let (at, target) = self.events.pop(until)?;
        self.advance(at);
        self.totals.events += 1;
        self.events_now += 1;
        assert!(self.events_now < MAX_EVENTS_PER_INSTANT, "stuck at {at}: time stands still");
        match target {
            Target::Host(id) => {
                let host = &mut self.hosts[id as usize];
                if host.deadline().is_some_and(|deadline| deadline <= at) {
                    host.handle_timeout(at);
                }
                self.drain_host(id);
            }
            Target::Link(id) => self.poll_link(LinkId(id)),
        }
        self.poll_fed_links();
        Some(at)
    }

    fn advance(&mut self, to: Instant) {
        if to > self.now {
            self.now = to;
            self.events_now = 0;
        }
    }

    /// Puts on its way what a host has to send, and notes when it wants to be woken.
    fn drain_host(&mut self, id: HostId) {
        while let Some(out) = self.hosts[id as usize].poll_transmit(&mut self.spare, self.now) {
            let packet = Packet {
                id: self.totals.sent,
                src: id,
                dst: out.dst,
                ip_bytes: out.ip_bytes,
                kind: out.kind,
                bytes: out.bytes,
                ecn: out.ecn,
                sent_at: self.now,
            };
            self.totals.sent += 1;
            let next = self.topology.leave_host(id, out.dst);
            self.send_on(next, packet);
        }
        let deadline = self.hosts[id as usize].deadline();
        self.events.wake(Target::Host(id), deadline.map(|at| at.max(self.now)));
    }

    fn send_on(&mut self, next: Next, packet: Packet) {
        match next {
            Next::Into(Site { link, end }) => {
                self.links[link.0 as usize].offer(end, packet, self.now);
                if !core::mem::replace(&mut self.is_fed[link.0 as usize], true) {
                    self.fed.push_back(link);
                }
            }
            Next::Here => self.arrive(packet),
            Next::Nowhere => self.totals.unroutable += 1,
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let host = packet.dst;
        self.totals.arrived += 1;
        let event =
            [self.now.as_nanos(), packet.id, u64::from(host) << 32 | u64::from(packet.ip_bytes)];
        for word in event {
            // FNV-1a on words instead of bytes: order matters, collisions do not.
            self.totals.fingerprint =
                (self.totals.fingerprint.rotate_left(29) ^ word).wrapping_mul(0x100_0000_01b3);
        }
        self.hosts[host as usize].handle(&packet, self.now);
        self.spare.keep(packet.bytes);
        self.drain_host(host);
    }

    fn poll_fed_links(&mut self) {
        let mut polls = 0;
        while let Some(link) = self.fed.pop_front() {
            self.poll_link(link);
            polls += 1;
            assert!(polls < MAX_EVENTS_PER_INSTANT, "stuck at {}: time stands still", self.now);
        }
    }

    fn poll_link(&mut self, id: LinkId) {
        // What is offered from here on, in answer to a delivery, is seen by this loop.
        self.is_fed[id.0 as usize] = true;
        let mut deliveries = 0;
        let deadline = loop {
            deliveries += 1;
            assert!(deliveries < MAX_EVENTS_PER_INSTANT, "stuck at {}", self.now);
            match self.links[id.0 as usize].poll(self.now) {
                Output::Deliver { end, packet } => {
                    let next = self.topology.leave_site(Site { link: id, end }, packet.dst);
                    self.send_on(next, packet);
                }
                Output::Wait(deadline) => break deadline,
            }
        };
        self.is_fed[id.0 as usize] = false;
        self.events.wake(Target::Link(id.0), deadline);
    }
}

#[cfg(test)]
mod tests;
