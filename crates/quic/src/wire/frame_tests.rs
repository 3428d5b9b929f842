use core::time::Duration;

use super::super::ack::EcnCounts;
use super::*;
use tack::{Regime, Tack, Timing};
use tack_units::Rate;

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 11) % n
    }

    /// Of any number of bits that a variable-length integer has.
    fn varint(&mut self) -> u64 {
        let bits = self.below(63);
        self.next() & ((1 << bits) - 1)
    }
}

fn ack(rng: &mut Rng) -> Ack {
    let mut low = 1 + rng.varint();
    let mut ranges = Vec::new();
    for _ in 0..1 + rng.below(20) {
        let end = low;
        let start = end - 1 - rng.below(end.min(1_000));
        ranges.push(start..end);
        let gap = 1 + rng.below(1_000);
        if start <= gap + 1 {
            break;
        }
        low = start - gap;
    }
    let counts = EcnCounts { ect0: rng.varint(), ect1: rng.varint(), ce: rng.varint() };
    Ack { delay: rng.varint(), ranges, ecn: (rng.below(2) == 0).then_some(counts) }
}

fn report(rng: &mut Rng) -> Report {
    let us = |rng: &mut Rng| Duration::from_micros(rng.varint());
    let timing = Timing { departure_us: rng.next() as u32, delay: us(rng), queued: us(rng) };
    Report {
        counter: rng.next() as u32,
        duplicates: rng.next() as u32,
        unsettled: rng.varint(),
        rho: rng.below(65_536) as f64 / 65_535.0,
        interval: us(rng),
        regime: if rng.below(2) == 0 { Regime::Startup } else { Regime::Steady },
        timing: (rng.below(2) == 0).then_some(timing),
        delivery_rate: (rng.below(2) == 0).then_some(Rate::from_kbps(rng.below(1 << 50))),
    }
}

fn frame<'a>(kind: u64, data: &'a [u8], rng: &mut Rng) -> Frame<'a> {
    let id = rng.varint();
    let offset = rng.below(1 << 50);
    match kind {
        0 => Frame::Ping,
        1 => Frame::Ack(ack(rng)),
        2 => Frame::ResetStream { id, code: rng.varint(), final_size: rng.varint() },
        3 => Frame::StopSending { id, code: rng.varint() },
        4 => Frame::Crypto { offset, data },
        5 => Frame::NewToken(&data[..1 + data.len() / 2]),
        6 => Frame::Stream { id, offset: offset * rng.below(2), fin: rng.below(2) == 0, data },
        7 => Frame::MaxData(id),
        8 => Frame::MaxStreamData { id, most: rng.varint() },
        9 => Frame::MaxStreams { bidi: rng.below(2) == 0, most: id.min(1 << 60) },
        10 => Frame::DataBlocked(id),
        11 => Frame::StreamDataBlocked { id, at: rng.varint() },
        12 => Frame::StreamsBlocked { bidi: rng.below(2) == 0, at: id.min(1 << 60) },
        13 => {
            let len = 1 + rng.below(20) as usize;
            let retire_prior_to = id / 2;
            let token = [rng.next() as u8; 16];
            Frame::NewConnectionId { sequence: id, retire_prior_to, id: &data[..len], token }
        }
        14 => Frame::RetireConnectionId(id),
        15 => Frame::PathChallenge(rng.next().to_be_bytes()),
        16 => Frame::PathResponse(rng.next().to_be_bytes()),
        17 => {
            let frame_type = (rng.below(2) == 0).then_some(rng.varint());
            Frame::Close(Close { code: id, frame_type, reason: data })
        }
        18 => Frame::HandshakeDone,
        19 => Frame::Datagram(data),
        20 => Frame::AckFrequency(ack_frequency::Frame {
            sequence: id,
            request: ack_frequency::Request {
                ack_eliciting_threshold: rng.varint(),
                max_ack_delay: Duration::from_micros(rng.varint()),
                reordering_threshold: rng.varint(),
            },
        }),
        21 => Frame::ImmediateAck,
        22 => Frame::Report(report(rng)),
        23 => Frame::Loss(Loss { unsettled: id }),
        24 => Frame::Frequency(tack::Frequency {
            regime: Regime::Startup,
            interval: Duration::from_micros(rng.varint()),
            rtt_min: Duration::from_micros(rng.varint()),
            segments_per_ack: rng.next() as u32,
            rho_prime: rng.below(65_536) as f64 / 65_535.0,
            bdp: rng.varint(),
        }),
        25 => Frame::Stamp(rng.next() as u32),
        _ => Frame::Padding(1 + rng.below(50) as usize),
    }
}

fn parsed(bytes: &[u8]) -> Result<Vec<Frame<'_>>, ParseError> {
    let (mut reader, mut frames) = (Reader::new(bytes), Vec::new());
    while !reader.is_empty() {
        frames.push(Frame::parse(&mut reader)?);
    }
    Ok(frames)
}

#[test]
fn packets_of_every_frame_survive() {
    let mut rng = Rng(5);
    let data: Vec<u8> = (0..100).collect();
    for _ in 0..2_000 {
        let mut frames = Vec::new();
        for kind in 0..27 {
            let len = 20 + rng.below(80) as usize;
            if rng.below(3) > 0 {
                frames.push(frame(kind, &data[..len], &mut rng));
            }
        }
        let mut bytes = Vec::new();
        frames.iter().for_each(|frame| frame.emit(&mut bytes));
        assert_eq!(parsed(&bytes), Ok(frames));
    }
}

