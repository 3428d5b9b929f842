//! Peers that lie: no panic, bounded work, and what is true stays true.

#![allow(clippy::single_range_in_vec_init)] // lists of one gap

use std::collections::BTreeMap;
use std::time::Duration;

use tack::{
    Arrival, Buffer, Fate, Frequency, Iack, IackReason, Params, Ranges, Receiver, Regime, Sender,
    Tack, Timing,
};
use tack_units::{Instant, Rate};

use crate::rng::Rng;

const MSS: u64 = 1_448;

fn sender(segments: u64) -> Sender {
    let mut s = Sender::new(Params::default(), 1, 0, Instant::ZERO);
    s.on_cum_ack(0, Some(Duration::from_millis(40)), Instant::ZERO);
    for i in 0..segments {
        s.on_sent(i * MSS..(i + 1) * MSS, Instant::ZERO);
    }
    s
}

fn honest(counter: u32, cum_ack: u64, largest_pkt_seq: u64) -> Tack {
    Tack {
        counter,
        cum_ack,
        timing: None,
        delivery_rate: None,
        rho: 0.0,
        received_in_flight: 0,
        window: 1 << 20,
        largest_pkt_seq,
        rcv_high: cum_ack,
        holes: Vec::new(),
        holes_complete: true,
        lost: Vec::new(),
        settled_below: u64::MAX,
        interval: Duration::from_millis(10),
        regime: Regime::Steady,
        duplicates: 0,
    }
}

#[test]
fn acknowledging_what_was_never_sent_changes_nothing() {
    let now = Instant::from_millis(40);
    let lies = [
        honest(1, 11 * MSS, 10),
        honest(1, u64::MAX, 10),
        honest(1, MSS, 11),
        honest(1, MSS, u64::MAX),
        Tack { rcv_high: u64::MAX, ..honest(1, MSS, 1) },
    ];
    for lie in lies {
        let mut s = sender(10);
        let before = format!("{s:?}");
        let acked = s.on_tack(&lie, 0, now);
        assert_eq!((acked.acked_bytes, acked.lost_bytes, acked.in_flight), (0, 0, 10 * MSS));
        assert_eq!(format!("{s:?}"), before, "{lie:?}");
    }
    let mut s = sender(10);
    let before = format!("{s:?}");
    s.on_cum_ack(u64::MAX, None, now);
    let reason = IackReason::Loss { gaps: vec![1..u64::MAX] };
    s.on_iack(&Iack { cum_ack: 0, window: 0, reason: reason.clone() }, now);
    s.on_iack(&Iack { cum_ack: u64::MAX, window: 0, reason }, now);
    let inverted = core::ops::Range { start: 10, end: 2 };
    let reason = IackReason::Loss { gaps: vec![inverted] };
    s.on_iack(&Iack { cum_ack: 0, window: 0, reason }, now);
    assert_eq!(format!("{s:?}"), before);
}

#[test]
#[allow(clippy::single_range_in_vec_init, clippy::reversed_empty_ranges)]
fn enormous_overlapping_and_inverted_holes_lose_nothing_that_arrived_later() {
    let cases = [
        vec![0..u64::MAX],
        vec![5 * MSS..2 * MSS],
        vec![2 * MSS..4 * MSS, 3 * MSS..5 * MSS],
        vec![4 * MSS..5 * MSS, 2 * MSS..3 * MSS],
        vec![MSS..MSS; 100_000],
    ];
    for holes in cases {
        let mut s = sender(10);
        let lie = Tack { holes: holes.clone(), rcv_high: 10 * MSS, ..honest(1, MSS, 10) };
        let acked = s.on_tack(&lie, 0, Instant::from_millis(40));
        assert!(acked.in_flight + acked.acked_bytes + acked.lost_bytes <= 10 * MSS, "{holes:?}");
        let acked = s.on_tack(&honest(2, 10 * MSS, 10), 0, Instant::from_millis(50));
        assert_eq!((acked.delivered, acked.in_flight, s.lost_bytes()), (10 * MSS, 0, 0));
    }
}

