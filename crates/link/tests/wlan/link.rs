//! The model as a link: real packets in, the same packets out, whatever happens in between.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use tack_link::wlan::{
    Classifier, Errors, HostDelay, Preset, ScanPlan, Scheduling, Standard, Station, Use, Wlan,
    WlanConfig,
};
use tack_link::{End, HostId, Link, Output, Packet, PacketKind};
use tack_units::Instant;

const WIRED: HostId = 100;

fn packet(id: u64, src: HostId, dst: HostId, bytes: Vec<u8>, at: Instant) -> Packet {
    let ip_bytes = if bytes.is_empty() { 1_500 } else { bytes.len() as u32 };
    Packet { id, src, dst, ip_bytes, kind: PacketKind::Data, bytes, ecn: 0, sent_at: at }
}

fn textbook(standard: Standard, stations: u32) -> WlanConfig {
    WlanConfig::preset(Preset::Textbook, standard).with_stations(stations)
}

/// Polls until nothing happens before `end`; every delivery with its time.
fn drain(wlan: &mut Wlan, mut now: Instant, end: Instant) -> Vec<(Instant, End, Packet)> {
    let mut out = Vec::new();
    loop {
        match wlan.poll(now) {
            Output::Deliver { end, packet } => out.push((now, end, packet)),
            Output::Wait(Some(at)) if at <= end => {
                assert!(at >= now, "time never goes backwards");
                now = at;
            }
            Output::Wait(_) => return out,
        }
    }
}

/// Offers `packets` (time, end, packet) in order of time and collects everything until `end`.
fn drive(
    wlan: &mut Wlan,
    packets: Vec<(Instant, End, Packet)>,
    end: Instant,
) -> Vec<(Instant, End, Packet)> {
    let mut out = Vec::new();
    let mut now = Instant::ZERO;
    for (at, side, packet) in packets {
        out.extend(drain(wlan, now, at));
        now = at;
        wlan.offer(side, packet, at);
    }
    out.extend(drain(wlan, now, end));
    let ledger = wlan.ledger();
    assert!(ledger.balances(), "{ledger:?}");
    assert_eq!(ledger.delivered, out.len() as u64);
    out
}

fn at_us(us: u64) -> Instant {
    Instant::from_micros(us)
}

/// Random traffic in all directions between three stations and the wire, with real bytes.
fn traffic(seed: u64, n: u64) -> Vec<(Instant, End, Packet)> {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut at = Instant::ZERO;
    (0..n)
        .map(|id| {
            at += Duration::from_nanos(rng.next_u64() % 400_000);
            let hosts = [1, 2, 3, WIRED];
            let src = hosts[(rng.next_u32() % 4) as usize];
            let others: Vec<_> = hosts.into_iter().filter(|h| *h != src).collect();
            let dst = others[(rng.next_u32() % 3) as usize];
            let mut bytes = vec![0; 40 + (rng.next_u32() % 1_400) as usize];
            rng.fill_bytes(&mut bytes);
            bytes[0] = 0x45;
            let end = if src == WIRED { End::B } else { End::A };
            (at, end, packet(id, src, dst, bytes, at))
        })
        .collect()
}

#[test]
fn every_packet_arrives_once_unharmed_and_in_order_over_a_lossy_medium() {
    for standard in Standard::ALL {
        for seed in 1..=4 {
            let mut config = textbook(standard, 3);
            config.seed = seed;
            config.errors =
                Errors { downlink_mpdu: 0.2, uplink_mpdu: 0.2, ppdu: 0.1, response: 0.1 };
            config.retry_limit = None;
            config.explicit_bar = seed % 2 == 0;
            config.ap_queue_packets = 10_000;
            config.station_queue_packets = 10_000;
            let offered = traffic(seed, 800);
            let mut wlan = Wlan::new(config).expect("a valid network");
            let got = drive(&mut wlan, offered.clone(), Instant::from_secs(60));
            assert_eq!(got.len(), offered.len(), "{standard:?} seed {seed}");
            let mut last: BTreeMap<(HostId, HostId), u64> = BTreeMap::new();
            for (_, end, packet) in got {
                let (_, _, sent) = &offered[packet.id as usize];
                assert_eq!(&packet, sent, "{standard:?} seed {seed}");
                let expected = if packet.dst == WIRED { End::B } else { End::A };
                assert_eq!(end, expected);
                let before = last.insert((packet.src, packet.dst), packet.id);
                assert!(before.is_none_or(|b| b < packet.id), "{standard:?} seed {seed}");
            }
        }
    }
}

