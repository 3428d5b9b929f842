//! A host as whoever has a socket or device drives it.

use core::time::Duration;
use std::net::SocketAddr;

use tack_transport::Endpoint;
use tack_units::Instant;

use super::{Ecn, Event, Host, Incoming, Transmit};

impl Endpoint for Host {
    type Event = Event;

    fn handle(
        &mut self,
        from: SocketAddr,
        datagrams: &mut [u8],
        segment_size: usize,
        ecn: Ecn,
        now: Instant,
    ) {
        Host::handle(self, from, datagrams, segment_size, ecn, now);
    }

    fn handle_packet(&mut self, packet: Incoming<'_>, now: Instant) {
        Host::handle_packet(self, packet, now);
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>, most: usize, now: Instant) -> Option<Transmit> {
        Host::poll_transmit(self, out, most, now)
    }

    fn poll_event(&mut self) -> Option<Event> {
        Host::poll_event(self)
    }

    fn leeway(&mut self) -> Duration {
        Host::leeway(self)
    }

    fn deadline(&self) -> Option<Instant> {
        Host::deadline(self)
    }

    fn handle_timeout(&mut self, now: Instant) {
        Host::handle_timeout(self, now);
    }

    fn is_idle(&self) -> bool {
        Host::is_idle(self)
    }

    fn is_delivered(&self) -> bool {
        Host::is_delivered(self)
    }

    fn take_leave(&mut self, now: Instant) {
        Host::take_leave(self, now);
    }
}
