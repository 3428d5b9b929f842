//! What other systems' TCPs do that ours does not, over IP: options they leave out, bits they set,
//! probes with text, segments that cross.

use core::time::Duration;

use tack_tcp::seq::SeqNum;
use tack_tcp::wire::checksum::fill_tcp;
use tack_tcp::wire::{Flags, Header, Options, Timestamps};
use tack_tcp::{
    ConnConfig, ConnId, ConnectionError, Ecn, HostConfig, ListenConfig, State, UseError,
};

use crate::direct::{Direct, Packet};

const FAMILIES: [bool; 2] = [false, true];
const PORT: u16 = 80;
const MS: Duration = Duration::from_millis(1);

fn server(ipv6: bool, conn: ConnConfig) -> Direct {
    let mut d = Direct::new(ipv6, HostConfig::default());
    d.host.listen(PORT, ListenConfig::default().with(|it| it.conn = conn)).expect("free");
    d
}

fn syn(options: Options) -> Header {
    Header {
        src_port: 5_000,
        dst_port: PORT,
        seq: SeqNum(999),
        flags: Flags::SYN,
        window: 60_000,
        options,
        ..Header::default()
    }
}

/// A kernel's SYN: everything but TACK.
fn full() -> Options {
    Options {
        mss: Some(1_440),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { val: 77, ecr: 0 }),
        ..Options::default()
    }
}

fn send(d: &mut Direct, header: &Header, text: &[u8]) -> Vec<Packet> {
    let packet = d.packet(header, text);
    d.take(&packet)
}

/// Shakes hands with a server; the header of the peer's next segment.
fn shake(d: &mut Direct, syn: &Header) -> (ConnId, Header) {
    let answers = send(d, syn, &[]);
    assert_eq!(answers.len(), 1);
    let answer = answers[0].tcp().header;
    assert!(answer.flags.has(Flags::SYN | Flags::ACK));
    let timestamps = answer.options.timestamps.map(|ts| Timestamps { val: 78, ecr: ts.val });
    let next = Header {
        seq: syn.seq.add(1),
        ack: answer.seq.add(1),
        flags: Flags::ACK,
        options: Options { timestamps, ..Options::default() },
        ..syn.clone()
    };
    assert!(send(d, &next, &[]).is_empty());
    (d.host.accept(PORT).expect("established"), next)
}

fn texts(sent: &[Packet]) -> Vec<usize> {
    sent.iter().map(|p| p.tcp().payload.len()).filter(|len| *len > 0).collect()
}

#[test]
fn a_syn_without_options_gets_none_back_and_segments_that_fit_anything() {
    // [RFC 9293 §3.7.1]: 536 bytes over IPv4, 1220 over IPv6.
    for ipv6 in FAMILIES {
        let mut d = server(ipv6, ConnConfig::default());
        let (conn, _) = shake(&mut d, &syn(Options::default()));
        let sent = d.write(conn, &[7; 5_000]);
        assert_eq!(texts(&sent)[0], if ipv6 { 1_220 } else { 536 });
        for packet in &sent {
            assert_eq!(packet.tcp().header.options, Options::default());
        }
        let mut d = server(ipv6, ConnConfig::default());
        let answer = send(&mut d, &syn(Options::default()), &[]).remove(0);
        let options = answer.tcp().header.options;
        assert_eq!((options.window_scale, options.sack_permitted), (None, false));
        assert_eq!((options.timestamps, options.tack_permitted), (None, false));
        // As a client, answered by a SYN/ACK without any.
        let mut d = Direct::new(ipv6, HostConfig::default());
        let (conn, sent) = d.connect(ConnConfig::default());
        let answer = Header { options: Options::default(), ..d.syn_ack(&sent.tcp().header) };
        send(&mut d, &answer, &[]);
        let sent = d.write(conn, &[7; 5_000]);
        assert_eq!(texts(&sent)[0], if ipv6 { 1_220 } else { 536 });
    }
}

