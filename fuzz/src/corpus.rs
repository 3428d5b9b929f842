//! Valid input for every target, and the mutations that make it interesting.

use std::net::IpAddr;

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;
use tack_tcp::PathError;
use tack_tcp::seq::SeqNum;
use tack_tcp::wire::checksum::{PROTOCOL_TCP, fill_tcp};
use tack_tcp::wire::icmp::{
    PROTOCOL_ICMPV4, PROTOCOL_ICMPV6, Report, emit_echo_request, emit_error,
};
use tack_tcp::wire::{Codepoints, Flags, Header, ipv4, ipv6};

use super::packets::{ISS, LOCAL_PORT, REMOTE_PORT, addresses, around};

/// Longest input made here, bytes.
pub const MAX_LEN: usize = 2_048;

/// Random bytes of a random length.
pub fn noise(rng: &mut Pcg64) -> Vec<u8> {
    let len = 1 << rng.random_range(0..10);
    bytes(rng, len)
}

/// Operations on two hosts and fates of packets: long, and mostly kind to the packets.
pub fn script(rng: &mut Pcg64) -> Vec<u8> {
    let len = rng.random_range(0..MAX_LEN);
    let hostile = rng.random_range(0.0..1.0);
    let byte = |rng: &mut Pcg64| {
        let byte: u8 = rng.random();
        if rng.random_bool(hostile) { byte } else { byte & 0xf7 }
    };
    (0..len).map(|_| byte(rng)).collect()
}

/// Handshakes of many peers, most of them carried through, and some text.
pub fn peers(rng: &mut Pcg64) -> Vec<u8> {
    let mut out = vec![rng.random_range(0..16)];
    for _ in 0..rng.random_range(1..60) {
        let who: u8 = rng.random_range(0..12);
        out.extend([0, who, rng.random_range(0..16)]);
        if rng.random_bool(0.7) {
            out.extend([4, who, 7, 7, who, rng.random()]);
        }
        if rng.random_bool(0.5) {
            out.extend([10, 0, 0]);
        }
        if rng.random_bool(0.2) {
            out.extend(bytes(rng, 3));
        }
    }
    out
}

/// A flow of tiny segments of which every other one is lost, or more, and some feedback.
pub fn islands(rng: &mut Pcg64) -> Vec<u8> {
    // Small windows more often: they take less time.
    let window: u8 = rng.random_range(1..6).min(rng.random_range(1..6));
    let mut out = vec![window | rng.random_range(0..4) << 3, rng.random_range(0..40)];
    // A whole window of it, and all feedback passes meanwhile.
    out.extend([[0x55, 0x2a, 0x6d][rng.random_range(0..3)], 255, 6, 0, 255, 0]);
    for _ in 0..rng.random_range(1..20) {
        let there = [0x55, 0x2a, 0x11, 0x6d, 0x5d, rng.random()][rng.random_range(0..6)];
        let back = [0, 0, 0x02, rng.random()][rng.random_range(0..4)];
        for mask in [there, back] {
            out.extend([mask, rng.random_range(128..=255), rng.random_range(0..8)]);
        }
    }
    out
}

/// A TCP segment with a legal option list, or text behind a short header.
pub fn segment(rng: &mut Pcg64) -> Vec<u8> {
    let mut out = vec![rng.random()];
    out.extend(if rng.random_bool(0.7) { tcp(rng) } else { compact(rng) });
    out
}

/// A legal option list.
pub fn options(rng: &mut Pcg64) -> Vec<u8> {
    let mut out = vec![rng.random()];
    out.extend(option_list(rng));
    out
}

/// A TACK body with a list of holes above the context's cumulative acknowledgment.
pub fn tack_body(rng: &mut Pcg64) -> Vec<u8> {
    let (mut out, cum_ack) = context(rng);
    let holes = rng.random_range(0..30u16);
    // Version, flags; counter, largest PKT.SEQ, interval.
    let flags: u8 = rng.random_range(0..128);
    out.extend([2, flags]);
    out.extend(bytes(rng, 10));
    for (flag, len) in [(0x01, 8), (0x02, 4), (0x20, 2), (0x40, 4)] {
        if flags & flag != 0 {
            out.extend(bytes(rng, len));
        }
    }
    if flags & 0x10 == 0 {
        return out;
    }
    let rcv_high = cum_ack.wrapping_add(1 << 20);
    out.extend(rcv_high.to_be_bytes());
    // Received-in-flight data.
    out.extend(bytes(rng, 4));
    out.extend(holes.to_be_bytes());
    let mut left = cum_ack.wrapping_add(1_448);
    for _ in 0..holes {
        let right = left.wrapping_add(rng.random_range(1..5_000));
        out.extend(left.to_be_bytes());
        out.extend(right.to_be_bytes());
        left = right.wrapping_add(rng.random_range(0..5_000));
    }
    out
}

