//! Queues against naive oracles.

use core::time::Duration;

use super::*;
use crate::draw;
use crate::ip::build::{ipv4_tcp, timestamps};
use crate::link::PacketKind;

fn packet(id: u64, ip_bytes: u32) -> Packet {
    Packet { id, dst: 1, ip_bytes, ..Packet::default() }
}

fn segment(id: u64, bytes: Vec<u8>) -> Packet {
    Packet { ip_bytes: bytes.len() as u32, bytes, kind: PacketKind::Ack, ..packet(id, 0) }
}

fn queue(config: QueueConfig) -> Queue {
    config.validate().unwrap();
    Queue::new(config, draw::stream(1, 1))
}

fn drain(queue: &mut Queue) -> Vec<u64> {
    core::iter::from_fn(|| queue.pop(Instant::ZERO)).map(|p| p.id).collect()
}

#[test]
fn drop_tail_agrees_with_a_list_under_random_operations() {
    for (seed, limit) in [
        (1, Limit::Packets(0)),
        (2, Limit::Packets(7)),
        (3, Limit::Bytes(9_000)),
        (4, Limit::Bytes(0)),
    ] {
        let mut rng = draw::stream(seed, 0);
        let mut queue = queue(QueueConfig::drop_tail(limit));
        let mut oracle: Vec<(u64, u32)> = Vec::new();
        let mut dropped = 0;
        for id in 0..20_000 {
            if draw::chance(&mut rng, 0.6) {
                let ip_bytes = 40 + draw::below(&mut rng, 1_461) as u32;
                queue.push(packet(id, ip_bytes), Instant::ZERO);
                let waiting: u64 = oracle.iter().map(|p| u64::from(p.1)).sum();
                let room = match limit {
                    Limit::Packets(n) => oracle.len() < n as usize,
                    Limit::Bytes(n) => waiting + u64::from(ip_bytes) <= n,
                };
                if room {
                    oracle.push((id, ip_bytes));
                } else {
                    dropped += 1;
                }
            } else {
                let expected = (!oracle.is_empty()).then(|| oracle.remove(0));
                let got = queue.pop(Instant::ZERO).map(|p| (p.id, p.ip_bytes));
                assert_eq!(got, expected, "seed {seed}");
            }
            assert_eq!(queue.len(), oracle.len());
            assert_eq!(queue.bytes(), oracle.iter().map(|p| u64::from(p.1)).sum::<u64>());
            assert_eq!(queue.counters().tail_dropped, dropped);
        }
    }
}

/// Serves one packet every `service` while `arrivals(t)` says how many come at each; returns the
/// sojourn of every packet served and the times of the drops.
fn serve(
    queue: &mut Queue,
    steps: u64,
    service: Duration,
    ecn: u8,
    arrivals: impl Fn(u64) -> u64,
) -> (Vec<Duration>, Vec<Instant>) {
    let (mut sojourns, mut drops, mut seen) = (Vec::new(), Vec::new(), 0);
    for step in 0..step_count(steps) {
        let now = Instant::ZERO + service * step;
        for _ in 0..arrivals(u64::from(step)) {
            queue.push(Packet { sent_at: now, ecn, ..packet(0, 1_500) }, now);
        }
        if let Some(packet) = queue.pop(now) {
            sojourns.push(now - packet.sent_at);
        }
        let counters = queue.counters();
        let dropped = counters.aqm_dropped + counters.ce_marked;
        drops.extend((seen..dropped).map(|_| now));
        seen = dropped;
    }
    (sojourns, drops)
}

fn step_count(steps: u64) -> u32 {
    u32::try_from(steps).unwrap()
}

fn codel(ecn: bool) -> Queue {
    let codel = CodelConfig { ecn, ..CodelConfig::default() };
    queue(QueueConfig {
        limit: Limit::Packets(100_000),
        discipline: Discipline::Codel(codel),
        ack_filter: false,
    })
}

#[test]
fn codel_leaves_a_burst_alone_that_drains_within_an_interval() {
    let mut queue = codel(false);
    // 80 packets at once, one served per millisecond: the delay is above target for 75 ms.
    let (sojourns, drops) =
        serve(&mut queue, 200, Duration::from_millis(1), 0, |t| if t == 0 { 80 } else { 0 });
    assert_eq!((sojourns.len(), drops.len()), (80, 0));
}

