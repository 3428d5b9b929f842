//! Parsers: whatever the bytes, no panic; and what was read survives being written and read again.

use std::net::IpAddr;

use tack::{Iack, Tack};
use tack_tcp::seq::SeqNum;
use tack_tcp::wire::body::{
    Context, TACK_LEAST_LEN, TACK_MOST_LEN, emit_iack, emit_tack, parse_iack, parse_tack,
};
use tack_tcp::wire::options::MAX_OPTION_BYTES;
use tack_tcp::wire::series::LEAST_SIZE;
use tack_tcp::wire::{
    AckType, Codepoints, CompactHeader, Form, Header, Options, Segment, checksum, ip, ipv4, ipv6,
};

use tack_tcp::wire::icmp::Icmp;

use super::input::Input;

/// First byte: codepoint profile; the rest: a segment as UDP carries it, with a whole header or a
/// short one.
pub fn segment(data: &[u8]) -> bool {
    let mut input = Input::new(data);
    let codepoints = codepoints(input.byte());
    let Ok(segment) = Segment::parse_datagram(input.rest(), codepoints) else { return false };
    if segment.form == Form::Compact {
        let (header, text) = CompactHeader::parse(input.rest()).expect("just read");
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        bytes.extend_from_slice(text);
        assert_eq!(bytes, input.rest(), "nothing in a short header is lost");
        assert_eq!((&segment.header, segment.payload), (&header.into(), text));
        assert!(Segment::parse(input.rest(), codepoints).is_err(), "no TCP segment is like it");
        return true;
    }
    assert!(segment.payload.len() + 20 <= input.rest().len());
    check_pieces(&segment);
    let bytes = emitted(&segment.header, codepoints);
    assert_eq!(bytes.len(), segment.header.len(codepoints));
    assert!(bytes.len() <= 60 && bytes.len().is_multiple_of(4));
    let again = Segment::parse(&bytes, codepoints).expect("we wrote it");
    assert!(again.payload.is_empty());
    assert_same_options(&segment.header.options, &again.header.options, codepoints);
    let rest = |header: &Header| Header { options: Options::default(), ..header.clone() };
    assert_eq!(rest(&again.header), rest(&segment.header));
    assert_eq!(emitted(&again.header, codepoints), bytes, "writing is stable");
    true
}

/// Each byte of a segment is in one of its pieces, in order, and none stands for a series.
fn check_pieces(segment: &Segment<'_>) {
    let Header { seq, options, .. } = &segment.header;
    let (mut count, mut at) = (0, 0);
    for piece in segment.pieces() {
        assert_eq!(piece.header.seq, seq.add(at as u32));
        assert_eq!(piece.payload, &segment.payload[at..at + piece.payload.len()]);
        assert_eq!(piece.header.options.pkt_seq.is_some(), options.pkt_seq.is_some());
        assert_eq!(piece.header.options.series, None);
        (count, at) = (count + 1, at + piece.payload.len());
    }
    assert_eq!(at, segment.payload.len());
    let most = if options.series.is_some() { at / usize::from(LEAST_SIZE) + 3 } else { 1 };
    assert!((1..=most).contains(&count), "{count} pieces of {at} bytes");
}

/// First byte: codepoint profile; the rest: an option list of any length.
pub fn options(data: &[u8]) -> bool {
    let mut input = Input::new(data);
    let codepoints = codepoints(input.byte());
    let read = Options::parse(input.rest(), codepoints);
    let mut bytes = Vec::new();
    read.emit(codepoints, &mut bytes);
    assert_eq!(bytes.len(), read.len(codepoints));
    assert!(bytes.len() <= MAX_OPTION_BYTES && bytes.len().is_multiple_of(4));
    assert_same_options(&read, &Options::parse(&bytes, codepoints), codepoints);
    true
}

/// A context, then a TACK body.
pub fn tack_body(data: &[u8]) -> bool {
    let mut input = Input::new(data);
    let context = context(&mut input);
    let body = input.rest();
    let Ok(tack) = parse_tack(body, &context) else { return false };
    assert!((0.0..=1.0).contains(&tack.rho));
    assert!(tack.rcv_high >= tack.cum_ack);
    assert_eq!((tack.cum_ack, tack.window), (context.cum_ack, context.window));
    // A list costs the peer the bytes it costs us, behind what is always there and its count.
    assert!(tack.holes.len() <= body.len().saturating_sub(TACK_LEAST_LEN + 10) / 8);
    assert!(tack.lost.len() <= body.len().saturating_sub(TACK_LEAST_LEN) / 8);
    for hole in &tack.holes {
        assert!(tack.cum_ack <= hole.start && hole.start < hole.end && hole.end <= tack.rcv_high);
    }
    let mut bytes = Vec::new();
    emit_tack(&tack, context.isn, &mut bytes);
    assert!(bytes.len() <= TACK_MOST_LEN + 8 * (tack.holes.len() + tack.lost.len()));
    assert_eq!(parse_tack(&bytes, &context).as_ref(), Ok::<&Tack, _>(&tack));
    true
}

