//! Floods of frames that are all sound: what a peer makes us keep is bounded.

use std::time::Duration;

use tack_quic::Config;
use tack_quic::wire::Frame;

use super::met::Met;
use super::puppet::{DATA, home};

/// Bytes beyond the window: four answers, the one that exceeds them, and probes.
const BEYOND: u64 = 6 * 1_200;

/// A client that asks a server of ours from `ports` places in turn, and acknowledges nothing.
fn in_flight_after_challenges(ports: u16) -> (u64, u64) {
    let mut met = Met::server(Config::default());
    for sequence in 1..4 {
        let id = [40 + sequence as u8; 8];
        let token = [sequence as u8; 16];
        met.say(DATA, &[Frame::NewConnectionId { sequence, retire_prior_to: 0, id: &id, token }]);
    }
    for n in 0..3_000_u64 {
        met.at.set_port(home().port() + n as u16 % ports);
        met.say(DATA, &[Frame::PathChallenge(n.to_be_bytes())]);
        met.wait(Duration::from_millis(1));
    }
    assert_eq!(met.breach(), None);
    let info = met.ours.info();
    (info.in_flight, info.congestion.cwnd)
}

#[test]
fn a_peer_that_asks_where_we_are_and_acknowledges_nothing_gets_a_few_answers_beyond_the_window() {
    for ports in [1, 2, 7] {
        let (in_flight, window) = in_flight_after_challenges(ports);
        assert!(in_flight <= window + BEYOND, "{in_flight} bytes in flight, {ports} ports");
    }
}
