//! Addresses: who is believed to be where, and what is sent there.

use std::net::SocketAddr;
use std::time::Duration;

use tack::{Regime, Timing};
use tack_cc::Algorithm;
use tack_quic::streams::Dir;
use tack_quic::wire::{Frame, Loss, Parameters, Reader, Report, TACK_VERSION};
use tack_quic::{Config, UseError, code};

use super::met::Met;
use super::puppet::{DATA, emitted, home, id, usual};

fn elsewhere(host: u8, port: u16) -> SocketAddr {
    ([192, 0, 2, host], port).into()
}

fn spare_id(sequence: u64) -> Frame<'static> {
    const IDS: [[u8; 8]; 3] = [[41; 8], [42; 8], [43; 8]];
    let id = &IDS[sequence as usize - 1];
    Frame::NewConnectionId { sequence, retire_prior_to: 0, id, token: [sequence as u8; 16] }
}

/// A server of ours whose client has given it other IDs.
fn server() -> Met {
    server_of(Config::default(), None)
}

fn server_of(config: Config, tack: Option<u64>) -> Met {
    let parameters = Parameters { initial_scid: Some(id(2)), tack, ..usual() };
    let mut met = Met::server_with(config, emitted(&parameters));
    met.exchange();
    assert!(met.ours.is_established(), "{:?}", met.ours.closed());
    (1..4).for_each(|sequence| met.say(DATA, &[spare_id(sequence)]));
    met
}

/// What ours has asked, last.
fn challenge(met: &Met) -> Option<[u8; 8]> {
    let mut asked = None;
    for (_, payload) in &met.puppet.payloads {
        let mut reader = Reader::new(payload);
        while let Ok(frame) = Frame::parse(&mut reader) {
            if let Frame::PathChallenge(data) = frame {
                asked = Some(data);
            }
        }
    }
    asked
}

#[test]
fn a_client_that_asks_from_elsewhere_is_answered_there_and_has_not_moved() {
    let mut met = server();
    met.sent.clear();
    let there = elsewhere(1, 9);
    met.at = there;
    let mut frames = Vec::new();
    Frame::PathChallenge([5; 8]).emit(&mut frames);
    frames.resize(1_100, 0);
    met.say_bytes(DATA, frames);
    assert!(met.heard(|frame| *frame == Frame::PathResponse([5; 8])));
    assert_eq!(met.sent.iter().filter(|(to, _)| *to == there).count(), 1);
    assert!(met.sent.iter().all(|(to, len)| *to != there || *len >= 1_200), "{:?}", met.sent);
    assert_eq!(met.ours.remote(), home());
    assert_eq!(met.ours.info().counters.moves, 0);
}

#[test]
fn a_client_without_ids_gets_some_of_ours_and_is_answered_elsewhere() {
    let mut met = Met::server_of_nobody(Config::default());
    assert!(met.heard(|frame| matches!(frame, Frame::NewConnectionId { .. })));
    met.sent.clear();
    met.at = elsewhere(1, 9);
    met.say(DATA, &[Frame::PathChallenge([5; 8])]);
    assert!(met.heard(|frame| *frame == Frame::PathResponse([5; 8])));
    assert_eq!(met.sent.iter().filter(|(to, _)| *to == met.at).count(), 1);
    assert_eq!(met.ours.remote(), home());
}

#[test]
fn an_answer_elsewhere_is_no_longer_than_three_times_what_came() {
    let mut met = server();
    met.sent.clear();
    met.at = elsewhere(1, 9);
    met.say(DATA, &[Frame::PathChallenge([5; 8])]);
    let there: usize = met.sent.iter().filter(|(to, _)| *to == met.at).map(|(_, len)| len).sum();
    assert!((1..3 * 60).contains(&there), "{there}");
}

