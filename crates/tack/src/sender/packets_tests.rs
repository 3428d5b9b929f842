#![allow(clippy::single_range_in_vec_init)] // lists of one hole

use core::time::Duration;
use std::collections::BTreeMap;

use super::*;
use crate::{Iack, IackReason, Regime, Tack};

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// Packets 1 to `n`, of 1 000 bytes each.
fn sender(n: u64) -> Sender<Packets> {
    let mut s = Sender::of_packets(Params::default(), 1, at(0));
    for pkt_seq in 1..=n {
        assert_eq!(s.on_packet(1_000, at(0)), pkt_seq);
    }
    s
}

/// A TACK of a peer that has every packet from 1 to `largest` but those in `holes`.
fn tack(counter: u32, largest: u64, holes: &[Range<u64>]) -> Tack {
    Tack {
        counter,
        cum_ack: 1,
        timing: None,
        delivery_rate: None,
        rho: 0.0,
        received_in_flight: 0,
        window: u64::MAX,
        largest_pkt_seq: largest,
        rcv_high: largest + 1,
        holes: holes.to_vec(),
        holes_complete: true,
        lost: Vec::new(),
        settled_below: u64::MAX,
        interval: Duration::from_millis(10),
        regime: Regime::Steady,
        duplicates: 0,
    }
}

fn fates(s: &mut Sender<Packets>) -> Vec<Fate> {
    core::iter::from_fn(|| s.poll_fate()).collect()
}

#[test]
fn what_is_lost_is_told_once_and_never_asked_for_again() {
    let mut s = sender(4);
    let acked = s.on_tack(&tack(1, 4, &[2..3]), 0, at(40));
    assert_eq!((acked.acked_bytes, acked.lost_bytes, acked.in_flight), (3_000, 1_000, 0));
    assert!(acked.recovery_started);
    let told = [Fate::Arrived(1), Fate::Arrived(3), Fate::Arrived(4), Fate::Lost(2)];
    assert_eq!(fates(&mut s), told);
    // The hole stays until the peer forgets it.
    s.on_tack(&tack(2, 4, &[2..3]), 0, at(50));
    assert_eq!(fates(&mut s), []);
    assert_eq!((s.deadline(), s.settled_below()), (None, 5));
}

#[test]
fn a_hole_that_has_not_settled_is_neither_lost_nor_received() {
    let mut s = sender(4);
    let early = Tack { settled_below: 2, ..tack(1, 4, &[2..3]) };
    let acked = s.on_tack(&early, 0, at(40));
    assert_eq!((acked.acked_bytes, acked.lost_bytes, acked.in_flight), (3_000, 0, 1_000));
    assert_eq!(s.settled_below(), 2);
    s.on_tack(&tack(2, 4, &[]), 0, at(50));
    assert_eq!(fates(&mut s).last(), Some(&Fate::Arrived(2)));
}

#[test]
fn a_packet_that_was_only_late_proves_its_repetition_needless() {
    let mut s = sender(4);
    let gaps = vec![2..3];
    let reason = IackReason::Loss { gaps };
    s.on_iack(&Iack { cum_ack: 1, window: u64::MAX, reason }, at(40));
    assert_eq!(fates(&mut s), [Fate::Lost(2)]);
    let acked = s.on_tack(&tack(1, 4, &[]), 0, at(50));
    assert_eq!((acked.needless, acked.spurious), (1, true));
    assert!(fates(&mut s).contains(&Fate::Arrived(2)));
    assert_eq!(s.delivered(), 4_000);
}

#[test]
fn a_peer_that_acknowledges_a_skipped_number_is_found_out_once() {
    let mut s = sender(2);
    s.skip(at(1));
    assert_eq!(s.on_packet(1_000, at(1)), 4);
    s.on_tack(&tack(1, 4, &[]), 0, at(40));
    s.on_tack(&tack(2, 4, &[]), 0, at(50));
    let forged = fates(&mut s).into_iter().filter(|f| *f == Fate::Forged(3)).count();
    assert_eq!(forged, 1);
}

#[test]
fn packets_that_ask_for_nothing_are_never_waited_for() {
    let mut s = sender(0);
    assert_eq!(s.on_uncounted(at(0)), 1);
    s.skip(at(0));
    assert_eq!((s.deadline(), s.in_flight(), s.next_pkt_seq()), (None, 0, 3));
}

#[test]
fn a_timeout_loses_all_and_what_arrives_after_all_is_told() {
    let mut s = sender(3);
    let probe = s.deadline().unwrap();
    assert_eq!(s.on_timeout(probe), Some(crate::Timeout::Probe));
    let rto = s.deadline().unwrap();
    assert_eq!(s.on_timeout(rto), Some(crate::Timeout::Rto));
    assert_eq!(fates(&mut s), [Fate::Lost(1), Fate::Lost(2), Fate::Lost(3)]);
    assert_eq!((s.in_flight(), s.deadline()), (0, None));
    let acked = s.on_tack(&tack(1, 3, &[]), 0, rto);
    assert!(acked.spurious, "nothing was sent since, so nothing but the old ones can have arrived");
    assert_eq!(fates(&mut s), [Fate::Arrived(1), Fate::Arrived(2), Fate::Arrived(3)]);
}

