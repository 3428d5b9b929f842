//! What is said before the handshake is done (0-RTT).

use std::collections::BTreeMap;

use tack_quic::ack_frequency::{Frame as AckFrequency, Request};
use tack_quic::streams::{Dir, StreamId};
use tack_quic::wire::{Ack, Frame, Parameters};
use tack_quic::{Config, Early, Event, UseError, code};
use tack_units::Instant;

use super::met::Met;
use super::puppet::{DATA, EARLY, emitted, id, usual};
use super::tls::Sessions;

fn takes(max_early_data: u64) -> Config {
    Config { max_early_data, ..Config::default() }
}

/// Our server has met a client before, which remembers it and begins again.
fn server_again(config: Config) -> Met {
    let (sessions, scid) = (Sessions::early(), id(2));
    let parameters = emitted(&Parameters { initial_scid: Some(scid), ..usual() });
    let meet = || Met::server_of(scid, config.clone(), parameters.clone(), sessions.clone());
    let mut before = meet();
    before.exchange();
    let mut met = meet();
    for packet in met.puppet.speak() {
        met.deliver(packet);
    }
    met
}

/// Our client has met a server before, whose parameters were the usual ones, and begins again with one
/// whose parameters differ by `change`, and that knows it or has forgotten it.
fn client_again(knows: bool, change: impl FnOnce(&mut Parameters)) -> Met {
    let sessions = Sessions::early();
    let mut before = Met::client_of(Config::default(), |_| {}, &sessions);
    before.exchange();
    let server = if knows { sessions.server.clone() } else { Sessions::early().server };
    Met::client_of(Config::default(), change, &Sessions { server, ..sessions })
}

fn stream(id: u64, offset: u64, data: &[u8]) -> Frame<'_> {
    Frame::Stream { id, offset, fin: false, data }
}

/// What a server of ours has read of the client's first stream.
fn read(met: &mut Met) -> Vec<u8> {
    let first = StreamId::new(rustls::Side::Client, Dir::Bidi, 0);
    let mut buffer = [0; 4_000];
    match met.ours.read(first, &mut buffer) {
        Ok(Some(n)) => buffer[..n].to_vec(),
        Ok(None) | Err(UseError::NoStream) => Vec::new(),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_is_said_early_is_read_before_the_handshake_is_done() {
    let mut met = server_again(takes(10_000));
    assert_eq!(met.ours.early(), Early::Accepted);
    let events: Vec<_> = std::iter::from_fn(|| met.ours.poll_event()).collect();
    assert_eq!(events, [Event::Early]);
    met.say(EARLY, &[stream(0, 0, b"early")]);
    assert!(met.ours.is_handshaking());
    assert_eq!(read(&mut met), b"early");
    met.exchange();
    met.say(DATA, &[stream(0, 5, b" and late")]);
    assert!(met.ours.is_established());
    assert_eq!(read(&mut met), b" and late");
}

#[test]
fn a_frame_of_1rtt_packets_in_a_0rtt_packet_is_a_breach() {
    let ack = Ack { delay: 0, ranges: vec![0..1; 1], ecn: None };
    let request = Request {
        ack_eliciting_threshold: 1,
        max_ack_delay: core::time::Duration::from_millis(25),
        reordering_threshold: 1,
    };
    let frames = [
        Frame::Ack(ack),
        Frame::Crypto { offset: 0, data: b"x" },
        Frame::HandshakeDone,
        Frame::NewToken(b"token"),
        Frame::PathResponse([1; 8]),
        Frame::RetireConnectionId(0),
        Frame::AckFrequency(AckFrequency { sequence: 0, request }),
        Frame::ImmediateAck,
        Frame::Stamp(7),
    ];
    for frame in frames {
        let mut met = server_again(takes(10_000));
        met.say(EARLY, core::slice::from_ref(&frame));
        assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION), "{frame:?}");
    }
}

