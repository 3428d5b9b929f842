//! The sender as a whole: what feedback changes, and what it must not.

use super::*;
use crate::feedback::{Regime, Timing};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

const MSS: u64 = 1_500;

/// RTT 40 ms known, `segments` sent at 0 ms as PKT.SEQ 1, 2, 3 ...
fn sender(segments: u64) -> Sender {
    let mut s = Sender::new(Params::default(), 1, 0, at(0));
    s.on_cum_ack(0, Some(ms(40)), at(0));
    for i in 0..segments {
        assert_eq!(s.on_sent(i * MSS..(i + 1) * MSS, at(0)), i + 1);
    }
    s
}

fn tack(counter: u32, cum_ack: u64, largest_pkt_seq: u64) -> Tack {
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
        interval: ms(10),
        regime: Regime::Steady,
        duplicates: 0,
    }
}

fn loss(cum_ack: u64, second_largest: u64, largest: u64) -> Iack {
    let gap = second_largest + 1..largest;
    let reason = IackReason::Loss { gaps: vec![gap] };
    Iack { cum_ack, window: 1 << 20, reason }
}

#[test]
fn five_packets_of_the_worked_example() {
    // [TON §V-A]: [1500..2999] is lost as PKT.SEQ 2, then as PKT.SEQ 4.
    let mut s = sender(3);
    let acked = s.on_iack(&loss(1_500, 1, 3), at(50));
    assert_eq!((acked.lost_bytes, acked.recovery_started), (1_500, true));
    assert_eq!(s.next_lost(at(50)), Some(1_500..3_000));
    assert_eq!(s.on_sent(1_500..3_000, at(50)), 4);
    assert_eq!(s.next_lost(at(50)), None);
    assert_eq!(s.on_sent(4_500..6_000, at(51)), 5);
    let acked = s.on_iack(&loss(1_500, 3, 5), at(101));
    assert_eq!((acked.lost_bytes, acked.recovery_started), (1_500, false), "same episode");
    assert_eq!(s.on_sent(1_500..3_000, at(101)), 6);
    let acked = s.on_tack(&tack(1, 6_000, 6), 0, at(141));
    assert_eq!((acked.delivered, acked.in_flight, acked.needless), (6_000, 0, 0));
    assert!(!s.in_recovery());
    assert_eq!(s.deadline(), None);
}

#[test]
fn however_often_it_is_told_a_segment_is_sent_again_once_per_rtt() {
    let mut s = sender(10);
    s.on_iack(&loss(1_500, 1, 3), at(45));
    assert_eq!(s.on_sent(1_500..3_000, at(45)), 11);
    #[allow(clippy::single_range_in_vec_init)]
    for t in 46..85 {
        s.on_iack(&loss(1_500, 1, 3), at(t));
        let holes = vec![1_500..3_000];
        let told = Tack {
            rcv_high: 15_000,
            received_in_flight: 12_000,
            holes,
            ..tack(t as u32, 1_500, 10)
        };
        s.on_tack(&told, 0, at(t));
        assert_eq!(s.next_lost(at(t)), None, "told again at {t} ms");
    }
}

#[test]
fn receipts_behind_a_hole_leave_the_flight() {
    // Received-in-flight data [TON §VI-D]: exact when the list is complete, and by count otherwise.
    let holes = vec![1_500..3_000, 6_000..7_500];
    let listed = Tack {
        rcv_high: 12_000,
        received_in_flight: 7_500,
        holes: holes.clone(),
        ..tack(1, 1_500, 8)
    };
    let mut s = sender(10);
    let acked = s.on_tack(&listed, 0, at(40));
    assert_eq!((acked.acked_bytes, acked.lost_bytes), (9_000, 3_000));
    assert_eq!((acked.prior_in_flight, acked.in_flight), (15_000, 3_000));
    let first_only = Tack { holes: holes[..1].to_vec(), holes_complete: false, ..listed };
    let mut s = sender(10);
    let acked = s.on_tack(&first_only, 0, at(40));
    assert_eq!((acked.acked_bytes, acked.lost_bytes), (9_000, 1_500));
    assert_eq!(acked.in_flight, 15_000 - 1_500 - 7_500 - 1_500);
}