#[test]
fn several_questions_in_one_packet_from_elsewhere_get_three_times_its_bytes_in_all() {
    for padding in [0, 400] {
        let mut met = server();
        met.sent.clear();
        met.at = elsewhere(1, 9);
        let mut frames = Vec::new();
        (0..4).for_each(|n| Frame::PathChallenge([n; 8]).emit(&mut frames));
        frames.resize(frames.len() + padding, 0);
        let packet = met.puppet.packet(DATA, frames);
        let came = packet.len();
        met.deliver(packet);
        met.listen();
        assert!((0..4).all(|n| met.heard(|frame| *frame == Frame::PathResponse([n; 8]))));
        let to_there = met.sent.iter().filter(|(to, _)| *to == met.at);
        let went: usize = to_there.map(|(_, len)| len).sum();
        assert!(went <= 3 * came, "{went} for {came}");
    }
}

#[test]
fn a_client_that_has_moved_gets_three_times_what_came_until_it_has_answered() {
    let mut met = server();
    let stream = met.ours.open(Dir::Uni, met.now).unwrap();
    met.ours.write(stream, &[7; 200_000]).unwrap();
    met.listen();
    met.sent.clear();
    met.at = elsewhere(7, 9);
    // Nothing but the address holds it back.
    let mut frames = vec![0; 400];
    met.puppet.acknowledgment().emit(&mut frames);
    let packet = met.puppet.packet(DATA, frames);
    let came = packet.len();
    met.deliver(packet);
    met.wait(Duration::from_millis(40));
    assert_eq!(met.ours.remote(), met.at);
    let went: usize = met.sent.iter().filter(|(to, _)| *to == met.at).map(|(_, len)| len).sum();
    assert!(went > 0 && went <= 3 * came, "{went} for {came}");
    let asked = challenge(&met).expect("it is asked whether it is there");
    met.say(DATA, &[Frame::PathResponse(asked)]);
    met.listen();
    let after: usize = met.sent.iter().filter(|(to, _)| *to == met.at).map(|(_, len)| len).sum();
    assert!(after > 3 * came, "{after} for {came}");
}

#[test]
fn a_client_that_sends_little_from_elsewhere_is_asked_at_once_and_the_path_s_size_afterwards() {
    // A receiver of TACK sends a few short packets a second: 1200 bytes of them would take long.
    let mut met = server();
    met.sent.clear();
    met.at = elsewhere(1, 9);
    met.say(DATA, &[Frame::Ping]);
    let asked = challenge(&met).expect("it is asked");
    let there: usize = met.sent.iter().filter(|(to, _)| *to == met.at).map(|(_, len)| len).sum();
    assert!(there < 100, "{there}");
    met.sent.clear();
    met.say(DATA, &[Frame::PathResponse(asked)]);
    let again = challenge(&met).expect("it is asked again");
    assert_ne!(again, asked);
    assert!(met.sent.iter().any(|(_, len)| *len >= 1_200), "{:?}", met.sent);
}

#[test]
fn an_answer_that_was_not_asked_for_moves_nobody() {
    let mut met = server();
    met.at = elsewhere(7, 9);
    met.say(DATA, &[Frame::Ping]);
    let asked = challenge(&met).expect("it is asked");
    let wrong = asked.map(|byte| !byte);
    met.say(DATA, &[Frame::PathResponse(wrong)]);
    // Nobody is there, as far as ours knows: it goes back to where its peer was.
    met.at = home();
    met.wait(Duration::from_secs(5));
    assert_eq!(met.ours.remote(), home());
}

#[test]
fn a_client_whose_new_path_takes_far_longer_than_its_old_one_is_waited_for() {
    // From a LAN to a satellite: a second is dozens of the probe timeouts that the server knows.
    let mut met = server();
    met.listen();
    met.wait(Duration::from_millis(30));
    let acknowledgment = met.puppet.acknowledgment();
    met.say(DATA, &[acknowledgment]);
    met.sent.clear();
    met.at = elsewhere(7, 9);
    met.say_bytes(DATA, [&[1], &[0; 1_100][..]].concat());
    let asked = challenge(&met).expect("it is asked");
    met.wait(Duration::from_secs(1));
    met.say(DATA, &[Frame::PathResponse(asked)]);
    met.wait(Duration::from_secs(10));
    assert_eq!(met.ours.remote(), met.at);
    let questions = met.sent.iter().filter(|(_, len)| *len >= 1_200).count();
    assert!(questions < 10, "{questions}");
}

