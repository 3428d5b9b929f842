//! Transport parameters that cannot be.

use tack_quic::wire::{Frame, Parameters, Sender, Version, VersionInformation, put_varint};
use tack_quic::{Config, code};

use super::met::Met;
use super::puppet::{DATA, INITIAL, emitted, id, usual};
use super::tls::Sessions;

fn with(change: impl FnOnce(&mut Parameters)) -> Vec<u8> {
    let mut parameters = Parameters { initial_scid: Some(id(2)), ..usual() };
    change(&mut parameters);
    emitted(&parameters)
}

/// What a server of ours says to a client with these parameters.
fn breach(parameters: Vec<u8>) -> Option<u64> {
    let mut met = Met::server_with(Config::default(), parameters);
    met.exchange();
    met.breach()
}

/// Usual ones, and these bytes as parameter `id`.
fn and(id: u64, value: &[u8]) -> Vec<u8> {
    let mut bytes = with(|_| {});
    put_varint(id, &mut bytes);
    put_varint(value.len() as u64, &mut bytes);
    bytes.extend_from_slice(value);
    bytes
}

#[test]
fn a_client_s_parameters_that_cannot_be_end_the_handshake() {
    let cannot_be = [
        ("an original ID", with(|it| it.original_dcid = Some(id(1)))),
        ("a reset token", with(|it| it.reset_token = Some([1; 16]))),
        ("a Retry's ID", with(|it| it.retry_scid = Some(id(1)))),
        ("a preferred address", with(|it| it.preferred_address = Some(vec![0; 41]))),
        ("no ID", with(|it| it.initial_scid = None)),
        ("another ID", with(|it| it.initial_scid = Some(id(3)))),
        ("packets of 1 199 bytes", with(|it| it.max_udp_payload = 1_199)),
        ("an exponent of 21", with(|it| it.ack_delay_exponent = 21)),
        ("one ID", with(|it| it.active_cid_limit = 1)),
        ("too many streams", with(|it| it.max_streams_bidi = (1 << 60) + 1)),
        ("too many streams one way", with(|it| it.max_streams_uni = (1 << 60) + 1)),
        ("a delay of 2^14 ms", and(0x0b, &[0x80, 0, 0x40, 0])),
        ("a parameter twice", and(0x04, &[1])),
        ("a number with a tail", and(0x01, &[1, 1])),
        ("a flag with a value", and(0x0c, &[1])),
        ("a value that is cut off", [with(|_| {}), vec![0x20, 9, 1]].concat()),
    ];
    for (what, parameters) in cannot_be {
        assert_eq!(breach(parameters), Some(code::TRANSPORT_PARAMETER_ERROR), "{what}");
    }
    assert_eq!(breach(with(|_| {})), None);
    assert_eq!(breach(and(0x1f * 31 + 27, b"whatever")), None, "a reserved one is skipped");
}

#[test]
fn a_server_s_parameters_must_name_the_ids_of_the_handshake() {
    type Change = fn(&mut Parameters);
    let cannot_be: [(&str, Change); 5] = [
        ("no original ID", |it| it.original_dcid = None),
        ("another original ID", |it| it.original_dcid = Some(id(7))),
        ("a Retry that was none", |it| it.retry_scid = Some(id(7))),
        ("no ID", |it| it.initial_scid = None),
        ("another ID", |it| it.initial_scid = Some(id(7))),
    ];
    for (what, change) in cannot_be {
        let mut met = Met::client_with(Config::default(), change);
        met.exchange();
        assert_eq!(met.breach(), Some(code::TRANSPORT_PARAMETER_ERROR), "{what}");
    }
}

/// `version_information` with these numbers, the chosen one first.
fn versions(numbers: &[u32]) -> Vec<u8> {
    let value: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    and(0x11, &value)
}

const V2: u32 = Version::V2.number();

#[test]
fn a_client_s_version_information_that_cannot_be_ends_the_handshake() {
    let cannot_be = [
        ("nothing", and(0x11, &[])),
        ("three bytes", and(0x11, &[0, 0, 1])),
        ("a version and a half", and(0x11, &[0, 0, 0, 1, 0, 0])),
        ("a chosen version of 0", versions(&[0, 1])),
        ("an available version of 0", versions(&[1, 1, 0])),
        ("a chosen version that is not available", versions(&[1, V2])),
        ("no available version", versions(&[1])),
    ];
    for (what, parameters) in cannot_be {
        assert_eq!(breach(parameters), Some(code::TRANSPORT_PARAMETER_ERROR), "{what}");
    }
    assert_eq!(breach(versions(&[1, 1])), None);
    assert_eq!(breach(versions(&[1, V2, 0x0a1a_2a3a, 1])), None, "others are no breach");
}