#[test]
fn the_tacks_rtt_is_free_of_its_delay() {
    let mut s = sender(4);
    let timing = Some(Timing { departure_us: u32::MAX - 999, delay: ms(9), ..Timing::default() });
    let acked = s.on_tack(&Tack { timing, ..tack(1, MSS, 1) }, 39_000, at(40));
    assert_eq!(acked.rtt, Some(ms(31)));
    assert_eq!(s.rtt_min(), Some(ms(31)));
    assert_eq!((s.srtt(), s.rttvar()), (Some(ms(40) / 2 + ms(31) / 2), Some(ms(15) + ms(9) / 4)));
}

#[test]
fn stale_tacks_never_move_state_back() {
    let mut s = sender(10);
    s.on_tack(&tack(5, 6_000, 4), 0, at(40));
    let before = format!("{s:?}");
    let holes = vec![6_000..7_500, 9_000..10_500];
    let old = Tack { holes, rcv_high: 12_000, received_in_flight: 3_000, ..tack(4, 3_000, 8) };
    let acked = s.on_tack(&old, 0, at(41));
    assert_eq!((acked.acked_bytes, acked.lost_bytes, acked.rate), (0, 0, None));
    let duplicate = s.on_tack(&tack(5, 6_000, 4), 0, at(42));
    assert_eq!(duplicate.acked_bytes, 0);
    let (mut now, mut then) = (format!("{s:?}"), before);
    for text in [&mut now, &mut then] {
        // Only the count of TACKs received may differ.
        let i = text.find("ack_loss").unwrap();
        let j = text.find("recovery").unwrap();
        text.replace_range(i..j, "");
    }
    assert_eq!(now, then);
    let late_news = s.on_tack(&tack(3, 7_500, 5), 0, at(43));
    assert_eq!(late_news.acked_bytes, 1_500, "a cumulative acknowledgment is never stale");
}

#[test]
fn prior_delivered_names_what_was_delivered_when_the_newest_packet_left() {
    let mut s = sender(2);
    assert_eq!(s.on_tack(&tack(1, 3_000, 2), 0, at(40)).prior_delivered, 0);
    s.on_sent(3_000..4_500, at(40));
    s.on_sent(4_500..6_000, at(41));
    let acked = s.on_tack(&tack(2, 4_500, 3), 0, at(80));
    assert_eq!((acked.prior_delivered, acked.delivered), (3_000, 4_500));
}

#[test]
fn a_probe_comes_first_and_then_everything_is_lost() {
    let mut s = sender(3);
    let probe_at = s.deadline().unwrap();
    assert_eq!(s.on_timeout(probe_at - ms(1)), None);
    assert_eq!(s.on_timeout(probe_at), Some(Timeout::Probe));
    assert_eq!((s.next_lost(probe_at), s.in_flight()), (None, 4_500));
    let rto_at = s.deadline().unwrap();
    assert_eq!(s.on_timeout(rto_at), Some(Timeout::Rto));
    assert_eq!((s.lost_bytes(), s.in_flight()), (4_500, 0));
    assert!(s.in_recovery());
    assert_eq!(s.next_lost(rto_at), Some(0..1_500));
    let all: Vec<_> = s.outstanding().into_iter().map(|o| (o.seq.start, o.lost)).collect();
    assert_eq!(all, [(0, true), (1_500, true), (3_000, true)]);
}

/// `segments` are outstanding, and the last has left again as a probe.
fn probed(segments: u64) -> (Sender, Instant) {
    let mut s = sender(segments);
    let now = s.deadline().unwrap();
    assert_eq!(s.on_timeout(now), Some(Timeout::Probe));
    assert_eq!(s.on_sent((segments - 1) * MSS..segments * MSS, now), segments + 1);
    (s, now)
}

