//! Probes and timeouts in time.

use super::*;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn path(srtt: u64, rttvar: u64) -> Path {
    Path {
        srtt: Some(ms(srtt)),
        rttvar: ms(rttvar),
        usual_rtt: Some(ms(srtt)),
        rtt_min: ms(srtt),
        alpha: ms(srtt / 4),
        segments_per_ack: 2,
        flush: ms(25),
        drain: None,
        lossy: false,
        probed_again: false,
    }
}

#[test]
fn a_timeout_comes_when_others_arrive_for_long_but_never_the_lowest() {
    let mut t = Timer::new(at(0));
    t.on_lowest(1_000, at(0));
    t.on_sent(true, at(0));
    let rto = t.rto_if(false, path(40, 0)).as_millis() as u64;
    let mut now = 0;
    let mut expired = Vec::new();
    for _ in 0..30 {
        now += rto / 2;
        if t.deadline(path(40, 0)) <= at(now) {
            assert_eq!(t.on_timeout(path(40, 0), at(now)), Timeout::Rto);
            expired.push(now / rto);
        }
        t.on_progress(at(now));
        t.on_sent(false, at(now));
    }
    assert!(matches!(expired[..], [8 | 9]), "{expired:?} RTOs");
    t.on_lowest(2_000, at(now));
    assert!(t.stuck(path(40, 0)).is_none());
}

#[test]
fn the_timeout_of_another_path_is_whole_and_knows_nothing_of_the_silences_of_the_old_one() {
    let (old, unknown) = (path(40, 0), Path { srtt: None, usual_rtt: None, ..path(0, 0) });
    let mut t = Timer::new(at(0));
    t.on_sent(true, at(0));
    let mut now = at(0);
    for _ in 0..6 {
        now = t.deadline(old);
        t.on_timeout(old, now);
    }
    t.on_needless(now);
    assert!(t.timeout(unknown) > now + 4 * INITIAL_RTO, "nothing was heard for long");
    let moved = now + ms(700);
    t.on_path_change(moved);
    t.on_sent(false, moved + ms(100));
    assert_eq!(t.timeout(unknown), moved + INITIAL_RTO);
    assert_eq!(t.patience.borne(moved), ms(0));
}

#[test]
fn what_timed_out_twice_while_others_arrived_leaves_alone_until_it_has_arrived() {
    let p = path(40, 0);
    let mut t = Timer::new(at(0));
    let mut now = 0;
    let mut time_out = |t: &mut Timer| {
        t.on_sent(true, at(now));
        while t.on_timeout(p, t.deadline(p)) != Timeout::Rto {}
        now += 10_000;
        t.is_alone()
    };
    t.on_lowest(1_000, at(0));
    assert!(!time_out(&mut t) && !time_out(&mut t), "silence is no sign of it");
    t.on_progress(at(20_000));
    assert!(!time_out(&mut t), "what is short passes where what is long never does");
    t.on_progress(at(30_000));
    t.on_full_sized();
    assert!(time_out(&mut t));
    t.on_lowest(2_000, at(40_000));
    assert!(!t.is_alone());
}

#[test]
fn rto_includes_the_tack_interval_and_its_bounds_hold() {
    let t = Timer::new(at(0));
    assert_eq!(t.rto(path(200, 10)), ms(200 + 40 + 50));
    assert_eq!(t.rto(path(400, 0)), ms(400 + 1 + 100));
    assert_eq!(t.rto(path(4, 0)), MIN_RTO);
    assert_eq!(t.rto(Path { srtt: None, usual_rtt: None, ..path(0, 0) }), INITIAL_RTO);
    assert_eq!(t.rto(path(59_000, 10_000)), MAX_RTO);
}

#[test]
fn a_probe_waits_for_the_flush_timer_only_where_a_lone_packet_is_outstanding() {
    let mut t = Timer::new(at(0));
    t.on_sent(true, at(10));
    let lone = path(20, 1);
    assert_eq!(t.deadline(lone), at(10 + 40 + 25 + 5));
    t.set_full(true, at(10));
    assert_eq!(t.deadline(lone), at(10 + 40 + 5 + 5));
}

#[test]
fn where_data_in_return_tells_what_arrived_a_probe_waits_half_a_round_trip_for_it() {
    let mut t = Timer::new(at(0));
    t.on_sent(true, at(0));
    t.set_full(true, at(0));
    let dialogue = path(400, 0);
    t.on_told_by_data(None);
    assert_eq!(t.rto(dialogue), ms(400 + 1 + 200));
    for n in 0..DIALOGUE {
        assert_eq!(t.held_back(true, dialogue), ms(200));
        t.on_progress(at(2_000 + u64::from(n)));
    }
    assert_eq!(t.held_back(true, dialogue), ms(100), "TACKs alone have told since");
}

