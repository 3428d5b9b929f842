//! 802.11: stations, an access point and one shared medium, as a two-ended link.
//!
//! End [`End::A`] is the stations' side, end [`End::B`] the wired side behind the access point.
//! Hosts belong to stations by configuration; any other host is on the wired side. A packet
//! between two stations crosses the medium twice and surfaces at `A` again.
//!
//! The model is event-driven: one step per access to the medium, never per slot.
//!
//! ```text
//!  offer ─▶ queue (node × category) ─▶ contention (dcf) ─▶ exchange ─▶ reorder ─▶ host ─▶ Deliver
//!                  ▲                                          │
//!                  └── access point relays to a station ◀─────┘
//! ```
//!
//! Events are ordered by time; at one instant timers come first, then deliveries (so that what a
//! host sends in answer still takes part), then accesses. Every random draw comes from one stream.

pub mod airtime;
pub mod ampdu;
mod block_ack;
pub mod config;
mod dcf;
mod device;
pub mod edca;
mod error;
mod exchange;
mod flow_times;
mod host;
mod ledger;
mod nearest;
mod others;
pub mod phy;
mod ppdu;
mod preset;
mod queue;
pub mod timing;
mod txq;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::Rng as _;
use rand_pcg::Pcg64;
use tack_units::Instant;

pub use airtime::{Airtime, NodeStats, Span, Use};
pub use ampdu::AmpduLimits;
pub use config::{
    Beacons, Errors, FreezeRule, HiddenInterferer, HostDelay, Load, Neighbour, Protection,
    ScanPlan, Scheduling, Station, WlanConfig,
};
pub use edca::{AcParams, Classifier};
pub use error::ConfigError;
pub use ledger::Ledger;
pub use phy::{Band, DataRate, DsssPreamble, GuardInterval, Mcs, Standard, Width};
pub use preset::Preset;
pub use timing::Timing;
pub use txq::{AirtimeLimits, SlowReceivers, TxqConfig};

use crate::draw::{self, between, nanos, unit};
use crate::link::{End, HostId, Link, Output, Packet};
use airtime::Account;
use dcf::Contention;
use edca::CATEGORIES;
use flow_times::FlowTimes;
use host::{Deliveries, Exit, Host};
use others::{BeaconState, NeighbourState};
use phy::Ns;
use queue::{Flow, Queue};
use txq::{Txqs, expected_kbps};

/// The model's stream of random numbers.
const STREAM: u64 = 80_211;

/// The first of the streams that flow hashes are perturbed from, one per node. They are apart from
/// the model's, so that flows' queues change nothing else.
const FLOW_STREAM: u64 = 8_290 << 32;

/// The access point's node number; station `i` of the configuration is node `i + 1`.
const AP: usize = 0;

/// Later than any event.
const NEVER: Ns = Ns::MAX;

/// The largest packet the model takes: IP has none larger.
const MAX_IP_BYTES: u32 = 65_535;