#[test]
fn order_holds_where_packets_are_given_up_and_categories_are_mixed_by_flow() {
    for seed in 1..=6 {
        let mut config = textbook(Standard::N, 3);
        config.seed = seed;
        config.errors = Errors { downlink_mpdu: 0.4, uplink_mpdu: 0.4, ppdu: 0.1, response: 0.2 };
        config.retry_limit = Some(1);
        let offered = traffic(seed, 1_500);
        let mut wlan = Wlan::new(config).expect("a valid network");
        let got = drive(&mut wlan, offered, Instant::from_secs(60));
        let ledger = wlan.ledger();
        assert!(ledger.retry_drops > 50 && ledger.queued == 0, "seed {seed}: {ledger:?}");
        let mut last: BTreeMap<(HostId, HostId), u64> = BTreeMap::new();
        for (_, _, packet) in got {
            let before = last.insert((packet.src, packet.dst), packet.id);
            assert!(before.is_none_or(|b| b < packet.id), "seed {seed}");
        }
    }
}

#[test]
fn a_packet_between_stations_crosses_the_medium_twice() {
    let config = textbook(Standard::G, 2);
    let once = config.downlink.ppdu(1_536, config.timing.band);
    for (dst, crossings) in [(2, 2), (WIRED, 1)] {
        let mut wlan = Wlan::new(config.clone()).expect("a valid network");
        let offered = vec![(at_us(5), End::A, packet(0, 1, dst, Vec::new(), at_us(5)))];
        let got = drive(&mut wlan, offered, Instant::from_secs(1));
        let used = wlan.airtime(Instant::from_secs(1)).of(Use::Data);
        assert_eq!(used, once * crossings);
        assert_eq!(got[0].1, if dst == 2 { End::A } else { End::B });
    }
}

#[test]
fn hosts_behind_one_station_need_no_airtime() {
    let mut config = textbook(Standard::N, 1);
    config.stations = vec![Station { hosts: vec![1, 2], ..Station::default() }];
    let mut wlan = Wlan::new(config).expect("a valid network");
    let offered = vec![(at_us(5), End::A, packet(0, 1, 2, Vec::new(), at_us(5)))];
    let got = drive(&mut wlan, offered, Instant::from_secs(1));
    assert_eq!((got[0].0, got[0].1), (at_us(5), End::A));
    assert_eq!(wlan.airtime(Instant::from_secs(1)).share(Use::Idle), 1.0);
}

#[test]
fn packets_that_are_offered_in_the_wrong_place_are_counted_not_carried() {
    let mut wlan = Wlan::new(textbook(Standard::N, 2)).expect("a valid network");
    let mut huge = packet(3, 1, WIRED, Vec::new(), Instant::ZERO);
    huge.ip_bytes = u32::MAX;
    for (end, p) in [
        (End::A, packet(0, WIRED, 1, Vec::new(), Instant::ZERO)),
        (End::B, packet(1, 1, 2, Vec::new(), Instant::ZERO)),
        (End::B, packet(2, WIRED, WIRED + 1, Vec::new(), Instant::ZERO)),
        (End::A, huge),
    ] {
        wlan.offer(end, p, Instant::ZERO);
    }
    assert_eq!(wlan.poll(Instant::from_secs(1)), Output::Wait(None));
    let ledger = wlan.ledger();
    assert_eq!((ledger.unroutable, ledger.delivered), (4, 0));
    assert!(ledger.balances());
}

#[test]
fn a_driver_that_polls_late_loses_nothing() {
    let mut wlan = Wlan::new(textbook(Standard::Ac, 3)).expect("a valid network");
    let mut delivered = 0;
    let mut poll = |wlan: &mut Wlan, now| {
        while let Output::Deliver { .. } = wlan.poll(now) {
            delivered += 1;
        }
    };
    for (at, end, packet) in traffic(9, 2_000) {
        // Only every 10 ms does the driver look.
        let tick = Instant::from_millis((at.as_micros() / 10_000 + 1) * 10);
        wlan.offer(end, packet, tick);
        poll(&mut wlan, tick);
    }
    poll(&mut wlan, Instant::from_secs(10));
    assert_eq!(delivered, 2_000);
    assert!(wlan.ledger().balances());
}

#[test]
fn packets_of_one_ppdu_surface_together_or_as_fast_as_their_host_takes_them() {
    let per_packet = Duration::from_micros(3);
    for host_delay in [
        HostDelay::default(),
        HostDelay { delay: Duration::from_micros(100), spread: 0.0, per_packet },
    ] {
        let mut config = textbook(Standard::N, 1);
        config.host_delay = host_delay;
        let mut wlan = Wlan::new(config).expect("a valid network");
        let offered = (0..10)
            .map(|i| (at_us(1), End::B, packet(i, WIRED, 1, Vec::new(), at_us(1))))
            .collect();
        let got = drive(&mut wlan, offered, Instant::from_secs(1));
        assert_eq!(wlan.ap_stats().data_ppdus, 1);
        let gaps: Vec<_> = got.windows(2).map(|w| w[1].0 - w[0].0).collect();
        assert!(gaps.iter().all(|g| *g == host_delay.per_packet), "{gaps:?}");
    }
}

