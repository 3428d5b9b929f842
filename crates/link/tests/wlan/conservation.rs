//! Check 8: nothing is lost track of, nothing is left to chance.

use std::time::Duration;

use tack_link::open_loop::{AckRule, Mode, OpenLoop};
use tack_link::wlan::{
    Beacons, Errors, HiddenInterferer, HostDelay, Load, Neighbour, Preset, Protection, ScanPlan,
    Scheduling, Standard, WlanConfig,
};

use crate::snapshot::run;

/// Everything that can go wrong at once.
pub(crate) fn rough(standard: Standard, seed: u64) -> WlanConfig {
    let mut c = WlanConfig::preset(Preset::Textbook, standard).with_stations(4);
    c.seed = seed;
    c.errors = Errors { downlink_mpdu: 0.1, uplink_mpdu: 0.2, ppdu: 0.03, response: 0.05 };
    c.hidden = Some(HiddenInterferer {
        bursts_per_s: 50.0,
        burst: seed.is_multiple_of(2).then_some(Duration::from_micros(300)),
    });
    c.beacons = Some(Beacons {
        interval: Duration::from_micros(102_400),
        bytes: 250,
        kbps: if standard == Standard::B { 1_000 } else { 6_000 },
        networks: 3,
    });
    let edca = c.station_edca[1];
    let (rate, ampdu) = (c.downlink, c.ap_ampdu);
    let neighbour = |load| Neighbour { load, rate, packet_bytes: 1_500, ampdu, edca };
    c.neighbours =
        vec![neighbour(Load::Airtime(0.1)), neighbour(Load::Mbps(1.0)), neighbour(Load::Saturated)];
    c.scan = Some(ScanPlan {
        interval: Duration::from_millis(300),
        min: Duration::from_millis(100),
        max: Duration::from_millis(250),
    });
    c.host_delay = HostDelay {
        delay: Duration::from_micros(100),
        spread: 0.5,
        per_packet: Duration::from_micros(3),
    };
    c.explicit_bar = seed.is_multiple_of(3);
    c.ap_queue_packets = 50;
    c.station_queue_packets = 20;
    c.scheduling = if seed.is_multiple_of(2) { Scheduling::Fifo } else { Scheduling::RoundRobin };
    c.protection = Protection::RtsCts { threshold_bytes: 3_000, kbps: None };
    c.retry_limit = Some(2);
    c
}

#[test]
fn check_8_airtime_and_packets_add_up_however_rough_the_channel() {
    for standard in Standard::ALL {
        for (seed, mode) in (1..).zip([Mode::Udp, Mode::UdpAck, Mode::Relay, Mode::Up]) {
            for offered in [None, Some(20.0)] {
                let mut experiment = OpenLoop::new(rough(standard, seed), mode);
                experiment.offered_mbps = offered;
                experiment.ack = AckRule::EveryPackets(1);
                experiment.duration = Duration::from_secs(3);
                let report = run(&experiment);
                assert!(report.data_packets > 0, "{standard:?} {mode:?} seed {seed}");
            }
        }
    }
}

#[test]
fn check_8_the_same_seed_gives_the_same_run() {
    for standard in [Standard::G, Standard::N] {
        let mut experiment = OpenLoop::new(rough(standard, 5), Mode::UdpAck);
        experiment.duration = Duration::from_secs(2);
        assert_eq!(run(&experiment), run(&experiment));
        let first = run(&experiment);
        experiment.wlan.seed = 6;
        assert_ne!(first, run(&experiment));
    }
}

#[test]
fn check_8_seeds_agree_within_half_a_percent() {
    for standard in Standard::ALL {
        let config = WlanConfig::preset(Preset::Textbook, standard);
        let mut experiment = OpenLoop::new(config, Mode::UdpAck);
        let slow = standard == Standard::B;
        experiment.duration = Duration::from_secs(if slow { 50 } else { 10 });
        let summary = experiment.run_seeds(1..=5).expect("a valid experiment");
        let relative = summary.l3_sd / summary.l3_mbps * 100.0;
        assert!(relative <= 0.5, "{standard:?}: sd {relative:.2} %");
        assert!(summary.runs.iter().all(|r| r.ledger.balances()));
    }
}
