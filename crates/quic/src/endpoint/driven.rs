//! An endpoint as whoever has a socket drives it.

use core::time::Duration;
use std::net::SocketAddr;

use tack_transport::{Ecn, Transmit};
use tack_units::Instant;

use super::{ConnId, Endpoint};
use crate::conn::Event;

impl tack_transport::Endpoint for Endpoint {
    type Event = (ConnId, Event);

    fn handle(
        &mut self,
        from: SocketAddr,
        datagrams: &mut [u8],
        segment_size: usize,
        ecn: Ecn,
        now: Instant,
    ) {
        for datagram in datagrams.chunks_mut(segment_size.max(1)) {
            Endpoint::handle(self, from, ecn.bits(), datagram, now);
        }
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>, most: usize, now: Instant) -> Option<Transmit> {
        Endpoint::poll_transmit(self, out, most, now)
    }

    fn poll_event(&mut self) -> Option<(ConnId, Event)> {
        Endpoint::poll_event(self)
    }

    fn leeway(&mut self) -> Duration {
        self.leeway.take()
    }

    fn deadline(&self) -> Option<Instant> {
        Endpoint::deadline(self)
    }

    fn handle_timeout(&mut self, now: Instant) {
        Endpoint::handle_timeout(self, now);
    }

    fn is_idle(&self) -> bool {
        Endpoint::is_idle(self)
    }

    fn is_delivered(&self) -> bool {
        Endpoint::is_delivered(self)
    }
}
