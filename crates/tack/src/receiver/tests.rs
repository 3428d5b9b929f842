//! The receiver as a whole: what it says when.

#![allow(clippy::single_range_in_vec_init)] // lists of one gap

use core::ops::Range;

use super::*;
use crate::RbbPolicy;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn lost(gaps: &[Range<u64>]) -> IackReason {
    IackReason::Loss { gaps: gaps.to_vec() }
}

/// A receiving host with reassembly and nothing else.
struct Host {
    receiver: Receiver,
    rcv_nxt: u64,
    queued: Ranges,
    window: u64,
    max_holes: usize,
}

const CAPACITY: u64 = 1 << 20;

impl Host {
    fn new(params: Params) -> Self {
        let receiver = Receiver::new(params, 1);
        Host { receiver, rcv_nxt: 0, queued: Ranges::new(), window: CAPACITY, max_holes: 100 }
    }

    /// RTTmin 40 ms: alpha 10 ms, settling 10 ms.
    fn steady(params: Params) -> Self {
        let mut host = Host::new(params);
        host.frequency(Regime::Steady, ms(10));
        host
    }

    fn frequency(&mut self, regime: Regime, interval: Duration) {
        let segments_per_ack = 2;
        let rtt_min = ms(40);
        let (rho_prime, bdp) = (0.0, 1 << 20);
        let f = Frequency { regime, interval, rtt_min, segments_per_ack, rho_prime, bdp };
        self.receiver.on_frequency(&f, at(0));
    }

    fn arrive(&mut self, pkt_seq: u64, seq: Range<u64>, now: Instant) {
        self.arrive_as(pkt_seq, seq, now, |_| {});
    }

    fn arrive_as(
        &mut self,
        pkt_seq: u64,
        seq: Range<u64>,
        now: Instant,
        change: impl Fn(&mut Arrival),
    ) {
        let duplicate = seq.end <= self.rcv_nxt || self.queued.contains(&seq);
        self.queued.insert(seq.start.max(self.rcv_nxt)..seq.end.max(self.rcv_nxt));
        if let Some(first) = self.queued.first().filter(|r| r.start == self.rcv_nxt) {
            self.rcv_nxt = first.end;
            self.queued.remove_below(self.rcv_nxt);
        }
        let mut arrival = Arrival {
            pkt_seq,
            bytes: seq.end - seq.start,
            departure_us: now.as_micros() as u32,
            arrival_us: now.as_micros() as u32,
            push: false,
            immediate: false,
            ce: false,
            duplicate,
        };
        change(&mut arrival);
        let buffer = buffer(self.rcv_nxt, &self.queued, self.window);
        self.receiver.on_data(&arrival, buffer, now);
    }

    fn poll_exactly(&mut self, now: Instant) -> Option<Feedback> {
        let buffer = buffer(self.rcv_nxt, &self.queued, self.window);
        self.receiver.poll(buffer, self.max_holes, now)
    }

    /// What there is to say when all that arrives at `now` has arrived.
    fn poll(&mut self, now: Instant) -> Option<Feedback> {
        self.poll_exactly(now + Duration::from_nanos(1))
    }

    fn poll_tack(&mut self, now: Instant) -> Tack {
        match self.poll(now) {
            Some(Feedback::Tack(tack)) => tack,
            other => panic!("no TACK at {now} but {other:?}"),
        }
    }

    fn poll_reason(&mut self, now: Instant) -> IackReason {
        match self.poll(now) {
            Some(Feedback::Iack(iack)) => iack.reason,
            other => panic!("no IACK at {now} but {other:?}"),
        }
    }

    fn said_by_data(&mut self, now: Instant) {
        self.receiver.on_acknowledged_by_data(self.queued.is_empty(), now);
    }

    fn resize(&mut self, window: u64, now: Instant) {
        self.window = window;
        let buffer = buffer(self.rcv_nxt, &self.queued, self.window);
        self.receiver.on_window(buffer, now);
    }
}

fn buffer(rcv_nxt: u64, queued: &Ranges, window: u64) -> Buffer<'_> {
    let delivered = rcv_nxt + queued.covered();
    Buffer { rcv_nxt, queued, delivered, window, capacity: CAPACITY }
}

