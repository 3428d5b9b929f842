use super::harness::{MSS, Plan, run};
use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn every_byte_gets_through_any_path() {
    for seed in 0..600u64 {
        let pick = |shift: u32, n: u64| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift & (n - 1);
        let plan = Plan {
            seed,
            segments: [1, 2, 7, 150][pick(7, 4) as usize],
            window: [1, 4, 20, 100][pick(11, 4) as usize],
            sack: pick(15, 8) != 0,
            detection: [LossDetection::RackTlp, LossDetection::DupThresh][pick(43, 2) as usize],
            timestamps: pick(19, 2) == 0,
            segments_per_ack: 1 << pick(23, 4).min(4),
            loss: [0.0, 0.01, 0.1, 0.3][pick(27, 4) as usize],
            ack_loss: [0.0, 0.01, 0.1, 0.5][pick(31, 4) as usize],
            duplicate: [0.0, 0.05][pick(35, 2) as usize],
            reorder: ([0.0, 0.1][pick(39, 2) as usize], 60 * MS),
            ..Plan::default()
        };
        run(&plan);
    }
}

#[test]
fn a_clean_path_sees_no_retransmission_no_probe_and_no_timeout() {
    for segments_per_ack in 1..=16 {
        let plan = Plan { segments: 500, segments_per_ack, ..Plan::default() };
        let outcome = run(&plan);
        let repairs = (outcome.retransmissions, outcome.probes, outcome.timeouts);
        assert_eq!(repairs, (0, 0, 0), "L = {segments_per_ack}: {outcome:?}");
        assert_eq!((outcome.episodes, outcome.needless, outcome.spurious), (0, 0, 0));
    }
}

#[test]
fn one_loss_costs_one_retransmission_and_one_episode() {
    for number in 0..90 {
        let plan = Plan { drop: vec![number], ..Plan::default() };
        let outcome = run(&plan);
        assert_eq!((outcome.retransmissions, outcome.timeouts), (1, 0), "loss of {number}");
        assert_eq!((outcome.episodes, outcome.needless), (1, 0), "loss of {number}");
    }
}

/// [RFC 8985 §7]: without a probe each of these would wait for the RTO.
#[test]
fn tail_loss_is_repaired_by_a_probe_and_not_by_a_timeout() {
    for tail in 1..=19u64 {
        let plan = Plan { drop: (100 - tail..100).collect(), ..Plan::default() };
        let outcome = run(&plan);
        assert_eq!((outcome.probes, outcome.timeouts), (1, 0), "tail of {tail}: {outcome:?}");
        assert_eq!(outcome.retransmissions, tail, "tail of {tail}");
        assert_eq!(outcome.needless, 0, "tail of {tail}");
    }
}

/// The point of RACK: with dupacks alone a lost retransmission waits for the RTO.
#[test]
fn a_lost_retransmission_is_noticed_without_a_timeout() {
    // Transmission 30 is lost; its retransmission is found among the next ones by trying.
    let first = run(&Plan { drop: vec![30], ..Plan::default() });
    assert_eq!(first.retransmissions, 1);
    let mut twice = 0;
    for again in 31..75 {
        let outcome = run(&Plan { drop: vec![30, again], ..Plan::default() });
        assert_eq!((outcome.timeouts, outcome.retransmissions), (0, 2), "{again}: {outcome:?}");
        twice += u64::from(outcome.took > first.took + 30 * MS);
    }
    assert!(twice > 0, "no run lost the retransmission itself");
}

