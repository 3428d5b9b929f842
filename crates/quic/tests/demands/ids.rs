//! Connection IDs: what a peer may issue and retire, and what their tokens reset.

use tack_quic::wire::Frame;
use tack_quic::{Config, ConnectionError, code};

use super::met::Met;
use super::puppet::{DATA, id};

fn new_id(sequence: u64, retire_prior_to: u64, id: &[u8], token: u8) -> Frame<'_> {
    Frame::NewConnectionId { sequence, retire_prior_to, id, token: [token; 16] }
}

fn breach(frames: &[Frame<'_>]) -> Option<u64> {
    let mut met = Met::server(Config::default());
    frames.iter().for_each(|frame| met.say(DATA, std::slice::from_ref(frame)));
    met.breach()
}

#[test]
fn an_id_is_issued_once_with_one_number_and_one_token() {
    let violation = Some(code::PROTOCOL_VIOLATION);
    let first = || new_id(1, 0, &[11; 8], 1);
    assert_eq!(breach(&[first(), first()]), None, "told again");
    assert_eq!(breach(&[first(), new_id(1, 0, &[12; 8], 1)]), violation, "another ID");
    assert_eq!(breach(&[first(), new_id(1, 0, &[11; 8], 2)]), violation, "another token");
    assert_eq!(breach(&[first(), new_id(2, 0, &[11; 8], 1)]), violation, "another number");
}

#[test]
fn an_id_without_bytes_or_with_too_many_and_a_number_below_what_it_retires_are_no_frames() {
    let encoding = Some(code::FRAME_ENCODING_ERROR);
    assert_eq!(breach(&[new_id(1, 0, &[], 1)]), encoding);
    assert_eq!(breach(&[new_id(1, 0, &[1; 21], 1)]), encoding);
    assert_eq!(breach(&[new_id(1, 2, &[1; 8], 1)]), encoding);
}

#[test]
fn more_ids_than_are_kept_are_refused_unless_they_retire_others() {
    let ids: Vec<[u8; 8]> = (0..6).map(|n| [20 + n; 8]).collect();
    let issue = |n: usize, retire| new_id(n as u64, retire, &ids[n], n as u8);
    assert_eq!(breach(&[issue(1, 0), issue(2, 0), issue(3, 0)]), None);
    let all = [issue(1, 0), issue(2, 0), issue(3, 0), issue(4, 0)];
    assert_eq!(breach(&all), Some(code::CONNECTION_ID_LIMIT_ERROR));
    assert_eq!(breach(&[issue(1, 0), issue(2, 0), issue(3, 0), issue(4, 1)]), None);
}

#[test]
fn what_the_peer_retires_is_told_to_be_and_is_used_no_more() {
    let mut met = Met::server(Config::default());
    met.say(DATA, &[new_id(1, 1, &[11; 8], 1)]);
    assert!(met.heard(|frame| matches!(frame, Frame::RetireConnectionId(0))));
    // Told late, it is retired at once.
    met.puppet.payloads.clear();
    met.say(DATA, &[new_id(2, 2, &[12; 8], 2)]);
    met.say(DATA, &[new_id(1, 1, &[11; 8], 1)]);
    assert!(met.heard(|frame| matches!(frame, Frame::RetireConnectionId(1))));
    assert_eq!(met.breach(), None);
}

#[test]
fn an_id_that_was_left_is_not_taken_up_again_when_it_is_told_again() {
    // A client that has moved uses its server's next ID; the one it left counts no more, whenever the
    // frame that issued it is repeated.
    let mut met = Met::client(Config::default());
    let ids: Vec<[u8; 8]> = (0..6).map(|n| [30 + n; 8]).collect();
    let issue = |n: usize| new_id(n as u64, 0, &ids[n], n as u8);
    (1..4).for_each(|n| met.say(DATA, &[issue(n)]));
    let now = met.now;
    met.ours.migrate(now).unwrap();
    met.ours.migrate(now).unwrap();
    met.listen();
    assert!(met.heard(|frame| matches!(frame, Frame::RetireConnectionId(1))));
    (4..6).for_each(|n| met.say(DATA, &[issue(n)]));
    assert_eq!(met.breach(), None, "four are kept");
    met.say(DATA, &[issue(1)]);
    assert_eq!(met.breach(), None, "and a repetition is no fifth");
}

#[test]
fn an_id_is_retired_only_if_it_was_issued_and_not_by_a_packet_to_it() {
    let violation = Some(code::PROTOCOL_VIOLATION);
    assert_eq!(breach(&[Frame::RetireConnectionId(99)]), violation);
    assert_eq!(breach(&[Frame::RetireConnectionId(0)]), violation);
    assert_eq!(breach(&[Frame::RetireConnectionId(1), Frame::RetireConnectionId(1)]), None);
    // Who guesses what takes its place makes none of it in vain [RFC 9000 §19.16].
    let guessed: Vec<Frame<'_>> = (1..100).map(Frame::RetireConnectionId).collect();
    let mut met = Met::server(Config::default());
    met.say(DATA, &guessed);
    assert_eq!(met.breach(), violation);
}

#[test]
fn a_peer_that_makes_us_retire_without_end_is_refused() {
    let mut met = Met::server(Config::default());
    met.listen();
    for n in 1..200u8 {
        // Ours may not say what it owes: nothing lets it.
        let mut bytes = Vec::new();
        new_id(n.into(), n.into(), &[n; 8], n).emit(&mut bytes);
        let packet = met.puppet.packet(DATA, bytes);
        met.deliver(packet);
    }
    assert_eq!(met.breach(), Some(code::CONNECTION_ID_LIMIT_ERROR));
}

#[test]
fn a_token_resets_only_while_its_id_is_in_use() {
    let reset = |token: u8| {
        let mut datagram = vec![0x55; 40];
        datagram[..9].copy_from_slice(&[0x40, 2, 2, 2, 2, 2, 2, 2, 2]);
        datagram.extend([token; 16]);
        datagram
    };
    let mut met = Met::client(Config::default());
    met.say(DATA, &[new_id(1, 0, &[11; 8], 77)]);
    met.deliver(reset(77));
    assert_eq!(met.ours.closed(), None, "an ID that was not used yet");
    let now = met.now;
    met.ours.migrate(now).unwrap();
    met.deliver(reset(9));
    assert_eq!(met.ours.closed(), None, "an ID that was left");
    met.deliver(reset(77));
    assert_eq!(met.ours.closed(), Some(&ConnectionError::Reset));
    assert_eq!(met.puppet.scid, id(2));
}
