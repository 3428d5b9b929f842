//! Worlds of toy hosts.

use core::time::Duration;

use tack_link::End;
use tack_link::PacketKind;
use tack_link::loss::LossConfig;
use tack_link::queue::Limit;
use tack_link::wired::{Capacity, DirectionConfig, Wired};
use tack_units::Rate;

use super::*;
use crate::endpoint::Outgoing;

/// Stop-and-wait: sends block `n` until it is acknowledged, then block `n + 1`.
#[derive(Debug, Default)]
struct StopAndWait {
    /// Whom to send to; a receiver has nobody.
    peer: Option<HostId>,
    blocks: Vec<Vec<u8>>,
    next: usize,
    retry_at: Option<Instant>,
    transmissions: u64,
    received: Vec<Vec<u8>>,
    acks: VecDeque<(HostId, u8)>,
}

const RETRY: Duration = Duration::from_millis(250);

impl StopAndWait {
    fn sender(peer: HostId, blocks: Vec<Vec<u8>>) -> Self {
        StopAndWait { peer: Some(peer), blocks, retry_at: Some(Instant::ZERO), ..Self::default() }
    }
}

impl Endpoint for StopAndWait {
    fn handle(&mut self, packet: &Packet, now: Instant) {
        let number = packet.bytes[0];
        if self.peer.is_some() {
            if usize::from(number) == self.next {
                self.next += 1;
                self.retry_at = (self.next < self.blocks.len()).then_some(now);
            }
            return;
        }
        if usize::from(number) == self.received.len() {
            self.received.push(packet.bytes[1..].to_vec());
        }
        self.acks.push_back((packet.src, number));
    }

    fn poll_transmit(&mut self, _spare: &mut Spare, now: Instant) -> Option<Outgoing> {
        if let Some((dst, number)) = self.acks.pop_front() {
            let bytes = vec![number];
            return Some(Outgoing { dst, ip_bytes: 40, kind: PacketKind::Ack, bytes, ecn: 0 });
        }
        let dst = self.peer?;
        self.retry_at.filter(|at| *at <= now)?;
        self.retry_at = Some(now + RETRY);
        self.transmissions += 1;
        let mut bytes = vec![self.next as u8];
        bytes.extend(&self.blocks[self.next]);
        Some(Outgoing { dst, ip_bytes: bytes.len() as u32, kind: PacketKind::Data, bytes, ecn: 0 })
    }

    fn deadline(&self) -> Option<Instant> {
        self.retry_at
    }

    fn handle_timeout(&mut self, _now: Instant) {}
}

fn blocks(n: u8) -> Vec<Vec<u8>> {
    (0..n).map(|i| vec![i ^ 0x5a; 500]).collect()
}

fn lossy(p: f64) -> DirectionConfig {
    DirectionConfig {
        loss: LossConfig::Bernoulli(p),
        ..DirectionConfig::clean(Rate::from_mbps(10), Duration::from_millis(30), Limit::Packets(9))
    }
}

fn pair(p: f64, seed: u64) -> World<StopAndWait, Wired> {
    let mut world = World::new();
    let link = world.add_link(Wired::symmetric(lossy(p), seed).unwrap());
    world.add_host(StopAndWait::sender(1, blocks(100)), Site { link, end: End::A });
    world.add_host(StopAndWait::default(), Site { link, end: End::B });
    world
}

#[test]
fn a_clean_exchange_takes_exactly_its_round_trips() {
    let mut world = pair(0.0, 1);
    let mut last = Instant::ZERO;
    while let Some(at) = world.step() {
        last = at;
    }
    // 501 bytes and 40 bytes at 10 Mbit/s, 30 ms each way.
    let round_trip = Duration::from_nanos(400_800 + 32_000 + 60_000_000);
    assert_eq!(world.host(1).received, blocks(100));
    assert_eq!(world.host(0).transmissions, 100);
    assert!(last >= Instant::ZERO + round_trip * 100);
    assert_eq!(world.totals().sent, 200);
}

