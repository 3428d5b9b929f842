//! Real stacks over wired paths: every byte compared, end to end.

use core::time::Duration;

use tack_link::loss::LossConfig;
use tack_link::path::Path;
use tack_link::queue::{CodelConfig, Discipline, Limit, QueueConfig};
use tack_link::tap::Tap;
use tack_link::wired::{Corruption, DirectionConfig, Outages, Reordering, Wired};
use tack_link::{End, Link};
use tack_sim::{
    AckStrategy, App, FlowConfig, FlowId, Seed, SideReport, Simulation, Site, Transport,
};
use tack_units::{Instant, Rate};

const STRATEGIES: [AckStrategy; 6] = [
    AckStrategy::TACK,
    AckStrategy::every(1),
    AckStrategy::every(2),
    AckStrategy::every(4),
    AckStrategy::every(8),
    AckStrategy::every(16),
];

fn path(mbps: u64, one_way: Duration) -> DirectionConfig {
    let bdp = Rate::from_mbps(mbps).bytes_in(2 * one_way);
    DirectionConfig::clean(Rate::from_mbps(mbps), one_way, Limit::Bytes(bdp.max(30_000)))
}

/// Two hosts, `from` at end A and `to` at end B.
fn pair<L: Link>(link: L, seed: u64) -> (Simulation<L>, u32, u32) {
    let mut sim = Simulation::new(Seed(seed));
    let link = sim.add_link(link);
    let from = sim.add_host(Site { link, end: End::A });
    let to = sim.add_host(Site { link, end: End::B });
    (sim, from, to)
}

fn transfer(bytes: u64) -> App {
    App::Bulk { bytes: Some(bytes) }
}

fn assert_complete<L: Link>(sim: &Simulation<L>, flow: FlowId, bytes: u64, what: &str) {
    let (from, to) = sim.flow(flow);
    assert_eq!(from.written, bytes, "{what}");
    assert_eq!((to.received, to.first_wrong_byte), (bytes, None), "{what}: {:?}", to.closed);
    assert!(to.at_end, "{what}: the stream has an end");
    assert_eq!(from.closed.unwrap_or(Ok(())), Ok(()), "{what}");
}

#[test]
fn every_strategy_delivers_every_byte_over_a_clean_path() {
    for ack in STRATEGIES {
        let link = Wired::symmetric(path(100, Duration::from_millis(20)), 1).unwrap();
        let (mut sim, from, to) = pair(link, 1);
        let transport = Transport::new(ack);
        let config =
            FlowConfig { app: transfer(5_000_000), ..FlowConfig::bulk(from, to, &transport) };
        let flow = sim.add_flow(config);
        sim.run_until(Instant::from_secs(20));
        assert_complete(&sim, flow, 5_000_000, &format!("{ack:?}"));
        let arrived = sim.flow(flow).0.arrived;
        assert_eq!(arrived.data_packets, 0, "{ack:?}: feedback is no data");
    }
}

#[test]
fn fewer_acknowledgments_the_greater_l() {
    let acks = |ack| {
        // Room for everything: what is lost is acknowledged at once, whatever L is.
        let roomy = QueueConfig::drop_tail(Limit::Packets(u32::MAX));
        let direction = DirectionConfig { queue: roomy, ..path(50, Duration::from_millis(20)) };
        let (mut sim, from, to) = pair(Wired::symmetric(direction, 1).unwrap(), 1);
        let transport = Transport::new(ack);
        let config =
            FlowConfig { app: transfer(20_000_000), ..FlowConfig::bulk(from, to, &transport) };
        let flow = sim.add_flow(config);
        sim.run_until(Instant::from_secs(30));
        assert_complete(&sim, flow, 20_000_000, &format!("{ack:?}"));
        sim.flow(flow).0.arrived.ack_packets as f64 / sim.flow(flow).1.arrived.data_packets as f64
    };
    for l in [1, 2, 4, 8] {
        let ratio = acks(AckStrategy::every(l));
        let ideal = 1.0 / f64::from(l);
        assert!((0.97..1.25).contains(&(ratio / ideal)), "L = {l}: {ratio} per data packet");
    }
}