#[test]
fn codel_drops_after_an_interval_and_then_ever_faster() {
    // [RFC 8289 §3.2, §5.5]: the n-th drop follows interval / sqrt(n) after the one before.
    for ecn in [false, true] {
        let mut queue = codel(ecn);
        let two_for_one = |t| if t < 50 { 2 } else { 1 };
        let (_, drops) =
            serve(&mut queue, 1_200, Duration::from_millis(1), u8::from(ecn) * 2, two_for_one);
        // The delay reaches 5 ms at about 10 ms, and has been above for an interval at 110.
        let first = drops[0].as_nanos() as f64 / 1e6;
        assert!((105.0..=115.0).contains(&first), "first drop at {first} ms");
        let mut next = first;
        for (n, at) in drops.iter().enumerate().skip(1).take(12) {
            next += 100.0 / (n as f64).sqrt();
            let at = at.as_nanos() as f64 / 1e6;
            // Departures happen on whole milliseconds.
            assert!((next - 0.01..=next + 1.01).contains(&at), "drop {n} at {at}, law {next}");
        }
        assert_eq!(ecn, queue.counters().aqm_dropped == 0, "marks replace drops");
        assert_eq!(ecn, queue.counters().ce_marked > 0);
    }
}

#[test]
fn codel_never_drops_while_less_than_a_packet_waits_behind() {
    let mut queue = codel(false);
    // One packet per 50 ms, served 20 ms late: the delay is above target, but nothing queues.
    for n in 0..100 {
        let at = Instant::from_millis(50 * n);
        queue.push(Packet { sent_at: at, ..packet(n, 1_500) }, at);
        assert!(queue.pop(at + Duration::from_millis(20)).is_some());
    }
    assert_eq!(queue.counters().aqm_dropped, 0);
}

#[test]
fn codel_brings_a_persistent_queue_of_a_yielding_sender_to_target() {
    // A sender that halves on each drop and adds a packet per 100 ms otherwise.
    let mut queue = codel(false);
    let (mut rate, mut owed, mut dropped) = (1.4f64, 0.0, 0);
    let mut late_sojourns = Vec::new();
    for ms in 0..20_000u64 {
        let now = Instant::from_millis(ms);
        owed += rate;
        while owed >= 1.0 {
            owed -= 1.0;
            queue.push(Packet { sent_at: now, ..packet(0, 1_500) }, now);
        }
        if let Some(packet) = queue.pop(now)
            && ms > 5_000
        {
            late_sojourns.push(now - packet.sent_at);
        }
        let drops = queue.counters().aqm_dropped;
        rate = if drops > dropped { rate * 0.8 } else { rate + 0.0005 };
        dropped = drops;
    }
    late_sojourns.sort();
    let median = late_sojourns[late_sojourns.len() / 2];
    assert!(median <= Duration::from_millis(10), "standing delay {median:?}");
    assert!(late_sojourns.len() > 13_000, "and the server is busy: {}", late_sojourns.len());
}

#[test]
fn red_keeps_the_average_between_its_thresholds_under_moderate_overload() {
    let mut queue = queue(QueueConfig {
        limit: Limit::Packets(1_000),
        discipline: Discipline::Red(RedConfig::default()),
        ack_filter: false,
    });
    // 1.1 arrivals per departure.
    let (sojourns, drops) =
        serve(&mut queue, 50_000, Duration::from_micros(120), 0, |t| 1 + u64::from(t % 10 == 0));
    let share = drops.len() as f64 / 55_000.0;
    assert!((0.08..0.1).contains(&share), "the excess of 1/11 is dropped: {share}");
    assert_eq!(queue.counters().tail_dropped, 0);
    let waited = sojourns[20_000..].iter().map(|s| s.as_micros() as f64 / 120.0);
    let mean = waited.sum::<f64>() / (sojourns.len() - 20_000) as f64;
    assert!((5.0..=15.0).contains(&mean), "mean queue {mean} packets");
}

fn filtered() -> Queue {
    queue(QueueConfig { ack_filter: true, ..QueueConfig::default() })
}

