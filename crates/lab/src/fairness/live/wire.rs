//! What passes the path, flow by flow.

use core::time::Duration;
use std::collections::BTreeMap;

use tack_link::{End, Link, Output, Packet};
use tack_tcp::seq::SeqNum;
use tack_tcp::wire::checksum::PROTOCOL_TCP;
use tack_tcp::wire::ip::IpPacket;
use tack_tcp::wire::{Codepoints, Flags, Header, Segment};
use tack_units::Instant;

use super::Class;

/// A bulk flow that sends nothing for this long waits for a timer: the least retransmission timeout
/// is 200 ms, a tail loss probe goes after two round trips, and those are near 100 ms at most.
const PAUSE: Duration = Duration::from_millis(195);
/// Flows beyond so many are none of ours.
const MAX_FLOWS: usize = 4_096;

/// Counts of one flow between the end of the warm-up and the end of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowCounts {
    /// Packets with text that entered the path at the flow's sender.
    pub(super) data: u64,
    /// Of them, those that left it.
    pub(super) delivered: u64,
    /// Packets that entered it at the flow's receiver.
    pub(super) acks: u64,
    /// Pauses of 195 ms and more between packets with text.
    pub(super) pauses: u64,
    /// Most text bytes in flight, as its sender knows them.
    pub(super) in_flight_max: u32,
}

#[derive(Debug, Default)]
struct Flow {
    counts: FlowCounts,
    last_data_at: Option<Instant>,
    /// One past the highest sequence number sent, and the highest acknowledgment that arrived.
    snd_nxt: Option<SeqNum>,
    snd_una: Option<SeqNum>,
}

/// A link that counts.
#[derive(Debug)]
pub(super) struct Counted<L> {
    link: L,
    from: Instant,
    until: Instant,
    flows: BTreeMap<(Class, u16), Flow>,
}

impl<L> Counted<L> {
    /// Counts what passes `link` in `from..until`.
    pub(super) fn new(link: L, from: Instant, until: Instant) -> Counted<L> {
        Counted { link, from, until, flows: BTreeMap::new() }
    }

    /// Every flow of a class.
    pub(super) fn flows(&self, class: Class) -> impl Iterator<Item = FlowCounts> + '_ {
        self.flows.iter().filter(move |((c, _), _)| *c == class).map(|(_, flow)| flow.counts)
    }

    /// `bytes` enter at `from`, or leave having entered there.
    fn observe(&mut self, from: End, bytes: &[u8], leaves: bool, now: Instant) {
        let Some((header, text)) = tcp(bytes) else { return };
        let (client, server) = match from {
            End::A => (header.src_port, header.dst_port),
            End::B => (header.dst_port, header.src_port),
        };
        let Some(class) = Class::of_port(server) else { return };
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&(class, client)) {
            return;
        }
        let counts = (self.from..self.until).contains(&now);
        let flow = self.flows.entry((class, client)).or_default();
        let is_data = class.is_forward() == (from == End::A);
        match (is_data, leaves) {
            (true, false) if text > 0 => flow.sends(&header, text, counts, now),
            (true, true) if text > 0 && counts => flow.counts.delivered += 1,
            (false, false) if counts => flow.counts.acks += 1,
            (false, true) => flow.hears(&header),
            _ => {}
        }
    }
}

impl Flow {
    fn sends(&mut self, header: &Header, text: u32, counts: bool, now: Instant) {
        let end = header.seq.add(text);
        let nxt = self.snd_nxt.get_or_insert(end);
        *nxt = later(*nxt, end);
        let in_flight = nxt.since(self.snd_una.unwrap_or(header.seq)).unsigned_abs();
        let pause = self.last_data_at.replace(now).is_some_and(|last| now - last >= PAUSE);
        if counts {
            self.counts.data += 1;
            self.counts.pauses += u64::from(pause);
            self.counts.in_flight_max = self.counts.in_flight_max.max(in_flight);
        }
    }

    fn hears(&mut self, header: &Header) {
        if header.flags.has(Flags::ACK) {
            let una = self.snd_una.get_or_insert(header.ack);
            *una = later(*una, header.ack);
        }
    }
}

