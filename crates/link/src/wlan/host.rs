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
