use proptest::prelude::*;

use super::*;

const PROFILES: [Codepoints; 2] = [Codepoints::Experimental, Codepoints::Paper];

fn emitted(options: &Options, codepoints: Codepoints) -> Vec<u8> {
    let mut out = Vec::new();
    options.emit(codepoints, &mut out);
    out
}

fn stamped() -> Options {
    Options { timestamps: Some(Timestamps { val: 0x0102_0304, ecr: 5 }), ..Options::default() }
}

pub(crate) fn any_options() -> impl Strategy<Value = Options> {
    let block = (any::<u32>(), any::<u32>()).prop_map(|(l, r)| (SeqNum(l), SeqNum(r)));
    let syn = (any::<Option<u16>>(), proptest::option::of(0u8..15), any::<bool>(), any::<bool>());
    let data = (
        any::<Option<(u32, u32)>>(),
        proptest::collection::vec(block, 0..=4),
        any::<Option<(u32, Option<(u16, u16)>)>>(),
        any::<Option<u8>>(),
    );
    let features = any::<(bool, bool)>();
    (syn, features, data).prop_map(|(syn, (compact, series), data)| {
        let (mss, window_scale, sack_permitted, tack_permitted) = syn;
        let (timestamps, blocks, number, ack_type) = data;
        let (pkt_seq, of_series) = number.unzip();
        let of_series = of_series.flatten().filter(|_| ack_type.is_none());
        let in_syn = tack_permitted && pkt_seq.is_none() && ack_type.is_none();
        let mut sack = SackBlocks::default();
        for (left, right) in blocks {
            assert!(sack.push(left, right));
        }
        Options {
            mss,
            window_scale,
            sack_permitted,
            tack_permitted,
            // A SYN has neither of the others.
            compact_permitted: compact && in_syn,
            series_permitted: series && in_syn,
            timestamps: timestamps.map(|(val, ecr)| Timestamps { val, ecr }),
            sack,
            pkt_seq,
            series: of_series.and_then(|(anchor, size)| Series::new(anchor, size)),
            ack_type: ack_type.map(AckType::from_code),
        }
    })
}

#[test]
fn a_data_segment_with_timestamps_and_pkt_seq_costs_20_bytes_in_both_profiles() {
    let options = Options { pkt_seq: Some(0xa1a2_a3a4), ..stamped() };
    let times = [1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 5];
    let [hi, lo] = crate::wire::tack_option::EXID.to_be_bytes();
    let number = [0xa1, 0xa2, 0xa3, 0xa4];
    let experimental = [&times[..], &[253, 8, hi, lo], &number].concat();
    let paper = [&times[..], &[1, 1, 42, 6], &number].concat();
    assert_eq!(emitted(&options, Codepoints::Experimental), experimental);
    assert_eq!(emitted(&options, Codepoints::Paper), paper);
    for codepoints in PROFILES {
        assert_eq!(options.len(codepoints), DATA_OPTION_BYTES);
    }
}

#[test]
fn a_series_costs_a_data_segment_24_bytes_in_both_profiles() {
    let options =
        Options { pkt_seq: Some(0xa1a2_a3a4), series: Series::new(0xb1b2, 0x0102), ..stamped() };
    let times = [1, 1, 8, 10, 1, 2, 3, 4, 0, 0, 0, 5];
    let [hi, lo] = crate::wire::tack_option::EXID.to_be_bytes();
    let numbers = [0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2, 1, 2];
    let experimental = [&times[..], &[253, 12, hi, lo], &numbers].concat();
    let paper = [&times[..], &[1, 1, 42, 10], &numbers].concat();
    for (codepoints, bytes) in PROFILES.into_iter().zip([experimental, paper]) {
        assert_eq!(emitted(&options, codepoints), bytes);
        assert_eq!(options.len(codepoints), SERIES_OPTION_BYTES);
        assert_eq!(Options::parse(&bytes, codepoints), options);
        // The way that everything else is read tells the same.
        let padded = [&bytes[..], &[1, 1, 1, 1]].concat();
        assert_eq!(Options::parse(&padded, codepoints), options);
    }
}