/// A dialogue with a round trip of 20 ms, in which each lone packet has its answer after `ms`; until when it went on.
fn dialogue(t: &mut Timer, p: Path, answers_ms: impl IntoIterator<Item = u64>) -> u64 {
    let mut now = 0;
    for answer in answers_ms {
        t.on_sent(true, at(now));
        if t.deadline(p) <= at(now + answer) {
            assert_eq!(t.on_timeout(p, t.deadline(p)), Timeout::Probe);
        }
        now += answer;
        t.on_progress(at(now));
        t.on_told_by_data(Some(ms(answer)));
    }
    now
}

#[test]
fn a_lone_packet_whose_answer_is_late_is_probed_for_before_the_receiver_s_patience_ends() {
    let (mut t, p) = (Timer::new(at(0)), path(20, 1));
    let now = dialogue(&mut t, p, [22; 30]);
    t.on_sent(true, at(now));
    let waited = t.deadline(p) - at(now);
    assert!(waited > ms(22 + 10) && waited < ms(22 + 15), "{waited:?}");
    t.set_full(true, at(now));
    assert_eq!(t.deadline(p), at(now + 40 + 10 + 5), "a TACK comes for that");
    t.set_full(false, at(now));
    t.on_waited_for();
    let patient = t.deadline(p) - at(now);
    assert!(patient >= ms(40 + 25 + 5), "the receiver gave up on the answer before: {patient:?}");
}

#[test]
fn answers_that_become_slower_are_learnt_after_a_few_probes() {
    let (mut t, p) = (Timer::new(at(0)), path(20, 1));
    let slower: Vec<u64> = [22; 30].into_iter().chain([45; 30]).collect();
    let now = dialogue(&mut t, p, slower);
    t.on_sent(true, at(now));
    assert!(t.deadline(p) > at(now + 45), "{:?}", t.deadline(p) - at(now));
}

#[test]
fn a_probe_for_what_is_answered_at_once_does_not_wait_for_a_receiver_to_hold_anything_back() {
    let mut t = Timer::new(at(0));
    t.on_sent(true, at(10));
    t.expect_answer();
    assert_eq!(t.deadline(path(20, 1)), at(10 + 40 + 5));
    t.on_progress(at(45));
    assert_eq!(t.deadline(path(20, 1)), at(45 + 20 + 5));
    t.on_progress(at(15));
    t.on_sent(false, at(20));
    assert_eq!(t.deadline(path(20, 1)), at(20 + 40 + 25 + 5), "something else left since");
}

#[test]
fn the_packet_that_makes_them_full_leaves_an_older_one_its_patience() {
    // 100 ms apart over a round trip of 145 ms: the receiver waits 150 ms for the next, which with
    // the third on its way is nothing that alpha bounds.
    let mut t = Timer::new(at(0));
    for (n, full) in [(0, false), (100, false), (200, true)] {
        t.on_sent(n == 0, at(n));
        t.set_full(full, at(n));
    }
    let p = path(145, 0);
    assert!(t.deadline(p) > at(145 + 150), "the first is acknowledged by then");
    t.on_progress(at(295));
    t.set_full(true, at(295));
    assert_eq!(t.deadline(p), at(295) + MIN_RTO, "alpha is enough from here on");
}

#[test]
fn a_probe_comes_before_any_timeout_and_timeouts_back_off() {
    let mut t = Timer::new(at(0));
    t.on_sent(true, at(10));
    let p = path(20, 1);
    assert_eq!(t.deadline(p), at(10 + 40 + 25 + 5));
    assert_eq!(t.on_timeout(p, at(80)), Timeout::Probe);
    t.on_sent(false, at(80));
    assert_eq!(t.deadline(p), at(280));
    assert_eq!(t.on_timeout(p, at(280)), Timeout::Rto);
    t.on_sent(false, at(280));
    assert_eq!(t.deadline(p), at(280 + 400));
    assert_eq!(t.on_timeout(p, at(680)), Timeout::Rto);
    assert_eq!(t.rto(p), ms(800));
    t.on_progress(at(700));
    assert_eq!(t.deadline(p), at(770));
    for _ in 0..40 {
        t.on_timeout(p, at(1_000));
    }
    assert_eq!(t.rto(p), MAX_RTO);
}