fn later(a: SeqNum, b: SeqNum) -> SeqNum {
    if b.since(a) >= 0 { b } else { a }
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
        self.link.offer(end, packet, now);
    }

    fn poll(&mut self, now: Instant) -> Output {
        let output = self.link.poll(now);
        if let Output::Deliver { end, packet } = &output {
            let from = if *end == End::A { End::B } else { End::A };
            self.observe(from, &packet.bytes, true, now);
        }
        output
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

    /// Stands for none.
    const NO_ACK: u32 = u32::MAX;

    /// A TCP segment over IPv4.
    fn packet(ports: [u16; 2], seq: u32, ack: u32, text: usize) -> Packet {
        of_protocol(PROTOCOL_TCP, ports, seq, ack, text)
    }

    fn of_protocol(protocol: u8, ports: [u16; 2], seq: u32, ack: u32, text: usize) -> Packet {
        let header = Header {
            src_port: ports[0],
            dst_port: ports[1],
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags: if ack == NO_ACK { Flags::SYN } else { Flags::ACK },
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

    /// Delivers at once, but for every `n`-th packet.
    struct Lossy {
        n: u32,
        offered: u32,
        ready: Option<(End, Packet)>,
    }

    impl Link for Lossy {
        fn offer(&mut self, end: End, packet: Packet, _: Instant) {
            self.offered += 1;
            let other = if end == End::A { End::B } else { End::A };
            self.ready = (!self.offered.is_multiple_of(self.n)).then_some((other, packet));
        }

        fn poll(&mut self, _: Instant) -> Output {
            match self.ready.take() {
                Some((end, packet)) => Output::Deliver { end, packet },
                None => Output::Wait(None),
            }
        }
    }

    fn pass(link: &mut Counted<Lossy>, end: End, packet: Packet, at_ms: u64) {
        let now = Instant::from_millis(at_ms);
        link.offer(end, packet, now);
        while let Output::Deliver { .. } = link.poll(now) {}
    }

    #[test]
    fn each_flow_is_counted_by_its_own_sender_and_receiver() {
        let lossy = Lossy { n: 3, offered: 0, ready: None };
        let (from, until) = (Instant::from_millis(100), Instant::from_millis(1_000));
        let mut link = Counted::new(lossy, from, until);
        let (others, reverse) = (Class::Others.port(), Class::Reverse.port());
        // Before the window, in it: the second of three is lost, the last after a pause.
        pass(&mut link, End::A, packet([40_000, others], u32::MAX - 999, 1, 1_000), 50);
        pass(&mut link, End::B, packet([others, 40_000], 1, 0, 0), 60);
        pass(&mut link, End::A, packet([40_000, others], 0, 1, 1_000), 100);
        pass(&mut link, End::A, packet([40_000, others], 1_000, 1, 1_000), 110);
        pass(&mut link, End::B, packet([others, 40_000], 1, 2_000, 0), 150);
        pass(&mut link, End::A, packet([9, 9], 0, 0, 1_000), 200);
        pass(&mut link, End::A, packet([40_000, others], 2_000, 1, 1_000), 305);
        pass(&mut link, End::A, packet([40_000, reverse], 9, NO_ACK, 0), 390);
        pass(&mut link, End::B, packet([reverse, 40_000], 1 << 31, 10, 500), 400);
        pass(&mut link, End::A, packet([40_000, others], 3_000, 1, 1_000), 1_000);
        let counts: Vec<_> = link.flows(Class::Others).collect();
        let expected =
            FlowCounts { data: 3, delivered: 2, acks: 1, pauses: 1, in_flight_max: 2_000 };
        assert_eq!(counts, [expected]);
        let counts: Vec<_> = link.flows(Class::Reverse).collect();
        assert_eq!((counts.len(), counts[0].data, counts[0].in_flight_max), (1, 1, 500));
        assert_eq!(link.flows(Class::Every).count(), 0);
    }

    #[test]
    fn what_is_no_whole_segment_counts_for_nothing() {
        let sent = |bytes: &[u8]| {
            let lossy = Lossy { n: 3, offered: 0, ready: None };
            let mut link = Counted::new(lossy, Instant::ZERO, Instant::from_secs(1));
            let ip_bytes = bytes.len() as u32;
            let whole = packet([40_000, 5_001], 5, 6, 100);
            pass(&mut link, End::A, Packet { ip_bytes, bytes: bytes.to_vec(), ..whole }, 1);
            link.flows(Class::Every).map(|flow| flow.data).sum::<u64>()
        };
        let whole = packet([40_000, 5_001], 5, 6, 100).bytes;
        assert_eq!(sent(&whole), 1);
        for cut in 0..whole.len() {
            assert_eq!(sent(&whole[..cut]), 0, "{cut} bytes");
        }
        assert_eq!(sent(&of_protocol(17, [40_000, 5_001], 5, 6, 100).bytes), 0, "UDP");
        // Version, length of the IP header, length of the TCP header.
        for (at, bad) in [(0, 0x65), (0, 0x4f), (32, 0xf0)] {
            let mut bytes = packet([40_000, 5_001], 5, 6, 8).bytes;
            bytes[at] = bad;
            assert_eq!(sent(&bytes), 0, "byte {at} is {bad}");
        }
    }
}