#[test]
fn five_packets_of_the_worked_example() {
    // [TON §V-A]: [1500..2999] is lost twice, as PKT.SEQ 2 and 4.
    let mut h = Host::steady(Params { mss: 1_500, rbb: RbbPolicy::Rich, ..Params::default() });
    h.max_holes = 1;
    h.arrive(1, 0..1_500, at(0));
    h.arrive(3, 3_000..4_500, at(1));
    let tack = h.poll_tack(at(1));
    assert_eq!((tack.cum_ack, tack.rcv_high, tack.received_in_flight), (1_500, 4_500, 1_500));
    assert_eq!(tack.holes, [], "not announced yet");
    assert!(!tack.holes_complete);
    assert_eq!(h.poll_reason(at(11)), lost(&[2..3]));
    h.arrive(5, 4_500..6_000, at(20));
    assert_eq!(h.poll_reason(at(30)), lost(&[4..5]));
    let tack = h.poll_tack(at(60));
    let hole = [1_500..3_000];
    assert_eq!(tack.holes, hole, "HOL: the first hole");
    assert!(tack.holes_complete);
    assert_eq!((tack.largest_pkt_seq, tack.rcv_high), (5, 6_000));
    h.arrive(6, 1_500..3_000, at(70));
    assert_eq!(h.rcv_nxt, 6_000);
    assert_eq!(h.poll(at(70)), None, "a repaired hole is no event");
}

#[test]
fn lists_of_the_second_example_are_told_as_holes() {
    // [TON §V-A]: 1..=10 sent, 1, 4, 5, 6, 10 received: unacked {2, 3}, {7, 9}.
    let mut h = Host::steady(Params { rbb: RbbPolicy::Rich, ..Params::default() });
    h.max_holes = 3;
    for p in [1, 4, 5, 6, 10u64] {
        h.arrive(p, (p - 1) * 100..p * 100, at(p));
    }
    assert_eq!(h.poll_reason(at(30)), lost(&[2..4, 7..10]));
    let tack = h.poll_tack(at(41));
    assert_eq!(tack.holes, [100..300, 600..900, 100..300], "distinct, then the oldest again");
    assert_eq!(tack.received_in_flight, 400);
    assert_eq!(tack.rho, 0.5, "5 of 10");
}

#[test]
fn a_hole_at_the_very_start_settles_as_well() {
    let mut h = Host::steady(Params { rbb: RbbPolicy::Rich, ..Params::default() });
    h.max_holes = 1;
    h.arrive(2, 1_448..4_344, at(0));
    assert!(h.poll_tack(at(0)).holes.is_empty(), "not announced yet");
    assert_eq!(h.poll_reason(at(10)), lost(&[1..2]));
    h.arrive(3, 4_344..7_240, at(11));
    assert_eq!(h.poll_tack(at(11)).holes.len(), 1);
}

#[test]
fn nothing_is_said_while_nothing_arrived() {
    let mut h = Host::new(Params::default());
    assert_eq!((h.receiver.deadline(), h.poll(at(1_000_000))), (None, None));
}

#[test]
fn deadline_and_poll_agree_in_random_runs() {
    // The driver sleeps until the deadline: then there must be something to say, and not before.
    for seed in 1..=200u64 {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % n
        };
        let mut h = Host::new(Params { ack_on_push: true, ..Params::default() });
        let (mut now, mut p) = (at(0), 0);
        for _ in 0..300 {
            match next(8) {
                0 => h.frequency(Regime::Steady, Duration::from_micros(next(50_000))),
                1 => h.resize(next(CAPACITY), now),
                2 => h.said_by_data(now),
                _ => {
                    p += 1 + u64::from(next(10) == 0) * next(5);
                    let (push, ce) = (next(9) == 0, next(9) == 0);
                    h.arrive_as(p, p * 1_448..p * 1_448 + 1_448, now, |a| {
                        (a.push, a.ce) = (push, ce);
                    });
                }
            }
            let until = now + Duration::from_micros(next(20_000));
            while let Some(deadline) = h.receiver.deadline() {
                if deadline > until {
                    let before = deadline - Duration::from_nanos(1);
                    assert_eq!(h.poll_exactly(before), None, "seed {seed}");
                    break;
                }
                now = now.max(deadline);
                assert!(h.poll_exactly(now).is_some(), "seed {seed}: woken for nothing at {now}");
            }
            now = until;
            assert_eq!(h.poll_exactly(now), None, "seed {seed}");
        }
    }
}

