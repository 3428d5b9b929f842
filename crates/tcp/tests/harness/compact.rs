//! Short headers: when they are used, what they leave unsaid, and who may send them.

use core::time::Duration;

use tack_tcp::wire::{AckType, CompactHeader, Flags, Form, body};
use tack_tcp::{ConnConfig, ConnectionError, Host, HostConfig, Mode};
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, path};
use crate::raw::{Raw, Sent};
use crate::world::WorldConfig;

const MS: Duration = Duration::from_millis(1);

fn bulk(offers: [bool; 2], ip: Option<bool>, len: u64) -> Bulk {
    let pipes = path(Rate::from_mbps(100), Duration::from_millis(20), 2.0);
    let mut config = WorldConfig::new(11, pipes);
    config.ip = ip;
    for (host, offers) in config.hosts.iter_mut().zip(offers) {
        host.compact = offers;
    }
    Bulk::new(config, ConnConfig::default(), ConnConfig::default(), len)
}

/// An end with short headers to which the peer has proved that TACK arrives, as it has to it.
fn connected() -> Raw {
    let mut raw = Raw::connected_with(ConnConfig::default(), true);
    let header = raw.data_header();
    raw.send(header, b"hello");
    raw.seq = raw.seq.add(5);
    assert_eq!(raw.read(), b"hello");
    // And past Startup, where every packet is acknowledged at once.
    let frequency = tack::Frequency {
        regime: tack::Regime::Steady,
        interval: 400 * MS,
        rtt_min: 1_600 * MS,
        segments_per_ack: 1_000,
        rho_prime: 0.0,
        bdp: 1 << 20,
    };
    let reason = tack::IackReason::Frequency(frequency);
    let mut bytes = Vec::new();
    let kind = body::emit_iack(&tack::Iack { cum_ack: 0, window: 0, reason }, &mut bytes);
    raw.send(raw.body_header(kind, bytes.len()), &bytes);
    raw.wait(500 * MS);
    raw
}

fn forms(sent: &[Sent]) -> Vec<(Form, usize)> {
    let data = sent.iter().filter(|s| s.header.options.pkt_seq.is_some());
    data.map(|s| (s.form, s.payload.len())).collect()
}

#[test]
fn nearly_all_of_a_bulk_transfer_goes_with_short_headers_in_datagrams_of_one_size() {
    const LEN: u64 = 20 << 20;
    let mut bulk = bulk([true, true], None, LEN);
    bulk.run(Instant::from_millis(1_500));
    let info = bulk.info();
    assert_eq!((info.mode, info.mss), (Mode::Tack, 1_454), "1472 bytes of UDP payload less 18");
    let counters = info.counters;
    let full = counters.data_segments_sent - counters.compact_segments_sent;
    // The initial window, and one in 100 ms.
    assert!((10..60).contains(&full), "{full} of {}", counters.data_segments_sent);
    bulk.run(Instant::from_secs(20));
    assert_eq!((bulk.reader.read, bulk.reader.at_end), (LEN, true));
    assert_eq!(bulk.world.ends[0].host.closed(bulk.client), Some(Ok(())));
    let pipe = &bulk.world.pipes[0];
    let least = LEN / 1_454 + bulk.info().counters.retransmissions;
    let spent = pipe.counters.bytes as f64 / (least * (1_472 + pipe.overhead)) as f64;
    assert!((1.0..1.001).contains(&spent), "{spent} of the least on the wire");
}

#[test]
fn an_end_that_does_not_offer_them_neither_sends_nor_gets_them() {
    for (offers, ip) in [
        ([true, false], None),
        ([false, true], None),
        ([false, false], None),
        ([true, true], Some(false)),
        ([true, true], Some(true)),
    ] {
        let mut bulk = bulk(offers, ip, 1 << 20);
        bulk.run(Instant::from_secs(10));
        assert_eq!((bulk.reader.read, bulk.reader.at_end), (1 << 20, true));
        let info = bulk.info();
        assert_eq!((info.mode, info.counters.compact_segments_sent), (Mode::Tack, 0));
        assert_eq!(bulk.server_info().counters.unacceptable, 0);
    }
}

#[test]
fn data_both_ways_acknowledges_at_the_head_of_every_burst() {
    let mut raw = connected();
    for round in 0..20 {
        raw.now += 10 * MS;
        let short = raw.short_header();
        assert!(raw.send_short(short, &[round; 100]).is_empty(), "it waits for its TACK");
        raw.seq = raw.seq.add(100);
        raw.read();
        let sent = raw.write(&[round; 4_000]);
        let (full, short) = (1_432, 1_454);
        assert_eq!(
            forms(&sent),
            [(Form::Full, full), (Form::Compact, short), (Form::Compact, 4_000 - full - short)]
        );
        let head = sent.iter().find(|s| s.header.options.pkt_seq.is_some()).expect("sent");
        assert_eq!(head.header.ack, raw.seq, "what has come by now");
        raw.ack = raw.ack.add(4_000);
        raw.send(raw.body_header(AckType::WindowIack, 0), &[]);
    }
}

#[test]
fn silence_about_acknowledgment_and_window_lasts_100_ms_at_most() {
    let mut raw = connected();
    let mut whole = Vec::new();
    for _ in 0..300 {
        raw.now += MS;
        let sent = raw.write(&[7; 100]);
        whole.extend(forms(&sent).iter().filter(|f| f.0 == Form::Full).map(|_| raw.now));
        raw.ack = raw.ack.add(100);
        raw.send(raw.body_header(AckType::WindowIack, 0), &[]);
    }
    assert!((3..=4).contains(&whole.len()), "{whole:?}");
    for pair in whole.windows(2) {
        assert_eq!(pair[1] - pair[0], 100 * MS);
    }
}

