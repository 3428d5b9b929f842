//! Gaps in PKT.SEQ: the papers' examples, reordering, hostile numbers, a model.

#![allow(clippy::single_range_in_vec_init)] // lists of one gap

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

/// More than any test announces at once.
const ROOM: usize = 1_000;

#[test]
fn a_lost_retransmission_is_detected_as_in_the_worked_example() {
    // [TON §V-A]: 5 packets; [1500..2999] is lost as PKT.SEQ 2 and again as PKT.SEQ 4.
    let mut d = detector();
    d.on_arrival(1, 0, at(0));
    d.on_arrival(3, 1_500, at(1));
    assert_eq!(d.poll(ROOM, at(10)), [], "settling");
    assert_eq!(d.poll(ROOM, at(11)), [2..3]);
    d.on_arrival(5, 4_500, at(20));
    assert_eq!(d.poll(ROOM, at(30)), [4..5]);
    assert_eq!(d.poll(ROOM, at(1_000)), [], "one announcement per event");
}

#[test]
fn several_gaps_that_settled_are_announced_together_in_order() {
    // [TON §V-A]: 1..=10 sent; 1, 4, 5, 6, 10 received.
    let mut d = detector();
    for (i, p) in [1, 4, 5, 6, 10].into_iter().enumerate() {
        d.on_arrival(p, 0, at(i as u64));
    }
    assert_eq!(d.poll(ROOM, at(20)), [2..4, 7..10]);
    assert_eq!(d.poll(ROOM, at(20)), []);
    assert_eq!(d.largest(), 10);
}

#[test]
fn three_that_are_missing_and_were_passed_by_three_need_not_settle_until_a_packet_comes_late() {
    let told = |arrivals: &[u64], late: Option<u64>| {
        let mut d = detector();
        for p in arrivals {
            d.on_arrival(*p, 0, at(0));
        }
        if let Some(p) = late {
            d.on_arrival(p, 0, at(0));
        }
        (1..=20).find(|n| !d.poll(ROOM, at(*n)).is_empty())
    };
    assert_eq!(told(&[1, 5, 6, 7], None), Some(1), "40 ms / 128");
    assert_eq!(told(&[1, 3, 5, 7], None), Some(1), "every other one");
    assert_eq!(told(&[1, 3, 4, 5, 6], None), Some(10), "one may come yet");
    assert_eq!(told(&[1, 5, 6], None), Some(10), "as may three, which two have passed");
    assert_eq!(told(&[1, 6, 7, 8], Some(2)), Some(10), "this path reorders");
}

#[test]
fn late_packets_shrink_split_and_remove_a_gap() {
    let mut d = detector();
    d.on_arrival(1, 0, at(0));
    d.on_arrival(9, 0, at(1));
    for late in [2, 5, 8] {
        d.on_arrival(late, 0, at(2));
    }
    assert_eq!(d.poll(ROOM, at(11)), [3..5, 6..8]);
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
        assert!(!d.poll(ROOM, now + wait).is_empty());
        now += ms(100);
        if late {
            d.on_arrival(p + 1, 0, now);
        }
        p += 3;
        wait
    };
    for steps in [1, 2, 3, 4, 5, 6, 7, 8, 8] {
        assert_eq!(settled_after(&mut d, true), ms(10 * steps), "up to 2 RTTmin");
    }
    let waits: Vec<_> = (0..128).map(|_| settled_after(&mut d, false)).collect();
    assert_eq!((waits[0], waits[127]), (ms(80), ms(10)));
    assert!(waits.windows(2).all(|w| w[0] >= w[1]));
}

#[test]
fn what_a_near_path_took_to_settle_is_not_what_a_far_one_takes() {
    let mut d = detector();
    d.set_rtt_min(ms(1));
    for round in 0..30 {
        let (p, now) = (1 + 3 * round, at(100 * round));
        d.on_arrival(p, 0, now);
        d.on_arrival(p + 2, 0, now);
        assert!(!d.poll(ROOM, now + ms(50)).is_empty());
        d.on_arrival(p + 1, 0, now + ms(50));
    }
    let mut settled_after = |rtt_min: u64, p: u64| {
        d.set_rtt_min(ms(rtt_min));
        d.on_arrival(p, 0, at(9_000 + p));
        let wait = d.deadline().unwrap() - at(9_000 + p);
        d.poll(ROOM, at(9_000 + p) + wait);
        wait
    };
    assert_eq!(settled_after(1, 100), ms(4), "4 RTTmin, which is less than 50 ms");
    assert_eq!(settled_after(200, 200), ms(400), "2 RTTmin");
}

