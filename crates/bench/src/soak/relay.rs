//! A path that loses, doubles, reorders and damages, behind a NAT that rebinds.

#![expect(clippy::disallowed_methods, reason = "it stands between real sockets, in real time")]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tack_device::Clock;
use tack_units::Instant;

/// Clients that are remembered: those of long ago are not there any more.
const MAX_CLIENTS: usize = 2_000;

/// How long it rests at most, and at least: whoever is late may be a little later.
const LOOK: Duration = Duration::from_millis(20);
const LEAST_REST: Duration = Duration::from_millis(1);

/// What the path does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Faults {
    pub(super) loss: f64,
    pub(super) damage: f64,
    pub(super) rebind: Duration,
    pub(super) seed: u64,
}

/// What the path has done to datagrams so far.
#[derive(Debug, Default)]
pub(super) struct Fate {
    came: AtomicU64,
    lost: AtomicU64,
    doubled: AtomicU64,
    late: AtomicU64,
    damaged: AtomicU64,
    rebound: AtomicU64,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fate { came, lost, doubled, late, damaged, rebound } = self;
        let [came, lost, doubled] = [came, lost, doubled].map(|n| n.load(Relaxed));
        let [late, damaged, rebound] = [late, damaged, rebound].map(|n| n.load(Relaxed));
        write!(f, "{came} datagrams, {lost} lost, {doubled} doubled, {late} late, ")?;
        write!(f, "{damaged} damaged; {rebound} times all had new ports")
    }
}

/// Runs until it is dropped.
pub(super) struct Relay {
    address: SocketAddr,
    fate: Arc<Fate>,
    over: Arc<AtomicBool>,
}

impl Relay {
    pub(super) fn start(server: SocketAddr, faults: Faults) -> Result<Relay> {
        let front = nonblocking()?;
        let (address, over) = (front.local_addr()?, Arc::new(AtomicBool::new(false)));
        let (until, fate) = (over.clone(), Arc::new(Fate::default()));
        let told = fate.clone();
        thread::Builder::new().name("relay".into()).spawn(move || {
            let clock = Clock::start();
            let mut path = Path {
                front,
                server,
                backs: BTreeMap::new(),
                waiting: BinaryHeap::new(),
                fate,
                rebinds: clock.now() + faults.rebind,
                rng: Pcg64::seed_from_u64(faults.seed),
                faults,
                buffer: vec![0; 1 << 16],
            };
            while !until.load(Relaxed) {
                path.carry(&clock);
            }
        })?;
        Ok(Relay { address, fate: told, over })
    }

    /// Counts what it does.
    pub(super) fn fate(&self) -> Arc<Fate> {
        self.fate.clone()
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
    }
}

fn nonblocking() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// When, in which order, whose, whether towards the server, and what.
type Late = Reverse<(Instant, u64, SocketAddr, bool, Vec<u8>)>;

struct Path {
    front: UdpSocket,
    server: SocketAddr,
    /// Each client's socket towards the server.
    backs: BTreeMap<SocketAddr, UdpSocket>,
    waiting: BinaryHeap<Late>,
    fate: Arc<Fate>,
    rebinds: Instant,
    rng: Pcg64,
    faults: Faults,
    buffer: Vec<u8>,
}

impl Path {
    /// Waits a moment for datagrams, and carries them.
    fn carry(&mut self, clock: &Clock) {
        if clock.now() >= self.rebinds {
            self.rebinds = clock.now() + self.faults.rebind;
            self.backs.clear();
            self.fate.rebound.fetch_add(1, Relaxed);
        }
        let ready = self.ready(clock.now());
        let (now, mut buffer) = (clock.now(), core::mem::take(&mut self.buffer));
        for _ in 0..256 {
            let Ok((n, client)) = self.front.recv_from(&mut buffer) else { break };
            self.meets(client, true, &buffer[..n], now);
        }
        for client in ready {
            for _ in 0..64 {
                let Some(back) = self.backs.get(&client) else { break };
                let Ok((n, _)) = back.recv_from(&mut buffer) else { break };
                self.meets(client, false, &buffer[..n], now);
            }
        }
        self.buffer = buffer;
        while self.waiting.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, client, up, datagram))) = self.waiting.pop() else { break };
            self.pass(client, up, &datagram);
        }
    }

    /// The clients to whom something came back, after 20 ms at the latest, or when one that is late is
    /// due.
    fn ready(&self, now: Instant) -> Vec<SocketAddr> {
        let sockets = core::iter::once(&self.front).chain(self.backs.values());
        let mut polled: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let due = self.waiting.peek().map(|Reverse((at, ..))| at.saturating_since(now));
        let rest = due.unwrap_or(LOOK).clamp(LEAST_REST, LOOK);
        let moment = Timespec { tv_sec: 0, tv_nsec: i64::from(rest.subsec_nanos()) };
        if poll(&mut polled, Some(&moment)).is_err() {
            return Vec::new();
        }
        let came = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let backs = self.backs.keys().zip(&polled[1..]);
        backs.filter(|(_, fd)| came(fd)).map(|(client, _)| *client).collect()
    }

    /// A datagram meets its fate.
    fn meets(&mut self, client: SocketAddr, up: bool, datagram: &[u8], now: Instant) {
        let Faults { loss, damage, .. } = self.faults;
        let number = self.fate.came.fetch_add(1, Relaxed);
        let count = |what: &AtomicU64| _ = what.fetch_add(1, Relaxed);
        if self.rng.random_bool(loss) {
            return count(&self.fate.lost);
        }
        let mut datagram = datagram.to_vec();
        if self.rng.random_bool(damage) && !datagram.is_empty() {
            count(&self.fate.damaged);
            let at = self.rng.random_range(0..datagram.len());
            datagram[at] ^= 1 << self.rng.random_range(0..8);
        }
        if self.rng.random_bool(loss / 2.0) {
            count(&self.fate.doubled);
            self.pass(client, up, &datagram);
        }
        if self.rng.random_bool((2.0 * loss).min(1.0)) {
            count(&self.fate.late);
            let late = now + Duration::from_micros(self.rng.random_range(100..20_000));
            self.waiting.push(Reverse((late, number, client, up, datagram)));
        } else {
            self.pass(client, up, &datagram);
        }
    }

    fn pass(&mut self, client: SocketAddr, up: bool, datagram: &[u8]) {
        if !up {
            let _full = self.front.send_to(datagram, client);
            return;
        }
        if !self.backs.contains_key(&client) {
            if self.backs.len() >= MAX_CLIENTS {
                self.backs.clear();
            }
            let Ok(back) = nonblocking() else { return };
            self.backs.insert(client, back);
        }
        if let Some(back) = self.backs.get(&client) {
            let _full = back.send_to(datagram, self.server);
        }
    }
}