#[test]
fn a_scale_of_zero_is_a_scale_and_its_windows_are_bytes() {
    let mut d = server(false, ConnConfig::plain());
    let (conn, next) = shake(&mut d, &syn(Options { window_scale: Some(0), ..full() }));
    // The SYN's window, never scaled, and then 3,000 bytes as they are.
    let sent = d.write(conn, &[7; 10_000]);
    let ack = sent.iter().map(|p| p.tcp().payload.len() as u32).sum();
    let mut header = Header { ack: next.ack.add(ack), window: 3_000, ..next };
    header.options.timestamps = Some(Timestamps { val: 80, ecr: 0 });
    send(&mut d, &header, &[]);
    assert_eq!(d.info(conn).snd_wnd, 3_000);
    d.host.write(conn, &[7; 100_000], d.now).expect("open");
    let sent = d.wait(50 * MS);
    let end = |p: &Packet| p.tcp().header.seq.add(p.tcp().payload.len() as u32);
    assert!(sent.iter().all(|p| end(p).since(header.ack) <= 3_000), "{:?}", texts(&sent));
    // Ours is scaled all the same: 256 KiB do not fit 16 bits.
    let announced = sent[0].tcp().header.window;
    assert!(announced < 60_000, "{announced}");
}

#[test]
fn of_a_repeated_syn_the_first_ones_options_count_but_not_its_ecn() {
    let config = ConnConfig::plain().with(|it| it.ecn = true);
    for (first, second, agreed) in [(true, true, true), (true, false, false)] {
        let mut d = server(true, config.clone());
        let ecn_setup = |on: bool| if on { Flags::ECE | Flags::CWR } else { Flags::default() };
        let one = Header { flags: Flags::SYN | ecn_setup(first), ..syn(full()) };
        let answer = send(&mut d, &one, &[]).remove(0);
        assert!(answer.tcp().header.flags.has(Flags::ECE));
        let options = Options { mss: Some(1_440), ..Options::default() };
        let two = Header { flags: Flags::SYN | ecn_setup(second), options, ..one.clone() };
        let answer = send(&mut d, &two, &[]).remove(0).tcp().header.clone();
        assert_eq!(answer.flags.has(Flags::ECE), agreed);
        assert!(answer.options.window_scale.is_some());
        let next = Header {
            seq: one.seq.add(1),
            ack: answer.seq.add(1),
            flags: Flags::ACK,
            options: Options::default(),
            ..one
        };
        send(&mut d, &next, &[]);
        let conn = d.host.accept(PORT).expect("established");
        let sent = d.write(conn, b"text");
        assert_eq!(sent[0].ip().ecn, if agreed { Ecn::Ect0 } else { Ecn::NotEct });
    }
}

#[test]
fn our_own_repeated_syn_asks_for_ecn_no_more() {
    // [RFC 3168 §6.1.1.1]
    let mut d = Direct::new(false, HostConfig::default());
    let (conn, first) = d.connect(ConnConfig::plain().with(|it| it.ecn = true));
    assert!(first.tcp().header.flags.has(Flags::ECE | Flags::CWR));
    let again = d.wait(1_100 * MS);
    assert_eq!(again[0].tcp().header.flags, Flags::SYN);
    let answer = d.syn_ack(&first.tcp().header);
    let answer = Header { flags: answer.flags | Flags::ECE, ..answer };
    send(&mut d, &answer, &[]);
    assert_eq!(d.write(conn, b"text")[0].ip().ecn, Ecn::NotEct);
}

/// Sets reserved bits of the TCP header in a finished packet.
fn with_reserved(d: &Direct, mut packet: Vec<u8>, bits: u8) -> Vec<u8> {
    let start = if d.us.is_ipv4() { 20 } else { 40 };
    packet[start + 12] |= bits;
    fill_tcp(d.peer, d.us, &mut packet[start..]);
    packet
}

