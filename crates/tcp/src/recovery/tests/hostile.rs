#![expect(clippy::single_range_in_vec_init, reason = "an option may hold a single block")]

use super::harness::MSS;
use super::*;

const MS: Duration = Duration::from_millis(1);

fn sender(segments: u64) -> PlainSender {
    let mut sender = PlainSender::new(MSS as u32, 0, true, Instant::ZERO);
    sender.on_rtt_sample(40 * MS, Instant::ZERO);
    for i in 0..segments {
        sender.on_sent(i * MSS..(i + 1) * MSS, Instant::ZERO);
    }
    sender
}

fn ack<'a>(cum_ack: u64, sack: &'a [Range<u64>]) -> PlainAck<'a> {
    PlainAck {
        cum_ack,
        sack,
        dsack: None,
        ts_rtt: None,
        ts_is_coarse: false,
        echoes_original: false,
        is_pure_ack: true,
    }
}

#[test]
fn an_acknowledgment_of_what_was_never_sent_changes_nothing() {
    let mut sender = sender(10);
    let now = Instant::from_millis(40);
    let news = sender.on_ack(&ack(10 * MSS + 1, &[]), now);
    assert_eq!((news.acked_bytes, news.in_flight, sender.in_flight()), (0, 10_000, 10_000));
    assert_eq!(sender.srtt(), Some(40 * MS));
}

#[test]
fn blocks_beyond_what_was_sent_inverted_or_below_are_ignored() {
    let mut sender = sender(10);
    let now = Instant::from_millis(40);
    sender.on_ack(&ack(2 * MSS, &[]), now);
    #[expect(clippy::reversed_empty_ranges, reason = "the case under test")]
    let blocks = [9 * MSS..10 * MSS + 1, 8 * MSS..5 * MSS, 5 * MSS..5 * MSS, 0..2 * MSS, 0..MSS];
    let news = sender.on_ack(&ack(2 * MSS, &blocks), now);
    assert_eq!((news.acked_bytes, sender.in_flight()), (0, 8_000));
    // The inner part of one that starts too low counts.
    let news = sender.on_ack(&ack(2 * MSS, &[MSS..4 * MSS]), now);
    assert_eq!(news.acked_bytes, 2_000);
}

#[test]
fn an_old_acknowledgment_brings_no_news_but_its_blocks() {
    let mut sender = sender(10);
    let now = Instant::from_millis(40);
    sender.on_ack(&ack(5 * MSS, &[]), now);
    let blocks = [7 * MSS..8 * MSS];
    let news = sender.on_ack(&ack(2 * MSS, &blocks), now);
    assert_eq!((news.acked_bytes, sender.in_flight()), (1_000, 4_000));
}

#[test]
fn overlapping_blocks_count_every_byte_once() {
    let mut sender = sender(10);
    let blocks = [2 * MSS..6 * MSS, 4 * MSS..8 * MSS, 2 * MSS..8 * MSS];
    let news = sender.on_ack(&ack(0, &blocks), Instant::from_millis(40));
    assert_eq!(news.acked_bytes, 6_000);
    let again = sender.on_ack(&ack(0, &blocks), Instant::from_millis(41));
    assert_eq!(again.acked_bytes, 0);
    let rest = sender.on_ack(&ack(10 * MSS, &[]), Instant::from_millis(42));
    assert_eq!((rest.acked_bytes, rest.delivered), (4_000, 10_000));
}

#[test]
fn a_segment_acknowledged_in_two_halves_is_complete_with_the_second() {
    let mut sender = sender(4);
    let now = Instant::from_millis(40);
    assert_eq!(sender.on_ack(&ack(0, &[1_000..1_500]), now).acked_bytes, 0);
    assert_eq!(sender.on_ack(&ack(0, &[1_500..2_000]), now).acked_bytes, 1_000);
}

#[test]
fn every_other_byte_selectively_acknowledged_costs_bounded_memory() {
    let mut sender = sender(100);
    for i in 0..40_000u64 {
        let at = 2 * i + 1;
        sender.on_ack(&ack(0, &[at..at + 1]), Instant::from_millis(40));
    }
    let Feedback::Sack(scoreboard) = &sender.feedback else { panic!("SACK was negotiated") };
    assert!(scoreboard.ranges() <= 2 * 100 + 17, "{}", scoreboard.ranges());
    assert_eq!(sender.sent.segments(), 100, "no block cuts a segment");
    let news = sender.on_ack(&ack(100 * MSS, &[]), Instant::from_millis(41));
    assert_eq!(news.acked_bytes, 100_000);
}

#[test]
fn acknowledging_byte_by_byte_delivers_every_byte_once() {
    let mut sender = sender(2);
    let mut bytes = 0;
    for at in 1..=2 * MSS {
        bytes += sender.on_ack(&ack(at, &[]), Instant::from_millis(40)).acked_bytes;
    }
    assert_eq!((bytes, sender.in_flight(), sender.deadline()), (2_000, 0, None));
}

