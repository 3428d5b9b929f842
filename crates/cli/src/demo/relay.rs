//! The path: a thread that holds packets back, loses some and passes on the rest.
//!
//! The model is tack-link's, whose events have exact times; the thread wakes for them by `ppoll`,
//! some tens of microseconds late. Lateness does not accumulate, and is reported.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tack_device::{Clock, RecvBatch, SocketConfig, Transmit, UdpSocket};
use tack_link::loss::LossConfig;
use tack_link::queue::Limit;
use tack_link::wired::{DirectionConfig, Wired};
use tack_link::{End, Link, Output, Packet, PacketKind};
use tack_units::{Instant, Rate};

use super::census::{Census, Kind};

/// Headers of IPv4 and UDP, which the path carries too.
const OVERHEAD_BYTES: u32 = 28;
/// Least buffer of the path: some packets must always fit.
const MIN_BUFFER_BYTES: u64 = 32 << 10;
/// How often the thread looks whether it should end.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// Both runs see the same losses as long as they send alike.
const SEED: u64 = 0x7ac4;

/// What the path does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Path {
    /// Rate in each direction.
    pub rate: Rate,
    /// Round-trip time without queueing and serialisation.
    pub rtt: Duration,
    /// Share of packets lost from client to server.
    pub loss: f64,
    /// Share of packets lost from server to client.
    pub ack_loss: f64,
}

impl Path {
    /// The path's buffer: what fills it, once more.
    pub fn buffer_bytes(&self) -> u64 {
        self.rate.bytes_in(self.rtt).max(MIN_BUFFER_BYTES)
    }

    fn direction(&self, loss: f64) -> DirectionConfig {
        let limit = Limit::Bytes(self.buffer_bytes());
        DirectionConfig {
            loss: LossConfig::Bernoulli(loss),
            ..DirectionConfig::clean(self.rate, self.rtt / 2, limit)
        }
    }
}

/// What a relay saw and cost.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) census: Census,
    pub(crate) cpu: Duration,
    /// How late packets left: 99th percentile and greatest, µs.
    pub(crate) late_p99_us: u64,
    pub(crate) late_max_us: u64,
}

/// A relay that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Relay {
    front: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Outcome>>>,
}

impl Relay {
    /// Starts a relay in front of `server`.
    #[expect(clippy::disallowed_methods, reason = "the path must not wait for what it carries")]
    pub(crate) fn start(path: &Path, server: SocketAddr) -> io::Result<Relay> {
        let bind = || UdpSocket::bind(SocketAddr::new(server.ip(), 0), &SocketConfig::default());
        let (front, back) = (bind()?, bind()?);
        let front_address = front.local_addr();
        let link = Wired::new(path.direction(path.loss), path.direction(path.ack_loss), SEED)
            .map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            clock: Clock::start(),
            sockets: [front, back],
            peers: [None, Some(server)],
            link,
            census: Census::default(),
            next_id: 0,
            late_us: Vec::new(),
            stop: stop.clone(),
        };
        let thread = std::thread::spawn(move || worker.run());
        Ok(Relay { front: front_address, stop, thread: Some(thread) })
    }

    /// Where clients send to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.front
    }

    /// Ends the thread and takes its counts.
    pub(crate) fn finish(mut self) -> io::Result<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("a relay is finished once");
        thread.join().map_err(|_| io::Error::other("the relay panicked"))?
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What the thread owns. Index 0 is the client's side, end A of the link; 1 the server's, end B.
struct Worker {
    clock: Clock,
    sockets: [UdpSocket; 2],
    /// Where each side's packets go: the client once it has sent something.
    peers: [Option<SocketAddr>; 2],
    link: Wired,
    census: Census,
    next_id: u64,
    late_us: Vec<u32>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(mut self) -> io::Result<Outcome> {
        #[cfg(target_os = "linux")]
        tack_device::sharpen_timers()?;
        let mut batch = RecvBatch::new();
        while !self.stop.load(Ordering::Relaxed) {
            let due = self.deliver();
            let limit = self.clock.now() + MAX_SLEEP;
            let [front, back] = &self.sockets;
            tack_device::wait(&[front, back], Some(due.unwrap_or(limit).min(limit)), &self.clock)?;
            if let Some(due) = due {
                let now = self.clock.now();
                if now >= due {
                    let late = (now - due).as_micros();
                    self.late_us.push(u32::try_from(late).unwrap_or(u32::MAX));
                }
            }
            for end in [End::A, End::B] {
                self.take_in(end, &mut batch)?;
            }
        }
        Ok(self.outcome())
    }

    /// Passes on what is due. Returns when the next packet will be.
    fn deliver(&mut self) -> Option<Instant> {
        loop {
            let now = self.clock.now();
            match self.link.poll(now) {
                Output::Wait(until) => return until,
                Output::Deliver { end, packet } => {
                    let delay = now - packet.sent_at;
                    self.census.left(end, Kind::of(&packet.bytes), delay, now);
                    let Some(to) = self.peers[index(end)] else { continue };
                    // What the kernel refuses is lost, as on any path.
                    self.sockets[index(end)].send(&Transmit {
                        to,
                        from: None,
                        ecn: None,
                        bytes: &packet.bytes,
                        segment_bytes: packet.bytes.len(),
                    });
                }
            }
        }
    }

    fn take_in(&mut self, end: End, batch: &mut RecvBatch) -> io::Result<()> {
        loop {
            let more = match self.sockets[index(end)].recv(batch) {
                Ok(more) => more,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            };
            let now = self.clock.now();
            for message in batch.messages() {
                if end == End::A {
                    self.peers[0] = Some(message.from);
                }
                for datagram in message {
                    let kind = Kind::of(datagram);
                    self.census.entered(end, kind, now);
                    self.link.offer(end, packet(self.next_id, end, kind, datagram, now), now);
                    self.next_id += 1;
                }
            }
            if !more {
                return Ok(());
            }
        }
    }

    fn outcome(mut self) -> Outcome {
        self.late_us.sort_unstable();
        let at = |q: usize| self.late_us.get(self.late_us.len() * q / 100).copied();
        Outcome {
            census: self.census,
            cpu: tack_device::thread_cpu_time().unwrap_or_default(),
            late_p99_us: at(99).unwrap_or(0).into(),
            late_max_us: self.late_us.last().copied().unwrap_or(0).into(),
        }
    }
}

fn index(end: End) -> usize {
    match end {
        End::A => 0,
        End::B => 1,
    }
}

fn packet(id: u64, end: End, kind: Kind, datagram: &[u8], now: Instant) -> Packet {
    Packet {
        id,
        src: index(end) as u32,
        dst: index(end.other()) as u32,
        ip_bytes: datagram.len() as u32 + OVERHEAD_BYTES,
        kind: if kind == Kind::Data { PacketKind::Data } else { PacketKind::Ack },
        bytes: datagram.to_vec(),
        ecn: 0,
        sent_at: now,
    }
}
