//! Datagrams and packets: what is dropped, and what answers what.

use std::time::Duration;

use tack_quic::streams::Dir;
use tack_quic::wire::{Close, ConnectionId, Frame, Version, put_retry, put_version_negotiation};
use tack_quic::{Config, ConnectionError, Endpoint, Listen, code};
use tack_units::Instant;

use super::met::Met;
use super::puppet::{DATA, HANDSHAKE, INITIAL, home, id};
use super::tls;

fn ping() -> Vec<u8> {
    vec![1]
}

#[test]
fn a_server_drops_initial_packets_of_small_datagrams() {
    let mut met = Met::server_in_handshake();
    let before = met.ours.info().counters;
    let dcid = met.puppet.dcid;
    let small = met.puppet.packet_to(dcid, INITIAL, &ping(), &[]);
    assert!(small.len() < 1_200);
    met.deliver(small);
    assert_eq!(met.ours.info().counters.packets_received, before.packets_received);
    met.say(INITIAL, &[Frame::Ping]);
    assert_eq!(met.ours.info().counters.packets_received, before.packets_received + 1);
}

#[test]
fn packets_to_another_id_in_the_same_datagram_are_dropped() {
    let mut met = Met::server_in_handshake();
    let before = met.ours.info().counters.packets_received;
    let other = met.puppet.packet_to(id(99), HANDSHAKE, &ping(), &[]);
    let mut datagram = met.puppet.packet(INITIAL, ping());
    datagram.extend(other);
    met.deliver(datagram);
    assert_eq!(met.ours.info().counters.packets_received, before + 1);
}

#[test]
fn a_packet_is_taken_once() {
    let mut met = Met::server(Config::default());
    let packet = met.puppet.packet(DATA, ping());
    let before = met.ours.info().counters;
    met.deliver(packet.clone());
    met.deliver(packet);
    let after = met.ours.info().counters;
    assert_eq!(after.packets_received - before.packets_received, 1);
    assert_eq!(after.duplicates - before.duplicates, 1);
}

#[test]
fn a_client_drops_a_server_s_initial_packet_with_a_token() {
    let mut met = Met::client_with(Config::default(), |_| {});
    let dcid = met.puppet.dcid;
    let packet = met.puppet.packet_to(dcid, INITIAL, &ping(), b"token");
    met.deliver(packet);
    assert_eq!(met.ours.info().counters.packets_received, 0);
    met.exchange();
    assert!(met.ours.is_established());
}

#[test]
fn a_retry_is_heeded_once_if_it_is_whole_and_names_another_id() {
    let mut met = Met::client_with(Config::default(), |_| {});
    let retry = |scid: &ConnectionId, met: &Met| {
        let mut packet = Vec::new();
        put_retry(Version::V1, &met.puppet.dcid, scid, &met.original, b"token", &mut packet);
        packet
    };
    let mut damaged = retry(&id(5), &met);
    *damaged.last_mut().unwrap() ^= 1;
    met.deliver(damaged);
    assert!(!met.listen(), "it is damaged");
    let same = met.original;
    let to_itself = retry(&same, &met);
    met.deliver(to_itself);
    assert!(!met.listen(), "it names the ID that there was");
    let whole = retry(&id(5), &met);
    met.deliver(whole);
    assert!(met.listen(), "the client comes again");
    let second = retry(&id(6), &met);
    met.deliver(second);
    assert!(!met.listen(), "a second one is dropped");
}

#[test]
fn a_retry_s_token_of_any_length_leaves_room_for_the_handshake_or_ends_the_connection_at_once() {
    let (mut spoke, mut ended) = (0, 0);
    for len in (900..1_300).step_by(7).chain([1, 500, 2_000, 60_000]) {
        let scid = ConnectionId::new(&[5; 20]).unwrap();
        let mut met = Met::client_with(Config::default(), |it| it.retry_scid = Some(scid));
        let token = vec![7; len];
        let mut retry = Vec::new();
        put_retry(Version::V1, &met.puppet.dcid, &scid, &met.original, &token, &mut retry);
        met.deliver(retry);
        match met.ours.closed() {
            Some(error) => {
                assert_eq!(*error, ConnectionError::RetryToken(len));
                assert!(!met.listen(), "{len}: whom would it tell?");
                ended += 1;
            }
            None => {
                assert!(met.listen(), "{len}: it says its hello again");
                spoke += 1;
            }
        }
    }
    assert!(spoke > 10 && ended > 10, "{spoke} {ended}");
}

#[test]
fn a_retry_after_a_packet_of_the_server_is_dropped() {
    let mut met = Met::client_with(Config::default(), |_| {});
    met.exchange();
    assert!(met.ours.is_established());
    let mut packet = Vec::new();
    put_retry(Version::V1, &met.puppet.dcid, &id(5), &met.original, b"token", &mut packet);
    met.deliver(packet);
    assert!(!met.listen());
}

#[test]
fn a_version_negotiation_is_heeded_unless_it_names_our_version_or_comes_late() {
    let negotiation = |met: &Met| {
        let mut packet = Vec::new();
        put_version_negotiation(met.puppet.dcid.as_bytes(), met.original.as_bytes(), &mut packet);
        packet
    };
    let mut met = Met::client_with(Config::default(), |_| {});
    let names_ours = negotiation(&met);
    let mut names_others = names_ours.clone();
    let at = names_others.len() - 8;
    names_others[at..].copy_from_slice(&[9; 8]);
    met.deliver(names_ours);
    assert_eq!(met.ours.closed(), None);
    let mut late = Met::client_with(Config::default(), |_| {});
    late.exchange();
    late.deliver(names_others.clone());
    assert_eq!(late.ours.closed(), None);
    met.deliver(names_others);
    assert_eq!(met.ours.closed(), Some(&ConnectionError::VersionMismatch));
}

