use proptest::prelude::*;

use super::*;

fn header(protocol: u8) -> Header {
    Header {
        src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
        protocol,
        hop_limit: 64,
        dscp: 0x2e,
        ecn: Ecn::Ect0,
        flow_label: 0x12345,
    }
}

fn packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    header(protocol).emit(payload.len(), &mut bytes).expect("short");
    bytes.extend_from_slice(payload);
    bytes
}

#[test]
fn a_known_header_is_written_byte_for_byte() {
    let mut bytes = Vec::new();
    header(6).emit(0x0102, &mut bytes).expect("short");
    assert_eq!(bytes[..8], [0x6b, 0xa1, 0x23, 0x45, 0x01, 0x02, 6, 64]);
    assert_eq!(bytes[8..10], [0xfd, 0x00]);
    assert_eq!(bytes[39], 2);
}

#[test]
fn extension_headers_are_stepped_over() {
    // Hop-by-hop, destination options of 16 bytes, a spent routing header, then TCP.
    let mut chain = vec![DESTINATION, 0, 1, 4, 0, 0, 0, 0];
    chain.extend([ROUTING, 1, 1, 12]);
    chain.extend([0; 12]);
    chain.extend([6, 0, 4, 0, 0, 0, 0, 0]);
    chain.extend(b"abc");
    let bytes = packet(HOP_BY_HOP, &chain);
    let parsed = Packet::parse(&bytes).expect("a legal chain");
    assert_eq!((parsed.header.protocol, parsed.payload), (6, &b"abc"[..]));
}

#[test]
fn the_chain_of_extension_headers_is_bounded() {
    let chain = |n: usize| {
        let mut chain = Vec::new();
        for i in 0..n {
            chain.extend([if i + 1 < n { DESTINATION } else { 6 }, 0, 1, 4, 0, 0, 0, 0]);
        }
        packet(DESTINATION, &chain)
    };
    assert_eq!(Packet::parse(&chain(MAX_EXTENSIONS)).map(|p| p.header.protocol), Ok(6));
    let error = IpError::TooManyExtensions { limit: MAX_EXTENSIONS };
    assert_eq!(Packet::parse(&chain(MAX_EXTENSIONS + 1)), Err(error));
}

#[test]
fn misplaced_overlong_and_source_routing_headers_are_refused() {
    let late_hop_by_hop = [HOP_BY_HOP, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0];
    let overlong = [6, 1, 1, 4, 0, 0, 0, 0];
    let source_route = [6, 0, 0, 1, 0, 0, 0, 0];
    for (first, chain, kind) in [
        (DESTINATION, &late_hop_by_hop[..], HOP_BY_HOP),
        (DESTINATION, &overlong, DESTINATION),
        (DESTINATION, &[6], DESTINATION),
        (ROUTING, &source_route, ROUTING),
    ] {
        let bytes = packet(first, chain);
        assert_eq!(Packet::parse(&bytes), Err(IpError::Extension { kind }));
    }
}

#[test]
fn fragments_are_refused_even_atomic_ones() {
    for (field, offset, more) in [(0u16, 0, false), (0x0009, 8, true), (0xfff8, 65_528, false)] {
        let [hi, lo] = field.to_be_bytes();
        let bytes = packet(FRAGMENT, &[6, 0, hi, lo, 0, 0, 0, 1]);
        assert_eq!(Packet::parse(&bytes), Err(IpError::Fragment { offset, more }));
    }
    let cut = packet(FRAGMENT, &[6]);
    assert_eq!(Packet::parse(&cut), Err(IpError::Extension { kind: FRAGMENT }));
}

#[test]
fn a_payload_cut_short_is_refused_and_padding_cut_off() {
    let mut bytes = packet(6, b"abc");
    assert_eq!(Packet::parse(&bytes[..42]), Err(IpError::TotalLength { total: 43, have: 42 }));
    assert_eq!(Packet::parse(&bytes[..39]), Err(IpError::Truncated { need: 40, have: 39 }));
    bytes.push(0);
    assert_eq!(Packet::parse(&bytes).expect("whole").payload, b"abc");
    bytes[0] = 0x4b;
    assert_eq!(Packet::parse(&bytes), Err(IpError::Version { version: 4 }));
}

#[test]
fn more_than_fits_is_refused_and_nothing_is_written() {
    let mut out = Vec::new();
    let error = IpError::TooLong { payload: 65_536, limit: 65_535 };
    assert_eq!(header(6).emit(65_536, &mut out), Err(error));
    assert!(out.is_empty());
}

proptest! {
    #[test]
    fn what_is_emitted_is_read_back(
        addresses in any::<[[u8; 16]; 2]>(), bits in any::<u8>(), hop_limit in any::<u8>(),
        flow_label in 0u32..1 << 20, payload in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let header = Header {
            src: addresses[0].into(),
            dst: addresses[1].into(),
            protocol: 6,
            hop_limit,
            dscp: bits >> 2,
            ecn: Ecn::from_bits(bits),
            flow_label,
        };
        let mut out = Vec::new();
        header.emit(payload.len(), &mut out).expect("short");
        out.extend_from_slice(&payload);
        prop_assert_eq!(Packet::parse(&out), Ok(Packet { header, payload: &payload }));
    }

    #[test]
    fn any_bytes_behind_any_next_header_are_a_packet_or_an_error(
        first in prop_oneof![any::<u8>(), Just(HOP_BY_HOP), Just(ROUTING), Just(DESTINATION)],
        chain in proptest::collection::vec(prop_oneof![0u8..3, any::<u8>(), Just(60u8)], 0..120),
    ) {
        let bytes = packet(first, &chain);
        if let Ok(parsed) = Packet::parse(&bytes) {
            prop_assert!(parsed.payload.len() <= chain.len());
        }
    }
}
