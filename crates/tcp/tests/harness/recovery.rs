//! How much leaves, and how evenly, while a loss is repaired [RFC 9937].

use core::time::Duration;

use tack_cc::Algorithm;
use tack_tcp::{ConnConfig, FallbackReason, Mode, State};
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, path};
use crate::pipe::Strip;
use crate::raw::Raw;
use crate::world::WorldConfig;

const RTT: Duration = Duration::from_millis(100);

/// Text that arrived, in order of time: when, offset, length.
fn arrivals(algorithm: Algorithm) -> Vec<(Instant, u64, u64)> {
    // So fast that arrivals show how segments left. The first loss ends slow start, the second one
    // falls into congestion avoidance, and into the part of a round trip in which a flight arrives.
    let mut pipes = path(Rate::from_mbps(1_000), RTT, 10.0);
    let ms = Instant::from_millis;
    pipes[0].blackouts = vec![ms(650)..ms(651), ms(3_030)..ms(3_031)];
    let conn = ConnConfig::plain().with(|it| it.congestion = Some(algorithm));
    let mut bulk = Bulk::new(WorldConfig::new(1, pipes), conn.clone(), conn, 1 << 40);
    bulk.run(ms(2_500));
    bulk.world.tap = Some(Vec::new());
    bulk.run(ms(3_500));
    bulk.world.tap.take().expect("set above")
}

/// Bytes that arrived in each quarter of the round trip after `from`.
fn quarters(arrivals: &[(Instant, u64, u64)], from: Instant) -> [u64; 4] {
    let mut quarters = [0; 4];
    for (at, _, len) in arrivals.iter().filter(|arrival| arrival.0 >= from) {
        let since = at.saturating_since(from).as_nanos();
        if let Some(quarter) = quarters.get_mut((since * 4 / RTT.as_nanos()) as usize) {
            *quarter += len;
        }
    }
    quarters
}

/// What BBR delivers in the second half of 20 s over 100 Mbit/s and 200 ms, Mbit/s, where `loss` of
/// all data is lost at random.
fn under_random_loss(loss: f64, seed: u64) -> f64 {
    let mut pipes = path(Rate::from_mbps(100), 2 * RTT, 1.0);
    pipes[0].loss = loss;
    let conn = ConnConfig::plain().with(|it| it.congestion = Some(Algorithm::Bbr));
    let mut bulk = Bulk::new(WorldConfig::new(seed, pipes), conn.clone(), conn, 1 << 40);
    bulk.run(Instant::from_secs(10));
    let before = bulk.info().counters.bytes_acked;
    bulk.run(Instant::from_secs(20));
    (bulk.info().counters.bytes_acked - before) as f64 * 8.0 / 10e6
}

/// Ours once got anything from 16 to 76 Mbit/s, by seed. Every round trip an episode ended and
/// another began, each with a round of conservation; a writer was not told of room behind a hole;
/// and the window a receiver offered stood still behind one. Each ended Startup early.
#[test]
fn bbr_fills_a_path_that_loses_a_twentieth_also_where_repairs_are_lost_early() {
    for seed in [8, 12] {
        let mbps = under_random_loss(0.05, seed);
        println!("seed {seed}: {mbps:.1} Mbit/s");
        assert!(mbps > 75.0, "seed {seed}: {mbps} Mbit/s");
    }
}

fn earlier(at: Instant) -> Instant {
    Instant::ZERO + at.saturating_since(Instant::ZERO + RTT)
}

#[test]
fn recovery_sends_evenly_at_the_reduced_rate_and_ends_at_ssthresh() {
    for (algorithm, part) in [(Algorithm::NewReno, 0.5), (Algorithm::Cubic, 0.7)] {
        let arrivals = arrivals(algorithm);
        let mut highest = 0;
        let repair = arrivals.iter().find(|(_, offset, _)| {
            let again = *offset < highest;
            highest = highest.max(*offset);
            again
        });
        let repaired = repair.expect("something was lost").0;
        let before: u64 = quarters(&arrivals, earlier(repaired)).iter().sum();
        let during = quarters(&arrivals, repaired);
        let total: u64 = during.iter().sum();
        let ratio = total as f64 / before as f64;
        println!("{algorithm}: {before} bytes before, then {during:?}: {ratio}");
        assert!((ratio - part).abs() < 0.05, "{algorithm}: {ratio} of the flight before");
        // A window cut at once would be silent for half of it. Paced a fifth above the window's
        // rate, a flight leaves a sixth of the round trip empty, and so do its acknowledgments.
        for quarter in during {
            let share = quarter as f64 * 4.0 / total as f64;
            assert!((0.5..1.5).contains(&share), "{algorithm}: {during:?}");
        }
    }
}