/// [RFC 6675]: what RACK-TLP was made for.
#[test]
fn with_duplicates_alone_repairs_that_are_lost_and_tails_wait_for_the_timeout() {
    let plan = Plan { detection: LossDetection::DupThresh, ..Plan::default() };
    for number in 0..90 {
        let outcome = run(&Plan { drop: vec![number], ..plan.clone() });
        let repairs = (outcome.retransmissions, outcome.timeouts, outcome.needless);
        assert_eq!(repairs, (1, 0, 0), "loss of {number}: {outcome:?}");
    }
    for tail in 1..=3u64 {
        let outcome = run(&Plan { drop: (100 - tail..100).collect(), ..plan.clone() });
        assert_eq!((outcome.probes, outcome.timeouts), (0, 1), "tail of {tail}: {outcome:?}");
    }
    // Transmission 30 is lost; its retransmission is one of those that follow.
    let timeouts: Vec<u64> = (31..75)
        .map(|again| run(&Plan { drop: vec![30, again], ..plan.clone() }).timeouts)
        .collect();
    assert_eq!(timeouts.iter().sum::<u64>(), 1, "only the repair's own loss waits: {timeouts:?}");
}

#[test]
fn three_segments_above_a_hole_are_its_loss_and_two_are_none() {
    let at = |ms| Instant::from_millis(ms);
    let cases: [(&[(u64, u64)], _); 4] = [
        (&[(1, 3)], None),
        (&[(1, 2), (3, 4)], None),
        (&[(1, 4)], Some(0..1_000)),
        (&[(1, 2), (3, 4), (5, 6)], Some(0..1_000)),
    ];
    for (sacked, lost) in cases {
        let sacked: Vec<Range<u64>> = sacked.iter().map(|(a, b)| MSS * a..MSS * b).collect();
        let sender = PlainSender::new(MSS as u32, 0, true, at(0));
        let mut sender = sender.detecting(LossDetection::DupThresh);
        (0..10).for_each(|i| sender.on_sent(MSS * i..MSS * (i + 1), at(i)));
        let ack = PlainAck { sack: &sacked, ..plain(0) };
        let news = sender.on_ack(&ack, at(50));
        assert_eq!(
            (sender.next_lost(at(50)), news.recovery_started),
            (lost.clone(), lost.is_some())
        );
        assert_eq!(sender.deadline(), Some(at(249)), "the timeout alone: 49 ms and 200");
    }
}

