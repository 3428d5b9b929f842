//! The delivery rate that the receiver reports, and what reaches the application.

use std::time::Duration;

use tack::{Params, RbbPolicy};
use tack_units::{Instant, Rate};

use crate::rng::Rng;
use crate::world::{Config, World};

/// Reported rates over the pace, after the first second, least and greatest.
fn spread(cfg: Config) -> (f64, f64) {
    let pace = cfg.rate.as_bps() as f64;
    let mut w = World::new(cfg);
    w.run(Instant::from_secs(1));
    w.rates.clear();
    w.run(Instant::from_secs(4));
    assert!(w.rates.len() > 20, "{}", w.rates.len());
    let over: Vec<f64> = w.rates.iter().map(|r| r.as_bps() as f64 / pace).collect();
    (over.iter().copied().fold(f64::MAX, f64::min), over.iter().copied().fold(0.0, f64::max))
}

#[test]
fn a_clean_path_is_measured_within_one_percent_in_both_regimes() {
    for (rtt, mbps) in [(10, 1), (10, 100), (80, 10), (200, 100)] {
        for startup in [false, true] {
            let (rtt, rate) = (Duration::from_millis(rtt), Rate::from_mbps(mbps));
            let (low, high) = spread(Config { rtt, rate, startup, ..Config::default() });
            println!("{rtt:?} {mbps} Mbit/s startup {startup}: {low:.4} to {high:.4}");
            assert!(low > 0.99 && high < 1.01, "{rtt:?} {mbps} Mbit/s: {low} to {high}");
        }
    }
}

/// A link that delivers every 4 ms what has gathered, as A-MPDUs behind a busy medium.
fn bursts(now: Instant, _: &mut Rng) -> Duration {
    Duration::from_micros(4_000 - now.as_micros() % 4_000)
}

#[test]
fn a_link_that_delivers_in_bursts_does_not_inflate_the_rate() {
    for startup in [false, true] {
        let rtt = Duration::from_millis(40);
        let cfg = Config { rtt, startup, queue: Some(bursts), ..Config::default() };
        let (low, high) = spread(cfg);
        println!("startup {startup}: {low:.4} to {high:.4}");
        assert!(low > 0.8 && high < 1.05, "startup {startup}: {low} to {high}");
    }
}

/// [TON Fig. 6b]: 200 ms, rho 1 %, growing rho'; a window of 4 bdp. What the application gets.
#[test]
fn ten_percent_ack_loss_costs_at_most_three_points() {
    let goodput = |rbb, ack_loss| {
        let (rtt, rate) = (Duration::from_millis(200), Rate::from_mbps(100));
        let mut w = World::new(Config {
            rtt,
            rate,
            loss: 0.01,
            ack_loss,
            capacity: 4 * rate.bytes_in(rtt),
            params: Params { rbb, ..Params::default() },
            ..Config::default()
        });
        w.run(Instant::from_secs(2));
        let before = w.rcv_nxt;
        // Long enough that one hole open at the end (up to half a second's bytes) is no point.
        w.run(Instant::from_secs(62));
        (w.rcv_nxt - before) as f64 / rate.bytes_in(Duration::from_secs(60)) as f64
    };
    println!("rho'    on demand   rich    poor   of the pace");
    let mut clean = 0.0;
    for ack_loss in [0.0, 0.002, 0.01, 0.05, 0.1] {
        let [demand, rich, poor] = [RbbPolicy::OnDemand, RbbPolicy::Rich, RbbPolicy::Poor(1)]
            .map(|rbb| goodput(rbb, ack_loss));
        println!("{ack_loss:5}   {demand:9.3} {rich:6.3} {poor:7.3}");
        clean = if ack_loss == 0.0 { demand } else { clean };
        assert!(clean > 0.97);
        assert!(demand > clean - 0.03 && rich > clean - 0.03, "rho' {ack_loss}");
        assert!(ack_loss < 0.05 || poor < demand, "rho' {ack_loss}");
    }
}
