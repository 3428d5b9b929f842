//! Frames: which may come where, and what they may say.

use std::time::Duration;

use tack_quic::streams::Dir;
use tack_quic::wire::{Ack, Close, Frame, Loss, Parameters, Reader, Report, TACK_VERSION};
use tack_quic::{Config, code};

use super::met::Met;
use super::puppet::{DATA, HANDSHAKE, INITIAL, emitted, id, usual};

/// Frames that only 1-RTT packets may have [RFC 9000 §12.4].
fn of_data() -> Vec<Frame<'static>> {
    vec![
        Frame::ResetStream { id: 0, code: 0, final_size: 0 },
        Frame::StopSending { id: 0, code: 0 },
        Frame::NewToken(b"token"),
        Frame::Stream { id: 0, offset: 0, fin: false, data: b"text" },
        Frame::MaxData(1),
        Frame::MaxStreamData { id: 0, most: 1 },
        Frame::MaxStreams { bidi: true, most: 1 },
        Frame::DataBlocked(1),
        Frame::StreamDataBlocked { id: 0, at: 1 },
        Frame::StreamsBlocked { bidi: true, at: 1 },
        Frame::NewConnectionId { sequence: 1, retire_prior_to: 0, id: &[3; 8], token: [3; 16] },
        Frame::RetireConnectionId(0),
        Frame::PathChallenge([1; 8]),
        Frame::PathResponse([1; 8]),
        Frame::Close(Close { code: 0, frame_type: None, reason: b"" }),
        Frame::HandshakeDone,
        Frame::Datagram(b"text"),
        Frame::ImmediateAck,
        Frame::Loss(Loss { unsettled: 0 }),
        Frame::Stamp(7),
    ]
}

#[test]
fn a_frame_of_1rtt_packets_in_a_handshake_packet_is_a_breach() {
    for space in [INITIAL, HANDSHAKE] {
        for frame in of_data() {
            // A server in its handshake has keys of both.
            let mut met = Met::server_in_handshake();
            met.say(space, std::slice::from_ref(&frame));
            assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION), "{frame:?} in {space}");
        }
    }
}

#[test]
fn what_only_a_server_may_say_is_a_breach_from_a_client() {
    for frame in [Frame::HandshakeDone, Frame::NewToken(b"token")] {
        let mut met = Met::server(Config::default());
        met.say(DATA, std::slice::from_ref(&frame));
        assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION), "{frame:?}");
    }
}

#[test]
fn a_frame_that_is_unknown_or_cut_off_is_an_encoding_error_and_none_at_all_a_breach() {
    let cases: [(&[u8], u64); 7] = [
        (&[0x21], code::FRAME_ENCODING_ERROR),
        (&[0x40, 0x21], code::FRAME_ENCODING_ERROR),
        (&[0x04, 0x00], code::FRAME_ENCODING_ERROR),
        // An empty token, and MAX_STREAMS beyond 2^60.
        (&[0x07, 0x00], code::FRAME_ENCODING_ERROR),
        (&[0x12, 0xd0, 0, 0, 0, 0, 0, 0, 1], code::FRAME_ENCODING_ERROR),
        // A first range that is longer than what is below the largest.
        (&[0x02, 0x01, 0x00, 0x00, 0x02], code::FRAME_ENCODING_ERROR),
        (&[], code::PROTOCOL_VIOLATION),
    ];
    for (frames, expected) in cases {
        let mut met = Met::client(Config::default());
        met.say_bytes(DATA, frames.to_vec());
        assert_eq!(met.breach(), Some(expected), "{frames:x?}");
    }
}

#[test]
fn an_acknowledgment_of_a_packet_that_was_never_sent_is_a_breach() {
    for space in [INITIAL, HANDSHAKE, DATA] {
        let mut met = match space {
            DATA => Met::server(Config::default()),
            _ => Met::server_in_handshake(),
        };
        let next = met.puppet.heard[space];
        let never_sent = next + 5..next + 6;
        let ack = Ack { delay: 0, ranges: Vec::from([never_sent]), ecn: None };
        met.say(space, &[Frame::Ack(ack)]);
        assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION), "space {space}");
    }
}

fn ack(range: std::ops::Range<u64>) -> Frame<'static> {
    Frame::Ack(Ack { delay: 0, ranges: Vec::from([range]), ecn: None })
}

