//! Datagrams as pcapng [draft-ietf-opsawg-pcapng]: one interface of raw IP packets, whose headers
//! are made up here from the addresses, since a UDP socket never sees its own; on demand with the
//! secrets of TLS in between, so that the file is all that Wireshark needs.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tack_net::{Direction, Seen, Tap};
use tack_units::Instant;

use super::Output;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;
/// What kind of secrets: lines of a key log of TLS.
const TLS_KEY_LOG: u32 = 0x544c_534b;
/// LINKTYPE_RAW: packets begin with an IP header.
const RAW: u16 = 101;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_FLAGS: u16 = 2;
const UDP: u8 = 17;

/// A file under way.
pub struct Capture<W> {
    out: Output<W>,
    /// The wall clock's time at an endpoint's time zero, by the first packet.
    zero: Option<Duration>,
    /// Packets that wait for secrets, with their times; `None` where there will be none.
    held: Option<VecDeque<(Duration, Vec<u8>)>>,
    held_bytes: usize,
}

/// How long a packet waits: whoever reads the file has to know a secret before the packet from which we
/// found it out.
const HOLD: Duration = Duration::from_millis(50);
/// Most bytes that wait.
const MOST_HELD_BYTES: usize = 8 << 20;

impl<W> fmt::Debug for Capture<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").finish_non_exhaustive()
    }
}

impl<W: Write> Capture<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(mut out: W) -> io::Result<Capture<W>> {
        let mut section = BYTE_ORDER.to_le_bytes().to_vec();
        // Version 1.0, of a length that is not known yet.
        section.extend([1, 0, 0, 0]);
        section.extend((-1_i64).to_le_bytes());
        let mut interface = RAW.to_le_bytes().to_vec();
        interface.extend([0; 6]);
        // Nanoseconds: ten to the minus nine.
        interface.extend(OPTION_TIME_RESOLUTION.to_le_bytes());
        interface.extend([1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
        out.write_all(&block(SECTION_HEADER, &section))?;
        out.write_all(&block(INTERFACE, &interface))?;
        Ok(Capture {
            out: Output { out: Some(out), what: "capture" },
            zero: None,
            held: None,
            held_bytes: 0,
        })
    }

    /// The same, for a file that secrets go into.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn with_secrets(out: W) -> io::Result<Capture<W>> {
        Ok(Capture { held: Some(VecDeque::new()), ..Capture::new(out)? })
    }

    /// Writes a line of a key log: with it, what follows is read by whoever reads the file.
    pub fn secret(&mut self, line: &str) {
        let line = format!("{line}\n");
        let mut body = TLS_KEY_LOG.to_le_bytes().to_vec();
        body.extend((line.len() as u32).to_le_bytes());
        body.extend(line.as_bytes());
        self.out.write(|out| out.write_all(&block(DECRYPTION_SECRETS, &body)));
    }

    /// Writes what waits.
    pub fn flush(&mut self) {
        self.release(Duration::MAX);
    }

    /// Writes what waits from before that time, and what is too much to wait.
    fn release(&mut self, before: Duration) {
        while let Some(held) = &mut self.held
            && let Some((at, _)) = held.front()
            && (*at < before || self.held_bytes > MOST_HELD_BYTES)
            && let Some((_, packet)) = held.pop_front()
        {
            self.held_bytes -= packet.len();
            self.out.write(|out| out.write_all(&packet));
        }
    }
}

impl<W: Write + Send> Tap for Capture<W> {
    fn passed(
        &mut self,
        direction: Direction,
        local: SocketAddr,
        peer: SocketAddr,
        datagram: &[u8],
        at: Instant,
    ) {
        let since = at - Instant::ZERO;
        let zero = *self.zero.get_or_insert_with(|| wall_clock().saturating_sub(since));
        let (from, to, flags) = match direction {
            Direction::Sent => (local, peer, 2_u32),
            Direction::Received => (peer, local, 1),
        };
        let packet = ip_packet(from, to, datagram);
        let packet = enhanced_packet(&packet, flags, zero + since);
        let Some(held) = &mut self.held else {
            return self.out.write(|out| out.write_all(&packet));
        };
        self.held_bytes += packet.len();
        held.push_back((since, packet));
        self.release(since.saturating_sub(HOLD));
    }

    /// What is in datagrams is for whoever reads the file.
    fn seen(&mut self, _peer: SocketAddr, _seen: &Seen<'_>, _at: Instant) {}
}

fn wall_clock() -> Duration {
    let now = clock_gettime(ClockId::Realtime);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = (12 + body.len() + padding) as u32;
    let mut out = kind.to_le_bytes().to_vec();
    out.extend(length.to_le_bytes());
    out.extend_from_slice(body);
    out.extend(std::iter::repeat_n(0, padding));
    out.extend(length.to_le_bytes());
    out
}

fn enhanced_packet(packet: &[u8], flags: u32, time: Duration) -> Vec<u8> {
    let nanos = time.as_nanos() as u64;
    let length = packet.len() as u32;
    let mut body = Vec::with_capacity(packet.len() + 48);
    for word in [0, (nanos >> 32) as u32, nanos as u32, length, length] {
        body.extend(word.to_le_bytes());
    }
    body.extend_from_slice(packet);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(OPTION_FLAGS.to_le_bytes());
    body.extend([4, 0]);
    body.extend(flags.to_le_bytes());
    body.extend([0; 4]);
    block(ENHANCED_PACKET, &body)
}

/// The datagram with headers of UDP and IP in front; checksums are left zero, which for UDP over
/// IPv4 means none, and is what captures of packets that a device checks have.
fn ip_packet(from: SocketAddr, to: SocketAddr, datagram: &[u8]) -> Vec<u8> {
    let udp_bytes = (8 + datagram.len()) as u16;
    let mut udp = Vec::with_capacity(8 + datagram.len());
    for half in [from.port(), to.port(), udp_bytes, 0] {
        udp.extend(half.to_be_bytes());
    }
    udp.extend_from_slice(datagram);
    // Where the socket is bound to any address, the peer's family counts.
    match (from.ip().to_canonical(), to.ip().to_canonical()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => ipv4(from, to, &udp),
        (IpAddr::V6(from), IpAddr::V4(to)) if from.is_unspecified() => {
            ipv4(Ipv4Addr::UNSPECIFIED, to, &udp)
        }
        (IpAddr::V4(from), IpAddr::V6(to)) if to.is_unspecified() => {
            ipv4(from, Ipv4Addr::UNSPECIFIED, &udp)
        }
        (from, to) => ipv6(as_v6(from), as_v6(to), &udp),
    }
}

fn ipv4(from: Ipv4Addr, to: Ipv4Addr, udp: &[u8]) -> Vec<u8> {
    let length = ((20 + udp.len()) as u16).to_be_bytes();
    let mut packet = vec![0x45, 0, length[0], length[1], 0, 0, 0x40, 0, 64, UDP, 0, 0];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend_from_slice(udp);
    packet
}

fn ipv6(from: Ipv6Addr, to: Ipv6Addr, udp: &[u8]) -> Vec<u8> {
    let length = (udp.len() as u16).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], UDP, 64];
    packet.extend(from.octets());
    packet.extend(to.octets());
    packet.extend_from_slice(udp);
    packet
}

fn as_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}
