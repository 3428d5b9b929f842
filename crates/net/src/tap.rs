//! Looking at an endpoint from outside: what passes it, and what its connections say of themselves.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tack_tcp::wire::{ParseError, Segment};
use tack_transport::Figures;
use tack_units::Instant;

use crate::passed::IoCounters;

/// Which way a datagram went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From us, as it was handed to the kernel.
    Sent,
    /// To us, as the kernel handed it over.
    Received,
}

/// What an endpoint's transport sent, received or found out.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Seen<'a> {
    /// A segment of TCP-TACK, and the bytes of its datagram.
    Segment(Direction, &'a Segment<'a>, usize),
    /// What the connection that this segment came for says of itself, once it has read it.
    Learned(&'a Segment<'a>, &'a Figures),
    /// So many bytes that are no segment, and why.
    Unreadable(Direction, &'a ParseError, usize),
    /// What a QUIC connection sent, received, dropped or learned.
    #[cfg(feature = "quic")]
    Quic(&'a tack_quic::Seen),
}

/// Told of everything that passes an endpoint's UDP socket: a capture or a log. It is called
/// with the endpoint locked, so it should be brief; what it does changes nothing for the endpoint.
///
/// Over a TUN device it is told of nothing: there, any program can capture at the interface.
pub trait Tap: fmt::Debug + Send {
    /// A datagram between our socket at `local` and `peer`, as it travels. Times are of the endpoint's own
    /// clock, which starts with it.
    fn passed(
        &mut self,
        direction: Direction,
        local: SocketAddr,
        peer: SocketAddr,
        datagram: &[u8],
        at: Instant,
    );

    /// What datagrams carried, in the clear as far as the transport goes.
    fn seen(&mut self, peer: SocketAddr, seen: &Seen<'_>, at: Instant);
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
    /// Tells of each datagram of a burst, and of what it is if `read` can tell from its bytes.
    pub(crate) fn tell(
        &self,
        (direction, peer): (Direction, SocketAddr),
        bytes: &[u8],
        stride: usize,
        at: Instant,
        read: impl Fn(Direction, &[u8], &mut dyn FnMut(&Seen<'_>)),
    ) {
        let mut tap = self.tap.lock().unwrap_or_else(PoisonError::into_inner);
        for datagram in bytes.chunks(stride.max(1)) {
            tap.passed(direction, self.local, peer, datagram, at);
            read(direction, datagram, &mut |seen| tap.seen(peer, seen, at));
        }
    }

    /// Tells what a machine has learned from datagrams of `peer`, as `tell` says it.
    pub(crate) fn learned(
        &self,
        peer: SocketAddr,
        at: Instant,
        tell: impl FnOnce(&mut dyn FnMut(&Seen<'_>)),
    ) {
        let mut tap = self.tap.lock().unwrap_or_else(PoisonError::into_inner);
        tell(&mut |seen| tap.seen(peer, seen, at));
    }

    /// Tells what a machine noted by itself.
    #[cfg(feature = "quic")]
    pub(crate) fn note(&self, seen: &tack_quic::Seen) {
        let mut tap = self.tap.lock().unwrap_or_else(PoisonError::into_inner);
        tap.seen(seen.peer, &Seen::Quic(seen), seen.at);
    }
}

/// An endpoint that can be looked at.
pub(crate) trait Gauged: fmt::Debug + Send + Sync {
    /// Its state now; `None` once it is gone.
    fn read(&self) -> Option<Reading>;
}

/// Reads an endpoint's state as long as it lives, without keeping it alive.
#[derive(Clone, Debug)]
pub struct Gauge(pub(crate) Arc<dyn Gauged>);

/// An endpoint at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Reading {
    /// What passed the socket or device.
    pub io: IoCounters,
    /// Connections that are not over, in the order of their places: who is at the other end, and
    /// what they say.
    pub connections: Vec<(SocketAddr, Figures)>,
}

impl Gauge {
    /// The state now; `None` once the endpoint is gone.
    pub fn read(&self) -> Option<Reading> {
        self.0.read()
    }
}