#[test]
fn reordering_below_the_window_costs_no_retransmission() {
    for seed in 0..50 {
        // Data and acknowledgment together are held back by less than a quarter of the RTT, and
        // never past three others, which would be a loss before RACK has seen reordering.
        let plan = Plan {
            seed,
            segments: 300,
            serialisation: 2 * MS,
            window: 10,
            segments_per_ack: 1,
            reorder: (0.3, 4 * MS),
            ..Plan::default()
        };
        let outcome = run(&plan);
        assert_eq!(outcome.retransmissions, 0, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn retransmissions_stay_close_to_losses_under_random_loss() {
    let (mut retransmissions, mut lost) = (0, 0);
    for seed in 0..40 {
        let plan = Plan { seed, segments: 500, loss: 0.02, ..Plan::default() };
        let outcome = run(&plan);
        retransmissions += outcome.retransmissions;
        lost += outcome.lost_on_path;
        assert_eq!(outcome.needless, outcome.arrived_twice, "seed {seed}");
    }
    assert!(retransmissions >= lost);
    // Probes may repeat what arrived; nothing else does.
    assert!(retransmissions - lost <= lost / 10, "{retransmissions} for {lost}");
}

#[test]
fn needless_retransmissions_are_counted_by_dsack() {
    for seed in 0..30 {
        let plan = Plan {
            seed,
            segments: 300,
            serialisation: MS / 10,
            reorder: (0.05, 60 * MS),
            ..Plan::default()
        };
        let outcome = run(&plan);
        // The last DSACKs may come after everything was acknowledged.
        assert!(outcome.needless <= outcome.arrived_twice, "seed {seed}: {outcome:?}");
        assert!(outcome.needless + 3 >= outcome.arrived_twice, "seed {seed}: {outcome:?}");
    }
}

#[test]
fn a_timeout_by_a_stalled_path_proves_spurious_with_timestamps_and_without() {
    for timestamps in [true, false] {
        let plan = Plan {
            segments: 400,
            timestamps,
            stall: Some((Instant::from_millis(200), 700 * MS)),
            ..Plan::default()
        };
        let outcome = run(&plan);
        assert!(outcome.timeouts > 0, "{outcome:?}");
        assert!(outcome.spurious > 0, "timestamps {timestamps}: {outcome:?}");
    }
}

#[test]
fn without_sack_three_duplicates_repair_a_loss_and_a_tail_waits_for_the_timeout() {
    let plan = Plan { sack: false, segments_per_ack: 1, drop: vec![30], ..Plan::default() };
    let outcome = run(&plan);
    assert_eq!((outcome.retransmissions, outcome.timeouts, outcome.episodes), (1, 0, 1));

    let two = run(&Plan { drop: vec![30, 33], ..plan.clone() });
    assert_eq!((two.retransmissions, two.timeouts, two.episodes), (2, 0, 1), "partial ack");

    let tail = run(&Plan { drop: vec![99], ..plan });
    assert_eq!((tail.timeouts, tail.probes), (1, 0));
}

#[test]
fn the_delivery_rate_is_that_of_the_path() {
    // 1 ms a segment of 1000 bytes: 8 Mbit/s; the window is beyond the product with 40 ms.
    let plan = Plan { segments: 2_000, serialisation: MS, window: 100, ..Plan::default() };
    let outcome = run(&plan);
    let full: Vec<u64> = outcome.rates.iter().filter(|r| !r.1).map(|r| r.0.as_bps()).collect();
    assert!(full.len() > 500, "{}", full.len());
    for rate in &full[100..] {
        assert!((7_900_000..=8_100_000).contains(rate), "{rate}");
    }
}

#[test]
fn a_takeover_from_tack_goes_on_where_that_ended() {
    let now = Instant::from_secs(5);
    let part = |seq: Range<u64>, ms: u64, lost| Outstanding {
        seq,
        sent_at: now - MS * ms as u32,
        retransmitted: lost,
        lost,
    };
    let parts =
        [part(1_000..2_000, 5, true), part(2_000..3_000, 30, false), part(5_000..6_000, 20, false)];
    let mut sender = PlainSender::new(MSS as u32, 1_000, true, now);
    sender.adopt(&parts, Some(40 * MS), now);
    assert_eq!(sender.in_flight(), 2_000);
    assert_eq!(sender.next_lost(now), Some(1_000..2_000));
    assert!(sender.in_recovery());
    assert_eq!(sender.srtt(), Some(40 * MS));
    sender.on_sent(1_000..2_000, now);
    // More had been sent and had arrived than TACK knew to be outstanding.
    let ack = plain(9_000);
    let news = sender.on_ack(&ack, now + 40 * MS);
    assert_eq!((news.acked_bytes, news.in_flight), (3_000, 0), "what had arrived counts not twice");
    sender.on_sent(12_000..13_000, now + 41 * MS);
    assert_eq!(sender.in_flight(), 1_000);
    assert_eq!(sender.on_ack(&plain(13_000), now + 81 * MS).acked_bytes, 1_000);
    assert_eq!(sender.deadline(), None);
}

fn plain(cum_ack: u64) -> PlainAck<'static> {
    PlainAck {
        cum_ack,
        sack: &[],
        dsack: None,
        ts_rtt: None,
        ts_is_coarse: false,
        echoes_original: false,
        is_pure_ack: true,
    }
}

#[test]
fn what_an_earlier_episode_sent_again_does_not_prove_this_one_spurious() {
    // Nothing overtakes anything here, so whatever is taken for lost is. Long windows with many
    // holes make episodes follow each other while repairs of the one before are under way: their
    // echoes are older than the first retransmission of the present episode.
    let mut episodes = 0;
    for seed in 1..=20 {
        let plan = Plan { seed, segments: 2_000, window: 200, loss: 0.05, ..Plan::default() };
        let outcome = run(&plan);
        assert_eq!(outcome.spurious, 0, "seed {seed}: {outcome:?}");
        episodes += outcome.episodes;
    }
    assert!(episodes > 100, "{episodes}");
}

/// As in Linux; where an end and a beginning lay between, BBR conserved packets anew every round.
#[test]
fn an_episode_follows_another_at_once_while_what_was_lost_meanwhile_is_under_repair() {
    let at = |ms| Instant::from_millis(ms);
    let mut sender = PlainSender::new(1_000, 0, true, at(0));
    let ack = |cum_ack, sack: &[core::ops::Range<u64>], sender: &mut PlainSender, now| {
        sender.on_ack(&PlainAck { sack, ..plain(cum_ack) }, now)
    };
    (0..10).for_each(|i| sender.on_sent(1_000 * i..1_000 * (i + 1), at(i)));
    let first = ack(0, std::slice::from_ref(&(1_000..5_000)), &mut sender, at(50));
    assert!(first.recovery_started);
    sender.on_sent(0..1_000, at(50));
    (10..16).for_each(|i| sender.on_sent(1_000 * i..1_000 * (i + 1), at(41 + i)));
    ack(0, std::slice::from_ref(&(1_000..10_000)), &mut sender, at(60));
    // Of what left during the episode, the first is lost, and sent again, before the episode ends.
    let news = ack(0, &[11_000..16_000, 1_000..10_000], &mut sender, at(110));
    assert!(!news.recovery_started && news.lost_bytes > 0, "{news:?}");
    while let Some(lost) = sender.next_lost(at(110)) {
        sender.on_sent(lost, at(110));
    }
    let news = ack(10_000, std::slice::from_ref(&(11_000..16_000)), &mut sender, at(160));
    assert!(news.recovery_started && !news.spurious && sender.in_recovery(), "{news:?}");
    let news = ack(16_000, &[], &mut sender, at(170));
    assert!(!news.recovery_started && !news.spurious && !sender.in_recovery(), "{news:?}");
}

/// A path that began to strip our stamps leaves the peer the last one that it saw.
#[test]
fn an_echo_older_than_all_that_is_new_is_no_round_trip() {
    let at = |ms| Instant::from_millis(ms);
    let mut sender = PlainSender::new(1_000, 0, true, at(0));
    sender.on_sent(0..1_000, at(0));
    sender.on_ack(&plain(1_000), at(50));
    sender.on_sent(1_000..2_000, at(40_000));
    sender.on_timeout(sender.deadline().unwrap());
    sender.on_sent(1_000..2_000, at(42_000));
    let echo = |ms| PlainAck { ts_rtt: Some(ms * MS), ..plain(2_000) };
    sender.on_ack(&echo(42_050), at(42_050));
    assert_eq!(sender.srtt(), Some(50 * MS));
    // That of the repair is one.
    sender.on_sent(2_000..3_000, at(43_000));
    sender.on_timeout(sender.deadline().unwrap());
    sender.on_sent(2_000..3_000, at(44_000));
    sender.on_ack(&PlainAck { cum_ack: 3_000, ..echo(130) }, at(44_130));
    assert_eq!(sender.srtt(), Some(60 * MS));
}

/// Each flight is sent again before its answer comes: only what the answer echoes can tell how long that took.
#[test]
fn a_path_that_became_slower_than_the_timer_is_learnt_from_stamps_in_milliseconds() {
    let mut sender = PlainSender::new(1_000, 0, true, Instant::ZERO);
    let mut now = Instant::ZERO;
    for n in 0..12 {
        let (from, took) = (n * 1_000, if n < 4 { 10 * MS } else { 400 * MS });
        sender.on_sent(from..from + 1_000, now);
        let answer_at = now + took;
        while let Some(due) = sender.deadline().filter(|due| *due < answer_at) {
            sender.on_timeout(due);
            sender.on_sent(from..from + 1_000, due);
        }
        now = answer_at;
        let rtt_min = sender.rtt_min();
        let ack = PlainAck { ts_rtt: Some(took), ts_is_coarse: true, ..plain(from + 1_000) };
        sender.on_ack(&ack, now);
        assert!(n == 0 || sender.rtt_min() == rtt_min, "too coarse for that");
    }
    assert!(sender.srtt().unwrap() > 200 * MS, "{:?}", sender.srtt());
    sender.on_sent(12_000..13_000, now);
    assert!(sender.deadline().unwrap() > now + 400 * MS);
}
