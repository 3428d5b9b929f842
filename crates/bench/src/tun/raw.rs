//! Super-packets from device to device without TCP: the limit of anything that uses them.
//!
//! The sender keeps a window of them on the way and is told every few how many came, so that none
//! is lost in a queue; payload is copied from one warm buffer and not looked at.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tack_device::{Checksum, Clock, Gso, GsoKind, MAX_PACKET_BYTES, Offload, Tun, wait};
use tack_net::wire::ip::Ecn;
use tack_net::wire::{checksum, ipv4};

/// A full Ethernet segment's text with timestamps, and as many as fit an IP packet.
const SEGMENT_BYTES: usize = 1_448;
const SEGMENTS: usize = 44;
const TEXT_BYTES: usize = SEGMENT_BYTES * SEGMENTS;
const HEADER_BYTES: usize = 40;
/// Super-packets on the way at most: 3 MB.
const WINDOW: u32 = 48;
/// Super-packets per credit.
const CREDIT_EVERY: u32 = 4;
/// Nothing is lost, so nothing takes this long.
const PATIENCE: Duration = Duration::from_secs(5);

const ACK: u8 = 0x10;
const FIN: u8 = 0x01;

/// Headers of a packet with `text` bytes; `number` travels as the sequence number.
fn headers(src: Ipv4Addr, dst: Ipv4Addr, number: u32, flags: u8, text: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + text);
    let ip = ipv4::Header {
        src,
        dst,
        protocol: checksum::PROTOCOL_TCP,
        ttl: 64,
        dscp: 0,
        ecn: Ecn::NotEct,
        identification: 0,
        dont_fragment: true,
    };
    ip.emit(20 + text, &mut out).expect("44 segments fit");
    let mut tcp = [0; 20];
    tcp[..4].copy_from_slice(&[0x1b, 0x58, 0x1b, 0x58]);
    tcp[4..8].copy_from_slice(&number.to_be_bytes());
    tcp[12] = 5 << 4;
    tcp[13] = flags;
    checksum::fill_tcp_partial(src.into(), dst.into(), 20 + text, &mut tcp);
    out.extend_from_slice(&tcp);
    out
}

const PARTIAL: Checksum = Checksum::Partial { start: 20, offset: 16 };

/// The number and flags of a packet of ours; `None` for others'.
fn read(packet: &[u8], from: Ipv4Addr) -> Option<(u32, u8)> {
    let ours = packet.len() >= HEADER_BYTES && packet[0] == 0x45 && packet[9] == 6;
    let number = packet.get(24..28)?.try_into().ok()?;
    (ours && packet[12..16] == from.octets()).then(|| (u32::from_be_bytes(number), packet[33]))
}

/// Receives until the end; bytes of text and the time from the first to the last.
pub(super) fn receive(tun: &Tun, here: Ipv4Addr, there: Ipv4Addr) -> Result<(u64, Duration)> {
    let clock = Clock::start();
    let mut packet = vec![0; MAX_PACKET_BYTES];
    let (mut count, mut bytes, mut first) = (0u32, 0u64, None);
    loop {
        let n = next(tun, &mut packet, &clock).context("waiting for super-packets")?;
        let Some((_, flags)) = read(&packet[..n], there) else { continue };
        let now = clock.now();
        let first = *first.get_or_insert(now);
        if n > HEADER_BYTES {
            count = count.wrapping_add(1);
            bytes += (n - HEADER_BYTES) as u64;
        }
        let end = flags & FIN != 0;
        if end || count.is_multiple_of(CREDIT_EVERY) {
            let credit = headers(here, there, count, ACK | (flags & FIN), 0);
            tun.send_super(&[&credit], &Offload { gso: None, checksum: PARTIAL })?;
        }
        if end {
            return Ok((bytes, now - first));
        }
    }
}

/// Sends for `duration` and waits until all came; bytes of text.
pub(super) fn send(
    tun: &Tun,
    here: Ipv4Addr,
    there: Ipv4Addr,
    duration: Duration,
) -> Result<(u64, Duration)> {
    let clock = Clock::start();
    let start = clock.now();
    let text = vec![0x5a; TEXT_BYTES];
    let gso = Gso {
        kind: GsoKind::TcpV4,
        segment_bytes: SEGMENT_BYTES as u16,
        header_bytes: HEADER_BYTES as u16,
        cwr: false,
    };
    let offload = Offload { gso: Some(gso), checksum: PARTIAL };
    let mut packet = vec![0; MAX_PACKET_BYTES];
    let (mut sent, mut came) = (0u32, 0u32);
    while clock.now() < start + duration {
        while sent.wrapping_sub(came) < WINDOW {
            let header = headers(here, there, sent, ACK, TEXT_BYTES);
            tun.send_super(&[&header, &text], &offload)?;
            sent = sent.wrapping_add(1);
        }
        let n = next(tun, &mut packet, &clock).context("waiting for credit")?;
        if let Some((number, _)) = read(&packet[..n], there) {
            came = number;
        }
    }
    let end = headers(here, there, sent, ACK | FIN, 0);
    tun.send_super(&[&end], &Offload { gso: None, checksum: PARTIAL })?;
    loop {
        let n = next(tun, &mut packet, &clock).context("waiting for the end")?;
        if let Some((number, flags)) = read(&packet[..n], there)
            && flags & FIN != 0
        {
            if number != sent {
                bail!("{sent} super-packets were sent, {number} came");
            }
            return Ok((u64::from(sent) * TEXT_BYTES as u64, clock.now() - start));
        }
    }
}

/// The next packet's length.
fn next(tun: &Tun, packet: &mut [u8], clock: &Clock) -> Result<usize> {
    let limit = clock.now() + PATIENCE;
    loop {
        match tun.recv_super(packet) {
            Ok((n, _)) => return Ok(n),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if clock.now() >= limit {
                    bail!("nothing came for {PATIENCE:?}");
                }
                wait(&[tun], Some(limit), clock)?;
            }
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {}
            Err(e) => return Err(e.into()),
        }
    }
}
