//! Bulk transfers whose packets are numbered in series, over devices and boxes that cut and merge.

use core::time::Duration;

use tack_cc::Algorithm;
use tack_tcp::{ConnConfig, Info, IpConfig, Mode};
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, path};
use crate::world::{Narrow, WorldConfig};

const LEN: u64 = 8 << 20;

/// Ends whose devices cut super-packets or do not; what arrives at the second is merged.
fn config(offload: [bool; 2]) -> WorldConfig {
    let mut path = path(Rate::from_mbps(50), Duration::from_millis(20), 20.0);
    path[0].merge_every = Some(Duration::from_millis(1));
    let mut config = WorldConfig { ip: Some(false), ..WorldConfig::new(11, path) };
    for (host, offload) in config.hosts.iter_mut().zip(offload) {
        host.ip = IpConfig::default().with(|it| it.segmentation_offload = offload);
    }
    config
}

fn transfer(config: WorldConfig) -> Bulk {
    let conn = ConnConfig::default().with(|it| it.congestion = Some(Algorithm::NewReno));
    Bulk::new(config, conn.clone(), conn, LEN)
}

/// What both ends know once everything arrived and TACK governed to the end; and when that was.
fn done(bulk: &mut Bulk) -> ([Info; 2], Instant) {
    let mut at = Instant::ZERO;
    while !bulk.reader.at_end {
        assert!(at < Instant::from_secs(20), "{:?}", bulk.info());
        at += Duration::from_millis(1);
        bulk.run(at);
    }
    assert_eq!(bulk.reader.read, LEN);
    let server = bulk.server.expect("accepted");
    let received = bulk.world.ends[1].host.info(server).expect("known");
    assert_eq!([bulk.info().mode, received.mode], [Mode::Tack; 2]);
    ([bulk.info(), received], at)
}

#[test]
fn merged_segments_are_packets_of_their_own() {
    let mut bulk = transfer(config([true; 2]));
    let ([sent, received], _) = done(&mut bulk);
    assert!(bulk.world.merged > 1_000, "{}", bulk.world.merged);
    assert_eq!(sent.counters.data_segments_sent, received.counters.data_segments_received);
    assert_eq!((sent.counters.retransmissions, sent.counters.timeouts), (0, 0));
}

#[test]
fn series_are_sent_only_where_both_ends_offer_them() {
    for offload in [[true, false], [false, true], [false; 2]] {
        let mut bulk = transfer(config(offload));
        let ([sent, _], _) = done(&mut bulk);
        assert_eq!(bulk.world.merged, 0, "each segment has an option of its own: {offload:?}");
        assert_eq!((sent.counters.retransmissions, sent.counters.timeouts), (0, 0));
    }
}

#[test]
fn loss_and_reordering_cost_no_more_with_series_than_without() {
    let run = |offload: bool| {
        let mut config = config([offload; 2]);
        config.pipes[0].loss = 0.01;
        config.pipes[0].reorder = 0.01;
        config.pipes[0].reorder_by = Duration::from_micros(900);
        let mut bulk = transfer(config);
        let ([sent, _], at) = done(&mut bulk);
        let (c, lost) = (sent.counters, bulk.world.pipes[0].counters.lost);
        assert!(c.timeouts == 0 && c.needless * 10 <= lost, "{c:?}");
        assert!((lost..=lost + lost / 5).contains(&c.retransmissions), "{lost} lost: {c:?}");
        (at - Instant::ZERO).as_secs_f64()
    };
    let (with, without) = (run(true), run(false));
    assert!((0.9..1.1).contains(&(with / without)), "{with} s with series, {without} s without");
}

#[test]
fn of_segments_cut_on_the_way_every_lost_piece_is_repaired_without_a_timeout() {
    let mut config = config([true; 2]);
    (config.pipes[0].cut, config.pipes[0].loss) = (1.0, 0.01);
    config.pipes[0].merge_every = None;
    let mut bulk = transfer(config);
    let ([sent, received], _) = done(&mut bulk);
    assert!(received.counters.data_segments_received > 2 * sent.counters.data_segments_sent);
    assert_eq!(sent.counters.timeouts, 0, "{:?}", sent.counters);
}

#[test]
fn a_path_that_becomes_narrow_is_sent_series_of_smaller_segments() {
    let mut bulk = transfer(config([true; 2]));
    bulk.run(Instant::from_millis(600));
    assert_eq!(bulk.info().path_mtu, 1_500);
    bulk.world.narrow[0] = Some(Narrow::telling(1_300));
    let ([sent, _], _) = done(&mut bulk);
    assert_eq!((sent.path_mtu, sent.counters.timeouts), (1_300, 0));
    let (dropped, fits) = (bulk.world.narrow[0].expect("set").dropped, 1_300 / 8);
    assert!(0 < dropped && dropped < fits, "a flight of {dropped}");
}
