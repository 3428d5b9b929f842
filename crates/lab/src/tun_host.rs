//! Our host at an end of an emulated path.
//!
//! ```text
//! App ── Host ── TUN ── kernel forwards ── TUN ── path
//! ```
//!
//! A thread per host, sans-IO stack inside: packets are taken one by one and answered one by one,
//! as the kernel does without receive offload.

use core::time::Duration;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use tack_device::{Clock, MAX_PACKET_BYTES, Prefix, Tun, TunConfig, sharpen_timers, wait};
use tack_emu::Emulation;
use tack_link::{End, Link};
use tack_tcp::{ConnId, Ecn, Encapsulation, Host, HostConfig};
use tack_units::Instant;

/// Most packets taken in before what is due is sent.
const MAX_BATCH: usize = 64;
/// How often a thread looks whether it should end.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// How far an application writes ahead of what was sent.
const WRITE_AHEAD_BYTES: u64 = 256 << 10;

/// What uses the host.
pub(crate) trait App {
    /// Anything may have happened: takes the host's events, reads and writes.
    fn serve(&mut self, host: &mut Host, now: Instant);

    /// When it has something to do of its own.
    fn next_at(&self) -> Option<Instant> {
        None
    }
}

/// Our host's address behind the kernel at `end`.
pub(crate) fn address(end: End) -> IpAddr {
    addresses(end).0.into()
}

/// Our host's address behind the kernel at `end`, and the kernel's on the way there.
fn addresses(end: End) -> (Ipv4Addr, Ipv4Addr) {
    let net = if end == End::A { 1 } else { 2 };
    (Ipv4Addr::new(10, 78, net, 2), Ipv4Addr::new(10, 78, net, 1))
}

/// A host, its device and the clock.
pub(crate) struct TunHost {
    pub(crate) host: Host,
    tun: Tun,
    clock: Clock,
}

impl TunHost {
    /// A host behind the kernel at `end`.
    pub(crate) fn open<L>(emulation: &Emulation<L>, end: End, seed: u64) -> Result<TunHost>
    where
        L: Link + Send + 'static,
    {
        let (ours, kernel) = addresses(end);
        let config = TunConfig::default().with(|it| {
            it.addresses = Prefix::new(kernel.into(), 24).into_iter().collect();
            it.queue_packets = 10_000;
        });
        let tun = emulation.netns(end).enter(|| Tun::open(&config))??;
        let clock = emulation.clock();
        let config = HostConfig::default()
            .with(|it| it.encapsulation = Encapsulation::Ip { local: vec![IpAddr::V4(ours)] });
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&seed.to_le_bytes());
        secret[8] = ours.octets()[2];
        Ok(TunHost { host: Host::new(config, secret, clock.now()), tun, clock })
    }

    /// Runs until told to stop.
    pub(crate) fn run(mut self, mut app: impl App, stop: &AtomicBool) -> io::Result<()> {
        sharpen_timers()?;
        let (mut packet, mut burst) = (vec![0; MAX_PACKET_BYTES], Vec::new());
        while !stop.load(Ordering::Relaxed) {
            let more = self.take_in(&mut app, &mut packet, &mut burst)?;
            let now = self.clock.now();
            if self.host.deadline().is_some_and(|at| at <= now) {
                self.host.handle_timeout(now);
            }
            app.serve(&mut self.host, now);
            self.put_out(&mut app, &mut burst, now);
            if !more {
                self.sleep(app.next_at())?;
            }
        }
        Ok(())
    }

    fn sleep(&self, next_at: Option<Instant>) -> io::Result<()> {
        let limit = self.clock.now() + MAX_SLEEP;
        let until = self.host.deadline().into_iter().chain(next_at).fold(limit, Instant::min);
        wait(&[&self.tun], Some(until), &self.clock)
    }

    /// Takes packets in, each with its answer before the next; whether more may be waiting.
    fn take_in(
        &mut self,
        app: &mut impl App,
        packet: &mut [u8],
        burst: &mut Vec<u8>,
    ) -> io::Result<bool> {
        // Over IP, the packet itself tells.
        let nobody = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        for _ in 0..MAX_BATCH {
            let len = match self.tun.recv(packet) {
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            };
            let now = self.clock.now();
            self.host.handle(nobody, &packet[..len], len, Ecn::NotEct, now);
            app.serve(&mut self.host, now);
            self.put_out(app, burst, now);
        }
        Ok(true)
    }

    fn put_out(&mut self, app: &mut impl App, burst: &mut Vec<u8>, now: Instant) {
        loop {
            burst.clear();
            let Some(transmit) = self.host.poll_transmit(burst, MAX_PACKET_BYTES - 1, now) else {
                return;
            };
            for bytes in burst.chunks(transmit.segment_size) {
                // What the kernel does not take is lost, as on any device.
                let _ = self.tun.send(bytes);
            }
            app.serve(&mut self.host, now);
        }
    }
}

/// Writes as far ahead as an application would.
pub(crate) fn write(host: &mut Host, conn: ConnId, now: Instant) {
    // In the program's file, so no larger than it needs to be.
    static CHUNK: [u8; 4 << 10] = [0x5a; 4 << 10];
    while host.unsent(conn) < WRITE_AHEAD_BYTES {
        match host.write(conn, &CHUNK, now) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
    }
}

/// Reads what there is; how many bytes.
pub(crate) fn read(host: &mut Host, conn: ConnId, now: Instant) -> u64 {
    let (a, b) = host.readable(conn);
    let bytes = a.len() + b.len();
    if bytes > 0 {
        host.consume(conn, bytes, now);
    }
    bytes as u64
}