#[test]
fn telling_the_same_enormous_loss_for_ever_costs_little() {
    // 200 000 segments outstanding, 200 000 times the whole range: quadratic work would not end.
    let mut s = sender(200_000);
    let reason = IackReason::Loss { gaps: vec![2..200_000] };
    let lie = Iack { cum_ack: 0, window: 0, reason };
    let lost = s.on_iack(&lie, Instant::from_millis(40)).lost_bytes;
    assert_eq!(lost, 199_998 * MSS);
    for i in 0..200_000 {
        let acked = s.on_iack(&lie, Instant::from_micros(40_000 + i));
        assert_eq!(acked.lost_bytes, 0);
    }
}

/// Anything, or something near what was sent.
fn number(rng: &mut Rng, around: u64) -> u64 {
    match rng.below(8) {
        0 => rng.next(),
        1 => u64::MAX,
        2 => 0,
        _ => rng.below(around + 3),
    }
}

fn iack_of_lies(rng: &mut Rng, nxt: u64, next: u64) -> Iack {
    let gaps = (0..rng.below(5)).map(|_| number(rng, next)..number(rng, next)).collect();
    Iack { cum_ack: number(rng, nxt) / 2, window: rng.next(), reason: IackReason::Loss { gaps } }
}

fn tack_of_lies(rng: &mut Rng, nxt: u64, next: u64) -> Tack {
    Tack {
        counter: number(rng, 300) as u32,
        cum_ack: number(rng, nxt) / 2,
        timing: Some(Timing {
            departure_us: rng.next() as u32,
            delay: Duration::from_nanos(rng.next()),
            queued: Duration::from_nanos(rng.next()),
        }),
        delivery_rate: Some(Rate::from_bps(rng.next())),
        rho: f64::NAN,
        received_in_flight: number(rng, nxt),
        window: rng.next(),
        largest_pkt_seq: number(rng, next),
        rcv_high: number(rng, nxt),
        holes: (0..rng.below(9)).map(|_| number(rng, nxt)..number(rng, nxt)).collect(),
        holes_complete: rng.chance(0.5),
        lost: (0..rng.below(4)).map(|_| number(rng, next)..number(rng, next)).collect(),
        settled_below: rng.next() >> rng.below(64),
        interval: [Duration::MAX, Duration::from_nanos(rng.next())][rng.below(2) as usize],
        regime: Regime::Startup,
        duplicates: rng.next() as u32,
    }
}

#[test]
fn random_feedback_on_packets_never_panics_and_no_packet_is_told_of_too_often() {
    for seed in 1..=300 {
        let mut rng = Rng::new(seed);
        let mut s = Sender::of_packets(Params::default(), 1, Instant::ZERO);
        let (mut now, mut sent, mut fates) = (Instant::ZERO, 0, BTreeMap::new());
        for _ in 0..300 {
            now += Duration::from_micros(rng.below(30_000));
            let next = s.next_pkt_seq();
            match rng.below(6) {
                0 | 1 => {
                    for _ in 0..rng.below(20) {
                        match rng.below(5) {
                            0 => s.skip(now),
                            1 => drop(s.on_uncounted(now)),
                            _ => {
                                let bytes = 1 + rng.below(MSS) as u32;
                                fates.insert(s.on_packet(bytes, now), vec![]);
                                sent += u64::from(bytes);
                            }
                        }
                    }
                }
                2 => drop(s.on_timeout(now)),
                3 => {
                    let lie = iack_of_lies(&mut rng, next, next);
                    s.on_iack(&lie, now);
                }
                _ => {
                    let lie = tack_of_lies(&mut rng, next, next);
                    let acked = s.on_tack(&lie, rng.next() as u32, now);
                    assert!(acked.in_flight <= sent && acked.delivered <= sent, "seed {seed}");
                }
            }
            while let Some(fate) = s.poll_fate() {
                match fate {
                    Fate::Arrived(n) | Fate::Lost(n) => fates.get_mut(&n).unwrap().push(fate),
                    Fate::Forged(n) => assert!(!fates.contains_key(&n), "seed {seed}: {n}"),
                }
            }
            s.poll_frequency(Rate::from_bps(rng.next()), rng.chance(0.5), now);
            assert!(s.in_flight() + s.delivered() <= sent, "seed {seed}");
            let open = fates.values().any(Vec::is_empty);
            assert_eq!(s.deadline().is_some(), open, "seed {seed}");
        }
        for (n, told) in fates {
            let sound = matches!(told[..], [] | [_] | [Fate::Lost(_), Fate::Arrived(_)]);
            assert!(sound, "seed {seed}: {n} {told:?}");
        }
    }
}