/// A peer whose buffer became smaller, or full of other things, drops what its window allowed
/// [RFC 9293 §3.8.6.1]; Linux does both.
#[test]
fn what_a_peer_refused_leaves_as_soon_as_its_window_opens() {
    const SHUT: Duration = Duration::from_secs(3_600);
    let mut raw = Raw::connected(ConnConfig::plain());
    let text = |sent: &[crate::raw::Sent]| sent.iter().filter(|s| !s.payload.is_empty()).count();
    let sent = raw.write(&[7; 20_000]);
    assert!(text(&sent) >= 10, "the initial window is out");
    let longest = sent.iter().map(|s| s.payload.len()).max();
    let shut_since = raw.now;
    let mut tries = 0;
    while raw.now.saturating_since(shut_since) < SHUT {
        let again = text(&raw.wait(Duration::from_millis(100)));
        tries += again;
        for _ in 0..again {
            raw.send(tack_tcp::wire::Header { window: 0, ..raw.header() }, &[]);
        }
    }
    assert!((20..100).contains(&tries), "{tries} tries within an hour");
    let info = raw.info();
    assert_eq!((info.state, info.counters.black_holes), (State::Established, 0), "{info:#?}");
    raw.now += Duration::from_millis(1);
    let again = raw.send(raw.header(), &[]);
    let first = again.iter().find(|s| !s.payload.is_empty()).expect("at once");
    assert_eq!((first.header.seq, Some(first.payload.len())), (raw.ack, longest));
    assert!(raw.info().rto < Duration::from_secs(2), "{:?}", raw.info().rto);
}

/// A train in a tunnel: what comes after it went without TACK for the rest of the connection.
#[test]
fn within_udp_no_outage_ends_tack_and_over_ip_only_a_long_one_does() {
    for (ip, seconds, mode) in [
        (None, 60, Mode::Tack),
        (Some(false), 10, Mode::Tack),
        (Some(false), 60, Mode::FellBack(FallbackReason::Unanswered)),
    ] {
        let mut pipes = path(Rate::from_mbps(10), RTT, 1.0);
        let dark = Instant::from_secs(2)..Instant::from_secs(2 + seconds);
        pipes.iter_mut().for_each(|pipe| pipe.blackouts = vec![dark.clone()]);
        let world = WorldConfig { ip, ..WorldConfig::new(1, pipes) };
        let conn = ConnConfig::default();
        let mut bulk = Bulk::new(world, conn.clone(), conn, 1 << 40);
        bulk.run(dark.end);
        let before = bulk.info().counters;
        bulk.run(dark.end + Duration::from_secs(60));
        assert_eq!(bulk.info().mode, mode, "{ip:?}, {seconds} s");
        let sent = bulk.info().counters.segments_sent - before.segments_sent;
        assert!(sent > 20_000, "{ip:?}: {sent} segments in the minute after {seconds} s");
    }
}

/// Twenty flows that start together into a queue of a few packets meet this; three timeouts ended TACK for each.
#[test]
fn within_udp_silence_before_the_first_sign_of_tack_does_not_end_it_either() {
    let mut pipes = path(Rate::from_mbps(10), RTT, 1.0);
    pipes[0].blackouts = vec![Instant::ZERO + RTT * 3 / 4..Instant::from_secs(20)];
    let conn = ConnConfig::default();
    let mut bulk = Bulk::new(WorldConfig::new(1, pipes), conn.clone(), conn, 1 << 40);
    bulk.run(Instant::from_secs(60));
    let info = bulk.info();
    assert_eq!(info.mode, Mode::Tack);
    assert!(info.counters.segments_sent > 10_000, "{:?}", info.counters);
}

