//! Eq. 4 in time.

use super::*;
use core::time::Duration;

#[path = "schedule_model.rs"]
mod model;

const MSS: u32 = 1_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn xorshift(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |n| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    }
}

const FLUSH: Duration = Duration::from_millis(40);

fn params(startup: StartupAcks, segments_per_ack: u32) -> Params {
    Params { startup, segments_per_ack, mss: MSS, flush: FLUSH, ..Params::default() }
}

fn frequency(regime: Regime, interval: Duration, segments_per_ack: u32) -> Frequency {
    let rtt_min = interval.saturating_mul(4);
    Frequency { regime, interval, rtt_min, segments_per_ack, rho_prime: 0.0, bdp: 0 }
}

fn steady(alpha: Duration, l: u32) -> Schedule {
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), l));
    s.on_frequency(&frequency(Regime::Steady, alpha, l));
    s
}

#[test]
fn before_anything_is_known_l_segments_or_ten_milliseconds_count() {
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
    assert_eq!(s.by_rules(), None);
    s.on_arrival(1_000, Urgency::None, at(1));
    assert_eq!(s.by_rules(), Some(at(11)));
    s.on_arrival(1_000, Urgency::None, at(2));
    assert_eq!(s.by_rules(), Some(at(2)));
    s.on_tack(Duration::ZERO, at(2));
    assert_eq!(s.by_rules(), None);
}

#[test]
fn startup_costs_sixteen_tacks_per_rtt_of_the_handshake() {
    // 100 segments per RTTmin of 160 ms, for ten of them: per packet that would be 1 000.
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
    s.on_handshake(ms(10), ms(160));
    let mut tacks = 0;
    for i in 0..1_000 {
        let now = Instant::from_micros(i * 1_600);
        s.on_arrival(1_000, Urgency::None, now);
        if s.by_rules().is_some_and(|due| due <= now) {
            s.on_tack(Duration::ZERO, now);
            tacks += 1;
        }
    }
    assert_eq!(tacks, 160);
}

#[test]
fn a_handshake_does_not_overrule_what_the_sender_told() {
    let mut s = steady(ms(20), 2);
    s.on_handshake(ms(1), ms(16));
    assert_eq!((s.alpha(), s.rtt_min()), (ms(20), ms(80)));
}

#[test]
fn a_window_of_an_odd_number_of_segments_waits_ten_milliseconds_in_startup() {
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
    s.on_handshake(ms(1), ms(16));
    s.on_arrival(1_000, Urgency::None, at(5));
    assert_eq!(s.by_rules(), Some(at(15)));
    s.on_frequency(&frequency(Regime::Steady, ms(4), 2));
    assert_eq!(s.by_rules(), Some(at(5) + FLUSH));
    s.on_frequency(&frequency(Regime::Startup, ms(1), 2));
    s.on_tack(Duration::ZERO, at(15));
    s.on_arrival(1_000, Urgency::None, at(16));
    assert_eq!(s.by_rules(), Some(at(16) + FLUSH), "11 ms after the one before: a sparse flow");
}

#[test]
fn per_packet_acknowledges_every_instant_that_packets_arrived_whatever_else_happens() {
    // The rule that Startup had before it was given a frequency of its own [TON §VI-D].
    for seed in 1..=200u64 {
        let mut next = xorshift(seed);
        let mut s = Schedule::new(&params(StartupAcks::PerPacket, 1 + next(4) as u32));
        let (mut now, mut oldest, mut demanded) = (at(1), None, None);
        for _ in 0..400 {
            now += Duration::from_micros(next(20_000));
            match next(8) {
                0 => s.on_handshake(Duration::ZERO, Duration::from_micros(next(200_000))),
                1 => s.on_frequency(&frequency(Regime::Startup, ms(0), 1 + next(4) as u32)),
                2 => s.on_data_left(true, now),
                3 => {
                    s.demand(now);
                    demanded.get_or_insert(now);
                }
                _ => {
                    let at_once = next(9) == 0;
                    let urgency = if at_once { Urgency::AtOnce } else { Urgency::None };
                    s.on_arrival(next(3_000), urgency, now);
                    oldest.get_or_insert(now);
                    demanded = demanded.or(at_once.then_some(now));
                }
            }
            assert_eq!(s.by_rules(), oldest.or(demanded), "seed {seed}");
            if next(2) == 0 && s.by_rules().is_some() {
                s.on_tack(Duration::ZERO, now);
                (oldest, demanded) = (None, None);
            }
        }
    }
}

#[test]
fn counting_waits_for_l_full_sized_segments() {
    let mut s = steady(ms(1), 2);
    s.on_arrival(951, Urgency::None, at(10));
    s.on_arrival(1_000, Urgency::None, at(20));
    assert_eq!(s.by_rules(), Some(at(10) + FLUSH), "one byte short: only the flush timer");
    s.on_arrival(1, Urgency::None, at(21));
    assert_eq!(s.by_rules(), Some(at(21)), "two segments less 24 bytes of options each");
}