/// Who a contender is.
#[derive(Clone, Copy, Debug)]
enum Role {
    /// A category of the access point or a station: an index into `queues`.
    Queue(usize),
    Neighbour(usize),
    Beacon(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Beacon(usize),
    Neighbour(usize),
    /// The station of this index leaves or returns.
    Scan(usize),
}

/// A transmission opportunity that goes on without contention.
#[derive(Clone, Copy, Debug)]
struct Txop {
    contender: u32,
    next_at: Ns,
    end: Ns,
}

/// An 802.11 network. See the [module](self).
#[derive(Debug)]
pub struct Wlan {
    config: WlanConfig,
    rng: Pcg64,
    contention: Contention,
    roles: Vec<Role>,
    /// Node-major: `node * CATEGORIES + category`, which is also the contender's number.
    queues: Vec<Queue>,
    /// Queues per flow ahead of them, by node, where configured.
    txqs: Vec<Option<Txqs>>,
    neighbours: Vec<NeighbourState>,
    beacons: Vec<BeaconState>,
    hosts: Vec<Host>,
    away: Vec<bool>,
    /// Hosts by number, with their station.
    routes: Vec<(HostId, usize)>,
    deliveries: Deliveries,
    timers: BinaryHeap<Reverse<(Ns, u64, Timer)>>,
    timers_set: u64,
    txop: Option<Txop>,
    backlogged: usize,
    account: Account,
    stats: Vec<NodeStats>,
    ledger: Ledger,
    sifs: Ns,
    eifs_extra: Ns,
    scratch: exchange::Scratch,
}

impl Wlan {
    /// A network at time zero.
    ///
    /// # Errors
    /// When `config` does not [validate](WlanConfig::validate).
    pub fn new(config: WlanConfig) -> Result<Wlan, ConfigError> {
        config.validate()?;
        let t = &config.timing;
        let networks = config.beacons.map_or(0, |b| b.networks as usize);
        let ours = 1 + config.stations.len();
        let nodes = ours + config.neighbours.len() + networks.saturating_sub(1);
        let lowest = t.lowest_rate(config.uplink);
        let mut routes: Vec<_> = (config.stations.iter().enumerate())
            .flat_map(|(i, s)| s.hosts.iter().map(move |&host| (host, i)))
            .collect();
        routes.sort_unstable();
        let host_delay = |s: &Station| s.host_delay.unwrap_or(config.host_delay);
        let mut wlan = Wlan {
            rng: draw::stream(config.seed, STREAM),
            contention: Contention::new(nanos(t.slot), nanos(t.cca), config.freeze, nodes),
            roles: Vec::new(),
            queues: Vec::new(),
            txqs: Vec::new(),
            neighbours: Vec::new(),
            beacons: Vec::new(),
            hosts: config.stations.iter().map(|s| Host::new(host_delay(s))).collect(),
            away: vec![false; config.stations.len()],
            routes,
            deliveries: Deliveries::default(),
            timers: BinaryHeap::new(),
            timers_set: 0,
            txop: None,
            backlogged: 0,
            account: Account::default(),
            stats: vec![NodeStats::default(); nodes],
            ledger: Ledger::default(),
            sifs: nanos(t.sifs),
            eifs_extra: nanos(t.sifs) + nanos(t.ack(lowest)),
            scratch: exchange::Scratch::default(),
            config,
        };
        wlan.add_queues();
        wlan.add_flow_queues();
        wlan.add_others();
        Ok(wlan)
    }

    fn add_queues(&mut self) {
        let c = &self.config;
        let overhead = timing::mpdu_overhead(c.qos, c.ccmp);
        let window = c.block_ack_window;
        let flow = |to: u32, rate, limits| {
            Flow::new(to, FlowTimes::new(&c.timing, rate, window), limits, window, c.timing.band)
        };
        for category in 0..CATEGORIES {
            let id = self.contention.add(AP as u32, self.sifs, &c.ap_edca[category]);
            self.roles.push(Role::Queue(id as usize));
            let flows = c
                .stations
                .iter()
                .enumerate()
                .map(|(i, s)| flow(i as u32 + 1, s.downlink.unwrap_or(c.downlink), c.ap_ampdu));
            let limit = c.ap_queue_packets;
            self.queues.push(Queue::new(flows.collect(), limit, c.scheduling, overhead));
        }
        for (i, s) in c.stations.iter().enumerate() {
            for category in 0..CATEGORIES {
                let edca = &c.station_edca[category];
                let id = self.contention.add(i as u32 + 1, self.sifs, edca);
                self.roles.push(Role::Queue(id as usize));
                let limits = s.ampdu.unwrap_or(c.station_ampdu);
                let up = flow(AP as u32, s.uplink.unwrap_or(c.uplink), limits);
                let limit = c.station_queue_packets;
                self.queues.push(Queue::new(vec![up], limit, Scheduling::Fifo, overhead));
            }
        }
    }

    fn add_flow_queues(&mut self) {
        let c = &self.config;
        let overhead = timing::mpdu_overhead(c.qos, c.ccmp);
        let ap = &c.ap_edca[edca::BEST_EFFORT];
        let down = c.stations.iter().map(|s| s.downlink.unwrap_or(c.downlink));
        let down = down.map(|rate| expected_kbps(&c.timing, ap, rate, &c.ap_ampdu, overhead));
        let perturbation = |node: usize| draw::stream(c.seed, FLOW_STREAM + node as u64).next_u64();
        let down: Vec<_> = down.collect();
        self.txqs.push(c.ap_txq.map(|t| Txqs::new(t, &down, perturbation(AP))));
        for (i, s) in c.stations.iter().enumerate() {
            let (edca, limits) = (&c.station_edca[edca::BEST_EFFORT], s.ampdu);
            let (rate, limits) = (s.uplink.unwrap_or(c.uplink), limits.unwrap_or(c.station_ampdu));
            let up = expected_kbps(&c.timing, edca, rate, &limits, overhead);
            self.txqs.push(c.station_txq.map(|t| Txqs::new(t, &[up], perturbation(i + 1))));
        }
        for (i, queue) in self.queues.iter_mut().enumerate() {
            if let Some(txqs) = &self.txqs[i / CATEGORIES] {
                queue.schedule_by_airtime(&txqs.config);
            }
        }
    }