#[test]
fn of_another_address_s_path_nothing_is_known_and_of_another_port_s_all_is() {
    for (there, is_known) in [(elsewhere(1, 9), true), (elsewhere(7, 443), false)] {
        let mut met = server();
        let stream = met.ours.open(Dir::Uni, met.now).unwrap();
        met.ours.write(stream, &[7; 2_000]).unwrap();
        met.listen();
        met.wait(Duration::from_millis(30));
        let acknowledgment = met.puppet.acknowledgment();
        met.say(DATA, &[acknowledgment]);
        assert!(met.ours.info().srtt.is_some());
        met.at = there;
        met.say(DATA, &[Frame::Ping]);
        let asked = challenge(&met).expect("it is asked");
        met.say(DATA, &[Frame::PathResponse(asked)]);
        assert_eq!(met.ours.info().srtt.is_some(), is_known, "{there}");
    }
}

#[test]
fn a_client_moves_under_another_id_and_asks_whether_it_is_heard() {
    let mut met = Met::client(Config::default());
    assert_eq!(met.ours.migrate(met.now), Err(UseError::Unmovable), "there is no other ID");
    met.say(DATA, &[spare_id(1)]);
    met.sent.clear();
    let now = met.now;
    met.ours.migrate(now).unwrap();
    let mut datagram = Vec::new();
    met.ours.poll_transmit(&mut datagram, now).unwrap();
    assert_eq!(datagram[1..9], [41; 8], "the first packet has the new ID");
    assert!(datagram.len() >= 1_200);
    assert_eq!(met.ours.info().counters.moves, 1);
}

#[test]
fn a_client_does_not_move_before_the_handshake_is_confirmed_or_where_it_is_forbidden() {
    let mut early = Met::client_with(Config::default(), |_| {});
    early.exchange();
    early.say(DATA, &[spare_id(1)]);
    assert!(early.ours.is_established());
    assert_eq!(early.ours.migrate(early.now), Err(UseError::Unmovable));
    let forbid = |it: &mut Parameters| it.disable_active_migration = true;
    let mut met = Met::client_with(Config::default(), forbid);
    met.exchange();
    met.say(DATA, &[spare_id(1), Frame::HandshakeDone]);
    assert_eq!(met.ours.migrate(met.now), Err(UseError::Unmovable));
    let mut server = server();
    assert_eq!(server.ours.migrate(server.now), Err(UseError::Unmovable));
}

#[test]
fn what_comes_from_where_the_server_is_not_is_dropped_by_a_client() {
    let mut met = Met::client(Config::default());
    met.at = elsewhere(7, 9);
    met.say(DATA, &[Frame::HandshakeDone, Frame::RetireConnectionId(99)]);
    assert_eq!(met.breach(), None);
    assert_eq!(met.ours.remote(), home());
    met.at = home();
    met.say(DATA, &[Frame::RetireConnectionId(99)]);
    assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION));
    assert_eq!(met.puppet.scid, id(2));
}

#[test]
fn a_server_that_closes_says_so_where_little_came_from() {
    let mut met = server();
    met.at = elsewhere(7, 9);
    let mut frames = vec![0; 100];
    Frame::Ping.emit(&mut frames);
    met.say_bytes(DATA, frames);
    assert_eq!(met.ours.remote(), met.at);
    met.ours.close(3, b"done", met.now);
    met.listen();
    assert!(met.heard(|frame| matches!(frame, Frame::Close(close) if close.code == 3)));
    let went: usize = met.sent.iter().filter(|(to, _)| *to == met.at).map(|(_, len)| len).sum();
    assert!(went <= 3 * 140, "{went}");
}

/// A server of ours that sent to where its client was, for 20 ms, and nothing of that has arrived; then the client
/// is elsewhere, and has answered there.
fn moved_away(congestion: Algorithm, tack: Option<u64>) -> Met {
    let mut met = server_of(Config { congestion, ..Config::default() }, tack);
    let stream = met.ours.open(Dir::Uni, met.now).unwrap();
    met.ours.write(stream, &[7; 400_000]).unwrap();
    met.at = elsewhere(7, 9);
    met.wait(Duration::from_millis(20));
    assert!(met.ours.info().in_flight > 5_000);
    met.say_bytes(DATA, [&[1], &[0; 1_100][..]].concat());
    let asked = challenge(&met).expect("it is asked");
    met.say(DATA, &[Frame::PathResponse(asked)]);
    met.wait(Duration::from_millis(10));
    met
}

