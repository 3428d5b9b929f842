//! Two namespaces and the path between them.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tack_device::{Clock, ConfigureError, Netns, NetnsError, Prefix, Tun, TunConfig, TunError};
use tack_link::{End, HostId, Link};

use crate::capture::Captured;
use crate::lateness::LatenessBound;
use crate::packet::{Classify, Stamp, tcp_kind};
use crate::passed::{Passed, index};
use crate::realtime::Realtime;
use crate::relay::{Outcome, Relay};
use crate::report::Report;

/// The interface in either namespace that leads over the path.
pub const INTERFACE: &str = "path0";
/// Packets that wait in the kernel for the relay: a window of 100 Mbit/s over 800 ms and more.
const QUEUE_PACKETS: u32 = 10_000;

/// How a path is emulated.
pub struct EmulationConfig {
    /// Largest packet, bytes.
    pub mtu: u16,
    /// Beyond what lateness [`Report::void`] speaks.
    pub bound: LatenessBound,
    /// Least time between two releases. Zero wakes for every packet; 500 µs, about an A-MPDU, costs
    /// a quarter of the processor time and as much lateness.
    pub quantum: Duration,
    /// The link's numbers for client and server. The 802.11 presets' station is 1.
    pub hosts: [HostId; 2],
    /// What packets are for.
    pub classify: Classify,
    /// Write the packets at both ends here as pcapng, with the model's times.
    pub capture: Option<Box<dyn Write + Send>>,
}

impl Default for EmulationConfig {
    fn default() -> Self {
        EmulationConfig {
            mtu: 1_500,
            bound: LatenessBound::default(),
            quantum: Duration::ZERO,
            hosts: [1, 0],
            classify: tcp_kind,
            capture: None,
        }
    }
}

/// Why there is no emulation, or none any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// A namespace.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// A device.
    #[error(transparent)]
    Tun(#[from] TunError),
    /// The thread between them ended early.
    #[error("the relay stopped: {0}")]
    Relay(#[source] io::Error),
    /// The capture is incomplete.
    #[error("the capture is incomplete: {0}")]
    Capture(#[source] io::Error),
    /// No thread, or no descriptor, was left for it.
    #[error("cannot start the relay: {0}")]
    Start(#[source] io::Error),
}

impl EmulationError {
    /// This process may not make namespaces and devices, or the machine has none: nothing is wrong
    /// with the path.
    pub fn is_unavailable(&self) -> bool {
        match self {
            EmulationError::Netns(e) => match e {
                NetnsError::NotPermitted => true,
                NetnsError::Configure(e) => matches!(e, ConfigureError::NoIproute(_)),
                _ => false,
            },
            EmulationError::Tun(e) => e.is_unavailable(),
            _ => false,
        }
    }
}

/// A client and a server, each in a network namespace of its own, with `link` between them: the
/// client at end A, the server at end B. Ends, and takes its devices along, when it is dropped; the
/// namespaces go with the last process in them.
///
/// Either side sends everything it has no other route for over the path, forwards packets, and
/// has socket buffers for 32 MiB in flight.
///
/// ```no_run
/// use core::time::Duration;
/// use std::process::Command;
///
/// use tack_emu::{Emulation, EmulationConfig};
/// use tack_link::queue::Limit;
/// use tack_link::wired::{DirectionConfig, Wired};
/// use tack_units::Rate;
///
/// let rate = Rate::from_mbps(10);
/// let way = DirectionConfig::clean(rate, Duration::from_millis(20), Limit::Packets(100));
/// let emulation = Emulation::new(Wired::symmetric(way, 1)?, EmulationConfig::default())?;
/// let ping = &mut Command::new("ping");
/// emulation.client().spawn(ping.args(["-c", "3", "10.77.0.2"]))?.wait()?;
/// let report = emulation.finish()?;
/// println!("p99 {:?} late", report.lateness.quantile(0.99));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Emulation<L> {
    /// Client and server.
    netns: [Netns; 2],
    clock: Clock,
    /// Packets that devices had dropped before the start.
    dropped_before: u64,
    stop: Arc<OwnedFd>,
    passed: Arc<Mutex<Passed>>,
    bound: LatenessBound,
    relay: Option<JoinHandle<io::Result<Outcome<Captured<L>>>>>,
}

impl<L: Link + Send + 'static> Emulation<L> {
    /// Sets everything up and starts.
    ///
    /// # Errors
    /// [`EmulationError`]; see [`EmulationError::is_unavailable`].
    pub fn new(link: L, config: EmulationConfig) -> Result<Emulation<L>, EmulationError> {
        let (client, client_tun) = side(End::A, config.mtu)?;
        let (server, server_tun) = side(End::B, config.mtu)?;
        let netns = [client, server];
        let link = Captured::new(link, config.capture).map_err(EmulationError::Capture)?;
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let stop = eventfd(0, flags).map_err(|e| EmulationError::Start(e.into()))?;
        let (stop, passed) = (Arc::new(stop), Arc::new(Mutex::new(Passed::default())));
        let dropped_before = dropped(&netns)?;
        let clock = Clock::start();
        let relay = Relay {
            clock,
            tuns: [client_tun, server_tun],
            realtime: Realtime::new(link),
            stamp: Stamp::new(config.hosts, config.classify),
            quantum: config.quantum,
            stop: Arc::clone(&stop),
            passed: Arc::clone(&passed),
        };
        let thread = std::thread::Builder::new().name("relay".to_owned());
        let relay = thread.spawn(move || relay.run()).map_err(EmulationError::Start)?;
        let (bound, relay) = (config.bound, Some(relay));
        Ok(Emulation { netns, clock, dropped_before, stop, passed, bound, relay })
    }

    /// The namespace at `end`.
    pub fn netns(&self, end: End) -> &Netns {
        &self.netns[index(end)]
    }

    /// The namespace at end A.
    pub fn client(&self) -> &Netns {
        self.netns(End::A)
    }

    /// The namespace at end B.
    pub fn server(&self) -> &Netns {
        self.netns(End::B)
    }

    /// What passed the path so far.
    pub fn passed(&self) -> Passed {
        *self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clock of the path, which started with it.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Ends it. What is still on the path is lost.
    ///
    /// # Errors
    /// What ended it before, or an incomplete capture.
    pub fn finish(mut self) -> Result<Report<L>, EmulationError> {
        let ran = self.clock.now() - tack_units::Instant::ZERO;
        let overflowed = dropped(&self.netns)?.saturating_sub(self.dropped_before);
        let outcome = match self.stop() {
            Some(Ok(outcome)) => outcome.map_err(EmulationError::Relay)?,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => unreachable!("only finish and drop stop it, and each comes last"),
        };
        let Outcome { link, lateness, passed, refused, not_forwarded, cpu } = outcome;
        Ok(Report {
            link: link.finish().map_err(EmulationError::Capture)?,
            passed,
            lateness,
            bound: self.bound,
            refused,
            overflowed,
            not_forwarded,
            cpu,
            ran,
        })
    }
}

impl<L> Emulation<L> {
    fn stop(&mut self) -> Option<std::thread::Result<io::Result<Outcome<Captured<L>>>>> {
        let relay = self.relay.take()?;
        // A counter that would overflow has been raised before: the relay wakes either way.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        Some(relay.join())
    }
}

impl<L> Drop for Emulation<L> {
    fn drop(&mut self) {
        // Its devices go with the thread. What it died of has no reader here.
        let _ = self.stop();
    }
}

/// The IPv4 address of the kernel at `end`.
pub const fn ipv4(end: End) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 1 + index(end) as u8)
}

