//! What is negotiated in SYNs, and what it does afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use tack_cc::Algorithm;
use tack_interop::segment::{ACK, CWR, ECE, FIN, RST, SYN, Seen};
use tack_interop::{Family, Setup, World, sockets};
use tack_link::End;
use tack_link::loss::LossConfig;
use tack_link::queue::{CodelConfig, Discipline, QueueConfig};
use tack_link::wired::DirectionConfig;
use tack_net::ConnConfig;

use crate::support::{Opener, pair, talk, they_send, way, we_send};

/// Most bytes that were in flight at once from `end`, as seen there.
fn greatest_flight(log: &[Seen], end: End) -> u64 {
    // Per connection, by the sender's port: first number, greatest number sent, greatest
    // acknowledged.
    let mut flows: BTreeMap<u16, (u32, u64, u64)> = BTreeMap::new();
    let mut greatest = 0;
    for seen in log.iter().filter(|seen| seen.end == end) {
        let Some(tcp) = seen.tcp() else { continue };
        if seen.entered {
            let (first, sent, acked) = flows.entry(tcp.src_port).or_insert((tcp.seq, 0, 0));
            let to = u64::from(tcp.seq.wrapping_sub(*first)) + tcp.payload as u64;
            *sent = to.max(*sent);
            greatest = greatest.max(*sent - *acked);
        } else if let Some((first, sent, acked)) = flows.get_mut(&tcp.dst_port) {
            let to = u64::from(tcp.ack.wrapping_sub(*first));
            *acked = if to <= *sent + 2 { to.min(*sent).max(*acked) } else { *acked };
        }
    }
    greatest
}

fn syns(log: &[Seen]) -> Vec<&Seen> {
    log.iter().filter(|seen| seen.entered && seen.has(SYN)).collect()
}

async fn both_ways(world: &World, conn: &ConnConfig, bytes: u64) {
    for family in Family::BOTH {
        for opener in Opener::BOTH {
            let (mut ours, mut theirs) = pair(world, family, opener, conn.clone()).await;
            talk(&mut ours, &mut theirs, bytes).await;
            ours.finished().await.unwrap();
        }
    }
}

#[tokio::test]
async fn windows_are_scaled_both_ways_and_more_than_64_kib_are_in_flight() {
    let Some(world) = Setup::over(way(100, 20)).start() else { return };
    for (family, opener) in Family::BOTH.into_iter().zip(Opener::BOTH) {
        world.log.clear();
        let (mut ours, mut theirs) = pair(&world, family, opener, ConnConfig::default()).await;
        let log = world.log.all();
        let syns = syns(&log);
        assert_eq!(syns.len(), 2, "{syns:?}");
        for syn in &syns {
            assert!(syn.tcp().unwrap().window_scale().is_some_and(|s| (1..=14).contains(&s)));
        }
        we_send(&mut ours, &mut theirs, 12 << 20).await;
        let sent = greatest_flight(&world.log.all(), End::A);
        assert!(sent > 256 << 10, "we had {sent} bytes in flight to {family:?}");
        // We have ended our half; the kernel has not.
        world.log.clear();
        they_send(&mut theirs, &mut ours, 12 << 20).await;
        let sent = greatest_flight(&world.log.all(), End::B);
        assert!(sent > 256 << 10, "the kernel had {sent} bytes in flight from {family:?}");
        ours.finished().await.unwrap();
    }
}

#[tokio::test]
async fn windows_are_not_scaled_where_the_kernel_does_not_want_it() {
    let Some(world) = Setup::over(way(100, 5)).start() else { return };
    world.set("net.ipv4.tcp_window_scaling", "0");
    both_ways(&world, &ConnConfig::default(), 2 << 20).await;
    let log = world.log.all();
    let answers = syns(&log).into_iter().filter(|s| s.has(ACK));
    assert!(answers.filter_map(Seen::tcp).all(|t| t.window_scale().is_none()));
    for end in [End::A, End::B] {
        let sent = greatest_flight(&log, end);
        assert!((30_000..=65_537).contains(&sent), "{sent} bytes in flight from {end:?}");
    }
}

#[tokio::test]
async fn timestamps_are_on_every_segment_where_the_kernel_wants_them() {
    let Some(world) = Setup::over(way(100, 2)).start() else { return };
    both_ways(&world, &ConnConfig::default(), 300_000).await;
    let log = world.log.all();
    for seen in log.iter().filter(|seen| !seen.has(RST)) {
        assert!(seen.tcp().is_none_or(|t| t.has_timestamps()), "[RFC 7323 §3.2] {seen:?}");
    }
}

#[tokio::test]
async fn timestamps_are_on_no_segment_where_the_kernel_does_not_want_them() {
    let loss = LossConfig::Bernoulli(0.005);
    let Some(world) = Setup::over(DirectionConfig { loss, ..way(100, 2) }).start() else { return };
    world.set("net.ipv4.tcp_timestamps", "0");
    both_ways(&world, &ConnConfig::default(), 1 << 20).await;
    for seen in world.log.all().iter().filter(|seen| seen.entered) {
        let Some(tcp) = seen.tcp() else { continue };
        let offer = seen.end == End::A && tcp.flags & (SYN | ACK) == SYN;
        assert_eq!(tcp.has_timestamps(), offer, "{seen:?}");
    }
}