#[test]
fn a_series_of_too_small_segments_or_beside_an_acknowledgment_is_none() {
    for codepoints in PROFILES {
        let series = Options { pkt_seq: Some(1), series: Series::new(0, 64), ..stamped() };
        let mut bytes = emitted(&series, codepoints);
        let last = bytes.len() - 1;
        bytes[last] = 63;
        assert_eq!(Options::parse(&bytes, codepoints), stamped());
        bytes[last] = 64;
        let acknowledgment = Options { ack_type: Some(AckType::Tack), ..Options::default() };
        bytes.extend(emitted(&acknowledgment, codepoints));
        let alone = Options { series: None, ack_type: Some(AckType::Tack), ..series.clone() };
        assert_eq!(Options::parse(&bytes, codepoints), alone);
        let both = Options { ack_type: Some(AckType::Tack), ..series };
        assert_eq!(emitted(&both, codepoints), emitted(&alone, codepoints));
    }
}

#[test]
fn of_two_numbers_the_last_counts_be_it_of_a_series_or_not() {
    for codepoints in PROFILES {
        let one = Options { pkt_seq: Some(1), ..Options::default() };
        let other = Options { pkt_seq: Some(2), series: Series::new(9, 99), ..one.clone() };
        for (first, last) in [(&one, &other), (&other, &one)] {
            let bytes = [emitted(first, codepoints), emitted(last, codepoints)].concat();
            assert_eq!(Options::parse(&bytes, codepoints), *last);
        }
    }
}

#[test]
fn a_syn_with_every_option_keeps_within_the_budget() {
    let options = Options {
        mss: Some(1460),
        window_scale: Some(10),
        sack_permitted: true,
        tack_permitted: true,
        compact_permitted: true,
        series_permitted: true,
        ..stamped()
    };
    for (codepoints, len) in PROFILES.into_iter().zip([32, 28]) {
        assert_eq!(options.len(codepoints), len);
        assert_eq!(Options::parse(&emitted(&options, codepoints), codepoints), options);
    }
}

#[test]
fn a_linux_syn_reads_as_its_sender_meant_it() {
    // MSS 1460, SACK-Permitted, timestamps, NOP, window scale 7: Linux's order.
    let bytes = [2, 4, 5, 0xb4, 4, 2, 8, 10, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0, 1, 3, 3, 7];
    let expected = Options {
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { val: 0x1122_3344, ecr: 0 }),
        ..Options::default()
    };
    assert_eq!(Options::parse(&bytes, Codepoints::Experimental), expected);
}

#[test]
fn unknown_options_are_skipped_by_their_length() {
    // Kind 30 (MPTCP) of 4 bytes, another experiment, then an MSS.
    let bytes = [30, 4, 0xff, 0xff, 253, 4, 0xac, 0xc0, 2, 4, 2, 0, 0, 0, 0, 0];
    let options = Options::parse(&bytes, Codepoints::Experimental);
    assert_eq!(options, Options { mss: Some(512), ..Options::default() });
}

#[test]
fn an_illegal_length_ends_the_list_and_keeps_what_came_before() {
    let before = [2, 4, 2, 0];
    for illegal in [&[3u8, 0, 7, 1][..], &[3, 1, 7, 1], &[3, 9, 7, 1], &[3]] {
        let bytes = [&before[..], illegal].concat();
        let options = Options::parse(&bytes, Codepoints::Experimental);
        assert_eq!(options, Options { mss: Some(512), ..Options::default() }, "{illegal:?}");
    }
}

#[test]
fn a_known_option_of_a_wrong_length_is_skipped_and_the_rest_read() {
    let bytes = [2, 3, 9, 5, 6, 1, 2, 3, 4, 4, 2, 8, 3, 0, 3, 3, 30];
    let options = Options::parse(&bytes, Codepoints::Paper);
    let expected = Options { sack_permitted: true, window_scale: Some(14), ..Options::default() };
    assert_eq!(options, expected, "the shift is clamped [RFC 7323 §2.3]");
}

#[test]
fn nothing_is_read_behind_the_end_of_the_list() {
    assert_eq!(Options::parse(&[1, 0, 2, 4, 2, 0], Codepoints::Paper), Options::default());
}

#[test]
fn sack_blocks_fill_what_the_other_options_leave() {
    let mut full = Options::default();
    for i in 0..4 {
        assert!(full.sack.push(SeqNum(i), SeqNum(i + 1)));
    }
    assert!(!full.sack.push(SeqNum(9), SeqNum(10)), "four at most");
    let timestamps = stamped().timestamps;
    let pkt_seq = Some(7);
    for codepoints in PROFILES {
        assert_eq!(full.sack_blocks_sent(codepoints), 4);
        let with_times = Options { timestamps, ..full.clone() };
        assert_eq!(with_times.sack_blocks_sent(codepoints), 3);
        let with_number = Options { pkt_seq, ..with_times };
        assert_eq!(with_number.sack_blocks_sent(codepoints), 2);
        let parsed = Options::parse(&emitted(&with_number, codepoints), codepoints);
        assert_eq!(parsed.sack.as_slice(), &full.sack.as_slice()[..2], "the most recent ones");
    }
}

