//! What a server says to whom it does not know.

use std::time::Duration;

use tack_quic::{Config, ConnectionError, Event, Listen, code};
use tack_units::Instant;

use super::listen;
use super::pair::Pair;

#[test]
fn a_client_that_comes_back_too_late_with_a_retry_s_token_is_told_so() {
    let mut pair = Pair::new(Listen { max_handshakes: 0, ..listen() });
    let id = pair.connect(Config::default());
    pair.run(Duration::from_millis(25));
    let (_, _, _, mut datagram) = pair.wire.pop().expect("with its token");
    // Somebody holds that up, and the client is heard no more.
    pair.mute = Some(0);
    pair.run(Duration::from_millis(15_100));
    let (from, now) = (pair.addresses[0], pair.now);
    pair.ends[1].handle(from, 0, &mut datagram, now);
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.ends[1].counters().retries, 1, "it would not heed another");
    assert_eq!(pair.ends[1].connections().count(), 0);
    let expected = ConnectionError::ClosedByPeer {
        code: code::INVALID_TOKEN,
        reason: b"the token is too old".to_vec(),
    };
    assert_eq!(pair.events[0].last(), Some(&(id, Event::Closed(expected))));
}

#[test]
fn another_version_is_answered_with_ours_and_noise_with_nothing() {
    let mut pair = Pair::new(listen());
    let mut datagram = vec![0xc0, 9, 9, 9, 9, 1, 7, 1, 8];
    datagram.resize(1_200, 0);
    let from = pair.addresses[0];
    pair.ends[1].handle(from, 0, &mut datagram.clone(), Instant::ZERO);
    pair.ends[1].handle(from, 0, &mut datagram[..1_199], Instant::ZERO);
    pair.ends[1].handle(from, 0, &mut [0; 1_200], Instant::ZERO);
    let mut answer = Vec::new();
    assert!(pair.ends[1].poll_transmit(&mut answer, 20_000, Instant::ZERO).is_some());
    assert_eq!(answer[..9], [0xc0, 0, 0, 0, 0, 1, 8, 1, 7]);
    assert!(pair.ends[1].poll_transmit(&mut answer, 20_000, Instant::ZERO).is_none());
}

#[test]
fn another_version_with_longer_connection_ids_than_ours_is_answered_as_well() {
    let mut pair = Pair::new(listen());
    for [to, by] in [[21, 8], [8, 21], [255, 255]] {
        let mut datagram = vec![0xc0, 9, 9, 9, 9];
        for len in [to, by] {
            datagram.push(len);
            datagram.extend(vec![len; len.into()]);
        }
        datagram.resize(1_200, 0);
        pair.ends[1].handle(pair.addresses[0], 0, &mut datagram, Instant::ZERO);
        let mut answer = Vec::new();
        assert!(pair.ends[1].poll_transmit(&mut answer, 20_000, Instant::ZERO).is_some());
        let (first, second) = answer[5..].split_at(1 + usize::from(by));
        assert!(first.iter().all(|byte| *byte == by));
        assert!(second[..=usize::from(to)].iter().all(|byte| *byte == to));
        assert_eq!(second[1 + usize::from(to)..], [0, 0, 0, 1, 0x6b, 0x33, 0x43, 0xcf]);
    }
}
