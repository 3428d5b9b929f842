//! Just enough IP to mark congestion and to recognise TCP acknowledgments in a queue.
//!
//! A router reads headers it did not write: anything unusual (options, fragments, extension
//! headers, a wrong checksum, lengths that do not add up) is `None`, and left alone.

use crate::link::Packet;

/// ECN codepoint Congestion Experienced [RFC 3168 §5].
pub(crate) const CE: u8 = 3;

const TCP: u8 = 6;

/// Sets Congestion Experienced in `packet` if its transport is ECN-capable; the bytes, when they
/// are a readable IP header, change with it. False when the packet is not ECN-capable.
pub(crate) fn mark_ce(packet: &mut Packet) -> bool {
    if packet.ecn == 0 {
        return false;
    }
    packet.ecn = CE;
    let b = &mut packet.bytes;
    match b.first().map(|version| version >> 4) {
        Some(4) if ipv4_header(b).is_some() => {
            b[1] |= CE;
            b[10..12].fill(0);
            let sum = !ones_complement_sum(&b[..header_len(b)]);
            b[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        // The traffic class straddles the first two bytes [RFC 8200 §3].
        Some(6) if b.len() >= 40 => b[1] |= CE << 4,
        _ => {}
    }
    true
}

/// A TCP flow in one direction: addresses as they stand in the header, and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    addresses: [u8; 32],
    ports: [u8; 4],
}

/// A TCP segment as far as an ACK filter looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpView {
    pub(crate) flow: FlowKey,
    /// The acknowledgment number if the segment does nothing but move it: see [`tcp`].
    pub(crate) pure_ack: Option<u32>,
}

/// Reads a TCP segment. It counts as a pure ACK when
/// - its flags are ACK and nothing else (no SYN, FIN, RST, PSH, URG, ECE, CWR, AE);
/// - it has no payload, so no application data and no TACK or IACK body;
/// - its options are NOP, end of list and timestamps only: SACK blocks and everything unknown,
///   the TACK options included, carry news that a later ACK need not repeat.
pub(crate) fn tcp(bytes: &[u8]) -> Option<TcpView> {
    let mut addresses = [0; 32];
    let segment = match bytes.first()? >> 4 {
        4 => {
            let header = ipv4_header(bytes)?;
            let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
            if header[9] != TCP || fragment != 0 {
                return None;
            }
            addresses[..8].copy_from_slice(&header[12..20]);
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            bytes.get(header.len()..total)?
        }
        6 if bytes.len() >= 40 && bytes[6] == TCP => {
            addresses.copy_from_slice(&bytes[8..40]);
            let payload = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
            bytes.get(40..40 + payload)?
        }
        _ => return None,
    };
    let offset = usize::from(segment.get(12)? >> 4) * 4;
    let options = segment.get(20..offset)?;
    let flow = FlowKey { addresses, ports: segment[..4].try_into().expect("at least 20 bytes") };
    let only_ack = segment[12] & 0x0f == 0 && segment[13] == 0x10;
    let pure = only_ack && segment.len() == offset && only_timestamps(options);
    let ack = u32::from_be_bytes(segment[8..12].try_into().expect("at least 20 bytes"));
    Some(TcpView { flow, pure_ack: pure.then_some(ack) })
}

/// The IPv4 header with its options, if length and checksum are right.
fn ipv4_header(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.len() < 20 || header_len(bytes) < 20 {
        return None;
    }
    let header = bytes.get(..header_len(bytes))?;
    (ones_complement_sum(header) == 0xffff).then_some(header)
}

fn header_len(bytes: &[u8]) -> usize {
    usize::from(bytes[0] & 0x0f) * 4
}

fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let (pairs, _) = bytes.as_chunks::<2>();
    let mut sum: u32 = pairs.iter().map(|p| u32::from(u16::from_be_bytes(*p))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn only_timestamps(mut options: &[u8]) -> bool {
    loop {
        match options {
            [] | [0, ..] => return true,
            [1, rest @ ..] => options = rest,
            [8, 10, rest @ ..] if rest.len() >= 8 => options = &rest[8..],
            _ => return false,
        }
    }
}

/// Builders of real segments, for this crate's tests.
#[cfg(test)]
pub(crate) mod build {
    use super::*;

    /// An IPv4 TCP segment with a right header checksum.
    pub(crate) fn ipv4_tcp(
        port: u16,
        flags: u8,
        ack: u32,
        options: &[u8],
        payload: &[u8],
    ) -> Vec<u8> {
        assert_eq!(options.len() % 4, 0);
        let total = 40 + options.len() + payload.len();
        let mut b = vec![0x45, 2, (total >> 8) as u8, total as u8, 0, 0, 0x40, 0, 64, TCP, 0, 0];
        b.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        let sum = !ones_complement_sum(&b);
        b[10..12].copy_from_slice(&sum.to_be_bytes());
        let tcp_header = b.len();
        b.extend(port.to_be_bytes());
        b.extend(80u16.to_be_bytes());
        b.extend(7u32.to_be_bytes());
        b.extend(ack.to_be_bytes());
        b.extend([(5 + options.len() as u8 / 4) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        b.extend(options);
        b.extend(payload);
        let addresses = b[12..20].to_vec();
        fill_checksum(&addresses, &mut b[tcp_header..]);
        b
    }

    /// The checksum over pseudo-header and segment [RFC 9293 §3.1].
    fn fill_checksum(addresses: &[u8], segment: &mut [u8]) {
        segment[16..18].fill(0);
        let mut summed = addresses.to_vec();
        summed.extend([0, TCP]);
        summed.extend((segment.len() as u16).to_be_bytes());
        summed.extend(&*segment);
        summed.resize(summed.len().next_multiple_of(2), 0);
        let sum = !ones_complement_sum(&summed);
        segment[16..18].copy_from_slice(&sum.to_be_bytes());
    }

    /// Timestamps, padded the usual way.
    pub(crate) fn timestamps() -> Vec<u8> {
        vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]
    }

    /// The same segment under an IPv6 header.
    pub(crate) fn ipv6_tcp(v4: &[u8]) -> Vec<u8> {
        let segment = &v4[20..];
        let mut b = vec![0x60, 0x20, 0, 0, 0, segment.len() as u8, TCP, 64];
        b.extend([1; 16]);
        b.extend([2; 16]);
        b.extend(segment);
        let addresses = b[8..40].to_vec();
        fill_checksum(&addresses, &mut b[40..]);
        b
    }
}

#[cfg(test)]
mod tests {
    use super::build::*;
    use super::*;

    fn pure(bytes: &[u8]) -> Option<u32> {
        tcp(bytes).and_then(|t| t.pure_ack)
    }

    #[test]
    fn pure_acks_are_recognised_in_both_ip_versions() {
        let bare = ipv4_tcp(1, 0x10, 99, &[], &[]);
        let stamped = ipv4_tcp(1, 0x10, 99, &timestamps(), &[]);
        for b in [&bare, &stamped, &ipv6_tcp(&bare), &ipv6_tcp(&stamped)] {
            assert_eq!(pure(b), Some(99));
        }
        assert_eq!(tcp(&bare).unwrap().flow, tcp(&stamped).unwrap().flow);
        assert_ne!(tcp(&bare).unwrap().flow, tcp(&ipv4_tcp(2, 0x10, 99, &[], &[])).unwrap().flow);
    }

    #[test]
    fn segments_that_say_more_than_an_ack_number_are_not_pure() {
        let sack = [1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2];
        let tack = [253, 5, 0x12, 0x34, 1, 1, 1, 1];
        let kind_41 = [41, 3, 1, 1];
        for flags in [0x12, 0x11, 0x14, 0x18, 0x30, 0x50, 0x90, 0x00] {
            assert_eq!(pure(&ipv4_tcp(1, flags, 9, &[], &[])), None, "flags {flags:#x}");
        }
        for options in [&sack[..], &tack, &kind_41, &[8, 9, 0, 0], &[2, 4, 5, 180]] {
            assert_eq!(pure(&ipv4_tcp(1, 0x10, 9, options, &[])), None, "options {options:?}");
        }
        assert_eq!(pure(&ipv4_tcp(1, 0x10, 9, &timestamps(), b"x")), None, "payload");
        let mut ae = ipv4_tcp(1, 0x10, 9, &[], &[]);
        ae[32] |= 1;
        assert_eq!(pure(&ae), None, "AE flag");
    }

    #[test]
    fn damaged_headers_and_fragments_are_not_tcp() {
        let good = ipv4_tcp(1, 0x10, 9, &timestamps(), &[]);
        for bit in 0..160 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(tcp(&bad), None, "header bit {bit}");
        }
        for len in 0..good.len() {
            assert_eq!(tcp(&good[..len]), None, "truncated to {len}");
        }
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut rng = crate::draw::stream(11, 0);
        for _ in 0..20_000 {
            let mut bytes = ipv4_tcp(1, 0x10, 9, &timestamps(), b"payload");
            for _ in 0..crate::draw::below(&mut rng, 8) {
                let at = crate::draw::below(&mut rng, bytes.len() as u64) as usize;
                bytes[at] = crate::draw::below(&mut rng, 256) as u8;
            }
            bytes.truncate(crate::draw::below(&mut rng, 70) as usize);
            let _ = tcp(&bytes);
            let _ = mark_ce(&mut packet(bytes, 2));
        }
    }

    fn packet(bytes: Vec<u8>, ecn: u8) -> Packet {
        Packet {
            dst: 1,
            ip_bytes: bytes.len() as u32,
            kind: crate::PacketKind::Data,
            bytes,
            ecn,
            ..Packet::default()
        }
    }

    #[test]
    fn marking_changes_the_codepoint_and_keeps_the_checksum_right() {
        let mut v4 = packet(ipv4_tcp(1, 0x10, 9, &[], b"data"), 2);
        assert!(mark_ce(&mut v4));
        assert_eq!((v4.ecn, v4.bytes[1] & 3), (CE, CE));
        assert!(tcp(&v4.bytes).is_some(), "the header still verifies");
        let mut v6 = packet(ipv6_tcp(&ipv4_tcp(1, 0x10, 9, &[], &[])), 1);
        assert!(mark_ce(&mut v6));
        assert_eq!((v6.ecn, v6.bytes[1] >> 4 & 3, v6.bytes[0]), (CE, CE, 0x60));
        let mut deaf = packet(vec![], 0);
        assert!(!mark_ce(&mut deaf));
        let mut open_loop = packet(vec![], 2);
        assert!(mark_ce(&mut open_loop));
    }
}
