//! Queues per station and flow, and turns by airtime.

use std::collections::BTreeMap;
use std::time::Duration;

use tack_link::open_loop::{AckRule, Mode, OpenLoop};
use tack_link::wlan::{
    AirtimeLimits, DataRate, Errors, GuardInterval, Ledger, Mcs, NodeStats, Preset, Standard,
    TxqConfig, Width, Wlan, WlanConfig,
};
use tack_link::{End, HostId, Link, Output, Packet, PacketKind};
use tack_units::Instant;

use crate::conservation::rough;
use crate::snapshot::run;

const WIRED: HostId = 100;

fn textbook(standard: Standard, stations: u32) -> WlanConfig {
    WlanConfig::preset(Preset::Textbook, standard).with_stations(stations)
}

fn fair(mut config: WlanConfig) -> WlanConfig {
    config.ap_txq = Some(TxqConfig::mac80211(config.standard));
    config
}

fn packet(id: u64, src: HostId, dst: HostId, ip_bytes: u32, at: Instant) -> Packet {
    let kind = PacketKind::Data;
    Packet { id, src, dst, ip_bytes, kind, bytes: Vec::new(), ecn: 0, sent_at: at }
}

/// What came out, when, and the accounts at the end.
struct Outcome {
    got: Vec<(Instant, Packet)>,
    ledger: Ledger,
    ap: NodeStats,
}

impl Outcome {
    fn to(&self, host: HostId) -> usize {
        self.got.iter().filter(|(_, p)| p.dst == host).count()
    }
}

/// Offers `packets`, in order of time, and runs on until `end`.
fn drive(config: WlanConfig, mut packets: Vec<(End, Packet)>, end: Instant) -> Outcome {
    packets.sort_by_key(|(_, p)| (p.sent_at, p.id));
    let mut wlan = Wlan::new(config).expect("a valid network");
    let (mut got, mut now, mut next) = (Vec::new(), Instant::ZERO, packets.into_iter().peekable());
    loop {
        let due = next.peek().map_or(end, |(_, p)| p.sent_at);
        match wlan.poll(now) {
            Output::Deliver { packet, .. } => got.push((now, packet)),
            Output::Wait(Some(at)) if at <= due => now = at,
            Output::Wait(_) => match next.next() {
                Some((side, packet)) => {
                    now = packet.sent_at;
                    wlan.offer(side, packet, now);
                    assert!(wlan.ledger().balances(), "{:?}", wlan.ledger());
                }
                None => break,
            },
        }
    }
    let ledger = wlan.ledger();
    assert!(ledger.balances(), "{ledger:?}");
    Outcome { got, ledger, ap: wlan.ap_stats() }
}

/// A packet of `ip_bytes` from `src` to `dst` every `every` for `for_s` seconds.
fn stream(
    src: HostId,
    dst: HostId,
    ip_bytes: u32,
    every: Duration,
    for_s: u64,
) -> Vec<(End, Packet)> {
    let n = Duration::from_secs(for_s).as_nanos() / every.as_nanos();
    let side = if src == WIRED { End::B } else { End::A };
    let id = |i: u64| u64::from(src) << 40 | u64::from(dst) << 32 | i;
    (0..n as u64)
        .map(|i| (side, packet(id(i), src, dst, ip_bytes, Instant::ZERO + every * i as u32)))
        .collect()
}

fn ht(index: u8, streams: u8) -> DataRate {
    DataRate::Ht(Mcs { index, streams, width: Width::Mhz20, guard: GuardInterval::Ns800 })
}

/// Packets per station in ten seconds of more than the medium can take, a slow one (MCS 0) and a
/// fast one (MCS 15), or one of them alone.
fn shares(fair_queues: bool, who: &[usize]) -> Vec<usize> {
    let mut config = textbook(Standard::N, 2);
    config.stations[0].downlink = Some(ht(0, 1));
    config.stations[1].downlink = Some(ht(7, 2));
    let config = if fair_queues { fair(config) } else { config };
    let every = Duration::from_micros(80);
    let load = who.iter().flat_map(|i| stream(WIRED, *i as HostId + 1, 1_500, every, 10));
    let outcome = drive(config, load.collect(), Instant::from_secs(10));
    vec![outcome.to(1), outcome.to(2)]
}

#[test]
fn a_slow_and_a_fast_station_share_airtime_and_not_the_anomaly() {
    let (slow, fast) = (shares(true, &[0])[0], shares(true, &[1])[1]);
    assert!(fast > 15 * slow, "{fast} and {slow} alone");
    let both = shares(true, &[0, 1]);
    for (got, alone) in both.iter().zip([slow, fast]) {
        let share = *got as f64 / alone as f64;
        assert!((0.47..0.53).contains(&share), "{share} of what it has alone: {both:?}");
    }
    // One queue gives everybody the same number of packets, at the pace of the slowest.
    let anomaly = shares(false, &[0, 1]);
    let ratio = anomaly[1] as f64 / anomaly[0] as f64;
    assert!((0.9..1.1).contains(&ratio), "{anomaly:?}");
    assert!(anomaly[1] < both[1] / 6, "{anomaly:?} instead of {both:?}");
}

