//! Endpoints: who is let in, who is told what, and what connections survive.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tack_quic::streams::{Dir, StreamEvent, StreamId};
use tack_quic::wire::{Frame, Reader, Version};
use tack_quic::{Config, ConnectionError, Endpoint, Event, Listen, LossReason, PacketKind, What};
use tack_units::Instant;

use pair::Pair;

mod blocked;
mod datagrams;
mod early;
mod ecn;
mod pace;
mod pair;
mod places;
mod strangers;
#[allow(unreachable_pub, reason = "shared with the conversations, by its path")]
#[path = "../conversation/tls.rs"]
mod tls;

fn listen() -> Listen {
    Listen { max_connections: 100, ..Listen::new(tls::server(), Config::default()) }
}

#[test]
fn a_client_is_let_in_by_both_versions_and_speaks_tack() {
    for version in [Version::V1, Version::V2] {
        let mut pair = Pair::new(listen());
        let id = pair.connect(Config { version, ..Config::default() });
        pair.run(Duration::from_secs(1));
        assert!(pair.connected(0) && pair.connected(1), "{version:?}");
        assert!(pair.client(id).is_tack() && pair.server().is_tack());
        assert_eq!(pair.server().version(), version);
        pair.transfer(id, 300_000);
        assert!(pair.client(id).info().mtu > 1_400, "the path takes more than the least");
    }
}

#[test]
fn a_client_shows_where_it_is_when_many_come() {
    let mut pair = Pair::new(Listen { max_handshakes: 0, ..listen() });
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    assert!(pair.connected(0) && pair.connected(1));
    assert_eq!(pair.ends[1].counters().retries, 1);
    pair.transfer(id, 10_000);
}

#[test]
fn a_client_that_was_there_before_shows_its_token_once_and_from_its_address_alone() {
    let mut pair = Pair::new(Listen { max_handshakes: 0, ..listen() });
    let retries_of_next = |pair: &mut Pair| {
        pair.left.push(pair.addresses[0]);
        let before = pair.ends[1].counters().retries;
        let id = pair.connect(Config::default());
        pair.run(Duration::from_secs(1));
        pair.transfer(id, 10_000);
        pair.ends[1].counters().retries - before
    };
    assert_eq!(retries_of_next(&mut pair), 1, "nobody knows it");
    pair.addresses[0].set_port(5_001);
    assert_eq!(retries_of_next(&mut pair), 0, "another port of its address");
    pair.addresses[0] = ([10, 0, 0, 9], 5_001).into();
    assert_eq!(retries_of_next(&mut pair), 1, "another address");
    assert_eq!(retries_of_next(&mut pair), 0);
    // A server that has forgotten its secret asks again, and no more than that.
    let listen = Listen { max_handshakes: 0, ..listen() };
    pair.ends[1] = Endpoint::new([7; 32], Some(listen));
    assert_eq!(retries_of_next(&mut pair), 1);
}

#[test]
fn a_second_connection_resumes_the_session_of_the_first() {
    let mut pair = Pair::new(listen());
    let tls = tls::client();
    for round in 0..2 {
        let (name, at) = (tls::NAME.try_into().unwrap(), pair.addresses[1]);
        let connected = pair.ends[0].connect(at, name, tls.clone(), Config::default(), pair.now);
        let id = connected.unwrap();
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.client(id).is_resumed(), round == 1);
        assert_eq!(pair.server().is_resumed(), round == 1);
        pair.transfer(id, 10_000);
    }
}

#[test]
fn a_session_is_resumed_in_its_own_version_alone() {
    // [RFC 9369 §5]; the client has the newest ticket, of whichever version.
    let (mut pair, tls) = (Pair::new(listen()), tls::client());
    let (v1, v2) = (Version::V1, Version::V2);
    for (version, resumes) in [(v1, false), (v1, true), (v2, false), (v2, true), (v1, false)] {
        let (name, at) = (tls::NAME.try_into().unwrap(), pair.addresses[1]);
        let config = Config { version, ..Config::default() };
        let id = pair.ends[0].connect(at, name, tls.clone(), config, pair.now).unwrap();
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.client(id).version(), version);
        assert_eq!(pair.client(id).is_resumed(), resumes, "{version:?}");
        pair.transfer(id, 10_000);
    }
}

#[test]
fn a_server_that_forgot_a_connection_resets_it() {
    let mut pair = Pair::new(listen());
    let server =
        |secret| Endpoint::new([secret; 32], Some(listen())).with_reset_key(&[9; 32], b"here");
    pair.ends[1] = server(2);
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    // It starts anew: only what its resets come from is the same.
    pair.ends[1] = server(3);
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Uni, now).unwrap();
    pair.client(id).write(stream, &[7; 100]).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.events[0].last(), Some(&(id, Event::Closed(ConnectionError::Reset))));
    assert_eq!(pair.ends[0].connections().count(), 0);
}

