//! One bulk transfer from our host to our host, each on a TUN in its namespace.
//!
//! A thread per host, sans-IO stack inside: packets are taken one by one and answered one by one,
//! as the kernel does without receive offload.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tack_cc::Pacing;
use tack_device::{Clock, MAX_PACKET_BYTES, Prefix, Tun, TunConfig, sharpen_timers, wait};
use tack_emu::Emulation;
use tack_link::{End, Link};
use tack_tcp::{ConnConfig, ConnId, Ecn, Encapsulation, EventKind, Host, HostConfig, ListenConfig};
use tack_units::Instant;

use super::cell::Controller;

const PORT: u16 = 5_001;
/// As much as the kernel's side may buffer.
const BUFFER_BYTES: usize = 64 << 20;
/// How far the application writes ahead of what was sent.
const WRITE_AHEAD_BYTES: u64 = 256 << 10;
/// Most packets taken in before what is due is sent.
const MAX_BATCH: usize = 64;
/// How often a thread looks whether it should end.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// Our host's address behind the kernel at `end`, and the kernel's on the way there.
fn addresses(end: End) -> (Ipv4Addr, Ipv4Addr) {
    let net = if end == End::A { 1 } else { 2 };
    (Ipv4Addr::new(10, 78, net, 2), Ipv4Addr::new(10, 78, net, 1))
}

/// A transfer of our TCP, as much as the path takes.
pub(super) struct Ours {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Ours {
    /// Connects from end A to end B and begins to send.
    pub(super) fn start<L>(emulation: &Emulation<L>, cc: Controller, seed: u64) -> Result<Ours>
    where
        L: Link + Send + 'static,
    {
        let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut ours = Ours { received, stop, threads: Vec::new() };
        // The listener first: the other side's SYN must not come to a host that is not there.
        for end in [End::B, End::A] {
            let mut side = ours.side(emulation, end, seed)?;
            match end {
                End::B => side.listen(cc)?,
                End::A => side.connect(cc)?,
            }
            let name = if end == End::A { "our-send" } else { "our-recv" };
            ours.threads.push(Builder::new().name(name.to_owned()).spawn(move || side.run())?);
        }
        Ok(ours)
    }

    fn side<L>(&self, emulation: &Emulation<L>, end: End, seed: u64) -> Result<Side>
    where
        L: Link + Send + 'static,
    {
        let (ours, kernel) = addresses(end);
        let config = TunConfig {
            addresses: Prefix::new(kernel.into(), 24).into_iter().collect(),
            queue_packets: 10_000,
            ..TunConfig::default()
        };
        let tun = emulation.netns(end).enter(|| Tun::open(&config))??;
        let clock = emulation.clock();
        let config = HostConfig {
            encapsulation: Encapsulation::Ip { local: vec![IpAddr::V4(ours)] },
            ..HostConfig::default()
        };
        let mut secret = [0; 32];
        secret[..8].copy_from_slice(&seed.to_le_bytes());
        secret[8] = ours.octets()[2];
        let host = Host::new(config, secret, clock.now());
        let (received, stop) = (Arc::clone(&self.received), Arc::clone(&self.stop));
        Ok(Side { host, tun, clock, conn: None, sends: end == End::A, received, stop })
    }

    /// Bytes the receiving application has read.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// As the kernel does: no TACK, an acknowledgment per two segments, no pacing where the controller
/// does not think in rates.
pub(super) fn conn_config(cc: Controller) -> ConnConfig {
    ConnConfig {
        congestion: Some(cc.algorithm()),
        pacing: Pacing::OnlyIfRateBased,
        send_buffer: BUFFER_BYTES,
        recv_buffer: BUFFER_BYTES,
        ..ConnConfig::plain()
    }
}

/// What a thread owns.
struct Side {
    host: Host,
    tun: Tun,
    clock: Clock,
    conn: Option<ConnId>,
    sends: bool,
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Side {
    fn listen(&mut self, cc: Controller) -> Result<()> {
        let config = ListenConfig { conn: conn_config(cc), ..ListenConfig::default() };
        self.host.listen(PORT, config).context("our host cannot listen")
    }

    fn connect(&mut self, cc: Controller) -> Result<()> {
        let to = SocketAddr::new(addresses(End::B).0.into(), PORT);
        let now = self.clock.now();
        match self.host.connect(to, conn_config(cc), now) {
            Ok(conn) => self.conn = Some(conn),
            Err(e) => bail!("our host cannot connect: {e}"),
        }
        Ok(())
    }

    fn run(mut self) -> io::Result<()> {
        sharpen_timers()?;
        let (mut packet, mut burst) = (vec![0; MAX_PACKET_BYTES], Vec::new());
        while !self.stop.load(Ordering::Relaxed) {
            let more = self.take_in(&mut packet, &mut burst)?;
            let now = self.clock.now();
            if self.host.deadline().is_some_and(|at| at <= now) {
                self.host.handle_timeout(now);
            }
            self.serve(now);
            self.put_out(&mut burst, now);
            if !more {
                self.sleep()?;
            }
        }
        Ok(())
    }

    fn sleep(&self) -> io::Result<()> {
        let limit = self.clock.now() + MAX_SLEEP;
        let until = self.host.deadline().map_or(limit, |at| at.min(limit));
        wait(&[&self.tun], Some(until), &self.clock)
    }

    /// Takes packets in, each with its answer before the next; whether more may be waiting.
    fn take_in(&mut self, packet: &mut [u8], burst: &mut Vec<u8>) -> io::Result<bool> {
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
            self.serve(now);
            self.put_out(burst, now);
        }
        Ok(true)
    }

    fn put_out(&mut self, burst: &mut Vec<u8>, now: Instant) {
        loop {
            burst.clear();
            let Some(transmit) = self.host.poll_transmit(burst, MAX_PACKET_BYTES - 1, now) else {
                return;
            };
            for bytes in burst.chunks(transmit.segment_size) {
                // What the kernel does not take is lost, as on any device.
                let _ = self.tun.send(bytes);
            }
            self.write(now);
        }
    }

    /// The application, after anything happened.
    fn serve(&mut self, now: Instant) {
        while let Some(event) = self.host.poll_event() {
            if let EventKind::Accepted { listener } = event.kind {
                self.conn = self.host.accept(listener);
            }
        }
        if let (false, Some(conn)) = (self.sends, self.conn) {
            let (a, b) = self.host.readable(conn);
            let bytes = a.len() + b.len();
            if bytes > 0 {
                self.host.consume(conn, bytes, now);
                self.received.fetch_add(bytes as u64, Ordering::Relaxed);
            }
        }
        self.write(now);
    }

    fn write(&mut self, now: Instant) {
        static CHUNK: [u8; 64 << 10] = [0x5a; 64 << 10];
        let (true, Some(conn)) = (self.sends, self.conn) else { return };
        while self.host.unsent(conn) < WRITE_AHEAD_BYTES {
            match self.host.write(conn, &CHUNK, now) {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}