#[test]
fn of_a_timeout_that_is_undone_what_is_still_missing_is_a_loss() {
    let mut s = sender(5);
    for _ in 0..2 {
        s.on_timeout(s.deadline().unwrap());
    }
    let now = at(1_000);
    assert_eq!(s.on_packet(1_000, now), 6);
    let acked = s.on_tack(&tack(1, 6, &[3..6]), 0, at(1_040));
    assert!(acked.spurious && acked.recovery_started);
    assert_eq!((acked.acked_bytes, acked.lost_bytes), (3_000, 2_000));
}

#[test]
fn a_floor_that_passes_what_is_in_flight_loses_it() {
    let mut s = sender(5);
    let forgetful = Tack { cum_ack: 4, ..tack(1, 5, &[]) };
    s.on_tack(&forgetful, 0, at(40));
    let told = [1, 2, 3].map(Fate::Lost).into_iter().chain([4, 5].map(Fate::Arrived));
    assert_eq!(fates(&mut s), told.collect::<Vec<_>>());
}

#[test]
fn memory_is_bounded_by_what_a_peer_leaves_out() {
    let mut s = sender(1);
    for i in 0..2 * MOST as u64 {
        s.on_packet(1, at(1));
        if i % 1_000 == 999 {
            let floor = Tack { cum_ack: 1, ..tack(i as u32, i + 2, &[1..2]) };
            s.on_tack(&Tack { settled_below: 0, ..floor }, 0, at(2));
            fates(&mut s);
        }
        assert!(s.sent.ring.len() <= MOST + REMEMBERED as usize);
    }
}

#[test]
fn random_conversations_agree_with_a_table_of_every_packet() {
    let mut x = 0x2545_f491_4f6c_dd1du64;
    let mut next = move |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    };
    for _ in 0..200 {
        let mut log = Packets::new(1 + next(1 << 40));
        // What each packet in flight or lost holds, and whether it is lost.
        let mut table: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
        let (mut arrived, mut told) = (0, 0);
        for _ in 0..200 {
            let (a, b) = (log.first + next(40), next(30));
            match next(8) {
                0..4 => {
                    let bytes = next(1_500);
                    table.insert(log.on_sent(bytes as u32, 0, at(0)), (bytes, false));
                }
                4 => log.skip(at(0)),
                5 => drop(log.on_uncounted(at(0))),
                6 => {
                    log.receive(a..a + b, None, &mut Receipts::default());
                    for gone in table.extract_if(a..a + b, |_, _| true) {
                        arrived += gone.1.0;
                    }
                }
                _ => {
                    let lost = log.lose(a..a + b, |_| true);
                    let newly = table.range_mut(a..a + b).filter(|(_, p)| !p.1);
                    assert_eq!(lost, newly.map(|(_, p)| (p.1 = true, p.0).1).sum());
                }
            }
            while let Some(fate) = log.poll_fate() {
                told += u64::from(matches!(fate, Fate::Arrived(_)));
            }
            let flying = || table.iter().filter(|(_, p)| !p.1);
            assert_eq!(log.in_flight(), flying().map(|(_, p)| p.0).sum());
            assert_eq!(log.una(), flying().next().map_or(log.next_pkt_seq(), |(n, _)| *n));
            assert_eq!((log.delivered(), log.is_empty()), (arrived, flying().next().is_none()));
            assert_eq!(log.lost.len(), table.values().filter(|p| p.1).count());
        }
        assert!(told > 0);
    }
}

#[test]
fn the_loss_of_a_repair_belongs_to_the_episode_that_it_repairs() {
    // Something short may leave before the repair.
    for short in [false, true] {
        let mut s = sender(10);
        assert!(s.on_tack(&tack(1, 10, &[2..3]), 0, at(40)).recovery_started);
        if short {
            s.on_packet(60, at(40));
        }
        let repair = s.on_packet(1_000, at(40));
        let last = s.on_packet(1_000, at(40));
        let acked = s.on_tack(&tack(2, last, &[2..3, repair..last]), 0, at(80));
        assert_eq!((acked.lost_bytes, acked.recovery_started), (1_000, false));
        assert!(!s.in_recovery(), "what repairs it leaves after the window fell");
        let last = s.on_packet(1_000, at(80));
        s.on_tack(&tack(3, last, &[2..3, repair..repair + 1]), 0, at(120));
        assert!(!s.in_recovery());
        let lost = s.on_packet(1_000, at(120));
        let last = s.on_packet(1_000, at(120));
        let acked = s.on_tack(&tack(4, last, &[2..3, repair..repair + 1, lost..last]), 0, at(160));
        assert!(acked.recovery_started, "another one");
    }
}

#[test]
fn a_loss_behind_the_repairs_opens_another_episode() {
    let mut s = sender(10);
    assert!(s.on_tack(&tack(1, 10, &[2..3]), 0, at(40)).recovery_started);
    for pkt_seq in 11..=14 {
        assert_eq!(s.on_packet(1_000, at(40)), pkt_seq);
    }
    // 11 is the repair.
    let acked = s.on_tack(&tack(2, 14, &[2..3, 13..14]), 0, at(80));
    assert_eq!((acked.lost_bytes, acked.recovery_started), (1_000, true));
    // And its own repair belongs to that one.
    let (repair, last) = (s.on_packet(1_000, at(80)), s.on_packet(1_000, at(80)));
    let acked = s.on_tack(&tack(3, last, &[2..3, 13..14, repair..last]), 0, at(120));
    assert_eq!((acked.lost_bytes, acked.recovery_started), (1_000, false));
}
