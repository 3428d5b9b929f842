//! Real stacks over 802.11n: every byte compared, and TACK's advantage where it comes from.

use core::time::Duration;

use tack_link::path::Path;
use tack_link::wired::{DirectionConfig, Wired};
use tack_link::wlan::{Preset, Standard, Station, Wlan, WlanConfig};
use tack_link::{End, Link};
use tack_sim::{AckStrategy, FlowConfig, Seed, Simulation, Site, Transport};
use tack_units::Instant;

/// A WLAN with `stations`, whose hosts are numbered from zero, and `one_way` of wire behind it.
fn wlan(preset: Preset, stations: u32, one_way: Duration, seed: Seed) -> Path {
    let mut wlan = WlanConfig::preset(preset, Standard::N);
    wlan.seed = seed.derive("wlan");
    let station = wlan.stations[0].clone();
    wlan.stations = (0..stations).map(|n| Station { hosts: vec![n], ..station.clone() }).collect();
    let wire = DirectionConfig { delay: one_way, ..DirectionConfig::default() };
    let hops: Vec<Box<dyn Link + Send>> = vec![
        Box::new(Wlan::new(wlan).unwrap()),
        Box::new(Wired::symmetric(wire, seed.derive("wire")).unwrap()),
    ];
    Path::new(hops)
}

struct Outcome {
    goodput_mbps: f64,
    acks_per_s: f64,
}

/// Bulk from the wire to one station, measured from second 2 to second 6.
fn downlink(preset: Preset, ack: AckStrategy) -> Outcome {
    let seed = Seed(1);
    let mut sim = Simulation::new(seed);
    let link = sim.add_link(wlan(preset, 1, Duration::from_millis(40), seed));
    let station = sim.add_host(Site { link, end: End::A });
    let server = sim.add_host(Site { link, end: End::B });
    let flow = sim.add_flow(FlowConfig::bulk(server, station, &Transport::new(ack)));
    let mut reading = |at| {
        sim.run_until(Instant::from_secs(at));
        let (sender, receiver) = sim.flow(flow);
        assert_eq!(receiver.first_wrong_byte, None, "{ack:?}");
        (receiver.received, sender.arrived.ack_packets)
    };
    let (before, after) = (reading(2), reading(6));
    Outcome {
        goodput_mbps: (after.0 - before.0) as f64 * 8e-6 / 4.0,
        acks_per_s: (after.1 - before.1) as f64 / 4.0,
    }
}

#[test]
fn tack_leaves_the_air_to_data() {
    for (preset, tcp, tack) in [(Preset::Textbook, 222.0, 248.0), (Preset::PaperA, 160.0, 202.0)] {
        let l2 = downlink(preset, AckStrategy::every(2));
        let rare = downlink(preset, AckStrategy::TACK);
        // The open-loop bounds, times the payload's share of a packet; some of it is lost to
        // probing for bandwidth and delay.
        assert!((0.85 * tcp..1.02 * tcp).contains(&l2.goodput_mbps), "{}", l2.goodput_mbps);
        assert!((0.88 * tack..1.02 * tack).contains(&rare.goodput_mbps), "{}", rare.goodput_mbps);
        assert!(rare.goodput_mbps > 1.05 * l2.goodput_mbps);
        // Four per round trip of 80 ms and one per loss event, against one per two packets.
        let rates = (rare.acks_per_s, l2.acks_per_s);
        assert!(rates.0 < 100.0 && rates.1 > 5_000.0, "{preset:?} {rates:?}");
    }
}

#[test]
fn stations_share_the_air_and_reach_each_other_over_the_access_point() {
    let seed = Seed(2);
    let mut sim = Simulation::new(seed);
    let link = sim.add_link(wlan(Preset::Textbook, 4, Duration::from_millis(5), seed));
    for _ in 0..4 {
        sim.add_host(Site { link, end: End::A });
    }
    let server = sim.add_host(Site { link, end: End::B });
    let transport = Transport::new(AckStrategy::TACK);
    // Two downloads, one upload, and one transfer between stations.
    let flows: Vec<_> = [(server, 0), (server, 1), (2, server), (2, 3)]
        .map(|(from, to)| sim.add_flow(FlowConfig::bulk(from, to, &transport)))
        .to_vec();
    sim.run_until(Instant::from_secs(4));
    for flow in flows {
        let (_, receiver) = sim.flow(flow);
        assert_eq!(receiver.first_wrong_byte, None);
        assert!(receiver.received > 2_000_000, "{flow:?} got {}", receiver.received);
    }
    assert_eq!(sim.world().totals().unroutable, 0);
}