#[test]
fn loss_is_repaired_and_the_same_seed_repeats_the_run() {
    let run = |seed| {
        let mut world = pair(0.2, seed);
        world.run_until(Instant::from_secs(200));
        assert_eq!(world.host(1).received, blocks(100), "seed {seed}");
        assert!(world.host(0).transmissions > 110, "seed {seed}");
        world.totals()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).fingerprint, run(2).fingerprint);
}

#[test]
fn packets_find_their_way_through_a_dumbbell() {
    let mut world = World::new();
    let clean = || Wired::symmetric(lossy(0.0), 1).unwrap();
    let middle = world.add_link(clean());
    for n in 0..5 {
        let (left, right) = (world.add_link(clean()), world.add_link(clean()));
        world.join(Site { link: left, end: End::B }, Site { link: middle, end: End::A });
        world.join(Site { link: middle, end: End::B }, Site { link: right, end: End::A });
        let sender = StopAndWait::sender(2 * n + 1, blocks(10));
        world.add_host(sender, Site { link: left, end: End::A });
        world.add_host(StopAndWait::default(), Site { link: right, end: End::B });
    }
    world.run_until(Instant::from_secs(60));
    for n in 0..5 {
        assert_eq!(world.host(2 * n + 1).received, blocks(10));
    }
    assert_eq!(world.link(middle).counters(End::A).delivered.packets, 50);
    assert_eq!(world.totals().unroutable, 0);
}

#[test]
fn packets_for_nobody_are_counted() {
    let mut world = World::new();
    let link = world.add_link(Wired::symmetric(DirectionConfig::default(), 1).unwrap());
    let alone = StopAndWait::sender(77, blocks(1));
    world.add_host(alone, Site { link, end: End::A });
    world.run_until(Instant::from_millis(600));
    assert_eq!(world.totals().unroutable, 3);
}

#[test]
fn time_stands_where_it_was_run_to() {
    let mut world = pair(0.0, 1);
    world.run_until(Instant::from_millis(100));
    assert_eq!(world.now(), Instant::from_millis(100));
    world.run_until(Instant::from_millis(50));
    assert_eq!(world.now(), Instant::from_millis(100), "time never runs backwards");
}

#[test]
fn idle_hosts_cost_an_event_each_and_nothing_after() {
    let events = |idle: u64| {
        let mut world = pair(0.1, 3);
        let link = world.link_ids().next().unwrap();
        for _ in 0..idle {
            world.add_host(StopAndWait::default(), Site { link, end: End::B });
        }
        world.run_until(Instant::from_secs(60));
        world.totals().events
    };
    assert_eq!(events(1_000), events(0) + 1_000);
}

/// Answers everything at once.
#[derive(Debug)]
struct Echo(Option<HostId>);

impl Endpoint for Echo {
    fn handle(&mut self, packet: &Packet, _now: Instant) {
        self.0 = Some(packet.src);
    }
    fn poll_transmit(&mut self, _spare: &mut Spare, _now: Instant) -> Option<Outgoing> {
        let dst = self.0.take()?;
        Some(Outgoing { dst, ip_bytes: 40, kind: PacketKind::Data, bytes: vec![], ecn: 0 })
    }
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn handle_timeout(&mut self, _now: Instant) {}
}

#[test]
#[should_panic(expected = "stuck")]
fn an_echo_without_delay_is_noticed() {
    let mut world = World::new();
    let instant = DirectionConfig { capacity: Capacity::Unlimited, ..DirectionConfig::default() };
    let link = world.add_link(Wired::symmetric(instant, 1).unwrap());
    world.add_host(Echo(Some(1)), Site { link, end: End::A });
    world.add_host(Echo(None), Site { link, end: End::B });
    world.run_until(Instant::from_secs(1));
}