#[test]
fn any_bytes_are_refused_or_survive_a_second_reading() {
    let mut rng = Rng(6);
    let mut read = 0;
    for _ in 0..200_000 {
        let mut bytes: Vec<u8> = (0..rng.below(60)).map(|_| rng.next() as u8).collect();
        if let Some(first) = bytes.first_mut() {
            // More often a type that is known.
            *first &= [0xff, 0x3f, 0x1f, 0x0f][rng.below(4) as usize];
        }
        let Ok(frames) = parsed(&bytes) else { continue };
        read += frames.len();
        let mut again = Vec::new();
        frames.iter().for_each(|frame| frame.emit(&mut again));
        assert_eq!(parsed(&again), Ok(frames), "{bytes:x?}");
    }
    assert!(read > 5_000, "{read} frames of noise");
}

#[test]
fn a_rate_beyond_any_is_read_as_the_highest_that_can_be_written() {
    let highest = Rate::from_kbps(u64::MAX / 1_000);
    let report = Report { delivery_rate: Some(highest), ..report(&mut Rng(8)) };
    let mut bytes = Vec::new();
    Frame::Report(report).emit(&mut bytes);
    let rate_at = bytes.len() - 8;
    bytes[rate_at..].fill(0xff);
    assert_eq!(parsed(&bytes), Ok(vec![Frame::Report(report)]));
}

#[test]
fn a_frame_that_is_cut_off_is_refused() {
    let mut rng = Rng(7);
    for kind in 0..26 {
        let mut bytes = Vec::new();
        frame(kind, &[1; 40], &mut rng).emit(&mut bytes);
        for cut in 1..bytes.len() {
            let refused = Frame::parse(&mut Reader::new(&bytes[..cut]));
            assert!(matches!(refused, Err(ParseError::Truncated { .. })), "{kind}: {refused:?}");
        }
    }
}

#[test]
fn what_no_frame_may_say_is_refused_by_name() {
    let refused = |bytes: &[u8]| parsed(bytes).unwrap_err().to_string();
    assert_eq!(refused(&[0x02, 3, 0, 0, 4]), "first ACK range is 4");
    assert_eq!(refused(&[0x02, 3, 0, 1, 1, 1, 0]), "ACK gap is 1");
    assert_eq!(refused(&[0x07, 0]), "token length is 0");
    assert_eq!(refused(&[0x18, 1, 2, 8]), "retire prior to is 2");
    assert_eq!(refused(&[0x18, 1, 1, 21]), "connection ID length is 21");
    assert_eq!(refused(&[0x12, 0xd0, 0, 0, 0, 0, 0, 0, 1]), "MAX_STREAMS is 1152921504606846977");
    assert_eq!(refused(&[0x21]), "frame type 0x21 is not known");
    // Found by the fuzzer: PADDING of two bytes came back as one frame with what followed it.
    assert_eq!(refused(&[0x40, 0x00, 0x00]), "frame type 0x0 is not in its fewest bytes");
    assert_eq!(refused(&[0x7a, 0xc0, 0x80]), "TACK_REPORT's flags is 128");
    let beyond = [0x0e, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0];
    assert_eq!(refused(&beyond), "STREAM offset is 4611686018427387903");
}

#[test]
#[allow(clippy::single_range_in_vec_init)]
fn a_tack_survives_as_an_ack_frame_and_a_report() {
    let mut rng = Rng(8);
    for _ in 0..2_000 {
        let acked = ack(&mut rng);
        let report = Report { unsettled: 0, ..report(&mut rng) };
        let oldest = if rng.below(2) == 0 { u64::MAX } else { rng.below(99) };
        let tack = report.tack(&acked, oldest);
        assert_eq!(Ack::from(&tack).ranges, acked.ranges);
        assert_eq!(Report::of(&tack), report);
        assert_eq!(Report::of(&tack).tack(&Ack::from(&tack), oldest), tack);
    }
    // [TON §V-A]: packets 1 to 10 sent; 1, 4, 5, 6, 10 received. Numbers begin at 0 in QUIC.
    let acked = Ack { delay: 0, ranges: vec![9..10, 3..6, 0..1], ecn: None };
    let tack = Report { unsettled: 4, ..report(&mut rng) }.tack(&acked, 2);
    assert_eq!((tack.cum_ack, tack.largest_pkt_seq, tack.rcv_high), (1, 10, 11));
    assert_eq!((&tack.holes, tack.settled_below), (&vec![2..4, 7..10], 7));
    let iack = Loss { unsettled: 4 }.iack(&acked, 2);
    assert_eq!(iack.reason, tack::IackReason::Loss { gaps: vec![2..4] });
    let short = Tack { holes: vec![2..4], holes_complete: false, ..tack };
    assert_eq!(Ack::from(&short).ranges, [9..10, 0..1], "nothing that is not certain");
    // Nothing below 4 was ever acknowledged: from 2 on it is a gap, which begins there.
    let acked = Ack { ranges: vec![9..10, 3..6], ..acked };
    let tack = Report { unsettled: 9, ..report(&mut rng) }.tack(&acked, 2);
    assert_eq!((tack.cum_ack, &tack.holes, tack.settled_below), (2, &vec![2..4, 7..10], 2));
    assert_eq!(Loss { unsettled: 4 }.gaps(&acked, 2), vec![2..4]);
    assert_eq!(Loss { unsettled: 9 }.gaps(&acked, 2), vec![]);
}
