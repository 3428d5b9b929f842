#![allow(clippy::single_range_in_vec_init)] // lists of one gap

use proptest::prelude::*;

use super::*;

/// A context in which stream and PKT.SEQ space are both about to wrap.
const CONTEXT: Context = Context {
    seq_near: (3 << 32) - 100,
    isn: SeqNum(0xffff_0000),
    pkt_seq_near: (1 << 32) + 5,
    counter_near: 0x0102_ff00,
    cum_ack: (3 << 32) - 50,
    window: 1 << 20,
};

fn tack() -> Tack {
    let at = CONTEXT.cum_ack;
    Tack {
        counter: 0x0103_0304,
        cum_ack: at,
        timing: Some(Timing {
            departure_us: 0xfffe_0000,
            delay: Duration::from_micros(1_234),
            queued: Duration::from_micros(0x77),
        }),
        delivery_rate: Some(Rate::from_kbps(95_000)),
        rho: 1.0,
        received_in_flight: 4_344,
        window: CONTEXT.window,
        largest_pkt_seq: u64::from(u32::MAX),
        rcv_high: at + 10_000,
        holes: vec![at..at + 1_448, at + 2_896..at + 4_344],
        holes_complete: true,
        lost: Vec::new(),
        settled_below: u64::MAX,
        interval: Duration::from_millis(20),
        regime: Regime::Steady,
        duplicates: 3,
    }
}

fn emitted(tack: &Tack) -> Vec<u8> {
    let mut out = Vec::new();
    emit_tack(tack, CONTEXT.isn, &mut out);
    out
}

/// A body that says nothing but what each does.
fn terse() -> Tack {
    Tack {
        timing: None,
        delivery_rate: None,
        rho: 0.0,
        received_in_flight: 0,
        rcv_high: CONTEXT.cum_ack,
        holes: Vec::new(),
        duplicates: 0,
        ..tack()
    }
}