#[test]
fn a_connection_that_is_left_ends_when_what_was_written_has_arrived() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Bidi, now).unwrap();
    assert_eq!(pair.client(id).write(stream, &[7; 20_000]), Ok(20_000));
    pair.client(id).finish(stream).unwrap();
    pair.client(id).leave(now);
    pair.ends[0].release(id, now);
    pair.ends[1].accept().unwrap();
    pair.run(Duration::from_secs(1));
    let (mut got, mut buffer) = (0, [0; 70_000]);
    while let Ok(Some(n @ 1..)) = pair.server().read(stream, &mut buffer) {
        got += n;
    }
    assert_eq!(got, 20_000);
    let closed = ConnectionError::ClosedByApplication { code: 0, reason: Vec::new() };
    assert_eq!(pair.server().closed(), Some(&closed));
    assert_eq!(pair.ends[0].connections().count(), 0);
}

#[test]
fn a_connection_that_is_left_does_not_wait_for_ever_for_a_peer_that_reads_nothing() {
    let config = Config { initial_window: 50_000, max_window: 50_000, ..Config::default() };
    let mut pair = Pair::new(Listen::new(tls::server(), config));
    let keep_alive = Some(Duration::from_secs(5));
    let id = pair.connect(Config { keep_alive, ..Config::default() });
    pair.run(Duration::from_secs(1));
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Bidi, now).unwrap();
    assert_eq!(pair.client(id).write(stream, &[7; 70_000]), Ok(70_000), "more than is taken there");
    pair.client(id).leave(now);
    pair.ends[0].release(id, now);
    pair.run(Duration::from_secs(50));
    assert_eq!(pair.ends[0].connections().count(), 1);
    pair.run(Duration::from_secs(15));
    assert_eq!(pair.ends[0].connections().count(), 0);
}

#[test]
fn a_connection_survives_a_nat_that_rebinds() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    pair.transfer(id, 50_000);
    for port in [6_000, 7_000] {
        pair.left.push(pair.addresses[0]);
        pair.addresses[0] = ([10, 0, 0, 1], port).into();
        pair.wire.clear();
        // What was on its way to the old port is lost; the server learns of the new one from the client.
        let now = pair.now;
        let stream = pair.client(id).open(Dir::Uni, now).unwrap();
        pair.client(id).write(stream, b"here").unwrap();
        pair.transfer(id, 50_000);
        assert_eq!(pair.server().remote(), pair.addresses[0]);
    }
}

#[test]
fn keys_are_updated_by_either_side_while_data_flows() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let mut updates = 0;
    for round in 0..10 {
        pair.transfer(id, 30_000);
        let conn = if round % 2 == 0 { pair.client(id) } else { pair.server() };
        updates += u32::from(conn.update_keys());
    }
    // A server that only acknowledges is not acknowledged itself, and must not begin another.
    assert!(updates >= 5, "{updates}");
    pair.transfer(id, 30_000);
}

#[test]
fn frames_of_tack_stand_behind_all_others_in_their_packets() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    pair.ends.iter_mut().for_each(Endpoint::look);
    pair.transfer(id, 400_000);
    // Losses end the search for bandwidth, and with that the frequency changes.
    pair.one_lost_in = Some(50);
    pair.transfer(id, 400_000);
    // And the other way, so that acknowledgments meet data.
    let now = pair.now;
    let stream = pair.server().open(Dir::Uni, now).unwrap();
    pair.server().write(stream, &[7; 100_000]).unwrap();
    pair.transfer(id, 400_000);
    let (mut packets, mut with_others) = (0, [0; 3]);
    let seen = pair.ends.iter_mut().flat_map(|end| std::iter::from_fn(|| end.poll_seen()));
    for seen in seen {
        let What::Sent(packet) = seen.what else { continue };
        let mut reader = Reader::new(&packet.frames);
        let (mut of_tack, mut others) = ([false; 3], 0);
        while !reader.is_empty() {
            match Frame::parse(&mut reader).unwrap() {
                Frame::Report(_) | Frame::Loss(_) => of_tack[0] = true,
                Frame::Frequency(_) => of_tack[1] = true,
                Frame::Stamp(_) => of_tack[2] = true,
                Frame::Padding(_) => {}
                other => {
                    assert_eq!(of_tack, [false; 3], "{other:?} stands behind it");
                    others += 1;
                }
            }
        }
        packets += usize::from(of_tack.contains(&true));
        for (count, has) in with_others.iter_mut().zip(of_tack) {
            *count += usize::from(has && others > 0);
        }
    }
    assert!(packets > 500 && with_others.iter().all(|n| *n > 0), "{packets} {with_others:?}");
}

