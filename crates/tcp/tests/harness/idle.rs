//! Connections that rest for long, and what is left of their clocks then.

use core::time::Duration;

use tack_tcp::ConnConfig;
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, path};
use crate::pipe::Strip;
use crate::world::WorldConfig;

/// Under TACK stamps are microseconds: half of their space is 36 minutes, all of it 72. Windows of later stamps were
/// once taken for older ones, and the sender used up the last one it knew.
#[test]
fn after_any_rest_the_peer_s_windows_are_believed() {
    let (plain, tack) = (ConnConfig::plain, ConnConfig::default);
    rest([(plain(), plain()), (tack(), tack())], None);
}

/// Who offers TACK stamps in microseconds. A peer that declined compares stamps as any TCP does, over weeks: for every
/// other 36 minutes it took what came after a rest for older than what came before, and dropped all of it.
#[test]
fn after_any_rest_a_peer_that_declined_tack_believes_what_it_is_sent() {
    let (plain, tack) = (ConnConfig::plain, ConnConfig::default);
    rest([(tack(), plain()), (plain(), tack())], None);
}

/// As where the answer to the offer is lost on the way: each end finds out by itself.
#[test]
fn after_any_rest_ends_that_gave_up_tack_believe_each_other() {
    for strip in [Strip::Permitted, Strip::AckType] {
        rest([(ConnConfig::default(), ConnConfig::default())], Some(strip));
    }
}

/// Between these, a megabyte before a rest and four after it; the path takes options away from what the server sends.
fn rest<const N: usize>(ways: [(ConnConfig, ConnConfig); N], strip: Option<Strip>) {
    for minutes in [30, 34, 37, 55, 70, 73, 110, 145, 24 * 60] {
        for (client, server) in &ways {
            let mut pipes = path(Rate::from_mbps(100), Duration::from_millis(20), 1.0);
            pipes[1].strip = strip.map(|strip| (strip, Instant::ZERO));
            let config = WorldConfig::new(1, pipes);
            let mut bulk = Bulk::new(config, client.clone(), server.clone(), 1_000_000);
            bulk.writer.ends = false;
            bulk.run(Instant::from_secs(5));
            let awake = Instant::from_secs(5 + 60 * minutes);
            bulk.run(awake);
            bulk.writer.len += 4_000_000;
            bulk.run(awake + Duration::from_secs(3));
            let mode = bulk.info().mode;
            assert_eq!(bulk.reader.read, 5_000_000, "{minutes} minutes, {mode:?}");
        }
    }
}

/// A machine that sleeps has a clock that stands, and the connection does not notice: the other's stamps have gone far, half
/// way round and more after 36 minutes.
#[test]
fn after_any_sleep_of_one_machine_both_ends_believe_each_other() {
    let ways = [ConnConfig::plain(), ConnConfig::default()];
    for minutes in [1, 20, 34, 37, 55, 70, 73, 110, 145, 24 * 60] {
        for (conn, sleeper) in ways.iter().flat_map(|conn| [(conn, 0), (conn, 1)]) {
            let pipes = path(Rate::from_mbps(100), Duration::from_millis(20), 1.0);
            let config = WorldConfig::new(1, pipes);
            let mut bulk = Bulk::new(config, conn.clone(), conn.clone(), 1_000_000);
            bulk.writer.ends = false;
            bulk.run(Instant::from_secs(5));
            bulk.world.ends[1 - sleeper].clock.offset += Duration::from_secs(60 * minutes);
            bulk.writer.len += 4_000_000;
            bulk.run(Instant::from_secs(8));
            let mode = bulk.info().mode;
            assert_eq!(bulk.reader.read, 5_000_000, "{minutes} minutes, {mode:?}, end {sleeper}");
        }
    }
}
