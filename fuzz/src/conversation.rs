//! Two hosts, arbitrary operations and an arbitrary path between them: no byte is ever wrong,
//! and once the path behaves, every byte and the end of both streams arrive.
//!
//! The path is an IP network, or one of UDP datagrams whose checksum it verifies: what it flips or
//! cuts is caught by TCP's checksum, or lost.

mod mangle;

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tack_tcp::wire::Codepoints;
use tack_tcp::{
    AckStrategy, ConnConfig, ConnId, Ecn, Encapsulation, Host, HostConfig, IpConfig, ListenConfig,
};
use tack_units::Instant;

use super::input::Input;

const PORT: u16 = 7;
const ONE_WAY: Duration = Duration::from_millis(5);
/// Bytes each end may send in all.
const MAX_STREAM: u64 = 128 << 10;
/// Operations looked at: with at most 127 ms each, no give-up timer is ever reached.
const MAX_OPERATIONS: usize = 256;
/// Packets the adversary may touch or repeat.
const MAX_MANGLED: usize = 1_024;
/// Virtual time by which everything must have arrived once the path behaves.
const PATIENCE: Duration = Duration::from_secs(300);
/// Packets that travel meanwhile, at most: more is a storm.
const MAX_PACKETS: usize = 60_000;

/// Two bytes: configuration, and which ends have devices that cut super-packets, which this path carries
/// as they are; then operations, and the fate of every packet that leaves.
pub fn conversation(data: &[u8]) -> bool {
    let mut input = Input::new(data);
    let mut world = World::new(input.byte(), input.byte());
    for _ in 0..MAX_OPERATIONS {
        if input.is_empty() {
            break;
        }
        world.operate(&mut input);
    }
    world.finish();
    true
}

/// One application and its host.
struct End {
    host: Host,
    conn: Option<ConnId>,
    /// Bytes to send, bytes handed over, bytes read.
    wanted: u64,
    written: u64,
    read: u64,
    /// No more will be wanted.
    ending: bool,
    shut: bool,
}

struct World {
    ends: [End; 2],
    now: Instant,
    /// On the way: (arrival, order) to (receiver, packet).
    path: BTreeMap<(Instant, usize), (usize, Vec<u8>)>,
    packets: usize,
    mangled: usize,
    /// Sent lately, for replays.
    past: Vec<(usize, Vec<u8>)>,
    strips: [bool; 2],
    codepoints: Codepoints,
    udp: bool,
}

fn address(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 1 + end as u8)
}

/// How ends that speak no TACK acknowledge: both by the same, if both do.
fn strategy(choice: u8) -> AckStrategy {
    let others: Vec<_> = AckStrategy::ALL.iter().filter(|ack| ack.tack().is_none()).collect();
    *others[usize::from(choice) % others.len()]
}

/// Byte number `at` of the stream that `end` sends.
fn pattern(end: usize, at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16).wrapping_mul(167) as u8 ^ (end as u8)
}

impl World {
    fn new(choice: u8, devices: u8) -> World {
        let codepoints = if choice & 1 == 0 { Codepoints::Experimental } else { Codepoints::Paper };
        let udp = choice & 128 != 0;
        let conn = |plain: bool| {
            ConnConfig::default().with(|it| {
                it.sack = choice & 8 == 0;
                it.timestamps = choice & 16 == 0;

                // Sequence numbers, or PKT.SEQ too, about to wrap.
                it.initial_seq = (choice & 32 != 0).then_some(u32::MAX - 5_000);
                it.first_pkt_seq = if choice & 64 != 0 { u32::MAX - 3 } else { 1 };
                it.ack = if plain { strategy(choice) } else { AckStrategy::TACK };
            })
        };
        let end = |i: usize| {
            let encapsulation = match udp {
                true => Encapsulation::Udp,
                false => Encapsulation::Ip { local: vec![IpAddr::V4(address(i))] },
            };
            let config = HostConfig::default().with(|it| {
                it.encapsulation = encapsulation;
                it.codepoints = codepoints;
                let offload = devices >> i & 1 == 1;
                it.ip = IpConfig::default().with(|it| it.segmentation_offload = offload);
            });
            End {
                host: Host::new(config, [i as u8 + 1; 32], Instant::ZERO),
                conn: None,
                wanted: 0,
                written: 0,
                read: 0,
                ending: false,
                shut: false,
            }
        };
        let mut ends = [end(0), end(1)];
        let listen = ListenConfig::default().with(|it| it.conn = conn(choice & 4 != 0));
        ends[1].host.listen(PORT, listen).expect("nobody else listens");
        let remote = SocketAddr::new(IpAddr::V4(address(1)), PORT);
        let conn = ends[0].host.connect(remote, conn(choice & 2 != 0), Instant::ZERO);
        ends[0].conn = Some(conn.expect("the first connection"));
        World {
            ends,
            now: Instant::ZERO,
            path: BTreeMap::new(),
            packets: 0,
            mangled: 0,
            past: Vec::new(),
            strips: [false; 2],
            codepoints,
            udp,
        }
    }