#[test]
fn fin_and_pushes_are_acknowledged_at_once_when_asked_for() {
    let mut h = Host::steady(Params { ack_on_push: true, ..Params::default() });
    h.arrive_as(1, 0..10, at(1), |a| a.push = true);
    assert_eq!(h.poll_tack(at(1)).cum_ack, 10);
    let mut h = Host::steady(Params::default());
    h.arrive_as(1, 0..10, at(1), |a| a.push = true);
    assert_eq!(h.poll(at(1)), None, "off by default");
    h.arrive_as(2, 10..10, at(2), |a| a.immediate = true);
    assert_eq!(h.poll_tack(at(2)).counter, 1);
}

#[test]
fn each_transition_to_ce_is_told_once() {
    let mut h = Host::steady(Params::default());
    let marks = [false, true, true, false, false, true];
    let mut told = Vec::new();
    for (i, ce) in marks.into_iter().enumerate() {
        let i = i as u64;
        h.arrive_as(i + 1, i * 10..i * 10 + 10, at(i), |a| a.ce = ce);
        while let Some(Feedback::Iack(iack)) = h.poll(at(i)) {
            told.push((i, iack.reason));
        }
    }
    let ce = |marked| IackReason::CongestionExperienced { marked };
    assert_eq!(told, [(1, ce(1)), (5, ce(3))]);
}

