//! Whole conversations over paths that lose, reorder and duplicate, from seeds.

use std::time::Duration;

use tack::{Params, RbbPolicy, StartupAcks};
use tack_units::{Instant, Rate};

use crate::rng::Rng;
use crate::world::{Config, World};

fn random(seed: u64) -> Config {
    let mut rng = Rng::new(seed);
    let rtt = Duration::from_micros(200 + rng.below(150_000));
    let rbb = match rng.below(3) {
        0 => RbbPolicy::OnDemand,
        1 => RbbPolicy::Rich,
        _ => RbbPolicy::Poor(1 + rng.below(4) as u32),
    };
    let params = Params {
        beta: 2 + rng.below(7) as u32,
        segments_per_ack: 1 + rng.below(4) as u32,
        rbb,
        loss_iacks: !rng.chance(0.1),
        ack_on_push: rng.chance(0.5),
        startup: match rng.below(3) {
            0 => StartupAcks::PerPacket,
            _ => StartupAcks::PerRtt(1 + rng.below(32) as u32),
        },
        owd_timing: !rng.chance(0.1),
        ..Params::default()
    };
    let blackout = rng.chance(0.2).then(|| {
        let from = Instant::from_millis(1 + rng.below(200));
        (from, from + Duration::from_millis(rng.below(3_000)))
    });
    let sometimes = |rng: &mut Rng, p: f64| if rng.chance(0.5) { 0.0 } else { p * rng.unit() };
    Config {
        seed,
        params,
        rate: Rate::from_kbps(100 + rng.below(200_000)),
        rtt,
        loss: sometimes(&mut rng, 0.3),
        ack_loss: sometimes(&mut rng, 0.5),
        duplicate: sometimes(&mut rng, 0.1),
        reorder: sometimes(&mut rng, 0.5),
        reorder_by: rtt.mul_f64(rng.unit()),
        total: [0, 1, 1_448, rng.below(3_000_000)][rng.below(4) as usize],
        capacity: 3_000 + rng.below(1 << 22),
        in_flight_bdp: 0.5 + 2.0 * rng.unit(),
        startup: rng.chance(0.1),
        first_pkt_seq: [0, 1, u64::from(u32::MAX) - 20, rng.below(1 << 32)][rng.below(4) as usize],
        first_seq: rng.below(1 << 40),
        clock_offset_us: rng.next() as u32,
        max_holes: rng.below(200) as usize,
        queue: None,
        queue_phase: Duration::ZERO,
        blackout,
        handshake: !rng.chance(0.1),
    }
}

fn converse(cfg: Config) -> World {
    let (seed, shape) = (cfg.seed, format!("{cfg:?}"));
    let again = "cargo test -p tack-ack --test mechanism conversation";
    let mut w = World::new(cfg);
    w.run(Instant::from_secs(3_600));
    assert!(
        w.done(),
        "seed {seed} ({again}): {} of {} after {}\n{shape}\n{:?}",
        w.rcv_nxt - w.cfg.first_seq,
        w.cfg.total,
        w.now,
        w.counts
    );
    assert_eq!(w.sender.in_flight(), 0, "seed {seed} ({again})");
    assert_eq!(w.sender.deadline(), None, "seed {seed} ({again})");
    w
}

#[test]
fn every_byte_arrives_whatever_the_path_does() {
    for seed in 1..=1_500 {
        let w = converse(random(seed));
        let delivered = w.sender.delivered();
        assert_eq!(delivered, w.cfg.total, "seed {seed}: delivered is exact at the end");
        assert!(w.sender.needless() <= w.sender.retransmissions(), "seed {seed}");
    }
}

#[test]
fn a_clean_path_needs_no_retransmission_probe_or_timeout() {
    for seed in 1..=100 {
        let mut cfg = random(seed);
        (cfg.loss, cfg.ack_loss, cfg.duplicate, cfg.reorder) = (0.0, 0.0, 0.0, 0.0);
        cfg.blackout = None;
        cfg.capacity = 1 << 30;
        let w = converse(cfg);
        assert_eq!(w.sender.retransmissions(), 0, "seed {seed}");
        assert_eq!((w.counts.probes, w.counts.timeouts), (0, 0), "seed {seed}");
        assert_eq!(w.counts.loss_iacks, 0, "seed {seed}");
    }
}

#[test]
fn reordering_inside_the_settling_time_causes_no_retransmission() {
    for seed in 1..=20 {
        let rtt = Duration::from_millis(40);
        let w = converse(Config {
            seed,
            rtt,
            reorder: 0.3,
            reorder_by: rtt / 5,
            total: 5_000_000,
            ..Config::default()
        });
        // Before the first frequency arrives the receiver does not know RTTmin.
        let needless = w.sender.retransmissions() as f64 / w.counts.data as f64;
        assert!(needless < 0.02, "seed {seed}: {needless}");
    }
}

#[test]
fn needless_retransmissions_are_recognised_and_the_settling_time_adapts() {
    let rtt = Duration::from_millis(40);
    let mut w =
        World::new(Config { rtt, reorder: 0.05, reorder_by: rtt * 4 / 5, ..Config::default() });
    w.run(Instant::from_secs(2));
    let early = (w.sender.retransmissions(), w.counts.data);
    assert!(w.sender.needless() > early.0 / 2, "{} of {early:?}", w.sender.needless());
    w.run(Instant::from_secs(10));
    let late = (w.sender.retransmissions() - early.0, w.counts.data - early.1);
    let share = |(n, of): (u64, u64)| n as f64 / of as f64;
    println!("needless share: first 2 s {:.4}, then {:.4}", share(early), share(late));
    assert!(share(late) < share(early) / 2.0 || share(late) < 0.002);
}

#[test]
fn a_blackout_ends_with_a_timeout_and_full_recovery() {
    let from = Instant::from_millis(500);
    let w = converse(Config {
        blackout: Some((from, from + Duration::from_secs(5))),
        total: 20_000_000,
        ..Config::default()
    });
    assert!(w.counts.timeouts >= 3, "{:?}", w.counts);
    assert!(w.now < Instant::from_secs(12), "backoff must not outlast the blackout by much");
}

#[test]
fn losing_only_acknowledgments_makes_the_timeout_spurious() {
    // Every TACK for a while is lost, the data is not.
    let mut found = 0;
    for seed in 1..=10 {
        let mut w =
            World::new(Config { seed, total: 8_000_000, in_flight_bdp: 1.0, ..Config::default() });
        w.run(Instant::from_millis(400));
        w.cfg.ack_loss = 1.0;
        w.run(Instant::from_millis(900));
        w.cfg.ack_loss = 0.0;
        w.run(Instant::from_secs(60));
        assert!(w.done(), "seed {seed}");
        found += w.counts.spurious;
        let again = w.sender.retransmissions();
        assert!(again < 50, "seed {seed}: {again} retransmissions for nothing");
    }
    assert!(found > 0);
}
