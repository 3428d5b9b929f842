//! Looking at an endpoint from outside: what passes it, and what its connections say of themselves.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tack_tcp::Info;
use tack_units::Instant;

use crate::endpoint::IoCounters;
use crate::shared::Shared;

/// Which way a datagram went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From us, as it was handed to the kernel.
    Sent,
    /// To us, as the kernel handed it over.
    Received,
}

/// Told of every datagram that passes an endpoint's UDP socket: a capture or a log. It is called
/// with the endpoint locked, so it should be brief; what it does changes nothing for the endpoint.
///
/// Over a TUN device it is told of nothing: there, any program can capture at the interface.
pub trait Tap: fmt::Debug + Send {
    /// A datagram between our socket at `local` and `peer`. Times are of the endpoint's own clock,
    /// which starts with it.
    fn passed(
        &mut self,
        direction: Direction,
        local: SocketAddr,
        peer: SocketAddr,
        datagram: &[u8],
        at: Instant,
    );
}

/// A [`Tap`] that several endpoints may share.
pub type SharedTap = Arc<Mutex<dyn Tap>>;

/// A tap in its place, and our address as it is to be told.
#[derive(Debug)]
pub(crate) struct Tapped {
    pub(crate) tap: SharedTap,
    pub(crate) local: SocketAddr,
}

impl Tapped {
    /// Tells of each datagram of a burst.
    pub(crate) fn tell(
        &self,
        direction: Direction,
        peer: SocketAddr,
        bytes: &[u8],
        stride: usize,
        at: Instant,
    ) {
        let mut tap = self.tap.lock().unwrap_or_else(PoisonError::into_inner);
        for datagram in bytes.chunks(stride.max(1)) {
            tap.passed(direction, self.local, peer, datagram, at);
        }
    }
}

/// Reads an endpoint's state as long as it lives, without keeping it alive.
#[derive(Clone, Debug)]
pub struct Gauge(pub(crate) Weak<Shared>);

/// An endpoint at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reading {
    /// What passed the socket or device.
    pub io: IoCounters,
    /// Connections that are not over, in the order of their places: who is at the other end, and
    /// what they say.
    pub connections: Vec<(SocketAddr, Info)>,
}

impl Gauge {
    /// The state now; `None` once the endpoint is gone.
    pub fn read(&self) -> Option<Reading> {
        let shared = self.0.upgrade()?;
        let state = shared.lock();
        let one = |id| {
            let remote = state.host.remote(id)?;
            Some((SocketAddr::new(remote.path.ip(), remote.port), state.host.info(id)?))
        };
        let connections = state.host.connections().filter_map(one).collect();
        Some(Reading { io: state.io, connections })
    }
}