/// Loss of both ways that makes eight timeouts in a row of chance.
#[test]
fn a_path_that_loses_half_of_all_packets_does_not_end_tack() {
    let mut pipes = path(Rate::from_mbps(1), RTT, 1.0);
    pipes.iter_mut().for_each(|pipe| pipe.loss = 0.45);
    let world = WorldConfig { ip: Some(false), ..WorldConfig::new(1, pipes) };
    let conn = ConnConfig::default();
    let mut bulk = Bulk::new(world, conn.clone(), conn, 1 << 40);
    bulk.run(Instant::from_secs(600));
    assert_eq!(bulk.info().mode, Mode::Tack);
}

/// The fresh controller sent ten segments at once into a queue of four that had lost all before, and
/// grew by what it lost: nine thousand packets in a second for four hundred that arrived.
#[test]
fn a_connection_that_fell_back_for_timeouts_goes_on_with_the_window_after_a_timeout() {
    for algorithm in [Algorithm::Cubic, Algorithm::CubicLinux, Algorithm::NewReno, Algorithm::Bbr] {
        let mut pipes = path(Rate::from_mbps(10), RTT, 1.0);
        let dark = Instant::ZERO + RTT * 3 / 4..Instant::from_secs(20);
        pipes[0].blackouts = vec![dark];
        let conn = ConnConfig::default().with(|it| it.congestion = Some(algorithm));
        let world = WorldConfig { ip: Some(false), ..WorldConfig::new(1, pipes) };
        let mut bulk = Bulk::new(world, conn.clone(), conn, 1 << 40);
        bulk.run(Instant::from_secs(19));
        let info = bulk.info();
        assert_eq!(info.mode, Mode::FellBack(FallbackReason::Unanswered), "{algorithm:?}");
        assert!(info.cwnd <= 2 * u64::from(info.mss), "{algorithm:?}: {}", info.cwnd);
    }
}

/// PKT.SEQ's room was still taken off each retransmission: it left the last eight bytes of every
/// segment for a packet of their own, and a window of bytes let hundreds of those leave at once.
#[test]
fn a_connection_that_fell_back_repairs_whole_segments_with_whole_segments() {
    let mut pipes = path(Rate::from_mbps(10), RTT, 1.0);
    pipes[0].loss = 0.02;
    pipes[0].strip = Some((Strip::PktSeq, Instant::from_millis(500)));
    let conn = ConnConfig::default().with(|it| it.congestion = Some(Algorithm::Cubic));
    let mut bulk = Bulk::new(WorldConfig::new(1, pipes), conn.clone(), conn, 1 << 40);
    bulk.run(Instant::from_secs(2));
    assert!(matches!(bulk.info().mode, Mode::FellBack(_)), "{:?}", bulk.info().mode);
    bulk.world.tap = Some(Vec::new());
    bulk.run(Instant::from_secs(10));
    assert!(bulk.info().counters.retransmissions > 10);
    let (mss, arrivals) = (u64::from(bulk.info().mss), bulk.world.tap.take().expect("set above"));
    assert!(arrivals.len() > 100);
    assert!(arrivals.iter().all(|(.., len)| *len == mss), "{mss}");
}

/// Once all that acknowledged less than another before them were dropped unread: one of seven counted as lost here, and
/// what they alone told of losses was told again a round trip later.
#[test]
fn tacks_that_are_overtaken_are_read_and_none_of_them_counts_as_lost() {
    for loss in [0.0, 0.01] {
        let mut pipes = path(Rate::from_mbps(50), Duration::from_millis(60), 1.0);
        pipes[0].loss = loss;
        (pipes[1].reorder, pipes[1].reorder_by) = (0.3, Duration::from_millis(30));
        let conn = ConnConfig::default();
        let mut bulk = Bulk::new(WorldConfig::new(1, pipes), conn.clone(), conn, 1 << 40);
        bulk.run(Instant::from_secs(8));
        let (here, there) = (bulk.info(), bulk.server_info());
        let read = here.counters.acks_received;
        let sent = there.counters.acks_sent;
        assert!(sent.total() - read.total() < 10, "{read:?} of {sent:?}");
        assert!(here.rho_prime < 0.01, "{} at a loss of {loss}", here.rho_prime);
    }
}
