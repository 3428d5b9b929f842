//! Opening: negotiation, lost SYNs, floods, cookies.

use core::time::Duration;

use tack_tcp::wire::{Flags, Header};
use tack_tcp::{ConnConfig, ConnectionError, EventKind, ListenConfig, Mode, State};
use tack_units::{Instant, Rate};

use crate::bulk::{Bulk, PORT, path};
use crate::pipe::Strip;
use crate::raw::Raw;
use crate::world::WorldConfig;

fn short_path() -> WorldConfig {
    WorldConfig::new(5, path(Rate::from_mbps(50), Duration::from_millis(20), 2.0))
}

#[test]
fn either_end_without_tack_makes_plain_tcp() {
    for (client, server) in [(false, true), (true, false), (false, false)] {
        let config = |tack| if tack { ConnConfig::default() } else { ConnConfig::plain() };
        let mut bulk = Bulk::new(short_path(), config(client), config(server), 300_000);
        bulk.run(Instant::from_secs(5));
        assert_eq!(bulk.reader.read, 300_000);
        assert_eq!((bulk.info().mode, bulk.server_info().mode), (Mode::Plain, Mode::Plain));
    }
}

#[test]
fn a_path_that_drops_the_option_on_syns_gets_plain_tcp_from_the_fourth_syn_on() {
    let mut config = WorldConfig { ip: Some(false), ..short_path() };
    config.pipes[0].drop_permitted_syns = true;
    let mut bulk = Bulk::new(config, ConnConfig::default(), ConnConfig::default(), 300_000);
    bulk.run(Instant::from_secs(6));
    assert_eq!(bulk.info().state, State::SynSent, "three SYNs carried the option");
    bulk.run(Instant::from_secs(20));
    assert_eq!(bulk.reader.read, 300_000);
    assert_eq!((bulk.info().mode, bulk.server_info().mode), (Mode::Plain, Mode::Plain));
}

/// What both ends speak after a transfer over a path one way of which is dark for so long at first.
fn after_dark(way: usize, dark: Duration, ip: Option<bool>) -> (Mode, Mode) {
    let mut config = WorldConfig { ip, ..short_path() };
    config.pipes[way].blackouts.push(Instant::ZERO..Instant::ZERO + dark);
    let mut bulk = Bulk::new(config, ConnConfig::default(), ConnConfig::default(), 300_000);
    bulk.run(Instant::from_secs(30));
    assert_eq!(bulk.reader.read, 300_000);
    (bulk.info().mode, bulk.server_info().mode)
}

/// The third leaves at 3 s.
#[test]
fn over_ip_two_lost_syns_do_not_cost_tack_and_three_do() {
    for way in 0..2 {
        let after = |dark| after_dark(way, Duration::from_millis(dark), Some(false));
        assert_eq!(after(2_900), (Mode::Tack, Mode::Tack), "{way}");
        assert_eq!(after(3_100), (Mode::Plain, Mode::Plain), "{way}");
    }
}

#[test]
fn within_udp_no_number_of_lost_syns_costs_tack() {
    for way in 0..2 {
        assert_eq!(
            after_dark(way, Duration::from_secs(10), None),
            (Mode::Tack, Mode::Tack),
            "{way}"
        );
    }
}

#[test]
fn an_option_stripped_from_one_syn_leaves_both_ends_plain() {
    for direction in 0..2 {
        let mut config = short_path();
        config.pipes[direction].strip = Some((Strip::Permitted, Instant::ZERO));
        let mut bulk = Bulk::new(config, ConnConfig::default(), ConnConfig::default(), 300_000);
        bulk.run(Instant::from_secs(20));
        assert_eq!(bulk.reader.read, 300_000);
        assert_eq!(bulk.info().mode, Mode::Plain);
        assert_ne!(bulk.server_info().mode, Mode::Tack);
    }
}

#[test]
fn nobody_there_refuses_and_silence_times_out() {
    let mut bulk = Bulk::new(short_path(), ConnConfig::default(), ConnConfig::default(), 1);
    let now = bulk.world.local(0);
    let remote = tack_tcp::Remote { path: bulk.world.ends[1].addr, port: PORT + 1 };
    let host = &mut bulk.world.ends[0].host;
    let refused = host.connect(remote, ConnConfig::default(), now).expect("a port");
    bulk.run(Instant::from_secs(1));
    let closed = bulk.world.ends[0].host.closed(refused);
    assert_eq!(closed, Some(Err(ConnectionError::Refused)));

    let mut config = short_path();
    config.pipes[0].blackouts.push(Instant::ZERO..Instant::MAX);
    let mut silent = Bulk::new(config, ConnConfig::default(), ConnConfig::default(), 1);
    silent.run(Instant::from_secs(1_000));
    let closed = silent.world.ends[0].host.closed(silent.client);
    assert_eq!(closed, Some(Err(ConnectionError::HandshakeTimedOut)));
}