#[test]
fn where_tacks_are_lost_a_second_probe_goes_before_the_timeout_and_does_not_delay_it() {
    let mut t = Timer::new(at(0));
    t.on_sent(true, at(10));
    let p = Path { lossy: true, ..path(20, 1) };
    assert_eq!(t.on_timeout(p, at(80)), Timeout::Probe);
    t.on_sent(false, at(80));
    assert_eq!(t.deadline(p), at(80 + 2 * 70));
    assert_eq!(t.on_timeout(p, at(220)), Timeout::Probe);
    t.on_sent(false, at(220));
    assert_eq!(t.deadline(p), at(280));
    assert_eq!(t.on_timeout(p, at(280)), Timeout::Rto);
}

#[test]
fn where_hosts_know_no_least_timeout_a_second_probe_goes_once_a_tack_was_due() {
    for (full, second) in [(true, Timeout::Probe), (false, Timeout::Rto)] {
        let mut t = Timer::new(at(0));
        let p = Path { probed_again: true, ..path(20, 1) };
        t.on_sent(true, at(10));
        t.set_full(full, at(10));
        for expected in [Timeout::Probe, second] {
            let due = t.deadline(p);
            assert_eq!(t.on_timeout(p, due), expected);
            t.on_sent(false, due);
        }
    }
}

#[test]
fn a_needless_timeout_teaches_patience_for_a_while_and_up_to_a_second() {
    // 70 ms until the probe, and 200 after it, are the least that is borne.
    for (silence, learnt) in [(350, 350), (5_000, 1_000), (150, 270)] {
        let mut t = Timer::new(at(0));
        t.on_sent(true, at(0));
        let p = path(20, 5);
        while t.deadline(p) < at(silence) {
            t.on_timeout(p, t.deadline(p));
        }
        t.on_needless(at(silence));
        t.on_progress(at(silence));
        let silence_to_the_timeout = |t: &mut Timer, from: u64| {
            t.on_progress(at(from));
            t.on_lowest(from, at(from));
            t.on_timeout(p, t.deadline(p));
            t.deadline(p) - at(from)
        };
        let silent = silence_to_the_timeout(&mut t, silence);
        assert_eq!(silent, ms(learnt), "{silence} ms");
        assert_eq!(t.rto(p), MIN_RTO, "{silence} ms");
        let remembered = silence_to_the_timeout(&mut t, silence + 15 * learnt.min(silence));
        assert_eq!(remembered, ms(learnt), "{silence} ms");
        let forgotten = silence_to_the_timeout(&mut t, silence + 16 * learnt);
        assert_eq!(forgotten, ms(270), "{silence} ms");
    }
}

#[test]
fn a_probe_in_vain_between_the_packets_of_a_slow_flow_brings_no_others() {
    let mut t = Timer::new(at(0));
    let p = path(4, 0);
    for n in 0..20 {
        t.on_sent(true, at(n * 65));
    }
    let now = 19 * 65;
    assert_eq!(t.on_timeout(p, at(now + 54)), Timeout::Probe);
    t.on_sent(false, at(now + 54));
    t.on_progress(at(now + 58));
    t.on_sent(true, at(now + 65));
    let held_back = 65 * 3 / 2;
    assert!(t.deadline(p) > at(now + 65 + 4 + held_back), "the receiver waits for the next");
}

#[test]
fn neither_timer_fires_before_a_tack_could_have_arrived() {
    // The last packet of a flight: held for max(alpha, flush), then a round trip.
    for rtt in [1, 5, 20, 80, 200, 500] {
        let mut t = Timer::new(at(0));
        t.on_sent(true, at(0));
        let p = path(rtt, 0);
        let tack = at(0) + ms(rtt) + p.alpha.max(p.flush);
        assert!(t.deadline(p) > tack, "{rtt} ms");
        t.on_timeout(p, at(0));
        assert!(t.deadline(p) > tack, "{rtt} ms");
    }
}

#[test]
fn a_path_that_comes_back_waits_for_half_of_its_absence_at_most() {
    let mut t = Timer::new(Instant::ZERO);
    t.on_sent(true, Instant::ZERO);
    let p = path(20, 5);
    let mut waits = Vec::new();
    while t.backoff < 12 {
        let now = t.deadline(p);
        if t.on_timeout(p, now) == Timeout::Rto {
            waits.push(t.rto(p));
        }
    }
    assert_eq!(waits[..5], [ms(400), ms(800), ms(1_200), ms(1_800), ms(2_700)]);
    for (n, wait) in waits.iter().enumerate().skip(5) {
        let before: Duration = waits[..n].iter().sum();
        assert!(*wait <= before * 3 / 5, "{wait:?} after {before:?}");
    }
}