#[test]
fn what_a_station_sends_counts_against_what_it_gets() {
    let mut config = fair(textbook(Standard::N, 2));
    (config.ap_edca, config.station_edca) = (config.station_edca, config.station_edca);
    let every = Duration::from_micros(40);
    let mut load = stream(WIRED, 1, 1_500, every, 5);
    load.extend(stream(WIRED, 2, 1_500, every, 5));
    let alike = drive(config.clone(), load.clone(), Instant::from_secs(5));
    let ratio = alike.to(1) as f64 / alike.to(2) as f64;
    assert!((0.97..1.03).contains(&ratio), "{ratio}");
    load.extend(stream(1, WIRED, 1_500, Duration::from_micros(200), 5));
    let talking = drive(config, load, Instant::from_secs(5));
    let ratio = talking.to(1) as f64 / talking.to(2) as f64;
    assert!(ratio < 0.8, "{ratio}");
}

/// The longest wait of a ping every 50 ms beside two overloads, one of them for another station.
fn longest_ping(config: WlanConfig, mbps: f64) -> Duration {
    let every = Duration::from_secs_f64(1_500.0 * 8.0 / mbps / 1e6);
    let mut load = stream(WIRED, 1, 1_500, every, 6);
    load.extend(stream(WIRED, 2, 1_500, every, 6));
    // From a host of its own, so a flow of its own.
    load.extend(
        stream(WIRED + 1, 1, 100, Duration::from_millis(50), 6)
            .into_iter()
            .map(|(_, packet)| (End::B, packet)),
    );
    let outcome = drive(config, load, Instant::from_secs(8));
    let pings = outcome.got.iter().filter(|(_, p)| p.src == WIRED + 1);
    let waits: Vec<_> = pings.map(|(at, p)| *at - p.sent_at).collect();
    // One full queue refuses most of them; queues per flow refuse none.
    let least = if outcome.ap.aqm_drops > 0 { 119 } else { 5 };
    assert!(waits.len() >= least, "{} pings of 120", waits.len());
    waits.into_iter().max().expect("pings")
}

#[test]
fn a_sparse_flow_waits_milliseconds_beside_bulk_and_seconds_in_one_queue() {
    for (standard, mbps, fifo_ms) in [(Standard::B, 6.0, 1_000), (Standard::G, 30.0, 300)] {
        let fifo = longest_ping(textbook(standard, 2), mbps);
        assert!(fifo > Duration::from_millis(fifo_ms), "{standard:?}: {fifo:?}");
        let own = longest_ping(fair(textbook(standard, 2)), mbps);
        assert!(own < Duration::from_millis(30), "{standard:?}: {own:?}");
    }
    let n = longest_ping(fair(textbook(Standard::N, 2)), 250.0);
    assert!(n < Duration::from_millis(30), "{n:?}");
}

#[test]
fn the_hardware_holds_what_it_is_allowed_to_and_latency_shows_it() {
    let with = |ppdus, aql| {
        let mut config = fair(textbook(Standard::B, 2));
        let txq = config.ap_txq.as_mut().expect("just set");
        (txq.committed_ppdus, txq.aql) = (ppdus, aql);
        longest_ping(config, 6.0)
    };
    // PPDUs of 1.6 ms, with their accesses 2.
    let (two, sixty) = (with(2, None), with(60, None));
    assert!(two < Duration::from_millis(20), "{two:?}");
    assert!((100..150).contains(&sixty.as_millis()), "{sixty:?}");
    // No more than 12 ms for a station or 24 ms for all, and 5 ms for a station beyond.
    let bounded = with(60, Some(AirtimeLimits::LINUX));
    assert!((20..60).contains(&bounded.as_millis()), "{bounded:?}");
}

#[test]
fn codel_marks_what_can_bear_it_at_the_access_point_and_drops_the_rest() {
    for ecn in [2, 0] {
        let every = Duration::from_micros(380);
        let mut load = stream(WIRED, 1, 1_500, every, 5);
        load.iter_mut().for_each(|(_, p)| p.ecn = ecn);
        let offered = load.len() as u64;
        let outcome = drive(fair(textbook(Standard::G, 1)), load, Instant::from_secs(10));
        let marked = outcome.got.iter().filter(|(_, p)| p.ecn == 3).count() as u64;
        assert_eq!(marked, outcome.ap.ce_marks, "ECN {ecn}");
        assert_eq!(outcome.ap.queue_drops, outcome.ledger.queue_drops, "ECN {ecn}");
        assert_eq!(offered, outcome.got.len() as u64 + outcome.ledger.queue_drops, "ECN {ecn}");
        if ecn == 0 {
            assert!(outcome.ap.aqm_drops > 10 && marked == 0, "{:?}", outcome.ap);
        } else {
            assert!(outcome.ap.aqm_drops == 0 && marked > 10, "{:?}", outcome.ap);
        }
    }
}