#[test]
fn a_hostile_block_count_reads_only_what_exists() {
    let sack = SackBlocks { len: 200, ..SackBlocks::default() };
    assert_eq!(sack.as_slice().len(), 4);
}

#[test]
fn features_beside_a_number_or_an_acknowledgment_mean_nothing() {
    for codepoints in PROFILES {
        let syn = Options { tack_permitted: true, compact_permitted: true, ..stamped() };
        let number = Options { pkt_seq: Some(1), ..Options::default() };
        let bytes = [emitted(&syn, codepoints), emitted(&number, codepoints)].concat();
        let read = Options::parse(&bytes, codepoints);
        assert_eq!(read, Options { compact_permitted: false, pkt_seq: Some(1), ..syn.clone() });
        let both = Options { pkt_seq: Some(1), ..syn };
        assert_eq!(Options::parse(&emitted(&both, codepoints), codepoints), read);
    }
}

proptest! {
    #[test]
    fn what_is_emitted_is_read_back(options in any_options(), paper in any::<bool>()) {
        let codepoints = PROFILES[usize::from(paper)];
        let bytes = emitted(&options, codepoints);
        prop_assert_eq!(bytes.len(), options.len(codepoints));
        prop_assert!(bytes.len().is_multiple_of(4) && bytes.len() <= MAX_OPTION_BYTES);
        let mut expected = options;
        expected.sack.len = expected.sack_blocks_sent(codepoints) as u8;
        for unsent in &mut expected.sack.blocks[usize::from(expected.sack.len)..] {
            *unsent = Default::default();
        }
        prop_assert_eq!(Options::parse(&bytes, codepoints), expected);
    }

    /// What is read from anything at all can be emitted and read again unchanged.
    #[test]
    fn any_bytes_read_as_something_that_survives_a_round_trip(
        bytes in proptest::collection::vec(any::<u8>(), 0..=40), paper in any::<bool>(),
    ) {
        let codepoints = PROFILES[usize::from(paper)];
        let read = Options::parse(&bytes, codepoints);
        let again = Options::parse(&emitted(&read, codepoints), codepoints);
        prop_assert_eq!(again.timestamps, read.timestamps);
        prop_assert_eq!(again.pkt_seq, read.pkt_seq);
        prop_assert_eq!(again.ack_type, read.ack_type);
        prop_assert_eq!(again.mss, read.mss);
    }

    /// The fast path of the usual options agrees with the general one: a no-operation moved from the
    /// front to the end makes the general one run.
    #[test]
    fn the_fast_path_reads_what_the_general_path_reads(
        val in any::<u32>(), ecr in any::<u32>(), pkt_seq in any::<Option<u32>>(),
        paper in any::<bool>(),
    ) {
        let codepoints = PROFILES[usize::from(paper)];
        let timestamps = Some(Timestamps { val, ecr });
        let options = Options { timestamps, pkt_seq, ..Options::default() };
        let mut bytes = emitted(&options, codepoints);
        prop_assert_eq!(Options::parse(&bytes, codepoints), options.clone());
        bytes.rotate_left(1);
        prop_assert!(Options::parse_usual(&bytes, codepoints).is_none());
        prop_assert_eq!(Options::parse(&bytes, codepoints), options);
    }
}

#[test]
fn features_nobody_knows_yet_are_ignored() {
    let [hi, lo] = crate::wire::tack_option::EXID.to_be_bytes();
    for features in [0, 1, 2, 3, 0xfffc, 0xfffd, 0xfffe, 0xffff_u16] {
        let known = Options {
            compact_permitted: features & 1 != 0,
            series_permitted: features & 2 != 0,
            ..Options::default()
        };
        let [a, b] = features.to_be_bytes();
        let read = Options::parse(&[1, 1, 253, 6, hi, lo, a, b], Codepoints::Experimental);
        assert_eq!(read, known);
        assert_eq!(Options::parse(&[40, 4, a, b], Codepoints::Paper), known);
    }
}
