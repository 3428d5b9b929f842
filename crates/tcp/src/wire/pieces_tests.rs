use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::seq::SeqNum;
use crate::wire::series::LEAST_SIZE;
use crate::wire::{AckType, Form, Header, Options};

fn of_series<'a>(seq: u32, number: u32, series: Series, text: &'a [u8]) -> Segment<'a> {
    let options = Options { pkt_seq: Some(number), series: Some(series), ..Options::default() };
    let header = Header { seq: SeqNum(seq), flags: Flags::ACK, options, ..Header::default() };
    Segment { header, payload: text, form: Form::Full }
}

/// Number, SEG.SEQ and text of each piece.
fn told(segment: &Segment<'_>) -> Vec<(u32, u32, Vec<u8>)> {
    let told = |piece: Segment<'_>| {
        assert_eq!(piece.header.options.series, None);
        let number = piece.header.options.pkt_seq.expect("numbered");
        (number, piece.header.seq.0, piece.payload.to_vec())
    };
    segment.pieces().map(told).collect()
}

#[test]
fn whatever_cuts_and_merges_a_series_every_byte_keeps_the_number_it_was_sent_with() {
    for seed in 0..500 {
        let rng = &mut Pcg64::seed_from_u64(seed);
        let size = rng.random_range(LEAST_SIZE..2_000);
        let count = rng.random_range(1..=60_000 / usize::from(size));
        let seq = if rng.random_bool(0.3) { u32::MAX - 5_000 } else { rng.random() };
        let first = if rng.random_bool(0.3) { u32::MAX - 5 } else { rng.random() };
        let rest = rng.random_range(0..usize::from(size));
        let text: Vec<u8> =
            (0..usize::from(size) * (count - 1) + rest).map(|_| rng.random()).collect();
        let series = Series::beginning(SeqNum(seq), usize::from(size));
        let mut at = 0;
        while at < text.len() {
            // A packet as some device made it.
            let len = rng.random_range(1..=text.len() - at);
            let part = &text[at..at + len];
            let packet = of_series(seq.wrapping_add(at as u32), first, series, part);
            let mut met = at;
            for (number, seq_of_piece, piece) in told(&packet) {
                assert_eq!(seq_of_piece, seq.wrapping_add(met as u32), "seed {seed}");
                assert_eq!(piece, text[met..met + piece.len()], "seed {seed}");
                let (begins, ends) = (met, met + piece.len() - 1);
                let number_of = |byte: usize| first.wrapping_add((byte / usize::from(size)) as u32);
                assert_eq!((number, number), (number_of(begins), number_of(ends)), "seed {seed}");
                met = ends + 1;
            }
            assert_eq!(met, at + len, "seed {seed}");
            at += len;
        }
    }
}

#[test]
fn cwr_goes_with_the_first_and_fin_and_push_with_the_last() {
    let all = Flags::ACK | Flags::CWR | Flags::PSH | Flags::FIN;
    let series = Series::new(7, 100).expect("large enough");
    let mut segment = of_series(7, 1, series, &[1; 250]);
    segment.header.flags = all;
    let flags: Vec<Flags> = segment.pieces().map(|piece| piece.header.flags).collect();
    let push = Flags::ACK | Flags::PSH | Flags::FIN;
    assert_eq!(flags, [Flags::ACK | Flags::CWR, Flags::ACK, push]);
    // Alone, it is first and last.
    segment.payload = &[1; 100];
    assert_eq!(segment.pieces().map(|piece| piece.header.flags).collect::<Vec<_>>(), [all]);
}

#[test]
fn what_has_no_text_of_a_series_is_one_piece() {
    let series = Series::new(0, 100).expect("large enough");
    let numbered = of_series(100, 5, series, &[]);
    assert_eq!(told(&numbered), [(6, 100, vec![])], "a FIN behind the text");
    let ordinary = Options { series: None, ..numbered.header.options.clone() };
    let ordinary = Segment {
        header: Header { options: ordinary, ..numbered.header.clone() },
        payload: &[1; 900],
        form: Form::Full,
    };
    assert_eq!(ordinary.pieces().collect::<Vec<_>>(), [ordinary]);
    let body = Options { ack_type: Some(AckType::Tack), ..Options::default() };
    let body = Segment {
        header: Header { options: body, ..numbered.header.clone() },
        payload: &[1; 900],
        form: Form::Full,
    };
    assert_eq!(body.pieces().collect::<Vec<_>>(), [body]);
}

#[test]
fn where_offsets_begin_anew_within_a_packet_one_more_segment_is_short() {
    // 2^16 is 1008 times 65 and 16: after the piece over it, offsets are 49, and 16 is left of a segment.
    let series = Series::new(7, 65).expect("large enough");
    let packet = of_series(7 + 1_008 * 65 - 1, 0, series, &[1; 1 + 65 + 16 + 1]);
    let lengths: Vec<usize> = told(&packet).iter().map(|(_, _, text)| text.len()).collect();
    assert_eq!(lengths, [1, 65, 16, 1]);
}

#[test]
fn a_hostile_series_makes_no_more_segments_than_its_bytes_allow() {
    let text = vec![0; 65_535];
    for seed in 0..300 {
        let rng = &mut Pcg64::seed_from_u64(seed);
        let series = Series::new(rng.random(), rng.random_range(LEAST_SIZE..=200));
        let series = series.expect("large enough");
        let mut segment = of_series(rng.random(), rng.random(), series, &text);
        for len in [text.len(), rng.random_range(1..300)] {
            segment.payload = &text[..len];
            let pieces = told(&segment);
            assert!(pieces.len() <= len / usize::from(LEAST_SIZE) + 3, "seed {seed}");
            assert_eq!(pieces.iter().map(|(_, _, piece)| piece.len()).sum::<usize>(), len);
        }
        segment.payload = &text;
        for flag in [Flags::SYN, Flags::RST] {
            segment.header.flags = flag;
            assert_eq!(segment.pieces().count(), 1);
        }
    }
}
