use proptest::prelude::*;

use super::*;

/// A context in which stream and PKT.SEQ space are both about to wrap.
const CONTEXT: Context = Context {
    seq_near: (3 << 32) - 100,
    isn: SeqNum(0xffff_0000),
    pkt_seq_near: (1 << 32) + 5,
    cum_ack: (3 << 32) - 50,
    window: 1 << 20,
};

fn tack() -> Tack {
    let at = CONTEXT.cum_ack;
    Tack {
        counter: 0x0102_0304,
        cum_ack: at,
        timing: Some(Timing { departure_us: 0xfffe_0000, delay: Duration::from_micros(1_234) }),
        delivery_rate: Some(Rate::from_kbps(95_000)),
        rho: 1.0,
        received_in_flight: 4_344,
        window: CONTEXT.window,
        largest_pkt_seq: u64::from(u32::MAX),
        rcv_high: at + 10_000,
        holes: vec![at..at + 1_448, at + 2_896..at + 4_344],
        holes_complete: true,
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

/// Puts `word` into the TACK's 32-bit field number `i`.
fn set(body: &mut [u8], i: usize, word: u32) {
    body[4 * i..4 * i + 4].copy_from_slice(&word.to_be_bytes());
}

const RCV_HIGH: usize = 4;
const HOL: usize = 11;
const COUNT: usize = 12;

#[test]
fn the_layout_is_the_one_drawn() {
    let at = 0xfffe_ffce_u32; // isn + cum_ack
    let words = [
        0x010f_ffff,
        0x0102_0304,
        0xfffe_0000,
        0xffff_ffff,
        at.wrapping_add(10_000),
        20_000,
        3,
        1_234,
        95_000,
        0,
        4_344,
        at.wrapping_add(1_448),
        1,
        at.wrapping_add(2_896),
        at.wrapping_add(4_344),
    ];
    let expected: Vec<u8> = words.iter().flat_map(|w: &u32| w.to_be_bytes()).collect();
    assert_eq!(emitted(&tack()), expected);
    assert_eq!(parse_tack(&expected, &CONTEXT), Ok(tack()));
}

#[test]
fn as_many_holes_fit_as_announced() {
    assert_eq!(max_holes(0), 0);
    assert_eq!(max_holes(TACK_FIXED_LEN + 7), 0);
    let holes = max_holes(1_440);
    assert!(holes >= 170, "hundreds of holes in one TACK [TON §VI-B], got {holes}");
    // None starts at the cumulative ACK: the longest body there is for a number of holes.
    let at = CONTEXT.cum_ack;
    let list = (1..=holes as u64).map(|i| at + 10 * i..at + 10 * i + 5).collect();
    let full = Tack { holes: list, rcv_high: at + 1_000_000, ..tack() };
    assert!(emitted(&full).len() <= 1_440);
    assert_eq!(parse_tack(&emitted(&full), &CONTEXT), Ok(full));
}

#[test]
fn every_length_short_of_the_fixed_part_is_an_error() {
    let body = emitted(&tack());
    for have in 0..TACK_FIXED_LEN {
        let error = BodyError::Truncated { kind: AckType::Tack, need: TACK_FIXED_LEN, have };
        assert_eq!(parse_tack(&body[..have], &CONTEXT), Err(error));
    }
}

#[test]
fn another_version_is_refused_and_trailing_bytes_are_ignored() {
    let mut body = emitted(&tack());
    body.extend_from_slice(&[0xee; 13]);
    assert_eq!(parse_tack(&body, &CONTEXT), Ok(tack()));
    body[0] = 2;
    let error = BodyError::Version { kind: AckType::Tack, found: 2 };
    assert_eq!(parse_tack(&body, &CONTEXT), Err(error));
}

#[test]
fn more_holes_than_bytes_is_an_error_not_an_allocation() {
    let mut body = emitted(&tack());
    for count in [2, u32::MAX] {
        set(&mut body, COUNT, count);
        assert_eq!(parse_tack(&body, &CONTEXT), Err(BodyError::HoleCount { count, room: 1 }));
    }
}

#[test]
fn an_inverted_or_empty_hole_is_an_error() {
    let (left, right) = (0xfffe_ffce_u32.wrapping_add(2_896), 0xfffe_ffce_u32.wrapping_add(4_344));
    for (left, right) in [(right, left), (left, left)] {
        let mut body = emitted(&tack());
        set(&mut body, COUNT + 1, left);
        set(&mut body, COUNT + 2, right);
        assert_eq!(parse_tack(&body, &CONTEXT), Err(BodyError::Hole { left, right }));
    }
    let mut body = emitted(&tack());
    set(&mut body, HOL, 0xfffe_ffce - 1);
    let (left, right) = (0xfffe_ffce, 0xfffe_ffcd);
    assert_eq!(parse_tack(&body, &CONTEXT), Err(BodyError::Hole { left, right }));
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
fn numbers_before_the_stream_are_errors() {
    let context = Context { seq_near: 10, cum_ack: 10, isn: SeqNum(1_000), ..CONTEXT };
    let fresh = Tack { cum_ack: 10, rcv_high: 20, holes: vec![], ..tack() };
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
    let huge = Tack {
        received_in_flight: u64::MAX,
        delivery_rate: Some(Rate::MAX),
        interval: Duration::MAX,
        ..tack()
    };
    let read = parse_tack(&emitted(&huge), &CONTEXT).expect("well-formed");
    assert_eq!(read.received_in_flight, u64::from(u32::MAX));
    assert_eq!(read.delivery_rate, Some(Rate::from_kbps(u64::from(u32::MAX))));
    assert_eq!(read.interval, Duration::from_micros(u64::from(u32::MAX)));
}

fn iack(reason: IackReason) -> Iack {
    Iack { cum_ack: CONTEXT.cum_ack, window: CONTEXT.window, reason }
}

fn frequency() -> Frequency {
    Frequency {
        regime: Regime::Startup,
        interval: Duration::from_micros(20_001),
        segments_per_ack: 2,
        rho_prime: 0.0,
        bdp: 1_000_000,
    }
}

#[test]
fn every_kind_of_iack_is_read_back() {
    let reasons = [
        (IackReason::Loss { largest: (1 << 32) + 3, second_largest: (1 << 32) - 2 }, 8),
        (IackReason::Window, 0),
        (IackReason::Frequency(frequency()), 16),
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
    emit_iack(&iack(IackReason::Loss { largest: 0x0a0b_0c0d, second_largest: 9 }), &mut body);
    assert_eq!(body, [0x0a, 0x0b, 0x0c, 0x0d, 0, 0, 0, 9]);
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
    fn any_tack()(
        numbers in any::<[u32; 6]>(),
        flags in any::<[bool; 4]>(),
        rho in any::<u16>(),
        pkt_seq_back in 0u64..1 << 30,
        gaps in proptest::collection::vec((0u64..100_000, 1u64..100_000), 0..40),
    ) -> Tack {
        let [counter, departure_us, delay, interval, kbps, duplicates] = numbers;
        let mut at = CONTEXT.cum_ack;
        let holes: Vec<Range<u64>> = gaps.iter().map(|&(skip, len)| {
            let start = at + skip;
            at = start + len;
            start..at
        }).collect();
        Tack {
            counter,
            timing: flags[0].then_some(Timing { departure_us, delay: micros(delay) }),
            delivery_rate: flags[1].then_some(Rate::from_kbps(u64::from(kbps))),
            rho: ratio(rho),
            largest_pkt_seq: CONTEXT.pkt_seq_near - pkt_seq_back,
            rcv_high: at + 1,
            holes,
            holes_complete: flags[2],
            interval: micros(interval),
            regime: if flags[3] { Regime::Startup } else { Regime::Steady },
            duplicates,
            ..tack()
        }
    }
}

proptest! {
    #[test]
    fn every_tack_is_read_back(tack in any_tack()) {
        let body = emitted(&tack);
        prop_assert!(body.len() <= TACK_FIXED_LEN + 8 * tack.holes.len());
        prop_assert_eq!(parse_tack(&body, &CONTEXT), Ok(tack));
    }

    #[test]
    fn any_bytes_are_a_body_or_an_error_and_what_is_read_is_sane(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        kind in any::<u8>(), count in 0u8..20, versioned in any::<bool>(),
    ) {
        if versioned && bytes.len() >= TACK_FIXED_LEN {
            bytes[0] = VERSION;
            set(&mut bytes, COUNT, u32::from(count));
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
