use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::conn::burst::{BurstBuilder, BurstLimits};
use crate::conn::framing::Framing;
use crate::wire::checksum::{checksum, fill_tcp};
use crate::wire::ip::{Ecn, IpPacket};
use crate::wire::{AckType, Codepoints, Form, Options, Segment, Series, Timestamps};

const CODEPOINTS: Codepoints = Codepoints::Experimental;

fn framing(ipv6: bool, offload: bool) -> IpFraming {
    let (src, dst) = if ipv6 {
        ([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 2].into())
    } else {
        ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    };
    IpFraming { src, dst, hop_limit: 64, dscp: 10, flow_label: 7, offload, partial: offload }
}

fn header(seq: u32, flags: Flags) -> Header {
    let timestamps = Some(Timestamps { val: 5, ecr: 6 });
    Header {
        src_port: 1,
        dst_port: 2,
        seq: SeqNum(seq),
        ack: SeqNum(99),
        flags: Flags::ACK | flags,
        window: 500,
        options: Options { timestamps, ..Options::default() },
        ..Header::default()
    }
}

const LIMITS: BurstLimits = BurstLimits { bytes: 65_535, segments: 44 };

/// What an interface makes of a super-packet.
fn cut(packet: &[u8], offload: Offload, ipv6: bool) -> Vec<Vec<u8>> {
    let ip = IpPacket::parse(packet).expect("a packet");
    let (start, text_at) = (usize::from(offload.checksum_start), usize::from(offload.header_len));
    let (head, text) = packet.split_at(text_at);
    let size = usize::from(offload.gso_size.expect("several segments"));
    let seq = u32::from_be_bytes(head[start + 4..start + 8].try_into().expect("four"));
    let count = text.len().div_ceil(size);
    let mut out = Vec::new();
    for (i, part) in text.chunks(size).enumerate() {
        let mut one = [head, part].concat();
        let total = one.len();
        if ipv6 {
            ipv6::set_payload_len(&mut one, (total - 40) as u16);
        } else {
            ipv4::set_total_len(&mut one, total as u16);
        }
        one[start + 4..start + 8].copy_from_slice(&(seq + (i * size) as u32).to_be_bytes());
        if i > 0 {
            one[start + 13] &= !Flags::CWR.octet();
        }
        if i + 1 < count {
            one[start + 13] &= !(Flags::FIN | Flags::PSH).octet();
        }
        fill_tcp(ip.src, ip.dst, &mut one[start..]);
        out.push(one);
    }
    out
}