    fn add_others(&mut self) {
        let first = 1 + self.config.stations.len();
        for (i, n) in self.config.neighbours.clone().iter().enumerate() {
            let state = NeighbourState::new(n, &self.config.timing, self.config.qos);
            let id = self.contention.add((first + i) as u32, self.sifs, &n.edca);
            self.roles.push(Role::Neighbour(i));
            if state.has_packets() {
                self.backlog(id, 0);
            }
            if let Some(at) = state.next_arrival(0, &mut self.rng) {
                self.set_timer(at, Timer::Neighbour(i));
            }
            self.neighbours.push(state);
        }
        let first_foreign = first + self.config.neighbours.len();
        if let Some(b) = self.config.beacons {
            // Beacons go out PIFS after the medium falls idle.
            let pifs = AcParams::new(0, 0, 1);
            for i in 0..b.networks as usize {
                let node = if i == 0 { AP } else { first_foreign + i - 1 };
                let data = self.config.downlink;
                let state = BeaconState::new(&b, i as u32, &self.config.timing, data);
                self.contention.add(node as u32, self.sifs, &pifs);
                self.roles.push(Role::Beacon(i));
                self.set_timer(state.next, Timer::Beacon(i));
                self.beacons.push(state);
            }
        }
        if let Some(scan) = self.config.scan {
            for i in 0..self.config.stations.len() {
                // Stations scan independently: the first absence falls anywhere in an interval.
                let at = (scan.interval.as_nanos() as f64 * unit(&mut self.rng)) as Ns;
                self.set_timer(at, Timer::Scan(i));
            }
        }
    }

    /// The configuration it was made from.
    pub fn config(&self) -> &WlanConfig {
        &self.config
    }

    /// Medium usage from time zero to `now`. An exchange under way counts in full.
    pub fn airtime(&self, now: Instant) -> Airtime {
        self.account.read(now.as_nanos())
    }

    /// What the medium was used for lately, in order and without a gap, up to `now`: the last thousand
    /// spans. An exchange under way reaches beyond `now`.
    pub fn recent_medium(&self, now: Instant) -> impl Iterator<Item = Span> {
        self.account.recent(now.as_nanos())
    }

    /// What the access point has done.
    pub fn ap_stats(&self) -> NodeStats {
        self.stats[AP]
    }

    /// What the `i`th station of the configuration has done; `None` if there is no such station.
    pub fn station_stats(&self, i: usize) -> Option<NodeStats> {
        (i < self.config.stations.len()).then(|| self.stats[i + 1])
    }

    /// Where all packets have gone. Counts queues, so it is not for the inner loop.
    pub fn ledger(&self) -> Ledger {
        let queued = self.queues.iter().map(Queue::packets).sum::<u64>()
            + self.txqs.iter().flatten().map(Txqs::packets).sum::<u64>();
        Ledger { queued: queued + self.deliveries.len() as u64, ..self.ledger }
    }

    /// MPDUs that wait at the access point for the `i`th station, all categories together.
    pub fn downlink_backlog(&self, i: usize) -> usize {
        let ahead = self.txqs[AP].as_ref().map_or(0, |t| t.waiting_for(i));
        ahead + (0..CATEGORIES).map(|c| self.queues[AP + c].flow_len(i)).sum::<usize>()
    }

    /// MPDUs that wait at the `i`th station, all categories together.
    pub fn uplink_backlog(&self, i: usize) -> usize {
        let ahead = self.txqs[i + 1].as_ref().map_or(0, |t| t.waiting_for(0));
        let flow_len = |c: usize| self.queues[(i + 1) * CATEGORIES + c].flow_len(0);
        ahead + (0..CATEGORIES).map(flow_len).sum::<usize>()
    }

    fn station_of(&self, host: HostId) -> Option<usize> {
        let at = self.routes.binary_search_by_key(&host, |(h, _)| *h).ok()?;
        Some(self.routes[at].1)
    }

    fn set_timer(&mut self, at: Ns, timer: Timer) {
        self.timers.push(Reverse((at, self.timers_set, timer)));
        self.timers_set += 1;
    }

    /// Puts `packet` into `node`'s queue towards `flow`.
    fn enqueue(&mut self, node: usize, flow: usize, packet: Packet, now: Ns) {
        let category = if self.config.qos {
            edca::category(self.config.classifier, &packet)
        } else {
            edca::BEST_EFFORT
        };
        if self.txqs[node].is_some() {
            self.enqueue_flow(node, flow, category, packet, now);
            return;
        }
        let id = node * CATEGORIES + category;
        if !self.queues[id].push(flow, packet) {
            self.stats[node].queue_drops += 1;
            self.ledger.queue_drops += 1;
            return;
        }
        // Who waits for the medium already goes on doing so.
        if !self.contention.is_backlogged(id as u32) {
            self.refresh(id as u32, now);
        }
    }