#[test]
fn an_accurate_ecn_setup_is_answered_as_classic_ecn() {
    // [RFC 9768 §3.1.2]: AE, CWR and ECE all set; who knows only RFC 3168 answers with ECE.
    for (ours, flags, expected) in [
        (true, Flags::ECE | Flags::CWR, true),
        (false, Flags::ECE | Flags::CWR, false),
        // Not a setup at all.
        (true, Flags::ECE, false),
        (true, Flags::CWR, false),
        (true, Flags::default(), false),
    ] {
        for accurate in [0, 1] {
            let mut d = server(true, ConnConfig::plain().with(|it| it.ecn = ours));
            let header = Header { flags: Flags::SYN | flags, ..syn(full()) };
            let packet = with_reserved(&d, d.packet(&header, &[]), accurate);
            let answer = d.take(&packet).remove(0);
            let flags = answer.tcp().header.flags;
            assert_eq!((flags.has(Flags::ECE), flags.has(Flags::CWR)), (expected, false));
            assert_eq!(answer.bytes[40 + 12] & 0x0f, 0, "reserved bits are not reflected");
            assert_eq!(answer.ip().ecn, Ecn::NotEct);
        }
    }
}

#[test]
fn a_syn_ack_that_reflects_our_ecn_setup_means_no_ecn() {
    let mut d = Direct::new(false, HostConfig::default());
    let (conn, sent) = d.connect(ConnConfig::plain().with(|it| it.ecn = true));
    let answer = d.syn_ack(&sent.tcp().header);
    let answer = Header { flags: answer.flags | Flags::ECE | Flags::CWR, ..answer };
    send(&mut d, &answer, &[]);
    assert_eq!(d.write(conn, b"text")[0].ip().ecn, Ecn::NotEct);
}

#[test]
fn reserved_bits_and_urgent_pointers_do_not_change_what_arrives() {
    // [RFC 9293 §3.1, RFC 6093 §5]
    for ipv6 in FAMILIES {
        let mut d = server(ipv6, ConnConfig::plain());
        let (conn, mut next) = shake(&mut d, &syn(full()));
        for (bits, flags, urgent) in [
            (0x0f, Flags::default(), 0),
            (0, Flags::URG, 3),
            (0, Flags::URG, 0),
            (0, Flags::URG | Flags::PSH, 60_000),
            (5, Flags::default(), 9),
        ] {
            let header = Header { flags: Flags::ACK | flags, urgent, ..next.clone() };
            let packet = with_reserved(&d, d.packet(&header, b"text"), bits);
            d.take(&packet);
            assert_eq!(d.read(conn), b"text");
            next.seq = next.seq.add(4);
        }
        assert_eq!(d.info(conn).counters.data_segments_received, 5);
    }
}

#[test]
fn a_keepalive_with_a_byte_of_garbage_or_none_is_answered_and_not_read() {
    // [RFC 1122 §4.2.3.6]
    let mut d = server(false, ConnConfig::plain());
    let (conn, mut next) = shake(&mut d, &syn(full()));
    send(&mut d, &next, b"text");
    d.wait(500 * MS);
    assert_eq!(d.read(conn), b"text");
    next.seq = next.seq.add(4);
    for text in [&[0xff][..], &[]] {
        let probe = Header { seq: SeqNum(next.seq.0.wrapping_sub(1)), ..next.clone() };
        let answers = send(&mut d, &probe, text);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].tcp().header.ack, next.seq);
        assert!(d.read(conn).is_empty());
        d.wait(500 * MS);
    }
}

#[test]
fn a_closed_window_is_probed_with_text_by_others_and_answered_until_it_opens() {
    let mut d = server(true, ConnConfig::plain().with(|it| it.recv_buffer = 4_000));
    let (conn, mut next) = shake(&mut d, &syn(full()));
    let mut answers = send(&mut d, &next, &[7; 1_000]);
    for _ in 1..4 {
        next.seq = next.seq.add(1_000);
        answers = send(&mut d, &next, &[7; 1_000]);
    }
    next.seq = next.seq.add(1_000);
    answers.extend(d.wait(500 * MS));
    assert_eq!(answers.last().expect("acknowledged").tcp().header.window, 0);
    // Three minutes of probes with one byte of the stream each [RFC 9293 §3.8.6.1].
    for _ in 0..18 {
        d.wait(Duration::from_secs(10));
        let answers = send(&mut d, &next, &[8]);
        assert_eq!(answers.len(), 1);
        let header = answers[0].tcp().header;
        assert_eq!((header.ack, header.window), (next.seq, 0));
    }
    assert_eq!(d.read(conn).len(), 4_000);
    let update = d.drain();
    assert!(update[0].tcp().header.window > 0, "the reader's room is told");
    let answers = send(&mut d, &next, &[8]);
    let mut all = answers;
    all.extend(d.wait(500 * MS));
    assert_eq!(all.last().expect("acknowledged").tcp().header.ack, next.seq.add(1));
    assert_eq!(d.read(conn), [8]);
}

