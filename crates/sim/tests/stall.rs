//! When a flow is said to stand still, and when it only waits.

use core::time::Duration;

use tack_link::loss::LossConfig;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Outages, RateStep, Wired};
use tack_link::{End, Link, Output, Packet, PacketKind};
use tack_sim::{AckStrategy, App, FlowConfig, Seed, Simulation, Site, Stall, Stillness, Transport};
use tack_units::{Instant, Rate};

const MS: Duration = Duration::from_millis(1);

/// A path that from some packet on delivers the same old data again in place of what is sent:
/// packets pass both ways, and the stream cannot move. To the watch it is what a stack looks like
/// that resends the wrong thing.
struct Stuck {
    path: Wired,
    old: Option<Packet>,
    /// Data packets that still pass.
    left: u32,
}

impl Link for Stuck {
    fn offer(&mut self, end: End, mut packet: Packet, now: Instant) {
        if end == End::A && packet.kind == PacketKind::Data {
            let old = self.old.get_or_insert_with(|| packet.clone());
            match self.left.checked_sub(1) {
                Some(left) => self.left = left,
                None => packet.bytes.clone_from(&old.bytes),
            }
        }
        self.path.offer(end, packet, now);
    }

    fn poll(&mut self, now: Instant) -> Output {
        self.path.poll(now)
    }
}

fn clean(mbps: u64, one_way: Duration) -> DirectionConfig {
    DirectionConfig::clean(Rate::from_mbps(mbps), one_way, Limit::Packets(100))
}

/// The stall of one flow over `link`, looked for until `until` and until it moves again.
fn stall<L: Link>(link: L, ack: AckStrategy, app: App, until: Instant) -> Option<Stall> {
    let mut sim = Simulation::new(Seed(7));
    let link = sim.add_link(link);
    let from = sim.add_host(Site { link, end: End::A });
    let to = sim.add_host(Site { link, end: End::B });
    sim.add_flow(FlowConfig { app, ..FlowConfig::bulk(from, to, &Transport::new(ack)) });
    sim.run_until(until);
    sim.settle(Duration::from_secs(60));
    sim.stall().cloned()
}

#[test]
fn a_stream_that_stands_still_while_packets_pass_is_a_stall() {
    for ack in [AckStrategy::TACK, AckStrategy::every(2)] {
        for one_way in [MS, 20 * MS, 300 * MS] {
            let path = Wired::symmetric(clean(10, one_way), 1).unwrap();
            let link = Stuck { path, old: None, left: 20 };
            // The run itself ends long before anybody could be sure.
            let until = Instant::ZERO + 40 * one_way;
            let stall = stall(link, ack, App::Bulk { bytes: None }, until);
            let stall = stall.unwrap_or_else(|| panic!("{ack} over {one_way:?}"));
            assert_eq!(stall.why, Stillness::NoProgress, "{stall}");
            // Flows are looked at every 100 ms.
            assert!(stall.since <= until + 100 * MS && !stall.backwards, "{stall}");
        }
    }
}

#[test]
fn who_has_nothing_to_send_does_not_stall() {
    let think = Duration::from_secs(300);
    let asks = App::RequestResponse { request_bytes: 1, response_bytes: 1, think, count: None };
    for app in [asks, App::Bulk { bytes: Some(1) }, App::Bulk { bytes: Some(100_000) }] {
        for ack in [AckStrategy::TACK, AckStrategy::every(2)] {
            let path = Wired::symmetric(clean(10, 20 * MS), 1).unwrap();
            assert_eq!(stall(path, ack, app.clone(), Instant::from_secs(700)), None);
        }
    }
}

#[test]
fn a_path_that_lets_nothing_through_stalls_nobody() {
    let s = Instant::from_secs;
    for seconds in [5, 20, 50] {
        let gone = Outages::At(vec![(s(1), s(1 + seconds))]);
        let dead = DirectionConfig { blackouts: gone, ..clean(10, 20 * MS) };
        let stops = [(0, 10), (1, 0), (1 + seconds, 10)];
        let steps = stops.map(|(at, mbps)| RateStep { at: s(at), rate: Rate::from_mbps(mbps) });
        let capacity = tack_link::wired::Capacity::Steps(steps.to_vec());
        let standing = DirectionConfig { capacity, ..clean(10, 20 * MS) };
        for (there, back) in
            [(&dead, &clean(10, 20 * MS)), (&clean(10, 20 * MS), &dead), (&standing, &standing)]
        {
            let path = Wired::new(there.clone(), back.clone(), 1).unwrap();
            let ack = AckStrategy::every(2);
            let stall = stall(path, ack, App::Bulk { bytes: None }, s(seconds + 30));
            assert_eq!(stall, None, "{there:?}, {back:?}");
        }
    }
}

#[test]
fn plain_tcp_under_heavy_loss_waits_and_does_not_stall() {
    for seed in 0..24 {
        let loss = match seed % 3 {
            0 => LossConfig::Bernoulli(0.1),
            1 => LossConfig::bursts(0.1, 20.0),
            _ => LossConfig::bursts(0.1, 4.0),
        };
        // A window of a packet or two, where every other loss takes a timeout.
        let mbps = [0, 1, 30][seed as usize % 5 % 3];
        let rate = if mbps == 0 { Rate::from_kbps(100) } else { Rate::from_mbps(mbps) };
        let one_way = [MS, 25 * MS, 300 * MS][seed as usize % 4 % 3];
        let lossy =
            DirectionConfig { loss, ..DirectionConfig::clean(rate, one_way, Limit::Packets(20)) };
        let path = Wired::symmetric(lossy, seed).unwrap();
        let ack = [AckStrategy::every(2), AckStrategy::every(16)][seed as usize % 2];
        let stall = stall(path, ack, App::Bulk { bytes: None }, Instant::from_secs(60));
        assert_eq!(stall, None, "seed {seed}");
    }
}
