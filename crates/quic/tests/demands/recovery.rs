//! Probes and congestion [RFC 9002].

use std::time::Duration;

use tack_quic::Config;
use tack_quic::streams::Dir;
use tack_quic::wire::{Ack, Frame, Parameters, Reader, TACK_VERSION};

use super::met::Met;
use super::puppet::{DATA, HANDSHAKE, INITIAL, emitted, id, usual};

fn of(first: u64, end: u64) -> Frame<'static> {
    #[allow(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
    Frame::Ack(Ack { delay: 0, ranges: vec![first..end], ecn: None })
}

#[test]
fn a_client_that_waits_for_a_server_s_handshake_probes_ever_more_seldom_whatever_of_it_is_heard() {
    let mut met = Met::client_with(Config::default(), |_| {});
    met.wait(Duration::from_millis(3_100));
    let before = met.ours.info().probes;
    assert_eq!(before, 2, "after one second and after three");
    met.say(INITIAL, &[of(0, met.puppet.heard[INITIAL])]);
    let round_trip = met.ours.info().srtt.expect("it is acknowledged");
    // A timeout is three round trips now, and four times that after two of them.
    met.wait(round_trip * 10);
    assert_eq!(met.ours.info().probes, before);
    met.wait(round_trip * 2);
    assert_eq!(met.ours.info().probes, before + 1);
}

/// A server of ours that has sent for long, of which nothing was heard since; and how many of its packets were
/// heard before.
fn unheard() -> (Met, usize) {
    let config = Config { congestion: "reno".parse().expect("its name"), ..Config::default() };
    let mut met = Met::server(config);
    let stream = met.ours.open(Dir::Uni, met.now).unwrap();
    met.ours.write(stream, &[7; 10_000]).unwrap();
    met.wait(Duration::from_millis(30));
    let acknowledgment = met.puppet.acknowledgment();
    met.say(DATA, &[acknowledgment]);
    assert!(met.ours.info().srtt.is_some());
    let heard = met.puppet.numbers.len();
    met.ours.write(stream, &[7; 11_000]).unwrap();
    while met.ours.info().probes < 5 {
        met.wait(Duration::from_millis(30));
    }
    (met, heard)
}

#[test]
fn where_everything_was_lost_for_long_the_window_starts_anew() {
    let (mut met, _) = unheard();
    let last = met.puppet.heard[DATA] - 1;
    met.say(DATA, &[of(last, last + 1)]);
    let after = met.ours.info().congestion;
    assert!(after.startup && after.cwnd <= 2 * 1_452, "{after:?}");
}

#[test]
fn where_some_arrived_in_between_the_window_is_only_reduced() {
    let (mut met, heard) = unheard();
    // The first of them is lost, and the next one is not.
    met.puppet.numbers.remove(heard);
    let acknowledgment = met.puppet.acknowledgment();
    met.say(DATA, &[acknowledgment]);
    let after = met.ours.info();
    assert!(!after.congestion.startup && after.lost_packets > 0, "{after:?}");
}

#[test]
fn where_what_counted_as_lost_arrives_the_window_is_as_before_and_three_packets_prove_nothing_more()
{
    let config = Config { congestion: "reno".parse().expect("its name"), ..Config::default() };
    let mut met = Met::server(config);
    let stream = met.ours.open(Dir::Uni, met.now).unwrap();
    let flight = |met: &mut Met| {
        let first = met.puppet.heard[DATA];
        met.ours.write(stream, &[7; 9_000]).unwrap();
        met.wait(Duration::from_millis(20));
        assert!(met.puppet.heard[DATA] > first + 3, "{first}..{}", met.puppet.heard[DATA]);
        (first, met.puppet.heard[DATA])
    };
    let (_, end) = flight(&mut met);
    met.say(DATA, &[of(0, end)]);
    let (first, end) = flight(&mut met);
    let before = met.ours.info();
    met.say(DATA, &[of(first + 1, end)]);
    let cut = met.ours.info();
    assert_eq!((before.lost_packets, cut.lost_packets), (0, 1));
    assert!(cut.congestion.cwnd < before.congestion.cwnd, "{cut:?}");
    met.say(DATA, &[of(0, end)]);
    let undone = met.ours.info();
    assert!(undone.congestion.cwnd >= before.congestion.cwnd, "{undone:?}");
    // What it carried went again meanwhile, and is out of the way.
    let end = met.puppet.heard[DATA];
    met.say(DATA, &[of(0, end)]);
    let (first, end) = flight(&mut met);
    met.say(DATA, &[of(first + 1, end)]);
    assert_eq!(met.ours.info().lost_packets, undone.lost_packets, "time alone tells now");
}

/// How often ours has said its part of the handshake in a space.
fn flights(met: &Met, space: usize) -> usize {
    let has_crypto = |frames: &[u8]| {
        let mut reader = Reader::new(frames);
        core::iter::from_fn(|| Frame::parse(&mut reader).ok())
            .any(|frame| matches!(frame, Frame::Crypto { .. }))
    };
    met.puppet.payloads.iter().filter(|(at, frames)| *at == space && has_crypto(frames)).count()
}