    fn operate(&mut self, input: &mut Input<'_>) {
        let operation = input.byte();
        let end = usize::from(operation >> 7);
        match operation & 7 {
            0..3 => {
                let more = u64::from(input.half()) >> (input.byte() & 15);
                let End { wanted, ending, .. } = &mut self.ends[end];
                if !*ending {
                    *wanted = (*wanted + more).min(MAX_STREAM);
                }
            }
            3 => self.ends[end].ending |= input.byte() & 7 == 0,
            4 => self.strips[end] = input.byte() & 3 == 0,
            5 => self.replay(input),
            _ => {}
        }
        let until = self.now + Duration::from_millis(u64::from(input.byte() & 127));
        self.run(until, Some(input));
    }

    /// Sends a packet of the past once more.
    fn replay(&mut self, input: &mut Input<'_>) {
        if self.past.is_empty() {
            return;
        }
        let (to, packet) = self.past[usize::from(input.half()) % self.past.len()].clone();
        self.deliver(to, packet, ONE_WAY);
    }

    fn finish(&mut self) {
        for end in &mut self.ends {
            end.ending = true;
        }
        let deadline = self.now + PATIENCE;
        self.run(self.now, None);
        while !self.ends.iter().enumerate().all(|(i, end)| end.is_done(&self.ends[1 - i])) {
            assert!(self.now < deadline, "not done after {PATIENCE:?}: {}", self.state());
            let next = self.next_event().unwrap_or_else(|| panic!("stuck: {}", self.state()));
            self.run(next.max(self.now), None);
        }
    }

    fn state(&self) -> String {
        let end = |end: &End| {
            let closed = end.conn.and_then(|conn| end.host.closed(conn));
            format!("wrote {} of {}, read {}, {closed:?}", end.written, end.wanted, end.read)
        };
        format!("{}; {}", end(&self.ends[0]), end(&self.ends[1]))
    }

    fn next_event(&self) -> Option<Instant> {
        let arrival = self.path.keys().next().map(|key| key.0);
        let [a, b] = &self.ends;
        [arrival, a.host.deadline(), b.host.deadline()].into_iter().flatten().min()
    }

    /// Lets everything happen up to `until`; without input the path behaves.
    fn run(&mut self, until: Instant, mut input: Option<&mut Input<'_>>) {
        loop {
            self.drain(input.as_deref_mut());
            let Some(next) = self.next_event().filter(|&next| next <= until) else { break };
            self.now = self.now.max(next);
            for end in &mut self.ends {
                if end.host.deadline().is_some_and(|deadline| deadline <= self.now) {
                    end.host.handle_timeout(self.now);
                }
            }
            while let Some(entry) = self.path.first_entry()
                && entry.key().0 <= self.now
            {
                let (to, packet) = entry.remove();
                let from = SocketAddr::new(IpAddr::V4(address(1 - to)), PORT);
                let len = packet.len();
                self.ends[to].host.handle(from, &packet, len, Ecn::NotEct, self.now);
            }
        }
        self.now = self.now.max(until);
    }

