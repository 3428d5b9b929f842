//! What passes the path, flow by flow.

use core::time::Duration;
use std::collections::BTreeMap;

use tack_link::{End, Link, Output, Packet};
use tack_tcp::seq::SeqNum;
use tack_tcp::wire::checksum::PROTOCOL_TCP;
use tack_tcp::wire::ip::IpPacket;
use tack_tcp::wire::{Codepoints, Flags, Header, Segment};
use tack_units::Instant;

/// Flows beyond so many are none of ours.
const MAX_FLOWS: usize = 4_096;

/// How the flows of an entry are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Watched {
    /// Where their data comes from.
    pub(super) sender: End,
    /// Port of the listener at the other end; `None`: whatever TCP there is.
    pub(super) port: Option<u16>,
}

/// Counts of one flow. Goodput is what its receiver acknowledged on entering the path: no endpoint
/// is asked about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Packets with text that entered the path at the flow's sender.
    pub(super) data: u64,
    /// Of them, those that left it.
    pub(super) delivered: u64,
    /// Packets that entered it at the flow's receiver, and their IP-level bytes.
    pub(super) acks: u64,
    pub(super) ack_bytes: u64,
    /// Text bytes that were acknowledged there.
    pub(super) acked: u64,
}

/// A flow from its first packet, and from the end of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowCounts {
    pub(super) whole: Counts,
    pub(super) measured: Counts,
    una: Option<SeqNum>,
}

/// A link whose time begins with the flows, and that counts.
#[derive(Debug)]
pub(super) struct Counted<L> {
    link: L,
    begin: Instant,
    warm: Instant,
    end: Instant,
    entries: Vec<Watched>,
    /// By entry and the ports of sender and receiver.
    flows: BTreeMap<(usize, u16, u16), FlowCounts>,
}

impl<L> Counted<L> {
    /// `link`, whose zero is `begin`, counted for `duration`, of which `warmup` is told apart.
    pub(super) fn new(
        link: L,
        entries: Vec<Watched>,
        begin: Instant,
        (warmup, duration): (Duration, Duration),
    ) -> Counted<L> {
        let (warm, end) = (begin + warmup, begin + duration);
        Counted { link, begin, warm, end, entries, flows: BTreeMap::new() }
    }

    /// Every flow of an entry that sent text.
    pub(super) fn flows(&self, entry: usize) -> Vec<FlowCounts> {
        let own = self.flows.iter().filter(|((of, ..), _)| *of == entry);
        own.map(|(_, flow)| *flow).filter(|flow| flow.whole.data > 0).collect()
    }

    pub(super) fn link(&self) -> &L {
        &self.link
    }

    fn to_model(&self, now: Instant) -> Instant {
        Instant::ZERO + now.saturating_since(self.begin)
    }

    /// Which flow, and whether the packet goes the way of its data.
    fn flow(&self, from: End, header: &Header) -> Option<((usize, u16, u16), bool)> {
        let (src, dst) = (header.src_port, header.dst_port);
        let fits = |watched: &Watched| {
            let is_data = watched.sender == from;
            let listener = if is_data { dst } else { src };
            watched.port.is_none_or(|port| port == listener).then_some(is_data)
        };
        let mut all = self.entries.iter().enumerate();
        let (entry, is_data) = all.find_map(|(i, watched)| Some((i, fits(watched)?)))?;
        let (sender, receiver) = if is_data { (src, dst) } else { (dst, src) };
        Some(((entry, sender, receiver), is_data))
    }

    /// `bytes` enter at `from`, or leave having entered there.
    fn observe(&mut self, from: End, bytes: &[u8], leaves: bool, now: Instant) {
        let Some((header, text)) = tcp(bytes) else { return };
        let Some((key, is_data)) = self.flow(from, &header) else { return };
        if now >= self.end || (self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&key)) {
            return;
        }
        let flow = self.flows.entry(key).or_default();
        let mut more = Counts::default();
        match (is_data, leaves) {
            (true, false) if header.flags.has(Flags::SYN) => flow.una = Some(header.seq.add(1)),
            (true, false) => more.data = u64::from(text > 0),
            (true, true) => more.delivered = u64::from(text > 0),
            (false, false) => {
                (more.acks, more.ack_bytes) = (1, bytes.len() as u64);
                more.acked = flow.acknowledged(&header);
            }
            (false, true) => {}
        }
        flow.whole.add(&more);
        if now >= self.warm {
            flow.measured.add(&more);
        }
    }
}

