//! When data leaves, and how much of it at once.

use std::time::Duration;

use tack_quic::streams::{Dir, StreamId};
use tack_quic::{Config, ConnId, Connection};

use super::listen;
use super::pair::Pair;

const ONE_MS: Duration = Duration::from_millis(1);
/// Datagrams that are longer carry data.
const LONG: usize = 1_000;

fn end(pair: &mut Pair, who: usize, id: ConnId) -> &mut Connection {
    if who == 0 { pair.client(id) } else { pair.server() }
}

/// A connection of which `who` has just heard that it is one, and that end's first stream.
fn just_connected(config: &Config, who: usize) -> (Pair, ConnId, StreamId) {
    let mut pair = Pair::new(listen());
    let id = pair.connect(config.clone());
    while !pair.connected(who) {
        pair.run(ONE_MS);
    }
    let now = pair.now;
    let stream = end(&mut pair, who, id).open(Dir::Uni, now).unwrap();
    (pair, id, stream)
}

#[test]
fn the_first_window_is_spread_over_the_round_trip_that_the_handshake_took() {
    for who in 0..2 {
        for tack in [true, false] {
            let tack = Config::default().tack.filter(|_| tack);
            let config = Config { tack, ..Config::default() };
            let (mut pair, id, stream) = just_connected(&config, who);
            end(&mut pair, who, id).write(stream, &[7; 30_000]).unwrap();
            pair.send();
            let at_once =
                pair.wire.iter().filter(|(to, _, _, datagram)| *to != who && datagram.len() > LONG);
            let at_once = at_once.count();
            assert!((1..=5).contains(&at_once), "{at_once} at once from {who}");
        }
    }
}

#[test]
fn a_short_message_leaves_though_the_window_has_no_room_for_a_full_packet() {
    let congestion = "newreno".parse().unwrap();
    let (mut pair, id, stream) = just_connected(&Config { congestion, ..Config::default() }, 0);
    let sent = |pair: &mut Pair| pair.client(id).info().counters.data_packets_sent;
    pair.client(id).write(stream, &[7; 12_300]).unwrap();
    // Not long enough to hear of any of it.
    pair.run(Duration::from_millis(15));
    let info = pair.client(id).info();
    let room = info.congestion.cwnd - info.in_flight;
    assert!((200..1_200).contains(&room) && pair.client(id).unsent(stream) == 0, "{info:?}");
    let before = sent(&mut pair);
    pair.client(id).write(stream, &[7; 50]).unwrap();
    pair.run(Duration::from_millis(2));
    assert_eq!(sent(&mut pair), before + 1);
}

#[test]
fn a_packet_that_acknowledges_is_as_full_as_the_others() {
    let (mut pair, id, stream) = just_connected(&Config::default(), 0);
    pair.client(id).finish(stream).unwrap();
    pair.transfer(id, 100_000);
    let full = usize::from(pair.client(id).info().mtu);
    let now = pair.now;
    let streams = [0, 1].map(|who| end(&mut pair, who, id).open(Dir::Uni, now).unwrap());
    let (mut short, mut all, mut buffer) = (0, 0, vec![0; 70_000]);
    for _ in 0..400 {
        for who in 0..2 {
            let _taken = end(&mut pair, who, id).write(streams[who], &[7; 30_000]).unwrap();
            while let Ok(Some(1..)) = end(&mut pair, who, id).read(streams[1 - who], &mut buffer) {}
        }
        pair.send();
        let lens = pair.wire.iter().map(|(_, _, _, datagram)| datagram.len());
        let lens: Vec<usize> = lens.filter(|len| *len > LONG).collect();
        all += lens.len();
        short += lens.iter().filter(|len| **len + 100 < full).count();
        pair.run(ONE_MS);
    }
    assert!(all > 1_000 && short * 50 < all, "{short} of {all} have room");
}

#[test]
fn the_first_window_does_not_wait_for_a_finished_that_was_lost() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.send();
    pair.mute = Some(0);
    while !pair.connected(0) {
        pair.run(ONE_MS);
    }
    pair.mute = None;
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Uni, now).unwrap();
    pair.client(id).write(stream, &[7; 10_000]).unwrap();
    // Three round trips pass before its timer would say it again.
    pair.run(Duration::from_millis(20));
    assert!(pair.connected(1));
}

#[test]
fn a_client_asks_more_than_four_times_whether_a_server_is_there() {
    let mut pair = Pair::new(listen());
    pair.most = 0;
    pair.connect(Config { idle_timeout: Some(Duration::from_secs(30)), ..Config::default() });
    pair.run(Duration::from_secs(30) + ONE_MS);
    pair.most = usize::MAX;
    pair.run(Duration::from_secs(2));
    assert!(pair.connected(0) && pair.connected(1), "{:?}", pair.events);
}

#[test]
fn a_probe_has_new_data_if_there_is_any_and_else_repeats_one_packet() {
    for (len, resent) in [(60_000, 0), (5_000, 1)] {
        let (mut pair, id, stream) = just_connected(&Config::default(), 0);
        // What the handshake leaves behind is heard of by then.
        pair.run(Duration::from_secs(1));
        pair.client(id).write(stream, &vec![7; len]).unwrap();
        pair.run(ONE_MS);
        pair.mute = Some(1);
        let before = pair.client(id).info();
        while pair.client(id).info().probes == before.probes {
            pair.run(ONE_MS);
        }
        pair.run(ONE_MS);
        let counters = pair.client(id).info().counters;
        assert_eq!(counters.data_packets_resent, resent, "of {len} bytes");
        assert_eq!(counters.timeouts, 0, "it was a probe");
    }
}
