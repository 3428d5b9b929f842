//! The toy QUIC of the examples, over paths drawn at random: the mechanism holds where packets are
//! retired and streams are packed anew.

use std::time::Duration;

use tack::{Params, equations};
use tack_units::Rate;

use crate::rng::Rng;

#[path = "../../examples/toy_quic/client.rs"]
mod client;
#[path = "../../examples/toy_quic/config.rs"]
mod config;
#[path = "../../examples/toy_quic/frame.rs"]
mod frame;
#[path = "../../examples/toy_quic/server.rs"]
mod server;
#[path = "../../examples/toy_quic/world.rs"]
mod world;

use config::Config;
use world::World;

fn random(seed: u64) -> Config {
    let mut rng = Rng::new(seed);
    let rtt = Duration::from_micros(200 + rng.below(200_000));
    let usual = Config::default();
    let params = Params {
        beta: 2 + rng.below(7) as u32,
        segments_per_ack: 1 + rng.below(4) as u32,
        ..usual.params
    };
    let mut sometimes = |p: f64| if rng.chance(0.5) { 0.0 } else { p * rng.unit() };
    let (loss, ack_loss) = (sometimes(0.3), sometimes(0.5));
    let (duplicate, late) = (sometimes(0.1), sometimes(0.5));
    Config {
        seed,
        params,
        totals: [rng.below(600_000), rng.below(600_000)],
        rate: Rate::from_kbps(100 + rng.below(200_000)),
        rtt,
        loss,
        ack_loss,
        duplicate,
        late,
        late_by: rtt.mul_f64(rng.unit()),
    }
}

#[test]
fn two_streams_arrive_intact_over_any_path() {
    for seed in 1..=300 {
        let config = random(seed);
        let report = World::new(config.clone()).run();
        assert!(report.intact, "seed {seed}: {config:?} {report:?}");
        assert!(report.needless <= report.lost, "seed {seed}: {report:?}");
    }
}

#[test]
fn a_clean_path_is_acknowledged_at_the_frequency_of_equation_4() {
    for (mbps, rtt_ms) in [(100, 80), (20, 20), (1, 20), (300, 200), (10, 5)] {
        let (rate, rtt) = (Rate::from_mbps(mbps), Duration::from_millis(rtt_ms));
        let half = rate.bytes_in(Duration::from_secs(4)) / 2;
        let config = Config { rate, rtt, totals: [half, half], ..Config::default() };
        let Params { beta, segments_per_ack, mss, .. } = config.params;
        let report = World::new(config).run();
        let eq4 = equations::tack_frequency(rate, rtt, beta, segments_per_ack, mss);
        // Numbers that are left out look like losses, once each.
        assert!(report.losses <= report.packets / 250 + 3, "{report:?}");
        let ratio = report.tack_hz / eq4;
        let most = 1.03 + report.losses as f64 / report.seconds / eq4;
        assert!((0.97..most).contains(&ratio), "{mbps} Mbit/s, {rtt_ms} ms: {ratio} of Eq. 4");
        assert_eq!((report.lost, report.needless), (0, 0), "{report:?}");
        let error = report.rtt_min.expect("sampled").div_duration_f64(rtt) - 1.0;
        assert!(error.abs() < 0.01, "{report:?}");
    }
}

#[test]
fn a_receiver_remembers_the_losses_of_a_few_round_trips_however_long_a_transfer_takes() {
    let totals = [40_000_000, 20_000_000];
    let config = Config { totals, loss: 0.02, ack_loss: 0.05, ..Config::default() };
    let per_rtt = config.rate.bytes_in(config.rtt) as f64 / 1_448.0 * config.loss;
    let report = World::new(config).run();
    assert!(report.lost as f64 > 40.0 * per_rtt, "{report:?}");
    assert!((report.most_ranges as f64) < 10.0 * per_rtt, "{per_rtt} in an RTT: {report:?}");
}

#[test]
fn loss_is_repaired_without_timeouts_or_repetition() {
    let config = Config { loss: 0.01, ack_loss: 0.01, ..Config::default() };
    let (lossless, rtt) = (20e6 * 8.0 / 100e6, config.rtt.as_secs_f64());
    let report = World::new(config).run();
    assert!(report.intact && report.needless <= report.lost / 50, "{report:?}");
    assert!(report.tacks < report.packets / 16, "{report:?}");
    // What was lost goes again, and the last of it is repaired in a few round trips.
    assert!(report.seconds < lossless * 1.02 + 8.0 * rtt, "{report:?}");
}