impl FlowCounts {
    fn acknowledged(&mut self, header: &Header) -> u64 {
        let Some(una) = self.una.filter(|_| header.flags.has(Flags::ACK)) else { return 0 };
        let more = u64::try_from(header.ack.since(una)).unwrap_or(0);
        if more > 0 {
            self.una = Some(header.ack);
        }
        more
    }
}

impl Counts {
    fn add(&mut self, more: &Counts) {
        self.data += more.data;
        self.delivered += more.delivered;
        self.acks += more.acks;
        self.ack_bytes += more.ack_bytes;
        self.acked += more.acked;
    }
}

/// The TCP header of a packet and the bytes of text behind it; `None` for what is not a whole
/// segment.
fn tcp(packet: &[u8]) -> Option<(Header, u32)> {
    let ip = IpPacket::parse(packet).ok().filter(|ip| ip.protocol == PROTOCOL_TCP)?;
    let segment = Segment::parse(ip.payload, Codepoints::default()).ok()?;
    Some((segment.header, u32::try_from(segment.payload.len()).ok()?))
}

impl<L: Link> Link for Counted<L> {
    fn offer(&mut self, end: End, packet: Packet, now: Instant) {
        self.observe(end, &packet.bytes, false, now);
        self.link.offer(end, packet, self.to_model(now));
    }

