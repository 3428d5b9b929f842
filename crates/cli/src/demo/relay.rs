//! A thread that takes datagrams in, holds them back as the path would, and passes on the rest.
//!
//! The path's events have exact times; the thread wakes for them by `ppoll`, some tens of
//! microseconds late. Lateness does not accumulate, and is reported.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tack_device::{Clock, RecvBatch, SendOutcome, SocketConfig, Transmit, UdpSocket};
use tack_emu::Lateness;
use tack_link::End;

use super::census::Census;
use super::emulator::Emulator;
use super::path::{Air, Path, RECEIVER, SENDER};

/// How often the thread looks whether it should end.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// What a relay saw and cost.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) census: Census,
    pub(crate) lateness: Lateness,
    /// The air's account; a wire has none.
    pub(crate) air: Option<Air>,
    pub(crate) cpu: Duration,
    /// Datagrams that the path delivered and the kernel did not take.
    pub(crate) unsent: u64,
}

/// A relay that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Relay {
    front: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Outcome>>>,
}

impl Relay {
    /// Starts a relay in front of `server`, the file's receiver.
    #[expect(clippy::disallowed_methods, reason = "the path must not wait for what it carries")]
    pub(crate) fn start(path: &Path, server: SocketAddr, clock: Clock) -> io::Result<Relay> {
        let bind = || UdpSocket::bind(SocketAddr::new(server.ip(), 0), &SocketConfig::default());
        let (front, back) = (bind()?, bind()?);
        let front_address = front.local_addr();
        let stop = Arc::new(AtomicBool::new(false));
        let worker = Worker {
            clock,
            sides: [Side::new(front, None), Side::new(back, Some(server))],
            emulator: Emulator::new(path.build()?),
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

/// What the thread owns.
struct Worker {
    clock: Clock,
    /// The sender's and the receiver's side; see [`index`].
    sides: [Side; 2],
    emulator: Emulator,
    stop: Arc<AtomicBool>,
}

impl Worker {
    fn run(mut self) -> io::Result<Outcome> {
        #[cfg(target_os = "linux")]
        tack_device::sharpen_timers()?;
        let mut batch = RecvBatch::new();
        while !self.stop.load(Ordering::Relaxed) {
            let limit = self.clock.now() + MAX_SLEEP;
            let until = self.emulator.next_at().unwrap_or(limit).min(limit);
            let [front, back] = &self.sides;
            tack_device::wait(&[&front.socket, &back.socket], Some(until), &self.clock)?;
            for end in [SENDER, RECEIVER] {
                self.take_in(end, &mut batch)?;
            }
            let sides = &mut self.sides;
            self.emulator.release(self.clock.now(), |end, bytes| sides[index(end)].push(bytes));
            sides.iter_mut().for_each(Side::flush);
        }
        let (census, lateness, air) = self.emulator.finish();
        let cpu = tack_device::thread_cpu_time().unwrap_or_default();
        let unsent = self.sides.iter().map(|side| side.unsent).sum();
        Ok(Outcome { census, lateness, air, cpu, unsent })
    }

    fn take_in(&mut self, end: End, batch: &mut RecvBatch) -> io::Result<()> {
        let side = &mut self.sides[index(end)];
        loop {
            let more = match side.socket.recv(batch) {
                Ok(more) => more,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            };
            let now = self.clock.now();
            for message in batch.messages() {
                // The sender is known once it has sent something.
                side.peer.get_or_insert(message.from);
                message.for_each(|datagram| self.emulator.arrive(end, datagram, now));
            }
            if !more {
                return Ok(());
            }
        }
    }
}

/// The socket towards one end, and a burst on its way out: what leaves the air together is handed
/// to the kernel together.
struct Side {
    socket: UdpSocket,
    peer: Option<SocketAddr>,
    burst: Burst,
    unsent: u64,
}

impl Side {
    fn new(socket: UdpSocket, peer: Option<SocketAddr>) -> Side {
        Side { socket, peer, burst: Burst::default(), unsent: 0 }
    }

    fn push(&mut self, datagram: &[u8]) {
        if !self.burst.push(datagram) {
            self.flush();
            self.burst.push(datagram);
        }
    }

    fn flush(&mut self) {
        let Burst { bytes, segment_bytes, .. } = &self.burst;
        let (len, segment_bytes) = (bytes.len(), *segment_bytes);
        if let (Some(to), 1..) = (self.peer, len) {
            let burst = Transmit { to, from: None, ecn: None, bytes, segment_bytes };
            let taken = match self.socket.send(&burst) {
                SendOutcome::Sent => len,
                SendOutcome::Blocked { offset } => offset,
                SendOutcome::Lost | SendOutcome::TooBig => 0,
            };
            self.unsent += (len - taken).div_ceil(segment_bytes) as u64;
        }
        self.burst.clear();
    }
}

/// Datagrams that can leave in one system call: all as long as the first, the last not longer.
#[derive(Debug, Default)]
struct Burst {
    bytes: Vec<u8>,
    segment_bytes: usize,
    closed: bool,
}

impl Burst {
    /// Appends `datagram`. False if it has to start another burst.
    fn push(&mut self, datagram: &[u8]) -> bool {
        if self.bytes.is_empty() {
            self.segment_bytes = datagram.len().max(1);
        } else if self.closed || datagram.is_empty() || datagram.len() > self.segment_bytes {
            return false;
        }
        self.closed = datagram.len() < self.segment_bytes;
        self.bytes.extend_from_slice(datagram);
        true
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.closed = false;
    }
}

fn index(end: End) -> usize {
    match end {
        SENDER => 0,
        RECEIVER => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_split_back_into_the_datagrams_they_were_made_of() {
        let lengths = [1_452, 1_452, 900, 900, 20, 52, 52, 0, 52, 1_452];
        let (mut burst, mut split) = (Burst::default(), Vec::new());
        let mut flush = |burst: &mut Burst| {
            split.extend(burst.bytes.chunks(burst.segment_bytes.max(1)).map(<[u8]>::len));
            burst.clear();
        };
        for n in lengths {
            if !burst.push(&vec![7; n]) {
                flush(&mut burst);
                assert!(burst.push(&vec![7; n]));
            }
        }
        flush(&mut burst);
        // A datagram without bytes is no segment, and nothing is lost with it.
        assert_eq!(split, lengths.into_iter().filter(|n| *n > 0).collect::<Vec<_>>());
    }
}