#[test]
fn a_probe_that_brought_the_news_of_a_loss_has_not_repaired_one_that_nobody_tells() {
    let (mut s, probed_at) = probed(9);
    let now = probed_at + ms(40);
    let acked = s.on_iack(&loss(3 * MSS, 3, 10), now);
    assert_eq!((acked.lost_bytes, acked.recovery_started), (5 * MSS, true));
    while let Some(lost) = s.next_lost(now) {
        s.on_sent(lost.start..lost.start + MSS, now);
    }
    let acked = s.on_tack(&tack(1, 9 * MSS, 15), 0, now + ms(40));
    assert_eq!((acked.lost_bytes, acked.recovery_started), (0, false));
    assert!(!s.in_recovery());
}

#[test]
fn news_of_what_arrived_before_a_timeout_undoes_it_and_the_rest_is_lost_as_anything_else_is() {
    let (mut s, _) = probed(9);
    let rto_at = s.deadline().unwrap();
    assert_eq!(s.on_timeout(rto_at), Some(Timeout::Rto));
    assert_eq!(s.on_sent(0..MSS, rto_at), 11);
    // Four had arrived, and nobody heard of it.
    let now = rto_at + ms(40);
    let acked =
        s.on_iack(&Iack { cum_ack: 4 * MSS, window: 1 << 20, reason: IackReason::Window }, now);
    assert!(acked.spurious && !s.in_recovery());
    assert_eq!((s.in_flight(), s.lost_bytes()), (5 * MSS, 0));
    let acked = s.on_iack(&loss(4 * MSS, 4, 11), now);
    assert_eq!((acked.lost_bytes, acked.recovery_started), (5 * MSS, true));
}

#[test]
fn holes_that_no_tack_lists_do_not_fill_the_window_after_an_undone_timeout() {
    let (mut s, _) = probed(9);
    let rto_at = s.deadline().unwrap();
    assert_eq!(s.on_timeout(rto_at), Some(Timeout::Rto));
    assert_eq!(s.on_sent(0..MSS, rto_at), 11);
    // The third had arrived; of the holes beyond, the list has one.
    let partly = Tack { rcv_high: 9 * MSS, holes_complete: false, ..tack(1, MSS, 11) };
    let holes = vec![MSS..2 * MSS, 3 * MSS..4 * MSS];
    let acked = s.on_tack(&Tack { holes, ..partly }, 0, rto_at + ms(40));
    assert!(acked.spurious && acked.recovery_started);
    assert_eq!((acked.lost_bytes, s.in_flight()), (7 * MSS, 0));
}

#[test]
fn what_the_receiver_waited_for_in_vain_is_probed_for_at_once() {
    // The last left at 10 ms; the TACK at 80 ms covers the first, which arrived 40 ms before it left.
    let told = |cum_ack, queued| {
        let timing = Some(Timing { departure_us: 0, delay: ms(40), queued: ms(queued) });
        Tack { timing, ..tack(1, cum_ack, cum_ack / MSS) }
    };
    let after = |tack: &Tack| {
        let mut s = sender(2);
        s.on_sent(2 * MSS..3 * MSS, at(10));
        s.on_tack(tack, 80_000, at(80));
        s
    };
    let mut missed = after(&told(MSS, 0));
    assert_eq!(missed.deadline(), Some(at(80)));
    assert_eq!(missed.on_timeout(at(80)), Some(Timeout::Probe));
    assert!(missed.deadline() > Some(at(200)), "and after it a timeout, in its time");
    // Nor do stamps that are a microsecond off hide it.
    let mut s = sender(2);
    s.on_sent(2 * MSS..3 * MSS, at(10));
    s.on_tack(&told(MSS, 0), 80_001, at(80));
    assert_eq!(s.deadline(), Some(at(80)));
    assert!(after(&told(2 * MSS, 0)).deadline() > Some(at(80)), "it waited for nothing");
    assert!(after(&told(MSS, 35)).deadline() > Some(at(80)), "they are behind others in a queue");
    // What is timed arrived 200 ms before the first, and was acknowledged by data in return.
    let timing = Some(Timing { departure_us: 800_000, delay: ms(240), queued: ms(0) });
    let mut s = sender(2);
    s.on_tack(&Tack { timing, ..tack(1, MSS, 1) }, 1_080_000, at(80));
    assert_eq!(s.deadline(), Some(at(80)));
    // What left later may be on its way.
    let mut s = sender(3);
    s.on_sent(3 * MSS..4 * MSS, at(25));
    s.on_tack(&told(MSS, 0), 80_000, at(80));
    assert!(s.deadline() > Some(at(80)));
}