fn flooded(cookies: bool) -> Raw {
    let listen = ListenConfig::default().with(|it| {
        it.syn_backlog = 64;
        it.syn_cookies = cookies;
    });
    let mut raw = Raw::new(listen);
    raw.speak_tack();
    for i in 0..20_000u32 {
        raw.port = 1_000 + (i % 50_000) as u16;
        raw.from = ([10, 9, (i >> 8) as u8, i as u8], 5).into();
        let syn = raw.syn_header();
        raw.send(syn, &[]);
    }
    (raw.port, raw.from) = (40_000, ([10, 0, 0, 9], 999).into());
    raw
}

#[test]
fn a_syn_flood_holds_bounded_state_and_an_honest_client_gets_in_with_all_its_options() {
    let mut raw = flooded(true);
    assert_eq!(raw.host.connections().count(), 0, "nobody hears of half-open connections");
    assert!(raw.host.counters().cookies_sent >= 20_000 - 64);
    let answer = raw.syn();
    assert!(answer.header.options.tack_permitted);
    raw.seq = raw.seq.add(1);
    raw.ack = answer.header.seq.add(1);
    raw.now += Duration::from_millis(50);
    raw.send(raw.header(), &[]);
    raw.conn = Some(raw.host.accept(PORT).expect("the cookie counts"));
    let info = raw.info();
    assert_eq!((info.mode, info.snd_wnd), (Mode::Tack, 2_000 << 8), "TACK and scale are kept");
    let header = raw.data_header();
    raw.send(header, b"hello");
    assert_eq!(raw.read(), b"hello");
    assert_eq!(raw.host.counters().cookies_accepted, 1);
}

#[test]
fn without_cookies_a_flood_drops_syns() {
    let mut raw = flooded(false);
    let syn = raw.syn_header();
    assert!(raw.send(syn, &[]).is_empty());
    assert_eq!(raw.host.counters().cookies_sent, 0);
    // Handshakes that nobody completes give their place back.
    raw.wait(Duration::from_secs(300));
    assert_eq!(raw.syn().header.flags, Flags::SYN | Flags::ACK);
}

#[test]
fn a_guessed_cookie_is_refused() {
    let mut raw = flooded(true);
    for i in 0..10_000u32 {
        raw.ack = tack_tcp::seq::SeqNum(i.wrapping_mul(2_654_435_761));
        raw.send(raw.header(), &[]);
    }
    assert!(raw.host.accept(PORT).is_none());
    assert_eq!(raw.host.counters().cookies_accepted, 0);
}

/// A SYN from `port` is answered; the ACK that would end its handshake.
fn shaken(raw: &mut Raw, port: u16) -> Header {
    raw.port = port;
    let answer = raw.syn();
    let mut ack = raw.header();
    ack.seq = raw.seq.add(1);
    ack.ack = answer.header.seq.add(1);
    ack
}

#[test]
fn the_accept_queue_is_bounded_and_a_late_place_is_still_taken() {
    let listen = ListenConfig::default().with(|it| it.backlog = 1);
    let mut raw = Raw::new(listen);
    let (first, second) = (shaken(&mut raw, 1_001), shaken(&mut raw, 1_002));
    raw.send(first, &[]);
    raw.send(second.clone(), &[]);
    assert!(raw.host.accept(PORT).is_some());
    assert!(raw.host.accept(PORT).is_none(), "there was one place");
    raw.send(second, &[]);
    assert!(raw.host.accept(PORT).is_some());
}