/// An IACK body of any kind.
pub fn iack_body(rng: &mut Pcg64) -> Vec<u8> {
    let mut out = vec![rng.random_range(1..8)];
    out.extend(context(rng).0);
    out.push(2);
    out.extend(bytes(rng, 23));
    out
}

/// A TCP segment in IPv4 or IPv6, checksums right.
pub fn ip_packet(rng: &mut Pcg64) -> Vec<u8> {
    let mut segment = tcp(rng);
    let mut out = Vec::new();
    if rng.random_bool(0.5) {
        let header = ipv4::Header {
            src: rng.random::<u32>().into(),
            dst: rng.random::<u32>().into(),
            protocol: PROTOCOL_TCP,
            ttl: 64,
            dscp: 0,
            ecn: Default::default(),
            identification: rng.random(),
            dont_fragment: true,
        };
        fill_tcp(header.src.into(), header.dst.into(), &mut segment);
        header.emit(segment.len(), &mut out).expect("short");
    } else {
        let chain = rng.random_range(0..4);
        let header = ipv6::Header {
            src: rng.random::<u128>().into(),
            dst: rng.random::<u128>().into(),
            protocol: if chain > 0 { 60 } else { PROTOCOL_TCP },
            hop_limit: 64,
            dscp: 0,
            ecn: Default::default(),
            flow_label: 0,
        };
        fill_tcp(header.src.into(), header.dst.into(), &mut segment);
        header.emit(segment.len() + 8 * chain, &mut out).expect("short");
        for left in (0..chain).rev() {
            out.extend([if left > 0 { 60 } else { PROTOCOL_TCP }, 0, 1, 4, 0, 0, 0, 0]);
        }
    }
    out.extend(segment);
    out
}

/// A packet of the connection that [`super::packets`](super::packets::packets) has under way.
fn ours(rng: &mut Pcg64, ipv6: bool) -> Vec<u8> {
    let (us, peer) = addresses(ipv6);
    let mut segment = Vec::new();
    let header = Header {
        src_port: LOCAL_PORT,
        dst_port: REMOTE_PORT,
        seq: SeqNum(ISS + rng.random_range(0..8_000)),
        flags: Flags::ACK,
        ..Header::default()
    };
    header.emit(Codepoints::Experimental, &mut segment);
    segment.resize(rng.random_range(20..1_460), 0);
    around(us, peer, PROTOCOL_TCP, &segment)
}

/// An ICMP message to us: an error about a packet of ours, or an echo request.
fn message(rng: &mut Pcg64, src: IpAddr, us: IpAddr) -> Vec<u8> {
    let mut out = Vec::new();
    let report = match rng.random_range(0..8) {
        0 | 1 => Report::TooBig { mtu: Some(rng.random_range(0..2_000)) },
        2 if us.is_ipv4() => Report::TooBig { mtu: None },
        3 if us.is_ipv4() => Report::Quench,
        4 => Report::Failed(PathError::PortUnreachable),
        5 => Report::Failed(PathError::HostUnreachable),
        6 => Report::Failed(PathError::TimeExceeded),
        _ => {
            let len = rng.random_range(4..200);
            emit_echo_request(src, us, &bytes(rng, len), &mut out);
            return out;
        }
    };
    let about = ours(rng, us.is_ipv6());
    emit_error(src, us, report, &about, &mut out);
    out
}

/// An ICMP message behind its family.
pub fn icmp(rng: &mut Pcg64) -> Vec<u8> {
    let ipv6 = rng.random_bool(0.5);
    // The addresses are those that the target reads it with.
    let (us, router) = (addresses(ipv6).0, router(ipv6));
    let mut out = vec![u8::from(ipv6)];
    out.extend(message(rng, router, us));
    out
}