#[test]
fn the_last_packets_are_lost_with_others_if_they_should_have_come_while_the_receiver_waited() {
    // Four left at 0 ms, and the last ones so many ms later. The third is lost; the fourth arrived 10 ms before the TACK left.
    let lost = |behind: &[u64], holes: bool, rate: Option<Rate>| {
        let mut s = sender(4);
        for (i, ms) in (4..).zip(behind) {
            s.on_sent(i * MSS..(i + 1) * MSS, at(*ms));
        }
        let timing = Some(Timing { departure_us: 0, delay: ms(10), queued: ms(30) });
        let hole = holes.then_some(2 * MSS..3 * MSS).into_iter().collect();
        let cum_ack = if holes { 2 * MSS } else { 4 * MSS };
        let tack = Tack { timing, rcv_high: 4 * MSS, holes: hole, ..tack(1, cum_ack, 4) };
        s.on_tack(&Tack { delivery_rate: rate, ..tack }, 80_000, at(80)).lost_bytes / MSS
    };
    let rate = Rate::from_bytes_over(MSS, ms(2));
    assert_eq!(lost(&[0], true, rate), 2);
    assert_eq!(lost(&[1, 4], true, rate), 3);
    assert_eq!(lost(&[], true, rate), 1, "there are none");
    assert_eq!(lost(&[0], false, rate), 0, "nothing is known to be lost");
    assert_eq!(lost(&[6], true, rate), 1, "it may be on its way");
    assert_eq!(lost(&[0, 0, 0], true, rate), 1, "the path brings two in half of the time");
    assert_eq!(lost(&[0], true, None), 1, "nobody knows what it brings");
    // Nor did anything come until the next TACK, which times nothing.
    let mut s = sender(5);
    let told = Tack { rcv_high: 4 * MSS, delivery_rate: rate, ..tack(1, 2 * MSS, 4) };
    let unsettled = Tack { holes_complete: false, ..told.clone() };
    assert_eq!(s.on_tack(&unsettled, 0, at(70)).lost_bytes, 0);
    let hole = core::iter::once(2 * MSS..3 * MSS).collect();
    let told = Tack { counter: 2, holes: hole, ..told };
    assert_eq!(s.on_tack(&told, 0, at(80)).lost_bytes, 2 * MSS);
    // On another path the wait begins anew.
    let mut s = sender(5);
    s.on_tack(&unsettled, 0, at(70));
    s.on_path_change(at(79));
    assert_eq!(s.on_tack(&told, 0, at(80)).lost_bytes, MSS);
}

/// Twenty packets timed out; two left again, and the peer tells the first of the many holes that it has.
fn after_a_fade() -> (Sender, Instant) {
    let mut s = sender(20);
    for _ in 0..2 {
        let t = s.deadline().unwrap();
        s.on_timeout(t);
    }
    let expired = s.deadline().unwrap();
    s.on_timeout(expired);
    for _ in 0..2 {
        let again = s.next_lost(expired).unwrap();
        s.on_sent(again, expired);
    }
    let partly = Tack { rcv_high: 19 * MSS, holes_complete: false, ..tack(1, 2 * MSS, 22) };
    let hole = core::iter::once(2 * MSS..3 * MSS);
    let partly = Tack { holes: hole.collect(), ..partly };
    s.on_tack(&Tack { received_in_flight: 9 * MSS, ..partly }, 0, expired + ms(40));
    assert_eq!((s.lost_bytes(), s.in_flight()), (18 * MSS, 0));
    (s, expired)
}