#[test]
fn fin_has_a_whole_header_and_goes_alone_where_its_text_leaves_no_room() {
    for (len, expected) in [
        (1_432, vec![(Form::Full, 1_432)]),
        (1_454, vec![(Form::Compact, 1_454), (Form::Full, 0)]),
        (1_455, vec![(Form::Compact, 1_454), (Form::Full, 1)]),
    ] {
        let mut raw = connected();
        // Nothing else asks for a whole header.
        raw.write(b"x");
        let (conn, now) = (raw.conn(), raw.now);
        raw.host.write(conn, &vec![1; len], now).expect("open");
        raw.host.shutdown_write(conn, now).expect("known");
        let sent = raw.drain();
        assert_eq!(forms(&sent), expected);
        let fins = |sent: &[Sent]| {
            sent.iter().filter(|s| s.header.flags.has(Flags::FIN)).map(|s| s.form).collect()
        };
        let once: Vec<Form> = fins(&sent);
        assert_eq!(once, [Form::Full]);
        // Unanswered, all of it goes again, FIN included, behind whole headers.
        let again = raw.wait(Duration::from_secs(3));
        let after_timeout: Vec<Form> = fins(&again);
        assert!(!after_timeout.is_empty() && after_timeout.iter().all(|f| *f == Form::Full));
    }
}

#[test]
fn a_peer_that_forgot_the_connection_resets_it_after_a_timeout() {
    let mut bulk = bulk([true, true], None, u64::MAX >> 8);
    bulk.run(Instant::from_secs(1));
    assert!(bulk.info().counters.compact_segments_sent > 1_000);
    // Its process was killed and started again.
    let now = bulk.world.local(1);
    bulk.world.ends[1].host = Host::new(HostConfig::default(), [77; 32], now);
    bulk.server = None;
    bulk.run(Instant::from_secs(4));
    let closed = bulk.world.ends[0].host.closed(bulk.client);
    assert_eq!(closed, Some(Err(ConnectionError::Reset)));
    assert!(bulk.world.ends[1].host.counters().stray > 0);
}

#[test]
fn time_wait_acknowledges_text_that_comes_again_with_a_short_header() {
    let mut raw = connected();
    let (id, now) = (raw.conn(), raw.now);
    raw.host.shutdown_write(id, now).expect("known");
    raw.drain();
    raw.ack = raw.ack.add(1);
    let short = raw.short_header();
    raw.send_short(short, b"tail");
    raw.seq = raw.seq.add(4);
    raw.read();
    let mut fin = raw.data_header();
    fin.flags = Flags::ACK | Flags::FIN;
    raw.send(fin, &[]);
    assert_eq!((raw.host.closed(id), raw.host.time_wait_len()), (Some(Ok(())), 1));
    let answers = raw.send_short(short, b"tail");
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].header.ack, raw.seq.add(1));
}

#[test]
fn short_headers_nobody_agreed_on_are_counted_and_change_nothing() {
    for conn in [ConnConfig::default(), ConnConfig::plain()] {
        let mut raw = Raw::connected(conn);
        let short = raw.short_header();
        assert!(raw.send_short(short, b"data").is_empty());
        let counters = raw.info().counters;
        assert_eq!((counters.unacceptable, counters.bytes_received), (1, 0));
    }
    // To a listener, to a closed port, and before the handshake is over.
    let mut raw = Raw::connected_with(ConnConfig::default(), true);
    raw.port += 1;
    let to_listener = raw.short_header();
    assert!(raw.send_short(to_listener, b"data").is_empty());
    let to_nobody = CompactHeader { dst_port: 9, ..to_listener };
    assert!(raw.send_short(to_nobody, b"data").is_empty());
    assert_eq!(raw.host.counters().stray, 2);
    raw.ack = raw.syn().header.seq.add(1);
    let early = CompactHeader { seq: raw.seq.add(1), ..to_listener };
    assert!(raw.send_short(early, b"data").is_empty());
    raw.seq = raw.seq.add(1);
    raw.send(raw.header(), &[]);
    raw.conn = Some(raw.host.accept(crate::raw::PORT).expect("established all the same"));
    assert_eq!(raw.info().counters.bytes_received, 0);
}

#[test]
fn blind_text_behind_a_short_header_needs_a_right_packet_number() {
    let mut raw = connected();
    let received = raw.info().counters.bytes_received;
    let mut x = 1u32;
    for i in 0..1_000u32 {
        raw.now += MS;
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        // Everything guessed right but PKT.SEQ.
        let pkt_seq = x.clamp(1 << 21, u32::MAX - (1 << 21));
        let blind = CompactHeader { seq: raw.seq.add(i % 100), pkt_seq, ..raw.short_header() };
        assert!(raw.send_short(blind, b"injected").is_empty());
    }
    let info = raw.info();
    assert_eq!(info.mode, Mode::Tack);
    assert_eq!((info.counters.bytes_received, info.counters.unacceptable), (received, 1_000));
    let genuine = raw.short_header();
    raw.send_short(genuine, b"genuine");
    assert_eq!(raw.read(), b"genuine");
}

#[test]
fn a_short_header_from_before_the_clock_wrapped_is_refused() {
    let mut raw = connected();
    let now = raw.short_header();
    raw.send_short(now, b"new");
    raw.seq = raw.seq.add(3);
    let before = raw.info().counters;
    let mut old = raw.short_header();
    old.ts_val = old.ts_val.wrapping_sub(300_000);
    raw.send_short(old, b"old");
    let after = raw.info().counters;
    assert_eq!(after.bytes_received, before.bytes_received);
    assert_eq!(after.unacceptable, before.unacceptable + 1);
}
