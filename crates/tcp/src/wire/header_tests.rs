use proptest::prelude::*;

use super::*;
use crate::wire::options::Timestamps;
use crate::wire::options::tests::any_options;

const PROFILES: [Codepoints; 2] = [Codepoints::Experimental, Codepoints::Paper];

fn any_header() -> impl Strategy<Value = Header> {
    let fixed = (any::<[u16; 4]>(), any::<[u32; 2]>(), any::<(u8, bool)>());
    (fixed, any_options()).prop_map(
        |(([src_port, dst_port, window, urgent], [seq, ack], (flags, poll)), options)| {
            let poll = if poll { Flags::POLL } else { Flags::default() };
            let (seq, ack, flags) = (SeqNum(seq), SeqNum(ack), Flags::from_octet(flags) | poll);
            Header { src_port, dst_port, seq, ack, flags, window, urgent, options }
        },
    )
}

/// A SYN as Linux sends it, captured with its checksum.
#[test]
fn a_known_syn_reads_and_writes_as_its_bytes() {
    let bytes = [
        0xc3, 0x50, 0x00, 0x50, 0x12, 0x34, 0x56, 0x78, 0x00, 0x00, 0x00, 0x00, 0x60, 0x02, 0xfa,
        0xf0, 0x00, 0x00, 0x00, 0x00, 0x02, 0x04, 0x05, 0xb4,
    ];
    let segment = Segment::parse(&bytes, Codepoints::Experimental).expect("a whole header");
    assert!(segment.payload.is_empty());
    let header = segment.header;
    assert_eq!((header.src_port, header.dst_port), (50_000, 80));
    assert_eq!((header.seq, header.ack), (SeqNum(0x1234_5678), SeqNum(0)));
    assert_eq!((header.flags, header.window), (Flags::SYN, 64_240));
    assert_eq!(header.options.mss, Some(1460));
    let mut out = Vec::new();
    header.emit(Codepoints::Experimental, &mut out);
    assert_eq!(out, bytes);
}

#[test]
fn a_header_that_is_cut_short_says_how_much_was_there() {
    for have in 0..FIXED_LEN {
        let parsed = Segment::parse(&[0x50; FIXED_LEN][..have], Codepoints::Paper);
        assert_eq!(parsed, Err(ParseError::Truncated { have }));
    }
}

#[test]
fn a_data_offset_inside_the_header_or_past_the_end_is_refused() {
    for words in 0..16u8 {
        let mut bytes = [0; 32];
        bytes[12] = words << 4;
        let parsed = Segment::parse(&bytes, Codepoints::Paper);
        match words {
            5..=8 => {
                assert_eq!(parsed.expect("within").payload.len(), 32 - usize::from(words) * 4);
            }
            _ => assert_eq!(parsed, Err(ParseError::DataOffset { words, have: 32 })),
        }
    }
}

#[test]
fn of_the_reserved_bits_only_the_poll_mark_is_read() {
    let mut bytes = [0; 20];
    for (octet, flags) in [(0x5f, Flags::POLL), (0x57, Flags::default()), (0x58, Flags::POLL)] {
        bytes[12] = octet;
        let segment = Segment::parse(&bytes, Codepoints::Paper).expect("a whole header");
        assert_eq!(segment.header.flags, flags);
    }
    let mut out = Vec::new();
    let header = Header { flags: Flags::ACK | Flags::POLL, ..Header::default() };
    header.emit(Codepoints::Paper, &mut out);
    assert_eq!(out[12..14], [0x58, 0x10]);
}

#[test]
fn a_data_segment_is_emitted_into_spare_capacity_without_allocating() {
    let header = Header {
        options: Options {
            timestamps: Some(Timestamps { val: 1, ecr: 2 }),
            pkt_seq: Some(3),
            ..Options::default()
        },
        ..Header::default()
    };
    let mut out = Vec::with_capacity(header.len(Codepoints::Experimental));
    let before = (out.as_ptr(), out.capacity());
    header.emit(Codepoints::Experimental, &mut out);
    assert_eq!((out.as_ptr(), out.capacity()), before);
    assert_eq!(out.len(), 40);
}

proptest! {
    #[test]
    fn what_is_emitted_is_read_back(
        header in any_header(),
        payload in proptest::collection::vec(any::<u8>(), 0..50),
        paper in any::<bool>(),
    ) {
        let codepoints = PROFILES[usize::from(paper)];
        let mut bytes = Vec::new();
        header.emit(codepoints, &mut bytes);
        prop_assert_eq!(bytes.len(), header.len(codepoints));
        bytes.extend_from_slice(&payload);
        let segment = Segment::parse(&bytes, codepoints).expect("we wrote it");
        prop_assert_eq!(segment.payload, &payload[..]);
        let mut again = Vec::new();
        segment.header.emit(codepoints, &mut again);
        again.extend_from_slice(segment.payload);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn any_bytes_are_a_segment_or_an_error_and_never_a_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..100), paper in any::<bool>(),
    ) {
        if let Ok(segment) = Segment::parse(&bytes, PROFILES[usize::from(paper)]) {
            prop_assert!(segment.payload.len() + FIXED_LEN <= bytes.len());
        }
    }
}
