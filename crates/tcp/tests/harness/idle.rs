//! Connections that rest for long, and what is left of their clocks then.

use core::time::Duration;

use tack_tcp::ConnConfig;
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, path};
use crate::world::WorldConfig;

/// Under TACK stamps are microseconds: half of their space is 36 minutes, all of it 72. Windows of later stamps were
/// once taken for older ones, and the sender used up the last one it knew.
#[test]
fn after_any_rest_the_peer_s_windows_are_believed() {
    let ways = [ConnConfig::plain(), ConnConfig::default()];
    for minutes in [30, 34, 37, 55, 70, 73, 110, 145, 24 * 60] {
        for conn in &ways {
            let pipes = path(Rate::from_mbps(100), Duration::from_millis(20), 1.0);
            let config = WorldConfig::new(1, pipes);
            let mut bulk = Bulk::new(config, conn.clone(), conn.clone(), 1_000_000);
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
