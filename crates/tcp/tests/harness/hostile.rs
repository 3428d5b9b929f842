//! Peers and bystanders that lie: bounded memory and work, and never a wrong byte.

use core::time::Duration;

use tack::{Iack, IackReason, Regime, Tack};
use tack_tcp::seq::SeqNum;
use tack_tcp::wire::series::LEAST_SIZE;
use tack_tcp::wire::{AckType, Flags, Form, Segment, Series, body};
use tack_tcp::{ConnConfig, ConnectionError, Mode, State};
use tack_units::Rate;

use crate::raw::{Raw, Sent};

const MS: Duration = Duration::from_millis(1);

fn data(sent: &[Sent]) -> Vec<&Sent> {
    sent.iter().filter(|s| !s.payload.is_empty() && s.header.options.ack_type.is_none()).collect()
}

fn both() -> [ConnConfig; 2] {
    [ConnConfig::default(), ConnConfig::plain()]
}

/// A TACK with everything at rest.
fn tack_of(counter: u32, cum_ack: u64, largest: u64) -> Tack {
    Tack {
        counter,
        cum_ack,
        timing: None,
        delivery_rate: Some(Rate::from_mbps(10)),
        rho: 0.0,
        received_in_flight: 0,
        window: 1 << 19,
        largest_pkt_seq: largest,
        rcv_high: cum_ack,
        holes: Vec::new(),
        holes_complete: true,
        lost: Vec::new(),
        settled_below: u64::MAX,
        interval: Duration::from_millis(10),
        regime: Regime::Steady,
        duplicates: 0,
    }
}

fn send_tack(raw: &mut Raw, tack: &Tack, isn: SeqNum) -> Vec<Sent> {
    let mut bytes = Vec::new();
    body::emit_tack(tack, isn, &mut bytes);
    raw.send(raw.body_header(AckType::Tack, bytes.len()), &bytes)
}

#[test]
fn acknowledgments_of_what_was_never_sent_are_answered_rarely_and_change_nothing() {
    for config in both() {
        let mut raw = Raw::connected(config);
        let sent = raw.write(&[7; 100_000]);
        let (first, flight) = (data(&sent).len(), raw.info().in_flight);
        assert!(first >= 10, "the initial window is out");
        let mut answers = 0;
        for i in 0..10_000u32 {
            let mut header = raw.header();
            header.ack = raw.ack.add(1_000_000 + i * 10_000);
            answers += raw.send(header, &[]).len();
            raw.now += MS / 10;
        }
        assert!(answers <= 11, "{answers} challenges in a second");
        assert_eq!(raw.info().counters.bytes_acked, 0);
        assert!(raw.info().in_flight <= flight);
    }
}

#[test]
fn an_optimistic_receiver_gets_no_more_than_window_and_buffer_at_once() {
    for config in both() {
        let max = config.send_buffer as u64;
        let mut raw = Raw::connected(config);
        let start = raw.ack;
        let mut top = 0u32;
        for _ in 0..2_000 {
            let (conn, now) = (raw.conn(), raw.now);
            raw.host.write(conn, &[7; 65_536], now).expect("open");
            let sent = raw.wait(MS);
            let edge = |s: &&Sent| s.header.seq.add(s.payload.len() as u32).since(start) as u32;
            top = data(&sent).iter().map(edge).max().unwrap_or(top).max(top);
            // Acknowledged before it can have arrived.
            raw.ack = start.add(top);
            let kind = AckType::WindowIack;
            let header =
                if raw.info().mode == Mode::Tack { raw.body_header(kind, 0) } else { raw.header() };
            raw.send(header, &[]);
            let info = raw.info();
            assert!(info.in_flight <= info.snd_wnd.max(65_536) && info.in_flight <= max);
            assert!(info.buffer_memory <= 2 * max as usize);
        }
    }
}