#[test]
fn whoever_looks_on_hears_of_each_packet_that_was_lost_and_of_no_other() {
    for tack in [true, false] {
        let config = || {
            let usual = Config::default();
            Config { tack: usual.tack.filter(|_| tack), ..usual }
        };
        let mut pair =
            Pair::new(Listen { max_connections: 9, ..Listen::new(tls::server(), config()) });
        let id = pair.connect(config());
        pair.run(Duration::from_secs(1));
        pair.ends.iter_mut().for_each(Endpoint::look);
        pair.one_lost_in = Some(37);
        pair.transfer(id, 1_000_000);
        pair.one_lost_in = None;
        pair.transfer(id, 10_000);
        let [client, server] = &mut pair.ends;
        let (mut sent, mut lost) = (BTreeSet::new(), BTreeMap::new());
        for seen in std::iter::from_fn(|| client.poll_seen()) {
            match seen.what {
                // An acknowledgment that is lost is missed by nobody.
                What::Sent(packet) if has_stream(&packet.frames) => {
                    sent.insert(packet.number);
                }
                What::Lost(PacketKind::OneRtt, number, reason) => {
                    assert_eq!(lost.insert(number, reason), None, "{number} is lost twice");
                }
                _ => {}
            }
        }
        for seen in std::iter::from_fn(|| server.poll_seen()) {
            if let What::Received(packet) = seen.what {
                sent.remove(&packet.number);
                assert!(!lost.contains_key(&packet.number), "{} has arrived", packet.number);
            }
        }
        assert!(lost.len() > 10, "{lost:?}");
        assert!(sent.iter().all(|number| lost.contains_key(number)), "{sent:?} {lost:?}");
        let is_told = |reason: &LossReason| (*reason == LossReason::Told) == tack;
        assert!(lost.values().all(is_told), "{lost:?}");
    }
}

fn has_stream(frames: &[u8]) -> bool {
    let mut reader = Reader::new(frames);
    std::iter::from_fn(|| (!reader.is_empty()).then(|| Frame::parse(&mut reader).unwrap()))
        .any(|frame| matches!(frame, Frame::Stream { .. }))
}

#[test]
fn what_arrived_is_read_after_the_end_of_a_connection_that_is_held() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let held = pair.ends[1].accept().unwrap();
    assert_eq!(pair.ends[1].accept(), None);
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Uni, now).unwrap();
    pair.client(id).write(stream, b"last words").unwrap();
    pair.run(Duration::from_millis(100));
    pair.client(id).close(7, b"", now);
    pair.run(Duration::from_secs(10));
    assert!(pair.ends.iter().all(Endpoint::is_idle));
    let mut buffer = [0; 100];
    assert_eq!(pair.server().accept_stream(Dir::Uni), Some(stream));
    assert_eq!(pair.server().read(stream, &mut buffer), Ok(Some(10)));
    assert!(pair.server().closed().is_some());
    let now = pair.now;
    pair.ends[1].release(held, now);
    assert_eq!(pair.ends[1].connections().count(), 0);
}

#[test]
fn a_first_packet_that_cannot_be_opened_is_no_connection() {
    let mut pair = Pair::new(Listen { max_connections: 1, ..listen() });
    let mut noise = vec![0xc0, 0, 0, 0, 1, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0x44, 0xb0];
    noise.resize(1_200, 7);
    let from = ([10, 0, 0, 9], 9).into();
    for port in 0..100 {
        noise[6] = port;
        pair.ends[1].handle(from, 0, &mut noise.clone(), Instant::ZERO);
    }
    assert_eq!(pair.ends[1].connections().count(), 0);
    pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    assert!(pair.connected(0) && pair.connected(1));
    assert_eq!(pair.ends[1].counters().accepted, 1);
}

#[test]
fn a_connection_that_is_kept_alive_outlasts_a_silence() {
    let mut pair = Pair::new(listen());
    let keep_alive = Some(Duration::from_secs(10));
    let id = pair.connect(Config { keep_alive, ..Config::default() });
    pair.run(Duration::from_secs(1));
    let before = pair.client(id).info().counters.packets_sent;
    pair.run(Duration::from_secs(300));
    assert!(pair.client(id).is_established() && pair.server().is_established());
    let sent = pair.client(id).info().counters.packets_sent - before;
    assert!((25..=65).contains(&sent), "{sent}");
    pair.transfer(id, 10_000);
}

