//! Packets on their way, released in order of the time they are due.
//!
//! Nearly all are due in the order they came, so a plain queue holds them; a heap holds the few
//! that were put out of order on purpose.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use tack_units::{Instant, earliest};

use crate::link::Packet;

#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Due times never decrease.
    in_order: VecDeque<Flying>,
    strays: BinaryHeap<Reverse<Flying>>,
    launched: u64,
}

#[derive(Debug)]
struct Flying {
    due: Instant,
    /// Breaks ties in favour of the packet that was launched first.
    number: u64,
    packet: Packet,
}

impl Flight {
    /// Sends a packet off behind all others.
    ///
    /// # Panics
    /// If one of them is due later: that packet is a stray.
    pub(super) fn launch(&mut self, packet: Packet, due: Instant) {
        assert!(self.in_order.back().is_none_or(|last| last.due <= due), "it would overtake");
        let flying = self.flying(packet, due);
        self.in_order.push_back(flying);
    }

    /// Sends a packet off with any due time.
    pub(super) fn launch_stray(&mut self, packet: Packet, due: Instant) {
        let flying = self.flying(packet, due);
        self.strays.push(Reverse(flying));
    }

    /// When the next packet is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let stray = self.strays.peek().map(|s| s.0.due);
        earliest(self.in_order.front().map(|f| f.due), stray)
    }

    /// The next packet, due or not.
    pub(super) fn land(&mut self) -> Option<Packet> {
        let stray_first = match (self.in_order.front(), self.strays.peek()) {
            (Some(first), Some(Reverse(stray))) => stray < first,
            (first, _) => first.is_none(),
        };
        let flying =
            if stray_first { self.strays.pop().map(|s| s.0) } else { self.in_order.pop_front() };
        flying.map(|f| f.packet)
    }

    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.strays.len()
    }

    fn flying(&mut self, packet: Packet, due: Instant) -> Flying {
        self.launched += 1;
        Flying { due, number: self.launched, packet }
    }
}

impl PartialEq for Flying {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.number) == (other.due, other.number)
    }
}

impl Eq for Flying {}

impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flying {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}