#[test]
fn a_super_packet_is_cut_into_the_very_segments_it_stands_for() {
    for seed in 0..200 {
        let rng = &mut Pcg64::seed_from_u64(seed);
        let ipv6 = rng.random_bool(0.5);
        let mss = rng.random_range(100..1_449);
        let count = rng.random_range(2..=40);
        let tack = rng.random_bool(0.5);
        let (mut whole, mut single) = (Vec::new(), Vec::new());
        let offloaded = Framing::Ip(framing(ipv6, true));
        let mut scratch = Vec::new();
        let mut burst = BurstBuilder::new(&mut whole, &mut scratch, offloaded, CODEPOINTS, LIMITS);
        let mut seq = rng.random_range(0..1_000_000);
        let (first_seq, first_number) = (seq, u32::MAX - 5);
        for i in 0..count {
            let last = i + 1 == count;
            let len = if last { rng.random_range(1..=mss) } else { mss };
            let mut flags = Flags::default();
            if i == 0 && rng.random_bool(0.3) {
                flags = flags | Flags::CWR;
            }
            if last && rng.random_bool(0.5) {
                flags = flags | Flags::PSH | Flags::FIN;
            }
            let mut header = header(seq, flags);
            let options_len = if tack { 24 } else { 12 };
            if tack {
                header.options.pkt_seq = Some(first_number.wrapping_add(i as u32));
                header.options.series = Some(Series::beginning(SeqNum(seq), len));
            }
            let text: Vec<u8> = (0..len).map(|_| rng.random()).collect();
            if i > 0 {
                assert!(burst.continues(header.seq, options_len, len), "seed {seed}");
                assert!(burst.has_room(20 + options_len + len, Ecn::Ect0), "seed {seed}");
            }
            burst.push(&header, Ecn::Ect0, text.split_at(len / 2));
            if tack {
                // What each says, being one of the series.
                header.options.pkt_seq = Some(first_number);
                header.options.series = Some(Series::beginning(SeqNum(first_seq), mss));
                let numbered = Segment { header: header.clone(), payload: &text, form: Form::Full };
                let numbers = numbered.pieces().map(|piece| piece.header.options.pkt_seq);
                let number = first_number.wrapping_add(i as u32);
                assert_eq!(numbers.collect::<Vec<_>>(), [Some(number)], "seed {seed}");
            }
            let (mut alone, mut scratch) = (Vec::new(), Vec::new());
            let framing = Framing::Ip(framing(ipv6, false));
            let mut one = BurstBuilder::new(&mut alone, &mut scratch, framing, CODEPOINTS, LIMITS);
            one.push(&header, Ecn::Ect0, (&text, &[]));
            assert_eq!(one.finish(), None);
            single.push(alone);
            seq += len as u32;
        }
        let offload = burst.finish().expect("offload is on");
        assert_eq!((burst.segments(), burst.segment_size()), (count, burst.bytes()));
        assert_eq!(
            offload.cwr,
            Flags::from_octet(whole[usize::from(offload.checksum_start) + 13]).has(Flags::CWR)
        );
        // The partial checksum is right for the whole packet.
        let start = usize::from(offload.checksum_start);
        let mut completed = whole.clone();
        let sum = checksum(&completed[start..]);
        completed[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
        let packet = IpPacket::parse(&completed).expect("a packet");
        assert!(crate::wire::checksum::tcp_is_valid(packet.src, packet.dst, packet.payload));
        assert_eq!(cut(&whole, offload, ipv6), single, "seed {seed}");
    }
}

#[test]
fn what_does_not_continue_the_stream_or_has_other_options_does_not_join() {
    let (mut out, mut scratch) = (Vec::new(), Vec::new());
    let framing = Framing::Ip(framing(false, true));
    let mut burst = BurstBuilder::new(&mut out, &mut scratch, framing, CODEPOINTS, LIMITS);
    burst.push(&header(1_000, Flags::default()), Ecn::NotEct, (&[1; 500], &[]));
    assert!(burst.continues(SeqNum(1_500), 12, 500));
    assert!(!burst.continues(SeqNum(1_501), 12, 500));
    assert!(!burst.continues(SeqNum(1_500), 40, 472));
    assert!(!burst.continues(SeqNum(1_500), 12, 0), "a FIN alone");
    assert!(!burst.has_room(32 + 501, Ecn::NotEct), "longer than the first");
    assert!(!burst.has_room(32 + 500, Ecn::Ect0));
    burst.push(&header(1_500, Flags::default()), Ecn::NotEct, (&[1; 499], &[]));
    assert!(!burst.has_room(32 + 1, Ecn::NotEct), "a shorter one was the last");
}

#[test]
fn numbered_segments_are_packets_of_their_own_with_a_partial_checksum_each() {
    let (mut out, mut scratch) = (Vec::new(), Vec::new());
    let ip = framing(true, true);
    let framing = Framing::Ip(ip);
    let mut burst = BurstBuilder::new(&mut out, &mut scratch, framing, CODEPOINTS, LIMITS);
    for (i, seq) in [1_000u32, 1_500].into_iter().enumerate() {
        let mut header = header(seq, Flags::default());
        header.options.pkt_seq = Some(i as u32);
        assert!(burst.continues(header.seq, 20, 500));
        burst.push(&header, Ecn::NotEct, (&[1; 500], &[]));
    }
    let offload = burst.finish().expect("offload is on");
    assert_eq!((burst.segments(), offload.gso_size), (2, None));
    let size = burst.segment_size();
    for packet in out.chunks(size) {
        let mut tcp = packet[40..].to_vec();
        let sum = checksum(&tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        assert!(crate::wire::checksum::tcp_is_valid(ip.src, ip.dst, &tcp));
        let segment = Segment::parse(&tcp, CODEPOINTS).expect("a segment");
        assert_eq!(segment.payload.len(), 500);
    }
}

#[test]
fn bodies_fins_marks_and_sack_blocks_begin_nothing_that_can_be_joined() {
    let ip = framing(false, true);
    let plain = header(1, Flags::default());
    assert!(SuperPacket::begin(ip, &plain, 32, 100).is_some());
    let body = Options { ack_type: Some(AckType::Tack), ..plain.options.clone() };
    let mut sack = plain.options.clone();
    sack.sack.len = 1;
    for options in [body, sack] {
        let header = Header { options, ..plain.clone() };
        assert!(SuperPacket::begin(ip, &header, 32, 100).is_none());
    }
    assert!(SuperPacket::begin(ip, &header(1, Flags::FIN), 32, 100).is_none());
    assert!(SuperPacket::begin(ip, &header(1, Flags::POLL), 32, 100).is_none());
    assert!(SuperPacket::begin(ip, &plain, 32, 0).is_none());
    assert!(SuperPacket::begin(framing(false, false), &plain, 32, 100).is_none());
}