#[test]
fn enormous_overlapping_hole_lists_repeat_each_segment_at_most_once_per_rtt() {
    let mut raw = Raw::connected(ConnConfig::default());
    let isn = SeqNum(raw.ack.0.wrapping_sub(1));
    raw.write(&[7; 1 << 17]);
    raw.now += 20 * MS;
    let base = (1u64 << 32) + 1;
    let sent_before = raw.info().counters.data_segments_sent;
    let high = base + raw.info().in_flight;
    for i in 0..5_000u32 {
        let mut tack = tack_of(i + 1, base, u64::from(u32::MAX) / 2);
        tack.largest_pkt_seq = sent_before;
        tack.rcv_high = high;
        // As many as fit, overlapping, most of them beyond anything sent.
        tack.holes = (0..170).map(|h| base + h..base + h * 1_000 + 500).collect();
        send_tack(&mut raw, &tack, isn);
        raw.now += MS / 100;
    }
    let info = raw.info();
    // 50 ms passed: two RTTs of the 20 ms that the peer claims.
    let most = 4 * sent_before + 20;
    assert!(info.counters.retransmissions <= most, "{} of {most}", info.counters.retransmissions);
    assert!(info.counters.bytes_acked == 0 && info.mode == Mode::Tack);
}

/// What its header acknowledges is given back to the writer; who repairs must know that, too.
#[test]
fn a_tack_that_names_packets_never_sent_acknowledges_what_its_header_does_and_no_more() {
    let mut raw = Raw::connected(ConnConfig::default());
    let isn = SeqNum(raw.ack.0.wrapping_sub(1));
    let sent = raw.write(&[7; 50_000]);
    let first = data(&sent)[0].payload.len() as u32;
    raw.ack = raw.ack.add(first);
    let cum_ack = (1u64 << 32) + 1 + u64::from(first);
    let mut tack = tack_of(1, cum_ack, 1_000_000);
    tack.rcv_high = cum_ack + 20_000;
    send_tack(&mut raw, &tack, isn);
    assert_eq!(raw.info().counters.bytes_acked, u64::from(first));
    // Everything that is still out goes again, from there.
    let again = raw.wait(3_000 * MS);
    assert!(data(&again).iter().any(|s| s.header.seq == raw.ack));
    assert!(data(&again).iter().all(|s| s.header.seq.since(raw.ack) >= 0), "freed bytes");
}

#[test]
fn bodies_of_any_bytes_are_counted_and_dropped() {
    let mut raw = Raw::connected(ConnConfig::default());
    raw.write(&[7; 50_000]);
    let mut x = 0x9e37_79b9_7f4a_7c15u64;
    for i in 0..20_000u64 {
        let bytes: Vec<u8> = (0..i % 200)
            .map(|_| {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                x as u8
            })
            .collect();
        let kind = AckType::from_code((x >> 40) as u8 % 9);
        raw.send(raw.body_header(kind, bytes.len()), &bytes);
        raw.now += MS / 10;
    }
    let info = raw.info();
    assert_eq!((info.state, info.counters.bytes_received), (State::Established, 0));
    assert!(info.counters.bytes_acked == 0 && info.counters.bad_bodies > 1_000);
}

#[test]
fn leaps_of_pkt_seq_cost_bounded_answers_and_no_byte() {
    let mut raw = Raw::connected(ConnConfig::default());
    let (mut answers, mut bytes) = (0, 0u64);
    for i in 0..3_000u32 {
        let mut header = raw.data_header();
        header.options.pkt_seq = Some(i.wrapping_mul(0x4fff_ffff));
        let text = [i as u8; 100];
        answers += raw.send(header, &text).len();
        raw.seq = raw.seq.add(100);
        bytes += 100;
        let read = raw.read();
        assert!(read == text, "in order, so delivered at once");
        answers += raw.wait(MS / 10).len();
    }
    let info = raw.info();
    assert_eq!(info.counters.bytes_received, bytes);
    assert!(answers <= 3 * 3_000, "{answers}");
    assert!(info.buffer_memory <= 1 << 20);
}