#[test]
fn a_burst_beyond_l_segments_is_acknowledged_once_and_counting_begins_anew() {
    // Bursts of three: with L = 2 one TACK each, with L = 4 one for every second, as TCPs do.
    // Had bytes carried over, L = 4 would cost 225 TACKs for 900 segments.
    for (l, expected) in [(2, 300), (4, 150)] {
        let mut s = steady(ms(1), l);
        let mut tacks = 0;
        for t in (0..3_000).step_by(10) {
            s.on_arrival(3_000, Urgency::None, at(t));
            while s.by_rules().is_some_and(|d| d <= at(t)) {
                s.on_tack(Duration::ZERO, at(t));
                tacks += 1;
            }
        }
        assert_eq!(tacks, expected, "L = {l}");
    }
}

#[test]
fn the_period_counts_from_the_due_time_however_late_the_poll() {
    let mut s = steady(ms(10), 2);
    let mut tacks = 0;
    for t in 0..10_000 {
        s.on_arrival(2_000, Urgency::None, at(t));
        // A driver that wakes up every 7 ms.
        if t % 7 == 0 && s.by_rules().is_some_and(|d| d <= at(t)) {
            s.on_tack(Duration::ZERO, at(t));
            tacks += 1;
        }
    }
    assert!((998..=1_001).contains(&tacks), "{tacks}");
}

#[test]
fn a_lone_packet_is_flushed_and_never_waits_half_a_second() {
    for alpha in [0, 1, 25, 100, 400, 10_000] {
        let mut s = steady(ms(alpha), 2);
        s.on_arrival(1, Urgency::None, at(1_000));
        let wait = s.by_rules().unwrap() - at(1_000);
        assert!(wait <= ms(alpha).max(FLUSH) && wait < ms(500), "alpha {alpha} ms: {wait:?}");
    }
    let endless = Params { flush: Duration::MAX, ..params(StartupAcks::PerRtt(16), 2) };
    let mut s = Schedule::new(&endless);
    s.on_frequency(&frequency(Regime::Steady, Duration::MAX, u32::MAX));
    s.on_arrival(u64::MAX, Urgency::None, at(1_000));
    s.on_arrival(u64::MAX, Urgency::None, at(1_000));
    assert!(s.by_rules().unwrap() - at(1_000) < ms(500));
}

#[test]
fn what_must_be_told_at_once_is() {
    let mut s = steady(ms(100), 2);
    s.on_arrival(1, Urgency::AtOnce, at(5));
    assert_eq!(s.by_rules(), Some(at(5)));
    s.on_tack(Duration::ZERO, at(5));
    s.demand(at(9));
    assert_eq!(s.by_rules(), Some(at(9)), "even if nothing arrived");
    s.on_tack(Duration::ZERO, at(9));
    assert_eq!(s.by_rules(), None);
}

#[test]
fn a_regime_change_applies_to_what_waits_already() {
    let mut s = steady(ms(100), 4);
    s.on_tack(Duration::ZERO, at(0));
    s.on_arrival(2_000, Urgency::None, at(1));
    assert_eq!(s.by_rules(), Some(at(101)));
    s.on_frequency(&frequency(Regime::Steady, ms(10), 2));
    assert_eq!(s.by_rules(), Some(at(10)));
    s.on_frequency(&frequency(Regime::Startup, ms(3), 2));
    assert_eq!(s.by_rules(), Some(at(3)));
    s.on_frequency(&frequency(Regime::Startup, ms(0), 2));
    assert_eq!(s.by_rules(), Some(at(1)), "per packet");
}

#[test]
fn data_in_return_leaves_one_tack_per_rtt_to_a_bulk_flow_and_none_to_a_dialogue() {
    // alpha 10 ms, RTTmin 40 ms. Bulk: four segments per millisecond, each acknowledged by data.
    for (segments, expected) in [(4, 25), (0, 0)] {
        let mut s = steady(ms(10), 2);
        let mut tacks = 0;
        for t in 1..=1_000 {
            s.on_arrival(segments * 1_000 + 10, Urgency::None, at(t));
            if s.by_rules().is_some_and(|due| due <= at(t)) {
                s.on_tack(Duration::ZERO, at(t));
                tacks += 1;
            }
            s.on_data_left(true, at(t));
        }
        assert!(tacks <= expected && tacks + 1 >= expected, "{segments}: {tacks}");
    }
}

