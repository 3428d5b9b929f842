//! Our own stack as an end.

use std::net::SocketAddr;
use std::time::Duration;

use tack_quic::streams::{Dir, StreamId};
use tack_quic::wire::{Header, LongKind, Protected};
use tack_quic::{Accept, Config, Connect, Connection, ConnectionError, Early, Event, UseError};
use tack_units::Instant;

use super::end::{End, Read, Written};
use super::tls::{self, Sessions};
use super::world::SERVER;

/// Well below the patience with a silent peer.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(5);

pub(crate) struct Ours {
    pub(crate) conn: Option<Connection>,
    config: Config,
    seed: u64,
    sessions: Sessions,
    connected: bool,
    ended: Option<String>,
}

impl Ours {
    pub(crate) fn new(config: Config, seed: u64) -> Ours {
        Ours::with(config, seed, Sessions::none())
    }

    pub(crate) fn with(config: Config, seed: u64, sessions: Sessions) -> Ours {
        // A client whose address became another has to say something, or nobody finds it.
        let config = Config { keep_alive: Some(KEEP_ALIVE), ..config };
        Ours { conn: None, config, seed, sessions, connected: false, ended: None }
    }

    fn seed(&self) -> [u8; 32] {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&self.seed.to_le_bytes());
        seed
    }

    fn accept(&self, from: SocketAddr, datagram: &[u8], now: Instant) -> Option<Connection> {
        let Ok(Protected { header, .. }) = Protected::parse(datagram, 8) else { return None };
        let Header::Long { version, kind: LongKind::Initial, dcid, scid, .. } = header else {
            return None;
        };
        let accept = Accept {
            remote: from,
            is_validated: false,
            version,
            original_dcid: dcid,
            retry_scid: None,
            remote_cid: scid,
            tls: self.sessions.server.clone(),
            config: self.config.clone(),
            seed: self.seed(),
        };
        Some(Connection::accept(accept, now).unwrap())
    }

    fn settle(&mut self) {
        let Some(conn) = &mut self.conn else { return };
        while let Some(event) = conn.poll_event() {
            match event {
                Event::Connected => self.connected = true,
                Event::Closed(ConnectionError::Closed) => self.ended = Some(String::new()),
                Event::Closed(ConnectionError::ClosedByApplication { .. }) => {
                    self.ended = Some(String::new());
                }
                Event::Closed(error) => self.ended = Some(error.to_string()),
                _ => {}
            }
        }
    }
}

fn id(number: u64) -> StreamId {
    let opener = if number & 1 == 0 { rustls::Side::Client } else { rustls::Side::Server };
    StreamId::new(opener, if number & 2 == 0 { Dir::Bidi } else { Dir::Uni }, number >> 2)
}

impl End for Ours {
    fn connect(&mut self, now: Instant) {
        let connect = Connect {
            remote: SERVER,
            name: tls::NAME.try_into().unwrap(),
            tls: self.sessions.client.clone(),
            config: self.config.clone(),
            seed: self.seed(),
        };
        self.conn = Some(Connection::connect(connect, now).unwrap());
    }

    fn handle(&mut self, from: SocketAddr, datagram: &mut [u8], now: Instant) {
        let is_first = self.conn.is_none();
        if is_first {
            self.conn = self.accept(from, datagram, now);
        }
        if let Some(conn) = &mut self.conn {
            conn.handle(from, 0, datagram, now);
        }
        // What looked like a first packet was none, as an endpoint has it: its ID was damaged.
        self.conn.take_if(|conn| is_first && conn.info().counters.packets_received == 0);
        self.settle();
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>, now: Instant) -> Option<SocketAddr> {
        Some(self.conn.as_mut()?.poll_transmit(out, now)?.to)
    }

    fn deadline(&mut self) -> Option<Instant> {
        self.conn.as_ref().and_then(Connection::deadline)
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(conn) = &mut self.conn {
            conn.handle_timeout(now);
        }
        self.settle();
    }

    fn is_connected(&self) -> bool {
        self.connected
    }

    fn may_talk(&self) -> bool {
        let early = self.conn.as_ref().map(Connection::early);
        self.connected || matches!(early, Some(Early::Open | Early::Accepted))
    }

    fn was_taken_early(&self) -> Option<bool> {
        match self.conn.as_ref()?.early() {
            Early::Accepted => Some(true),
            Early::Rejected => Some(false),
            Early::None | Early::Open => None,
        }
    }

    fn open(&mut self, bidi: bool, now: Instant) -> Option<u64> {
        let dir = if bidi { Dir::Bidi } else { Dir::Uni };
        match self.conn.as_mut()?.open(dir, now) {
            Ok(id) => Some(id.number()),
            Err(UseError::Limit | UseError::Closed) => None,
            Err(other) => panic!("{other}"),
        }
    }

    fn write(&mut self, number: u64, data: &[u8]) -> Written {
        match self.conn.as_mut().unwrap().write(id(number), data) {
            Ok(taken) => Written::Bytes(taken),
            // What was stopped is reset at once, and when that has arrived there is no such stream.
            Err(UseError::Stopped(_) | UseError::NoStream) => Written::Stopped,
            Err(UseError::Closed) => Written::Bytes(0),
            Err(other) => panic!("{other}"),
        }
    }

    fn finish(&mut self, number: u64) {
        match self.conn.as_mut().unwrap().finish(id(number)) {
            Ok(()) | Err(UseError::Stopped(_) | UseError::NoStream | UseError::Closed) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn reset(&mut self, number: u64, code: u64) {
        match self.conn.as_mut().unwrap().reset(id(number), code) {
            Ok(()) | Err(UseError::NoStream | UseError::Closed) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn stop(&mut self, number: u64, code: u64) {
        self.conn.as_mut().unwrap().stop(id(number), code).unwrap();
    }

    fn read(&mut self, number: u64, out: &mut Vec<u8>) -> Read {
        let Some(conn) = &mut self.conn else { return Read::Nothing };
        let mut buffer = [0; 3_000];
        loop {
            match conn.read(id(number), &mut buffer) {
                Ok(Some(0)) | Err(UseError::NoStream) => return Read::Nothing,
                Ok(Some(n)) => out.extend_from_slice(&buffer[..n]),
                Ok(None) => return Read::End,
                Err(UseError::Reset(code)) => return Read::Reset(code),
                Err(other) => panic!("{other}"),
            }
        }
    }

    fn update_keys(&mut self) {
        self.conn.as_mut().unwrap().update_keys();
    }

    fn migrate(&mut self, now: Instant) -> bool {
        self.conn.as_mut().unwrap().migrate(now).is_ok()
    }

    fn send_datagram(&mut self, data: &[u8]) -> bool {
        self.conn.as_mut().unwrap().send_datagram(data).is_ok()
    }

    fn recv_datagram(&mut self) -> Option<Vec<u8>> {
        self.conn.as_mut()?.recv_datagram()
    }

    fn close(&mut self, now: Instant) {
        self.conn.as_mut().unwrap().close(7, b"done", now);
        self.settle();
    }

    fn ended(&self) -> Option<String> {
        self.ended.clone()
    }
}
