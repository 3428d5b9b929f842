use proptest::prelude::*;

use super::*;

fn header() -> Header {
    Header {
        src: Ipv4Addr::new(192, 168, 0, 1),
        dst: Ipv4Addr::new(192, 168, 0, 199),
        protocol: 17,
        ttl: 64,
        dscp: 0,
        ecn: Ecn::NotEct,
        identification: 0,
        dont_fragment: true,
    }
}

fn packet(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    header().emit(payload.len(), &mut bytes).expect("short");
    bytes.extend_from_slice(payload);
    bytes
}

/// Rewrites the checksum after a test has tampered with the header.
fn reseal(bytes: &mut [u8]) {
    bytes[10..12].fill(0);
    let len = usize::from(bytes[0] & 0xf) * 4;
    let sum = checksum(&bytes[..len]);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn a_known_header_is_written_byte_for_byte() {
    // The worked example of the checksum in circulation: 115 bytes of UDP, checksum 0xb861.
    let expected = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0x00,
        0x01, 0xc0, 0xa8, 0x00, 0xc7,
    ];
    let mut bytes = Vec::new();
    header().emit(95, &mut bytes).expect("short");
    assert_eq!(bytes, expected);
}

#[test]
fn link_padding_is_cut_off() {
    let mut bytes = packet(b"abc");
    bytes.extend_from_slice(&[0; 23]);
    assert_eq!(Packet::parse(&bytes).expect("whole").payload, b"abc");
}

#[test]
fn options_are_stepped_over() {
    let mut bytes = packet(b"abc");
    bytes.splice(20..20, [1, 1, 1, 0]);
    bytes[0] = 0x46;
    bytes[3] += 4;
    reseal(&mut bytes);
    assert_eq!(Packet::parse(&bytes).expect("whole").payload, b"abc");
}

#[test]
fn lengths_that_contradict_each_other_are_refused() {
    let mut short_header = packet(b"abc");
    short_header[0] = 0x44;
    let error = IpError::HeaderLength { header: 16, total: 23 };
    assert_eq!(Packet::parse(&short_header), Err(error));

    let mut total_in_header = packet(b"abc");
    total_in_header[3] = 19;
    let error = IpError::HeaderLength { header: 20, total: 19 };
    assert_eq!(Packet::parse(&total_in_header), Err(error));

    let cut = packet(b"abc");
    assert_eq!(Packet::parse(&cut[..22]), Err(IpError::TotalLength { total: 23, have: 22 }));
    assert_eq!(Packet::parse(&cut[..19]), Err(IpError::Truncated { need: 20, have: 19 }));
}

#[test]
fn fragments_first_middle_or_last_are_refused() {
    for (field, offset, more) in [(0x2000u16, 0, true), (0x2001, 8, true), (0x1fff, 65_528, false)]
    {
        let mut bytes = packet(b"abc");
        bytes[6..8].copy_from_slice(&field.to_be_bytes());
        reseal(&mut bytes);
        assert_eq!(Packet::parse(&bytes), Err(IpError::Fragment { offset, more }));
    }
}

#[test]
fn any_flipped_bit_of_the_header_is_refused() {
    let good = packet(b"abc");
    for bit in 0..HEADER_LEN * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Packet::parse(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn more_than_fits_is_refused_and_nothing_is_written() {
    let mut out = Vec::new();
    let error = IpError::TooLong { payload: 65_516, limit: 65_515 };
    assert_eq!(header().emit(65_516, &mut out), Err(error));
    assert!(out.is_empty());
    assert_eq!(header().emit(65_515, &mut out), Ok(()));
}

proptest! {
    #[test]
    fn what_is_emitted_is_read_back(
        addresses in any::<[[u8; 4]; 2]>(), bytes in any::<[u8; 3]>(), bits in 0u8..=255,
        identification in any::<u16>(), dont_fragment in any::<bool>(),
        payload in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let header = Header {
            src: addresses[0].into(),
            dst: addresses[1].into(),
            protocol: bytes[0],
            ttl: bytes[1],
            dscp: bits >> 2,
            ecn: Ecn::from_bits(bits),
            identification,
            dont_fragment,
        };
        let mut out = Vec::new();
        header.emit(payload.len(), &mut out).expect("short");
        out.extend_from_slice(&payload);
        prop_assert_eq!(Packet::parse(&out), Ok(Packet { header, payload: &payload }));
    }

    #[test]
    fn any_bytes_are_a_packet_or_an_error_and_never_a_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..80), sealed in any::<bool>(),
    ) {
        if let Some(first) = bytes.first_mut() {
            *first = 0x40 | *first & 0xf;
        }
        if sealed && bytes.len() >= 60 {
            reseal(&mut bytes);
        }
        if let Ok(packet) = Packet::parse(&bytes) {
            prop_assert!(packet.payload.len() + HEADER_LEN <= bytes.len());
        }
    }
}
