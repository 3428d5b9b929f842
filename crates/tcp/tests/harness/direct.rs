//! One host on IP against packets written by hand.

use std::net::{IpAddr, SocketAddr};

use tack_tcp::seq::SeqNum;
use tack_tcp::wire::checksum::{PROTOCOL_TCP, fill_tcp};
use tack_tcp::wire::ip::{IpHeader, IpPacket};
use tack_tcp::wire::{Codepoints, Flags, Header, Options, Segment};
use tack_tcp::{
    ConnConfig, ConnId, Ecn, Encapsulation, Host, HostConfig, HostCounters, Incoming, Info, Remote,
};
use tack_units::Instant;

pub(crate) const CODEPOINTS: Codepoints = Codepoints::Experimental;

/// The host, its address, and a peer's.
pub(crate) struct Direct {
    pub(crate) host: Host,
    pub(crate) now: Instant,
    pub(crate) us: IpAddr,
    pub(crate) peer: IpAddr,
}

/// A packet the host sent.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
}

impl Packet {
    pub(crate) fn ip(&self) -> IpPacket<'_> {
        IpPacket::parse(&self.bytes).expect("our own packet")
    }

    pub(crate) fn tcp(&self) -> Segment<'_> {
        Segment::parse(self.ip().payload, CODEPOINTS).expect("our own segment")
    }
}

impl Direct {
    pub(crate) fn new(ipv6: bool, config: HostConfig) -> Direct {
        let (us, peer): (IpAddr, IpAddr) = if ipv6 {
            ([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 2].into())
        } else {
            ([10, 0, 0, 1].into(), [10, 0, 0, 2].into())
        };
        let now = Instant::from_secs(1);
        let encapsulation = Encapsulation::Ip { local: vec![us] };
        let host = Host::new(config.with(|it| it.encapsulation = encapsulation), [5; 32], now);
        Direct { host, now, us, peer }
    }

    /// Hands a packet over and returns what comes back at once.
    pub(crate) fn take(&mut self, packet: &[u8]) -> Vec<Packet> {
        self.take_as(Incoming::new(packet))
    }

    pub(crate) fn take_as(&mut self, incoming: Incoming<'_>) -> Vec<Packet> {
        self.host.handle_packet(incoming, self.now);
        self.drain()
    }

    pub(crate) fn drain(&mut self) -> Vec<Packet> {
        let mut out = Vec::new();
        let mut buffer = Vec::new();
        while let Some(t) = self.host.poll_transmit(&mut buffer, 65_535, self.now) {
            let packets = buffer.chunks(t.segment_size);
            out.extend(packets.map(|bytes| Packet { bytes: bytes.to_vec() }));
            buffer.clear();
        }
        out
    }

    /// Lets time pass; returns what the host sends meanwhile.
    pub(crate) fn wait(&mut self, long: core::time::Duration) -> Vec<Packet> {
        let until = self.now + long;
        let mut out = self.drain();
        while let Some(at) = self.host.deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.host.handle_timeout(self.now);
            out.extend(self.drain());
        }
        self.now = until;
        out
    }

    pub(crate) fn counters(&self) -> HostCounters {
        self.host.counters()
    }

    pub(crate) fn info(&self, conn: ConnId) -> Info {
        self.host.info(conn).expect("known")
    }

    /// A packet from the peer with a segment in it.
    pub(crate) fn packet(&self, header: &Header, text: &[u8]) -> Vec<u8> {
        let mut segment = Vec::new();
        header.emit(CODEPOINTS, &mut segment);
        segment.extend_from_slice(text);
        fill_tcp(self.peer, self.us, &mut segment);
        self.around(PROTOCOL_TCP, &segment)
    }

    /// An IP header from the peer around a payload.
    pub(crate) fn around(&self, protocol: u8, payload: &[u8]) -> Vec<u8> {
        ip_packet(self.peer, self.us, protocol, payload)
    }

    /// Sends a SYN to port 80 of the peer.
    pub(crate) fn connect(&mut self, config: ConnConfig) -> (ConnId, Packet) {
        let remote = Remote { path: SocketAddr::new(self.peer, 0), port: 80 };
        let conn = self.host.connect(remote, config, self.now).expect("a free port");
        let mut sent = self.drain();
        assert_eq!(sent.len(), 1, "a SYN");
        (conn, sent.remove(0))
    }

    /// The peer's answer to a SYN: everything plain, numbers from 1000 on.
    pub(crate) fn syn_ack(&self, syn: &Header) -> Header {
        Header {
            src_port: syn.dst_port,
            dst_port: syn.src_port,
            seq: SeqNum(1_000),
            ack: syn.seq.add(1),
            flags: Flags::SYN | Flags::ACK,
            window: 60_000,
            urgent: 0,
            options: Options { mss: Some(1_440), ..Options::default() },
        }
    }

    /// An established connection without any options, with the header of the peer's next segment.
    pub(crate) fn established(&mut self, config: ConnConfig) -> (ConnId, Header) {
        let (conn, syn) = self.connect(config);
        let answer = self.syn_ack(&syn.tcp().header);
        let packet = self.packet(&answer, &[]);
        assert_eq!(self.take(&packet).len(), 1, "the third segment");
        let next =
            Header { seq: SeqNum(1_001), flags: Flags::ACK, options: Options::default(), ..answer };
        (conn, next)
    }

    pub(crate) fn write(&mut self, conn: ConnId, bytes: &[u8]) -> Vec<Packet> {
        self.host.write(conn, bytes, self.now).expect("open");
        self.drain()
    }

    pub(crate) fn read(&mut self, conn: ConnId) -> Vec<u8> {
        let mut out = vec![0; 1 << 20];
        let n = self.host.read(conn, &mut out, self.now).expect("open").unwrap_or(0);
        out.truncate(n);
        out
    }
}

/// An IP header around a payload.
pub(crate) fn ip_packet(src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (hop_limit, dscp, ecn, flow_label) = (60, 0, Ecn::NotEct, 0);
    let header = IpHeader { src, dst, protocol, hop_limit, dscp, ecn, flow_label };
    let mut packet = Vec::new();
    header.emit(payload.len(), &mut packet).expect("short");
    packet.extend_from_slice(payload);
    packet
}
