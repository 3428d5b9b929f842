//! What an application asks of a connection, at the edge of what can be said.

use std::time::Duration;

use tack_quic::streams::{Dir, StreamEvent, StreamId};
use tack_quic::wire::{Frame, MAX_VARINT, Reader, Sender};
use tack_quic::{Config, Event, UseError};

use super::met::Met;
use super::puppet::DATA;

/// A stream of ours with so many bytes written.
fn stream(met: &mut Met, bytes: usize) -> StreamId {
    let id = met.ours.open(Dir::Uni, met.now).unwrap();
    assert_eq!(met.ours.write(id, &vec![7; bytes]), Ok(bytes));
    id
}

/// The streams that ours has sent something of, in that order.
fn spoken(met: &Met) -> Vec<u64> {
    let mut ids = Vec::new();
    for (_, payload) in &met.puppet.payloads {
        let mut reader = Reader::new(payload);
        while let Ok(frame) = Frame::parse(&mut reader) {
            ids.extend(if let Frame::Stream { id, .. } = frame { Some(id) } else { None });
        }
    }
    ids
}

fn acknowledge(met: &mut Met) {
    let acknowledgment = met.puppet.acknowledgment();
    met.say(DATA, &[acknowledgment]);
}

#[test]
fn a_stream_whose_priority_rises_or_falls_while_it_waits_has_another_place_in_line() {
    for (priorities, first) in [([0, 1], 1), ([-1, 0], 1), ([1, 0], 0)] {
        let mut met = Met::server(Config::default());
        let ids = [40_000; 2].map(|bytes| stream(&mut met, bytes));
        for (id, priority) in ids.into_iter().zip(priorities) {
            met.ours.set_priority(id, priority).unwrap();
        }
        met.listen();
        let spoken = spoken(&met);
        assert!(spoken.len() > 3, "{spoken:?}");
        assert!(spoken.iter().all(|id| *id == ids[first].number()), "{priorities:?}: {spoken:?}");
    }
}

#[test]
fn codes_beyond_what_can_be_told_are_told_as_the_greatest() {
    let mut met = Met::server(Config::default());
    met.say(DATA, &[Frame::Stream { id: 2, offset: 0, fin: false, data: b"text" }]);
    let id = stream(&mut met, 10);
    met.ours.reset(id, u64::MAX).unwrap();
    let theirs = met.ours.accept_stream(Dir::Uni).unwrap();
    met.ours.stop(theirs, u64::MAX).unwrap();
    met.listen();
    met.ours.close(u64::MAX, b"", met.now);
    met.listen();
    let told = |frame: &Frame<'_>| match frame {
        Frame::ResetStream { code, .. } | Frame::StopSending { code, .. } => Some(*code),
        Frame::Close(close) => Some(close.code),
        _ => None,
    };
    for wanted in ["ResetStream", "StopSending", "Close"] {
        let is = |frame: &Frame<'_>| format!("{frame:?}").starts_with(wanted);
        assert!(met.heard(|frame| is(frame) && told(frame) == Some(MAX_VARINT)), "{wanted}");
    }
}

#[test]
fn limits_beyond_what_can_be_told_are_the_greatest() {
    let config = Config {
        initial_window: u64::MAX,
        max_window: u64::MAX,
        initial_connection_window: u64::MAX,
        max_connection_window: u64::MAX,
        max_streams_bidi: u64::MAX,
        max_streams_uni: u64::MAX,
        ..Config::default()
    };
    let mut met = Met::server(config);
    assert_eq!(met.puppet.peer_parameters(Sender::Server).max_streams_uni, 1 << 60);
    met.say(DATA, &[Frame::Stream { id: 2, offset: 0, fin: true, data: b"text" }]);
    let id = met.ours.accept_stream(Dir::Uni).unwrap();
    let mut out = [0; 9];
    assert_eq!(met.ours.read(id, &mut out), Ok(Some(4)));
    assert_eq!(met.ours.read(id, &mut out), Ok(None));
    // The last of all streams opens all: those that nobody speaks of cost nothing.
    let last = ((1 << 60) - 1) << 2 | 2;
    met.say(DATA, &[Frame::Stream { id: last, offset: 0, fin: true, data: b"text" }]);
    let second = met.ours.accept_stream(Dir::Uni).unwrap();
    assert_eq!((second.number(), met.ours.open_streams()), (6, 2));
    assert_eq!(met.ours.read(second, &mut out), Ok(Some(0)));
    met.say(DATA, &[Frame::Stream { id: 6, offset: 0, fin: true, data: b"late" }]);
    assert_eq!(met.ours.read(second, &mut out), Ok(Some(4)));
    met.listen();
    assert_eq!(met.breach(), None);
}

#[test]
fn who_asks_about_a_stopped_stream_once_it_is_gone_hears_that_it_was_stopped() {
    let mut met = Met::server(Config::default());
    let id = stream(&mut met, 10);
    met.ours.finish(id).unwrap();
    met.say(DATA, &[Frame::StopSending { id: id.number(), code: 6 }]);
    acknowledge(&mut met);
    assert!(met.ours.is_done(id));
    assert_eq!(met.ours.stopped(id), Some(6));
    assert_eq!(met.ours.write(id, b"more"), Err(UseError::Stopped(6)));
}

#[test]
fn of_thousands_of_streams_that_were_stopped_each_is_remembered_until_it_is_let_go() {
    let mut met = Met::server(Config::default());
    met.say(DATA, &[Frame::MaxStreams { bidi: false, most: 3_001 }]);
    let ids: Vec<StreamId> = (0..3_000).map(|_| stream(&mut met, 10)).collect();
    for some in ids.chunks(10) {
        for id in some {
            met.ours.finish(*id).unwrap();
            met.say(DATA, &[Frame::StopSending { id: id.number(), code: 6 }]);
        }
        acknowledge(&mut met);
    }
    acknowledge(&mut met);
    assert!(ids.iter().all(|id| met.ours.is_done(*id) && met.ours.stopped(*id) == Some(6)));
    ids.iter().for_each(|id| met.ours.let_go(*id));
    assert!(ids.iter().all(|id| met.ours.stopped(*id).is_none()));
    // Also before the peer has heard of its end.
    let id = stream(&mut met, 10);
    met.ours.let_go(id);
    met.say(DATA, &[Frame::StopSending { id: id.number(), code: 6 }]);
    acknowledge(&mut met);
    assert!(met.ours.is_done(id) && met.ours.stopped(id).is_none());
}

#[test]
fn that_the_peer_knows_of_a_reset_is_told() {
    let mut met = Met::server(Config::default());
    let id = stream(&mut met, 10);
    met.ours.reset(id, 3).unwrap();
    met.listen();
    acknowledge(&mut met);
    let mut events = std::iter::from_fn(|| met.ours.poll_event());
    assert!(events.any(|event| event == Event::Stream(StreamEvent::GivenUp(id))));
}

#[test]
fn that_no_silence_is_borne_is_told_for_zero_would_be_any() {
    let told = |idle_timeout| {
        let met = Met::server(Config { idle_timeout, ..Config::default() });
        met.puppet.peer_parameters(Sender::Server).max_idle_timeout_ms
    };
    assert_eq!(told(Some(Duration::ZERO)), 1);
    assert_eq!(told(Some(Duration::from_micros(10))), 1);
    assert_eq!(told(None), 0);
}