#[test]
fn series_that_overlap_and_do_not_fit_their_text_cost_bounded_answers_and_no_byte() {
    let mut raw = Raw::connected(ConnConfig::default());
    let (mut answers, mut pieces, mut x) = (0, 0, 1u32);
    for i in 0..3_000u32 {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut header = raw.data_header();
        // Numbers from before, ahead, and around the wrap; anchors anywhere; the least of sizes.
        let number = [x, i, i / 2, 0u32.wrapping_sub(i)][x as usize >> 8 & 3];
        let anchor = [x >> 16, header.seq.0, header.seq.0 + 1][(x as usize >> 10) % 3] as u16;
        let size = [LEAST_SIZE, 100, 1_000, u16::MAX][x as usize >> 12 & 3];
        header.options.pkt_seq = Some(number);
        header.options.series = Series::new(anchor, size);
        let text = vec![i as u8; 1 + x as usize % 1_400];
        let segment = Segment { header: header.clone(), payload: &text, form: Form::Full };
        pieces += segment.pieces().count();
        answers += raw.send(header, &text).len();
        raw.seq = raw.seq.add(text.len() as u32);
        assert!(raw.read() == text, "in order, so delivered at once");
        answers += raw.wait(MS / 10).len();
    }
    let info = raw.info();
    assert_eq!(info.counters.data_segments_received, pieces as u64);
    assert!(answers <= 3 * 3_000, "{answers}");
    assert!(info.buffer_memory <= 1 << 20);
}

#[test]
fn a_window_that_shrinks_and_swells_is_never_exceeded_by_new_data() {
    for config in both() {
        let tack = config.ack.tack().is_some();
        let mut raw = Raw::connected(config);
        let start = raw.ack;
        let mut promised = 0u64;
        let mut x = 1u32;
        for _ in 0..2_000 {
            let (conn, now) = (raw.conn(), raw.now);
            raw.host.write(conn, &[7; 20_000], now).expect("open");
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let mut header =
                if tack { raw.body_header(AckType::WindowIack, 0) } else { raw.header() };
            header.window = (x >> 20) as u16 % 200;
            promised = promised
                .max(u64::from(raw.ack.since(start) as u32) + (u64::from(header.window) << 8));
            let mut sent = raw.send(header, &[]);
            sent.extend(raw.wait(MS));
            for s in data(&sent) {
                let edge = s.header.seq.add(s.payload.len() as u32).since(start) as u32;
                // 2000 << 8 was promised with the handshake.
                assert!(u64::from(edge) <= promised.max(2_000 << 8));
                if x & 1 == 0 {
                    raw.ack = start.add(edge.max(raw.ack.since(start) as u32));
                }
            }
        }
    }
}

#[test]
fn a_blind_reset_inside_the_window_is_challenged_and_only_the_exact_number_resets() {
    // [RFC 5961 §3.2]
    for config in both() {
        let mut raw = Raw::connected(config);
        let mut challenges = 0;
        for i in 1..1_000u32 {
            let mut rst = raw.header();
            rst.flags = Flags::RST;
            rst.seq = raw.seq.add(i * 50);
            challenges += raw.send(rst, &[]).len();
        }
        assert_eq!(raw.info().state, State::Established);
        assert_eq!(challenges, 1, "all within one instant");
        let mut rst = raw.header();
        rst.flags = Flags::RST;
        raw.send(rst, &[]);
        assert_eq!(raw.host.closed(raw.conn()), Some(Err(ConnectionError::Reset)));
    }
}

#[test]
fn a_blind_syn_is_challenged_whatever_its_number() {
    // [RFC 5961 §4.2]
    for config in both() {
        let mut raw = Raw::connected(config);
        for offset in [0, 1, 500, 1 << 30, 3 << 30] {
            raw.now += Duration::from_secs(1);
            let mut syn = raw.header();
            syn.flags = Flags::SYN;
            syn.seq = raw.seq.add(offset);
            let answers = raw.send(syn, &[]);
            assert_eq!(answers.len(), 1);
            assert!(answers[0].header.flags.has(Flags::ACK));
            assert!(!answers[0].header.flags.has(Flags::RST));
            assert_eq!(raw.info().state, State::Established);
        }
    }
}