fn ack(port: u16, number: u32) -> Vec<u8> {
    ipv4_tcp(port, 0x10, number, &timestamps(), &[])
}

#[test]
fn a_newer_ack_takes_the_place_of_the_older_one_of_its_flow_only() {
    let mut q = filtered();
    q.push(segment(1, ack(1, 100)), Instant::ZERO);
    q.push(segment(2, ack(2, 900)), Instant::ZERO);
    q.push(segment(3, ack(1, 200)), Instant::ZERO);
    q.push(segment(4, ack(1, 300)), Instant::ZERO);
    assert_eq!((q.len(), q.counters().acks_replaced), (2, 2));
    assert_eq!(drain(&mut q), [4, 2], "at the head, where the first one was");
    q.push(segment(5, ack(1, 400)), Instant::ZERO);
    assert_eq!(drain(&mut q), [5], "an ACK that left is forgotten");
}

#[test]
fn acknowledgment_numbers_compare_across_their_wrap() {
    let mut q = filtered();
    q.push(segment(1, ack(1, u32::MAX - 5)), Instant::ZERO);
    q.push(segment(2, ack(1, 5)), Instant::ZERO);
    assert_eq!(drain(&mut q), [2]);
}

#[test]
fn duplicates_and_everything_that_says_more_survive_in_order() {
    let mut q = filtered();
    let sack = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
    let tack = [253, 5, 0x12, 0x34, 1, 1, 1, 1];
    let waiting = [
        ack(1, 100),
        ack(1, 100),                          // a duplicate
        ipv4_tcp(1, 0x10, 100, &sack, &[]),   // SACK news
        ipv4_tcp(1, 0x18, 100, &[], b"data"), // data
        ipv4_tcp(1, 0x10, 150, &tack, b"TACK body"),
        ipv4_tcp(1, 0x10, 160, &tack, &[]), // a TACK option alone
        ipv4_tcp(1, 0x50, 170, &[], &[]),   // ECE
        ipv4_tcp(1, 0x11, 180, &[], &[]),   // FIN
        ipv4_tcp(1, 0x14, 190, &[], &[]),   // RST
        ipv4_tcp(1, 0x12, 190, &[], &[]),   // SYN
        ack(1, 90),                         // older
        ack(1, 200),                        // replaces the one before
    ];
    for (id, bytes) in waiting.into_iter().enumerate() {
        q.push(segment(id as u64, bytes), Instant::ZERO);
    }
    assert_eq!(drain(&mut q), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11]);
}

#[test]
fn the_filter_agrees_with_a_list_under_random_operations() {
    for seed in 0..20 {
        let mut rng = draw::stream(seed, 9);
        let mut q = filtered();
        // (id, port, ACK number if replaceable)
        let mut oracle: Vec<(u64, u16, Option<u32>)> = Vec::new();
        let mut next_ack = [1_000u32; 4];
        for id in 0..3_000 {
            match draw::below(&mut rng, 10) {
                0..=5 => {
                    let port = draw::below(&mut rng, 4) as u16;
                    next_ack[usize::from(port)] += draw::below(&mut rng, 3) as u32;
                    let number = next_ack[usize::from(port)];
                    let is_data = draw::chance(&mut rng, 0.2);
                    let bytes = if is_data {
                        ipv4_tcp(port, 0x10, number, &[], b"x")
                    } else {
                        ack(port, number)
                    };
                    q.push(segment(id, bytes), Instant::ZERO);
                    let last = oracle.iter().rposition(|p| p.1 == port);
                    match last.and_then(|i| oracle[i].2.map(|old| (i, old))) {
                        Some((i, old)) if !is_data && number > old => {
                            oracle[i] = (id, port, Some(number));
                        }
                        Some((_, _)) => oracle.push((id, port, None)),
                        None => oracle.push((id, port, (!is_data).then_some(number))),
                    }
                }
                _ => {
                    let expected = (!oracle.is_empty()).then(|| oracle.remove(0).0);
                    assert_eq!(q.pop(Instant::ZERO).map(|p| p.id), expected, "seed {seed}");
                }
            }
        }
        assert_eq!(drain(&mut q), oracle.iter().map(|p| p.0).collect::<Vec<_>>(), "seed {seed}");
    }
}