#[test]
fn so_is_one_in_a_second_ack_frame_of_a_packet() {
    for space in [INITIAL, HANDSHAKE, DATA] {
        let mut met = match space {
            DATA => Met::server(Config::default()),
            _ => Met::server_in_handshake(),
        };
        let next = met.puppet.heard[space];
        met.say(space, &[ack(0..next), ack(next + 5..next + 6)]);
        assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION), "space {space}");
    }
}

#[test]
fn all_ack_frames_of_a_packet_count() {
    let mut met = Met::server(Config::default());
    let acknowledgment = met.puppet.acknowledgment();
    met.say(DATA, &[acknowledgment]);
    let first = met.puppet.heard[DATA];
    let stream = met.ours.open(Dir::Uni, met.now).unwrap();
    met.ours.write(stream, &[7; 5_000]).unwrap();
    met.listen();
    let end = met.puppet.heard[DATA];
    assert!(end > first + 2 && met.ours.info().in_flight > 5_000);
    met.say(DATA, &[ack(first + 1..end), ack(first..first + 1)]);
    assert_eq!((met.breach(), met.ours.info().in_flight), (None, 0));
}

#[test]
fn as_many_ack_frames_as_a_packet_holds_are_one_acknowledgment_and_what_another_tells_is_not_lost()
{
    let mut met = Met::server(Config::default());
    let acknowledgment = met.puppet.acknowledgment();
    met.say(DATA, &[acknowledgment]);
    let first = met.puppet.heard[DATA];
    let stream = met.ours.open(Dir::Uni, met.now).unwrap();
    met.ours.write(stream, &[7; 9_000]).unwrap();
    met.listen();
    let end = met.puppet.heard[DATA];
    assert!(end > first + 5);
    let before = met.ours.info();
    let mut frames: Vec<_> = (0..300).map(|_| ack(end - 1..end)).collect();
    frames.extend((first..end).map(|number| ack(number..number + 1)));
    frames.push(ack(first + 1..first + 4));
    met.say(DATA, &frames);
    let after = met.ours.info();
    assert_eq!((met.breach(), after.in_flight), (None, 0));
    assert_eq!(after.lost_packets, before.lost_packets);
    assert_eq!(after.counters.acks_received, before.counters.acks_received + 1);
}

#[test]
fn a_report_of_tack_has_one_ack_frame_and_no_other_report_beside_it() {
    let loss = || Frame::Loss(Loss { unsettled: 0 });
    let report = || {
        let mut tack = tack::Receiver::new(tack::Params::DEFAULT, 1);
        tack.on_rtt_update(tack_units::Instant::ZERO);
        let queued = &tack::Ranges::new();
        let buffer =
            tack::Buffer { rcv_nxt: 1, queued, delivered: 0, window: u64::MAX, capacity: u64::MAX };
        match tack.poll(buffer, 8, tack_units::Instant::ZERO) {
            Some(tack::Feedback::Tack(tack)) => Frame::Report(Report::of(&tack)),
            other => panic!("{other:?}"),
        }
    };
    let cases: [(&str, Vec<Frame<'static>>, bool); 9] = [
        ("a report alone", vec![report()], false),
        ("a loss alone", vec![loss()], false),
        ("a report and its acknowledgment", vec![report(), ack(0..1)], true),
        ("a loss and its acknowledgment", vec![ack(0..1), loss()], true),
        ("a report of two", vec![ack(0..1), report(), ack(0..1)], false),
        ("a loss of two", vec![ack(0..1), ack(0..1), loss()], false),
        ("two reports", vec![ack(0..1), report(), report()], false),
        ("two losses", vec![ack(0..1), loss(), loss()], false),
        ("a report and a loss", vec![ack(0..1), loss(), report()], false),
    ];
    for (case, frames, is_sound) in cases {
        let tack = Some(TACK_VERSION);
        let parameters = Parameters { initial_scid: Some(id(2)), tack, ..usual() };
        let mut met = Met::server_with(Config::default(), emitted(&parameters));
        met.exchange();
        met.say(DATA, &frames);
        let expected = if is_sound { None } else { Some(code::PROTOCOL_VIOLATION) };
        assert_eq!(met.breach(), expected, "{case}");
    }
}

#[test]
fn a_peer_that_acknowledges_what_it_cannot_have_seen_is_found_out() {
    let mut met = Met::server(Config::default());
    let stream = met.ours.open(Dir::Uni, met.now).unwrap();
    met.ours.write(stream, &[7; 500_000]).unwrap();
    // It hears nothing of what ours says, and acknowledges all the same, to make it faster.
    for _ in 0..400 {
        met.listen();
        let top = met.puppet.heard[DATA];
        let ack = Ack { delay: 0, ranges: std::iter::once(0..top).collect(), ecn: None };
        met.say(DATA, &[Frame::Ack(ack)]);
        if met.breach().is_some() {
            break;
        }
        met.wait(std::time::Duration::from_millis(20));
    }
    assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION));
}