/// Loss, damage, copies, reordering, holds and a blackout at once.
fn rough(mbps: u64) -> DirectionConfig {
    DirectionConfig {
        loss: LossConfig::bursts(0.01, 3.0),
        corruption: Corruption { probability: 0.002, max_flips: 8 },
        duplication: 0.01,
        reordering: Reordering {
            probability: 0.01,
            min: Duration::from_millis(1),
            max: Duration::from_millis(8),
        },
        holds: Outages::Every {
            first: Instant::from_millis(500),
            period: Duration::from_secs(2),
            min: Duration::from_millis(100),
            max: Duration::from_millis(250),
        },
        blackouts: Outages::At(vec![(Instant::from_millis(1_500), Instant::from_millis(2_200))]),
        ..path(mbps, Duration::from_millis(15))
    }
}

#[test]
fn a_rough_path_delays_but_never_changes_a_byte() {
    for seed in 1..=4 {
        for ack in [AckStrategy::TACK, AckStrategy::every(2), AckStrategy::every(16)] {
            let link = Wired::symmetric(rough(20), seed).unwrap();
            let (mut sim, from, to) = pair(link, seed);
            let transport = Transport::new(ack);
            let config =
                FlowConfig { app: transfer(2_000_000), ..FlowConfig::bulk(from, to, &transport) };
            let flow = sim.add_flow(config);
            sim.run_until(Instant::from_secs(120));
            assert_complete(&sim, flow, 2_000_000, &format!("seed {seed} {ack:?}"));
        }
    }
}

#[test]
fn the_ack_filter_and_codel_leave_every_byte_intact() {
    for ack in [AckStrategy::TACK, AckStrategy::every(1)] {
        let codel = CodelConfig { ecn: true, ..CodelConfig::default() };
        let down = DirectionConfig {
            queue: QueueConfig {
                limit: Limit::Packets(1_000),
                discipline: Discipline::Codel(codel),
                ack_filter: false,
            },
            ..path(20, Duration::from_millis(20))
        };
        // 1/200 of the forward rate: acknowledgments queue, and the filter has work.
        let up = DirectionConfig {
            queue: QueueConfig { ack_filter: true, ..QueueConfig::default() },
            capacity: tack_link::wired::Capacity::Constant(Rate::from_kbps(100)),
            ..path(1, Duration::from_millis(20))
        };
        let (mut sim, from, to) = pair(Wired::new(down, up, 1).unwrap(), 1);
        let mut transport = Transport::new(ack);
        transport.congestion = None;
        let mut config =
            FlowConfig { app: transfer(5_000_000), ..FlowConfig::bulk(from, to, &transport) };
        (config.from_conn.ecn, config.to_conn.ecn) = (true, true);
        let flow = sim.add_flow(config);
        sim.run_until(Instant::from_secs(60));
        assert_complete(&sim, flow, 5_000_000, &format!("{ack:?}"));
        let filtered = sim.world().links()[0].counters(End::B).acks_replaced;
        assert_eq!(filtered > 0, ack != AckStrategy::TACK, "{ack:?}: {filtered}");
    }
}

