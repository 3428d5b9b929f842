//! The flows as sockets of the kernel.
//!
//! One thread per end, never blocking: what is ready is read whole or written until it is full.
//!
//! The kernel acknowledges every segment of whoever the route back says `quickack 1` of, so senders
//! of either kind have an address of their own. What is switched off has no counterpart in a
//! standard, and changes how many acknowledgments two segments get:
//!
//! - Segments that leave as one super-packet end with PSH, and a full-sized segment with PSH is
//!   acknowledged as soon as the application has read it: 7 % more acknowledgments on a path that
//!   spaces packets. So super-packets have one segment.
//! - While a hole is open, acknowledgments are compressed to one per millisecond. So they are not.
//! - While the window it offers grows, by two segments for each that arrives, every segment is
//!   acknowledged: for the whole of a slow transfer, if the limit is the machine's memory. So the
//!   buffer's limit is what a slow start that overshoots may fill, and the window half of it.

use core::time::Duration;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};
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

use super::threads::Threads;
use super::{Start, port, sender, starts};
use crate::scenario::{Flow, Scenario};

/// What an application reads and writes at once.
const CHUNK_BYTES: usize = 64 << 10;
const BACKLOG: i32 = 1_024;
/// How often a thread looks whether it should end.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// Least limit of a receive buffer.
const MIN_BUFFER_BYTES: u64 = 1 << 20;
/// Of each segment, timestamps.
const OPTION_BYTES: u16 = 12;

/// Where senders at `end` are whose segments are not acknowledged one by one.
fn second(end: End) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, if end == End::A { 3 } else { 4 })
}

/// Starts the threads of both ends.
pub(super) fn start<L>(
    emulation: &Emulation<L>,
    scenario: &Scenario,
    begin: Instant,
) -> Result<Threads>
where
    L: Link + Send + 'static,
{
    set_up(emulation, scenario)?;
    let mut threads = Threads::default();
    for (name, end) in [("kernel-b", End::B), ("kernel-a", End::A)] {
        let (open, mut waiting) =
            emulation.netns(end).enter(|| -> Result<(Vec<Open>, Vec<Waiting>)> {
                let entries = scenario.flow.iter().enumerate();
                let receives = entries.filter(|(_, flow)| sender(flow) != end);
                let listeners = receives.map(|(entry, flow)| listener(end, entry, flow));
                let own = starts(scenario, begin).into_iter().filter(|s| s.sender == end);
                let waiting =
                    own.map(|start| Ok(Waiting { socket: client(end, &start.flow)?, start }));
                Ok((listeners.collect::<Result<_>>()?, waiting.collect::<Result<_>>()?))
            })??;
        waiting.sort_by_key(|w| core::cmp::Reverse(w.start.at));
        let (clock, chunk) = (emulation.clock(), vec![0x5a; CHUNK_BYTES]);
        let pump = Pump { clock, waiting, open, to: ipv4(end.other()), chunk };
        threads.spawn(name, move |stop| pump.run(stop))?;
    }
    Ok(threads)
}

fn set_up<L>(emulation: &Emulation<L>, scenario: &Scenario) -> Result<()>
where
    L: Link + Send + 'static,
{
    let mss = scenario.flow[0].segment_bytes.map(|bytes| bytes + OPTION_BYTES);
    let advmss = mss.map_or(String::new(), |mss| format!(" advmss {mss}"));
    let wan = scenario.wan.as_ref();
    let rates = wan.map(|w| [w.down().rate_mbps, w.up().rate_mbps]).into_iter().flatten().flatten();
    let mbps = rates.reduce(f64::max).unwrap_or(100.0);
    let bdp = Rate::from_bps((mbps * 1e6) as u64).bytes_in(scenario.base_rtt());
    let buffer = (16 * bdp).max(MIN_BUFFER_BYTES);
    for end in [End::A, End::B] {
        let netns = emulation.netns(end);
        let route = |to: Ipv4Addr, how: &str| {
            format!("route add {to}/32 dev {INTERFACE} src {}{advmss}{how}", ipv4(end))
        };
        netns.ip(&[
            format!("link set dev {INTERFACE} gso_max_segs 1"),
            format!("address add {}/32 dev {INTERFACE}", second(end)),
            route(ipv4(end.other()), " quickack 1"),
            route(second(end.other()), ""),
        ])?;
        netns.sysctl("net.ipv4.tcp_comp_sack_nr", "0")?;
        netns.sysctl("net.ipv4.tcp_rmem", format!("4096 131072 {buffer}"))?;
    }
    Ok(())
}

