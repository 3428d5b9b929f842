//! Open-loop traffic through the simulator agrees with the link model driven directly.

use core::time::Duration;

use tack_link::End;
use tack_link::wired::{DirectionConfig, Wired};
use tack_link::wlan::{Preset, Standard, Wlan, WlanConfig};
use tack_link::{Link, path::Path};
use tack_sim::{AckRule, Blast, Seed, Simulation, Site};
use tack_units::{Instant, Rate};

/// IP-level Mbit/s of 1500-byte packets from the wire to one station.
fn downlink_mbps(standard: Standard, rule: AckRule, seed: u64) -> f64 {
    let seed = Seed(seed);
    let mut wlan = WlanConfig::preset(Preset::Textbook, standard);
    wlan.stations[0].hosts = vec![0];
    wlan.seed = seed.derive("wlan");
    let wire = DirectionConfig { delay: Duration::from_micros(500), ..DirectionConfig::default() };
    let hops: Vec<Box<dyn Link + Send>> = vec![
        Box::new(Wlan::new(wlan).unwrap()),
        Box::new(Wired::symmetric(wire, seed.derive("wire")).unwrap()),
    ];
    let mut sim = Simulation::new(seed);
    let link = sim.add_link(Path::new(hops));
    let station = sim.add_host(Site { link, end: End::A });
    let server = sim.add_host(Site { link, end: End::B });
    let seconds = 3;
    sim.acknowledge_blasts(station, rule, 46);
    let stop = Instant::from_secs(seconds);
    let (start, rate) = (Instant::ZERO, Rate::from_mbps(800));
    sim.add_blast(server, Blast { dst: station, ip_bytes: 1_500, rate, start, stop });
    sim.run_until(stop);
    let bytes = sim.world().host(station).open_loop_from(server).ip_bytes;
    bytes as f64 * 8e-6 / seconds as f64
}

#[test]
fn the_papers_open_loop_traffic_meets_the_model_tables() {
    // The tables of the model: textbook g and n without ACKs, at L = 2, and at 50 Hz.
    let cases = [
        (Standard::G, AckRule::None, 30.49),
        (Standard::G, AckRule::Every(2), 25.27),
        (Standard::G, AckRule::Period(Duration::from_millis(20)), 30.24),
        (Standard::N, AckRule::None, 261.0),
        (Standard::N, AckRule::Every(2), 230.7),
        (Standard::N, AckRule::Period(Duration::from_millis(20)), 256.6),
    ];
    for (standard, rule, expected) in cases {
        let got = downlink_mbps(standard, rule, 1);
        assert!((got / expected - 1.0).abs() < 0.02, "{standard:?} {rule:?}: {got} for {expected}");
    }
}
