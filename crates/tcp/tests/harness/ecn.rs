//! Explicit congestion notification end to end.

use core::time::Duration;

use tack_cc::Algorithm;
use tack_tcp::{ConnConfig, Mode};
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, path};
use crate::world::WorldConfig;

/// Window and bytes delivered after five seconds of 5 % of marks on 100 Mbit/s, if anybody minds.
fn under_marks(conn: &ConnConfig, algorithm: Algorithm, ecn: bool) -> (u64, u64) {
    let tack = conn.ack.tack().is_some();
    let conn = conn.clone().with(|it| {
        it.ecn = ecn;
        it.congestion = Some(algorithm);
    });
    let mut pipes = path(Rate::from_mbps(100), Duration::from_millis(20), 20.0);
    pipes[0].mark = 0.05;
    let mut bulk = Bulk::new(WorldConfig::new(3, pipes), conn.clone(), conn, 1 << 40);
    bulk.run(Instant::from_secs(5));
    let info = bulk.info();
    assert_eq!(info.mode == Mode::Tack, tack);
    if ecn {
        assert_eq!(info.counters.retransmissions, 0, "{algorithm}: nothing is lost");
    }
    (info.cwnd, bulk.reader.read)
}

#[test]
fn marks_slow_window_based_senders_down_without_a_loss_under_either_mode() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        for conn in [ConnConfig::default(), ConnConfig::plain()] {
            let (with, _) = under_marks(&conn, algorithm, true);
            let (without, _) = under_marks(&conn, algorithm, false);
            assert!(with * 4 < without, "{algorithm}: {with} with marks, {without} without");
        }
    }
}

#[test]
fn bbr_does_not_mind_marks_as_version_one_does_not() {
    for algorithm in [Algorithm::Bbr, Algorithm::BbrInteractive] {
        for conn in [ConnConfig::default(), ConnConfig::plain()] {
            let (_, with) = under_marks(&conn, algorithm, true);
            let (_, without) = under_marks(&conn, algorithm, false);
            let ratio = with as f64 / without as f64;
            assert!((0.98..1.02).contains(&ratio), "{algorithm}: {ratio} of the goodput");
        }
    }
}
