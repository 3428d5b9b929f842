//! The IP layer of a host: what it takes, what its own packets look like, offloads.

use std::net::IpAddr;

use tack_tcp::wire::checksum::{PROTOCOL_TCP, fill_tcp};
use tack_tcp::wire::ip::IpHeader;
use tack_tcp::wire::{Flags, Header, Options, ipv4, ipv6};
use tack_tcp::{
    ConnConfig, ConnId, Ecn, Encapsulation, Host, HostConfig, Incoming, IpConfig, ListenConfig,
    Mode, Offload, Remote,
};
use tack_units::Instant;

use crate::direct::{CODEPOINTS, Direct, ip_packet};

const FAMILIES: [bool; 2] = [false, true];

fn direct(ipv6: bool) -> Direct {
    Direct::new(ipv6, HostConfig::default())
}

fn with(ip: IpConfig) -> HostConfig {
    HostConfig::default().with(|it| it.ip = ip)
}

/// A segment with text for an established connection.
fn segment(d: &Direct, header: &Header, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    header.emit(CODEPOINTS, &mut out);
    out.extend_from_slice(text);
    fill_tcp(d.peer, d.us, &mut out);
    out
}

#[test]
fn what_is_not_taken_is_counted_by_its_cause() {
    for ipv6 in FAMILIES {
        let mut d = direct(ipv6);
        let (conn, header) = d.established(ConnConfig::plain());
        let good = d.packet(&header, b"text");
        let tcp = if ipv6 { 40 } else { 20 };
        let mut flipped = good.clone();
        *flipped.last_mut().expect("text") ^= 1;
        d.take(&flipped);
        d.take(&good[..good.len() - 1]);
        d.take(&[0x50; 60]);
        let stump = ip_packet(d.peer, d.us, PROTOCOL_TCP, &[0, 0, 0xff, 0xff]);
        d.take(&stump);
        d.take_as(Incoming { checksum_valid: true, ..Incoming::new(&stump) });
        d.take(&d.around(17, &good[tcp..]));
        if !ipv6 {
            let mut header_sum = good.clone();
            header_sum[8] ^= 1;
            d.take(&header_sum);
        }
        let counters = d.counters();
        let ip = counters.ip;
        assert_eq!(ip.bad_tcp_checksum, 2, "{ip:?}");
        assert_eq!((ip.bad_header, ip.bad_segment, ip.other_protocols), (2, 1, 1));
        assert_eq!(ip.bad_header_checksum, u64::from(!ipv6));
        assert_eq!(counters.malformed, 5 + u64::from(!ipv6));
        assert!(d.read(conn).is_empty());
        d.take(&good);
        assert_eq!(d.read(conn), b"text");
    }
}