#[test]
fn their_closed_window_is_probed_for_as_long_as_they_answer() {
    let mut d = server(false, ConnConfig::plain().with(|it| it.max_retransmissions = 3));
    let (conn, mut next) = shake(&mut d, &syn(Options { mss: Some(1_440), ..Options::default() }));
    next.window = 0;
    send(&mut d, &next, &[]);
    d.write(conn, &[7; 3_000]);
    let mut probes = 0;
    for _ in 0..600 {
        let sent = d.wait(Duration::from_secs(1));
        probes += sent.len();
        for probe in sent {
            assert!(probe.tcp().payload.is_empty());
            send(&mut d, &next, &[]);
        }
    }
    assert!((10..40).contains(&probes), "{probes} probes in ten minutes");
    assert_eq!(d.host.closed(conn), None);
    next.window = 60_000;
    let sent = send(&mut d, &next, &[]);
    assert_eq!(texts(&sent).iter().sum::<usize>(), 3_000);
}

#[test]
fn a_reset_with_text_resets_and_its_text_is_nothing() {
    let mut d = server(true, ConnConfig::plain());
    let (conn, next) = shake(&mut d, &syn(full()));
    let reset = Header { flags: Flags::RST | Flags::ACK, ..next };
    assert!(send(&mut d, &reset, b"no such process").is_empty());
    assert_eq!(d.host.closed(conn), Some(Err(ConnectionError::Reset)));
    let mut out = [0; 10];
    let read = d.host.read(conn, &mut out, d.now);
    assert_eq!(read, Err(UseError::Ended(ConnectionError::Reset)));
}

#[test]
fn text_on_a_syn_is_not_acknowledged_and_arrives_when_it_is_repeated() {
    // A sender that assumes Fast Open falls back so [RFC 7413 §4.1.3].
    let mut d = server(false, ConnConfig::plain());
    let header = syn(full());
    let answer = send(&mut d, &header, b"GET /").remove(0).tcp().header.clone();
    assert_eq!(answer.ack, header.seq.add(1));
    let next = Header {
        seq: header.seq.add(1),
        ack: answer.seq.add(1),
        flags: Flags::ACK | Flags::PSH,
        options: Options::default(),
        ..header
    };
    send(&mut d, &next, b"GET /");
    let conn = d.host.accept(PORT).expect("established");
    assert_eq!(d.read(conn), b"GET /");
}

#[test]
fn both_may_open_at_once() {
    for ipv6 in FAMILIES {
        let mut d = Direct::new(ipv6, HostConfig::default());
        let (conn, ours) = d.connect(ConnConfig::default());
        let ours = ours.tcp().header;
        let theirs = Header { src_port: ours.dst_port, dst_port: ours.src_port, ..syn(full()) };
        let answers = send(&mut d, &theirs, &[]);
        assert_eq!(answers.len(), 1);
        let crossed = answers[0].tcp().header;
        assert!(crossed.flags.has(Flags::SYN | Flags::ACK));
        assert_eq!((crossed.seq, crossed.ack), (ours.seq, theirs.seq.add(1)));
        assert_eq!(d.info(conn).state, State::SynReceived);
        let answer =
            Header { ack: ours.seq.add(1), flags: Flags::SYN | Flags::ACK, ..theirs.clone() };
        send(&mut d, &answer, &[]);
        assert_eq!(d.info(conn).state, State::Established);
        let sent = d.write(conn, b"text");
        assert_eq!(sent.last().expect("text").tcp().payload, b"text");
        // Linux acknowledges the crossing SYN/ACK with an ACK.
        let next = Header {
            seq: theirs.seq.add(1),
            ack: ours.seq.add(1),
            flags: Flags::ACK,
            options: Options::default(),
            ..theirs
        };
        send(&mut d, &next, b"back");
        assert_eq!(d.read(conn), b"back");
    }
}