#[test]
fn blind_data_needs_a_right_acknowledgment_number_and_never_ends_tack() {
    // [RFC 5961 §5.2]: in-window data with an ACK outside what may travel is dropped.
    let mut raw = Raw::connected(ConnConfig::default());
    for i in 0..1_000u32 {
        raw.now += MS;
        let mut header = raw.header();
        header.ack = raw.ack.add(1 + (i << 20)).add(1 << 18);
        header.seq = raw.seq.add(i % 100);
        raw.send(header, b"injected");
    }
    let info = raw.info();
    assert_eq!((info.mode, info.counters.bytes_received), (Mode::Tack, 0));
    let header = raw.data_header();
    raw.send(header, b"genuine");
    assert_eq!(raw.read(), b"genuine");
}

#[test]
fn a_stripped_body_is_an_old_duplicate_at_any_point_of_the_connection() {
    for sent in [0u32, 1, 100, 5_000] {
        let mut raw = Raw::connected(ConnConfig::default());
        if sent > 0 {
            let header = raw.data_header();
            raw.send(header, &vec![1; (sent as usize).min(1_400)]);
            raw.seq = raw.seq.add(sent.min(1_400));
        }
        let before = raw.info().counters.bytes_received;
        let mut bytes = Vec::new();
        body::emit_tack(&tack_of(1, (1 << 32) + 1, 0), SeqNum(0), &mut bytes);
        let mut header = raw.body_header(AckType::Tack, bytes.len());
        header.options.ack_type = None;
        raw.send(header, &bytes);
        let info = raw.info();
        assert_eq!(info.counters.bytes_received, before, "no body becomes text");
        assert!(matches!(info.mode, Mode::FellBack(_)));
    }
}

#[test]
fn frequency_iacks_without_end_change_a_schedule_and_nothing_else() {
    let mut raw = Raw::connected(ConnConfig::default());
    for i in 0..10_000u32 {
        let frequency = tack::Frequency {
            regime: if i % 2 == 0 { Regime::Startup } else { Regime::Steady },
            interval: Duration::from_micros(u64::from(i.wrapping_mul(2_654_435_761))),
            rtt_min: Duration::from_micros(u64::from(i.wrapping_mul(2_246_822_519))),
            segments_per_ack: i.wrapping_mul(40_503).max(1),
            rho_prime: f64::from(i % 100) / 100.0,
            bdp: u64::from(i) << 12,
        };
        let iack = Iack { cum_ack: 0, window: 0, reason: IackReason::Frequency(frequency) };
        let mut bytes = Vec::new();
        let kind = body::emit_iack(&iack, &mut bytes);
        raw.send(raw.body_header(kind, bytes.len()), &bytes);
    }
    // Whatever was asked for, what arrives is acknowledged within half a second.
    let header = raw.data_header();
    let mut answers = raw.send(header, b"hello");
    answers.extend(raw.wait(Duration::from_millis(500)));
    raw.seq = raw.seq.add(5);
    assert!(answers.iter().any(|a| a.header.ack == raw.seq), "[RFC 9293 §3.8.6.3]");
}

#[test]
fn every_second_byte_of_the_window_costs_no_more_than_the_window() {
    for config in both() {
        let mut raw = Raw::connected(config);
        for i in 0..60_000u32 {
            let mut header = raw.data_header();
            header.seq = raw.seq.add(1 + 2 * i);
            raw.send(header, &[7]);
        }
        assert!(raw.info().buffer_memory <= 1 << 18);
        let mut filled = 0;
        while filled < 60_000 {
            let header = raw.data_header();
            raw.send(header, &[7; 1_000]);
            raw.seq = raw.seq.add(1_000);
            let read = raw.read();
            assert!(read.iter().all(|b| *b == 7));
            filled += 1_000;
        }
    }
}