/// Waits before probes, in ms, of a path that takes 200 ms longer than it seems to: each packet is sent when the last
/// has been acknowledged, and what tells of a probe comes so long after what tells of its original.
fn waits_of_a_path_that_takes_longer(told_later: Duration) -> (Timer, Vec<u128>) {
    let mut t = Timer::new(at(0));
    let p = path(20, 100);
    let mut waits = Vec::new();
    for n in 0..50 {
        let begun = n * 400;
        t.on_sent(true, at(begun));
        let deadline = t.deadline(p);
        waits.push((deadline - at(begun)).as_millis());
        let answer = at(begun + 250);
        let probed = deadline < answer;
        if probed {
            assert_eq!(t.on_timeout(p, deadline), Timeout::Probe);
            t.on_sent(false, deadline);
        }
        t.on_tack(ms(25));
        if probed && told_later == ms(0) {
            t.on_probe_in_vain(answer);
        }
        t.on_progress(answer);
        if probed && told_later > ms(0) {
            t.on_probe_in_vain(answer + told_later);
        }
    }
    (t, waits)
}

#[test]
fn a_probe_in_vain_teaches_to_wait_as_long_and_silences_like_it_keep_that_known() {
    for told_later in [0, 25] {
        let (mut t, waits) = waits_of_a_path_that_takes_longer(ms(told_later));
        assert_eq!(waits[0], 20 * 2 + 25 + 5);
        // As much of the path, and what a receiver waits for packets so far apart.
        assert!(waits[1..].iter().all(|wait| (250..=225 + 120).contains(wait)), "{waits:?}");
        // It is a path without a queue from here on.
        for n in 50..70 {
            t.on_sent(true, at(n * 400));
            t.on_progress(at(n * 400 + 30));
        }
        t.on_sent(true, at(30_000));
        assert!(t.deadline(path(20, 100)) < at(30_000 + 250), "forgotten");
    }
}

#[test]
fn what_a_probe_in_vain_says_of_the_way_there_was_before_teaches_nothing() {
    for moved in [false, true] {
        let mut t = Timer::new(at(0));
        let p = path(20, 100);
        t.on_sent(true, at(0));
        assert_eq!(t.on_timeout(p, t.deadline(p)), Timeout::Probe);
        t.on_progress(at(250));
        if moved {
            t.on_path_change(at(260));
        }
        t.on_probe_in_vain(at(275));
        t.on_sent(true, at(300));
        assert_eq!(t.deadline(p) < at(300 + 250), moved);
    }
}

#[test]
fn in_a_dialogue_whose_answers_are_lost_a_probe_comes_no_later_each_time() {
    let mut t = Timer::new(at(0));
    let p = path(20, 100);
    // A request is answered by data; then answers are lost, and each probe finds that the request had arrived.
    t.on_sent(true, at(0));
    t.on_progress(at(20));
    t.on_told_by_data(None);
    for n in 1..20 {
        let begun = at(n * 400);
        t.on_sent(true, begun);
        t.set_full(true, begun);
        let deadline = t.deadline(p);
        assert!(deadline - begun <= ms(100), "request {n}: {:?}", deadline - begun);
        assert_eq!(t.on_timeout(p, deadline), Timeout::Probe);
        t.on_sent(false, deadline);
        let answer = deadline + ms(20);
        t.on_probe_in_vain(answer);
        t.on_progress(answer);
        t.on_told_by_data(None);
    }
}

#[test]
fn an_end_that_is_overdue_is_probed_for_before_twice_the_usual_round_trip() {
    let told = |age| {
        let mut t = Timer::new(at(0));
        t.on_sent(true, at(0));
        t.on_sent(false, at(2));
        t.set_full(true, at(2));
        t.on_progress(at(100));
        t.on_age(ms(age));
        t
    };
    let p = path(40, 1);
    let usual = at(100 + 2 * 40 + 10 + 5);
    assert_eq!(told(100).deadline(p), usual, "nobody knows what the path takes");
    let p = Path { drain: Some(ms(5)), ..p };
    // 102 ms for the last one, 5 to come out, 10 held back, a quarter of what is usual and what timers are late by.
    assert_eq!(told(100).deadline(p), at(102 + 5 + 10 + 10 + 5));
    assert_eq!(
        told(20).deadline(p),
        at(100 + 5 + 10 + 10 + 5),
        "what was long due is not long overdue"
    );
    assert_eq!(told(160).deadline(p), at(162 + 5 + 10 + 10 + 5));
    assert_eq!(told(500).deadline(p), usual);
    assert_eq!(told(100).deadline(Path { rttvar: ms(9), ..p }), at(102 + 5 + 10 + 18 + 5));
    let mut last = told(100);
    last.expect_answer();
    assert_eq!(last.deadline(p), at(102 + 5 + 10 + 5), "which nobody holds back");
    let mut moved = told(100);
    moved.on_path_change(at(100));
    assert_eq!(moved.deadline(p), usual);
}