#[test]
fn a_close_is_heard_with_its_code_and_both_ends_forget() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let now = pair.now;
    pair.client(id).close(7, b"enough", now);
    pair.run(Duration::from_secs(5));
    let (code, reason) = (7, b"enough".to_vec());
    let closed = Event::Closed(ConnectionError::ClosedByApplication { code, reason });
    assert_eq!(pair.events[1].last().map(|(_, event)| event), Some(&closed));
    assert!(pair.ends.iter().all(|end| end.connections().count() == 0));
    assert!(pair.ends.iter().all(|end| end.deadline().is_none()));
}

#[test]
fn silence_ends_a_connection_after_the_shorter_of_both_patiences() {
    let mut pair = Pair::new(listen());
    let idle_timeout = Some(Duration::from_secs(5));
    let id = pair.connect(Config { idle_timeout, ..Config::default() });
    pair.run(Duration::from_secs(1));
    pair.run(Duration::from_secs(3));
    assert!(pair.client(id).is_established());
    pair.run(Duration::from_secs(5));
    for who in 0..2 {
        let last = pair.events[who].last().map(|(_, event)| event);
        assert_eq!(last, Some(&Event::Closed(ConnectionError::TimedOut)), "{who}");
    }
}

#[test]
fn a_stream_that_is_given_up_or_not_wanted_is_known_to_be_at_the_other_end() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let now = pair.now;
    let streams: Vec<StreamId> =
        (0..2).map(|_| pair.client(id).open(Dir::Uni, now).unwrap()).collect();
    for stream in &streams {
        pair.client(id).write(*stream, &[7; 1_000]).unwrap();
    }
    pair.run(Duration::from_millis(100));
    pair.client(id).reset(streams[0], 5).unwrap();
    pair.server().stop(streams[1], 6).unwrap();
    pair.run(Duration::from_millis(200));
    let mut buffer = [0; 10];
    let read = pair.server().read(streams[0], &mut buffer);
    assert_eq!(read, Err(tack_quic::UseError::Reset(5)));
    let stopped = Event::Stream(StreamEvent::Stopped(streams[1]));
    assert!(pair.events[0].contains(&(id, stopped)));
    assert_eq!((pair.client(id).open_streams(), pair.server().open_streams()), (0, 0));
}

#[test]
fn a_server_sends_no_more_than_three_times_what_came_before_it_knows_the_address() {
    let mut pair = Pair::new(listen());
    pair.connect(Config::default());
    pair.send();
    pair.mute = Some(0);
    let came: usize = pair.wire.iter().map(|(.., datagram)| datagram.len()).sum();
    pair.run(Duration::from_secs(20));
    let went = pair.sent[1];
    assert!(went > 0 && went <= 3 * came, "{went} for {came}");
}

#[test]
fn a_write_that_fits_a_packet_leaves_in_one() {
    for (interval, tack) in [(25, true), (300, true), (300, false), (2_000, true)] {
        let mut pair = Pair::new(listen());
        let tack = tack.then(tack_quic::Config::default).and_then(|config| config.tack);
        let id = pair.connect(Config { tack, ..Config::default() });
        pair.run(Duration::from_secs(1));
        let now = pair.now;
        let stream = pair.client(id).open(Dir::Uni, now).unwrap();
        let mut sent = Vec::new();
        for _ in 0..400 {
            assert_eq!(pair.client(id).write(stream, &[7; 1_400]), Ok(1_400));
            pair.run(Duration::from_millis(interval));
            let mut buffer = [0; 10_000];
            while let Ok(Some(1..)) = pair.server().read(stream, &mut buffer) {}
            sent.push(pair.client(id).info().counters.data_packets_sent);
        }
        let packets = sent[399] - sent[39];
        // Now and then an acknowledgment has to go along.
        assert!(packets <= 360 + 10, "{packets} for 360 writes, {interval} ms apart");
        // Two before it is known how long packets may be, and one that acknowledges.
        assert!(sent[9] <= 13, "{:?} for the first 10, {interval} ms apart", &sent[..10]);
    }
}

#[test]
fn timeouts_far_apart_say_nothing_of_the_size_of_packets() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    pair.transfer(id, 50_000);
    assert_eq!(pair.client(id).info().mtu, 1_452);
    for _ in 0..4 {
        let (now, before) = (pair.now, pair.client(id).info().counters.timeouts);
        let stream = pair.client(id).open(Dir::Uni, now).unwrap();
        pair.client(id).write(stream, &[7; 1_000]).unwrap();
        pair.mute = Some(0);
        for _ in 0..1_000 {
            pair.run(Duration::from_millis(10));
            if pair.client(id).info().counters.timeouts > before {
                break;
            }
        }
        assert_eq!(pair.client(id).info().counters.timeouts, before + 1);
        pair.mute = None;
        pair.run(Duration::from_secs(2));
    }
    assert_eq!(pair.client(id).info().mtu, 1_452);
}
