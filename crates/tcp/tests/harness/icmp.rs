//! ICMP for and about a host on IP: whom it believes, what it answers.

use core::time::Duration;
use std::net::IpAddr;

use tack_tcp::wire::icmp::{self, Report};
use tack_tcp::wire::ip::IpHeader;
use tack_tcp::wire::{Flags, Header};
use tack_tcp::{
    ConnConfig, ConnectionError, Ecn, HostConfig, IpConfig, ListenConfig, PathError, State,
};

use crate::direct::{Direct, Packet, ip_packet};
use crate::world::{icmp_error, icmp_packet};

const FAMILIES: [bool; 2] = [false, true];
const MS: Duration = Duration::from_millis(1);

fn direct(ipv6: bool) -> Direct {
    Direct::new(ipv6, HostConfig::default())
}

fn router(of: IpAddr) -> IpAddr {
    if of.is_ipv4() { [192, 0, 2, 1].into() } else { [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into() }
}

/// A router's error about a packet of ours.
fn failed(error: PathError, about: &Packet) -> Vec<u8> {
    let us = about.ip().src;
    icmp_error(router(us), us, Report::Failed(error), &about.bytes)
}

fn too_big(mtu: Option<u32>, about: &[u8], us: IpAddr) -> Vec<u8> {
    icmp_error(router(us), us, Report::TooBig { mtu }, about)
}

#[test]
fn a_hard_error_about_our_syn_ends_the_attempt_at_once_and_says_why() {
    for ipv6 in FAMILIES {
        for (error, expected) in [
            (PathError::PortUnreachable, ConnectionError::Refused),
            (PathError::Prohibited, ConnectionError::Unreachable(PathError::Prohibited)),
            (
                PathError::ProtocolUnreachable,
                ConnectionError::Unreachable(PathError::ProtocolUnreachable),
            ),
        ] {
            let mut d = direct(ipv6);
            let (conn, syn) = d.connect(ConnConfig::default());
            assert!(d.take(&failed(error, &syn)).is_empty());
            assert_eq!(d.host.closed(conn), Some(Err(expected)));
            assert_eq!(d.counters().icmp.heeded, 1);
        }
    }
}

#[test]
fn an_error_about_our_syn_ack_ends_the_handshake_and_nobody_is_told() {
    for ipv6 in FAMILIES {
        let mut d = direct(ipv6);
        let listen = ListenConfig::default().with(|it| {
            it.syn_backlog = 1;
            it.syn_cookies = false;
        });
        d.host.listen(80, listen).expect("free");
        for port in [5_000, 5_001, 5_002] {
            let syn = Header {
                src_port: port,
                dst_port: 80,
                flags: Flags::SYN,
                window: 9_000,
                ..Header::default()
            };
            let packet = d.packet(&syn, &[]);
            let answers = d.take(&packet);
            assert_eq!(answers.len(), 1, "there is room for a handshake");
            d.take(&failed(PathError::Prohibited, &answers[0]));
        }
        assert_eq!((d.host.accept(80), d.host.poll_event()), (None, None));
        assert!(d.host.is_idle());
    }
}

#[test]
fn a_soft_error_ends_an_attempt_when_a_second_syn_meets_it_too() {
    // [RFC 5461 §4.2]
    for error in
        [PathError::NetworkUnreachable, PathError::HostUnreachable, PathError::TimeExceeded]
    {
        let mut d = direct(false);
        let (conn, syn) = d.connect(ConnConfig::default());
        for _ in 0..5 {
            d.take(&failed(error, &syn));
        }
        assert_eq!(d.info(conn).path_error, Some(error));
        assert_eq!(d.host.closed(conn), None, "one SYN may have met a flap");
        let again = d.wait(Duration::from_millis(1_100));
        assert_eq!(again.len(), 1);
        d.take(&failed(error, &again[0]));
        assert_eq!(d.host.closed(conn), Some(Err(ConnectionError::Unreachable(error))));
    }
}

#[test]
fn a_handshake_that_times_out_after_a_soft_error_says_which() {
    let mut d = direct(true);
    let (conn, syn) = d.connect(ConnConfig::default());
    d.take(&failed(PathError::HostUnreachable, &syn));
    d.wait(Duration::from_secs(300));
    let expected = ConnectionError::Unreachable(PathError::HostUnreachable);
    assert_eq!(d.host.closed(conn), Some(Err(expected)));
    assert_eq!(expected.to_string(), "host unreachable");
}

#[test]
fn no_error_ends_an_established_connection_and_progress_is_forgiveness() {
    // [RFC 5927 §5.2]
    for ipv6 in FAMILIES {
        let mut d = direct(ipv6);
        let (conn, mut header) = d.established(ConnConfig::plain());
        let sent = d.write(conn, b"in flight");
        for error in [PathError::PortUnreachable, PathError::Prohibited, PathError::TimeExceeded] {
            d.take(&failed(error, &sent[0]));
            assert_eq!(d.info(conn).path_error, Some(error));
        }
        assert_eq!((d.host.closed(conn), d.info(conn).state), (None, State::Established));
        header.ack = header.ack.add(9);
        let ack = d.packet(&header, &[]);
        d.take(&ack);
        assert_eq!(d.info(conn).path_error, None);
        // What is acknowledged is not in flight any more.
        d.take(&failed(PathError::HostUnreachable, &sent[0]));
        assert_eq!((d.info(conn).path_error, d.counters().icmp.implausible), (None, 1));
    }
}

#[test]
fn a_connection_that_times_out_names_what_the_network_said_meanwhile() {
    let mut d = direct(false);
    let (conn, _) = d.established(ConnConfig::plain().with(|it| it.max_retransmissions = 4));
    let sent = d.write(conn, b"lost");
    d.take(&failed(PathError::HostUnreachable, &sent[0]));
    d.wait(Duration::from_secs(600));
    let expected = ConnectionError::Unreachable(PathError::HostUnreachable);
    assert_eq!(d.host.closed(conn), Some(Err(expected)));
}

#[test]
fn errors_about_what_is_not_in_flight_or_not_ours_change_nothing() {
    // [RFC 5927 §4.1]
    for ipv6 in FAMILIES {
        let mut d = direct(ipv6);
        let (conn, _) = d.established(ConnConfig::plain());
        let sent = d.write(conn, &[7; 4_000]);
        let us = d.us;
        let tcp = if ipv6 { 40 } else { 20 };
        let first = &sent[0].bytes;
        let seq = u32::from_be_bytes(first[tcp + 4..tcp + 8].try_into().expect("four"));
        let mut forged = Vec::new();
        for wrong in [seq - 2, seq + 4_000, seq + (1 << 31)] {
            let mut about = first.clone();
            about[tcp + 4..tcp + 8].copy_from_slice(&wrong.to_be_bytes());
            forged.push(about);
        }
        for byte in [tcp, tcp + 2, tcp - 1] {
            // Another port of ours, another of the peer's, another peer.
            let mut about = first.clone();
            about[byte] ^= 1;
            forged.push(about);
        }
        for about in &forged {
            d.take(&icmp_error(router(us), us, Report::Failed(PathError::HostUnreachable), about));
            d.take(&too_big(Some(1_300), about, us));
        }
        let info = d.info(conn);
        assert_eq!((info.path_mtu, info.path_error), (if ipv6 { 1_500 } else { 1_480 }, None));
        let icmp = d.counters().icmp;
        assert_eq!((icmp.implausible, icmp.heeded), (2 * forged.len() as u64, 0));
        // The very packet, however: cut anew at once.
        let cut = d.take(&too_big(Some(1_300), first, us));
        assert_eq!(d.info(conn).path_mtu, 1_300);
        let text: usize = cut.iter().map(|p| p.tcp().payload.len()).sum();
        assert_eq!(text, 2 * 1_440, "the third one fits");
        assert!(cut.iter().all(|p| p.bytes.len() <= 1_300));
        assert_eq!(d.info(conn).counters.timeouts, 0);
    }
}

#[test]
fn claims_that_contradict_themselves_or_are_below_what_every_link_takes_are_not_believed() {
    for (ipv6, claimed, believed) in [
        // At least as large as the packet that was too big.
        (false, Some(1_480), 1_480),
        (false, Some(65_535), 1_480),
        (true, Some(u32::MAX), 1_500),
        // Less than any link of today.
        (false, Some(68), 552),
        (false, Some(1), 552),
        // [RFC 8201 §4]: discarded.
        (true, Some(1_279), 1_500),
        (true, Some(0), 1_500),
        // An old router: the next plateau.
        (false, None, 1_400),
    ] {
        let mut d = direct(ipv6);
        let (conn, _) = d.established(ConnConfig::plain());
        let sent = d.write(conn, &[7; 4_000]);
        let us = d.us;
        d.take(&too_big(claimed, &sent[0].bytes, us));
        assert_eq!(d.info(conn).path_mtu, believed, "ipv6 {ipv6}, {claimed:?}");
    }
}

#[test]
fn all_connections_to_a_destination_heed_what_one_was_told() {
    let mut d = direct(true);
    let (one, _) = d.established(ConnConfig::plain());
    let (two, _) = d.established(ConnConfig::plain());
    let sent = d.write(one, &[7; 4_000]);
    let us = d.us;
    d.take(&too_big(Some(1_400), &sent[0].bytes, us));
    let sent = d.write(two, &[7; 4_000]);
    assert!(sent.iter().all(|p| p.bytes.len() <= 1_400));
    assert_eq!(d.info(two).path_mtu, 1_400);
}

#[test]
fn more_errors_than_allowed_per_second_are_not_looked_at() {
    let ip = IpConfig::default().with(|it| it.icmp_errors_per_s = 10);
    let mut d = Direct::new(false, HostConfig::default().with(|it| it.ip = ip));
    let (conn, _) = d.established(ConnConfig::plain());
    let sent = d.write(conn, b"text");
    for _ in 0..100 {
        d.take(&failed(PathError::HostUnreachable, &sent[0]));
    }
    assert_eq!((d.counters().icmp.heeded, d.counters().icmp.suppressed), (10, 90));
}

#[test]
fn source_quench_redirects_and_garbage_are_counted_and_nothing_else() {
    let mut d = direct(false);
    let (conn, _) = d.established(ConnConfig::plain());
    let sent = d.write(conn, &[7; 4_000]);
    let before = d.info(conn);
    let (us, router) = (d.us, router(d.us));
    d.take(&icmp_error(router, us, Report::Quench, &sent[0].bytes));
    let mut redirect = icmp_error(router, us, Report::Quench, &sent[0].bytes);
    // Source quench is type 4, redirect 5: the checksum falls as the type rises.
    redirect[20] = 5;
    let sum = u16::from_be_bytes([redirect[22], redirect[23]]) - 0x100;
    redirect[22..24].copy_from_slice(&sum.to_be_bytes());
    d.take(&redirect);
    redirect[22] ^= 1;
    d.take(&redirect);
    d.take(&ip_packet(router, us, icmp::PROTOCOL_ICMPV4, &[3, 4, 0]));
    let icmp = d.counters().icmp;
    assert_eq!((icmp.ignored, icmp.malformed, icmp.heeded), (2, 2, 0));
    assert_eq!(d.info(conn), before);
}

fn ping(d: &Direct, data: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    icmp::emit_echo_request(d.peer, d.us, data, &mut message);
    icmp_packet(d.peer, d.us, &message)
}

#[test]
fn pings_are_answered_so_many_per_second_in_their_service_class() {
    for ipv6 in FAMILIES {
        let ip = IpConfig::default().with(|it| it.echo_replies_per_s = 3);
        let mut d = Direct::new(ipv6, HostConfig::default().with(|it| it.ip = ip));
        let request = ping(&d, b"ABCDsome data");
        for i in 0..10 {
            let answers = d.take(&request);
            assert_eq!(answers.len(), usize::from(i < 3));
            for answer in answers {
                let packet = answer.ip();
                assert_eq!((packet.src, packet.dst), (d.us, d.peer));
                assert_eq!(packet.payload[0], if ipv6 { 129 } else { 0 });
                assert_eq!(&packet.payload[4..], b"ABCDsome data");
                let read = icmp::Icmp::parse(packet.src, packet.dst, packet.payload, false);
                assert_eq!(read, Ok(icmp::Icmp::Other), "the checksum is right");
            }
        }
        d.now += 1_000 * MS;
        let mut message = Vec::new();
        icmp::emit_echo_request(d.peer, d.us, b"ABCD", &mut message);
        let protocol = if ipv6 { 58 } else { 1 };
        let (src, dst, ecn) = (d.peer, d.us, Ecn::Ect0);
        let header = IpHeader { src, dst, protocol, hop_limit: 9, dscp: 46, ecn, flow_label: 0 };
        let mut marked = Vec::new();
        header.emit(message.len(), &mut marked).expect("short");
        marked.extend(message);
        let answer = d.take(&marked).remove(0);
        assert_eq!((answer.ip().dscp, answer.ip().ecn), (46, Ecn::NotEct));
        assert_eq!(answer.ip().hop_limit, 64);
        let icmp = d.counters().icmp;
        assert_eq!((icmp.echo_requests, icmp.echo_replies, icmp.suppressed), (11, 4, 7));
    }
}

#[test]
fn a_ping_as_long_as_the_interface_takes_is_answered_and_a_longer_one_is_not() {
    for ipv6 in FAMILIES {
        let header = if ipv6 { 40 } else { 20 };
        let mut d = direct(ipv6);
        let longest = ping(&d, &vec![7; 1_500 - header - 4]);
        let answers = d.take(&longest);
        assert_eq!(answers.len(), 1);
        assert_eq!(answers[0].bytes.len(), 1_500);
        let longer = ping(&d, &vec![7; 1_500 - header - 3]);
        assert!(d.take(&longer).is_empty());
    }
}

#[test]
fn a_flood_of_large_pings_holds_bounded_memory() {
    let mut d = direct(false);
    let request = ping(&d, &[7; 1_400]);
    for _ in 0..5_000 {
        d.host.handle_packet(tack_tcp::Incoming::new(&request), d.now);
    }
    let waiting: usize = d.drain().iter().map(|p| p.bytes.len()).sum();
    assert!(waiting <= 256 << 10, "{waiting} bytes waited");
    assert!(d.counters().icmp.suppressed >= 4_000);
}

#[test]
fn pings_to_groups_everybody_and_others_are_not_ours() {
    for (ipv6, other) in [
        (false, IpAddr::from([224, 0, 0, 1])),
        (false, [255, 255, 255, 255].into()),
        (false, [10, 0, 0, 3].into()),
        (true, [0xff02, 0, 0, 0, 0, 0, 0, 1].into()),
    ] {
        let mut d = direct(ipv6);
        let mut message = Vec::new();
        icmp::emit_echo_request(d.peer, other, b"ABCD", &mut message);
        assert!(d.take(&icmp_packet(d.peer, other, &message)).is_empty());
        assert_eq!((d.counters().ip.not_ours, d.counters().icmp.echo_requests), (1, 0));
    }
}