#[test]
fn holes_older_than_a_pending_gap_are_settled() {
    let mut d = detector();
    assert_eq!(d.settled_below(), None);
    d.on_arrival(1, 0, at(0));
    d.on_arrival(3, 1_000, at(1));
    d.on_arrival(5, 3_000, at(2));
    assert_eq!(d.settled_below(), Some(1_000));
    d.poll(ROOM, at(11));
    assert_eq!(d.settled_below(), Some(3_000));
    d.poll(ROOM, at(12));
    assert_eq!(d.settled_below(), Some(3_000), "settled, but the last IACK left 1 ms ago");
    d.poll(ROOM, at(14));
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
            assert!(!d.poll(ROOM, at(0)).is_empty());
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
                expected += d.on_arrival(p, 0, at(t)).unwrap_or(0);
                received.insert(p);
            }
            for gap in d.poll(1 + next(4) as usize, at(t)) {
                assert!(received.contains(&gap.end), "seed {seed}");
                assert!(gap.start == 1 || received.contains(&(gap.start - 1)), "seed {seed}");
                for p in gap {
                    assert!(!received.contains(&p) && announced.insert(p), "seed {seed}: {p}");
                }
            }
        }
        while d.deadline().is_some() {
            announced.extend(d.poll(ROOM, at(10_000)).into_iter().flatten());
        }
        let top = *received.last().unwrap();
        assert_eq!(expected, top, "seed {seed}");
        let missing: BTreeSet<u64> = (1..top).filter(|p| !received.contains(p)).collect();
        assert_eq!(announced, missing, "seed {seed}");
    }
}

/// Every other packet from 1 on, `each` apart, polled at every arrival.
fn every_other_packet_is_lost(d: &mut LossDetector, packets: u64, each: Duration) -> Vec<Instant> {
    let (mut now, mut iacks) = (at(0), Vec::new());
    for p in 0..packets {
        d.on_arrival(1 + 2 * p, 0, now);
        if !d.poll(ROOM, now).is_empty() {
            iacks.push(now);
        }
        now += each;
    }
    iacks
}

#[test]
fn a_queue_that_drops_every_other_packet_costs_sixteen_iacks_per_rtt() {
    // 4 000 loss events in 400 ms, ten RTTmin: an IACK each would be 4 000.
    let mut d = detector();
    let iacks = every_other_packet_is_lost(&mut d, 4_000, Duration::from_micros(100));
    let spacing = ms(40) / PER_RTT;
    assert!(iacks.windows(2).all(|w| w[1] - w[0] >= spacing));
    // From when three are missing.
    assert!((158..=160).contains(&iacks.len()), "{}", iacks.len());
}

#[test]
fn a_lone_loss_is_announced_once_it_settled_without_further_delay() {
    let mut d = detector();
    for round in 0..10 {
        let (p, now) = (1 + 3 * round, at(100 * round));
        d.on_arrival(p, 0, now);
        d.on_arrival(p + 2, 0, now);
        assert_eq!(d.deadline(), Some(now + ms(10)), "RTTmin/4, not spaced");
        let gaps = d.poll(ROOM, now + ms(10));
        assert_eq!(gaps[gaps.len() - 1], p + 1..p + 2);
    }
}

#[test]
fn what_one_iack_has_no_room_for_follows_at_once_in_the_next() {
    let mut d = detector();
    for p in 0..=300 {
        d.on_arrival(1 + 2 * p, 0, at(0));
    }
    let announced: Vec<usize> = (0..5).map(|_| d.poll(1_000, at(10)).len()).collect();
    assert_eq!(announced, [MAX_GAPS, MAX_GAPS, 300 - 2 * MAX_GAPS, 0, 0]);
    d.on_arrival(700, 0, at(10));
    d.on_arrival(702, 0, at(10));
    assert_eq!(d.poll(0, at(20)), [602..700], "room for one, whatever the host says");
    assert_eq!(d.poll(0, at(20)), [701..702]);
}
