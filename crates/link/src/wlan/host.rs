//! From the radio to the host: when received packets surface.
//!
//! The packets of one PPDU reach a station's host one after another, behind whatever it is still
//! working on. This order decides how many of the ACKs they cause share an A-MPDU.

use std::collections::VecDeque;

use rand_pcg::Pcg64;

use super::config::HostDelay;
use super::phy::Ns;
use crate::draw::{nanos, unit};
use crate::link::Packet;

/// Most packets on their way to all hosts: those that are slower than their radios lose the rest.
pub(super) const MAX_DELIVERIES: usize = 65_536;

/// One station's host.
#[derive(Debug)]
pub(super) struct Host {
    delay: HostDelay,
    free_at: Ns,
}

impl Host {
    pub(super) fn new(delay: HostDelay) -> Host {
        Host { delay, free_at: 0 }
    }

    /// When the first packet of a PPDU that ended at `end` surfaces.
    pub(super) fn begin(&mut self, end: Ns, rng: &mut Pcg64) -> Ns {
        let delay = nanos(self.delay.delay);
        let spread = if delay > 0 && self.delay.spread > 0.0 {
            1.0 + self.delay.spread * (2.0 * unit(rng) - 1.0)
        } else {
            1.0
        };
        self.free_at = self.free_at.max(end + (delay as f64 * spread) as Ns);
        self.free_at
    }

    /// When the next packet of the same PPDU surfaces.
    pub(super) fn next(&mut self) -> Ns {
        self.free_at += nanos(self.delay.per_packet);
        self.free_at
    }
}

/// Where a received packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Up to a host on the stations' side.
    Station,
    /// Out to the wired side.
    Wired,
    /// Into the access point's queue for this station.
    Relay(usize),
}

/// Packets that were received and not yet passed on, ordered by time and then by insertion.
#[derive(Debug, Default)]
pub(super) struct Deliveries {
    queue: VecDeque<(Ns, Exit, Packet)>,
}

impl Deliveries {
    pub(super) fn push(&mut self, at: Ns, exit: Exit, packet: Packet) {
        match self.queue.back() {
            Some((last, ..)) if *last > at => {
                let index = self.queue.partition_point(|(t, ..)| *t <= at);
                self.queue.insert(index, (at, exit, packet));
            }
            _ => self.queue.push_back((at, exit, packet)),
        }
    }

    pub(super) fn next_at(&self) -> Option<Ns> {
        self.queue.front().map(|(at, ..)| *at)
    }

    pub(super) fn pop(&mut self) -> Option<(Ns, Exit, Packet)> {
        self.queue.pop_front()
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::draw::{below, stream};

    #[test]
    fn deliveries_come_in_order_of_time_and_then_of_insertion() {
        for seed in 0..100 {
            let mut rng = stream(seed, 2);
            let mut deliveries = Deliveries::default();
            let mut oracle = Vec::new();
            for id in 0..200 {
                let at = below(&mut rng, 50);
                let packet = Packet { id, dst: 1, ip_bytes: 40, ..Packet::default() };
                deliveries.push(at, Exit::Station, packet);
                oracle.push((at, id));
            }
            oracle.sort_unstable();
            let pop = || deliveries.pop().map(|(at, _, packet)| (at, packet.id));
            let got: Vec<_> = std::iter::from_fn(pop).collect();
            assert_eq!(got, oracle, "seed {seed}");
        }
    }

    #[test]
    fn a_busy_host_takes_the_next_ppdu_when_it_is_done() {
        let us = core::time::Duration::from_micros;
        let mut host = Host::new(HostDelay { delay: us(100), spread: 0.0, per_packet: us(3) });
        let mut rng = stream(1, 3);
        host.begin(1_000_000, &mut rng);
        let first: Vec<_> = (0..3).map(|_| host.next()).collect();
        assert_eq!(first, [1_103_000, 1_106_000, 1_109_000]);
        host.begin(1_001_000, &mut rng);
        assert_eq!(host.next(), 1_112_000);
    }
}