/// An ACK-Type, a context, then an IACK body.
pub fn iack_body(data: &[u8]) -> bool {
    let mut input = Input::new(data);
    let kind = AckType::from_code(input.byte());
    let context = context(&mut input);
    let Ok(Some(iack)) = parse_iack(kind, input.rest(), &context) else { return false };
    let mut bytes = Vec::new();
    assert_eq!(emit_iack(&iack, &mut bytes), kind);
    assert_eq!(parse_iack(kind, &bytes, &context), Ok::<Option<Iack>, _>(Some(iack)));
    true
}

/// An IPv4 or IPv6 packet, with TCP in it if it says so.
pub fn ip_packet(data: &[u8]) -> bool {
    if let Ok(ipv4::Packet { header, payload }) = ipv4::Packet::parse(data) {
        let mut bytes = Vec::new();
        header.emit(payload.len(), &mut bytes).expect("it fitted a packet before");
        bytes.extend_from_slice(payload);
        assert_eq!(ipv4::Packet::parse(&bytes), Ok(ipv4::Packet { header, payload }));
    }
    if let Ok(ipv6::Packet { header, payload }) = ipv6::Packet::parse(data) {
        let mut bytes = Vec::new();
        header.emit(payload.len(), &mut bytes).expect("it fitted a packet before");
        bytes.extend_from_slice(payload);
        // The upper-layer protocol of a chain may be named like an extension header only if the
        // chain ended there, and then it would not have been returned.
        assert_eq!(ipv6::Packet::parse(&bytes), Ok(ipv6::Packet { header, payload }));
    }
    let Ok(packet) = ip::IpPacket::parse(data) else { return false };
    assert!(packet.payload.len() < data.len());
    let (src, dst) = (packet.src, packet.dst);
    let mut segment = packet.payload.to_vec();
    checksum::fill_tcp(src, dst, &mut segment);
    assert!(segment.len() < 18 || checksum::tcp_is_valid(src, dst, &segment));
    Segment::parse(packet.payload, Codepoints::Experimental).is_ok()
}

/// First byte: the family; the rest: an ICMP message.
pub fn icmp(data: &[u8]) -> bool {
    let mut input = Input::new(data);
    let (src, dst): (IpAddr, IpAddr) = if input.byte() & 1 == 0 {
        ([192, 0, 2, 1].into(), [10, 0, 0, 1].into())
    } else {
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 1].into())
    };
    let message = input.rest();
    let verified = Icmp::parse(src, dst, message, false);
    let Ok(trusted) = Icmp::parse(src, dst, message, true) else {
        assert!(verified.is_err());
        return false;
    };
    assert!(verified.is_err() || verified == Ok(trusted));
    match trusted {
        Icmp::EchoRequest(rest) => assert_eq!(rest, &message[4..]),
        Icmp::Error(_, quote) => {
            assert!(message.len() >= 36, "both headers and eight bytes");
            assert_eq!(quote.src.is_ipv4(), src.is_ipv4());
            assert_eq!(quote.dst.is_ipv4(), src.is_ipv4());
        }
        _ => {}
    }
    trusted != Icmp::Other
}

fn codepoints(byte: u8) -> Codepoints {
    if byte & 1 == 0 { Codepoints::Experimental } else { Codepoints::Paper }
}

/// 27 bytes: any stream position, any ISN, any PKT.SEQ, all consistent with one connection.
fn context(input: &mut Input<'_>) -> Context {
    let seq_near = u64::from(input.byte()) << 32 | u64::from(input.word());
    Context {
        seq_near,
        isn: SeqNum(input.word()),
        pkt_seq_near: u64::from(input.half()) << 24 | u64::from(input.word()),
        cum_ack: seq_near + u64::from(input.word() >> 2),
        window: u64::from(input.word()),
        counter_near: input.word(),
    }
}

fn emitted(header: &Header, codepoints: Codepoints) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.emit(codepoints, &mut bytes);
    bytes
}

/// All options are written but SACK blocks that do not fit.
fn assert_same_options(read: &Options, again: &Options, codepoints: Codepoints) {
    let fit = read.sack_blocks_sent(codepoints);
    assert_eq!(again.sack.as_slice(), &read.sack.as_slice()[..fit]);
    let rest = |options: &Options| Options { sack: Default::default(), ..options.clone() };
    assert_eq!(rest(again), rest(read));
}
