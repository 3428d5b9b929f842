//! What a link wants to know of an IP packet.

use tack_link::{End, HostId, Packet, PacketKind};
use tack_units::Instant;

/// Tells what an IP packet is for. Links account by it and never behave by it.
pub type Classify = fn(&[u8]) -> PacketKind;

const TCP: u8 = 6;

/// A TCP segment without payload is an acknowledgment, everything else is data.
pub fn tcp_kind(bytes: &[u8]) -> PacketKind {
    match tcp_payload_bytes(bytes) {
        Some(0) => PacketKind::Ack,
        _ => PacketKind::Data,
    }
}

/// Bytes behind the TCP header; `None` for what is not a whole, readable TCP segment.
fn tcp_payload_bytes(bytes: &[u8]) -> Option<usize> {
    let segment = match bytes.first()? >> 4 {
        4 => {
            let fragment = u16::from_be_bytes([*bytes.get(6)?, *bytes.get(7)?]) & 0x3fff;
            let header = usize::from(bytes[0] & 0x0f) * 4;
            let total = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            (*bytes.get(9)? == TCP && fragment == 0).then(|| bytes.get(header..total))?
        }
        6 => {
            let payload = usize::from(u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?]));
            (*bytes.get(6)? == TCP).then(|| bytes.get(40..40 + payload))?
        }
        _ => None,
    }?;
    segment.len().checked_sub(usize::from(segment.get(12)? >> 4) * 4)
}

/// The ECN field of the IP header: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
fn ecn(bytes: &[u8]) -> u8 {
    match bytes {
        [first, second, ..] if first >> 4 == 4 => second & 3,
        [first, second, ..] if first >> 4 == 6 => second >> 4 & 3,
        _ => 0,
    }
}

/// Whether a router would forward it: IP, and to one receiver. Kernels greet new links with
/// multicast that says nothing here and would take its turn in the model's loss process.
pub(crate) fn is_forwarded(bytes: &[u8]) -> bool {
    match bytes.first().map(|b| b >> 4) {
        Some(4) if bytes.len() >= 20 => bytes[16] < 224,
        Some(6) if bytes.len() >= 40 => bytes[24] != 0xff,
        _ => false,
    }
}

/// Numbers packets and gives them their hosts.
#[derive(Debug)]
pub(crate) struct Stamp {
    next_id: u64,
    /// The hosts at ends A and B.
    hosts: [HostId; 2],
    classify: Classify,
}

impl Stamp {
    pub(crate) fn new(hosts: [HostId; 2], classify: Classify) -> Stamp {
        Stamp { next_id: 0, hosts, classify }
    }

    /// `bytes`, which came in at `end`, as a link takes them.
    pub(crate) fn packet(&mut self, end: End, bytes: &[u8], now: Instant) -> Packet {
        let [a, b] = self.hosts;
        let (src, dst) = if end == End::A { (a, b) } else { (b, a) };
        let id = self.next_id;
        self.next_id += 1;
        Packet {
            id,
            src,
            dst,
            ip_bytes: bytes.len() as u32,
            kind: (self.classify)(bytes),
            bytes: bytes.to_vec(),
            ecn: ecn(bytes),
            sent_at: now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, tcp_header: usize, payload: usize) -> Vec<u8> {
        let total = 20 + tcp_header + payload;
        let mut b = vec![0; total];
        b[0] = 0x45;
        b[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        b[9] = protocol;
        if tcp_header >= 20 {
            b[32] = (tcp_header as u8 / 4) << 4;
        }
        b
    }

    fn ipv6(protocol: u8, tcp_header: usize, payload: usize) -> Vec<u8> {
        let inner = ipv4(protocol, tcp_header, payload).split_off(20);
        let mut b = vec![0; 40];
        b[0] = 0x60;
        b[4..6].copy_from_slice(&(inner.len() as u16).to_be_bytes());
        b[6] = protocol;
        b.extend(inner);
        b
    }

    #[test]
    fn only_tcp_segments_without_payload_are_acknowledgments() {
        for build in [ipv4, ipv6] {
            assert_eq!(tcp_kind(&build(TCP, 20, 0)), PacketKind::Ack);
            assert_eq!(tcp_kind(&build(TCP, 32, 0)), PacketKind::Ack);
            assert_eq!(tcp_kind(&build(TCP, 32, 1)), PacketKind::Data);
            assert_eq!(tcp_kind(&build(TCP, 60, 1_400)), PacketKind::Data);
            assert_eq!(tcp_kind(&build(17, 8, 0)), PacketKind::Data);
        }
        let mut fragment = ipv4(TCP, 20, 0);
        fragment[7] = 5;
        assert_eq!(tcp_kind(&fragment), PacketKind::Data);
        // Ethernet-style padding behind the packet is no payload.
        let mut padded = ipv4(TCP, 20, 0);
        padded.extend([0; 6]);
        assert_eq!(tcp_kind(&padded), PacketKind::Ack);
    }

    #[test]
    fn the_congestion_field_is_read_from_both_headers() {
        let (mut four, mut six) = (ipv4(TCP, 20, 0), ipv6(TCP, 20, 0));
        assert_eq!((ecn(&four), ecn(&six)), (0, 0));
        (four[1], six[1]) = (0xb9, 0x2f);
        assert_eq!((ecn(&four), ecn(&six)), (1, 2));
        let mut stamp = Stamp::new([1, 0], tcp_kind);
        let packet = stamp.packet(End::B, &four, Instant::from_secs(3));
        assert_eq!((packet.id, packet.src, packet.dst, packet.ecn), (0, 0, 1, 1));
        assert_eq!((packet.ip_bytes, packet.kind), (40, PacketKind::Ack));
        assert_eq!(stamp.packet(End::A, &six, Instant::from_secs(4)).id, 1);
    }

    #[test]
    fn no_bytes_make_a_panic() {
        let mut x = 1_u64;
        for round in 0..50_000_u64 {
            let mut bytes = if round % 2 == 0 { ipv4(TCP, 20, 9) } else { ipv6(TCP, 20, 9) };
            for _ in 0..round % 6 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                let at = (x >> 40) as usize % bytes.len();
                bytes[at] = (x >> 32) as u8;
            }
            bytes.truncate((x >> 20) as usize % 70);
            let _ = (tcp_kind(&bytes), ecn(&bytes), is_forwarded(&bytes));
        }
    }

    #[test]
    fn what_a_router_would_not_forward_stays_off_the_path() {
        let (mut four, mut six) = (ipv4(TCP, 20, 0), ipv6(TCP, 20, 0));
        assert!(is_forwarded(&four) && is_forwarded(&six));
        (four[16], six[24]) = (224, 0xff);
        for none in [&four[..], &six, &[], &[0x45; 19], &[0x60; 39], &[0x75; 60]] {
            assert!(!is_forwarded(none), "{none:?}");
        }
    }
}