#[test]
fn both_may_close_at_once() {
    for ipv6 in FAMILIES {
        let mut d = server(ipv6, ConnConfig::plain());
        let (conn, next) = shake(&mut d, &syn(full()));
        d.host.shutdown_write(conn, d.now).expect("open");
        let fin = d.drain().remove(0);
        assert!(fin.tcp().header.flags.has(Flags::FIN));
        // Theirs crosses ours: it does not acknowledge it.
        let theirs = Header { flags: Flags::FIN | Flags::ACK, ..next.clone() };
        let answers = send(&mut d, &theirs, &[]);
        assert_eq!(answers[0].tcp().header.ack, next.seq.add(1));
        assert_eq!(d.info(conn).state, State::Closing);
        let last = Header { seq: next.seq.add(1), ack: next.ack.add(1), ..next };
        assert!(send(&mut d, &last, &[]).is_empty());
        assert_eq!(d.info(conn).state, State::TimeWait);
        assert_eq!(d.host.closed(conn), Some(Ok(())));
        assert_eq!(d.host.time_wait_len(), 1);
    }
}

#[test]
fn a_port_used_again_replaces_time_wait() {
    // [RFC 6191 §2]: Linux's timestamps go on where the last connection's ended.
    let mut d = server(false, ConnConfig::plain());
    let (conn, next) = shake(&mut d, &syn(full()));
    d.host.shutdown_write(conn, d.now).expect("open");
    d.drain();
    let fin = Header { flags: Flags::FIN | Flags::ACK, ack: next.ack.add(1), ..next.clone() };
    send(&mut d, &fin, &[]);
    assert_eq!(d.host.time_wait_len(), 1);
    let timestamps = Some(Timestamps { val: 5_000, ecr: 0 });
    let again = Header { seq: SeqNum(5), ..syn(Options { timestamps, ..full() }) };
    let (conn, next) = shake(&mut d, &again);
    assert_eq!(d.host.time_wait_len(), 0);
    let mut header = next;
    header.options.timestamps = Some(Timestamps { val: 5_001, ecr: 0 });
    send(&mut d, &header, b"anew");
    assert_eq!(d.read(conn), b"anew");
}

#[test]
fn late_syns_syn_acks_and_inexact_resets_are_challenged() {
    // [RFC 5961 §3, §4]
    let mut d = server(true, ConnConfig::plain());
    let (conn, next) = shake(&mut d, &syn(full()));
    let late = [
        syn(full()),
        Header { flags: Flags::SYN | Flags::ACK, ..next.clone() },
        Header { flags: Flags::SYN, seq: next.seq.add(100), ..next.clone() },
        Header { flags: Flags::RST, seq: next.seq.add(1), ..next.clone() },
        Header { flags: Flags::RST | Flags::ACK, seq: next.seq.add(9_000), ..next.clone() },
    ];
    for header in late {
        let answers = send(&mut d, &header, &[]);
        assert_eq!(answers.len(), 1, "{header:?}");
        let answer = answers[0].tcp().header;
        assert_eq!((answer.flags, answer.ack, answer.seq), (Flags::ACK, next.seq, next.ack));
        d.wait(500 * MS);
    }
    assert_eq!(d.host.closed(conn), None);
    assert_eq!(d.info(conn).counters.challenge_acks, 5);
}

#[test]
fn blocks_of_a_peer_that_was_not_permitted_sack_are_ignored() {
    let mut d = server(false, ConnConfig::plain().with(|it| it.sack = false));
    let (conn, next) = shake(&mut d, &syn(full()));
    d.write(conn, &[7; 5_000]);
    let mut header = next.clone();
    header.options.sack.blocks[0] = (next.ack.add(1_428), next.ack.add(4_000));
    header.options.sack.len = 1;
    let before = d.info(conn).in_flight;
    send(&mut d, &header, &[]);
    // A duplicate acknowledgment says that one segment left the network, not which.
    assert_eq!(before - d.info(conn).in_flight, 1_428);
}