#[test]
fn events_tell_of_each_step_once() {
    let mut raw = Raw::new(ListenConfig::default());
    let answer = raw.syn();
    raw.seq = raw.seq.add(1);
    raw.ack = answer.header.seq.add(1);
    let ack = raw.header();
    raw.send_quietly(ack, &[]);
    let mut data = raw.header();
    data.flags = Flags::ACK | Flags::FIN;
    raw.send_quietly(data, b"x");
    let kinds: Vec<EventKind> =
        core::iter::from_fn(|| raw.host.poll_event()).map(|e| e.kind).collect();
    let expected = [
        EventKind::Accepted { listener: PORT },
        EventKind::Readable,
        EventKind::Writable,
        EventKind::PeerClosed,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_segment_for_nobody_is_reset_after_the_rules_of_9293() {
    // [RFC 9293 §3.5.2, group 1]
    let mut raw = Raw::new(ListenConfig::default());
    let mut stray = raw.header();
    stray.dst_port = PORT + 1;
    let answer = raw.send(stray.clone(), b"abc");
    assert_eq!(answer[0].header.flags, Flags::RST);
    assert_eq!(answer[0].header.seq, stray.ack);
    stray.flags = Flags::SYN;
    let answer = raw.send(stray.clone(), b"abc");
    assert_eq!(answer[0].header.flags, Flags::RST | Flags::ACK);
    assert_eq!(answer[0].header.ack, stray.seq.add(4));
    stray.flags = Flags::RST;
    assert!(raw.send(stray, &[]).is_empty());
}

#[test]
fn what_nobody_has_accepted_holds_little_and_what_is_accepted_its_window() {
    let config = ConnConfig::plain().with(|it| it.initial_recv_buffer = 64 << 10);
    // Two whole windows fit.
    let mut raw = Raw::new(ListenConfig::default().with(|it| {
        it.conn = config;
        it.unaccepted_bytes = 128 << 10;
    }));
    let mut offered = Vec::new();
    for port in 40_000..40_010 {
        (raw.port, raw.seq) = (port, tack_tcp::seq::SeqNum(1_000));
        let answer = raw.syn();
        offered.push(answer.header.window);
        raw.seq = raw.seq.add(1);
        raw.ack = answer.header.seq.add(1);
        raw.send(raw.header(), &[]);
    }
    assert!(offered[..2].iter().all(|&window| window >= 60_000), "{offered:?}");
    assert!(offered[2..].iter().all(|&window| window == 8 << 10), "{offered:?}");
    // The last of them sends what it likes: no more is offered while it waits.
    for _ in 0..20 {
        let said = raw.send(raw.header(), &[7; 1_000]);
        raw.seq = raw.seq.add(1_000);
        let windows = said.iter().map(|s| u32::from(s.header.window) << 10);
        assert!(windows.max() <= Some(8 << 10));
        raw.now += Duration::from_millis(200);
    }
    let taken = core::iter::from_fn(|| raw.host.accept(PORT)).last().expect("the last");
    let (first, second) = raw.host.readable(taken);
    assert!(first.len() + second.len() <= 8 << 10);
    assert!(raw.host.info(taken).expect("known").counters.data_segments_received > 0);
}

#[test]
fn a_listener_on_any_port_takes_what_is_forwarded_from_another_and_cookies_too() {
    for syn_backlog in [1_024, 0] {
        let any_port = ListenConfig::default().with(|it| {
            it.any_port = true;
            it.syn_backlog = syn_backlog;
        });
        let mut raw = Raw::new(any_port);
        let mut syn = raw.header();
        (syn.flags, syn.dst_port) = (Flags::SYN, PORT + 1_000);
        let answer = raw.send(syn.clone(), &[]).remove(0);
        assert_eq!(answer.header.flags, Flags::SYN | Flags::ACK);
        assert_eq!(answer.header.src_port, PORT + 1_000, "as it was called");
        (raw.seq, raw.ack) = (raw.seq.add(1), answer.header.seq.add(1));
        let mut ack = raw.header();
        ack.dst_port = PORT + 1_000;
        raw.send(ack, &[]);
        assert!(raw.host.accept(PORT).is_some());
    }
    let mut raw = Raw::new(ListenConfig::default());
    let mut syn = raw.header();
    (syn.flags, syn.dst_port) = (Flags::SYN, PORT + 1_000);
    assert_eq!(raw.send(syn, &[]).remove(0).header.flags, Flags::RST | Flags::ACK);
}

/// A forged source address gets at most three times what was sent in its name, and who was only
/// slow comes in all the same.
#[test]
fn a_syn_is_answered_with_three_times_its_bytes_at_most_and_the_place_is_kept() {
    for bare in [false, true] {
        let mut raw = Raw::new(ListenConfig::default());
        let mut syn = raw.syn_header();
        if bare {
            syn.options = tack_tcp::wire::Options::default();
        }
        let mut answers = raw.send(syn, &[]);
        let late = answers[0].header.clone();
        answers.extend(raw.wait(Duration::from_secs(30)));
        // UDP, IPv4 and the TCP header; a whole SYN has as many options as what answers it.
        let (asked, answered) = if bare { (48, 48 + 4) } else { (48, 48) };
        assert!(answers.len() >= 2 && answers.len() * answered <= 3 * asked, "{answers:?}");
        (raw.seq, raw.ack) = (raw.seq.add(1), late.seq.add(1));
        let mut ack = raw.header();
        if bare {
            ack.options = tack_tcp::wire::Options::default();
        }
        raw.send(ack, &[]);
        assert!(raw.host.accept(PORT).is_some(), "after half a minute");
    }
}

#[test]
fn a_cookie_that_comes_back_to_a_full_queue_is_not_reset_and_counts_later() {
    let listen = ListenConfig::default().with(|it| {
        it.backlog = 1;
        it.syn_backlog = 0;
    });
    let mut raw = Raw::new(listen);
    let (first, second) = (shaken(&mut raw, 1_001), shaken(&mut raw, 1_002));
    raw.send(first, &[]);
    assert_eq!(raw.send(second.clone(), b"hello").len(), 0, "it takes itself for connected");
    assert_eq!(raw.host.counters().cookies_deferred, 1);
    assert!(raw.host.accept(PORT).is_some());
    assert!(raw.host.accept(PORT).is_none(), "there was one place");
    // What it says again is heard.
    raw.send(second, b"hello");
    raw.conn = raw.host.accept(PORT);
    assert_eq!(raw.read(), b"hello");
    assert_eq!(raw.host.counters().resets_sent, 0);
}

/// All that the peer sent before was lost, and what came at last left after a timeout of two tenths of a
/// second: taken for the round trip, it let the first losses wait for a quarter of that, and TACKs as well.
#[test]
fn a_round_trip_is_not_taken_from_what_the_peer_sent_after_a_timeout() {
    for (pkt_seq, known) in [(1, true), (12, false)] {
        let mut raw = Raw::new(ListenConfig::default());
        raw.speak_tack();
        let answer = raw.syn();
        raw.now += Duration::from_millis(200);
        (raw.seq, raw.ack) = (raw.seq.add(1), answer.header.seq.add(1));
        raw.pkt_seq = pkt_seq;
        let header = raw.data_header();
        raw.send(header, &[7; 1_400]);
        raw.conn = Some(raw.host.accept(PORT).expect("established"));
        assert_eq!(raw.info().rtt_min.is_some(), known, "{pkt_seq}");
        raw.wait(Duration::from_millis(20));
        assert_eq!(raw.info().counters.acks_sent.loss, u64::from(!known), "{pkt_seq}");
    }
}

/// A client that died before it heard anything comes back with the same ports and a number of its own.
#[test]
fn a_handshake_that_was_left_does_not_keep_the_next_one_of_the_same_ports_out() {
    for config in [ConnConfig::default(), ConnConfig::plain()] {
        let mut raw = Raw::new(ListenConfig::default().with(|it| it.conn = config));
        raw.speak_tack();
        raw.syn();
        // All SYN/ACKs have gone to nobody.
        raw.wait(Duration::from_secs(10));
        raw.seq = raw.seq.add(1 << 20);
        let answers = raw.send(raw.syn_header(), &[]);
        assert_eq!(answers.len(), 1, "{answers:?}");
        let challenge = &answers[0].header;
        assert_eq!(challenge.flags, Flags::ACK);
        // [RFC 9293 §3.10.7.3]: the number that it acknowledges was never sent.
        let reset = Header { seq: challenge.ack, flags: Flags::RST, ..raw.header() };
        assert!(raw.send(reset, &[]).is_empty());
        assert_eq!(raw.syn().header.ack, raw.seq.add(1), "and the next SYN is answered");
    }
}

#[test]
fn who_listens_anew_does_not_get_handshakes_that_began_before() {
    let mut raw = Raw::new(ListenConfig::default());
    let answer = raw.syn();
    let now = raw.now;
    raw.host.close_listener(PORT, now);
    raw.host.listen(PORT, ListenConfig::default()).expect("free");
    assert!(raw.drain().iter().all(|sent| sent.header.flags.has(Flags::RST)));
    raw.seq = raw.seq.add(1);
    raw.ack = answer.header.seq.add(1);
    let answers = raw.send(raw.header(), &[]);
    assert!(answers.iter().all(|sent| sent.header.flags.has(Flags::RST)), "{answers:?}");
    assert!(raw.host.accept(PORT).is_none() && raw.host.is_idle());
}
