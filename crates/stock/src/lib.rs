//! Stock QUIC stacks as guests of the simulator: [quinn] and [noq], the real code with real packets,
//! under virtual time.
//!
//! Both take the time as an argument. What they make of it is their own: loss recovery, congestion
//! control, pacing, path MTU discovery, TLS. Two things are set here: how often the peer is to
//! acknowledge, and receive windows: those that a scenario names, or such as hold nobody back. Ours
//! begins with the window that its users have, and tunes it.
//!
//! [quinn]: https://docs.rs/quinn-proto
//! [noq]: https://docs.rs/noq-proto

mod guest;
mod noq;
mod ours;
mod quinn;
mod tls;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use tack_cc::Algorithm;
use tack_quic::ack_frequency::Request;
use tack_sim::Guest;

/// Bytes of stream data that a stack may hold, sent or not, before its application waits; and as many
/// may be on their way before the peer reads, as the lab's TCP has it. Many round trips of any path of the lab.
const WINDOW_BYTES: u32 = 64 << 20;

/// The far end as the stacks see it; the simulation knows where it is.
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 443);

/// Which stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stack {
    /// quinn-proto.
    Quinn,
    /// noq-proto, which began as quinn and has multipath.
    Noq,
    /// Ours.
    Ours,
}

/// A connection's settings, at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which stack.
    pub stack: Stack,
    /// What the sender of data asks for by ACK_FREQUENCY; `None`: it asks for nothing, and the peer
    /// acknowledges every second packet [RFC 9000 §13.2.2].
    pub acks: Option<Request>,
    /// TACK, of which ours alone knows; to a stock peer it asks for Eq. 4 by ACK_FREQUENCY. `None`: plain
    /// RFC 9000.
    pub tack: Option<tack::Params>,
    /// The connecting end is ours, whatever the stack.
    pub ours_connects: bool,
    /// NewReno or CUBIC; quinn's BBR, noq's BBRv3; any, of ours.
    pub congestion: Algorithm,
    /// Bytes that may be on their way before the peer reads, of a stream and of all, at both ends. `None`: ours tunes
    /// its windows, from the size they have for its users; the others offer 64 MiB.
    pub recv_window: Option<u32>,
    /// Packets are marked ECN-capable; else the stack finds that the path does not carry the mark.
    pub ecn: bool,
    /// Seeds what the stack draws at random. Keys are drawn elsewhere: bytes differ from run to run,
    /// sizes and times do not.
    pub seed: [u8; 32],
}

/// Why a pair of guests cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The stacks have none such.
    #[error("quinn has newreno, cubic and bbr, noq has newreno, cubic and bbr3: not {}", .0.name())]
    Congestion(Algorithm),
    /// A number of [`Settings::acks`] is beyond 2^62 - 1.
    #[error("an ACK_FREQUENCY frame cannot say {0}")]
    Threshold(u64),
    /// TLS refuses our certificate: a defect of ours.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

/// The connecting end and the listening one.
///
/// # Errors
/// What [`SetupError`] names.
pub fn pair(settings: &Settings) -> Result<[Box<dyn Guest>; 2], SetupError> {
    match settings.stack {
        Stack::Quinn => quinn::pair(settings),
        Stack::Noq => noq::pair(settings),
        Stack::Ours => ours::pair(settings),
    }
}
