//! The QUIC endpoint as the driver has it: what tasks wait for of it.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use tack_quic::streams::{Dir, StreamEvent, StreamId};
use tack_quic::{ConnId, Endpoint, Event};
use tack_transport::Figures;
use tack_units::Instant;

use crate::shared::Machine;
use crate::tap::Tapped;
use crate::waiters::Waiters;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A connection that another begins.
    Accept,
    /// Something of a connection.
    Conn(ConnId, What),
}

/// What of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// The end of the handshake, or of everything.
    State,
    /// A stream that the peer opens.
    Accept(Dir),
    /// The peer allows another stream.
    Open(Dir),
    Datagram,
    Read(StreamId),
    Write(StreamId),
    /// Everything of it has arrived, or the peer wants no more.
    Done(StreamId),
    /// Nothing; the bound of the others.
    Last,
}

impl Key {
    pub(crate) fn all_of(conn: ConnId) -> RangeInclusive<Key> {
        Key::Conn(conn, What::State)..=Key::Conn(conn, What::Last)
    }
}

/// Ends all connections, and tells the peers the application's `code` and `reason`.
pub(super) fn close_all(endpoint: &mut Endpoint, code: u64, reason: &[u8], now: Instant) {
    let all: Vec<_> = endpoint.connections().collect();
    for id in all {
        if let Some(conn) = endpoint.connection(id) {
            conn.close(code, reason, now);
        }
    }
}

impl Machine for Endpoint {
    type Key = Key;
    const MOVES: bool = true;

    fn wake(&mut self, (conn, event): &(ConnId, Event), waiters: &mut Waiters<Key>) {
        let mut wake = |what| waiters.wake(Key::Conn(*conn, what));
        match event {
            Event::Connected => {
                wake(What::State);
                waiters.wake(Key::Accept);
            }
            Event::Early => waiters.wake(Key::Accept),
            Event::Stream(StreamEvent::Opened(id)) => wake(What::Accept(id.dir())),
            Event::Stream(StreamEvent::Readable(id)) => wake(What::Read(*id)),
            Event::Stream(StreamEvent::Writable(id)) => wake(What::Write(*id)),
            Event::Stream(StreamEvent::Finished(id) | StreamEvent::GivenUp(id)) => {
                wake(What::Done(*id));
            }
            Event::Stream(StreamEvent::Stopped(id)) => {
                wake(What::Write(*id));
                wake(What::Done(*id));
            }
            Event::Stream(StreamEvent::Available(dir)) => wake(What::Open(*dir)),
            Event::Datagram => wake(What::Datagram),
            Event::Closed(_) => waiters.wake_all(Key::all_of(*conn)),
            // What it says nobody here can wait for.
            _ => {}
        }
    }

    fn note(&mut self, tapped: &Tapped) {
        while let Some(seen) = self.poll_seen() {
            tapped.note(&seen);
        }
    }

    fn end_all(&mut self, now: Instant) {
        close_all(self, 0, b"", now);
    }

    fn figures(&self) -> Vec<(SocketAddr, Figures)> {
        let open = self.connections().filter_map(|id| self.peek(id)).filter(|c| !c.is_over());
        open.map(|conn| (conn.remote(), conn.figures())).collect()
    }
}
