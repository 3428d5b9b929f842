//! Packets in order, how many may wait, and what became of them: what all disciplines share.

use std::collections::VecDeque;

use tack_units::Instant;

use crate::link::Packet;

/// How much may wait. The packet in service does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// At most this many packets.
    Packets(u32),
    /// At most this many IP-level bytes.
    Bytes(u64),
}

/// What the queue did to packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueCounters {
    pub(crate) tail_dropped: u64,
    pub(crate) aqm_dropped: u64,
    pub(crate) acks_replaced: u64,
    pub(crate) ce_marked: u64,
    pub(crate) peak_bytes: u64,
}

/// A waiting packet and when it came.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) packet: Packet,
    pub(super) queued_at: Instant,
}

/// Packets in order of arrival. A packet's position never changes and is never used again.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    pub(super) items: VecDeque<Head>,
    pub(super) bytes: u64,
    /// Position of the first item.
    pub(super) head_position: u64,
}

impl Fifo {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn fits(&self, ip_bytes: u32, limit: Limit) -> bool {
        match limit {
            Limit::Packets(n) => self.items.len() < n as usize,
            Limit::Bytes(n) => self.bytes + u64::from(ip_bytes) <= n,
        }
    }

    pub(super) fn fits_instead_of(&self, position: u64, ip_bytes: u32, limit: Limit) -> bool {
        let old = self.items[self.index(position)].packet.ip_bytes;
        match limit {
            Limit::Packets(_) => true,
            Limit::Bytes(n) => self.bytes - u64::from(old) + u64::from(ip_bytes) <= n,
        }
    }

    pub(super) fn push(&mut self, packet: Packet, now: Instant) -> u64 {
        self.bytes += u64::from(packet.ip_bytes);
        self.items.push_back(Head { packet, queued_at: now });
        self.head_position + self.items.len() as u64 - 1
    }

    pub(super) fn replace(&mut self, position: u64, packet: Packet) {
        let index = self.index(position);
        let slot = &mut self.items[index].packet;
        self.bytes = self.bytes - u64::from(slot.ip_bytes) + u64::from(packet.ip_bytes);
        *slot = packet;
    }

    pub(super) fn pop(&mut self) -> Option<Head> {
        let head = self.items.pop_front()?;
        self.head_position += 1;
        self.bytes -= u64::from(head.packet.ip_bytes);
        Some(head)
    }

    fn index(&self, position: u64) -> usize {
        usize::try_from(position - self.head_position).expect("a position of a waiting packet")
    }
}