#[test]
fn a_datagram_that_was_not_asked_for_is_a_breach() {
    let mut met = Met::server(Config { datagram_buffer: 0, ..Config::default() });
    met.say(DATA, &[Frame::Datagram(b"text")]);
    assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION));
}

#[test]
fn a_frame_of_tack_that_was_not_negotiated_is_an_encoding_error() {
    for frame in [Frame::Loss(Loss { unsettled: 0 }), Frame::Stamp(7)] {
        let mut met = Met::server(Config::default());
        met.say(DATA, &[frame]);
        assert_eq!(met.breach(), Some(code::FRAME_ENCODING_ERROR));
    }
}

#[test]
fn a_shorter_ack_delay_than_was_allowed_is_a_breach() {
    use tack_quic::ack_frequency::{Frame as Asks, Request};
    let ask = |micros| {
        let max_ack_delay = std::time::Duration::from_micros(micros);
        let request =
            Request { ack_eliciting_threshold: 1, max_ack_delay, reordering_threshold: 1 };
        Frame::AckFrequency(Asks { sequence: 0, request })
    };
    let mut met = Met::server(Config::default());
    met.say(DATA, &[ask(1_000)]);
    assert_eq!(met.breach(), None);
    met.say(DATA, &[ask(999)]);
    assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION));
}

#[test]
fn more_of_the_handshake_out_of_order_than_is_kept_is_refused() {
    let mut met = Met::server_in_handshake();
    met.say(HANDSHAKE, &[Frame::Crypto { offset: 70_000, data: &[7; 100] }]);
    assert_eq!(met.breach(), Some(code::CRYPTO_BUFFER_EXCEEDED));
}

#[test]
fn handshake_bytes_of_a_level_that_is_over_are_a_breach_but_their_repetition_is_none() {
    // Anybody who sees the client's first packet can make Initial packets: TLS must not take them for
    // what it reads now [RFC 9001 §4.1.3].
    let mut met = Met::server_in_handshake();
    met.say(INITIAL, &[Frame::Crypto { offset: 0, data: &[7; 100] }]);
    assert_eq!(met.breach(), None);
    let over = met.puppet.said(INITIAL);
    met.say(INITIAL, &[Frame::Crypto { offset: over, data: &[7; 100] }]);
    assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION));
}

/// `Interval` of the last TACK_REPORT that the puppet heard.
fn interval_in_force(met: &Met) -> Option<Duration> {
    met.puppet.payloads.iter().rev().find_map(|(_, frames)| {
        let mut reader = Reader::new(frames);
        while let Ok(frame) = Frame::parse(&mut reader) {
            if let Frame::Report(report) = frame {
                return Some(report.interval);
            }
        }
        None
    })
}

#[test]
fn of_two_frequencies_of_tack_the_one_in_the_newer_packet_holds_whichever_came_last() {
    let tack = Some(TACK_VERSION);
    let parameters = Parameters { initial_scid: Some(id(2)), tack, ..usual() };
    let mut met = Met::server_with(Config::default(), emitted(&parameters));
    met.exchange();
    let ask = |millis| {
        let mut frames = Vec::new();
        let interval = Duration::from_millis(millis);
        let frequency = tack::Frequency {
            interval,
            regime: tack::Regime::Steady,
            rtt_min: interval,
            rho_prime: 0.0,
            bdp: 100_000,
            segments_per_ack: 1,
        };
        Frame::Frequency(frequency).emit(&mut frames);
        frames
    };
    let number = met.puppet.next(DATA);
    for (number, millis) in [(number + 3, 30), (number + 1, 10), (number + 2, 20)] {
        let packet = met.puppet.numbered(met.puppet.dcid, DATA, number, &ask(millis), &[]);
        met.deliver(packet);
    }
    met.wait(Duration::from_millis(500));
    assert_eq!(interval_in_force(&met), Some(Duration::from_millis(30)));
}
