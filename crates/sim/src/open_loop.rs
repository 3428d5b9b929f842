//! Traffic that answers to no feedback: UDP blasts, videos, and the papers' measuring tool, which sends
//! data and has the far end acknowledge every L-th packet or once per period.
//!
//! Its packets have a size and no bytes. They are told apart from TCP by that.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tack_link::{HostId, Packet, PacketKind};
use tack_units::{Instant, Rate, earliest};

use crate::endpoint::Outgoing;
use crate::video::{Arrival, Assembly, Cast};

/// Packets of one size at a constant rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blast {
    /// Whom it is for.
    pub dst: HostId,
    /// Size on the IP level.
    pub ip_bytes: u32,
    /// IP-level rate.
    pub rate: Rate,
    /// First packet.
    pub start: Instant,
    /// No packet at this time or later.
    pub stop: Instant,
}

/// When the receiver of a blast acknowledges. Acknowledgments mean nothing to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AckRule {
    /// Never.
    #[default]
    None,
    /// Every so many packets, at least 1.
    Every(u32),
    /// Once per period in which something arrived; periods start with the first packet.
    Period(Duration),
}

/// What an open-loop receiver saw of one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Data packets.
    pub packets: u64,
    /// Their IP-level bytes.
    pub ip_bytes: u64,
    /// Acknowledgments that came.
    pub acks: u64,
}

/// The open-loop part of a host.
#[derive(Debug)]
pub(crate) struct OpenLoop {
    sources: Vec<Source>,
    /// Data packets that left, by whom they were for.
    sent: BTreeMap<HostId, u64>,
    /// When each source's next packet is due.
    sendings: BTreeSet<(Instant, usize)>,
    rule: AckRule,
    ack_ip_bytes: u32,
    peers: BTreeMap<HostId, Peer>,
    /// Whom an acknowledgment is owed, in order.
    owed: VecDeque<HostId>,
    /// Period rule: when each peer's running period ends, if something arrived in it.
    periods: BTreeSet<(Instant, HostId)>,
}

#[derive(Debug)]
enum Source {
    Blast {
        blast: Blast,
        sent: u64,
    },
    /// What is next: a frame, and its packet.
    Cast {
        cast: Cast,
        frame: u64,
        packet: u32,
    },
}

impl Source {
    fn next_at(&self) -> Option<Instant> {
        match self {
            Source::Blast { blast, sent } => {
                let bytes = sent.saturating_mul(u64::from(blast.ip_bytes.max(1)));
                let at = blast.rate.time_for(bytes).map(|d| blast.start + d);
                at.filter(|at| *at < blast.stop)
            }
            Source::Cast { cast, frame, .. } => cast.leaves_at(*frame),
        }
    }

    /// The next packet: whom it is for, and its size.
    fn send(&mut self) -> (HostId, u32) {
        match self {
            Source::Blast { blast, sent } => {
                *sent += 1;
                (blast.dst, blast.ip_bytes)
            }
            Source::Cast { cast, frame, packet } => {
                let ip_bytes = cast.ip_bytes(*frame, *packet);
                *packet += 1;
                if *packet == cast.packets(*frame) {
                    (*frame, *packet) = (*frame + 1, 0);
                }
                (cast.dst, ip_bytes)
            }
        }
    }
}

#[derive(Debug, Default)]
struct Peer {
    received: Received,
    /// Of its video, if it sends one.
    frames: Option<Assembly>,
    /// Data packets not acknowledged.
    pending: u32,
    /// Period rule: when the period ends that the last packet fell into.
    period_end: Option<Instant>,
}

/// Size of an acknowledgment on the IP level: 64 bytes of Ethernet, as the papers count it.
pub const DEFAULT_ACK_IP_BYTES: u32 = 46;

impl OpenLoop {
    pub(crate) fn new() -> Self {
        OpenLoop {
            sources: Vec::new(),
            sent: BTreeMap::new(),
            sendings: BTreeSet::new(),
            rule: AckRule::None,
            ack_ip_bytes: DEFAULT_ACK_IP_BYTES,
            peers: BTreeMap::new(),
            owed: VecDeque::new(),
            periods: BTreeSet::new(),
        }
    }

    pub(crate) fn add(&mut self, blast: Blast) {
        self.add_source(Source::Blast { blast, sent: 0 });
    }

    pub(crate) fn add_cast(&mut self, cast: Cast) {
        self.add_source(Source::Cast { cast, frame: 0, packet: 0 });
    }

    fn add_source(&mut self, source: Source) {
        self.sendings.extend(source.next_at().map(|at| (at, self.sources.len())));
        self.sources.push(source);
    }

    pub(crate) fn expect_cast(&mut self, src: HostId, cast: Cast) {
        self.peers.entry(src).or_default().frames = Some(Assembly::new(cast));
    }

    pub(crate) fn frames_from(&self, src: HostId) -> &[Arrival] {
        let frames = self.peers.get(&src).and_then(|peer| peer.frames.as_ref());
        frames.map_or(&[], Assembly::arrivals)
    }

    pub(crate) fn acknowledge(&mut self, rule: AckRule, ack_ip_bytes: u32) {
        (self.rule, self.ack_ip_bytes) = (rule, ack_ip_bytes);
    }

