//! Check 7: both ends on Wi-Fi ([TON Fig. 3]): each packet and each ACK crosses the channel twice.

use std::fmt::Write;
use std::time::Duration;

use tack_link::open_loop::{AckRule, Mode, OpenLoop};
use tack_link::wlan::{AmpduLimits, Preset, Standard, WlanConfig};

use crate::snapshot::{check, percent, run};

/// 100 Mb/s on Ethernet are 1518 bytes per 1472 of payload.
const OFFERED_MBPS: f64 = 100.0 * 1_472.0 / 1_518.0;

fn thirteen_mpdus(stations: u32) -> WlanConfig {
    let mut config = WlanConfig::preset(Preset::Textbook, Standard::N).with_stations(stations);
    config.ap_ampdu = AmpduLimits::new(65_535, 13);
    config.station_ampdu = config.ap_ampdu;
    config.station_queue_packets = 256;
    config
}

fn offered(config: WlanConfig, mode: Mode, l: u32) -> OpenLoop {
    let mut experiment = OpenLoop::new(config, mode);
    experiment.ack = if l == 0 { AckRule::Never } else { AckRule::EveryPackets(l) };
    experiment.offered_mbps = Some(OFFERED_MBPS);
    experiment.duration = Duration::from_secs(5);
    experiment
}

#[test]
fn check_7_two_hops_pay_for_every_ack() {
    let mut table = String::from("# L: data Mb/s (expected), ACKs delivered Mb/s\n");
    let mut failures = Vec::new();
    for (l, expected) in [(0, 98.7), (1, 64.0), (2, 74.0), (4, 82.5), (8, 88.0), (16, 92.0)] {
        let mut experiment = offered(thirteen_mpdus(2), Mode::Relay, l);
        experiment.duration = Duration::from_secs(40);
        let report = run(&experiment);
        let acks = report.acks_delivered as f64 * 64.0 * 8.0 / 40.0 / 1e6;
        writeln!(table, "{l:>2} {:6.2} ({expected:5.1}) {acks:.3}", report.l3_mbps).unwrap();
        let error = percent(report.l3_mbps, expected);
        if error.abs() > 5.0 {
            failures.push(format!("L = {l}: {}, not {expected}", report.l3_mbps));
        }
    }
    check("relay", &table);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn check_7_one_hop_carries_the_offered_load_whatever_the_acks() {
    for l in [0, 1, 2, 4, 8, 16] {
        let mode = if l == 0 { Mode::Udp } else { Mode::UdpAck };
        let report = run(&offered(thirteen_mpdus(1), mode, l));
        assert!(percent(report.l3_mbps, 98.81).abs() < 0.5, "L = {l}: {}", report.l3_mbps);
    }
}
