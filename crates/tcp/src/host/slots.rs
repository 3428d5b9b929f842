//! Connections by number, and what the host keeps of each beside it.

use std::net::SocketAddr;

use tack_units::Instant;

use crate::conn::{Connection, Framing};
use crate::host::ConnId;
use crate::host::demux::Key;

/// A connection and the host's notes on it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) conn: Connection,
    pub(crate) key: Key,
    /// Where its datagrams go.
    pub(crate) to: SocketAddr,
    pub(crate) framing: Framing,
    /// The port it was accepted on.
    pub(crate) listener: Option<u16>,
    /// It counts against the listener's handshakes.
    pub(crate) half_open: bool,
    /// It waits to be accepted.
    pub(crate) waiting: bool,
    /// The application gave it up, or never knew of it.
    pub(crate) detached: bool,
    /// Segments find it.
    pub(crate) reachable: bool,
    /// Its local port goes back to [`LocalPorts`](crate::host::ports::LocalPorts).
    pub(crate) borrowed: bool,
    /// State of the host's table of path MTUs that it knows of.
    pub(crate) path_generation: u64,
    /// Deadline registered.
    pub(crate) deadline: Option<Instant>,
    /// It stands in the transmit queue.
    pub(crate) in_transmit_queue: bool,
    /// It stands in the event queue.
    pub(crate) in_event_queue: bool,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    entry: Option<Box<Entry>>,
}

/// A slab: numbers are reused, generations are not.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn insert(&mut self, entry: Entry) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            u32::try_from(self.slots.len() - 1).expect("connections are bounded far below 2^32")
        });
        self.slots[index as usize].entry = Some(Box::new(entry));
        index
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Box<Entry>> {
        let slot = self.slots.get_mut(index as usize)?;
        let entry = slot.entry.take()?;
        slot.generation += 1;
        self.free.push(index);
        Some(entry)
    }

    pub(crate) fn at(&self, index: u32) -> Option<&Entry> {
        self.slots.get(index as usize)?.entry.as_deref()
    }

    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut Entry> {
        self.slots.get_mut(index as usize)?.entry.as_deref_mut()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().filter_map(|slot| slot.entry.as_deref())
    }

    /// Slots whose handshakes began at the listening `port`.
    pub(crate) fn half_open(&self, port: u16) -> Vec<u32> {
        let began = |slot: &Slot| {
            slot.entry.as_ref().is_some_and(|e| e.half_open && e.listener == Some(port))
        };
        (0..).zip(&self.slots).filter(|(_, slot)| began(slot)).map(|(index, _)| index).collect()
    }

    pub(crate) fn id(&self, index: u32) -> ConnId {
        ConnId { index, generation: self.slots[index as usize].generation }
    }

    /// The slot of an id that is still valid.
    pub(crate) fn find(&self, id: ConnId) -> Option<u32> {
        let slot = self.slots.get(id.index as usize)?;
        let known = slot.entry.as_ref().is_some_and(|e| !e.detached);
        (known && slot.generation == id.generation).then_some(id.index)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = ConnId> + '_ {
        let known = |s: &Slot| s.entry.as_ref().is_some_and(|e| !e.detached);
        self.slots
            .iter()
            .enumerate()
            .filter(move |(_, s)| known(s))
            .map(|(i, s)| ConnId { index: i as u32, generation: s.generation })
    }
}