#[test]
fn what_is_said_early_keeps_to_the_limits_of_what_is_said_later() {
    let limit = Config::default().initial_window;
    let streams = Config::default().max_streams_bidi;
    let cases = [
        (stream(0, limit, b"x"), code::FLOW_CONTROL_ERROR),
        (stream(4 * streams, 0, b"x"), code::STREAM_LIMIT_ERROR),
        (stream(1, 0, b"x"), code::STREAM_STATE_ERROR),
    ];
    for (frame, expected) in cases {
        let mut met = server_again(takes(10_000));
        met.say(EARLY, core::slice::from_ref(&frame));
        assert_eq!(met.breach(), Some(expected), "{frame:?}");
    }
}

#[test]
fn of_what_is_said_early_no_more_is_taken_than_is_allowed() {
    let mut met = server_again(takes(1_500));
    let before = met.ours.info().counters;
    for n in 0..10_u8 {
        met.say(EARLY, &[stream(0, 300 * u64::from(n), &[n; 300])]);
    }
    let after = met.ours.info().counters;
    let taken = after.packets_received - before.packets_received;
    assert_eq!((taken, after.packets_dropped - before.packets_dropped), (4, 6));
    assert_eq!(read(&mut met).len(), 1_200);
    met.exchange();
    met.listen();
    // What was dropped is not acknowledged, and may come again.
    let covers = |frame: &Frame<'_>| match frame {
        Frame::Ack(ack) => ack.ranges.iter().any(|range| range.contains(&4)),
        _ => false,
    };
    assert!(!met.heard(covers));
    met.say(DATA, &[stream(0, 1_200, &[4; 300])]);
    assert_eq!(read(&mut met), [4; 300]);
}

#[test]
fn a_server_that_takes_nothing_early_drops_it_and_does_the_handshake() {
    let mut met = server_again(takes(0));
    assert_eq!(met.ours.early(), Early::None);
    let before = met.ours.info().counters.packets_received;
    let ack = Ack { delay: 0, ranges: vec![0..1; 1], ecn: None };
    met.say(EARLY, &[stream(0, 0, b"early")]);
    met.say(EARLY, &[Frame::Ack(ack)]);
    assert_eq!(met.ours.info().counters.packets_received, before);
    assert_eq!((read(&mut met), met.breach()), (Vec::new(), None));
    met.exchange();
    assert!(met.ours.is_established());
}

#[test]
fn nothing_is_taken_early_after_a_packet_of_the_handshake_s_end() {
    let mut met = server_again(takes(10_000));
    met.exchange();
    met.say(DATA, &[Frame::Ping]);
    let before = met.ours.info().counters.packets_received;
    met.say(EARLY, &[stream(0, 0, b"late")]);
    assert_eq!(met.ours.info().counters.packets_received, before);
    assert_eq!((read(&mut met), met.breach()), (Vec::new(), None));
}

#[test]
fn a_server_that_takes_it_early_and_allows_less_than_before_is_in_breach() {
    type Change = fn(&mut Parameters);
    let less: [(&str, Change); 6] = [
        ("fewer connection IDs", |it| it.active_cid_limit = 3),
        ("less data", |it| it.max_data -= 1),
        ("less data of a stream", |it| it.max_stream_data_bidi_remote -= 1),
        ("less data one way", |it| it.max_stream_data_uni -= 1),
        ("fewer streams", |it| it.max_streams_bidi -= 1),
        ("fewer streams one way", |it| it.max_streams_uni -= 1),
    ];
    for (what, change) in less {
        let mut met = client_again(true, change);
        assert_eq!(met.ours.early(), Early::Open);
        met.exchange();
        assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION), "{what}");
        // Who has forgotten the client may allow what it likes.
        let mut met = client_again(false, change);
        met.exchange();
        assert_eq!((met.breach(), met.ours.early()), (None, Early::Rejected), "{what}");
    }
    let mut met = client_again(true, |it| it.max_data += 1);
    met.exchange();
    assert_eq!((met.breach(), met.ours.early()), (None, Early::Accepted));
}