#[test]
fn what_a_timeout_took_for_lost_though_it_arrived_does_not_hide_what_is_in_flight() {
    let (mut s, expired) = after_a_fade();
    for n in 1..=2 {
        let again = s.next_lost(expired).unwrap();
        s.on_sent(again, expired + ms(41));
        assert_eq!(s.in_flight(), n * MSS);
    }
}

#[test]
fn an_episode_is_over_when_nothing_was_lost_for_several_round_trips_though_much_waits() {
    let (mut s, expired) = after_a_fade();
    for n in 2..=10 {
        let now = expired + ms(40) * n;
        let again = s.next_lost(now).unwrap();
        s.on_sent(again, now - ms(40));
        let cum_ack = (1 + u64::from(n)) * MSS;
        s.on_tack(&tack(n, cum_ack, 21 + u64::from(n)), 0, now);
        assert_eq!(s.in_recovery(), n <= 7, "{n} round trips of 40 ms, TACKs each 10 ms");
    }
    assert!(s.lost_bytes() > 0);
}

#[test]
fn a_needless_timeout_is_undone() {
    let mut s = sender(4);
    for _ in 0..2 {
        let t = s.deadline().unwrap();
        s.on_timeout(t);
    }
    let t = at(1_000);
    s.on_sent(0..1_500, t);
    assert_eq!(s.lost_bytes(), 4_500);
    // The TACK for packets 1 to 3 was only late.
    let acked = s.on_tack(&tack(1, 4_500, 3), 0, at(1_001));
    assert!(acked.spurious);
    assert_eq!(acked.needless, 1);
    assert_eq!((s.lost_bytes(), s.in_flight(), s.in_recovery()), (0, 1_500, false));
    assert_eq!(s.rto(), ms(200), "no backoff left");
}

#[test]
fn a_needless_episode_is_recognised_and_the_peers_duplicates_are_not_counted_twice() {
    let mut s = sender(5);
    s.on_iack(&loss(1_500, 1, 3), at(50));
    s.on_sent(1_500..3_000, at(50));
    // Packet 2 was reordered, not lost: everything up to 5 is here, 6 cannot be yet.
    let acked = s.on_tack(&tack(1, 7_500, 5), 0, at(60));
    assert_eq!((acked.needless, acked.spurious), (1, true));
    s.on_sent(7_500..9_000, at(61));
    let acked = s.on_tack(&Tack { duplicates: 1, ..tack(2, 9_000, 7) }, 0, at(101));
    assert_eq!(acked.needless, 0);
    let liar = s.on_tack(&Tack { duplicates: 1_000, ..tack(3, 9_000, 7) }, 0, at(102));
    assert_eq!((liar.needless, s.needless()), (0, 1), "there was one retransmission");
}

#[test]
fn rates_are_marked_while_the_application_was_the_limit() {
    let mut s = sender(2);
    s.on_app_limited();
    let rate = Some(Rate::from_mbps(1));
    let with_rate = |n, cum, largest| Tack { delivery_rate: rate, ..tack(n, cum, largest) };
    let acked = s.on_tack(&with_rate(1, 3_000, 2), 0, at(40));
    assert_eq!((acked.rate, acked.rate_interval, acked.app_limited), (rate, ms(20), true));
    for i in 2..10 {
        s.on_sent(i * MSS..(i + 1) * MSS, at(i * 10 + 40));
    }
    let limited: Vec<bool> = (3..=8)
        .map(|i| s.on_tack(&with_rate(i as u32, i * MSS, i), 0, at(i * 10 + 80)).app_limited)
        .collect();
    assert_eq!(limited, [true, true, true, false, false, false]);
}