    fn poll(&mut self, now: Instant) -> Output {
        let output = self.link.poll(self.to_model(now));
        match output {
            Output::Deliver { end, packet } => {
                self.observe(end.other(), &packet.bytes, true, now);
                Output::Deliver { end, packet }
            }
            Output::Wait(at) => {
                Output::Wait(at.map(|at| self.begin + at.saturating_since(Instant::ZERO)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tack_link::PacketKind;
    use tack_tcp::Ecn;
    use tack_tcp::wire::header::FIXED_LEN;
    use tack_tcp::wire::ip::IpHeader;

    use super::*;

    const DOWN: Watched = Watched { sender: End::B, port: Some(5_001) };
    const UP: Watched = Watched { sender: End::A, port: Some(5_002) };

    /// A TCP segment over IPv4; without `ack` a SYN.
    fn packet(ports: [u16; 2], seq: u32, ack: Option<u32>, text: usize) -> Packet {
        of_protocol(PROTOCOL_TCP, ports, seq, ack, text)
    }

    fn of_protocol(
        protocol: u8,
        ports: [u16; 2],
        seq: u32,
        ack: Option<u32>,
        text: usize,
    ) -> Packet {
        let header = Header {
            src_port: ports[0],
            dst_port: ports[1],
            seq: SeqNum(seq),
            ack: SeqNum(ack.unwrap_or(0)),
            flags: if ack.is_none() { Flags::SYN } else { Flags::ACK },
            ..Header::default()
        };
        let ip = IpHeader {
            src: Ipv4Addr::new(10, 77, 0, 1).into(),
            dst: Ipv4Addr::new(10, 77, 0, 2).into(),
            protocol,
            hop_limit: 64,
            dscp: 0,
            ecn: Ecn::NotEct,
            flow_label: 0,
        };
        let mut bytes = Vec::new();
        ip.emit(FIXED_LEN + text, &mut bytes).expect("it is short");
        header.emit(Codepoints::default(), &mut bytes);
        bytes.resize(bytes.len() + text, 0);
        let kind = if text > 0 { PacketKind::Data } else { PacketKind::Ack };
        let ip_bytes = bytes.len() as u32;
        Packet { id: 0, src: 1, dst: 0, ip_bytes, kind, bytes, ecn: 0, sent_at: Instant::ZERO }
    }

    /// Delivers at once, but for every third packet; and tells the latest time it was told.
    #[derive(Default)]
    struct Lossy {
        offered: u32,
        ready: Option<(End, Packet)>,
        now: Instant,
    }

    impl Link for Lossy {
        fn offer(&mut self, end: End, packet: Packet, now: Instant) {
            (self.offered, self.now) = (self.offered + 1, now);
            self.ready = (!self.offered.is_multiple_of(3)).then_some((end.other(), packet));
        }

        fn poll(&mut self, _: Instant) -> Output {
            match self.ready.take() {
                Some((end, packet)) => Output::Deliver { end, packet },
                None => Output::Wait(Some(self.now)),
            }
        }
    }

    fn counted(entries: Vec<Watched>) -> Counted<Lossy> {
        let times = (Duration::from_millis(100), Duration::from_millis(1_000));
        Counted::new(Lossy::default(), entries, Instant::from_millis(500), times)
    }

    fn pass(link: &mut Counted<Lossy>, end: End, packet: Packet, at_ms: u64) {
        let now = Instant::from_millis(at_ms);
        link.offer(end, packet, now);
        while let Output::Deliver { .. } = link.poll(now) {}
        assert_eq!(link.poll(now), Output::Wait(Some(now.max(Instant::from_millis(500)))));
    }

    #[test]
    fn each_flow_is_counted_by_its_own_sender_and_receiver() {
        let mut link = counted(vec![DOWN, UP]);
        // In the warm-up, then after it; the third and the sixth packet are lost.
        pass(&mut link, End::B, packet([40_000, 5_001], u32::MAX - 999, None, 0), 550);
        pass(&mut link, End::B, packet([40_000, 5_001], u32::MAX - 998, Some(1), 1_000), 560);
        pass(&mut link, End::A, packet([5_001, 40_000], 1, Some(1), 0), 570);
        pass(&mut link, End::B, packet([40_000, 5_001], 1, Some(1), 1_000), 600);
        pass(&mut link, End::A, packet([5_001, 40_000], 1, Some(1_001), 0), 650);
        pass(&mut link, End::B, packet([40_000, 5_001], 1_001, Some(1), 1_000), 700);
        pass(&mut link, End::A, packet([5_001, 40_000], 1, Some(900), 0), 710);
        pass(&mut link, End::A, packet([9, 9], 0, Some(0), 1_000), 720);
        pass(&mut link, End::A, packet([40_000, 5_002], 7, Some(1), 500), 730);
        pass(&mut link, End::B, packet([40_000, 5_001], 2_001, Some(1), 1_000), 1_500);
        let flows = link.flows(0);
        let whole = Counts { data: 3, delivered: 2, acks: 3, ack_bytes: 120, acked: 2_000 };
        let measured = Counts { data: 2, delivered: 1, acks: 2, ack_bytes: 80, acked: 1_000 };
        assert_eq!((flows.len(), flows[0].whole, flows[0].measured), (1, whole, measured));
        let up = link.flows(1);
        assert_eq!((up.len(), up[0].whole.data, up[0].whole.delivered), (1, 1, 0));
    }

    #[test]
    fn of_programs_everything_counts() {
        let mut link = counted(vec![Watched { sender: End::A, port: None }]);
        pass(&mut link, End::A, packet([1, 2], 0, Some(0), 10), 700);
        pass(&mut link, End::A, packet([3, 4], 0, Some(0), 10), 700);
        pass(&mut link, End::B, packet([2, 1], 0, Some(0), 0), 700);
        let flows = link.flows(0);
        assert_eq!(flows.iter().map(|f| f.whole.data + f.whole.acks).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn what_is_no_whole_segment_counts_for_nothing() {
        let sent = |bytes: &[u8]| {
            let mut link = counted(vec![DOWN]);
            let ip_bytes = bytes.len() as u32;
            let whole = packet([40_000, 5_001], 5, Some(6), 100);
            pass(&mut link, End::B, Packet { ip_bytes, bytes: bytes.to_vec(), ..whole }, 501);
            link.flows(0).iter().map(|flow| flow.whole.data).sum::<u64>()
        };
        let whole = packet([40_000, 5_001], 5, Some(6), 100).bytes;
        assert_eq!(sent(&whole), 1);
        for cut in 0..whole.len() {
            assert_eq!(sent(&whole[..cut]), 0, "{cut} bytes");
        }
        assert_eq!(sent(&of_protocol(17, [40_000, 5_001], 5, Some(6), 100).bytes), 0, "UDP");
        // Version, length of the IP header, length of the TCP header.
        for (at, bad) in [(0, 0x65), (0, 0x4f), (32, 0xf0)] {
            let mut bytes = packet([40_000, 5_001], 5, Some(6), 8).bytes;
            bytes[at] = bad;
            assert_eq!(sent(&bytes), 0, "byte {at} is {bad}");
        }
    }
}