#[test]
fn what_was_lost_on_the_path_that_was_left_says_nothing_of_the_new_one() {
    for congestion in Algorithm::ALL {
        for tack in [None, Some(TACK_VERSION)] {
            let mut met = moved_away(*congestion, tack);
            let before = met.ours.info();
            assert_eq!(before.is_tack, tack.is_some());
            let acknowledgment = met.puppet.acknowledgment();
            let loss = tack.map(|_| Frame::Loss(Loss { unsettled: 0 }));
            let told: Vec<Frame<'_>> = [acknowledgment].into_iter().chain(loss).collect();
            met.say(DATA, &told);
            let after = met.ours.info();
            let case = format!("{congestion:?}, TACK: {tack:?}\n{before:?}\n{after:?}");
            assert!(after.lost_packets > before.lost_packets, "{case}");
            assert!(after.congestion.cwnd >= before.congestion.cwnd, "{case}");
            assert_eq!(after.congestion.ssthresh, before.congestion.ssthresh, "{case}");
        }
    }
}

#[test]
fn what_is_in_flight_on_the_path_that_was_left_takes_no_room_in_the_window_of_the_new_one() {
    for tack in [None, Some(TACK_VERSION)] {
        let mut met = moved_away(Algorithm::Cubic, tack);
        let went = |met: &Met| -> usize {
            met.sent.iter().filter(|(to, _)| *to == met.at).map(|(_, len)| len).sum()
        };
        met.wait(Duration::from_millis(400));
        let info = met.ours.info();
        assert!(info.in_flight <= went(&met) as u64, "{} of {}", info.in_flight, went(&met));
        assert!(info.in_flight + 1_452 > info.congestion.cwnd, "{tack:?}: {info:?}");
        // All of it, in order or not, ends at nothing.
        let acknowledgment = met.puppet.acknowledgment();
        let all = met.puppet.heard[DATA];
        met.say(DATA, &[acknowledgment]);
        met.wait(Duration::from_millis(400));
        let last = met.puppet.heard[DATA];
        assert!(last > all, "{tack:?}");
    }
}

#[test]
fn who_moves_and_moves_and_acknowledges_nothing_has_little_more_than_a_window_in_flight() {
    for tack in [None, Some(TACK_VERSION)] {
        let mut met = server_of(Config::default(), tack);
        let stream = met.ours.open(Dir::Uni, met.now).unwrap();
        met.ours.write(stream, &[7; 400_000]).unwrap();
        let packets = |met: &Met| met.ours.info().counters.packets_sent;
        for n in 0..40 {
            let before = packets(&met);
            met.at = elsewhere(1 + n % 2, 9);
            met.wait(Duration::from_millis(20));
            met.say_bytes(DATA, [&[1], &[0; 1_100][..]].concat());
            let asked = challenge(&met).expect("it is asked");
            met.say(DATA, &[Frame::PathResponse(asked)]);
            let more = packets(&met) - before;
            assert!(n < 4 || more < 6, "{tack:?}: {more} packets at the {n}th move");
        }
    }
}

#[test]
fn a_tack_that_times_what_left_by_another_path_tells_no_round_trip_of_this_one() {
    let mut met = moved_away(Algorithm::Cubic, Some(TACK_VERSION));
    // At 20 ms it was found to have moved, and it is 30 now.
    for (counter, departure_us, rtt) in [(1, 19_000, None), (2, 24_000, Some(6))] {
        let report = Report {
            counter,
            duplicates: 0,
            unsettled: 0,
            rho: 0.0,
            interval: Duration::from_millis(5),
            regime: Regime::Startup,
            timing: Some(Timing { departure_us, delay: Duration::ZERO, queued: Duration::ZERO }),
            delivery_rate: None,
        };
        let acknowledgment = met.puppet.acknowledgment();
        met.say(DATA, &[acknowledgment, Frame::Report(report)]);
        assert_eq!(met.ours.info().rtt_min, rtt.map(Duration::from_millis));
    }
}