fn router(ipv6: bool) -> IpAddr {
    if ipv6 { [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into() } else { [192, 0, 2, 1].into() }
}

/// Packets for a host with a connection, each behind its length.
pub fn packets(rng: &mut Pcg64) -> Vec<u8> {
    let choice: u8 = rng.random();
    let ipv6 = choice & 1 == 1;
    let (us, peer) = addresses(ipv6);
    let mut out = vec![choice];
    for _ in 0..rng.random_range(1..8) {
        let packet = if rng.random_bool(0.7) {
            let src = if rng.random_bool(0.5) { router(ipv6) } else { peer };
            let protocol = if ipv6 { PROTOCOL_ICMPV6 } else { PROTOCOL_ICMPV4 };
            let message = message(rng, src, us);
            around(src, us, protocol, &message)
        } else {
            let mut segment = Vec::new();
            let header = Header {
                src_port: REMOTE_PORT,
                dst_port: LOCAL_PORT,
                seq: SeqNum(2),
                ack: SeqNum(ISS + rng.random_range(0..8_000)),
                flags: Flags::ACK,
                window: rng.random(),
                ..Header::default()
            };
            header.emit(Codepoints::Experimental, &mut segment);
            let text = rng.random_range(0..100);
            segment.extend(bytes(rng, text));
            fill_tcp(peer, us, &mut segment);
            around(peer, us, PROTOCOL_TCP, &segment)
        };
        out.extend((packet.len() as u16).to_be_bytes());
        out.extend(packet);
    }
    out
}

/// Changes input a little, or a lot.
pub fn mutate(rng: &mut Pcg64, input: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..=input.len());
        let len = rng.random_range(0..=input.len() - at);
        match rng.random_range(0..7) {
            0 if at < input.len() => input[at] ^= 1 << rng.random_range(0..8),
            1 if at < input.len() => input[at] = rng.random(),
            2 if at < input.len() => input[at] = EDGES[rng.random_range(0..EDGES.len())],
            3 => input.truncate(at),
            4 => {
                let room = MAX_LEN.saturating_sub(input.len()).min(len);
                let copy = input[at..at + room].to_vec();
                input.splice(at..at, copy);
            }
            5 => {
                input.drain(at..at + len.min(8));
            }
            _ => {
                let fresh = bytes(rng, len.min(8));
                input.splice(at..at + fresh.len(), fresh);
            }
        }
    }
}

/// Bytes at which parsers turn.
const EDGES: [u8; 10] = [0, 1, 2, 5, 8, 10, 0x7f, 0x80, 253, 0xff];

fn bytes(rng: &mut Pcg64, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    rng.fill_bytes(&mut out);
    out
}

/// A context as the body targets read it, and the cumulative acknowledgment on the wire.
fn context(rng: &mut Pcg64) -> (Vec<u8>, u32) {
    let (near, isn, ahead): (u32, u32, u32) = (rng.random(), rng.random(), rng.random());
    let mut out = vec![rng.random()];
    out.extend(near.to_be_bytes());
    out.extend(isn.to_be_bytes());
    out.extend(bytes(rng, 6));
    out.extend(ahead.to_be_bytes());
    out.extend(bytes(rng, 8));
    (out, isn.wrapping_add(near).wrapping_add(ahead >> 2))
}

fn tcp(rng: &mut Pcg64) -> Vec<u8> {
    let mut options = option_list(rng);
    options.truncate(40);
    options.resize(options.len().next_multiple_of(4), 0);
    let mut out = bytes(rng, 20);
    out[12] = ((5 + options.len() / 4) as u8) << 4;
    out.extend(options);
    let payload = [64, 1_600][rng.random_range(0..2)];
    let payload = rng.random_range(0..payload);
    out.extend(bytes(rng, payload));
    out
}

fn compact(rng: &mut Pcg64) -> Vec<u8> {
    let text = rng.random_range(1..64);
    let mut out = bytes(rng, 18 + text);
    out[12] = 0x10;
    out[13] = out[13] & 0xc8 | 0x10;
    out
}

fn option_list(rng: &mut Pcg64) -> Vec<u8> {
    let exid = tack_tcp::wire::tack_option::EXID.to_be_bytes();
    let mut out = Vec::new();
    for _ in 0..rng.random_range(0..6) {
        let (kind, len) = [
            (1, 0),
            (2, 2),
            (3, 1),
            (4, 0),
            (5, 8),
            (5, 16),
            (8, 8),
            (253, 2),
            (253, 4),
            (253, 3),
            (253, 6),
            (253, 10),
            (42, 8),
            (40, 0),
            (40, 2),
            (41, 1),
            (42, 4),
            (30, 3),
        ][rng.random_range(0..18)];
        out.push(kind);
        if kind != 1 {
            out.push(len + 2);
            let mut body = bytes(rng, usize::from(len));
            if kind == 253 {
                body[..2].copy_from_slice(&exid);
            }
            out.extend(body);
        }
    }
    out
}