#[test]
fn a_receiver_that_reneges_gets_everything_again_after_the_timeout() {
    let mut sender = sender(5);
    let now = Instant::from_millis(40);
    // Everything is selectively acknowledged, but never cumulatively.
    let news = sender.on_ack(&ack(0, &[0..5 * MSS]), now);
    assert_eq!((news.acked_bytes, sender.in_flight()), (5_000, 0));
    let deadline = sender.deadline().expect("outstanding");
    assert_eq!(sender.on_timeout(deadline), Some(Timeout::Rto));
    for i in 0..5 {
        let lost = sender.next_lost(deadline).expect("taken back");
        assert_eq!(lost, i * MSS..(i + 1) * MSS);
        sender.on_sent(lost, deadline);
    }
    let news = sender.on_ack(&ack(5 * MSS, &[]), deadline + 40 * MS);
    assert_eq!((news.acked_bytes, news.delivered), (0, 5_000), "counted once");
}

#[test]
fn dsacks_of_what_was_never_sent_twice_prove_nothing() {
    let mut sender = sender(5);
    for i in 0..5_000u64 {
        let lie = PlainAck { dsack: Some(i..i + MSS), ..ack(0, &[]) };
        let news = sender.on_ack(&lie, Instant::from_millis(40));
        assert_eq!((news.needless, news.spurious), (0, false));
    }
}

#[test]
fn a_peer_that_never_answers_is_probed_and_then_timed_out_ever_more_slowly() {
    let mut sender = sender(3);
    let mut gaps = Vec::new();
    let mut last = Instant::ZERO;
    for _ in 0..20 {
        let now = sender.deadline().expect("outstanding");
        match sender.on_timeout(now) {
            Some(Timeout::Probe) => {
                let range = sender.last_segment().expect("outstanding");
                sender.on_sent(range, now);
            }
            Some(Timeout::Rto) => {
                let range = sender.next_lost(now).expect("lost");
                sender.on_sent(range, now);
            }
            None => panic!("nothing arrived, so RACK has nothing to say"),
        }
        gaps.push(now - last);
        last = now;
    }
    assert_eq!(gaps[0], 80 * MS, "the probe, 2 * SRTT");
    assert_eq!(gaps[1], 240 * MS, "SRTT + 200 ms");
    for pair in gaps[1..].windows(2) {
        assert_eq!(pair[1], (pair[0] * 2).min(Duration::from_secs(120)));
    }
    assert_eq!(gaps.last(), Some(&Duration::from_secs(120)));
}

#[test]
fn a_probe_that_cannot_be_sent_is_not_asked_for_again() {
    let mut sender = sender(3);
    let now = sender.deadline().expect("outstanding");
    assert_eq!(sender.on_timeout(now), Some(Timeout::Probe));
    let rto = sender.deadline().expect("outstanding");
    assert_eq!(rto, now + 240 * MS);
    assert_eq!(sender.on_timeout(now), None, "not due");
    assert_eq!(sender.on_timeout(rto), Some(Timeout::Rto));
}

/// Random nonsense from a peer that knows the sequence numbers.
#[test]
fn random_acknowledgments_never_break_the_books() {
    use rand::{RngExt, SeedableRng};
    for seed in 0..300 {
        let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
        let detection = [LossDetection::RackTlp, LossDetection::DupThresh][seed as usize / 4 % 2];
        let mut sender = PlainSender::new(MSS as u32, 0, seed % 4 != 0, Instant::ZERO);
        sender = sender.detecting(detection);
        let (mut nxt, mut now, mut acked) = (0u64, Instant::ZERO, 0);
        for _ in 0..300 {
            now += Duration::from_micros(rng.random_range(0..50_000));
            let any = |rng: &mut rand_pcg::Pcg64| rng.random_range(0..nxt + 3_000);
            let blocks: Vec<Range<u64>> =
                (0..rng.random_range(0..5)).map(|_| any(&mut rng)..any(&mut rng)).collect();
            let una = sender.sent.snd_una();
            let cum_ack = match rng.random_range(0..4) {
                0 => any(&mut rng),
                1 => una + rng.random_range(0..1_500),
                _ => una,
            };
            let nonsense = PlainAck {
                cum_ack,
                sack: &blocks,
                dsack: rng.random_bool(0.2).then(|| any(&mut rng)..any(&mut rng)),
                ts_rtt: rng.random_bool(0.5).then(|| MS * rng.random_range(0..1_000)),
                ts_is_coarse: rng.random_bool(0.5),
                echoes_original: rng.random_bool(0.3),
                is_pure_ack: rng.random_bool(0.8),
            };
            acked += sender.on_ack(&nonsense, now).acked_bytes;
            while sender.deadline().is_some_and(|deadline| deadline <= now) {
                let before = sender.deadline();
                let timeout = sender.on_timeout(now);
                let progress = timeout.is_some() || sender.deadline() != before;
                assert!(progress, "seed {seed}: a deadline that stays is a busy loop");
            }
            for _ in 0..rng.random_range(0..4) {
                if let Some(lost) = sender.next_lost(now) {
                    sender.on_sent(lost, now);
                } else {
                    let len = rng.random_range(1..=MSS);
                    sender.on_sent(nxt..nxt + len, now);
                    nxt += len;
                }
            }
            assert!(acked <= nxt, "seed {seed}");
        }
        now += MS;
        acked += sender.on_ack(&ack(nxt, &[]), now).acked_bytes;
        assert_eq!((acked, sender.in_flight()), (nxt, 0), "seed {seed}");
    }
}
