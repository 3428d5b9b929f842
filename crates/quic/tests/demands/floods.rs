//! Floods of frames that are all sound: what a peer makes us keep is bounded.

use std::time::Duration;

use tack_quic::wire::Frame;
use tack_quic::{Config, code};

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

/// How a server of ours ends a flood of packets with these frames each, of which it hears no acknowledgment.
fn ends(flood: impl Fn(u64, &mut Met)) -> (Option<u64>, Met) {
    let mut met = Met::server(Config::default());
    for n in 0..3_000 {
        flood(n, &mut met);
        if met.ours.closed().is_some() {
            break;
        }
    }
    (met.breach(), met)
}

#[test]
fn pieces_and_connection_ids_without_end_close_with_the_code_of_what_overflows() {
    let (of_crypto, _) =
        ends(|n, met| met.say(DATA, &[Frame::Crypto { offset: 10 + 2 * n, data: &[1] }]));
    assert_eq!(of_crypto, Some(code::CRYPTO_BUFFER_EXCEEDED));
    let (of_stream, met) = ends(|n, met| {
        met.say(DATA, &[Frame::Stream { id: 0, offset: 10 + 2 * n, fin: false, data: &[1] }]);
    });
    assert_eq!(of_stream, Some(code::INTERNAL_ERROR));
    assert!(met.ours.figures().buffer_memory <= 32 << 10);
    let (of_ids, _) = ends(|n, met| {
        let (sequence, id) = (n + 1, (n + 100).to_be_bytes());
        let (retire_prior_to, token) = (sequence, [n as u8; 16]);
        met.say(DATA, &[Frame::NewConnectionId { sequence, retire_prior_to, id: &id, token }]);
    });
    assert_eq!(of_ids, Some(code::CONNECTION_ID_LIMIT_ERROR));
}

#[test]
fn answers_that_retired_connection_ids_ask_for_stay_within_the_window() {
    let (breach, met) = ends(|n, met| met.say(DATA, &[Frame::RetireConnectionId(n + 1)]));
    let info = met.ours.info();
    assert!(breach.is_none_or(|code| code == code::PROTOCOL_VIOLATION), "{breach:?}");
    assert!(info.in_flight <= info.congestion.cwnd + BEYOND, "{} bytes", info.in_flight);
}

#[test]
fn streams_that_begin_far_from_their_start_take_no_more_memory_than_all_may_send() {
    let limits = Config::default();
    let (_, met) = ends(|n, met| {
        let id = 4 * (n % limits.max_streams_bidi);
        met.say(DATA, &[Frame::Stream { id, offset: 3_900, fin: false, data: &[1] }]);
    });
    // What is reserved for a stream is rounded up to a power of two.
    assert!(met.ours.figures().buffer_memory <= 2 * limits.initial_connection_window);
}