/// All that ours has said of streams in packets of this kind: stream, offset, length.
fn said(met: &Met, kind: usize) -> Vec<(u64, u64, usize)> {
    let mut found = Vec::new();
    for (_, frames) in met.puppet.payloads.iter().filter(|(of, _)| *of == kind) {
        let mut reader = tack_quic::wire::Reader::new(frames);
        while !reader.is_empty() {
            if let Frame::Stream { id, offset, data, .. } = Frame::parse(&mut reader).unwrap() {
                found.push((id, offset, data.len()));
            }
        }
    }
    found
}

/// How far ours has said each stream, of which it left out nothing.
fn reached(met: &Met) -> BTreeMap<u64, u64> {
    let mut reached = BTreeMap::new();
    for (id, offset, len) in said(met, DATA) {
        assert_eq!(reached.insert(id, offset + len as u64).unwrap_or(0), offset);
    }
    reached
}

#[test]
fn what_was_not_taken_early_is_said_again_as_far_as_the_limits_of_now_go() {
    let mut met = client_again(false, |it| {
        (it.max_streams_bidi, it.max_stream_data_bidi_remote, it.max_data) = (2, 600, 1_000);
    });
    for _ in 0..3 {
        let id = met.ours.open(Dir::Bidi, Instant::ZERO).unwrap();
        assert_eq!(met.ours.write(id, &[7; 900]), Ok(900));
    }
    met.listen();
    // Whoever does not know the client cannot read it.
    assert_eq!(said(&met, EARLY), []);
    assert!(met.sent.iter().map(|(_, len)| len).sum::<usize>() > 2_700, "{:?}", met.sent);
    met.exchange();
    assert_eq!(reached(&met), BTreeMap::from([(0, 600), (4, 400)]));
    met.say(DATA, &[Frame::MaxData(10_000), Frame::MaxStreamData { id: 4, most: 900 }]);
    assert_eq!(reached(&met), BTreeMap::from([(0, 600), (4, 900)]));
    met.say(DATA, &[Frame::MaxStreams { bidi: true, most: 3 }]);
    assert_eq!(reached(&met), BTreeMap::from([(0, 600), (4, 900), (8, 600)]));
    assert_eq!(met.breach(), None);
}

#[test]
fn what_was_taken_early_is_not_said_again_and_has_no_frame_of_1rtt_packets() {
    let mut met = client_again(true, |_| {});
    let id = met.ours.open(Dir::Bidi, Instant::ZERO).unwrap();
    assert_eq!(met.ours.write(id, &[7; 900]), Ok(900));
    met.ours.send_datagram(b"none are taken").unwrap_err();
    met.listen();
    assert_eq!(said(&met, EARLY), [(0, 0, 900)]);
    let tells = |frame: &Frame<'_>| matches!(frame, Frame::Ack(_) | Frame::Crypto { .. });
    let of_early = met.puppet.payloads.iter().filter(|(kind, _)| *kind == EARLY);
    for (_, frames) in of_early {
        let mut reader = tack_quic::wire::Reader::new(frames);
        while !reader.is_empty() {
            assert!(!tells(&Frame::parse(&mut reader).unwrap()));
        }
    }
    met.exchange();
    let acknowledgment = met.puppet.acknowledgment();
    met.say(DATA, &[acknowledgment]);
    assert_eq!((said(&met, DATA), met.ours.early()), (Vec::new(), Early::Accepted));
    assert_eq!(met.breach(), None);
}

#[test]
fn an_acknowledgment_of_what_was_said_early_does_not_confirm_the_handshake() {
    let mut met = client_again(true, |_| {});
    let id = met.ours.open(Dir::Bidi, Instant::ZERO).unwrap();
    met.ours.write(id, b"early").unwrap();
    met.listen();
    let of_early = met.puppet.acknowledgment();
    met.exchange();
    met.say(DATA, &[of_early]);
    // Keys may be updated only once it is confirmed.
    assert!(met.ours.is_established() && !met.ours.can_migrate() && !met.ours.update_keys());
    met.ours.write(id, b" and late").unwrap();
    met.listen();
    assert!(met.settle_and_update());
}
