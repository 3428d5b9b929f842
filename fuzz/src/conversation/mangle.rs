//! A middlebox that does not know TACK.

use std::net::{IpAddr, Ipv4Addr};

use tack_tcp::wire::Codepoints;
use tack_tcp::wire::checksum::fill_tcp;

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
