//! What interfaces do to packets between two hosts: segmentation and receive offload, and a box on
//! the way that cuts segments anew.

use tack_tcp::Incoming;
use tack_tcp::wire::checksum::{fill_tcp, tcp_is_valid};
use tack_tcp::wire::ip::IpPacket;
use tack_tcp::wire::{Flags, ipv4, ipv6};

use crate::pipe::{addresses, tcp_start};

/// Where the text of a TCP packet begins.
fn text_start(packet: &[u8]) -> usize {
    let tcp = tcp_start(packet, true);
    tcp + usize::from(packet[tcp + 12] >> 4) * 4
}

pub(crate) fn text_len(packet: &[u8]) -> usize {
    packet.len() - text_start(packet)
}

/// Writes the lengths and checksums of a TCP packet.
fn complete(packet: &mut [u8]) {
    let (total, tcp) = (packet.len() as u16, tcp_start(packet, true));
    if packet[0] >> 4 == 4 {
        ipv4::set_total_len(packet, total);
    } else {
        ipv6::set_payload_len(packet, total - 40);
    }
    let (src, dst) = addresses(packet);
    packet[tcp + 16..tcp + 18].fill(0);
    fill_tcp(src, dst, &mut packet[tcp..]);
}

/// The segments of a packet, with `size` bytes of text each but the last.
pub(crate) fn cut(packet: &[u8], size: usize) -> Vec<Vec<u8>> {
    let (head, text) = packet.split_at(text_start(packet));
    let tcp = tcp_start(packet, true);
    let seq = u32::from_be_bytes(head[tcp + 4..tcp + 8].try_into().expect("four"));
    let count = text.len().div_ceil(size).max(1);
    let part = |i: usize| {
        let text = &text[i * size..text.len().min((i + 1) * size)];
        let mut one = [head, text].concat();
        one[tcp + 4..tcp + 8].copy_from_slice(&seq.wrapping_add((i * size) as u32).to_be_bytes());
        if i > 0 {
            one[tcp + 13] &= !Flags::CWR.octet();
        }
        if i + 1 < count {
            one[tcp + 13] &= !(Flags::FIN | Flags::PSH).octet();
        }
        complete(&mut one);
        one
    };
    (0..count).map(part).collect()
}

/// Packets that arrived at once, merged where they continue each other and differ in nothing else.
#[derive(Default)]
pub(crate) struct Merging {
    packet: Vec<u8>,
    /// Text of the first segment, once there are two.
    gso_size: Option<u16>,
    ended: bool,
}

impl Merging {
    /// Adds a packet, or begins anew with it and returns what was complete.
    pub(crate) fn add(&mut self, packet: Vec<u8>) -> Option<Merging> {
        let fits = |text: usize| text <= self.size() && self.packet.len() + text <= 65_535;
        if !self.ended && continues(&self.packet, &packet) && fits(text_len(&packet)) {
            self.join(&packet);
            return None;
        }
        let ended = !is_whole_segment(&packet);
        let next = Merging { packet, gso_size: None, ended };
        let before = core::mem::replace(self, next);
        (!before.packet.is_empty()).then_some(before)
    }

    fn join(&mut self, packet: &[u8]) {
        let (tcp, size) = (tcp_start(packet, true), self.size());
        self.ended = text_len(packet) < size;
        self.gso_size = Some(size as u16);
        let last = packet[tcp + 13] & (Flags::FIN | Flags::PSH).octet();
        self.ended |= last != 0;
        self.packet.extend_from_slice(&packet[text_start(packet)..]);
        self.packet[tcp + 13] |= last;
        complete(&mut self.packet);
    }

    fn size(&self) -> usize {
        self.gso_size.map_or_else(|| text_len(&self.packet), usize::from)
    }

    pub(crate) fn incoming(&self) -> Incoming<'_> {
        Incoming {
            checksum_valid: self.gso_size.is_some(),
            gso_size: self.gso_size,
            ..Incoming::new(&self.packet)
        }
    }
}

/// A readable segment of TCP whose checksum is right.
fn is_valid(packet: &[u8]) -> bool {
    let Ok(ip) = IpPacket::parse(packet) else { return false };
    let offset = ip.payload.get(12).map_or(0, |octet| usize::from(octet >> 4) * 4);
    ip.protocol == 6
        && (20..=ip.payload.len()).contains(&offset)
        && tcp_is_valid(ip.src, ip.dst, ip.payload)
}

/// Others can follow it.
fn is_whole_segment(packet: &[u8]) -> bool {
    let closing = (Flags::FIN | Flags::PSH | Flags::SYN | Flags::RST | Flags::CWR).octet();
    is_valid(packet) && packet[tcp_start(packet, true) + 13] & closing == 0 && text_len(packet) > 0
}

fn continues(before: &[u8], packet: &[u8]) -> bool {
    if before.is_empty() || !is_valid(packet) {
        return false;
    }
    let (tcp, start) = (tcp_start(packet, true), text_start(packet));
    let closing = (Flags::SYN | Flags::RST | Flags::CWR).octet();
    if text_start(before) != start || packet[tcp + 13] & closing != 0 {
        return false;
    }
    // Lengths and checksums may differ, SEG.SEQ must continue, FIN and PSH are the last's.
    let alike = |packet: &[u8]| {
        let mut head = packet[..start].to_vec();
        let length = if head[0] >> 4 == 4 { 2..4 } else { 4..6 };
        head[length].fill(0);
        if head[0] >> 4 == 4 {
            head[10..12].fill(0);
        }
        head[tcp + 4..tcp + 8].fill(0);
        head[tcp + 13] &= !(Flags::FIN | Flags::PSH).octet();
        head[tcp + 16..tcp + 18].fill(0);
        head
    };
    let seq =
        |packet: &[u8]| u32::from_be_bytes(packet[tcp + 4..tcp + 8].try_into().expect("four"));
    let expected = seq(before).wrapping_add(text_len(before) as u32);
    let text = text_len(packet);
    alike(before) == alike(packet) && seq(packet) == expected && text > 0
}
