//! A host on IP with a connection under way, and packets that somebody made up.
//!
//! Whatever comes: no panic, every answer is a packet of ours, ICMP never ends an established
//! connection, and no path MTU falls below what links have.

use std::net::{IpAddr, SocketAddr};

use tack_tcp::seq::SeqNum;
use tack_tcp::wire::checksum::fill_tcp;
use tack_tcp::wire::ip::{IpHeader, IpPacket};
use tack_tcp::wire::{Codepoints, Flags, Header, Options};
use tack_tcp::{
    ConnConfig, ConnId, Ecn, Encapsulation, Host, HostConfig, Incoming, IpConfig, Remote, State,
};
use tack_units::Instant;

use super::input::Input;

/// The connection that valid input is about.
pub(crate) const LOCAL_PORT: u16 = 4_000;
pub(crate) const REMOTE_PORT: u16 = 80;
/// Our first byte; eight thousand are in flight.
pub(crate) const ISS: u32 = 70_000;

pub(crate) fn addresses(ipv6: bool) -> (IpAddr, IpAddr) {
    if ipv6 {
        ([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 2].into())
    } else {
        ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
    }
}

/// First byte: family, offload, whether checksums are looked at; then packets, each behind its
/// length in two bytes.
pub fn packets(data: &[u8]) -> bool {
    let mut input = Input::new(data);
    let choice = input.byte();
    let ipv6 = choice & 1 == 1;
    let mut now = Instant::from_secs(9);
    let (mut host, conn) = connected(ipv6, choice & 2 != 0, now);
    let (us, _) = addresses(ipv6);
    let mut only_icmp = true;
    let mut rest = input.rest();
    let mut taken = 0;
    while let Some((len, behind)) = rest.split_first_chunk::<2>()
        && taken < 64
    {
        let (packet, behind) =
            behind.split_at(usize::from(u16::from_be_bytes(*len)).min(behind.len()));
        rest = behind;
        taken += 1;
        only_icmp &= IpPacket::parse(packet).map_or(true, |p| p.protocol != 6);
        let gso_size = (choice & 8 != 0).then_some(u16::from(choice) * 8);
        let checksum_valid = choice & 4 != 0;
        host.handle_packet(Incoming { bytes: packet, checksum_valid, gso_size }, now);
        drain(&mut host, us, now);
        now += core::time::Duration::from_millis(u64::from(choice) << 2);
        if host.deadline().is_some_and(|at| at <= now) {
            host.handle_timeout(now);
            drain(&mut host, us, now);
        }
    }
    let info = host.info(conn).expect("not given up");
    assert!(info.path_mtu >= if ipv6 { 1_280 } else { 552 }, "{}", info.path_mtu);
    if only_icmp {
        assert_eq!(info.state, State::Established);
    }
    let counters = host.counters();
    counters.icmp.heeded + counters.icmp.echo_replies > 0 || info.counters.segments_received > 1
}

fn drain(host: &mut Host, us: IpAddr, now: Instant) {
    let mut buffer = Vec::new();
    while let Some(t) = host.poll_transmit(&mut buffer, 65_535, now) {
        for bytes in buffer.chunks(t.segment_size) {
            let packet = IpPacket::parse(bytes).expect("our own packet");
            assert_eq!(packet.src, us);
        }
        buffer.clear();
    }
    while host.poll_event().is_some() {}
}

fn connected(ipv6: bool, segmentation_offload: bool, now: Instant) -> (Host, ConnId) {
    let (us, peer) = addresses(ipv6);
    let config = HostConfig::default().with(|it| {
        it.encapsulation = Encapsulation::Ip { local: vec![us] };
        it.ip = IpConfig::default().with(|it| it.segmentation_offload = segmentation_offload);
    });
    let mut host = Host::new(config, [3; 32], now);
    let config = ConnConfig::plain().with(|it| {
        it.local_port = Some(LOCAL_PORT);
        it.initial_seq = Some(ISS - 1);
    });
    let remote = Remote { path: SocketAddr::new(peer, 0), port: REMOTE_PORT };
    let conn = host.connect(remote, config, now).expect("the first connection");
    drain(&mut host, us, now);
    let answer = Header {
        src_port: REMOTE_PORT,
        dst_port: LOCAL_PORT,
        seq: SeqNum(1),
        ack: SeqNum(ISS),
        flags: Flags::SYN | Flags::ACK,
        window: 60_000,
        urgent: 0,
        options: Options { mss: Some(1_440), ..Options::default() },
    };
    let mut segment = Vec::new();
    answer.emit(Codepoints::Experimental, &mut segment);
    fill_tcp(peer, us, &mut segment);
    let packet = around(peer, us, 6, &segment);
    host.handle_packet(Incoming::new(&packet), now);
    host.write(conn, &[7; 8_000], now).expect("established");
    drain(&mut host, us, now);
    (host, conn)
}

pub(crate) fn around(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (hop_limit, dscp, ecn, flow_label) = (60, 0, Ecn::NotEct, 0);
    let header = IpHeader { src, dst, protocol, hop_limit, dscp, ecn, flow_label };
    let mut packet = Vec::new();
    header.emit(payload.len(), &mut packet).expect("short");
    packet.extend_from_slice(payload);
    packet
}
