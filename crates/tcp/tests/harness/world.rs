//! Two hosts and the path between them under one virtual clock.

use core::time::Duration;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use tack_tcp::wire::icmp::{self, Report};
use tack_tcp::wire::ip::IpHeader;
use tack_tcp::wire::{Codepoints, Segment};
use tack_tcp::{Encapsulation, Host, HostConfig, Transmit};
use tack_units::Instant;

use crate::device::{Merging, cut};
use crate::pipe::{Pipe, PipeConfig, addresses};

/// A host's clock: offset and rate against true time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocalClock {
    pub(crate) offset: Duration,
    /// Parts per million, positive is fast.
    pub(crate) drift_ppm: i64,
}

impl LocalClock {
    pub(crate) const TRUE: LocalClock = LocalClock { offset: Duration::ZERO, drift_ppm: 0 };

    pub(crate) fn local(&self, now: Instant) -> Instant {
        let ns = now.as_nanos() as i128;
        let drifted = ns + ns * i128::from(self.drift_ppm) / 1_000_000;
        Instant::from_nanos(drifted as u64) + self.offset
    }

    /// The earliest true time at which the local clock shows at least `local`.
    pub(crate) fn true_time(&self, local: Instant) -> Instant {
        let ns = local.saturating_since(Instant::ZERO + self.offset).as_nanos() as i128;
        let guess = ns * 1_000_000 / (1_000_000 + i128::from(self.drift_ppm));
        let mut t = Instant::from_nanos(guess as u64);
        while self.local(t) < local {
            t += Duration::from_nanos(1);
        }
        t
    }
}

/// One end.
pub(crate) struct End {
    pub(crate) host: Host,
    pub(crate) addr: SocketAddr,
    pub(crate) clock: LocalClock,
}

/// The world.
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) ends: [End; 2],
    /// `pipes[i]` carries what end `i` sends.
    pub(crate) pipes: [Pipe; 2],
    /// A link on the way with a smaller MTU, by direction.
    pub(crate) narrow: [Option<Narrow>; 2],
    /// When text from end 0 arrived at end 1, its offset from the ISN and its length; recorded
    /// while it is there. Streams under 4 GiB only.
    pub(crate) tap: Option<Vec<(Instant, u64, u64)>>,
    /// Packets that were handed up as one with others.
    pub(crate) merged: u64,
    buffer: Vec<u8>,
    /// Deadlines that did not move the host on; a machine that never settles is a bug.
    stuck: u32,
}

/// Everything a world is made of.
#[derive(Clone, Debug)]
pub(crate) struct WorldConfig {
    pub(crate) seed: u64,
    pub(crate) ip: Option<bool>,
    pub(crate) hosts: [HostConfig; 2],
    pub(crate) pipes: [PipeConfig; 2],
    pub(crate) clocks: [LocalClock; 2],
}

impl WorldConfig {
    pub(crate) fn new(seed: u64, pipes: [PipeConfig; 2]) -> WorldConfig {
        let hosts = [HostConfig::default(), HostConfig::default()];
        WorldConfig { seed, ip: None, hosts, pipes, clocks: [LocalClock::TRUE; 2] }
    }
}

impl World {
    pub(crate) fn new(config: WorldConfig) -> World {
        let WorldConfig { seed, ip, hosts, pipes, clocks } = config;
        let addrs: [SocketAddr; 2] = match ip {
            Some(true) => [
                ([0xfd00, 0, 0, 0, 0, 0, 0, 1], 0).into(),
                ([0xfd00, 0, 0, 0, 0, 0, 0, 2], 0).into(),
            ],
            _ => [([10, 0, 0, 1], 7_000).into(), ([10, 0, 0, 2], 7_000).into()],
        };
        let mut made = hosts.into_iter().enumerate().map(|(i, mut host)| {
            if ip.is_some() {
                host.encapsulation = Encapsulation::Ip { local: vec![addrs[i].ip()] };
            }
            let mut secret = [0; 32];
            secret[..8].copy_from_slice(&(seed ^ i as u64).to_le_bytes());
            let now = clocks[i].local(Instant::ZERO);
            End { host: Host::new(host, secret, now), addr: addrs[i], clock: clocks[i] }
        });
        let ends = [made.next().expect("two"), made.next().expect("two")];
        let [a, b] = pipes;
        World {
            now: Instant::ZERO,
            ends,
            pipes: [
                Pipe::new(a, seed.wrapping_mul(2), ip.is_some()),
                Pipe::new(b, seed.wrapping_mul(2) + 1, ip.is_some()),
            ],
            narrow: [None; 2],
            tap: None,
            merged: 0,
            buffer: Vec::new(),
            stuck: 0,
        }
    }

    /// Local time of an end.
    pub(crate) fn local(&self, end: usize) -> Instant {
        self.ends[end].clock.local(self.now)
    }

    /// Sends what both hosts have to send.
    pub(crate) fn flush(&mut self) {
        for i in 0..2 {
            let local = self.local(i);
            loop {
                self.buffer.clear();
                let host = &mut self.ends[i].host;
                let Some(t) = host.poll_transmit(&mut self.buffer, 65_000, local) else { break };
                assert_eq!(t.bytes, self.buffer.len());
                assert!(t.segments <= 44 && t.segment_size > 0);
                let datagrams = on_the_wire(&self.buffer, &t);
                assert_eq!(datagrams.len(), t.segments, "all but the last are of equal size");
                for datagram in &datagrams {
                    let now = self.now;
                    let Some(narrow) = &mut self.narrow[i] else {
                        self.pipes[i].offer(datagram, t.ecn, now);
                        continue;
                    };
                    let size = datagram.len() + self.pipes[i].overhead as usize;
                    if size <= narrow.mtu {
                        self.pipes[i].offer(datagram, t.ecn, now);
                        continue;
                    }
                    narrow.dropped += 1;
                    if let Some(mtu) = narrow.says {
                        let error = too_big(datagram, mtu);
                        self.pipes[1 - i].inject(error, now + narrow.after);
                    }
                }
            }
        }
    }

