//! What follows every mutation of a connection: its place in queues and tables, and its events.

use tack_units::Instant;

use crate::conn::{EventSet, State};
use crate::host::slots::Entry;
use crate::host::{Event, EventKind, Host};

impl Host {
    /// The next event, apart from the question whether there is any, which is asked after each packet.
    pub(super) fn front_event(&mut self) -> Option<Event> {
        loop {
            let index = *self.event_queue.front()?;
            let conn = self.slots.id(index);
            let (kind, has_more) =
                self.slots.at_mut(index).map_or((None, false), |entry| entry.take_event());
            if !has_more {
                self.event_queue.pop_front();
            }
            if let Some(kind) = kind {
                return Some(Event { conn, kind });
            }
        }
    }

    /// A connection changed: it may have something to send. Until that is asked for, its deadline
    /// stays as it was registered: it will be another one then.
    pub(super) fn settle(&mut self, index: u32, now: Instant) {
        self.settle_state(index, now);
        let Some(entry) = self.slots.at_mut(index) else { return };
        if !core::mem::replace(&mut entry.in_transmit_queue, true) {
            self.transmit_queue.push_back(index);
        }
    }

    /// Ends the handshakes that began at the listening `port`: whoever listens there next has counted none of them.
    pub(super) fn abort_half_open(&mut self, port: u16, now: Instant) {
        for index in self.slots.half_open(port) {
            if let Some(entry) = self.slots.at_mut(index) {
                entry.conn.abort(now);
            }
            self.settle(index, now);
        }
    }

    /// A connection changed and has nothing to send.
    pub(super) fn settle_sent(&mut self, index: u32, now: Instant) {
        self.settle_state(index, now);
        let Some(entry) = self.slots.at_mut(index) else { return };
        let gone = entry.conn.state().is_over() && entry.detached;
        let at = if gone { None } else { entry.conn.deadline() };
        self.timers.update(index, &mut entry.deadline, at);
        if gone {
            self.slots.remove(index);
        }
    }

    /// Queues, tables and events follow the state of a connection.
    #[inline]
    fn settle_state(&mut self, index: u32, now: Instant) {
        let Some(mut entry) = self.slots.at_mut(index) else { return };
        let mtu = entry.conn.take_settled_mtu();
        if mtu.is_some() || entry.half_open || entry.conn.state().is_over() {
            self.settle_tables(index, mtu, now);
            let Some(settled) = self.slots.at_mut(index) else { return };
            entry = settled;
        }
        let wakes = !entry.conn.events.is_empty() && !entry.detached;
        if wakes && !core::mem::replace(&mut entry.in_event_queue, true) {
            self.event_queue.push_back(index);
        }
    }

    /// What hardly any packet changes, apart from the question whether this one did.
    #[inline(never)]
    fn settle_tables(&mut self, index: u32, mtu: Option<u16>, now: Instant) {
        self.settle_path_mtu(index, mtu, now);
        self.settle_handshake(index, now);
        self.settle_end(index, now);
    }

    /// A passive handshake ended: the connection waits to be accepted, or is gone.
    fn settle_handshake(&mut self, index: u32, now: Instant) {
        let id = self.slots.at(index).map(|_| self.slots.id(index));
        let (Some(entry), Some(id)) = (self.slots.at_mut(index), id) else { return };
        if !entry.half_open || entry.conn.state() == State::SynReceived {
            return;
        }
        entry.half_open = false;
        let listener = entry.listener.and_then(|port| self.listeners.get_mut(&port));
        if let Some(listener) = listener {
            listener.on_handshake_ended();
            if entry.conn.state() != State::Closed {
                listener.push(id);
                entry.waiting = true;
                entry.detached = false;
            }
        } else if entry.conn.state() != State::Closed {
            // Nobody listens any more.
            entry.conn.abort(now);
        }
    }

    /// It is over: segments no longer find it, TIME-WAIT remembers it.
    fn settle_end(&mut self, index: u32, now: Instant) {
        let Some(entry) = self.slots.at_mut(index) else { return };
        let state = entry.conn.state();
        if !state.is_over() {
            return;
        }
        // Reset before it was accepted: nobody is to be bothered with it.
        let unnoticed = entry.waiting && entry.conn.outcome().is_some_and(|o| o.is_err());
        if unnoticed {
            entry.waiting = false;
            entry.detached = true;
        }
        let port = entry.listener.filter(|_| unnoticed);
        if core::mem::take(&mut entry.reachable) {
            self.demux.remove(&entry.key);
            let (key, borrowed) = (entry.key, entry.borrowed);
            if state == State::TimeWait {
                let words = entry.conn.last_words(now);
                if borrowed && words.ts_recent.is_some() {
                    self.ports.rest(&key, now);
                }
                self.time_wait.insert(key, words, borrowed, now);
            } else if borrowed {
                self.ports.give_back(&key, false);
            }
        }
        let id = self.slots.id(index);
        if let Some(listener) = port.and_then(|port| self.listeners.get_mut(&port)) {
            listener.forget(id);
        }
    }
}

impl Entry {
    /// The next event, and whether it has more; else it leaves their queue.
    #[inline]
    pub(super) fn take_event(&mut self) -> (Option<EventKind>, bool) {
        let kind = if self.detached { None } else { self.next_event() };
        self.in_event_queue = !self.detached && !self.conn.events.is_empty();
        (kind, self.in_event_queue)
    }

    fn next_event(&mut self) -> Option<EventKind> {
        let events = &mut self.conn.events;
        if events.take(EventSet::ESTABLISHED) {
            return Some(match self.listener {
                Some(listener) => EventKind::Accepted { listener },
                None => EventKind::Connected,
            });
        }
        if events.take(EventSet::READABLE) {
            Some(EventKind::Readable)
        } else if events.take(EventSet::WRITABLE) {
            Some(EventKind::Writable)
        } else if events.take(EventSet::PEER_CLOSED) {
            Some(EventKind::PeerClosed)
        } else if events.take(EventSet::CLOSED) {
            Some(EventKind::Closed(self.conn.outcome()?))
        } else {
            None
        }
    }
}