    pub(crate) fn received_from(&self, src: HostId) -> Received {
        self.peers.get(&src).map_or(Received::default(), |peer| peer.received)
    }

    pub(crate) fn sent_to(&self, dst: HostId) -> u64 {
        self.sent.get(&dst).copied().unwrap_or(0)
    }

    pub(crate) fn handle(&mut self, packet: &Packet, now: Instant) {
        let peer = self.peers.entry(packet.src).or_default();
        if packet.kind == PacketKind::Ack {
            peer.received.acks += 1;
            return;
        }
        peer.received.packets += 1;
        peer.received.ip_bytes += u64::from(packet.ip_bytes);
        if let Some(frames) = &mut peer.frames {
            frames.on_packet(packet.id, packet.sent_at, now);
        }
        peer.pending = peer.pending.saturating_add(1);
        match self.rule {
            AckRule::None => {}
            AckRule::Every(packets) => {
                if peer.pending >= packets.max(1) {
                    peer.pending = 0;
                    self.owed.push_back(packet.src);
                }
            }
            AckRule::Period(period) => {
                if peer.pending == 1 {
                    // After silence the period restarts with this packet.
                    let end = peer.period_end.filter(|end| *end > now).unwrap_or(now + period);
                    peer.period_end = Some(end);
                    self.periods.insert((end, packet.src));
                }
            }
        }
    }

    pub(crate) fn poll_transmit(&mut self, now: Instant) -> Option<Outgoing> {
        while let Some(&(end, src)) = self.periods.first().filter(|p| p.0 <= now) {
            self.periods.remove(&(end, src));
            let peer = self.peers.get_mut(&src).expect("its period runs");
            peer.pending = 0;
            if let AckRule::Period(period) = self.rule {
                peer.period_end = Some(end + period);
            }
            self.owed.push_back(src);
        }
        let open = |dst, ip_bytes, kind| Outgoing { dst, ip_bytes, kind, bytes: vec![], ecn: 0 };
        if let Some(src) = self.owed.pop_front() {
            return Some(open(src, self.ack_ip_bytes, PacketKind::Ack));
        }
        let &(at, index) = self.sendings.first().filter(|s| s.0 <= now)?;
        self.sendings.remove(&(at, index));
        let source = &mut self.sources[index];
        let (dst, ip_bytes) = source.send();
        *self.sent.entry(dst).or_default() += 1;
        self.sendings.extend(source.next_at().map(|at| (at, index)));
        Some(open(dst, ip_bytes, PacketKind::Data))
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let data = self.sendings.first().map(|s| s.0);
        let acks = self.periods.first().map(|p| p.0);
        earliest(data, acks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(src: HostId, at: Instant) -> Packet {
        Packet { src, dst: 0, ip_bytes: 1_500, bytes: vec![], sent_at: at, ..Packet::default() }
    }

    #[test]
    fn a_blast_is_exact_over_time() {
        let mut source = OpenLoop::new();
        source.add(Blast {
            dst: 1,
            ip_bytes: 1_500,
            rate: Rate::from_mbps(12),
            start: Instant::from_secs(1),
            stop: Instant::from_secs(3),
        });
        let mut sent = Vec::new();
        while let Some(now) = source.deadline() {
            while let Some(out) = source.poll_transmit(now) {
                assert_eq!((out.dst, out.ip_bytes, out.kind), (1, 1_500, PacketKind::Data));
                sent.push(now);
            }
        }
        assert_eq!(sent.len(), 2_000);
        assert!(
            sent.iter().enumerate().all(|(n, at)| *at == Instant::from_millis(1_000 + n as u64))
        );
    }

    #[test]
    fn every_l_th_packet_of_each_sender_is_acknowledged() {
        let mut sink = OpenLoop::new();
        sink.acknowledge(AckRule::Every(4), 40);
        let mut acks = BTreeMap::new();
        for n in 0..1_000 {
            sink.handle(&data(1 + n % 3, Instant::ZERO), Instant::ZERO);
            while let Some(out) = sink.poll_transmit(Instant::ZERO) {
                assert_eq!((out.ip_bytes, out.kind), (40, PacketKind::Ack));
                *acks.entry(out.dst).or_insert(0) += 1;
            }
        }
        assert_eq!(acks, BTreeMap::from([(1, 83), (2, 83), (3, 83)]));
        assert_eq!(sink.received_from(1).packets, 334);
    }

    #[test]
    fn a_period_brings_one_ack_if_anything_came() {
        let mut sink = OpenLoop::new();
        sink.acknowledge(AckRule::Period(Duration::from_millis(20)), 46);
        let mut acks = Vec::new();
        // A packet per millisecond for 100 ms, silence for 95, and one more.
        for ms in (0..100).chain([195]) {
            let at = Instant::from_millis(ms);
            while let Some(end) = sink.deadline().filter(|end| *end <= at) {
                assert!(sink.poll_transmit(end).is_some());
                acks.push(end.as_micros() / 1_000);
            }
            sink.handle(&data(1, at), at);
        }
        assert_eq!(acks, [20, 40, 60, 80, 100]);
        assert_eq!(sink.deadline(), Some(Instant::from_millis(215)));
    }
}