#[test]
fn a_dialogue_that_once_waited_in_vain_for_data_in_return_trusts_it_again() {
    // Responses of two full segments, each answered 4 ms later by the next request; once it takes 300 ms.
    let mut s = steady(ms(70), 2);
    let mut tacks = vec![];
    for (exchange, slow) in (0..60).map(|exchange| (exchange, exchange == 5)) {
        let begun = exchange * 1_000;
        s.on_arrival(1_000, Urgency::None, at(begun));
        s.on_arrival(1_000, Urgency::None, at(begun));
        let answered = if slow { 300 } else { 4 };
        for t in begun..begun + answered {
            if s.by_rules().is_some_and(|due| due <= at(t)) {
                s.on_tack(Duration::ZERO, at(t));
                tacks.push(exchange);
            }
        }
        s.on_arrival(10, Urgency::None, at(begun + answered));
        s.on_data_left(true, at(begun + answered));
    }
    assert!(tacks.len() <= 2 + DISTRUST as usize, "{tacks:?}");
    assert!(tacks.iter().all(|exchange| *exchange < 25), "{tacks:?}");
}

#[test]
fn a_dialogue_whose_tacks_come_before_its_data_soon_waits_for_it() {
    // RTTmin 30 ms: what would be acknowledged at once is answered 5 ms later.
    let alpha = Duration::from_micros(7_500);
    let frequency = Frequency { rtt_min: ms(30), ..frequency(Regime::Steady, alpha, 2) };
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
    s.on_frequency(&frequency);
    let mut tacks = 0;
    for begun in (0..100).map(|exchange| exchange * 37) {
        for t in begun..begun + 5 {
            if t == begun {
                s.on_arrival(1_000, Urgency::None, at(t));
                s.on_arrival(1_000, Urgency::None, at(t));
            }
            if s.by_rules().is_some_and(|due| due <= at(t)) {
                s.on_tack(Duration::ZERO, at(t));
                tacks += 1;
            }
        }
        s.on_data_left(true, at(begun + 5));
    }
    assert!(tacks <= 8, "{tacks}");
}

#[test]
fn bulk_data_beside_little_in_return_is_acknowledged_as_if_there_were_none() {
    // As QUIC's MAX_DATA: a packet after every other TACK, which has said all that it could say.
    let frequency = Frequency { rtt_min: ms(80), ..frequency(Regime::Steady, ms(20), 2) };
    let mut s = Schedule::new(&params(StartupAcks::PerRtt(16), 2));
    s.on_frequency(&frequency);
    let mut tacks = 0;
    for t in 0..2_000 {
        (0..8).for_each(|_| s.on_arrival(1_000, Urgency::None, at(t)));
        if s.by_rules().is_some_and(|due| due <= at(t)) {
            s.on_tack(Duration::ZERO, at(t));
            tacks += 1;
            if tacks % 2 == 0 {
                s.on_data_left(true, at(t));
            }
        }
    }
    assert!((97..=101).contains(&tacks), "{tacks}");
}

#[test]
fn what_comes_after_data_in_return_has_its_own_flush_timer() {
    let mut s = steady(ms(10), 2);
    s.on_arrival(5_000, Urgency::None, at(1));
    s.on_data_left(true, at(1));
    assert_eq!(s.by_rules(), None);
    s.on_arrival(10, Urgency::None, at(7));
    assert_eq!(s.by_rules(), Some(at(7) + FLUSH));
    s.on_arrival(10, Urgency::AtOnce, at(9));
    s.on_data_left(true, at(9));
    assert_eq!(s.by_rules(), Some(at(9)), "what must be told at once stays so");
}

#[test]
fn a_burst_that_finds_a_tack_overdue_is_acknowledged_whole() {
    let mut s = steady(ms(10), 2);
    for t in [0, 30, 60] {
        for _ in 0..60 {
            s.on_arrival(1_000, Urgency::None, at(t));
            // A host that polls after each packet.
            assert!(s.due().is_none_or(|due| due > at(t)));
        }
        let due = s.due().unwrap();
        assert!(due < at(t) + Duration::from_micros(1), "{due} {t}");
        s.on_tack(Duration::ZERO, due);
        assert_eq!(s.due(), None);
    }
}

#[test]
fn a_window_sent_in_vain_is_answered_at_once_and_then_once_in_alpha() {
    let mut s = steady(ms(10), 2);
    let mut answers = Vec::new();
    // A thousand packets in 50 ms.
    for us in (0..50_000).step_by(50) {
        let now = at(100) + Duration::from_micros(us);
        s.on_arrival(1_000, Urgency::Needless, now);
        if s.due().is_some_and(|due| due <= now) {
            s.on_tack(Duration::ZERO, now);
            answers.push(us / 1_000);
        }
    }
    assert_eq!(answers, [0, 10, 20, 30, 40]);
    let last = at(150) - Duration::from_micros(20);
    s.on_arrival(1_000, Urgency::AtOnce, last);
    assert_eq!(s.due(), Some(last), "another reason does not wait");
}
