//! Two hosts and a path between them, in virtual time.

use std::collections::BTreeMap;
use std::time::Duration;

use tack_units::Instant;

use super::client::Client;
use super::config::Config;
use super::frame::Packet;
use super::server::Server;

/// A run gives up after this much virtual time.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// What a run showed.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) intact: bool,
    pub(crate) seconds: f64,
    pub(crate) packets: u64,
    pub(crate) lost: u64,
    pub(crate) needless: u64,
    pub(crate) tacks: u64,
    /// Of them, those that told of losses at once.
    pub(crate) losses: u64,
    /// TACKs per second once ten round trips have passed.
    pub(crate) tack_hz: f64,
    pub(crate) rtt_min: Option<Duration>,
    /// Most ranges of packet numbers that the receiver remembered at once.
    pub(crate) most_ranges: usize,
}

/// One direction.
#[derive(Debug)]
struct Path {
    loss: f64,
    random: u64,
    /// By time and order of sending.
    packets: BTreeMap<(Instant, u64), Packet>,
    sent: u64,
}

impl Path {
    fn chance(&mut self, p: f64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) as f64 / (1u64 << 53) as f64) < p
    }

    fn send(&mut self, config: &Config, packet: Packet, now: Instant) {
        let copies = 1 + u64::from(self.chance(config.duplicate));
        for _ in 0..copies {
            if self.chance(self.loss) {
                continue;
            }
            let mut at = now + config.rtt / 2;
            if self.chance(config.late) {
                at += config.late_by.mul_f64((self.random >> 40) as f64 / (1u64 << 24) as f64);
            }
            self.sent += 1;
            self.packets.insert((at, self.sent), packet.clone());
        }
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        let first = self.packets.first_entry().filter(|e| e.key().0 <= now)?;
        Some(first.remove())
    }

    fn next(&self) -> Option<Instant> {
        self.packets.first_key_value().map(|((at, _), _)| *at)
    }
}

pub(crate) struct World {
    config: Config,
    client: Client,
    server: Server,
    there: Path,
    back: Path,
}

impl World {
    pub(crate) fn new(config: Config) -> Self {
        let path = |loss, random| Path { loss, random, packets: BTreeMap::new(), sent: 0 };
        World {
            client: Client::new(&config, config.params, Instant::ZERO),
            server: Server::new(&config, config.params),
            there: path(config.loss, config.seed | 1),
            back: path(config.ack_loss, config.seed.rotate_left(32) | 1),
            config,
        }
    }

    /// Runs until the sender knows that all has arrived.
    pub(crate) fn run(mut self) -> Report {
        let (mut now, mut most_ranges, mut early) = (Instant::ZERO, 0, 0);
        let settled = now + 10 * self.config.rtt;
        while !self.client.is_done() && now < Instant::ZERO + PATIENCE {
            self.client.handle_timeout(now);
            while let Some(packet) = self.client.poll(now) {
                self.there.send(&self.config, packet, now);
            }
            while let Some(packet) = self.server.poll(now) {
                self.back.send(&self.config, packet, now);
            }
            let timers = [self.client.deadline(), self.server.deadline()];
            let paths = [self.there.next(), self.back.next()];
            let Some(next) = timers.into_iter().chain(paths).flatten().min() else { break };
            now = now.max(next);
            early = if now < settled { self.server.tacks } else { early };
            while let Some(packet) = self.there.receive(now) {
                self.server.handle(packet, now);
                most_ranges = most_ranges.max(self.server.remembered());
            }
            while let Some(packet) = self.back.receive(now) {
                self.client.handle(packet, now);
            }
        }
        Report {
            intact: self.server.is_intact(),
            seconds: now.as_secs_f64(),
            packets: self.client.packets,
            lost: self.client.lost,
            needless: self.client.sender.needless(),
            tacks: self.server.tacks,
            losses: self.server.losses,
            tack_hz: (self.server.tacks - early) as f64 / (now - settled).as_secs_f64(),
            rtt_min: self.client.sender.rtt_min(),
            most_ranges,
        }
    }
}
