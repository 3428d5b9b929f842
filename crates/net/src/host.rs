//! The TCP host as the driver has it: what tasks wait for of it.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use tack_tcp::wire::{Codepoints, Segment};
use tack_tcp::{ConnId, Event, EventKind, Host};
use tack_transport::Figures;
use tack_units::Instant;

use crate::shared::Machine;
use crate::tap::{Direction, Seen};
use crate::waiters::Waiters;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A connection on a listening port.
    Listener(u16),
    /// Something of a connection.
    Conn(ConnId, What),
}

/// What of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Read,
    Write,
    /// The end of the handshake, or of everything.
    State,
}

impl Key {
    pub(crate) fn all_of(conn: ConnId) -> RangeInclusive<Key> {
        Key::Conn(conn, What::Read)..=Key::Conn(conn, What::State)
    }
}

impl Machine for Host {
    type Key = Key;
    const MOVES: bool = false;

    fn wake(&mut self, event: &Event, waiters: &mut Waiters<Key>) {
        let conn = |what| Key::Conn(event.conn, what);
        match event.kind {
            EventKind::Accepted { listener } => waiters.wake(Key::Listener(listener)),
            EventKind::Connected => waiters.wake(conn(What::State)),
            EventKind::Readable | EventKind::PeerClosed => waiters.wake(conn(What::Read)),
            EventKind::Writable => waiters.wake(conn(What::Write)),
            EventKind::Closed(_) => waiters.wake_all(Key::all_of(event.conn)),
        }
    }

    fn read(direction: Direction, datagram: &[u8], tell: &mut dyn FnMut(&Seen<'_>)) {
        match Segment::parse_datagram(datagram, Codepoints::Experimental) {
            Ok(segment) => tell(&Seen::Segment(direction, &segment, datagram.len())),
            Err(error) => tell(&Seen::Unreadable(direction, &error, datagram.len())),
        }
    }

    fn learned(&mut self, from: SocketAddr, datagram: &[u8], tell: &mut dyn FnMut(&Seen<'_>)) {
        let Ok(segment) = Segment::parse_datagram(datagram, Codepoints::Experimental) else {
            return;
        };
        let conn = self.connection_of(from, &segment);
        if let Some(info) = conn.and_then(|conn| self.info(conn)) {
            tell(&Seen::Learned(&segment, &info.figures()));
        }
    }

    fn end_all(&mut self, now: Instant) {
        let all: Vec<_> = self.connections().collect();
        all.into_iter().for_each(|id| self.abort(id, now));
    }

    fn figures(&self) -> Vec<(SocketAddr, Figures)> {
        let one = |id| {
            let remote = self.remote(id)?;
            Some((SocketAddr::new(remote.path.ip(), remote.port), self.info(id)?.figures()))
        };
        self.connections().filter_map(one).collect()
    }
}
