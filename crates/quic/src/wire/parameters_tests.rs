use super::*;
use crate::wire::Version;

fn full() -> Parameters {
    let cid = |n: u8| ConnectionId::new(&[n; 8]);
    Parameters {
        original_dcid: cid(1),
        max_idle_timeout_ms: 30_000,
        reset_token: Some([9; 16]),
        max_udp_payload: 1_472,
        max_data: 1 << 30,
        max_stream_data_bidi_local: 1 << 20,
        max_stream_data_bidi_remote: 1 << 21,
        max_stream_data_uni: 1 << 22,
        max_streams_bidi: 100,
        max_streams_uni: 3,
        ack_delay_exponent: 0,
        max_ack_delay: Duration::from_millis(26),
        disable_active_migration: true,
        preferred_address: Some(preferred(8, 49)),
        active_cid_limit: 8,
        initial_scid: cid(2),
        retry_scid: cid(3),
        max_datagram: 1_200,
        min_ack_delay: Some(Duration::from_millis(1)),
        version_information: Some(VersionInformation::of_server(Version::V2)),
        tack: Some(TACK_VERSION),
    }
}

/// One that says that its ID is so long.
fn preferred(id_len: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![7; len];
    bytes.iter_mut().skip(24).take(1).for_each(|byte| *byte = id_len);
    bytes
}

fn emitted(parameters: &Parameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    parameters.emit(&mut bytes);
    bytes
}

#[test]
fn parameters_survive_and_defaults_take_no_room() {
    let full = full();
    assert_eq!(Parameters::parse(&emitted(&full), Sender::Server), Ok(full));
    assert_eq!(emitted(&Parameters::default()), []);
    assert_eq!(Parameters::parse(&[], Sender::Client), Ok(Parameters::default()));
}

#[test]
fn what_a_client_may_not_send_is_refused() {
    for id in [0x00, 0x02, 0x0d, 0x10] {
        let bytes = [id, 0];
        let refused = Parameters::parse(&bytes, Sender::Client);
        assert_eq!(refused, Err(ParseError::ServerOnly(id.into())));
    }
}

#[test]
fn each_bound_of_the_rfc_is_held() {
    let mut wrong = Vec::new();
    for (id, value) in [
        (id::MAX_UDP_PAYLOAD, 1_199),
        (id::MAX_STREAMS_BIDI, (1 << 60) + 1),
        (id::MAX_STREAMS_UNI, (1 << 60) + 1),
        (id::ACK_DELAY_EXPONENT, 21),
        (id::MAX_ACK_DELAY, 1 << 14),
        (id::ACTIVE_CID_LIMIT, 1),
        (id::TACK, 0),
        // More than max_ack_delay, which is 25 ms.
        (id::MIN_ACK_DELAY, 25_001),
    ] {
        let mut number = Vec::new();
        put_varint(value, &mut number);
        wrong.clear();
        put_varint(id, &mut wrong);
        put_varint(number.len() as u64, &mut wrong);
        wrong.extend_from_slice(&number);
        let refused = Parameters::parse(&wrong, Sender::Server);
        assert!(
            matches!(refused, Err(ParseError::Value { value: v, .. }) if v == value),
            "{id:#x}"
        );
    }
    assert!(Parameters::parse(&[0x0c, 1, 0], Sender::Server).is_err(), "a flag has no value");
    assert!(Parameters::parse(&[0x04, 2, 1, 0], Sender::Server).is_err(), "more than its number");
    assert!(Parameters::parse(&[0x02, 2, 1, 0], Sender::Server).is_err(), "no token");
}

#[test]
fn one_that_comes_twice_is_refused_and_an_unknown_one_is_not() {
    let mut bytes = emitted(&full());
    bytes.extend_from_slice(&[0x1b, 2, 7, 7]);
    assert_eq!(Parameters::parse(&bytes, Sender::Server), Ok(full()));
    bytes.extend_from_slice(&[0x04, 1, 5]);
    assert_eq!(Parameters::parse(&bytes, Sender::Server), Err(ParseError::Twice(4)));
}

#[test]
fn what_is_cut_off_anywhere_is_refused_or_has_fewer_parameters() {
    let bytes = emitted(&full());
    for cut in 0..bytes.len() {
        if let Ok(fewer) = Parameters::parse(&bytes[..cut], Sender::Server) {
            assert_ne!(fewer, full());
        }
    }
}

#[test]
fn a_preferred_address_is_whole_and_has_an_id_or_is_refused() {
    let parse = |id_len, len, scid: &[u8]| {
        let parameters = Parameters {
            preferred_address: Some(preferred(id_len, len)),
            initial_scid: ConnectionId::new(scid),
            ..Parameters::default()
        };
        Parameters::parse(&emitted(&parameters), Sender::Server)
    };
    for (id_len, len) in [(1, 42), (8, 49), (20, 61)] {
        assert!(parse(id_len, len, b"initial").is_ok(), "{id_len} in {len}");
        assert!(parse(id_len, len, b"").is_err(), "who has no ID has no other address");
    }
    for (id_len, len) in [(0, 41), (21, 62), (8, 48), (8, 50), (0, 0), (1, 24), (255, 25)] {
        assert!(parse(id_len, len, b"initial").is_err(), "{id_len} in {len}");
    }
}
