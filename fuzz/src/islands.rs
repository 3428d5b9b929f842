//! A whole flow with islands beyond every bound: what the receive buffer may keep, what a TACK may
//! list, what a loss IACK may announce, what either half of the mechanism remembers.
//!
//! Segments are tiny and windows are not; which of them are lost is the input's choice. Memory stays
//! within its bounds meanwhile, no byte is ever wrong, and once the path behaves, everything
//! arrives without a storm.

use core::time::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tack::Ranges;
use tack_cc::Algorithm;
use tack_tcp::wire::{Codepoints, Segment};
use tack_tcp::{ConnConfig, ConnId, Ecn, Host, HostConfig, ListenConfig};
use tack_units::Instant;

use super::input::Input;

const PORT: u16 = 7;
const ONE_WAY: Duration = Duration::from_millis(20);
/// The path loses packets for so long, from when the receive buffer was full for the first time; not
/// even a window that collapses meets it for ever.
const DISTURBED: Duration = Duration::from_secs(2);
/// Virtual time by which everything must have arrived.
const PATIENCE: Duration = Duration::from_secs(60);
/// Islands that the smallest receive buffer may have, and bytes of buffer for each beyond.
const LEAST_ISLANDS: usize = 256;
const BYTES_PER_ISLAND: usize = 1_024;

/// Sizes and the controller; then, again and again, which of eight packets are lost there and back,
/// and for how many packets. Whether there were more islands than the receive buffer may keep.
pub fn islands(data: &[u8]) -> bool {
    let mut flow = Flow::new(Input::new(data));
    flow.run();
    flow.most_islands > flow.bound
}

/// One direction's losses.
#[derive(Default)]
struct Losses {
    sent: u64,
    /// Bit `n % 8` set: packet `n` is lost.
    mask: u8,
    left: u32,
}

struct Flow<'a> {
    input: Input<'a>,
    hosts: [Host; 2],
    client: ConnId,
    server: Option<ConnId>,
    now: Instant,
    path: VecDeque<(Instant, usize, Vec<u8>)>,
    losses: [Losses; 2],
    disturbed_from: Option<Instant>,
    packets: u64,
    most_packets: u64,
    len: u64,
    written: u64,
    read: u64,
    recv_buffer: usize,
    /// All that was delivered above what was read, by stream position.
    delivered: Ranges,
    most_islands: usize,
    bound: usize,
}

fn address(end: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1 + end as u8)), 7_000)
}

fn byte_at(at: u64) -> u8 {
    (at ^ at >> 7 ^ at >> 15).wrapping_mul(151) as u8
}

