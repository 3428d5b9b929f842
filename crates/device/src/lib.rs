//! The one crate that touches the kernel: clock, timers, sockets and TUN devices.
//!
//! Everything that decides in tack takes the time as an argument; here is where that time comes
//! from, where deadlines turn into wake-ups and where segments turn into datagrams.
//!
//! * [`Clock`]: the monotonic clock as [`tack_units::Instant`] since the start of the run.
//! * [`Timer`]: one absolute deadline as a file descriptor, for an event loop (Linux).
//! * [`Gate`]: whether what arrives on a descriptor wakes an event loop (Linux).
//! * [`wait`]: the same for a thread that owns its sockets and sleeps in `ppoll` (Unix).
//! * [`UdpSocket`]: bursts out with segmentation offload, batches in with receive coalescing.
//! * [`Tun`]: IP packets, and super-packets with the kernel's offloads (Linux).
//! * [`Netns`]: network namespaces to try all this in (Linux).
//! * [`started`]: how this program was started, for what starts it again.
//!
//! Lateness decides the choice of timer. A `timerfd` or `ppoll` deadline is met some 40 µs late on
//! an idle machine; the timers of the usual async runtimes have a millisecond's resolution and
//! cannot pace a fast flow. `SO_TXTIME` and `SO_MAX_PACING_RATE` are accepted for UDP and ignored
//! without the right queueing discipline, so nothing here relies on them.
//!
//! Off Linux there is no [`Timer`]: a driver there sleeps in its runtime's timers and sends what
//! became due in between as one burst.

mod clock;
mod cpu;
mod ecn;
#[cfg(target_os = "linux")]
mod gate;
#[cfg(target_os = "linux")]
mod iproute;
mod mtu;
#[cfg(target_os = "linux")]
mod netns;
mod prefix;
mod recv;
#[cfg(target_os = "linux")]
mod redirected;
mod socket;
mod started;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod timer;
#[cfg(target_os = "linux")]
mod tun;
#[cfg(unix)]
mod wait;

pub use clock::Clock;
pub use cpu::{process_cpu_time, thread_cpu_time};
pub use ecn::Ecn;
#[cfg(target_os = "linux")]
pub use gate::Gate;
#[cfg(target_os = "linux")]
pub use iproute::ConfigureError;
pub use mtu::{UDP_IPV4_OVERHEAD, UDP_IPV6_OVERHEAD, max_payload_bytes, path_mtu};
#[cfg(target_os = "linux")]
pub use netns::{Netns, NetnsError, NetnsId};
pub use prefix::{Prefix, PrefixError};
pub use recv::{Datagrams, Message, RecvBatch};
#[cfg(target_os = "linux")]
pub use redirected::original_destination;
pub use socket::{SendOutcome, SocketConfig, Transmit, UdpSocket, is_ours};
pub use started::{Started, set_started, started};
#[cfg(target_os = "linux")]
pub use timer::{Timer, sharpen_timers};
#[cfg(target_os = "linux")]
pub use tun::{
    Checksum, Gso, GsoKind, MAX_PACKET_BYTES, Offload, Tun, TunConfig, TunError, kernel_end,
};
#[cfg(unix)]
pub use wait::wait;
