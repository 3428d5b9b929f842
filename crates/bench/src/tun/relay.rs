//! A thread that carries super-packets between two devices: what the kernel's TCP reaches when its
//! packets pass through a process twice.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use tack_device::{Clock, MAX_PACKET_BYTES, Tun, thread_cpu_time, wait};

/// Packets read from one side before the other's turn.
const TURN_PACKETS: usize = 64;
/// How often it looks whether it should stop.
const STOP_CHECK: Duration = Duration::from_millis(50);

pub(super) struct Relay {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<io::Result<f64>>,
}

impl Relay {
    pub(super) fn start(a: Tun, b: Tun) -> Result<Relay> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || carry(&a, &b, &seen))?;
        Ok(Relay { stop, thread })
    }

    /// Ends it; processor seconds it took.
    pub(super) fn stop(self) -> Result<f64> {
        self.stop.store(true, Ordering::Relaxed);
        Ok(self.thread.join().map_err(|_| anyhow!("the relay panicked"))??)
    }
}

fn carry(a: &Tun, b: &Tun, stop: &AtomicBool) -> io::Result<f64> {
    let clock = Clock::start();
    let mut packet = vec![0; MAX_PACKET_BYTES];
    while !stop.load(Ordering::Relaxed) {
        wait(&[a, b], Some(clock.now() + STOP_CHECK), &clock)?;
        for (from, to) in [(a, b), (b, a)] {
            for _ in 0..TURN_PACKETS {
                match from.recv_super(&mut packet) {
                    // What a device refuses is lost, as on any link.
                    Ok((n, offload)) => drop(to.send_super(&[&packet[..n]], &offload)),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == io::ErrorKind::InvalidData => {}
                    Err(e) => return Err(e),
                }
            }
        }
    }
    Ok(thread_cpu_time().map_or(f64::NAN, |t| t.as_secs_f64()))
}