#[test]
fn a_zero_window_and_its_end_are_told_at_once() {
    let mut h = Host::steady(Params::default());
    h.arrive_as(1, 0..1_448, at(0), |a| a.immediate = true);
    h.poll_tack(at(0));
    h.window = 0;
    h.arrive(2, 1_448..2_896, at(1));
    assert_eq!(h.poll_tack(at(1)).window, 0);
    h.resize(1_000, at(2));
    assert_eq!(h.poll(at(2)), None, "silly");
    h.resize(4_000, at(3));
    match h.poll(at(3)) {
        Some(Feedback::Iack(iack)) => assert_eq!((iack.cum_ack, iack.window), (2_896, 4_000)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_window_is_told_by_the_tack_that_packets_wait_for_or_with_the_policies_of_the_paper_by_an_iack()
{
    for (rbb, by_tack) in [(RbbPolicy::OnDemand, true), (RbbPolicy::Rich, false)] {
        let mut h = Host::steady(Params { rbb, ..Params::DEFAULT });
        h.window = 0;
        h.arrive(1, 0..1_448, at(0));
        let said = h.poll(at(0));
        assert_eq!(matches!(said, Some(Feedback::Tack(_))), by_tack, "{said:?}");
        assert_eq!(h.poll(at(1)), None, "the window is told");
        let tacks = (2..60).filter(|ms| h.poll(at(*ms)).is_some()).count();
        assert_eq!(tacks, usize::from(!by_tack), "{rbb:?}");
    }
}

#[test]
fn a_request_for_a_fresh_rtt_is_answered_at_once() {
    let mut h = Host::steady(Params::default());
    h.receiver.on_rtt_update(at(5));
    assert_eq!(h.poll_tack(at(5)).timing, None, "nothing arrived that could time it");
    h.arrive(1, 0..10, at(6));
    h.receiver.on_rtt_update(at(8));
    let timing = h.poll_tack(at(8)).timing.unwrap();
    assert_eq!((timing.departure_us, timing.delay.as_micros()), (6_000, 2_000));
}

#[test]
fn a_hole_announced_in_vain_is_listed_beside_the_lowest_one() {
    // RTTmin 40 ms, alpha 10 ms. PKT.SEQ 3 and 6 are lost, and nobody repairs anything: while it
    // may be under way one hole is listed, then all.
    let mut h = Host::steady(Params::default());
    let mut listed = Vec::new();
    for (t, p) in (0..200).filter(|p| ![3, 6].contains(p)).enumerate() {
        let now = at(t as u64);
        h.arrive(p + 1, p * 1_448..(p + 1) * 1_448, now);
        while let Some(feedback) = h.poll(now) {
            if let Feedback::Tack(tack) = feedback {
                listed.push((t, tack.holes.len(), tack.holes_complete));
            }
        }
    }
    // Both settled by 14 ms, and the TACK of 21 ms was the first to leave after that. One round
    // trip, the settling and two TACKs are 70 ms.
    let all = listed.iter().position(|(_, holes, _)| *holes == 2).unwrap();
    assert!((80..=101).contains(&listed[all].0), "{listed:?}");
    assert!(listed[all..].iter().all(|(_, holes, complete)| (*holes, *complete) == (2, true)));
    assert!(listed[..all].iter().all(|(_, holes, _)| *holes < 2), "{listed:?}");
}

#[test]
fn data_in_return_acknowledges_unless_something_is_missing() {
    let mut h = Host::steady(Params::default());
    h.arrive(1, 0..2_896, at(1));
    h.said_by_data(at(1));
    assert_eq!((h.receiver.deadline(), h.poll(at(100))), (None, None));
    // Data cannot say what is missing.
    h.arrive(3, 5_000..7_896, at(100));
    h.said_by_data(at(100));
    let tack = h.poll_tack(at(110));
    assert_eq!((tack.received_in_flight, tack.lost), (2_896, vec![2..3]));
    assert_eq!(h.receiver.deadline(), None, "nothing is left to say");
}

#[test]
fn a_loss_is_told_by_a_tack_or_with_the_policies_of_the_paper_by_an_iack_beside_it() {
    for (rbb, by_tack) in [(RbbPolicy::OnDemand, true), (RbbPolicy::Rich, false)] {
        let mut h = Host::steady(Params { rbb, ..Params::default() });
        h.arrive(1, 0..1_448, at(1));
        h.arrive(3, 2_896..4_344, at(2));
        h.arrive(5, 5_792..7_240, at(2));
        h.rcv_nxt = 1_448;
        // The TACK that is due then waits for what settles right away, and no other follows.
        let mut said = Vec::new();
        for us in (2_000..40_000).step_by(100) {
            said.extend(h.poll(Instant::from_micros(us)));
        }
        let tacks = said.iter().filter_map(|said| match said {
            Feedback::Tack(tack) => Some(tack.lost.clone()),
            Feedback::Iack(_) => None,
        });
        let tacks: Vec<_> = tacks.collect();
        match by_tack {
            true => assert_eq!(tacks.concat(), [2..3, 4..5], "{said:?}"),
            false => assert!(tacks.iter().all(Vec::is_empty), "{said:?}"),
        }
        assert_eq!(said.len() - tacks.len(), usize::from(!by_tack), "{said:?}");
    }
}

#[test]
fn tacks_that_losses_bring_close_together_do_not_each_list_every_hole() {
    // As above, with every fourth packet lost from 100 ms on.
    let mut h = Host::steady(Params::default());
    let (mut tacks, mut lists) = (0, Vec::new());
    for p in 0..300 {
        let now = at(p);
        if ![3, 6].contains(&p) && (p < 100 || p % 4 != 0) {
            h.arrive(p + 1, p * 1_448..(p + 1) * 1_448, now);
        }
        while let Some(feedback) = h.poll(now) {
            let Feedback::Tack(tack) = feedback else { panic!("{feedback:?}") };
            tacks += usize::from(p >= 100);
            lists.extend((tack.holes.len() > 1).then_some(p));
        }
    }
    assert!(tacks >= 40, "{tacks}");
    assert!(lists.windows(2).all(|two| two[1] - two[0] >= 9), "{lists:?}");
    assert!(lists.len() >= 15, "{lists:?}");
}

#[test]
fn without_loss_iacks_holes_are_listed_after_settling() {
    let params = Params { loss_iacks: false, rbb: RbbPolicy::Poor(1), ..Params::default() };
    let mut h = Host::steady(params);
    for (t, p) in [1, 3, 4, 5].into_iter().enumerate() {
        h.arrive(p, p * 1_448..(p + 1) * 1_448, at(t as u64));
    }
    h.rcv_nxt = 1_448;
    assert_eq!(h.poll_tack(at(3)).holes, []);
    h.arrive(6, 6 * 1_448..7 * 1_448, at(20));
    h.arrive(7, 7 * 1_448..8 * 1_448, at(20));
    assert_eq!(h.poll_tack(at(20)).holes.len(), 1);
}

#[test]
fn the_report_shows_what_is_in_force() {
    let mut h = Host::new(Params::default());
    h.arrive(1, 0..10, at(0));
    let tack = h.poll_tack(at(10));
    assert_eq!((tack.regime, tack.interval), (Regime::Startup, Duration::ZERO));
    h.receiver.on_handshake(ms(32));
    h.arrive_as(2, 0..10, at(10), |a| a.immediate = true);
    let tack = h.poll_tack(at(10));
    assert_eq!((tack.regime, tack.interval), (Regime::Startup, ms(2)));
    h.frequency(Regime::Steady, ms(7));
    h.arrive_as(3, 0..10, at(11), |a| a.immediate = true);
    let tack = h.poll_tack(at(11));
    assert_eq!((tack.regime, tack.interval), (Regime::Steady, ms(7)));
    assert_eq!((tack.duplicates, tack.counter), (2, 3));
}

/// A packet per millisecond to a host that comes `late` ms after whatever wakes it: how many TACKs leave within 10 s,
/// and how long a packet waits for one at most.
fn late_host(late: u64) -> (u32, Duration) {
    const MSS: u64 = 1_460;
    let mut host = Host::steady(Params::default());
    let (mut tacks, mut longest, mut oldest) = (0, Duration::ZERO, None);
    let (mut now, mut arrived) = (at(0), 0);
    while now < at(10_000) {
        while at(arrived + 1) <= now {
            host.arrive(arrived + 1, arrived * MSS..(arrived + 1) * MSS, now);
            arrived += 1;
            oldest.get_or_insert(at(arrived));
        }
        if let Some(Feedback::Tack(_)) = host.poll_exactly(now) {
            tacks += 1;
            longest = longest.max(oldest.take().map_or(Duration::ZERO, |oldest| now - oldest));
        }
        let woken = earliest(host.receiver.deadline(), Some(at(arrived + 1)));
        now = woken.map_or(now, |woken| woken.max(now)) + ms(late);
    }
    (tacks, longest)
}

#[test]
fn a_host_that_comes_late_is_late_once_per_tack_and_not_more_often() {
    let alpha = ms(10);
    let (punctual, longest) = late_host(0);
    assert!(punctual.abs_diff(1_000) <= 5 && longest <= alpha + ms(1), "{punctual}, {longest:?}");
    for late in 1..10 {
        let (tacks, longest) = late_host(late);
        assert!((900..=punctual).contains(&tacks), "{late} ms late: {tacks} TACKs");
        assert!(longest <= alpha + ms(late), "{late} ms late: a packet waited {longest:?}");
    }
}

/// Where holes stay, `L` segments are 2 896 bytes and RTTmin is 40 ms.
fn of_packets() -> Host {
    Host::steady(Params { rbb: RbbPolicy::Every, ..Params::default() })
}

/// The bytes of packet `n`, of which each has a segment.
fn segment(n: u64) -> Range<u64> {
    n * 1_448..(n + 1) * 1_448
}

#[test]
fn where_holes_stay_a_tack_tells_a_loss_and_the_packets_before_it_wait_for_no_other() {
    let mut h = of_packets();
    for (n, now) in [(1, 0), (3, 1)] {
        h.arrive(n, segment(n), at(now));
    }
    let first = h.poll_tack(at(1));
    assert_eq!(first.settled_below, segment(1).end, "the gap may be reordering yet");
    h.arrive(4, segment(4), at(5));
    let told = h.poll_tack(at(11));
    assert_eq!((told.holes, told.settled_below), (vec![0..1_448, segment(2)], segment(4).end));
    h.arrive(5, segment(5), at(12));
    assert_eq!(h.poll(at(20)), None, "4 was told");
    h.arrive(6, segment(6), at(20));
    h.poll_tack(at(22));
}

#[test]
fn where_holes_stay_and_nothing_comes_late_a_tack_that_is_due_waits_for_the_loss_before_it() {
    let mut h = of_packets();
    let mut tacks = Vec::new();
    for round in 0..20 {
        // The first of each three is lost, and the others come together.
        let now = at(1 + 20 * round);
        for n in [3 * round + 2, 3 * round + 3] {
            h.arrive(n, segment(n), now);
        }
        tacks.push(0);
        while let Some(due) = h.receiver.deadline().filter(|due| *due < now + ms(20)) {
            assert!(matches!(h.poll_exactly(due), Some(Feedback::Tack(_))));
            tacks[round as usize] += 1;
        }
    }
    assert_eq!((tacks[0], tacks[19]), (2, 1), "{tacks:?}");
}
