//! The flows as sockets of the kernel.
//!
//! One thread per end, never blocking: what is ready is read whole or written until it is full.

use core::time::Duration;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recv, send, socket_with, sockopt,
};
use tack_device::{Clock, sharpen_timers};
use tack_emu::{Emulation, INTERFACE, ipv4};
use tack_link::{End, Link};
use tack_units::{Instant, Rate};

use super::traffic::{Received, Traffic};
use super::{Class, LiveRun, MSS, REVERSE_WINDOW_BYTES};
use crate::kernel::{Controller, as_ours, no_such};

/// Where the half without `quickack` comes from; the other is the path's own address.
const SECOND_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
/// What an application reads and writes at once.
const CHUNK_BYTES: usize = 64 << 10;
const BACKLOG: i32 = 1_024;
/// How often a thread looks whether it should end.
const MAX_SLEEP: Duration = Duration::from_millis(20);

/// Starts the threads of both ends.
pub(super) fn start<L>(
    emulation: &Emulation<L>,
    run: &LiveRun,
    received: &Arc<Received>,
) -> Result<Traffic>
where
    L: Link + Send + 'static,
{
    set_up(emulation, run)?;
    let cc = run.cell.cc;
    let listeners = emulation.server().enter(|| listeners(cc))??;
    let begin = emulation.clock().now();
    let starts = run.starts();
    let sockets = emulation.client().enter(|| -> Result<Vec<Waiting>> {
        let waiting =
            |(class, after)| Ok(Waiting { at: begin + after, class, socket: client(class, cc)? });
        starts.iter().map(|start| waiting((start.class, start.after))).collect()
    })??;
    let mut traffic = Traffic::default();
    for (name, open, mut waiting) in
        [("kernel-b", listeners, Vec::new()), ("kernel-a", Vec::new(), sockets)]
    {
        waiting.sort_by_key(|w| core::cmp::Reverse(w.at));
        let (clock, received) = (emulation.clock(), Arc::clone(received));
        let pump = Pump { clock, waiting, open, received, chunk: vec![0x5a; CHUNK_BYTES] };
        traffic.spawn(name, move |stop| pump.run(stop))?;
    }
    Ok(traffic)
}

/// Beside what [`crate::kernel`] switches off: routes that tell the halves apart, and segments of
/// the dumbbell's size.
fn set_up<L>(emulation: &Emulation<L>, run: &LiveRun) -> Result<()>
where
    L: Link + Send + 'static,
{
    let (a, b) = (ipv4(End::A), ipv4(End::B));
    let route =
        |to: Ipv4Addr, how: &str| format!("route add {to}/32 dev {INTERFACE} advmss {MSS}{how}");
    emulation.client().ip(&[
        format!("address add {SECOND_ADDRESS}/32 dev {INTERFACE}"),
        route(b, " quickack 1"),
    ])?;
    emulation.server().ip(&[route(a, " quickack 1"), route(SECOND_ADDRESS, "")])?;
    let rate = Rate::from_bps((run.cell.rate_mbps * 1e6) as u64);
    as_ours(emulation, rate.bytes_in(run.cell.rtt))
}

fn socket(cc: Controller) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_tcp_congestion(&socket, cc.name()).with_context(|| no_such(cc))?;
    Ok(socket)
}

fn listeners(cc: Controller) -> Result<Vec<Open>> {
    let one = |class: Class| {
        let socket = socket(cc)?;
        bind(&socket, &SocketAddrV4::new(ipv4(End::B), class.port()))?;
        listen(&socket, BACKLOG)?;
        Ok(Open { class, work: Work::Accept, socket })
    };
    Class::ALL.into_iter().map(one).collect()
}

/// A socket at end A that is about to connect.
fn client(class: Class, cc: Controller) -> Result<OwnedFd> {
    let socket = socket(cc)?;
    if class == Class::Reverse {
        // Locks the buffer: it bounds the window as long as nobody tunes it. A window is what of
        // twice this is left beside the kernel's own needs, for packets of this size five twelfths.
        sockopt::set_socket_recv_buffer_size(&socket, REVERSE_WINDOW_BYTES * 6 / 5)?;
    }
    let from = if class == Class::Others { SECOND_ADDRESS } else { ipv4(End::A) };
    bind(&socket, &SocketAddrV4::new(from, 0))?;
    Ok(socket)
}

/// What a thread does with a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Accept,
    Send,
    Receive,
}

struct Open {
    class: Class,
    work: Work,
    socket: OwnedFd,
}

struct Waiting {
    at: Instant,
    class: Class,
    socket: OwnedFd,
}

/// All sockets of an end.
struct Pump {
    clock: Clock,
    /// The next last.
    waiting: Vec<Waiting>,
    open: Vec<Open>,
    received: Arc<Received>,
    chunk: Vec<u8>,
}

impl Pump {
    fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        sharpen_timers()?;
        while !stop.load(Ordering::Relaxed) {
            self.start_due()?;
            let ready = self.ready()?;
            // From the back: what is over leaves the list, what is accepted joins its end.
            for at in ready.into_iter().rev() {
                if !self.serve(at)? {
                    self.open.swap_remove(at);
                }
            }
        }
        Ok(())
    }

    fn start_due(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        while self.waiting.last().is_some_and(|w| w.at <= now) {
            let Some(Waiting { class, socket, .. }) = self.waiting.pop() else { break };
            match connect(&socket, &SocketAddrV4::new(ipv4(End::B), class.port())) {
                Ok(()) | Err(Errno::INPROGRESS) => {}
                Err(e) => return Err(e.into()),
            }
            let work = if class.is_forward() { Work::Send } else { Work::Receive };
            self.open.push(Open { class, work, socket });
        }
        Ok(())
    }

    /// Waits; the places of those that have something to do.
    fn ready(&self) -> io::Result<Vec<usize>> {
        let next = self.waiting.last().map(|w| w.at - self.clock.now());
        let left = next.unwrap_or(MAX_SLEEP).min(MAX_SLEEP);
        let timeout = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        let mut fds: Vec<PollFd<'_>> = self.open.iter().map(Open::poll_fd).collect();
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(e) => return Err(e.into()),
        }
        let is_ready = |(at, fd): (usize, &PollFd<'_>)| (!fd.revents().is_empty()).then_some(at);
        Ok(fds.iter().enumerate().filter_map(is_ready).collect())
    }

    /// Whether the socket is still of use.
    fn serve(&mut self, at: usize) -> io::Result<bool> {
        let Open { class, work, ref socket } = self.open[at];
        let done = match work {
            Work::Accept => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                accept_with(socket, flags).map(Some)
            }
            Work::Send => send(socket, &self.chunk, SendFlags::NOSIGNAL).map(|_| None),
            Work::Receive => match recv(socket, &mut self.chunk[..], RecvFlags::empty()) {
                Ok((_, 0)) => return Ok(false),
                Ok((_, n)) => {
                    self.received.add(class, n as u64);
                    Ok(None)
                }
                Err(e) => Err(e),
            },
        };
        match done {
            Ok(Some(socket)) => {
                let work = if class.is_forward() { Work::Receive } else { Work::Send };
                self.open.push(Open { class, work, socket });
                Ok(true)
            }
            Ok(None) | Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            // A connection that breaks is missed on the path.
            Err(_) => Ok(work == Work::Accept),
        }
    }
}

impl Open {
    fn poll_fd(&self) -> PollFd<'_> {
        let flags = if self.work == Work::Send { PollFlags::OUT } else { PollFlags::IN };
        PollFd::from_borrowed_fd(self.socket.as_fd(), flags)
    }
}
