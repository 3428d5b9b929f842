//! A middlebox that does not know TACK.

use std::net::{IpAddr, Ipv4Addr};

use tack_tcp::wire::checksum::fill_tcp;
use tack_tcp::wire::ip::{IpHeader, IpPacket};
use tack_tcp::wire::{Codepoints, Flags, Header, Segment};

const NOP: u8 = 1;

/// Replaces TACK's options by no-operations in a TCP segment over IPv4, and mends the checksum.
pub(crate) fn strip_packet(packet: &mut [u8], codepoints: Codepoints) {
    let Some(&first) = packet.first() else { return };
    let ip_len = usize::from(first & 15) * 4;
    let Some((header, segment)) = packet.split_at_mut_checked(ip_len) else { return };
    if header.len() < 20 || segment.len() < 20 {
        return;
    }
    strip_segment(segment, codepoints);
    let address = |at: usize| {
        let octets: [u8; 4] = header[at..at + 4].try_into().expect("20 bytes are there");
        IpAddr::V4(Ipv4Addr::from(octets))
    };
    fill_tcp(address(12), address(16), segment);
}

/// The same in a bare segment. A short header has no options, and nothing to strip.
pub(crate) fn strip_segment(segment: &mut [u8], codepoints: Codepoints) {
    if segment.len() < 20 {
        return;
    }
    let end = (usize::from(segment[12] >> 4) * 4).min(segment.len());
    let mut at = 20;
    while at < end {
        let len = match segment[at] {
            0 => break,
            NOP => 1,
            _ => segment.get(at + 1).map_or(0, |&len| usize::from(len)),
        };
        if len == 0 || at + len > end {
            break;
        }
        let ours = match codepoints {
            Codepoints::Experimental => segment[at] == 253,
            Codepoints::Paper => (40..=42).contains(&segment[at]),
        };
        if ours {
            segment[at..at + len].fill(NOP);
        }
        at += len;
    }
}

/// Two packets for one with text, cut at some `place` of it, as a box does that knows TCP only; what
/// has no text, or a body instead, as it is.
pub(crate) fn cut(packet: &[u8], place: usize, codepoints: Codepoints) -> Vec<Vec<u8>> {
    let ip = IpPacket::parse(packet).expect("our own packet");
    let segment = Segment::parse(ip.payload, codepoints).expect("our own segment");
    if segment.payload.len() < 2 || segment.header.options.ack_type.is_some() {
        return vec![packet.to_vec()];
    }
    let at = 1 + place % (segment.payload.len() - 1);
    let (first, second) = segment.payload.split_at(at);
    let mut headers = [segment.header.clone(), segment.header];
    headers[0].flags = headers[0].flags.without(Flags::FIN | Flags::PSH);
    headers[1].flags = headers[1].flags.without(Flags::CWR);
    headers[1].seq = headers[1].seq.add(at as u32);
    let parts = headers.iter().zip([first, second]);
    parts.map(|(header, text)| around(&ip, header, text, codepoints)).collect()
}

fn around(ip: &IpPacket<'_>, header: &Header, text: &[u8], codepoints: Codepoints) -> Vec<u8> {
    let IpPacket { src, dst, protocol, hop_limit, dscp, ecn, .. } = *ip;
    let mut tcp = Vec::new();
    header.emit(codepoints, &mut tcp);
    tcp.extend_from_slice(text);
    fill_tcp(src, dst, &mut tcp);
    let mut out = Vec::new();
    let header = IpHeader { src, dst, protocol, hop_limit, dscp, ecn, flow_label: 0 };
    header.emit(tcp.len(), &mut out).expect("it is shorter than it was");
    out.extend(tcp);
    out
}

/// Fills in the checksum that is left to a device.
pub(crate) fn complete(packet: &mut [u8]) {
    let ip = IpPacket::parse(packet).expect("our own packet");
    let (src, dst, at) = (ip.src, ip.dst, packet.len() - ip.payload.len());
    fill_tcp(src, dst, &mut packet[at..]);
}
