use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::wire::ip::Ecn;

const FAILURES: [PathError; 7] = [
    PathError::NetworkUnreachable,
    PathError::HostUnreachable,
    PathError::ProtocolUnreachable,
    PathError::PortUnreachable,
    PathError::Prohibited,
    PathError::TimeExceeded,
    PathError::ParameterProblem,
];

fn addresses(ipv6: bool) -> (IpAddr, IpAddr) {
    if ipv6 {
        ([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 2].into())
    } else {
        ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    }
}

/// A packet with the beginning of a TCP segment: ports 1 and 2, SEQ 3.
fn packet(ipv6: bool, text: usize) -> Vec<u8> {
    let (src, dst) = addresses(ipv6);
    let mut tcp = vec![0, 1, 0, 2, 0, 0, 0, 3];
    tcp.resize(20 + text, 0);
    let mut out = Vec::new();
    let (protocol, ecn) = (PROTOCOL_TCP, Ecn::NotEct);
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let (ttl, dscp, identification, dont_fragment) = (3, 0, 0, true);
            ipv4::Header { src, dst, protocol, ttl, dscp, ecn, identification, dont_fragment }
                .emit(tcp.len(), &mut out)
                .expect("short");
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let (hop_limit, dscp, flow_label) = (3, 0, 0);
            ipv6::Header { src, dst, protocol, hop_limit, dscp, ecn, flow_label }
                .emit(tcp.len(), &mut out)
                .expect("short");
        }
        _ => unreachable!("one family"),
    }
    out.extend(tcp);
    out
}

#[test]
fn every_error_survives_a_round_trip_with_its_quote() {
    let router = |ipv6: bool| if ipv6 { addresses(true).1 } else { [192, 0, 2, 1].into() };
    for ipv6 in [false, true] {
        let (us, peer) = addresses(ipv6);
        let about = packet(ipv6, 1_460);
        let mut reports: Vec<_> = FAILURES.into_iter().map(Report::Failed).collect();
        reports.push(Report::TooBig { mtu: Some(1_400) });
        if !ipv6 {
            reports.extend([Report::TooBig { mtu: None }, Report::Quench]);
        }
        for report in reports {
            let mut message = Vec::new();
            emit_error(router(ipv6), us, report, &about, &mut message);
            let quote = Quote {
                src: us,
                dst: peer,
                src_port: 1,
                dst_port: 2,
                seq: SeqNum(3),
                total_len: about.len(),
            };
            let parsed = Icmp::parse(router(ipv6), us, &message, false);
            assert_eq!(parsed, Ok(Icmp::Error(report, quote)));
        }
    }
}

#[test]
fn an_echo_request_is_answered_with_its_own_words() {
    for ipv6 in [false, true] {
        let (a, b) = addresses(ipv6);
        let (mut request, mut reply) = (Vec::new(), Vec::new());
        emit_echo_request(a, b, b"idsqdata", &mut request);
        let Ok(Icmp::EchoRequest(rest)) = Icmp::parse(a, b, &request, false) else {
            panic!("an echo request")
        };
        assert_eq!(rest, b"idsqdata");
        emit_echo_reply(b, a, rest, &mut reply);
        assert_eq!(reply[0], if ipv6 { 129 } else { 0 });
        assert_eq!(Icmp::parse(b, a, &reply, false), Ok(Icmp::Other));
    }
}

#[test]
fn a_flipped_bit_is_seen_unless_the_device_vouches_for_the_checksum() {
    for ipv6 in [false, true] {
        let (a, b) = addresses(ipv6);
        let mut message = Vec::new();
        emit_echo_request(a, b, b"idsqdata", &mut message);
        for bit in 0..message.len() * 8 {
            message[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Icmp::parse(a, b, &message, false), Err(IcmpError::Checksum));
            assert!(Icmp::parse(a, b, &message, true).is_ok());
            message[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn quotes_of_other_protocols_later_fragments_and_stumps_are_foreign() {
    for ipv6 in [false, true] {
        let (us, peer) = addresses(ipv6);
        let whole = packet(ipv6, 0);
        let header = if ipv6 { 40 } else { 20 };
        let mut bad = vec![
            Vec::new(),
            whole[..header].to_vec(),
            whole[..header + 7].to_vec(),
            // The other family's version.
            [&[if ipv6 { 0x45 } else { 0x60 }], &whole[1..]].concat(),
        ];
        let mut udp = whole.clone();
        udp[if ipv6 { 6 } else { 9 }] = 17;
        bad.push(udp);
        if !ipv6 {
            let mut fragment = whole.clone();
            fragment[7] = 1;
            bad.push(fragment);
            let mut short_header = whole.clone();
            short_header[0] = 0x44;
            bad.push(short_header);
        }
        for about in bad {
            let mut message = Vec::new();
            let report = Report::Failed(PathError::HostUnreachable);
            emit_error(peer, us, report, &about, &mut message);
            let parsed = Icmp::parse(peer, us, &message, false);
            assert_eq!(parsed, Ok(Icmp::ForeignError), "{about:02x?}");
        }
    }
}

#[test]
fn options_that_a_router_added_to_a_quoted_ipv4_header_are_stepped_over() {
    let (us, peer) = addresses(false);
    let whole = packet(false, 0);
    let mut longer = whole[..20].to_vec();
    longer[0] = 0x46;
    longer.extend([1, 1, 1, 0]);
    longer.extend(&whole[20..]);
    let mut message = Vec::new();
    let report = Report::Failed(PathError::TimeExceeded);
    emit(peer, us, 11, 0, [&[0; 4], &longer], &mut message);
    let Ok(Icmp::Error(got, quote)) = Icmp::parse(peer, us, &message, false) else {
        panic!("an error about TCP")
    };
    assert_eq!((got, quote.src_port, quote.seq), (report, 1, SeqNum(3)));
}

#[test]
fn what_no_restart_repairs_is_hard_and_a_matter_of_routing_is_soft() {
    // [RFC 1122 §4.2.3.9]
    let hard: Vec<_> = FAILURES.into_iter().filter(|e| e.is_hard()).collect();
    assert_eq!(
        hard,
        [PathError::ProtocolUnreachable, PathError::PortUnreachable, PathError::Prohibited]
    );
    for code in [0, 1, 5, 6, 7, 8, 11, 12, 200] {
        let Meaning::Error(Report::Failed(error)) = read_v4(3, code, [0; 4]) else {
            panic!("code {code}")
        };
        assert!(!error.is_hard(), "code {code}");
    }
}

#[test]
fn noise_never_panics_in_either_family() {
    let rng = &mut Pcg64::seed_from_u64(1);
    for _ in 0..50_000 {
        let (a, b) = addresses(rng.random_bool(0.5));
        let mut bytes = vec![0; rng.random_range(0..100)];
        rng.fill_bytes(&mut bytes);
        if let [kind, code, ..] = &mut bytes[..] {
            *kind = [0, 1, 2, 3, 4, 5, 8, 11, 12, 128, 129, 135][rng.random_range(0..12)];
            *code %= 16;
        }
        if let Some(version) = bytes.get_mut(8) {
            *version = if a.is_ipv4() { 0x45 + (*version & 3) } else { 0x60 };
        }
        let _read = Icmp::parse(a, b, &bytes, true);
    }
}