#[tokio::test]
async fn both_report_blocks_after_losses_where_sack_is_on() {
    let loss = LossConfig::Bernoulli(0.01);
    let Some(world) = Setup::over(DirectionConfig { loss, ..way(100, 5) }).start() else { return };
    both_ways(&world, &ConnConfig::default(), 2 << 20).await;
    for end in [End::A, End::B] {
        let sent = world.log.sent_by(end);
        let blocks = sent.iter().filter_map(Seen::tcp).filter(|t| t.sack_blocks() > 0).count();
        assert!(blocks > 10, "{blocks} segments with SACK blocks from {end:?}");
        assert!(syns(&sent).iter().all(|s| s.tcp().unwrap().sack_permitted()));
    }
}

#[tokio::test]
async fn losses_are_repaired_without_blocks_where_sack_is_off() {
    let loss = LossConfig::Bernoulli(0.01);
    let Some(world) = Setup::over(DirectionConfig { loss, ..way(100, 5) }).start() else { return };
    world.set("net.ipv4.tcp_sack", "0");
    both_ways(&world, &ConnConfig::default(), 1 << 20).await;
    let sent = world.log.all();
    assert!(sent.iter().filter_map(Seen::tcp).all(|t| t.sack_blocks() == 0));
    let answers = sent.iter().filter(|s| s.has(SYN | ACK));
    assert!(answers.filter_map(Seen::tcp).all(|t| !t.sack_permitted()));
}

/// Whoever sends is slowed down by marks alone: nothing is lost, nothing is sent twice.
#[tokio::test]
async fn a_marking_queue_slows_both_down_without_a_loss() {
    // Two of this path's round trips. A sender on a busy machine seldom keeps a queue standing for the Internet's 100 ms.
    let interval = Duration::from_millis(20);
    let codel = CodelConfig { ecn: true, interval, ..CodelConfig::default() };
    let queue = QueueConfig { discipline: Discipline::Codel(codel), ..QueueConfig::default() };
    let Some(world) = Setup::over(DirectionConfig { queue, ..way(40, 5) }).start() else { return };
    world.set("net.ipv4.tcp_ecn", "1");
    for (family, opener) in Family::BOTH.into_iter().zip(Opener::BOTH) {
        let mut shown = [false; 2];
        // Where a busy machine holds a sender up there is no queue to mark, and another transfer shows it.
        for _ in 0..10 {
            world.log.clear();
            let conn = ConnConfig::plain().with(|it| {
                it.ecn = true;
                it.congestion = Some(Algorithm::Cubic);
            });
            let (mut ours, mut theirs) = pair(&world, family, opener, conn).await;
            let log = world.log.all();
            let asked = syns(&log)[0].tcp().unwrap();
            let answered = syns(&log)[1].tcp().unwrap();
            assert_eq!(asked.flags & (ECE | CWR), ECE | CWR, "[RFC 3168 §6.1.1] {asked:?}");
            assert_eq!(answered.flags & (ECE | CWR), ECE, "{answered:?}");
            we_send(&mut ours, &mut theirs, 8 << 20).await;
            // A busy machine answers late, and may be probed.
            let counters = ours.info().counters;
            assert!(counters.retransmissions <= counters.probes, "{:#?}", ours.info());
            assert_eq!(counters.loss_episodes, 0, "{:#?}", ours.info());
            shown[0] |= slowed_by_marks(&world, End::A);
            world.log.clear();
            sockets::set_congestion(&theirs, "cubic").unwrap();
            they_send(&mut theirs, &mut ours, 8 << 20).await;
            shown[1] |= slowed_by_marks(&world, End::B);
            if shown == [true; 2] {
                break;
            }
        }
        assert_eq!(shown, [true; 2], "nobody is marked");
    }
    let report = world.finish();
    for end in [End::A, End::B] {
        let counters = report.link.link().counters(end);
        assert_eq!(counters.dropped(), 0, "{counters:?}");
    }
}

/// The echo of CE and the answer to the echo [RFC 3168 §6.1.2, §6.1.3], by what passed. False: there were too few.
fn slowed_by_marks(world: &World, sender: End) -> bool {
    let log = world.log.all();
    let data = |seen: &&Seen| seen.payload() > 0;
    let sent: Vec<&Seen> =
        log.iter().filter(|s| s.entered && s.end == sender).filter(data).collect();
    assert!(sent.len() > 4_000 && sent.iter().all(|s| s.ecn == 2), "data is ECT(0)");
    let marked = log.iter().filter(|s| !s.entered && s.end != sender && s.ecn == 3).count();
    let echoed = log.iter().filter(|s| s.entered && s.end != sender && s.has(ECE)).count();
    let reduced = sent.iter().filter(|s| s.has(CWR)).count();
    assert!(echoed >= marked.min(1), "{marked} marked, {echoed} echoed");
    let least = if marked > 2 { 2 } else { marked.min(1) };
    assert!((least..=marked).contains(&reduced), "{marked} marked, {reduced} answered with CWR");
    let bare = log.iter().filter(|s| s.entered && s.payload() == 0 && !s.has(FIN));
    assert!(bare.clone().all(|s| s.ecn == 0), "[RFC 3168 §6.1.4]: bare ACKs are not ECT");
    marked > 2
}
