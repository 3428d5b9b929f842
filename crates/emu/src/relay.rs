//! The thread between two TUN devices.
//!
//! It sleeps in `ppoll` until a packet comes or one is due, with a timer slack of 1 ns: some tens
//! of microseconds late on an idle machine. Real-time scheduling would be sharper, but is throttled
//! for 50 ms at a time when it is busy, which is worse.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tack_device::{Clock, MAX_PACKET_BYTES, Tun, sharpen_timers, thread_cpu_time, wait};
use tack_link::{End, Link, Output};
use tack_units::Instant;

use crate::lateness::Lateness;
use crate::packet::{Stamp, is_forwarded};
use crate::passed::{Passed, index};
use crate::realtime::Realtime;

/// Most packets taken from one device before what is due is released.
const MAX_BATCH: usize = 64;
/// Longest sleep; a bound in case of a clock that stands still.
const MAX_SLEEP: Duration = Duration::from_secs(1);

/// What the thread owns.
pub(crate) struct Relay<L> {
    pub(crate) clock: Clock,
    /// The devices at ends A and B.
    pub(crate) tuns: [Tun; 2],
    pub(crate) realtime: Realtime<L>,
    pub(crate) stamp: Stamp,
    /// Least time between two releases.
    pub(crate) quantum: Duration,
    /// Readable when the thread should end.
    pub(crate) stop: Arc<OwnedFd>,
    /// Where its counts can be read from outside.
    pub(crate) passed: Arc<Mutex<Passed>>,
}

/// What is left of a relay.
pub(crate) struct Outcome<L> {
    pub(crate) link: L,
    pub(crate) lateness: Lateness,
    pub(crate) passed: Passed,
    /// Packets a device refused.
    pub(crate) refused: u64,
    /// Packets no router forwards.
    pub(crate) not_forwarded: u64,
    pub(crate) cpu: Duration,
}

/// Counts of the thread itself.
#[derive(Default)]
struct Counts {
    passed: Passed,
    refused: u64,
    not_forwarded: u64,
}

impl<L: Link> Relay<L> {
    /// Relays until told to stop.
    pub(crate) fn run(mut self) -> io::Result<Outcome<L>> {
        sharpen_timers()?;
        let _awake = keep_awake();
        let mut counts = Counts::default();
        let mut buffer = vec![0; MAX_PACKET_BYTES];
        let mut release_at = Instant::ZERO;
        loop {
            let mut more = false;
            for end in [End::A, End::B] {
                more |= self.take_in(end, &mut buffer, &mut counts)?;
            }
            let now = self.clock.now();
            let next = if now < release_at {
                Some(release_at)
            } else {
                let next = self.release(&mut counts);
                release_at = now + self.quantum;
                next.map(|at| at.max(release_at))
            };
            *self.passed.lock().unwrap_or_else(PoisonError::into_inner) = counts.passed;
            if more {
                continue;
            }
            if self.sleep(next)? {
                break;
            }
        }
        let (link, lateness) = self.realtime.finish();
        let Counts { passed, refused, not_forwarded } = counts;
        let cpu = thread_cpu_time().unwrap_or_default();
        Ok(Outcome { link, lateness, passed, refused, not_forwarded, cpu })
    }

    /// Offers what waits at `end`; whether more may be waiting.
    fn take_in(&mut self, end: End, buffer: &mut [u8], counts: &mut Counts) -> io::Result<bool> {
        for _ in 0..MAX_BATCH {
            let len = match self.tuns[index(end)].recv(buffer) {
                Ok(len) => len,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            };
            let bytes = &buffer[..len];
            if !is_forwarded(bytes) {
                counts.not_forwarded += 1;
                continue;
            }
            let now = self.clock.now();
            let packet = self.stamp.packet(end, bytes, now);
            counts.passed.enter(end, &packet);
            self.realtime.offer(end, packet, now);
        }
        Ok(true)
    }

    /// Hands out everything that is due, and says when there is more.
    fn release(&mut self, counts: &mut Counts) -> Option<Instant> {
        loop {
            // Handing over takes time, too: the clock is asked for each packet.
            match self.realtime.poll(self.clock.now()) {
                Output::Deliver { end, packet } => {
                    counts.passed.leave(end, &packet);
                    if self.tuns[index(end)].send(&packet.bytes).is_err() {
                        counts.refused += 1;
                    }
                }
                Output::Wait(at) => return at,
            }
        }
    }

    /// Sleeps until a packet comes or `until`; whether it is time to stop.
    fn sleep(&self, until: Option<Instant>) -> io::Result<bool> {
        let limit = self.clock.now() + MAX_SLEEP;
        let until = until.map_or(limit, |at| at.min(limit));
        let [a, b] = &self.tuns;
        wait(&[a.as_fd(), b.as_fd(), self.stop.as_fd()], Some(until), &self.clock)?;
        match rustix::io::read(&self.stop, &mut [0; 8]) {
            Ok(_) => Ok(true),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

/// Asks the processor not to sleep deeply while the file is open: half of the lateness on an idle
/// machine is a core waking up. Takes root; does without where it is refused.
fn keep_awake() -> Option<File> {
    let mut file = OpenOptions::new().write(true).open("/dev/cpu_dma_latency").ok()?;
    file.write_all(&0_i32.to_ne_bytes()).ok()?;
    Some(file)
}