#[test]
fn a_rate_over_a_timeout_s_silence_or_of_l_packets_is_a_lower_bound() {
    let rate = Some(Rate::from_mbps(1));
    let with_rate = |n, cum, largest| Tack { delivery_rate: rate, ..tack(n, cum, largest) };
    let mut s = sender(6);
    assert!(!s.on_tack(&with_rate(1, 3_000, 2), 0, at(40)).app_limited, "four more are in flight");
    while s.on_timeout(s.deadline().unwrap()) != Some(Timeout::Rto) {}
    let now = s.deadline().unwrap();
    for (i, seq) in (2..6).zip(7..) {
        assert_eq!(s.on_sent(i * MSS..(i + 1) * MSS, now), seq);
    }
    assert!(s.on_tack(&with_rate(2, 4_500, 7), 0, now).app_limited, "the first after the silence");
    for in_flight in 1..4 {
        let mut s = sender(in_flight);
        s.set_mss(MSS as u32);
        let acked = s.on_tack(&with_rate(1, 1_500, 1), 0, at(40));
        assert_eq!(acked.app_limited, in_flight <= 2, "of {in_flight}");
    }
}

#[test]
fn a_host_that_falls_back_gets_everything_unacknowledged() {
    let mut s = sender(4);
    s.on_iack(&loss(1_500, 1, 3), at(50));
    s.on_sent(1_500..3_000, at(50));
    #[allow(clippy::single_range_in_vec_init)]
    let holes = vec![1_500..3_000];
    let listed = Tack { holes, rcv_high: 4_500, received_in_flight: 1_500, ..tack(1, 1_500, 3) };
    s.on_tack(&listed, 0, at(51));
    let parts: Vec<_> =
        s.outstanding().into_iter().map(|o| (o.seq, o.sent_at, o.retransmitted, o.lost)).collect();
    let expected = [(1_500..3_000, at(50), true, false), (4_500..6_000, at(0), false, false)];
    assert_eq!(parts, expected);
}

#[test]
#[allow(clippy::single_range_in_vec_init)]
fn bytes_queued_at_the_peer_are_not_counted_twice_once_they_are_acknowledged() {
    let first_only = Tack {
        rcv_high: 12_000,
        received_in_flight: 7_500,
        holes: vec![1_500..3_000],
        holes_complete: false,
        ..tack(1, 1_500, 8)
    };
    // The repair is acknowledged by an IACK, with three of the five queued segments.
    let mut s = sender(10);
    s.on_tack(&first_only, 0, at(40));
    s.on_sent(1_500..3_000, at(40));
    let window = Iack { cum_ack: 6_000, window: 1 << 20, reason: IackReason::Window };
    assert_eq!(s.on_iack(&window, at(80)).in_flight, 15_000 - 6_000 - 3_000);
    // The same acknowledgment overtakes the TACK.
    let mut s = sender(10);
    s.on_cum_ack(6_000, None, at(39));
    assert_eq!(s.on_tack(&first_only, 0, at(40)).in_flight, 15_000 - 6_000 - 3_000);
}

#[test]
fn silence_while_something_known_to_be_lost_waits_for_room_is_a_timeout() {
    // What fills the window is lost as well, and the peer had no room to tell: a probe's answer
    // would be progress, for ever.
    let mut s = sender(9);
    s.on_iack(&loss(0, 0, 2), at(50));
    assert_eq!((s.in_flight(), s.lost_bytes()), (8 * 1_500, 1_500));
    let deadline = s.deadline().unwrap();
    assert_eq!(s.on_timeout(deadline), Some(Timeout::Rto));
    assert_eq!((s.in_flight(), s.lost_bytes()), (0, 9 * 1_500));
    // Once it was sent again, silence is probed as ever.
    let mut s = sender(9);
    s.on_iack(&loss(0, 0, 2), at(50));
    s.on_sent(s.next_lost(at(50)).unwrap(), at(50));
    let deadline = s.deadline().unwrap();
    assert_eq!(s.on_timeout(deadline), Some(Timeout::Probe));
}
