//! What each option of the medium does, measured by the traffic it slows down or saves.

use std::time::Duration;

use tack_link::open_loop::{AckRule, Mode, OpenLoop, Report};
use tack_link::wlan::{
    AcParams, AmpduLimits, Beacons, Classifier, Errors, HiddenInterferer, HostDelay, Load,
    Neighbour, Preset, Protection, ScanPlan, Standard, Station, Use, Wlan, WlanConfig,
};
use tack_link::{End, Link, Output, Packet, PacketKind};
use tack_units::Instant;

use crate::snapshot::{percent, run};

fn textbook(standard: Standard, stations: u32) -> WlanConfig {
    WlanConfig::preset(Preset::Textbook, standard).with_stations(stations)
}

fn measure(config: WlanConfig, mode: Mode) -> Report {
    let mut experiment = OpenLoop::new(config, mode);
    experiment.duration = Duration::from_secs(4);
    run(&experiment)
}

#[test]
fn airtime_goes_where_the_closed_form_says() {
    // One sender: 43 + 67.5 idle, 1772 data, 16 + 32 for the BlockAck.
    let report = measure(textbook(Standard::N, 1), Mode::Udp);
    let cycle = 43.0 + 67.5 + 1_772.0 + 48.0;
    for (what, us) in [(Use::Data, 1_772.0), (Use::Contention, 110.5), (Use::Control, 48.0)] {
        let error = percent(report.airtime.share(what), us / cycle);
        assert!(error.abs() < 1.0, "{}: {error:+.2} %", what.name());
    }
    for what in [Use::Ack, Use::Collision, Use::Lost, Use::Beacon, Use::Neighbour, Use::Idle] {
        assert_eq!(report.airtime.share(what), 0.0, "{}", what.name());
    }
}

#[test]
fn acks_and_collisions_show_up_in_the_airtime() {
    let report = measure(textbook(Standard::G, 1), Mode::UdpAck);
    // Half as many ACK frames (42 us) as data frames (254 us).
    let ratio = report.airtime.share(Use::Ack) / report.airtime.share(Use::Data);
    assert!(percent(ratio, 42.0 / 254.0 / 2.0).abs() < 2.0, "{ratio}");
    assert!(report.airtime.share(Use::Collision) > 0.02);
    let p = (report.ap.collision_probability(), report.stations.collision_probability());
    assert!((p.0 - 0.05).abs() < 0.01 && (p.1 - 0.10).abs() < 0.015, "{p:?}");
}

#[test]
fn capture_saves_what_collides_with_somebody_elses_ack() {
    let mut config = textbook(Standard::N, 5);
    let with = measure(config.clone(), Mode::UdpAck).l3_mbps;
    config.capture = false;
    let without = measure(config, Mode::UdpAck).l3_mbps;
    let loss = percent(without, with);
    assert!((-12.0..-3.0).contains(&loss), "{with} against {without}");
}

#[test]
fn a_block_ack_request_follows_every_lost_block_ack_when_asked_for() {
    let mut config = textbook(Standard::N, 1);
    let without = measure(config.clone(), Mode::UdpAck);
    config.explicit_bar = true;
    let with = measure(config, Mode::UdpAck);
    assert_eq!(without.ap.block_ack_reqs, 0);
    // All of the access point's PPDUs are aggregates, so each of their timeouts costs a request
    // (and so does each request's own).
    assert!(with.ap.block_ack_reqs.abs_diff(with.ap.timeouts) <= 1, "{:?}", with.ap);
    assert!(with.l3_mbps < without.l3_mbps);
}

#[test]
fn a_txop_sends_several_ppdus_per_access() {
    let mut config = textbook(Standard::Ac, 1);
    config.ap_ampdu = AmpduLimits::new(20_000, 64);
    let single = measure(config.clone(), Mode::Udp);
    assert_eq!(single.ap.data_ppdus, single.ap.accesses);
    config.ap_edca[1] = AcParams { txop: Duration::from_micros(2_528), ..config.ap_edca[1] };
    let txop = measure(config, Mode::Udp);
    // Eight PPDUs of 12 packets (220 us) with SIFS, BlockAck and SIFS (64 us), and a shorter ninth.
    let per_access = txop.ap.data_ppdus as f64 / txop.ap.accesses as f64;
    assert!((per_access - 9.0).abs() < 0.01, "{per_access}");
    assert!(txop.ap.mpdus_per_ppdu() < 12.0);
    assert!(percent(txop.l3_mbps, single.l3_mbps) > 25.0);
}

#[test]
fn no_exchange_outlasts_its_txop() {
    let mut config = textbook(Standard::N, 1);
    let txop = Duration::from_micros(1_504);
    config.ap_edca[1] = AcParams { txop, ..config.ap_edca[1] };
    let report = measure(config, Mode::Udp);
    // 34 packets and their BlockAck take 1492 us, 35 would take 1532.
    let per_access = report.ap.mpdus as f64 / report.ap.accesses as f64;
    assert_eq!(per_access, 34.0);
}

