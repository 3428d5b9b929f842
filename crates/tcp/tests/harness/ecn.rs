//! Explicit congestion notification end to end.

use core::time::Duration;

use tack_cc::Algorithm;
use tack_tcp::{ConnConfig, Mode};
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, path};
use crate::world::WorldConfig;

#[test]
fn marks_slow_a_window_based_sender_down_without_a_loss_under_either_mode() {
    for conn in [ConnConfig::default(), ConnConfig::plain()] {
        let tack = conn.ack.tack().is_some();
        let cwnd = |ecn: bool| {
            let conn = ConnConfig { ecn, congestion: Some(Algorithm::NewReno), ..conn.clone() };
            let mut pipes = path(Rate::from_mbps(100), Duration::from_millis(20), 20.0);
            pipes[0].mark = 0.05;
            let mut bulk = Bulk::new(WorldConfig::new(3, pipes), conn.clone(), conn, 1 << 40);
            bulk.run(Instant::from_secs(5));
            let info = bulk.info();
            assert_eq!(info.mode == Mode::Tack, tack);
            assert_eq!(info.counters.retransmissions, 0, "nothing is lost");
            info.cwnd
        };
        let (with, without) = (cwnd(true), cwnd(false));
        assert!(with * 4 < without, "window {with} with marks, {without} without");
    }
}