#[test]
fn a_client_whose_first_packet_is_of_another_version_than_it_names_is_refused() {
    for numbers in [[V2, V2, 1], [7, 7, 1]] {
        assert_eq!(breach(versions(&numbers)), Some(code::VERSION_NEGOTIATION_ERROR));
    }
}

#[test]
fn a_server_that_names_another_version_than_is_spoken_is_left() {
    let of = |chosen: Option<u32>| {
        let mut met = Met::client_with(Config::default(), |it| {
            let available = Version::ALL.to_vec();
            it.version_information = chosen.map(|chosen| VersionInformation { chosen, available });
        });
        met.exchange();
        met.breach()
    };
    assert_eq!(of(None), None, "a server may know nothing of it");
    assert_eq!(of(Some(1)), None);
    assert_eq!(of(Some(V2)), Some(code::VERSION_NEGOTIATION_ERROR));
    assert_eq!(of(Some(0)), Some(code::TRANSPORT_PARAMETER_ERROR));
}

#[test]
fn both_sides_name_the_version_that_is_spoken_and_a_server_all_that_it_speaks() {
    let of_client = |met: &Met| met.puppet.peer_parameters(Sender::Client).version_information;
    let met = Met::client(Config::default());
    assert_eq!(of_client(&met), Some(VersionInformation::of_client(Version::V1)));
    let met = Met::server(Config::default());
    let of_server = met.puppet.peer_parameters(Sender::Server).version_information.unwrap();
    assert_eq!((of_server.chosen, of_server.available), (1, Version::ALL.to_vec()));
}

/// A server of ours and a client that begins in version 1 and would rather speak version 2.
fn would_rather_speak_2() -> Met {
    let parameters = versions(&[1, V2, 1]);
    Met::server_in(
        rustls::quic::Version::V2,
        id(2),
        Config::default(),
        parameters,
        Sessions::none(),
    )
}

#[test]
fn a_client_that_would_rather_speak_version_2_is_led_to_it() {
    let mut met = would_rather_speak_2();
    let first = met.puppet.speak();
    met.puppet.go_on_in(Version::V2, &id(1));
    first.into_iter().for_each(|packet| met.deliver(packet));
    met.exchange();
    assert!(met.ours.is_established(), "{:?}", met.ours.closed());
    assert_eq!(met.ours.version(), Version::V2);
    let said = met.puppet.peer_parameters(Sender::Server).version_information;
    assert_eq!(said, Some(VersionInformation::of_server(Version::V2)));
    met.say(DATA, &[Frame::HandshakeDone]);
    assert_eq!(met.breach(), Some(code::PROTOCOL_VIOLATION), "1-RTT packets are understood");
}

#[test]
fn what_a_client_repeats_in_the_version_that_it_began_with_is_taken() {
    let mut met = would_rather_speak_2();
    let (first, again) = (met.puppet.speak(), met.puppet.packet(INITIAL, vec![1]));
    met.puppet.go_on_in(Version::V2, &id(1));
    first.into_iter().for_each(|packet| met.deliver(packet));
    let before = met.ours.info().counters.packets_received;
    met.deliver(again);
    met.say(INITIAL, &[Frame::Ping]);
    assert_eq!(met.ours.info().counters.packets_received, before + 2);
}

#[test]
fn a_hello_that_comes_in_pieces_is_waited_for_before_a_version_is_chosen() {
    let mut met = would_rather_speak_2();
    let hello = met.puppet.hello();
    let (head, tail) = hello.split_at(hello.len() / 2);
    met.say(INITIAL, &[Frame::Crypto { offset: 0, data: head }]);
    assert_eq!(met.ours.version(), Version::V1);
    assert!(!met.heard(|frame| matches!(frame, Frame::Crypto { .. })));
    met.say(INITIAL, &[Frame::Crypto { offset: head.len() as u64, data: tail }]);
    assert_eq!((met.ours.version(), met.breach()), (Version::V2, None));
}