/// The IPv6 address of the kernel at `end`.
pub const fn ipv6(end: End) -> Ipv6Addr {
    Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1 + index(end) as u16)
}

/// Those of the interface at `end`.
pub(crate) fn addresses(end: End) -> [Prefix; 2] {
    [prefix(ipv4(end), 24), prefix(ipv6(end), 64)]
}

fn prefix(addr: impl Into<IpAddr>, bits: u8) -> Prefix {
    Prefix::new(addr.into(), bits).expect("no longer than the address")
}

/// Kernel parameters of either side, beside defaults.
const SYSCTLS: [(&str, &str); 8] = [
    ("net.ipv4.ip_forward", "1"),
    ("net.ipv6.conf.all.forwarding", "1"),
    // A router's path is the same both ways here; user-space hosts behind a TUN come and go.
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    // Every connection starts knowing nothing of earlier ones.
    ("net.ipv4.tcp_no_metrics_save", "1"),
    ("net.ipv4.tcp_rmem", "4096 131072 67108864"),
    ("net.ipv4.tcp_wmem", "4096 16384 67108864"),
    // Else the kernel finds duplicates of addresses that only exist once.
    ("net.ipv6.conf.default.accept_dad", "0"),
];

/// Sets them.
pub(crate) fn tune(netns: &Netns) -> Result<(), NetnsError> {
    for (name, value) in SYSCTLS {
        match netns.sysctl(name, value) {
            // A kernel without IPv6 has none of its parameters.
            Err(NetnsError::System(e)) if e.kind() == io::ErrorKind::NotFound => {}
            result => result?,
        }
    }
    Ok(())
}

/// A namespace and the device in it that leads over the path.
fn side(end: End, mtu: u16) -> Result<(Netns, Tun), EmulationError> {
    let netns = Netns::new()?;
    tune(&netns)?;
    let config = TunConfig::default().with(|it| {
        it.name = INTERFACE.to_owned();
        it.addresses = addresses(end).to_vec();
        it.routes = vec![prefix(Ipv4Addr::UNSPECIFIED, 0), prefix(Ipv6Addr::UNSPECIFIED, 0)];
        it.mtu = mtu;
        it.queue_packets = QUEUE_PACKETS;
        it.offload = false;
    });
    let tun = netns.enter(|| Tun::open(&config))??;
    Ok((netns, tun))
}

/// Packets that the devices dropped because nobody took them in time.
fn dropped(netns: &[Netns; 2]) -> Result<u64, EmulationError> {
    let mut dropped = 0;
    for netns in netns {
        // Which namespace it tells of depends on who reads it.
        let text = netns.enter(|| std::fs::read_to_string("/proc/thread-self/net/dev"))?;
        let text = text.map_err(NetnsError::System)?;
        dropped += count_of(&text, INTERFACE, TX_DROPPED).unwrap_or(0);
    }
    Ok(dropped)
}

/// Where `/proc/net/dev` has the packets that an interface dropped instead of sending them.
const TX_DROPPED: usize = 11;

/// A count in `/proc/net/dev`: after the name eight numbers of what was received, then bytes,
/// packets, errors and drops of what was sent.
pub(crate) fn count_of(text: &str, name: &str, at: usize) -> Option<u64> {
    let (_, numbers) =
        text.lines().filter_map(|l| l.split_once(':')).find(|(n, _)| n.trim() == name)?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests;