#[test]
fn a_host_slower_than_its_radio_loses_packets_instead_of_memory() {
    let mut config = textbook(Standard::Ac, 1);
    config.host_delay = HostDelay { per_packet: Duration::from_millis(10), ..HostDelay::default() };
    config.ap_queue_packets = 200_000;
    let offered = (0..100_000)
        .map(|i| (Instant::ZERO, End::B, packet(i, WIRED, 1, Vec::new(), Instant::ZERO)))
        .collect();
    let mut wlan = Wlan::new(config).expect("a valid network");
    let got = drive(&mut wlan, offered, Instant::from_secs(10));
    assert_eq!(got.len(), 999, "one per 10 ms after the first PPDU");
    let ledger = wlan.ledger();
    assert!(ledger.queued <= 65_536 && ledger.queue_drops > 30_000, "{ledger:?}");
}

#[test]
fn a_station_that_scans_gets_its_packets_late_but_all() {
    let mut config = textbook(Standard::N, 1);
    config.scan = Some(ScanPlan {
        interval: Duration::from_millis(500),
        min: Duration::from_millis(100),
        max: Duration::from_millis(250),
    });
    let offered: Vec<_> = (0..4_000)
        .map(|i| {
            let at = Instant::from_millis(i);
            let (end, src, dst) = if i % 2 == 0 { (End::B, WIRED, 1) } else { (End::A, 1, WIRED) };
            (at, end, packet(i, src, dst, Vec::new(), at))
        })
        .collect();
    let mut wlan = Wlan::new(config).expect("a valid network");
    let got = drive(&mut wlan, offered, Instant::from_secs(6));
    assert_eq!(got.len(), 4_000);
    let waits: Vec<_> = got.iter().map(|(at, _, p)| *at - p.sent_at).collect();
    let longest = waits.iter().max().expect("packets");
    let bounds = Duration::from_millis(99)..Duration::from_millis(260);
    assert!(bounds.contains(longest), "{longest:?}");
    // Away about 175 of 675 ms.
    let late = waits.iter().filter(|w| **w > Duration::from_millis(5)).count() as f64 / 4_000.0;
    assert!((0.17..0.35).contains(&late), "{late}");
}

#[test]
fn round_robin_keeps_a_flooded_station_from_the_others_queue() {
    let lost_by_light = |scheduling| {
        let mut config = textbook(Standard::G, 2);
        config.scheduling = scheduling;
        config.ap_queue_packets = 100;
        // 60 Mb/s for station 1 and 1.2 Mb/s for station 2, of about 30.
        let offered = (0..10_000)
            .map(|i| {
                let dst = if i % 51 == 50 { 2 } else { 1 };
                (at_us(i * 200), End::B, packet(i, WIRED, dst, Vec::new(), at_us(i * 200)))
            })
            .collect();
        let mut wlan = Wlan::new(config).expect("a valid network");
        let got = drive(&mut wlan, offered, Instant::from_secs(5));
        let arrived = got.iter().filter(|(_, _, p)| p.dst == 2).count();
        1.0 - arrived as f64 / f64::from(10_000 / 51)
    };
    assert!(lost_by_light(Scheduling::Fifo) > 0.2);
    assert!(lost_by_light(Scheduling::RoundRobin) < 0.01);
}

#[test]
fn voice_passes_background_traffic_at_the_same_station() {
    let mut config = textbook(Standard::N, 1);
    config.classifier = Classifier::Dscp;
    let marked = |id, dscp: u8, at| {
        let mut bytes = vec![0; 200];
        bytes[..2].copy_from_slice(&[0x45, dscp << 2]);
        packet(id, 1, WIRED, bytes, at)
    };
    // 100 ms worth of background at once, voice every 10 ms, and video behind it.
    let mut offered: Vec<_> = (0..900)
        .map(|i| {
            (
                Instant::ZERO,
                End::A,
                packet(i, 1, WIRED, marked(i, 8, Instant::ZERO).bytes, Instant::ZERO),
            )
        })
        .collect();
    config.station_ampdu = tack_link::wlan::AmpduLimits::NONE;
    offered.extend((0..20).map(|i| {
        let at = Instant::from_millis(5 * i);
        (at, End::A, marked(1_000 + i, if i % 2 == 0 { 48 } else { 40 }, at))
    }));
    let mut wlan = Wlan::new(config).expect("a valid network");
    let got = drive(&mut wlan, offered, Instant::from_secs(2));
    let wait = |voice: bool| {
        let waits = got.iter().filter(|(_, _, p)| (p.id >= 1_000) == voice);
        waits.map(|(at, _, p)| *at - p.sent_at).max().expect("packets")
    };
    assert!(wait(true) < Duration::from_millis(1), "{:?}", wait(true));
    assert!(wait(false) > Duration::from_millis(100), "{:?}", wait(false));
}