impl<'a> Flow<'a> {
    fn new(mut input: Input<'a>) -> Flow<'a> {
        let choice = input.byte();
        let recv_buffer = (32 << 10) << (choice & 7).min(5);
        let mss = 88 + u16::from(input.byte());
        let conn = ConnConfig::default().with(|it| {
            it.congestion = Some(if choice & 8 == 0 { Algorithm::Bbr } else { Algorithm::Cubic });
            it.mss = Some(mss);
            it.recv_buffer = recv_buffer;
            it.initial_recv_buffer = recv_buffer;
            it.initial_seq = Some(0);
            it.first_pkt_seq = if choice & 16 == 0 { 1 } else { u32::MAX - 300 };
            it.probe_mtu = false;
        });
        let host = |i: u8| Host::new(HostConfig::default(), [i; 32], Instant::ZERO);
        let mut hosts = [host(1), host(2)];
        let listen = ListenConfig::default().with(|it| it.conn = conn.clone());
        hosts[1].listen(PORT, listen).expect("nobody else listens");
        let remote = tack_tcp::Remote { path: address(1), port: PORT };
        let client = hosts[0].connect(remote, conn, Instant::ZERO).expect("the first connection");
        let len = 4 * recv_buffer as u64;
        Flow {
            input,
            hosts,
            client,
            server: None,
            now: Instant::ZERO,
            path: VecDeque::new(),
            losses: Default::default(),
            disturbed_from: None,
            packets: 0,
            most_packets: 20_000 + 40 * len / u64::from(mss - 60),
            len,
            written: 0,
            read: 0,
            recv_buffer,
            delivered: Ranges::new(),
            most_islands: 0,
            bound: (recv_buffer / 4 * 5 / BYTES_PER_ISLAND).max(LEAST_ISLANDS),
        }
    }

    fn run(&mut self) {
        loop {
            self.applications();
            self.transmit();
            if self.read == self.len {
                return;
            }
            let [a, b] = &self.hosts;
            let arrival = self.path.front().map(|(at, ..)| *at);
            let next = [arrival, a.deadline(), b.deadline()].into_iter().flatten().min();
            let next = next.unwrap_or_else(|| panic!("stuck after {} of {}", self.read, self.len));
            self.now = self.now.max(next);
            assert!(self.now < Instant::ZERO + PATIENCE, "{} of {} bytes", self.read, self.len);
            self.happen();
        }
    }

    /// Whatever is due at `now`.
    fn happen(&mut self) {
        while let Some((_, to, packet)) = self.path.pop_front_if(|(at, ..)| *at <= self.now) {
            if to == 1 {
                self.record(&packet);
            }
            self.hosts[to].handle(address(1 - to), &packet, packet.len(), Ecn::NotEct, self.now);
        }
        for host in &mut self.hosts {
            if host.deadline().is_some_and(|deadline| deadline <= self.now) {
                host.handle_timeout(self.now);
            }
        }
    }

    /// The islands there would be without any bound.
    fn record(&mut self, packet: &[u8]) {
        let Ok(segment) = Segment::parse_datagram(packet, Codepoints::Experimental) else { return };
        if segment.header.options.ack_type.is_none() && !segment.payload.is_empty() {
            let start = u64::from(segment.header.seq.0) - 1;
            self.delivered.insert(start..start + segment.payload.len() as u64);
            self.delivered.remove_below(self.read);
            self.most_islands = self.most_islands.max(self.delivered.len());
        }
    }

    fn transmit(&mut self) {
        for from in 0..2 {
            let mut buffer = Vec::new();
            while let Some(transmit) =
                self.hosts[from].poll_transmit(&mut buffer, 64 << 10, self.now)
            {
                for packet in buffer.chunks(transmit.segment_size.max(1)) {
                    self.send(from, packet);
                }
                buffer.clear();
            }
            while self.hosts[from].poll_event().is_some() {}
        }
    }

    fn send(&mut self, from: usize, packet: &[u8]) {
        self.packets += 1;
        assert!(self.packets < self.most_packets, "a storm of packets: {}", self.packets);
        let losses = &mut self.losses[from];
        losses.sent += 1;
        if self.disturbed_from.is_some_and(|from| self.now < from + DISTURBED) {
            if losses.left == 0 {
                // One of eight passes at least, or timers alone would tell.
                losses.mask = self.input.byte() & 0x7f;
                losses.left = 1 + (u32::from(self.input.byte()) << (self.input.byte() & 7));
            }
            losses.left -= 1;
            if losses.mask >> (losses.sent % 8) & 1 == 1 {
                return;
            }
        }
        self.path.push_back((self.now + ONE_WAY, 1 - from, packet.to_vec()));
    }

    /// One writes all it has to, one reads and compares.
    fn applications(&mut self) {
        while self.written < self.len {
            let len = (self.len - self.written).min(8_192);
            let chunk: Vec<u8> = (0..len).map(|i| byte_at(self.written + i)).collect();
            match self.hosts[0].write(self.client, &chunk, self.now) {
                Ok(n) if n > 0 => self.written += n as u64,
                _ => break,
            }
        }
        if self.server.is_none() {
            self.server = self.hosts[1].accept(PORT);
        }
        let Some(server) = self.server else { return };
        let memory = self.hosts[1].info(server).expect("open").buffer_memory;
        // A quarter more for what waits for TACKs, two numbers per island, and a little.
        assert!(memory <= self.recv_buffer / 4 * 5 + 32 * self.bound + 4_096, "{memory} bytes");
        if self.read >= self.recv_buffer as u64 {
            self.disturbed_from.get_or_insert(self.now);
        }
        let mut out = [0; 8_192];
        while let Ok(Some(n)) = self.hosts[1].read(server, &mut out, self.now)
            && n > 0
        {
            for &byte in &out[..n] {
                assert_eq!(byte, byte_at(self.read), "byte {} is wrong", self.read);
                self.read += 1;
            }
        }
    }
}