    /// Brings a contender's backlog in line with its queue.
    fn refresh(&mut self, id: u32, now: Ns) {
        let ready = match self.roles[id as usize] {
            Role::Queue(q) => self.present(q / CATEGORIES) && self.has_work(q),
            Role::Neighbour(i) => self.neighbours[i].has_packets(),
            Role::Beacon(i) => self.beacons[i].due,
        };
        match (ready, self.contention.is_backlogged(id)) {
            (true, false) => self.backlog(id, now),
            (false, true) => {
                self.contention.drained(id);
                self.backlogged -= 1;
                if self.backlogged == 0 {
                    self.account.nobody_waits();
                }
            }
            _ => {}
        }
    }

    fn backlog(&mut self, id: u32, now: Ns) {
        self.contention.backlog(id, now, &mut self.rng);
        self.backlogged += 1;
        self.account.waiting(now);
    }

    fn present(&self, node: usize) -> bool {
        node == AP || !self.away[node - 1]
    }

    fn on_timer(&mut self, timer: Timer, now: Ns) {
        match timer {
            Timer::Beacon(i) => {
                self.beacons[i].on_time();
                self.set_timer(self.beacons[i].next, timer);
                self.refresh((self.roles.len() - self.beacons.len() + i) as u32, now);
            }
            Timer::Neighbour(i) => {
                self.neighbours[i].on_arrival();
                if let Some(at) = self.neighbours[i].next_arrival(now, &mut self.rng) {
                    self.set_timer(at, timer);
                }
                self.refresh((self.queues.len() + i) as u32, now);
            }
            Timer::Scan(i) => self.toggle_scan(i, now),
        }
    }

    fn toggle_scan(&mut self, station: usize, now: Ns) {
        let Some(scan) = self.config.scan else { return };
        let away = !self.away[station];
        self.away[station] = away;
        let after = if away { between(&mut self.rng, scan.min, scan.max) } else { scan.interval };
        self.set_timer(now + nanos(after), Timer::Scan(station));
        for category in 0..CATEGORIES {
            self.queues[AP + category].flow_mut(station).paused = away;
            self.refresh((AP + category) as u32, now);
            self.refresh(((station + 1) * CATEGORIES + category) as u32, now);
        }
    }

    /// The next thing the MAC does by itself.
    fn next_access(&mut self) -> Option<Ns> {
        match self.txop {
            Some(txop) => Some(txop.next_at),
            None => self.contention.next_access(),
        }
    }
}

impl Link for Wlan {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        self.ledger.offered += 1;
        let now = now.as_nanos();
        let (src, dst) = (self.station_of(packet.src), self.station_of(packet.dst));
        if packet.ip_bytes > MAX_IP_BYTES {
            self.ledger.unroutable += 1;
            return;
        }
        match (end, src, dst) {
            // Two hosts behind one station reach each other without the radio.
            (End::A, Some(from), Some(to)) if from == to => {
                self.deliveries.push(now, Exit::Station, packet);
            }
            (End::A, Some(from), _) => self.enqueue(from + 1, 0, packet, now),
            (End::B, None, Some(to)) => self.enqueue(AP, to, packet, now),
            _ => self.ledger.unroutable += 1,
        }
    }

    fn poll(&mut self, now: Instant) -> Output {
        let now = now.as_nanos();
        loop {
            // `NEVER` instead of options: this is the innermost loop of every simulation.
            let timer = self.timers.peek().map_or(NEVER, |Reverse((at, ..))| *at);
            let delivery = self.deliveries.next_at().unwrap_or(NEVER);
            let access = self.next_access().unwrap_or(NEVER);
            let soonest = timer.min(delivery).min(access);
            if soonest > now || soonest == NEVER {
                let wait = (soonest != NEVER).then(|| Instant::from_nanos(soonest));
                return Output::Wait(wait);
            }
            if timer == soonest {
                let Reverse((at, _, timer)) = self.timers.pop().expect("just peeked");
                self.on_timer(timer, at);
            } else if delivery == soonest {
                let (at, exit, packet) = self.deliveries.pop().expect("just peeked");
                let end = match exit {
                    Exit::Station => End::A,
                    Exit::Wired => End::B,
                    Exit::Relay(station) => {
                        self.enqueue(AP, station, packet, at);
                        continue;
                    }
                };
                self.ledger.delivered += 1;
                return Output::Deliver { end, packet };
            } else {
                self.access();
            }
        }
    }
}
