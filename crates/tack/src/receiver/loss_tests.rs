//! Gaps in PKT.SEQ: the papers' examples, reordering, hostile numbers, a model.

use std::collections::BTreeSet;

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// RTTmin 40 ms: settling 10 ms.
fn detector() -> LossDetector {
    let mut d = LossDetector::new(1, 4);
    d.set_rtt_min(ms(40));
    d
}

fn lost(second_largest: u64, largest: u64) -> Option<Lost> {
    Some(Lost { largest, second_largest })
}

#[test]
fn a_lost_retransmission_is_detected_as_in_the_worked_example() {
    // [TON §V-A]: 5 packets; [1500..2999] is lost as PKT.SEQ 2 and again as PKT.SEQ 4.
    let mut d = detector();
    d.on_arrival(1, 0, at(0));
    d.on_arrival(3, 1_500, at(1));
    assert_eq!(d.poll(at(10)), None, "settling");
    assert_eq!(d.poll(at(11)), lost(1, 3));
    d.on_arrival(5, 4_500, at(20));
    assert_eq!(d.poll(at(30)), lost(3, 5));
    assert_eq!(d.poll(at(1_000)), None, "one IACK per event");
}

#[test]
fn several_gaps_are_announced_in_order() {
    // [TON §V-A]: 1..=10 sent; 1, 4, 5, 6, 10 received.
    let mut d = detector();
    for (i, p) in [1, 4, 5, 6, 10].into_iter().enumerate() {
        d.on_arrival(p, 0, at(i as u64));
    }
    assert_eq!(d.poll(at(20)), lost(1, 4));
    assert_eq!(d.poll(at(20)), lost(6, 10));
    assert_eq!(d.poll(at(20)), None);
    assert_eq!(d.largest(), 10);
}

#[test]
fn late_packets_shrink_split_and_remove_a_gap() {
    let mut d = detector();
    d.on_arrival(1, 0, at(0));
    d.on_arrival(9, 0, at(1));
    for late in [2, 5, 8] {
        d.on_arrival(late, 0, at(2));
    }
    assert_eq!(d.poll(at(11)), lost(2, 5));
    assert_eq!(d.poll(at(11)), lost(5, 8));
    d.on_arrival(12, 0, at(20));
    d.on_arrival(10, 0, at(21));
    d.on_arrival(11, 0, at(22));
    assert_eq!(d.deadline(), None);
}

#[test]
fn the_settling_time_adapts_to_reordering_and_back() {
    let mut d = detector();
    let mut p = 1;
    let mut now = at(0);
    let mut settled_after = |d: &mut LossDetector, late: bool| {
        d.on_arrival(p, 0, now);
        d.on_arrival(p + 2, 0, now);
        let wait = d.deadline().unwrap() - now;
        assert!(d.poll(now + wait).is_some());
        now += ms(100);
        if late {
            d.on_arrival(p + 1, 0, now);
        }
        p += 3;
        wait
    };
    for steps in [1, 2, 3, 4, 4] {
        assert_eq!(settled_after(&mut d, true), ms(10 * steps), "up to RTTmin");
    }
    let waits: Vec<_> = (0..64).map(|_| settled_after(&mut d, false)).collect();
    assert_eq!((waits[0], waits[63]), (ms(40), ms(10)));
    assert!(waits.windows(2).all(|w| w[0] >= w[1]));
}

#[test]
fn duplicates_count_as_proof_only_near_an_announced_loss() {
    let mut d = detector();
    d.on_duplicate(at(0));
    d.on_arrival(1, 0, at(0));
    d.on_arrival(3, 0, at(0));
    assert_eq!(d.deadline(), Some(at(10)));
    d.poll(at(10));
    d.on_duplicate(at(50));
    d.on_duplicate(at(51));
    d.on_arrival(5, 0, at(60));
    assert_eq!(d.deadline(), Some(at(80)), "one step per RTTmin");
}

#[test]
fn holes_older_than_a_pending_gap_are_settled() {
    let mut d = detector();
    assert_eq!(d.settled_below(), None);
    d.on_arrival(1, 0, at(0));
    d.on_arrival(3, 1_000, at(1));
    d.on_arrival(5, 3_000, at(2));
    assert_eq!(d.settled_below(), Some(1_000));
    d.poll(at(11));
    assert_eq!(d.settled_below(), Some(3_000));
    d.poll(at(12));
    assert_eq!(d.settled_below(), None);
}

#[test]
fn hostile_jumps_cost_bounded_memory_and_work() {
    let mut d = detector();
    let mut p = 1u64;
    for i in 0..20_000 {
        p = p.saturating_add((1 << 31) - 1);
        d.on_arrival(p, 0, at(0));
        d.on_arrival(p - 1_000, 0, at(0));
        if i % 7 == 0 {
            d.on_arrival(u64::MAX, 0, at(0));
            d.on_arrival(0, 0, at(0));
        }
        while d.deadline().is_some_and(|t| t <= at(0)) {
            assert!(d.poll(at(0)).is_some());
        }
        assert!(d.pending.len() <= MAX_PENDING + 2);
        assert!(d.announced.len() <= MAX_ANNOUNCED);
    }
}

#[test]
fn random_arrivals_announce_exactly_what_is_missing() {
    // The oracle is the set of numbers received; no packet comes after its loss was announced.
    for seed in 1..=200u64 {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % n
        };
        let mut d = detector();
        let mut received = BTreeSet::new();
        let mut announced = BTreeSet::new();
        let mut expected = 0;
        for t in 0..300 {
            let p = 1 + t + next(6);
            if !announced.contains(&p) {
                expected += d.on_arrival(p, 0, at(t));
                received.insert(p);
            }
            while let Some(l) = d.poll(at(t)) {
                assert!(received.contains(&l.largest), "seed {seed}");
                assert!(l.second_largest == 0 || received.contains(&l.second_largest));
                for p in l.second_largest + 1..l.largest {
                    assert!(!received.contains(&p) && announced.insert(p), "seed {seed}: {p}");
                }
            }
        }
        while let Some(l) = d.poll(at(10_000)) {
            announced.extend(l.second_largest + 1..l.largest);
        }
        let top = *received.last().unwrap();
        assert_eq!(expected, top, "seed {seed}");
        let missing: BTreeSet<u64> = (1..top).filter(|p| !received.contains(p)).collect();
        assert_eq!(announced, missing, "seed {seed}");
    }
}