#[test]
fn several_flows_start_stop_and_share() {
    let link = Wired::symmetric(path(50, Duration::from_millis(10)), 1).unwrap();
    let (mut sim, from, to) = pair(link, 3);
    let transport = Transport::new(AckStrategy::every(2));
    let flows: Vec<_> = (0..4)
        .map(|n| {
            let mut config = FlowConfig::bulk(from, to, &transport);
            config.start = Instant::from_secs(n);
            config.stop = Some(Instant::from_secs(n + 4));
            sim.add_flow(config)
        })
        .collect();
    sim.run_until(Instant::from_millis(2_500));
    let received = |sim: &Simulation<Wired>, n: usize| sim.flow(flows[n]).1.received;
    assert!(received(&sim, 0) > 1_000_000 && received(&sim, 2) > 0);
    assert_eq!(received(&sim, 3), 0, "not before its start");
    sim.run_until(Instant::from_secs(30));
    for flow in flows {
        let (from, to) = sim.flow(flow);
        assert_eq!((to.received, to.first_wrong_byte), (from.written, None));
        assert!(to.at_end && from.written > 1_000_000);
        assert!(to.last_read_at.unwrap() < Instant::from_secs(20), "it stopped");
    }
}

#[test]
fn requests_are_answered_in_a_round_trip_and_some() {
    for ack in [AckStrategy::TACK, AckStrategy::every(2)] {
        let link = Wired::symmetric(path(100, Duration::from_millis(20)), 1).unwrap();
        let (mut sim, from, to) = pair(link, 1);
        let mut config = FlowConfig::bulk(from, to, &Transport::new(ack));
        config.app = App::RequestResponse {
            request_bytes: 300,
            response_bytes: 8_000,
            think: Duration::from_millis(100),
            count: Some(50),
        };
        let flow = sim.add_flow(config);
        sim.run_until(Instant::from_secs(30));
        let (client, server) = sim.flow(flow);
        assert_eq!((client.received, client.first_wrong_byte), (400_000, None), "{ack:?}");
        assert_eq!((server.received, server.first_wrong_byte), (15_000, None), "{ack:?}");
        assert_eq!(client.latencies.len(), 50);
        let mut sorted = client.latencies.to_vec();
        sorted.sort();
        // The first request waits for the handshake: it is asked for when the connection is.
        let median = sorted[25];
        let range = Duration::from_millis(40)..Duration::from_millis(50);
        assert!(range.contains(&median), "{ack:?}: {median:?}");
    }
}

#[test]
fn constant_rate_and_on_off_traffic_arrive_as_written() {
    let link = Wired::symmetric(path(50, Duration::from_millis(10)), 1).unwrap();
    let (mut sim, from, to) = pair(link, 1);
    let mut add = |app| {
        let mut config = FlowConfig::bulk(from, to, &Transport::new(AckStrategy::TACK));
        config.app = app;
        sim.add_flow(config)
    };
    let constant = add(App::ConstantRate { rate: Rate::from_mbps(4), chunk_bytes: 10_000 });
    let on_off =
        add(App::OnOff { on: Duration::from_millis(500), off: Duration::from_millis(500) });
    sim.run_until(Instant::from_secs(10));
    let side = |flow| -> SideReport<'_> { sim.flow(flow).1 };
    // 500 kB/s; the last chunk may be on its way, or wait behind a packet that the other's burst cost.
    assert!(
        (4_900_000..=5_010_000).contains(&side(constant).received),
        "{}",
        side(constant).received
    );
    // About half of the time, what 50 Mbit/s leave over.
    let received = side(on_off).received;
    assert!((15_000_000..40_000_000).contains(&received), "{received}");
    assert_eq!(side(constant).first_wrong_byte, None);
    assert_eq!(side(on_off).first_wrong_byte, None);
}

