//! What passes the path, flow by flow.

use core::time::Duration;
use std::collections::BTreeMap;

use tack_link::{End, Link, Output, Packet};
use tack_units::Instant;

use super::Class;

/// A bulk flow that sends nothing for this long waits for a timer: the least retransmission timeout
/// is 200 ms, a tail loss probe goes after two round trips, and those are near 100 ms at most.
const PAUSE: Duration = Duration::from_millis(195);
/// Flows beyond so many are none of ours.
const MAX_FLOWS: usize = 4_096;
const TCP: u8 = 6;
const ACK: u8 = 0x10;

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
    snd_nxt: Option<u32>,
    snd_una: Option<u32>,
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
        let Some(segment) = Segment::parse(bytes) else { return };
        let (client, server) = match from {
            End::A => (segment.ports[0], segment.ports[1]),
            End::B => (segment.ports[1], segment.ports[0]),
        };
        let Some(class) = Class::of_port(server) else { return };
        if self.flows.len() >= MAX_FLOWS && !self.flows.contains_key(&(class, client)) {
            return;
        }
        let counts = (self.from..self.until).contains(&now);
        let flow = self.flows.entry((class, client)).or_default();
        let is_data = class.is_forward() == (from == End::A);
        match (is_data, leaves) {
            (true, false) if segment.text > 0 => flow.sends(&segment, counts, now),
            (true, true) if segment.text > 0 && counts => flow.counts.delivered += 1,
            (false, false) if counts => flow.counts.acks += 1,
            (false, true) => flow.hears(&segment),
            _ => {}
        }
    }
}

impl Flow {
    fn sends(&mut self, segment: &Segment, counts: bool, now: Instant) {
        let end = segment.seq.wrapping_add(segment.text);
        let nxt = self.snd_nxt.get_or_insert(end);
        *nxt = later(*nxt, end);
        let in_flight = nxt.wrapping_sub(self.snd_una.unwrap_or(segment.seq));
        let pause = self.last_data_at.replace(now).is_some_and(|last| now - last >= PAUSE);
        if counts {
            self.counts.data += 1;
            self.counts.pauses += u64::from(pause);
            self.counts.in_flight_max = self.counts.in_flight_max.max(in_flight);
        }
    }

    fn hears(&mut self, segment: &Segment) {
        if let Some(ack) = segment.ack {
            let una = self.snd_una.get_or_insert(ack);
            *una = later(*una, ack);
        }
    }
}

/// The later of two sequence numbers.
fn later(a: u32, b: u32) -> u32 {
    if b.wrapping_sub(a) < 1 << 31 { b } else { a }
}

/// What matters of a TCP segment over IPv4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    /// Source and destination.
    ports: [u16; 2],
    seq: u32,
    /// `None` on the first SYN.
    ack: Option<u32>,
    /// Payload bytes.
    text: u32,
}

impl Segment {
    /// `None` for what is not a whole one.
    fn parse(bytes: &[u8]) -> Option<Segment> {
        let first = *bytes.first()?;
        let total = usize::from(u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]));
        if first >> 4 != 4 || *bytes.get(9)? != TCP {
            return None;
        }
        let tcp = bytes.get(usize::from(first & 0x0f) * 4..total)?;
        let word = |at: usize| Some(u32::from_be_bytes(*tcp.get(at..)?.first_chunk()?));
        let (header, flags) = (usize::from(*tcp.get(12)? >> 4) * 4, *tcp.get(13)?);
        let ports = word(0)?;
        Some(Segment {
            ports: [(ports >> 16) as u16, ports as u16],
            seq: word(4)?,
            ack: (flags & ACK != 0).then_some(word(8)?),
            text: u32::try_from(tcp.len().checked_sub(header)?).ok()?,
        })
    }
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
    use tack_link::PacketKind;

    use super::*;

    /// Stands for none.
    const NO_ACK: u32 = u32::MAX;

    /// A TCP segment over IPv4 with timestamps.
    fn packet(ports: [u16; 2], seq: u32, ack: u32, text: usize) -> Packet {
        let mut bytes = vec![0; 52 + text];
        bytes[0] = 0x45;
        bytes[2..4].copy_from_slice(&((52 + text) as u16).to_be_bytes());
        bytes[9] = TCP;
        bytes[20..22].copy_from_slice(&ports[0].to_be_bytes());
        bytes[22..24].copy_from_slice(&ports[1].to_be_bytes());
        bytes[24..28].copy_from_slice(&seq.to_be_bytes());
        bytes[28..32].copy_from_slice(&ack.to_be_bytes());
        bytes[32] = 8 << 4;
        bytes[33] = if ack == NO_ACK { 0 } else { ACK };
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
        let whole = packet([40_000, 5_001], 5, 6, 100).bytes;
        let segment = Segment { ports: [40_000, 5_001], seq: 5, ack: Some(6), text: 100 };
        assert_eq!(Segment::parse(&whole), Some(segment));
        for cut in 0..whole.len() {
            assert_eq!(Segment::parse(&whole[..cut]), None, "{cut} bytes");
        }
        // The byte as it is, and as what it must not be.
        for (at, good, bad) in [(0, 0x45, 0x65), (0, 0x45, 0x4f), (9, TCP, 17), (32, 0x50, 0xf0)] {
            let mut bytes = whole[..60].to_vec();
            bytes[2..4].copy_from_slice(&60_u16.to_be_bytes());
            bytes[at] = good;
            assert!(Segment::parse(&bytes).is_some(), "byte {at} is {good}");
            bytes[at] = bad;
            assert_eq!(Segment::parse(&bytes), None, "byte {at} is {bad}");
        }
    }
}
