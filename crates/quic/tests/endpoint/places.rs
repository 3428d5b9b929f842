//! How many are let in at a time, how many of them in their handshake, and for how long.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_quic::{Config, ConnectionError, Endpoint, Event, Listen};

use super::listen;
use super::pair::Pair;
use super::tls;

#[test]
fn of_clients_that_nobody_accepts_no_more_than_a_few_are_held() {
    let mut pair = Pair::new(Listen { max_waiting: 2, ..listen() });
    for _ in 0..5 {
        pair.connect(Config::default());
        pair.run(Duration::from_millis(200));
    }
    assert_eq!(pair.ends[1].connections().count(), 2);
    assert!(pair.ends[1].accept().is_some());
    pair.connect(Config::default());
    pair.run(Duration::from_millis(200));
    assert_eq!(pair.ends[1].connections().count(), 3, "there is room again");
}

#[test]
fn of_more_clients_than_are_allowed_nothing_is_heard() {
    let mut pair = Pair::new(Listen { max_connections: 2, ..listen() });
    for _ in 0..5 {
        pair.connect(Config::default());
    }
    pair.run(Duration::from_millis(500));
    assert_eq!(pair.ends[1].connections().count(), 2);
    assert!(pair.ends[1].counters().refused >= 3);
}

#[test]
fn handshakes_that_stand_still_make_room_for_somebody_else() {
    let mut pair = Pair::new(Listen { max_at_once: 4, ..listen() });
    for _ in 0..10 {
        pair.connect(Config::default());
    }
    pair.run(Duration::from_millis(15));
    assert_eq!(pair.ends[1].connections().count(), 4, "of one address");
    // They have all they want: places.
    pair.ends[0] = Endpoint::new([3; 32], None);
    pair.wire.clear();
    pair.left.push(pair.addresses[0]);
    pair.addresses[0] = ([10, 0, 0, 9], 5_000).into();
    let id = pair.connect(Config::default());
    pair.run(Duration::from_millis(100));
    assert!(pair.connected(0), "at once, not when the others are given up");
    assert_eq!(pair.ends[1].counters().displaced, 1);
    pair.transfer(id, 10_000);
}

/// Of a client whose idle timeout does not help, which repeats what it has said and never the rest, or of
/// which nothing is heard any more.
#[test]
fn a_handshake_that_stops_anywhere_is_given_up_after_its_time_whatever_is_still_said() {
    let endless = Config { idle_timeout: None, ..Config::default() };
    let mut given_up = 0;
    for seed in 0..200 {
        let mut rng = Pcg64::seed_from_u64(seed);
        let time = Duration::from_millis(rng.random_range(100..20_000));
        let listen = Listen::new(tls::server(), endless.clone());
        let mut pair = Pair::new(Listen { handshake_time: time, ..listen });
        pair.connect(endless.clone());
        // A handshake takes 30 ms here.
        pair.run(Duration::from_micros(rng.random_range(10_000..32_000)));
        pair.mute = Some(rng.random_range(0..2));
        pair.run(time.mul_f64(0.7));
        let is_under_way = !pair.connected(1) && pair.server().is_handshaking();
        pair.run(time);
        let left = pair.ends[1].connections().count();
        assert_eq!(left, usize::from(!is_under_way), "seed {seed}");
        let is_told =
            |(_, event): &(_, Event)| *event == Event::Closed(ConnectionError::HandshakeTimedOut);
        assert_eq!(pair.events[1].iter().any(is_told), is_under_way, "seed {seed}");
        assert_eq!(pair.ends[1].counters().overdue, u64::from(is_under_way), "seed {seed}");
        given_up += u64::from(is_under_way);
    }
    assert!((20..180).contains(&given_up), "{given_up}");
}