#[test]
fn slow_receivers_are_given_more_time_and_no_marks() {
    // 4 Mb/s expected of 802.11b's 11 is below 6 for one station.
    let mut config = fair(textbook(Standard::B, 1));
    config.stations[0].downlink =
        Some(DataRate::Dsss { kbps: 2_000, preamble: tack_link::wlan::DsssPreamble::Long });
    let mut load = stream(WIRED, 1, 1_500, Duration::from_millis(6), 5);
    load.iter_mut().for_each(|(_, p)| p.ecn = 2);
    let mut quick = config.clone();
    quick.ap_txq.as_mut().expect("just set").slow = None;
    let slow = drive(config, load.clone(), Instant::from_secs(20));
    assert!(slow.ap.ce_marks == 0 && slow.ap.aqm_drops > 0, "{:?}", slow.ap);
    let quick = drive(quick, load, Instant::from_secs(20));
    assert!(quick.ap.ce_marks > 0 && quick.ap.aqm_drops == 0, "{:?}", quick.ap);
}

#[test]
fn every_packet_arrives_once_and_in_order_of_its_flow_over_a_lossy_medium() {
    for standard in Standard::ALL {
        let mut config = fair(textbook(standard, 3));
        let txq = config.ap_txq.as_mut().expect("just set");
        txq.fq.codel.target = Duration::from_secs(1_000);
        (txq.slow, txq.limit_packets, txq.fq.memory_bytes) = (None, 20_000, 1 << 30);
        config.station_txq = config.ap_txq;
        config.errors = Errors { downlink_mpdu: 0.2, uplink_mpdu: 0.2, ppdu: 0.1, response: 0.1 };
        config.retry_limit = None;
        config.explicit_bar = standard == Standard::N;
        let hosts = [1, 2, 3, WIRED];
        let pairs = hosts.iter().flat_map(|a| hosts.iter().map(move |b| (*a, *b)));
        let load: Vec<_> = pairs
            .filter(|(a, b)| a != b)
            .flat_map(|(a, b)| {
                let us = 900 + 100 * u64::from(a % 7 + b % 5);
                stream(a, b, 300 + 90 * (a % 10), Duration::from_micros(us), 1)
            })
            .collect();
        let offered = load.len();
        let outcome = drive(config, load, Instant::from_secs(200));
        assert_eq!((outcome.got.len(), outcome.ledger.queued), (offered, 0), "{standard:?}");
        let mut last: BTreeMap<(HostId, HostId), u64> = BTreeMap::new();
        for (_, p) in &outcome.got {
            let before = last.insert((p.src, p.dst), p.id);
            assert!(before.is_none_or(|b| b < p.id), "{standard:?}");
        }
    }
}

#[test]
fn airtime_and_packets_add_up_with_queues_per_flow_however_rough_the_channel() {
    for standard in Standard::ALL {
        for (seed, mode) in (1..).zip([Mode::Udp, Mode::UdpAck, Mode::Relay, Mode::Up]) {
            for offered in [None, Some(20.0)] {
                let mut config = rough(standard, seed);
                let mut txq = TxqConfig::mac80211(standard);
                txq.limit_packets = 50 + seed as u32;
                txq.committed_ppdus = 1 + seed as usize % 3;
                config.ap_txq = (seed != 3).then_some(txq);
                config.station_txq = (seed != 2).then_some(txq);
                let mut experiment = OpenLoop::new(config, mode);
                experiment.offered_mbps = offered;
                experiment.ack = AckRule::EveryPackets(1);
                experiment.duration = Duration::from_secs(2);
                let report = run(&experiment);
                assert!(report.data_packets > 0, "{standard:?} {mode:?} seed {seed}");
                assert_eq!(report, run(&experiment), "{standard:?} {mode:?} seed {seed}");
            }
        }
    }
}

#[test]
fn queues_per_flow_cost_a_lone_saturated_flow_nothing() {
    for standard in Standard::ALL {
        let throughput = |config| {
            let mut experiment = OpenLoop::new(config, Mode::UdpAck);
            experiment.duration = Duration::from_secs(5);
            run(&experiment).l3_mbps
        };
        let fifo = throughput(textbook(standard, 1));
        let mut config = fair(textbook(standard, 1));
        config.station_txq = config.ap_txq;
        let own = throughput(config);
        assert!((own / fifo - 1.0).abs() < 0.03, "{standard:?}: {own} and {fifo} Mb/s");
    }
}

#[test]
fn settings_that_cannot_run_are_refused_by_name() {
    let linux = TxqConfig::mac80211(Standard::Ac);
    let zero = AirtimeLimits { low: Duration::ZERO, ..AirtimeLimits::LINUX };
    for (bad, field) in [
        (TxqConfig { committed_ppdus: 0, ..linux }, "committed_ppdus"),
        (TxqConfig { limit_packets: 0, ..linux }, "limit_packets"),
        (TxqConfig { airtime_quantum: Duration::ZERO, ..linux }, "airtime_quantum"),
        (TxqConfig { aql: Some(zero), ..linux }, "aql"),
    ] {
        let mut config = textbook(Standard::Ac, 1);
        config.station_txq = Some(bad);
        let error = Wlan::new(config).expect_err("refused");
        assert_eq!(error.field, format!("station_txq.{field}"));
    }
}