    /// What arrives at end `1 - i` by now, as a device hands it up that merges segments.
    fn hand_up_merged(&mut self, i: usize, at: Instant) {
        let local = self.local(1 - i);
        let mut merging = Merging::default();
        while let Some((bytes, _)) = self.pipes[i].arrive(at) {
            if let Some(merged) = merging.add(bytes) {
                self.take_merged(1 - i, &merged, local);
            }
        }
        self.take_merged(1 - i, &merging, local);
    }

    fn take_merged(&mut self, end: usize, merged: &Merging, local: Instant) {
        let packet = merged.incoming();
        if !packet.bytes.is_empty() {
            self.merged += u64::from(packet.gso_size.is_some());
            self.ends[end].host.handle_packet(packet, local);
        }
    }

    /// When something happens next by itself.
    pub(crate) fn next(&self) -> Option<Instant> {
        let pipes = self.pipes.iter().filter_map(Pipe::next);
        let hosts = self.ends.iter().filter_map(|e| Some(e.clock.true_time(e.host.deadline()?)));
        pipes.chain(hosts).min().map(|at| at.max(self.now))
    }

    /// Moves to `at` and lets everything due happen.
    pub(crate) fn advance(&mut self, at: Instant) {
        assert!(at >= self.now);
        if at > self.now {
            self.stuck = 0;
        }
        self.stuck += 1;
        assert!(self.stuck < 10_000, "no progress at {}: a deadline is never met", self.now);
        self.now = at;
        for i in 0..2 {
            let to = 1 - i;
            let local = self.local(to);
            if self.pipes[i].config.merge_every.is_some() {
                self.hand_up_merged(i, at);
                continue;
            }
            while let Some((bytes, ecn)) = self.pipes[i].arrive(at) {
                let from = self.ends[i].addr;
                if let (0, Some(tap)) = (i, &mut self.tap) {
                    record(tap, &bytes, at);
                }
                self.ends[to].host.handle(from, &bytes, bytes.len(), ecn, local);
                self.pipes[i].recycle(bytes);
            }
        }
        for i in 0..2 {
            let local = self.local(i);
            if self.ends[i].host.deadline().is_some_and(|d| d <= local) {
                self.ends[i].host.handle_timeout(local);
            }
        }
    }
}

/// What a device makes of a burst.
fn on_the_wire<'a>(burst: &'a [u8], t: &Transmit) -> Vec<Cow<'a, [u8]>> {
    let packets = burst.chunks(t.segment_size);
    match t.offload {
        None => packets.map(Cow::from).collect(),
        Some(offload) => packets
            .flat_map(|packet| cut(packet, offload.gso_size.map_or(usize::MAX, usize::from)))
            .map(Cow::from)
            .collect(),
    }
}

/// A link that drops what is longer than its MTU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Narrow {
    pub(crate) mtu: usize,
    /// What its router says of it: nothing, nothing of use, or the MTU.
    pub(crate) says: Option<Option<u32>>,
    /// How long its answer takes.
    pub(crate) after: core::time::Duration,
    /// Packets that did not fit.
    pub(crate) dropped: u64,
}

impl Narrow {
    pub(crate) fn telling(mtu: u16) -> Narrow {
        let says = Some(Some(u32::from(mtu)));
        Narrow { says, ..Narrow::silent(mtu) }
    }

    pub(crate) fn silent(mtu: u16) -> Narrow {
        let after = core::time::Duration::from_millis(3);
        Narrow { mtu: usize::from(mtu), says: None, after, dropped: 0 }
    }
}

/// "Too big" from a router of the packet's family to its source.
fn too_big(packet: &[u8], mtu: Option<u32>) -> Vec<u8> {
    let (us, _) = addresses(packet);
    let router =
        if us.is_ipv4() { [192, 0, 2, 1].into() } else { [0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into() };
    icmp_error(router, us, Report::TooBig { mtu }, packet)
}

/// A whole packet with an ICMP error about another one.
pub(crate) fn icmp_error(src: IpAddr, dst: IpAddr, report: Report, about: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    icmp::emit_error(src, dst, report, about, &mut message);
    icmp_packet(src, dst, &message)
}

/// An IP header around an ICMP message.
pub(crate) fn icmp_packet(src: IpAddr, dst: IpAddr, message: &[u8]) -> Vec<u8> {
    let protocol = if src.is_ipv4() { icmp::PROTOCOL_ICMPV4 } else { icmp::PROTOCOL_ICMPV6 };
    let (hop_limit, dscp, ecn, flow_label) = (60, 0, tack_tcp::Ecn::NotEct, 0);
    let header = IpHeader { src, dst, protocol, hop_limit, dscp, ecn, flow_label };
    let mut packet = Vec::new();
    header.emit(message.len(), &mut packet).expect("short");
    packet.extend_from_slice(message);
    packet
}

fn record(tap: &mut Vec<(Instant, u64, u64)>, bytes: &[u8], at: Instant) {
    let segment =
        Segment::parse_datagram(bytes, Codepoints::Experimental).expect("our own segment");
    if segment.payload.is_empty() || segment.header.options.ack_type.is_some() {
        return;
    }
    tap.push((at, u64::from(segment.header.seq.0), segment.payload.len() as u64));
}