#[test]
fn random_feedback_never_panics_and_the_books_stay_balanced() {
    for seed in 1..=300 {
        let mut rng = Rng::new(seed);
        let mut s = sender(0);
        let mut nxt = 0;
        let mut now = Instant::ZERO;
        for _ in 0..300 {
            now += Duration::from_micros(rng.below(30_000));
            match rng.below(6) {
                0 | 1 => {
                    for _ in 0..rng.below(20) {
                        let lost = s.next_lost(now);
                        let range = lost.unwrap_or(nxt..nxt + 1 + rng.below(MSS));
                        s.on_sent(range.clone(), now);
                        nxt = nxt.max(range.end);
                    }
                }
                2 => drop(s.on_timeout(now)),
                3 => {
                    let lie = iack_of_lies(&mut rng, nxt, s.next_pkt_seq());
                    s.on_iack(&lie, now);
                }
                _ => {
                    let lie = tack_of_lies(&mut rng, nxt, s.next_pkt_seq());
                    let acked = s.on_tack(&lie, rng.next() as u32, now);
                    assert!(acked.in_flight <= nxt && acked.delivered <= nxt, "seed {seed}");
                }
            }
            s.poll_frequency(Rate::from_bps(rng.next()), rng.chance(0.5), now);
            let outstanding: u64 = s.outstanding().iter().map(|o| o.seq.end - o.seq.start).sum();
            assert!(s.in_flight() + s.lost_bytes() <= outstanding, "seed {seed}");
            assert!((0.0..=1.0).contains(&s.rho_prime()), "seed {seed}");
            assert_eq!(s.deadline().is_none(), s.delivered() >= nxt && outstanding == 0);
        }
    }
}

#[test]
fn random_packets_and_frequencies_never_panic_the_receiver() {
    for seed in 1..=200 {
        let mut rng = Rng::new(seed);
        let mut r = Receiver::new(Params::default(), rng.next());
        let mut queued = Ranges::new();
        let mut now = Instant::ZERO;
        for _ in 0..500 {
            now += Duration::from_micros(rng.below(5_000));
            let start = rng.below(1 << 30);
            queued.insert(start..start + rng.below(3_000));
            if rng.chance(0.1) {
                queued = Ranges::new();
            }
            let buffer = Buffer {
                rcv_nxt: 0,
                queued: &queued,
                delivered: rng.next() >> rng.below(64),
                window: rng.next() >> rng.below(64),
                capacity: rng.next() >> rng.below(64),
            };
            let arrival = Arrival {
                pkt_seq: rng.next() >> rng.below(64),
                bytes: rng.next() >> rng.below(64),
                departure_us: rng.next() as u32,
                arrival_us: rng.next() as u32,
                push: rng.chance(0.5),
                immediate: rng.chance(0.1),
                ce: rng.chance(0.1),
                duplicate: rng.chance(0.2),
            };
            r.on_data(&arrival, buffer, now);
            if rng.chance(0.1) {
                let frequency = Frequency {
                    regime: if rng.chance(0.5) { Regime::Startup } else { Regime::Steady },
                    interval: [Duration::MAX, Duration::from_nanos(rng.next())]
                        [rng.below(2) as usize],
                    rtt_min: [Duration::MAX, Duration::ZERO, Duration::from_nanos(rng.next())]
                        [rng.below(3) as usize],
                    segments_per_ack: rng.next() as u32,
                    rho_prime: [f64::NAN, f64::INFINITY, -1.0, 0.3][rng.below(4) as usize],
                    bdp: rng.next(),
                };
                r.on_frequency(&frequency, now);
            }
            let mut polls = 0;
            while r.poll(buffer, rng.below(200) as usize, now).is_some() {
                polls += 1;
                assert!(polls < 600, "seed {seed}: poll must come to an end");
            }
            if let Some(deadline) = r.deadline() {
                assert!(deadline > now, "seed {seed}");
            }
        }
    }
}