/// Puts `word` at byte `at`.
fn set(body: &mut [u8], at: usize, word: u32) {
    body[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

/// Where the fields of [`tack`] that hostile bodies change lie.
const RCV_HIGH: usize = TACK_MOST_LEN - 10;
const COUNT: usize = TACK_MOST_LEN - 2;
const HOLES: usize = TACK_MOST_LEN;

#[test]
fn the_layout_is_the_one_drawn() {
    let at = 0xfffe_ffce_u32; // isn + cum_ack
    let mut expected = vec![2, 0xf7, 0x03, 0x04];
    let mut words = |words: &[u32]| expected.extend(words.iter().flat_map(|w| w.to_be_bytes()));
    words(&[0xffff_ffff, 20_000, 0xfffe_0000, 1_234, 0x77, 95_000]);
    expected.extend([0xff, 0xff, 0, 0, 0, 3]);
    expected.extend(at.wrapping_add(10_000).to_be_bytes());
    expected.extend([0, 0, 0x10, 0xf8, 0, 2]);
    for edge in [0, 1_448, 2_896, 4_344] {
        expected.extend(at.wrapping_add(edge).to_be_bytes());
    }
    assert_eq!(emitted(&tack()), expected);
    assert_eq!(parse_tack(&expected, &CONTEXT), Ok(tack()));
}

#[test]
fn what_says_nothing_takes_no_bytes() {
    assert_eq!(emitted(&terse()).len(), TACK_LEAST_LEN);
    assert_eq!(emitted(&terse())[1], FLAG_COMPLETE);
    let timing = tack().timing.map(|timing| Timing { queued: Duration::ZERO, ..timing });
    let common = Tack { timing, delivery_rate: tack().delivery_rate, ..terse() };
    assert_eq!(emitted(&common).len(), 24, "the common case");
    assert_eq!(emitted(&Tack { holes: vec![], ..tack() }).len(), TACK_MOST_LEN);
    for said in [terse(), common] {
        assert_eq!(parse_tack(&emitted(&said), &CONTEXT), Ok(said));
    }
}

#[test]
fn the_counter_is_the_nearest_with_the_bits_that_travelled() {
    for (near, wire, counter) in [
        (0, 1, 1),
        (0, 0xffff, u32::MAX),
        (0x0001_ffff, 0, 0x0002_0000),
        (0x0002_0000, 0xfff0, 0x0001_fff0),
        (u32::MAX, 5, 5),
        (10, 10 + 0x7fff, 10 + 0x7fff),
        (0x1_000a, 10 + 0x8000, 0x800a),
    ] {
        let context = Context { counter_near: near, ..CONTEXT };
        let mut body = emitted(&terse());
        body[2..4].copy_from_slice(&u16::to_be_bytes(wire));
        assert_eq!(parse_tack(&body, &context).map(|t| t.counter), Ok(counter), "{near:#x}");
    }
}

#[test]
fn as_many_holes_fit_as_announced() {
    assert_eq!(max_holes(0), 0);
    assert_eq!(max_holes(TACK_MOST_LEN + 7), 0);
    let holes = max_holes(1_440);
    assert!(holes >= 170, "hundreds of holes in one TACK [TON §VI-B], got {holes}");
    let at = CONTEXT.cum_ack;
    let list = (1..=holes as u64).map(|i| at + 10 * i..at + 10 * i + 5).collect();
    let full = Tack { holes: list, rcv_high: at + 1_000_000, ..tack() };
    assert!(emitted(&full).len() <= 1_440);
    assert_eq!(parse_tack(&emitted(&full), &CONTEXT), Ok(full));
}

#[test]
fn no_more_holes_are_named_than_can_be_counted() {
    let at = CONTEXT.cum_ack;
    let list: Vec<_> = (0..70_000).map(|i| at + 2 * i..at + 2 * i + 1).collect();
    let long = Tack { rcv_high: at + 140_000, holes: list, ..tack() };
    let read = parse_tack(&emitted(&long), &CONTEXT).expect("well-formed");
    assert_eq!(read.holes, long.holes[..65_535]);
}

#[test]
fn every_length_short_of_what_the_flags_say_is_an_error() {
    let body = emitted(&tack());
    for have in 0..TACK_MOST_LEN {
        let error = parse_tack(&body[..have], &CONTEXT);
        let Err(BodyError::Truncated { kind: AckType::Tack, need, have: found }) = error else {
            panic!("{have} bytes: {error:?}");
        };
        assert_eq!(found, have);
        assert!(have < need && need <= TACK_MOST_LEN, "{have} bytes, {need} needed");
    }
    for have in TACK_MOST_LEN..body.len() {
        let room = (have - TACK_MOST_LEN) / 8;
        let error = BodyError::HoleCount { count: 2, room };
        assert_eq!(parse_tack(&body[..have], &CONTEXT), Err(error));
    }
}

#[test]
fn another_version_is_refused_and_trailing_bytes_are_ignored() {
    let mut body = emitted(&tack());
    body.extend_from_slice(&[0xee; 13]);
    assert_eq!(parse_tack(&body, &CONTEXT), Ok(tack()));
    for found in [0, 1, 3] {
        body[0] = found;
        let error = BodyError::Version { kind: AckType::Tack, found };
        assert_eq!(parse_tack(&body, &CONTEXT), Err(error));
    }
}

#[test]
fn more_holes_than_bytes_is_an_error_not_an_allocation() {
    let mut body = emitted(&tack());
    for count in [3, u16::MAX] {
        body[COUNT..COUNT + 2].copy_from_slice(&count.to_be_bytes());
        let error = BodyError::HoleCount { count: u32::from(count), room: 2 };
        assert_eq!(parse_tack(&body, &CONTEXT), Err(error));
    }
}

#[test]
fn an_inverted_or_empty_hole_is_an_error() {
    let (left, right) = (0xfffe_ffce_u32.wrapping_add(2_896), 0xfffe_ffce_u32.wrapping_add(4_344));
    for at in [HOLES, HOLES + 8] {
        for (left, right) in [(right, left), (left, left)] {
            let mut body = emitted(&tack());
            set(&mut body, at, left);
            set(&mut body, at + 4, right);
            assert_eq!(parse_tack(&body, &CONTEXT), Err(BodyError::Hole { left, right }));
        }
    }
}

#[test]
fn what_of_a_hole_lies_outside_what_was_received_is_ignored() {
    let at = CONTEXT.cum_ack;
    let lie =
        Tack { holes: vec![at - 40..at + 10, at - 30..at - 20, at + 9_000..at + 90_000], ..tack() };
    let read = parse_tack(&emitted(&lie), &CONTEXT).expect("well-formed");
    assert_eq!(read.holes, vec![at..at + 10, at + 9_000..at + 10_000]);
}

#[test]
fn repeated_and_overlapping_holes_are_passed_on() {
    let at = CONTEXT.cum_ack;
    let holes = vec![at..at + 10, at + 20..at + 30, at..at + 10, at + 5..at + 25];
    let repeating = Tack { holes, ..tack() };
    assert_eq!(parse_tack(&emitted(&repeating), &CONTEXT), Ok(repeating));
}

#[test]
fn a_highest_byte_below_the_cumulative_ack_is_raised_to_it() {
    let mut body = emitted(&Tack { holes: Vec::new(), ..tack() });
    set(&mut body, RCV_HIGH, 0xfffe_ffce - 7);
    let read = parse_tack(&body, &CONTEXT).expect("well-formed");
    assert_eq!(read.rcv_high, CONTEXT.cum_ack);
}

#[test]
fn more_received_in_flight_than_lies_beyond_the_cumulative_ack_is_cut_to_that() {
    for claimed in [10_001, u64::MAX] {
        let lie = emitted(&Tack { received_in_flight: claimed, ..tack() });
        assert_eq!(parse_tack(&lie, &CONTEXT).map(|t| t.received_in_flight), Ok(10_000));
    }
}

#[test]
fn numbers_before_the_stream_are_errors() {
    let context = Context { seq_near: 10, cum_ack: 10, isn: SeqNum(1_000), ..CONTEXT };
    let fresh = Tack { cum_ack: 10, rcv_high: 20, received_in_flight: 5, holes: vec![], ..tack() };
    let mut body = Vec::new();
    emit_tack(&fresh, context.isn, &mut body);
    assert_eq!(parse_tack(&body, &context), Ok(fresh));
    set(&mut body, RCV_HIGH, 990);
    assert_eq!(parse_tack(&body, &context), Err(BodyError::RcvHigh { rcv_high: 990 }));
}

#[test]
fn numbers_that_are_none_travel_as_zero_or_the_nearest_bound() {
    for (rho, read_as) in [(f64::NAN, 0.0), (-1.0, 0.0), (7.0, 1.0), (f64::INFINITY, 1.0)] {
        let body = emitted(&Tack { rho, ..tack() });
        assert_eq!(parse_tack(&body, &CONTEXT).map(|t| t.rho), Ok(read_as));
    }
    let huge = Tack { delivery_rate: Some(Rate::MAX), interval: Duration::MAX, ..tack() };
    let read = parse_tack(&emitted(&huge), &CONTEXT).expect("well-formed");
    assert_eq!(read.delivery_rate, Some(Rate::from_kbps(u64::from(u32::MAX))));
    assert_eq!(read.interval, Duration::from_micros(u64::from(u32::MAX)));
}

fn iack(reason: IackReason) -> Iack {
    Iack { cum_ack: CONTEXT.cum_ack, window: CONTEXT.window, reason }
}

fn lost(gaps: &[Range<u64>]) -> IackReason {
    IackReason::Loss { gaps: gaps.to_vec() }
}

fn frequency() -> Frequency {
    Frequency {
        regime: Regime::Startup,
        interval: Duration::from_micros(20_001),
        rtt_min: Duration::from_micros(80_005),
        segments_per_ack: 2,
        rho_prime: 0.0,
        bdp: 1_000_000,
    }
}

#[test]
fn every_kind_of_iack_is_read_back() {
    let reasons = [
        (lost(&[(1 << 32) - 1..(1 << 32) + 3]), 8),
        (IackReason::Window, 0),
        (IackReason::Frequency(frequency()), 20),
        (IackReason::RttUpdate, 0),
        (IackReason::CongestionExperienced { marked: (7 << 32) + 1 }, 8),
    ];
    for (reason, len) in reasons {
        let mut body = Vec::new();
        let kind = emit_iack(&iack(reason.clone()), &mut body);
        assert_eq!(body.len(), len, "{kind:?}");
        assert_eq!(parse_iack(kind, &body, &CONTEXT), Ok(Some(iack(reason))));
        for have in 0..len {
            let error = BodyError::Truncated { kind, need: len, have };
            assert_eq!(parse_iack(kind, &body[..have], &CONTEXT), Err(error));
        }
    }
}

#[test]
fn a_loss_iack_is_the_two_numbers_of_the_paper() {
    let mut body = Vec::new();
    emit_iack(&iack(lost(&[10..0x0a0b_0c0d])), &mut body);
    assert_eq!(body, [0x0a, 0x0b, 0x0c, 0x0d, 0, 0, 0, 9]);
}

#[test]
fn a_tack_in_place_of_a_loss_iack_is_both() {
    let near = CONTEXT.pkt_seq_near;
    for base in [tack(), terse()] {
        let both = Tack { lost: vec![near - 9..near - 7, near - 3..near - 2], ..base.clone() };
        let mut body = emitted(&base);
        emit_iack(&iack(lost(&both.lost)), &mut body);
        assert_eq!(emitted(&both), body);
        assert_eq!(parse_tack(&body, &CONTEXT), Ok(both));
        assert_eq!(parse_tack(&body[..body.len() - 16], &CONTEXT), Ok(base));
    }
}

#[test]
fn a_loss_iack_of_many_gaps_ends_before_the_first_that_is_none() {
    let near = CONTEXT.pkt_seq_near;
    let gaps: Vec<Range<u64>> = (0..9).map(|i| near + 3 * i..near + 3 * i + 1 + i % 3).collect();
    let mut body = Vec::new();
    emit_iack(&iack(lost(&gaps)), &mut body);
    assert_eq!(body.len(), 9 * 8);
    let read = |body: &[u8]| parse_iack(AckType::LossIack, body, &CONTEXT);
    assert_eq!(read(&body), Ok(Some(iack(lost(&gaps)))));
    assert_eq!(read(&body[..71]), Ok(Some(iack(lost(&gaps[..8])))), "what is whole counts");
    // The fifth is empty, then it overlaps the fourth.
    set(&mut body, 4 * 8, (near + 3 * 4 - 1) as u32);
    assert_eq!(read(&body), Ok(Some(iack(lost(&gaps[..4])))));
    set(&mut body, 4 * 8, (near + 40) as u32);
    set(&mut body, 4 * 8 + 4, (near + 8) as u32);
    assert_eq!(read(&body), Ok(Some(iack(lost(&gaps[..4])))));
}

#[test]
fn a_loss_iack_that_encloses_no_packet_is_an_error() {
    let near = CONTEXT.pkt_seq_near as u32;
    for (largest, second_largest) in [(near, near), (near, near + 1), (near, near - 1)] {
        let body = [largest.to_be_bytes(), second_largest.to_be_bytes()].concat();
        let error = BodyError::NoGap { largest, second_largest };
        assert_eq!(parse_iack(AckType::LossIack, &body, &CONTEXT), Err(error));
    }
}

#[test]
fn a_frequency_of_zero_segments_or_another_version_is_an_error() {
    let mut body = Vec::new();
    let zero = Frequency { segments_per_ack: 0, ..frequency() };
    emit_iack(&iack(IackReason::Frequency(zero)), &mut body);
    let kind = AckType::FrequencyIack;
    assert_eq!(parse_iack(kind, &body, &CONTEXT), Err(BodyError::ZeroSegmentsPerAck));
    body[0] = 9;
    assert_eq!(parse_iack(kind, &body, &CONTEXT), Err(BodyError::Version { kind, found: 9 }));
}

#[test]
fn kinds_that_are_no_iacks_give_none() {
    for kind in [AckType::Tack, AckType::Unknown(0), AckType::Unknown(99)] {
        assert_eq!(parse_iack(kind, &[1, 2, 3], &CONTEXT), Ok(None));
    }
}

prop_compose! {
    fn any_gaps(least: usize)(
        steps in proptest::collection::vec((0u64..1_000, 1u64..1_000), least..130),
    ) -> Vec<Range<u64>> {
        let mut at = CONTEXT.pkt_seq_near - 60_000;
        steps.iter().map(|&(skip, len)| {
            let start = at + skip;
            at = start + len;
            start..at
        }).collect()
    }
}

prop_compose! {
    fn any_tack()(
        numbers in any::<[u32; 7]>(),
        flags in any::<[bool; 4]>(),
        rho in any::<u16>(),
        pkt_seq_back in 0u64..1 << 30,
        gaps in proptest::collection::vec((0u64..100_000, 1u64..100_000), 0..40),
        lost in any_gaps(0),
    ) -> Tack {
        let [counter, departure_us, delay, queued, interval, kbps, duplicates] = numbers;
        let (delay, queued) = (micros(delay), micros(queued));
        let mut at = CONTEXT.cum_ack;
        let holes: Vec<Range<u64>> = gaps.iter().map(|&(skip, len)| {
            let start = at + skip;
            at = start + len;
            start..at
        }).collect();
        // As near as a wire of 16 bits can tell.
        let counter = CONTEXT.counter_near.wrapping_add(i32::from(counter as i16) as u32);
        Tack {
            counter,
            timing: flags[0].then_some(Timing { departure_us, delay, queued }),
            delivery_rate: flags[1].then_some(Rate::from_kbps(u64::from(kbps))),
            rho: ratio(rho),
            received_in_flight: (at + 1 - CONTEXT.cum_ack) / 2,
            largest_pkt_seq: CONTEXT.pkt_seq_near - pkt_seq_back,
            rcv_high: at + 1,
            holes,
            holes_complete: flags[2],
            lost,
            settled_below: u64::MAX,
            interval: micros(interval),
            regime: if flags[3] { Regime::Startup } else { Regime::Steady },
            duplicates,
            ..tack()
        }
    }
}

proptest! {
    #[test]
    fn every_loss_iack_is_read_back(gaps in any_gaps(1)) {
        let mut body = Vec::new();
        let kind = emit_iack(&iack(lost(&gaps)), &mut body);
        prop_assert_eq!(parse_iack(kind, &body, &CONTEXT), Ok(Some(iack(lost(&gaps)))));
    }

    #[test]
    fn every_tack_is_read_back(tack in any_tack()) {
        let body = emitted(&tack);
        prop_assert!(body.len() >= TACK_LEAST_LEN);
        prop_assert!(body.len() <= TACK_MOST_LEN + 8 * (tack.holes.len() + tack.lost.len()));
        prop_assert_eq!(parse_tack(&body, &CONTEXT), Ok(tack));
    }

    #[test]
    fn any_bytes_are_a_body_or_an_error_and_what_is_read_is_sane(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        kind in any::<u8>(), count in 0u8..20, versioned in any::<bool>(),
    ) {
        if versioned && bytes.len() >= TACK_MOST_LEN {
            bytes[0] = VERSION;
            bytes[1] = 0x77;
            bytes[COUNT..COUNT + 2].copy_from_slice(&u16::from(count).to_be_bytes());
        }
        if let Ok(tack) = parse_tack(&bytes, &CONTEXT) {
            prop_assert!((0.0..=1.0).contains(&tack.rho));
            prop_assert!(tack.rcv_high >= tack.cum_ack);
            prop_assert!(tack.holes.len() <= bytes.len() / 8);
            for hole in &tack.holes {
                let inside = tack.cum_ack <= hole.start
                    && hole.start < hole.end
                    && hole.end <= tack.rcv_high;
                prop_assert!(inside, "{hole:?}");
            }
        }
        let _ = parse_iack(AckType::from_code(kind % 8), &bytes, &CONTEXT);
    }
}