#[test]
fn categories_of_one_station_collide_inside_it_and_the_higher_one_wins() {
    let mut config = textbook(Standard::N, 1);
    config.classifier = Classifier::Dscp;
    let mut wlan = Wlan::new(config).expect("a valid network");
    // Voice (precedence 6) and best effort, always waiting at the one station.
    let mut now = Instant::ZERO;
    let mut delivered = [0u32; 2];
    for id in 0..40_000 {
        let voice = id % 2 == 0;
        let mut bytes = vec![0; 100];
        bytes[..2].copy_from_slice(&[0x45, if voice { 48 << 2 } else { 0 }]);
        let (kind, sent_at) = (PacketKind::Data, now);
        let p = Packet { id, src: 1, dst: 9, ip_bytes: 1_500, kind, bytes, ecn: 0, sent_at };
        wlan.offer(End::A, p, now);
        now += Duration::from_micros(20);
        while let Output::Deliver { packet, .. } = wlan.poll(now) {
            delivered[usize::from(packet.id % 2 == 0)] += 1;
        }
    }
    let stats = wlan.station_stats(0).expect("the station");
    assert!(stats.internal_collisions > 5, "{stats:?}");
    assert_eq!(stats.collisions, 0, "nobody else is there");
    assert!(delivered[1] > 2 * delivered[0], "{delivered:?}");
    assert!(wlan.ledger().balances());
}

#[test]
fn rts_shortens_collisions_of_long_frames() {
    let mut config = textbook(Standard::N, 10);
    let without = measure(config.clone(), Mode::Up);
    config.protection = Protection::RtsCts { threshold_bytes: 3_000, kbps: None };
    let with = measure(config, Mode::Up);
    assert!(with.airtime.share(Use::Collision) < without.airtime.share(Use::Collision) / 5.0);
    assert!(percent(with.l3_mbps, without.l3_mbps) > 10.0);
}

#[test]
fn hidden_interferers_hurt_and_rts_helps() {
    let mut config = textbook(Standard::N, 1);
    let clean = measure(config.clone(), Mode::Udp).l3_mbps;
    config.hidden = Some(HiddenInterferer { bursts_per_s: 100.0, burst: None });
    let hit = measure(config.clone(), Mode::Udp);
    // A PPDU of 1772 us is hit with probability 0.162.
    let lost = hit.ap.timeouts as f64 / hit.ap.accesses as f64;
    assert!((lost - 0.162).abs() < 0.02, "{lost}");
    config.hidden =
        Some(HiddenInterferer { bursts_per_s: 100.0, burst: Some(Duration::from_micros(200)) });
    let partly = measure(config.clone(), Mode::Udp).l3_mbps;
    config.protection = Protection::RtsCts { threshold_bytes: 3_000, kbps: None };
    let protected = measure(config, Mode::Udp).l3_mbps;
    assert!(hit.l3_mbps < partly && partly < protected && protected < clean);
}

#[test]
fn mpdu_errors_cost_their_share_and_little_more() {
    for standard in [Standard::G, Standard::N] {
        let mut config = textbook(standard, 1);
        let clean = measure(config.clone(), Mode::Udp).l3_mbps;
        config.errors = Errors { downlink_mpdu: 0.1, ..Errors::default() };
        let report = measure(config, Mode::Udp);
        let loss = percent(report.l3_mbps, clean);
        // On g a lost frame also doubles the window; on n the window stalls now and then.
        assert!((-16.0..-9.0).contains(&loss), "{standard:?}: {loss:+.1} %");
        assert_eq!(report.ap.retry_drops, 0, "0.1^8 does not happen in 4 s");
    }
}

#[test]
fn a_dead_receiver_costs_every_packet_eight_attempts() {
    let mut config = textbook(Standard::G, 1);
    config.errors.ppdu = 1.0;
    let mut experiment = OpenLoop::new(config, Mode::Udp);
    experiment.warm_up = Duration::ZERO;
    experiment.duration = Duration::from_secs(4);
    let report = run(&experiment);
    assert_eq!(report.data_packets, 0);
    assert_eq!(report.ap.retry_drops, report.ap.accesses / 8);
    assert!(report.airtime.share(Use::Lost) > 0.05);
}

#[test]
fn neighbours_take_the_airtime_they_are_given() {
    let mut config = textbook(Standard::G, 1);
    let neighbour = Neighbour {
        load: Load::Airtime(0.1),
        rate: config.downlink,
        packet_bytes: 1_500,
        ampdu: AmpduLimits::NONE,
        edca: config.station_edca[1],
    };
    config.neighbours = vec![neighbour; 3];
    let some = measure(config.clone(), Mode::Udp);
    let share = some.airtime.share(Use::Neighbour);
    assert!((share - 0.3).abs() < 0.02, "{share}");
    // A saturated one of the same kind takes as much as the access point does.
    config.neighbours = vec![Neighbour { load: Load::Saturated, ..neighbour }];
    let one = measure(config, Mode::Udp);
    let ratio = one.airtime.share(Use::Neighbour) / one.airtime.share(Use::Data);
    let exchange = (254.0 + 10.0 + 34.0) / 254.0;
    assert!(percent(ratio, exchange).abs() < 5.0, "{ratio}");
}