#[test]
fn the_same_seed_gives_the_same_capture_byte_for_byte() {
    let run = |seed: u64, record: bool| {
        let hops: Vec<Box<dyn Link + Send>> = vec![
            Box::new(Wired::symmetric(rough(20), seed).unwrap()),
            Box::new(Wired::symmetric(path(30, Duration::from_millis(5)), seed).unwrap()),
        ];
        let tap = Tap::new(Path::new(hops), Vec::new(), "path").unwrap();
        let (mut sim, from, to) = pair(tap, seed);
        for ack in [AckStrategy::TACK, AckStrategy::every(2)] {
            let mut config = FlowConfig::bulk(from, to, &Transport::new(ack));
            config.app = transfer(300_000);
            sim.add_flow(config);
        }
        if record {
            sim.record_every(Duration::from_millis(7), |_| 0);
        }
        sim.run_until(Instant::from_secs(5));
        let fingerprint = sim.world().totals().fingerprint;
        let (_, capture) = sim.into_links().pop().unwrap().finish().unwrap();
        (fingerprint, capture)
    };
    let (first, again, watched, other) =
        (run(5, false), run(5, false), run(5, true), run(6, false));
    assert!(first.1.len() > 500_000);
    assert!(first == again, "fingerprints {:x} and {:x}", first.0, again.0);
    assert!(first == watched, "recording changes nothing");
    assert!(first.1 != other.1 && first.0 != other.0);
}

#[test]
fn a_recorded_flow_has_its_series() {
    let link = Wired::symmetric(path(20, Duration::from_millis(20)), 1).unwrap();
    let (mut sim, from, to) = pair(link, 1);
    let transport = Transport::new(AckStrategy::every(2));
    let flow = sim.add_flow(FlowConfig::bulk(from, to, &transport));
    sim.record_every(Duration::from_millis(10), |link| link.queue_bytes(End::A));
    sim.run_until(Instant::from_secs(4));
    let samples = sim.flow_series(flow).samples();
    assert_eq!(samples.len(), 401);
    let last = samples.last().unwrap().1;
    assert!(last.delivered > 5_000_000 && last.cwnd > 50_000 && last.in_flight > Some(0));
    assert!(last.rtt_min.unwrap() >= Duration::from_millis(40));
    assert!(samples.is_sorted_by_key(|s| s.1.delivered));
    let queue = sim.queue_series(sim.world().link_ids().next().unwrap()).unwrap();
    assert!(queue.samples().iter().any(|s| s.1 > 0));
}

#[test]
fn bytes_behind_a_hole_are_blocked_and_those_without_are_not() {
    let most_blocked = |loss| {
        let direction = DirectionConfig {
            loss: LossConfig::Bernoulli(loss),
            queue: QueueConfig::drop_tail(Limit::Packets(u32::MAX)),
            ..path(20, Duration::from_millis(20))
        };
        let (mut sim, from, to) = pair(Wired::symmetric(direction, 1).unwrap(), 1);
        let flow = sim.add_flow(FlowConfig::bulk(from, to, &Transport::new(AckStrategy::TACK)));
        sim.record_every(Duration::from_millis(5), |_| 0);
        sim.run_until(Instant::from_secs(4));
        sim.flow_series(flow).samples().iter().filter_map(|s| s.1.blocked).max().unwrap()
    };
    assert_eq!(most_blocked(0.0), 0);
    // A hole stays open for about a round trip of 40 ms: up to 100 kB wait behind it.
    assert!((10_000..400_000).contains(&most_blocked(0.01)), "{}", most_blocked(0.01));
}

#[test]
fn a_connection_that_ends_before_its_stop_is_left_alone_there() {
    for cut in [false, true] {
        let loss = LossConfig::Bernoulli(f64::from(u8::from(cut)));
        let direction = DirectionConfig { loss, ..path(20, Duration::from_millis(5)) };
        let (mut sim, from, to) = pair(Wired::symmetric(direction, 1).unwrap(), 1);
        let transport = Transport::new(AckStrategy::every(2));
        let mut config =
            FlowConfig { app: transfer(10_000), ..FlowConfig::bulk(from, to, &transport) };
        // Over a cut path the attempt is given up long before the stop.
        config.from_conn.max_syn_transmissions = 2;
        config.stop = Some(Instant::from_secs(100));
        let flow = sim.add_flow(config);
        sim.run_until(Instant::from_secs(200));
        let closed = sim.flow(flow).0.closed;
        assert_eq!(closed.map(|outcome| outcome.is_err()), Some(cut), "{closed:?}");
    }
}