#[test]
fn a_closed_connection_answers_ever_more_seldom_and_then_not_at_all() {
    let mut met = Met::server(Config::default());
    let now = met.now;
    met.ours.close(3, b"", now);
    met.listen();
    met.sent.clear();
    for _ in 0..1_000 {
        met.say(DATA, &[Frame::Ping]);
    }
    assert_eq!(met.sent.len(), 10, "for the 1st, 2nd, 4th, ... 512th");
    met.say(DATA, &[Frame::Close(Close { code: 0, frame_type: None, reason: b"" })]);
    met.sent.clear();
    (0..1_000).for_each(|_| met.say(DATA, &[Frame::Ping]));
    assert!(met.sent.is_empty(), "both know");
    met.wait(Duration::from_secs(10));
    assert!(met.ours.is_over());
}

#[test]
fn a_close_is_told_however_many_packets_come_with_the_one_that_ended_it() {
    for behind in 0..20 {
        let mut met = Met::server(Config::default());
        let mut breach = Vec::new();
        Frame::StopSending { id: 2, code: 0 }.emit(&mut breach);
        let packet = met.puppet.packet(DATA, breach);
        met.deliver(packet);
        for _ in 0..behind {
            let next = met.puppet.next(DATA);
            let packet = met.puppet.ping(DATA, next);
            met.deliver(packet);
        }
        met.listen();
        assert_eq!(met.breach(), Some(code::STREAM_STATE_ERROR));
        assert!(met.heard(|frame| matches!(frame, Frame::Close(_))), "{behind} behind it");
    }
}

#[test]
fn nothing_of_the_application_is_told_before_the_handshake_is_done() {
    let mut met = Met::server_in_handshake();
    let now = met.now;
    met.ours.close(77, b"a secret", now);
    met.listen();
    assert!(met.heard(|frame| {
        let expected = Close { code: code::APPLICATION_ERROR, frame_type: Some(0), reason: b"" };
        *frame == Frame::Close(expected)
    }));
    let said = met.puppet.payloads.iter().filter(|(space, _)| *space != DATA);
    assert!(said.into_iter().all(|(_, frames)| !frames.windows(8).any(|w| w == b"a secret")));
}

fn endpoint() -> Endpoint {
    Endpoint::new([3; 32], Some(Listen::new(tls::server(), Config::default())))
}

fn answers(endpoint: &mut Endpoint) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut answer = Vec::new();
        if endpoint.poll_transmit(&mut answer, 20_000, Instant::ZERO).is_none() {
            return all;
        }
        all.push(answer);
    }
}

#[test]
fn a_reset_is_shorter_than_what_it_answers_and_a_short_packet_has_none() {
    let mut endpoint = endpoint();
    for len in 0..100 {
        let mut datagram = vec![0x41; len];
        endpoint.handle(home(), 0, &mut datagram, Instant::ZERO);
        let answers = answers(&mut endpoint);
        match len {
            // No packet is as short: there is nothing to sample [RFC 9001 §5.4.2].
            0..29 => assert!(answers.is_empty(), "{len}"),
            _ => assert!(answers.len() == 1 && (21..len).contains(&answers[0].len()), "{len}"),
        }
    }
}

#[test]
fn a_first_packet_to_a_short_id_or_in_a_small_datagram_is_no_connection() {
    use tack_quic::protection::{initial_keys, seal};
    use tack_quic::wire::{Header, LongKind, PacketNumber};
    for (id_len, len, is_taken) in [(7, 1_200, false), (8, 1_199, false), (8, 1_200, true)] {
        let mut endpoint = endpoint();
        let dcid = ConnectionId::new(&[6; 20][..id_len]).unwrap();
        let (version, kind) = (Version::V1, LongKind::Initial);
        let header = Header::Long { version, kind, dcid, scid: id(2), token: &[] };
        let keys = initial_keys(version, &dcid, rustls::Side::Client);
        let mut packet = Vec::new();
        let overhead = 1 + 4 + 1 + id_len + 1 + 8 + 1 + 2 + 4 + 16;
        let frames = vec![1; len - overhead];
        let number = PacketNumber::in_bytes(0, 4);
        seal((&keys.local).into(), &header, 0, number, &frames, &mut packet);
        assert_eq!(packet.len(), len);
        endpoint.handle(home(), 0, &mut packet, Instant::ZERO);
        assert_eq!(endpoint.connections().count(), usize::from(is_taken), "{id_len} {len}");
    }
}

#[test]
fn reserved_bits_that_are_set_under_protection_are_a_breach() {
    for (space, bit) in [(INITIAL, 0x04), (HANDSHAKE, 0x08), (DATA, 0x08), (DATA, 0x10)] {
        let mut met = match space {
            DATA => Met::server(Config::default()),
            _ => Met::server_in_handshake(),
        };
        let packet = met.puppet.with_first_bits(space, bit);
        met.deliver(packet);
        assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION), "{bit:#x} in space {space}");
    }
}

#[test]
fn what_a_client_says_in_1rtt_packets_is_read_once_its_handshake_is_done() {
    let mut met = Met::server_in_handshake();
    let mut frames = Vec::new();
    Frame::Stream { id: 2, offset: 0, fin: true, data: b"text" }.emit(&mut frames);
    let early = met.puppet.packet(DATA, frames);
    met.deliver(early);
    assert_eq!(met.ours.accept_stream(Dir::Uni), None, "the client's Finished is not here");
    met.exchange();
    let stream = met.ours.accept_stream(Dir::Uni).expect("it was kept");
    let mut out = [0; 9];
    assert_eq!(met.ours.read(stream, &mut out), Ok(Some(4)));
}
