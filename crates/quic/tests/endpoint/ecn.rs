//! Paths and what they make of ECN marks.

use std::time::Duration;

use tack_quic::Config;
use tack_quic::streams::Dir;

use super::listen;
use super::pair::{Marks, Pair};

fn configs() -> [Config; 2] {
    let with = Config::default();
    [with.clone(), Config { tack: None, ask_frequency: false, ..with }]
}

#[test]
fn a_connection_goes_on_where_every_marked_packet_is_lost() {
    for config in configs() {
        let mut pair = Pair::new(listen());
        pair.marks = Marks::Dropped;
        let id = pair.connect(config);
        pair.run(Duration::from_secs(1));
        pair.transfer(id, 50_000);
        // The client now acknowledges what asks for it, and says nothing else.
        let now = pair.now;
        let stream = pair.server().open(Dir::Uni, now).unwrap();
        let (mut left, mut buffer) = (50_000, vec![0; 60_000]);
        pair.server().write(stream, &buffer[..left]).unwrap();
        for _ in 0..300 {
            pair.run(Duration::from_millis(20));
            if let Ok(Some(n)) = pair.client(id).read(stream, &mut buffer) {
                left -= n;
            }
        }
        assert_eq!(left, 0);
        assert_eq!(pair.server().info().in_flight, 0, "all of it is acknowledged");
        assert!(!pair.client(id).info().is_ecn && !pair.server().info().is_ecn);
    }
}

#[test]
fn marks_are_confirmed_on_a_path_that_keeps_them_and_on_the_next_one() {
    for config in configs() {
        let mut pair = Pair::new(listen());
        pair.marks = Marks::Kept;
        let id = pair.connect(config);
        pair.run(Duration::from_secs(1));
        pair.transfer(id, 50_000);
        assert!(pair.client(id).info().is_ecn && pair.server().info().is_ecn);
        for host in [8, 9] {
            pair.left.push(pair.addresses[0]);
            pair.addresses[0] = ([10, 0, 0, host], 5_000).into();
            let now = pair.now;
            pair.client(id).migrate(now).unwrap();
            pair.run(Duration::from_secs(1));
            pair.transfer(id, 50_000);
            assert!(pair.client(id).info().is_ecn, "{host}: {:?}", pair.client(id).info());
        }
    }
}