#[test]
fn beacons_take_their_known_share() {
    // 250 bytes every 102.4 ms: 0.35 % at 6 Mb/s, 2.1 % at 1 Mb/s, for every network heard.
    for (standard, kbps, networks, share) in [
        (Standard::N, 6_000, 1, 0.0035),
        (Standard::B, 1_000, 1, 0.0214),
        (Standard::G, 1_000, 4, 0.0856),
    ] {
        let mut config = textbook(standard, 1);
        let interval = Duration::from_micros(102_400);
        config.beacons = Some(Beacons { interval, bytes: 250, kbps, networks });
        let report = measure(config, Mode::Udp);
        let error = percent(report.airtime.share(Use::Beacon), share);
        assert!(error.abs() < 4.0, "{standard:?}: {error:+.1} %");
    }
}

#[test]
fn stations_share_the_downlink_evenly() {
    let report = measure(textbook(Standard::N, 8), Mode::UdpAck);
    let flows = &report.data_packets_by_flow;
    let (least, most) = (flows.iter().min().unwrap(), flows.iter().max().unwrap());
    assert!(*least as f64 > 0.9 * *most as f64, "{flows:?}");
}

#[test]
fn every_mistake_in_a_configuration_names_its_field() {
    type Mistake = (&'static str, fn(&mut WlanConfig));
    let mistakes: &[Mistake] = &[
        ("timing.slot", |c| c.timing.slot = Duration::ZERO),
        ("timing.sifs", |c| c.timing.sifs = Duration::from_secs(1)),
        ("timing.cca", |c| c.timing.cca = Duration::from_micros(9)),
        ("timing.basic_kbps", |c| c.timing.basic_kbps.clear()),
        ("timing.basic_kbps", |c| c.timing.basic_kbps = vec![0]),
        ("downlink", |c| {
            c.downlink = WlanConfig::preset(Preset::Textbook, Standard::Ac).downlink.wrong()
        }),
        ("ap_edca[1].cw_min", |c| c.ap_edca[1].cw_min = 5_000),
        ("station_edca[0].aifsn", |c| c.station_edca[0].aifsn = 0),
        ("station_edca[3].txop", |c| c.station_edca[3].txop = Duration::from_secs(1)),
        ("classifier", |c| c.classifier = Classifier::Fixed(4)),
        ("ap_ampdu.max_mpdus", |c| c.ap_ampdu.max_mpdus = 5_000),
        ("block_ack_window", |c| c.block_ack_window = 0),
        ("ap_queue_packets", |c| c.ap_queue_packets = 0),
        ("station_queue_packets", |c| c.station_queue_packets = 0),
        ("eifs_share", |c| c.eifs_share = -0.1),
        ("errors.ppdu", |c| c.errors.ppdu = f64::NAN),
        ("errors.response", |c| c.errors.response = 1.5),
        ("hidden.bursts_per_s", |c| {
            c.hidden = Some(HiddenInterferer { bursts_per_s: f64::INFINITY, burst: None });
        }),
        ("beacons.interval", |c| {
            let interval = Duration::ZERO;
            c.beacons = Some(Beacons { interval, bytes: 100, kbps: 6_000, networks: 1 });
        }),
        ("host_delay.spread", |c| {
            c.host_delay = HostDelay { spread: 2.0, ..HostDelay::default() };
        }),
        ("scan.min", |c| {
            let (interval, max) = (Duration::from_secs(1), Duration::from_millis(100));
            c.scan = Some(ScanPlan { interval, min: max * 2, max });
        }),
        ("stations", |c| c.stations.clear()),
        ("stations[1].hosts", |c| {
            c.stations = vec![Station { hosts: vec![7], ..Station::default() }; 2];
        }),
        ("neighbours[0].load", |c| {
            c.neighbours = vec![Neighbour {
                load: Load::Mbps(f64::NAN),
                rate: c.downlink,
                packet_bytes: 1_500,
                ampdu: AmpduLimits::NONE,
                edca: c.ap_edca[1],
            }];
        }),
    ];
    for (field, break_it) in mistakes {
        let mut config = textbook(Standard::N, 1);
        break_it(&mut config);
        let error = config.validate().expect_err(field);
        assert_eq!(error.field, *field, "{error}");
    }
    let mut experiment = OpenLoop::new(textbook(Standard::N, 1), Mode::Relay);
    assert_eq!(experiment.run().expect_err("one station").field, "stations");
    experiment.mode = Mode::Udp;
    experiment.offered_mbps = Some(0.0);
    assert_eq!(experiment.run().expect_err("no load").field, "offered_mbps");
    experiment.offered_mbps = None;
    experiment.ack = AckRule::EveryPackets(0);
    assert_eq!(experiment.run().expect_err("no packets").field, "ack");
}

/// A rate that its PHY does not have.
trait Wrong {
    fn wrong(self) -> Self;
}

impl Wrong for tack_link::wlan::DataRate {
    fn wrong(self) -> Self {
        let tack_link::wlan::DataRate::Vht(m) = self else { return self };
        tack_link::wlan::DataRate::Ht(m)
    }
}