    fn drain(&mut self, mut input: Option<&mut Input<'_>>) {
        for i in 0..2 {
            self.ends[i].use_connection(i, self.now);
            let mut buffer = Vec::new();
            while let Some(transmit) =
                self.ends[i].host.poll_transmit(&mut buffer, 64 << 10, self.now)
            {
                for packet in buffer.chunks_mut(transmit.segment_size.max(1)) {
                    if transmit.offload.is_some() {
                        mangle::complete(packet);
                    }
                    self.send(1 - i, packet.to_vec(), input.as_deref_mut());
                }
                buffer.clear();
            }
            while self.ends[i].host.poll_event().is_some() {}
        }
    }

    fn send(&mut self, to: usize, mut packet: Vec<u8>, input: Option<&mut Input<'_>>) {
        if self.past.len() < 256 {
            self.past.push((to, packet.clone()));
        }
        if self.strips[to] {
            self.strip(&mut packet);
        }
        let Some(input) = input.filter(|_| self.mangled < MAX_MANGLED) else {
            return self.deliver(to, packet, ONE_WAY);
        };
        let fate = input.byte();
        self.mangled += 1;
        match fate & 15 {
            7 if !self.udp => {
                let place = usize::from(input.half());
                for (i, part) in
                    mangle::cut(&packet, place, self.codepoints).into_iter().enumerate()
                {
                    // One of the two, or both, may be late.
                    let late = u32::from(fate >> (4 + 2 * i) & 3);
                    self.deliver(to, part, ONE_WAY * (1 + late));
                }
            }
            8 | 9 => {}
            10 => {
                self.deliver(to, packet.clone(), ONE_WAY);
                self.deliver(to, packet, ONE_WAY * u32::from(fate >> 4));
            }
            11 | 12 => self.deliver(to, packet, ONE_WAY + ONE_WAY * u32::from(fate >> 4)),
            13 | 14 if self.udp => {}
            13 => {
                let bit = usize::from(input.half()) % (8 * packet.len());
                packet[bit / 8] ^= 1 << (bit % 8);
                self.deliver(to, packet, ONE_WAY);
            }
            14 => {
                packet.truncate(usize::from(input.half()) % packet.len());
                self.deliver(to, packet, ONE_WAY);
            }
            15 => {
                self.strip(&mut packet);
                self.deliver(to, packet, ONE_WAY);
            }
            _ => self.deliver(to, packet, ONE_WAY),
        }
    }

    fn strip(&self, packet: &mut [u8]) {
        if self.udp {
            mangle::strip_segment(packet, self.codepoints);
        } else {
            mangle::strip_packet(packet, self.codepoints);
        }
    }

    fn deliver(&mut self, to: usize, packet: Vec<u8>, delay: Duration) {
        self.packets += 1;
        assert!(self.packets < MAX_PACKETS, "a storm of packets: {}", self.state());
        self.path.insert((self.now + delay, self.packets), (to, packet));
    }
}

impl End {
    /// The application: accepts, writes what is wanted, reads and compares everything.
    fn use_connection(&mut self, side: usize, now: Instant) {
        if self.conn.is_none() {
            self.conn = self.host.accept(PORT);
        }
        let Some(conn) = self.conn else { return };
        if let Some(Err(error)) = self.host.closed(conn) {
            panic!("the path only disturbed, but the connection ended: {error}");
        }
        while self.written < self.wanted {
            let len = (self.wanted - self.written).min(4_096);
            let chunk: Vec<u8> = (0..len).map(|i| pattern(side, self.written + i)).collect();
            match self.host.write(conn, &chunk, now) {
                Ok(0) | Err(_) => break,
                Ok(n) => self.written += n as u64,
            }
        }
        if self.ending && self.written == self.wanted && !self.shut {
            self.shut = self.host.shutdown_write(conn, now).is_ok();
        }
        let mut out = [0; 4_096];
        while let Ok(Some(n)) = self.host.read(conn, &mut out, now)
            && n > 0
        {
            for &byte in &out[..n] {
                assert_eq!(byte, pattern(1 - side, self.read), "byte {} is wrong", self.read);
                self.read += 1;
            }
        }
    }

    /// Everything was sent and everything of the other end was read, its end included.
    fn is_done(&self, other: &End) -> bool {
        assert!(self.read <= other.written, "bytes that nobody wrote");
        let at_end = self.conn.is_some_and(|conn| self.host.at_end(conn));
        self.shut && self.read == other.wanted && at_end
    }
}