#[test]
fn ipv4_options_are_stepped_over_and_fragments_are_not_put_together() {
    let mut d = direct(false);
    let (conn, header) = d.established(ConnConfig::plain());
    let good = d.packet(&header, b"text");
    let sum = |packet: &mut [u8], len: usize| {
        packet[10..12].fill(0);
        let sum = tack_tcp::wire::checksum::checksum(&packet[..len]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    };
    for (offset, more) in [(0u16, true), (8, false), (8, true)] {
        let mut fragment = good.clone();
        let field = offset >> 3 | if more { 0x2000 } else { 0 };
        fragment[6..8].copy_from_slice(&field.to_be_bytes());
        sum(&mut fragment, 20);
        d.take(&fragment);
    }
    assert_eq!(d.counters().ip.fragments, 3);
    assert!(d.read(conn).is_empty());
    // Router alert [RFC 2113].
    let mut alert = [&good[..20], &[0x94, 4, 0, 0], &good[20..]].concat();
    alert[0] = 0x46;
    let total = alert.len() as u16;
    alert[2..4].copy_from_slice(&total.to_be_bytes());
    sum(&mut alert, 24);
    d.take(&alert);
    assert_eq!(d.read(conn), b"text");
}

#[test]
fn ipv6_options_are_stepped_over_and_fragments_and_source_routes_are_refused() {
    let mut d = direct(true);
    let (conn, header) = d.established(ConnConfig::plain());
    let tcp = segment(&d, &header, b"text");
    let chain = |parts: &[(u8, [u8; 8])]| {
        let mut payload: Vec<u8> = parts.iter().flat_map(|(_, bytes)| *bytes).collect();
        payload.extend_from_slice(&tcp);
        d.around(parts[0].0, &payload)
    };
    let padding = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let atomic = chain(&[(44, [PROTOCOL_TCP, 0, 0, 0, 0, 0, 0, 9])]);
    let route = chain(&[(43, [PROTOCOL_TCP, 0, 0, 1, 0, 0, 0, 0])]);
    let misplaced = chain(&[(60, padding(0)), (0, padding(PROTOCOL_TCP))]);
    let good = chain(&[(0, padding(60)), (60, padding(PROTOCOL_TCP))]);
    for bad in [&atomic, &route, &misplaced] {
        d.take(bad);
    }
    assert_eq!((d.counters().ip.fragments, d.counters().ip.bad_header), (1, 2));
    assert!(d.read(conn).is_empty());
    d.take(&good);
    assert_eq!(d.read(conn), b"text");
}

#[test]
fn packets_from_where_nobody_sends_are_martians() {
    let v4: [[u8; 4]; 8] = [
        [0, 0, 0, 0],
        [0, 1, 2, 3],
        [127, 0, 0, 1],
        [224, 0, 0, 5],
        [239, 255, 255, 255],
        [240, 0, 0, 1],
        [255, 255, 255, 255],
        // Ourselves.
        [10, 0, 0, 1],
    ];
    let v6: [[u16; 8]; 5] = [
        [0; 8],
        [0, 0, 0, 0, 0, 0, 0, 1],
        [0xff02, 0, 0, 0, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0xffff, 0x0a00, 2],
        [0xfd00, 0, 0, 0, 0, 0, 0, 1],
    ];
    let sources: Vec<IpAddr> =
        v4.into_iter().map(IpAddr::from).chain(v6.into_iter().map(IpAddr::from)).collect();
    for src in sources {
        let mut d = direct(src.is_ipv6());
        d.host.listen(80, ListenConfig::default()).expect("free");
        let mut syn = Vec::new();
        let header = Header {
            src_port: 9,
            dst_port: 80,
            flags: Flags::SYN,
            window: 1_000,
            ..Header::default()
        };
        header.emit(CODEPOINTS, &mut syn);
        fill_tcp(src, d.us, &mut syn);
        assert!(d.take(&ip_packet(src, d.us, PROTOCOL_TCP, &syn)).is_empty(), "{src}");
        assert_eq!(d.counters().ip.martians, 1, "{src}");
        let packet = d.packet(&header, &[]);
        assert_eq!(d.take(&packet).len(), 1, "the peer is none");
    }
}

#[test]
fn peers_may_be_required_to_be_near_and_a_ttl_of_nothing_is_fine_otherwise() {
    for ipv6 in FAMILIES {
        for (least, hops, taken) in [(255, 254, false), (255, 255, true), (0, 0, true)] {
            let ip = IpConfig::default().with(|it| it.min_hop_limit = least);
            let mut d = Direct::new(ipv6, with(ip));
            let syn = Header { dst_port: 80, flags: Flags::SYN, ..Header::default() };
            let segment = segment(&d, &syn, &[]);
            let (src, dst) = (d.peer, d.us);
            let (protocol, ecn) = (PROTOCOL_TCP, Ecn::NotEct);
            let header =
                IpHeader { src, dst, protocol, hop_limit: hops, dscp: 0, ecn, flow_label: 0 };
            let mut packet = Vec::new();
            header.emit(segment.len(), &mut packet).expect("short");
            packet.extend(segment);
            assert_eq!(d.take(&packet).len(), usize::from(taken), "a RST");
            assert_eq!(d.counters().ip.too_far, u64::from(!taken));
        }
    }
}

#[test]
fn our_packets_are_atomic_have_one_flow_label_per_connection_and_the_class_asked_for() {
    let ip = IpConfig::default().with(|it| it.hop_limit = 77);
    let mut d = Direct::new(false, with(ip.clone()));
    let (conn, _) = d.established(ConnConfig::plain().with(|it| it.dscp = 46));
    for packet in d.write(conn, &[7; 5_000]) {
        let header = ipv4::Packet::parse(&packet.bytes).expect("ours").header;
        assert!(header.dont_fragment && header.identification == 0, "[RFC 6864 §4.1]");
        assert_eq!((header.ttl, header.dscp), (77, 46));
    }
    let mut d = Direct::new(true, with(ip));
    let mut labels = Vec::new();
    for _ in 0..20 {
        let (conn, _) = d.established(ConnConfig::plain().with(|it| it.dscp = 0xff));
        let sent = d.write(conn, &[7; 5_000]);
        let headers: Vec<_> =
            sent.iter().map(|p| ipv6::Packet::parse(&p.bytes).expect("ours").header).collect();
        let label = headers[0].flow_label;
        assert!(headers.iter().all(|h| h.flow_label == label && h.dscp == 63));
        assert!(label != 0 && label < 1 << 20);
        labels.push(label);
    }
    labels.sort_unstable();
    labels.dedup();
    assert!(labels.len() >= 19, "{labels:?}");
}

#[test]
fn a_super_packet_of_64_kib_is_taken_whole_and_counts_as_its_segments() {
    for ipv6 in FAMILIES {
        for told in [false, true] {
            let mut d = direct(ipv6);
            let config = ConnConfig::plain().with(|it| it.initial_recv_buffer = 1 << 20);
            let (conn, header) = d.established(config);
            let room: usize = 65_535 - 20 - if ipv6 { 0 } else { 20 };
            let text: Vec<u8> = (0..room as u32).map(|i| (i % 251) as u8).collect();
            // The checksum is as a local kernel leaves it: only begun.
            let mut packet = d.packet(&header, &text);
            let at = if ipv6 { 56 } else { 36 };
            packet[at..at + 2].copy_from_slice(&[0xab, 0xcd]);
            let gso_size = told.then_some(1_440);
            let whole = Incoming { bytes: &packet, checksum_valid: true, gso_size };
            let answers = d.take_as(whole);
            assert_eq!(answers.len(), 1, "46 segments are acknowledged at once");
            assert_eq!(answers[0].tcp().header.ack, header.seq.add(room as u32));
            assert_eq!(d.read(conn), text);
            let counted = d.info(conn).counters.data_segments_received;
            assert_eq!(counted, if told { room.div_ceil(1_440) as u64 } else { 1 });
            // Without the device's word the checksum counts.
            d.take_as(Incoming { checksum_valid: false, ..whole });
            assert_eq!(d.counters().ip.bad_tcp_checksum, 1);
        }
    }
}

#[test]
fn merged_segments_are_acknowledged_as_often_as_their_own_size_asks_for() {
    // 536-byte segments, merged by threes: every second segment's worth is acknowledged, though
    // larger ones would fit.
    let mut d = direct(false);
    let config = ConnConfig::plain().with(|it| it.initial_recv_buffer = 1 << 20);
    let (_, mut header) = d.established(config);
    let mut answers = 0;
    for i in 0..60 {
        let packet = d.packet(&header, &[7; 3 * 536]);
        let incoming = Incoming { gso_size: Some(536), ..Incoming::new(&packet) };
        let now = d.take_as(incoming).len();
        answers += if i >= 20 { now } else { 0 };
        header.seq = header.seq.add(3 * 536);
    }
    assert_eq!(answers, 40, "three segments are more than two");
}

/// A burst as a device sees it.
struct Burst {
    bytes: Vec<u8>,
    size: usize,
    offload: Option<Offload>,
}

struct Pair {
    hosts: [Host; 2],
    now: Instant,
    conn: ConnId,
    largest: usize,
    bursts: usize,
}

impl Pair {
    fn new(ipv6: bool, config: &ConnConfig) -> Pair {
        let address = |i: u16| -> IpAddr {
            if ipv6 { [0xfd00, 0, 0, 0, 0, 0, 0, i].into() } else { [10, 0, 0, i as u8].into() }
        };
        let now = Instant::from_secs(1);
        let mut hosts = [1, 2].map(|i| {
            let encapsulation = Encapsulation::Ip { local: vec![address(i)] };
            let ip = IpConfig::default().with(|it| it.segmentation_offload = true);
            Host::new((with(ip)).with(|it| it.encapsulation = encapsulation), [i as u8; 32], now)
        });
        let listen = ListenConfig::default().with(|it| it.conn = config.clone());
        hosts[1].listen(80, listen).expect("free");
        let remote = Remote { path: (address(2), 0).into(), port: 80 };
        let conn = hosts[0].connect(remote, config.clone(), now).expect("free");
        Pair { hosts, now, conn, largest: 0, bursts: 0 }
    }

    fn drain(&mut self, from: usize) -> Vec<Burst> {
        let mut out = Vec::new();
        let mut buffer = Vec::new();
        while let Some(t) = self.hosts[from].poll_transmit(&mut buffer, 65_535, self.now) {
            assert!(t.bytes == buffer.len() && t.bytes <= 65_535);
            if t.offload.is_some_and(|o| o.gso_size.is_some()) {
                assert!(t.segments > 1 && t.segment_size == t.bytes);
            }
            let bytes = std::mem::take(&mut buffer);
            out.push(Burst { bytes, size: t.segment_size, offload: t.offload });
        }
        out
    }

    /// From device to device, a super-packet as it is.
    fn exchange(&mut self) {
        let bursts = [self.drain(0), self.drain(1)];
        self.now += core::time::Duration::from_millis(5);
        for (from, bursts) in bursts.into_iter().enumerate() {
            for burst in bursts {
                let gso_size = burst.offload.and_then(|o| o.gso_size);
                for bytes in burst.bytes.chunks(burst.size) {
                    let checksum_valid = burst.offload.is_some();
                    let packet = Incoming { bytes, checksum_valid, gso_size };
                    self.hosts[1 - from].handle_packet(packet, self.now);
                    self.largest = self.largest.max(bytes.len());
                    self.bursts += 1;
                }
            }
        }
        for host in &mut self.hosts {
            if host.deadline().is_some_and(|at| at <= self.now) {
                host.handle_timeout(self.now);
            }
            while host.poll_event().is_some() {}
        }
    }
}

#[test]
fn a_transfer_with_offloads_at_both_ends_is_exact_and_moves_super_packets() {
    for ipv6 in FAMILIES {
        for tack in [false, true] {
            let config = if tack { ConnConfig::default() } else { ConnConfig::plain() };
            let mut pair = Pair::new(ipv6, &config);
            let text: Vec<u8> = (0..4u32 << 20).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect();
            let (mut written, mut read) = (0, Vec::new());
            let mut server = None;
            for _ in 0..20_000 {
                let (conn, now) = (pair.conn, pair.now);
                if pair.hosts[0].info(conn).expect("known").state == tack_tcp::State::Established {
                    written += pair.hosts[0].write(conn, &text[written..], now).expect("open");
                }
                server = server.or_else(|| pair.hosts[1].accept(80));
                if let Some(server) = server {
                    let mut out = vec![0; 1 << 20];
                    let got = pair.hosts[1].read(server, &mut out, now).expect("open");
                    read.extend_from_slice(&out[..got.unwrap_or(0)]);
                }
                if read.len() == text.len() {
                    break;
                }
                pair.exchange();
            }
            assert!(read == text, "{} bytes", read.len());
            let info = pair.hosts[0].info(pair.conn).expect("known");
            assert_eq!(info.counters.retransmissions, 0);
            assert!(pair.largest > 20_000, "{}", pair.largest);
            let server = pair.hosts[1].info(server.expect("accepted")).expect("known");
            let [sent, received] = [&info, &server].map(|info| info.counters);
            assert_eq!(sent.data_segments_sent, received.data_segments_received);
            if tack {
                assert_eq!([info.mode, server.mode], [Mode::Tack; 2]);
                assert!(pair.bursts < sent.data_segments_sent as usize / 4, "{}", pair.bursts);
            }
            let counters = [pair.hosts[0].counters(), pair.hosts[1].counters()];
            assert!(counters.iter().all(|c| c.malformed == 0));
        }
    }
}

#[test]
fn answers_without_a_connection_need_no_work_of_the_device() {
    let ip = IpConfig::default().with(|it| it.segmentation_offload = true);
    let mut d = Direct::new(false, with(ip));
    let syn = Header {
        src_port: 7,
        dst_port: 80,
        flags: Flags::SYN,
        options: Options::default(),
        ..Header::default()
    };
    let packet = d.packet(&syn, &[]);
    d.host.handle_packet(Incoming::new(&packet), d.now);
    let mut buffer = Vec::new();
    let reset = d.host.poll_transmit(&mut buffer, 65_535, d.now).expect("a RST");
    assert_eq!(reset.offload, None);
    let valid = tack_tcp::wire::checksum::tcp_is_valid(d.us, d.peer, &buffer[20..]);
    assert!(valid, "complete as it is");
}