/// The congestion control has to be chosen before the handshake: a controller that starts with the
/// first sample of the round trip would miss it.
fn socket(flow: &Flow) -> Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    let cc = flow.kernel_cc().context("the kernel has no such controller")?;
    sockopt::set_tcp_congestion(&socket, cc)
        .with_context(|| format!("this kernel has no {cc}: try `modprobe tcp_{cc}`"))?;
    Ok(socket)
}

fn listener(end: End, entry: usize, flow: &Flow) -> Result<Open> {
    let socket = socket(flow)?;
    if let Some(segments) = flow.rwnd_segments {
        // Locks the buffer: it bounds the window as long as nobody tunes it. A window is what of
        // twice this is left beside the kernel's own needs, for packets of this size five twelfths.
        let window = segments as usize * usize::from(flow.segment_bytes.unwrap_or(1_448));
        sockopt::set_socket_recv_buffer_size(&socket, window * 6 / 5)?;
    }
    bind(&socket, &SocketAddrV4::new(ipv4(end), port(entry)))?;
    listen(&socket, BACKLOG)?;
    Ok(Open { work: Work::Accept, socket })
}

/// A socket that is about to connect.
fn client(end: End, flow: &Flow) -> Result<OwnedFd> {
    let socket = socket(flow)?;
    let every = flow.kernel_acks_every().unwrap_or(false);
    bind(&socket, &SocketAddrV4::new(if every { ipv4(end) } else { second(end) }, 0))?;
    Ok(socket)
}

/// What a thread does with a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Accept,
    SendUntil(Instant),
    Receive,
}

struct Open {
    work: Work,
    socket: OwnedFd,
}

struct Waiting {
    start: Start,
    socket: OwnedFd,
}

/// All sockets of an end.
struct Pump {
    clock: Clock,
    /// The next last.
    waiting: Vec<Waiting>,
    open: Vec<Open>,
    to: Ipv4Addr,
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
                if !self.serve(at) {
                    self.open.swap_remove(at);
                }
            }
        }
        Ok(())
    }

    fn start_due(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        while let Some(Waiting { start, socket }) = self.waiting.pop_if(|w| w.start.at <= now) {
            match connect(&socket, &SocketAddrV4::new(self.to, port(start.entry))) {
                Ok(()) | Err(Errno::INPROGRESS) => {}
                Err(e) => return Err(e.into()),
            }
            self.open.push(Open { work: Work::SendUntil(start.stop), socket });
        }
        Ok(())
    }

    /// Waits; the places of those that have something to do.
    fn ready(&self) -> io::Result<Vec<usize>> {
        let next = self.waiting.last().map(|w| w.start.at - self.clock.now());
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
    fn serve(&mut self, at: usize) -> bool {
        let Open { work, ref socket } = self.open[at];
        let done = match work {
            Work::Accept => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                accept_with(socket, flags).map(|socket| {
                    self.open.push(Open { work: Work::Receive, socket });
                    true
                })
            }
            Work::SendUntil(stop) if self.clock.now() >= stop => Ok(false),
            Work::SendUntil(_) => send(socket, &self.chunk, SendFlags::NOSIGNAL).map(|_| true),
            Work::Receive => {
                recv(socket, &mut self.chunk[..], RecvFlags::empty()).map(|(_, n)| n > 0)
            }
        };
        match done {
            Ok(stays) => stays,
            Err(Errno::AGAIN | Errno::INTR) => true,
            // A connection that breaks is missed on the path.
            Err(_) => work == Work::Accept,
        }
    }
}

impl Open {
    fn poll_fd(&self) -> PollFd<'_> {
        let sends = matches!(self.work, Work::SendUntil(_));
        PollFd::from_borrowed_fd(
            self.socket.as_fd(),
            if sends { PollFlags::OUT } else { PollFlags::IN },
        )
    }
}