#[test]
fn a_server_says_its_flight_again_to_a_client_that_asks_before_its_timer_would_and_not_for_ever() {
    let mut met = Met::server_in_handshake();
    assert_eq!((flights(&met, INITIAL), flights(&met, HANDSHAKE)), (1, 1));
    met.say(INITIAL, &[Frame::Ping]);
    assert_eq!((flights(&met, INITIAL), flights(&met, HANDSHAKE)), (2, 2));
    (0..20).for_each(|_| met.say(INITIAL, &[Frame::Ping]));
    assert_eq!((flights(&met, INITIAL), flights(&met, HANDSHAKE)), (11, 11));
    // What it has heard of is not said again.
    let mut met = Met::server_in_handshake();
    met.say(INITIAL, &[of(0, met.puppet.heard[INITIAL]), Frame::Ping]);
    assert_eq!((flights(&met, INITIAL), flights(&met, HANDSHAKE)), (1, 2));
}

#[test]
fn what_a_peer_says_it_waited_is_taken_off_a_round_trip_but_not_below_the_least() {
    let parameters = Parameters { initial_scid: Some(id(2)), ..usual() };
    let mut met = Met::server_with(Config::default(), emitted(&parameters));
    met.exchange();
    let stream = met.ours.open(Dir::Uni, met.now).unwrap();
    let mut smoothed = Duration::ZERO;
    // Milliseconds: until it is acknowledged, of them waited, and what counts.
    for (took, waited, counts) in [(40, 0, 40), (45, 20, 45), (70, 20, 50), (70, 60, 45)] {
        met.ours.write(stream, b"text").unwrap();
        met.listen();
        met.now += Duration::from_millis(took);
        let Frame::Ack(ack) = met.puppet.acknowledgment() else { panic!("it is one") };
        // In units of 8 us.
        met.say(DATA, &[Frame::Ack(Ack { delay: waited * 1_000 / 8, ..ack })]);
        let counts = Duration::from_millis(counts);
        let is_first = smoothed.is_zero();
        smoothed = if is_first { counts } else { smoothed * 7 / 8 + counts / 8 };
        let srtt = met.ours.info().srtt.expect("it was acknowledged");
        assert!(srtt.abs_diff(smoothed) < Duration::from_micros(9), "{took} {waited}: {srtt:?}");
    }
}

#[test]
fn what_lay_until_there_were_keys_makes_no_round_trip_long() {
    // A server keeps what it cannot read yet, and says how long.
    for tack in [None, Some(TACK_VERSION)] {
        let parameters = Parameters { initial_scid: Some(id(2)), tack, ..usual() };
        let mut met = Met::server_with(Config::default(), emitted(&parameters));
        for packet in met.puppet.speak() {
            met.deliver(packet);
        }
        met.listen();
        let mut frames = Vec::new();
        Frame::Ping.emit(&mut frames);
        let early = met.puppet.packet(DATA, frames);
        met.deliver(early);
        met.wait(Duration::from_secs(3));
        met.exchange();
        met.wait(Duration::from_millis(30));
        let lay = |delay| (2_990_000 / 8..3_040_000 / 8).contains(&delay);
        let says = |frame: &Frame<'_>| matches!(frame, Frame::Ack(ack) if lay(ack.delay));
        assert!(met.heard(says), "{tack:?}: {:?}", met.ours.closed());
    }
    // A client takes it off, also where what tells it confirms the handshake.
    let mut met = Met::client_with(Config::default(), |_| {});
    met.exchange();
    let stream = met.ours.open(Dir::Uni, met.now).unwrap();
    met.ours.write(stream, b"text").unwrap();
    met.listen();
    let before = met.ours.info().srtt;
    met.now += Duration::from_secs(3);
    let Frame::Ack(ack) = met.puppet.acknowledgment() else { panic!("it is one") };
    let ack = Frame::Ack(Ack { delay: 2_950_000 / 8, ..ack });
    met.say(DATA, &[ack, Frame::HandshakeDone]);
    let after = met.ours.info().srtt;
    assert!(after.is_none_or(|srtt| srtt < Duration::from_millis(51)), "{before:?}, {after:?}");
}

/// Bytes of the STREAM frames of ours that the puppet heard, in the order in which they came.
fn lengths(met: &Met) -> Vec<usize> {
    let mut lengths = Vec::new();
    for (_, frames) in &met.puppet.payloads {
        let mut reader = Reader::new(frames);
        while let Ok(frame) = Frame::parse(&mut reader) {
            if let Frame::Stream { data, .. } = frame {
                lengths.push(data.len());
            }
        }
    }
    lengths
}

/// The second may be what is missing, and nothing behind it shows that.
#[test]
fn a_probe_by_tack_repeats_both_of_two_packets_and_one_of_many() {
    for (bytes, packets) in [(1_500, 2), (6_000, 5)] {
        let tack = Some(TACK_VERSION);
        let parameters = Parameters { initial_scid: Some(id(2)), tack, ..usual() };
        let mut met = Met::server_with(Config::default(), emitted(&parameters));
        met.exchange();
        let acknowledgment = met.puppet.acknowledgment();
        met.say(DATA, &[acknowledgment]);
        let stream = met.ours.open(Dir::Uni, met.now).unwrap();
        met.ours.write(stream, &vec![7; bytes]).unwrap();
        met.wait(Duration::from_millis(4));
        let first = lengths(&met);
        assert_eq!(first.len(), packets, "{first:?}");
        let before = met.ours.info().probes;
        while met.ours.info().probes == before {
            met.wait(Duration::from_millis(5));
        }
        let again: usize = lengths(&met)[packets..].iter().sum();
        let expected = if packets == 2 { bytes } else { first[0] };
        assert_eq!(again, expected, "of {packets}");
    }
}
