//! quinn-proto as an end.

use std::any::Any;
use std::net::SocketAddr;
use std::panic::panic_any;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use quinn_proto::congestion::CubicConfig;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, FinishError, ReadError, ServerConfig, Side, StreamId, TransportConfig,
    VarInt, WriteError,
};
use tack_units::Instant;

use super::end::{End, Read, Written};
use super::ours::KEEP_ALIVE;
use super::tls::{self, Sessions};
use super::world::SERVER;

pub(crate) struct Quinn {
    endpoint: Endpoint,
    conn: Option<(ConnectionHandle, Connection)>,
    /// Time zero in its own clock, which has none: only differences count.
    epoch: std::time::Instant,
    replies: Vec<(SocketAddr, Vec<u8>)>,
    sessions: Sessions,
    connected: bool,
    begins_anew: bool,
    /// As a server it asks for a token first.
    asks_first: bool,
    /// Its congestion window at first, bytes; `None`: its own choice.
    window: Option<u64>,
    /// Since when it reads nothing of what comes.
    unread: Option<Instant>,
    ended: Option<String>,
}

impl Quinn {
    pub(crate) fn new(serves: bool, seed: u64) -> Quinn {
        Quinn::with(serves, seed, Sessions::none())
    }

    pub(crate) fn with(serves: bool, seed: u64, sessions: Sessions) -> Quinn {
        let config = QuicServerConfig::try_from(sessions.server.clone()).unwrap();
        let server = serves.then(|| {
            let mut server = ServerConfig::with_crypto(Arc::new(config));
            let mut transport = TransportConfig::default();
            // It is as patient as we are.
            transport.max_idle_timeout(None);
            server.transport_config(Arc::new(transport));
            Arc::new(server)
        });
        let mut bytes = [serves as u8; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config = Arc::new(EndpointConfig::default());
        #[expect(clippy::disallowed_methods, reason = "its instants have no other origin")]
        let epoch = std::time::Instant::now();
        Quinn {
            endpoint: Endpoint::new(config, server, true, Some(bytes)),
            conn: None,
            epoch,
            replies: Vec::new(),
            sessions,
            connected: false,
            begins_anew: false,
            asks_first: false,
            window: None,
            unread: None,
            ended: None,
        }
    }

    /// The same client, which may send so many bytes at first.
    pub(crate) fn with_window(self, bytes: u64) -> Quinn {
        Quinn { window: Some(bytes), ..self }
    }

    /// The same server, which takes nobody without a token.
    #[allow(dead_code, reason = "what follows from a seed has none of it")]
    pub(crate) fn with_retry(self) -> Quinn {
        Quinn { asks_first: true, ..self }
    }

    fn at(&self, now: Instant) -> std::time::Instant {
        self.epoch + Duration::from_nanos(now.as_nanos())
    }

    fn settle(&mut self) {
        let Some((handle, conn)) = &mut self.conn else { return };
        while let Some(event) = conn.poll_endpoint_events() {
            if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                conn.handle_event(answer);
            }
        }
        while let Some(event) = conn.poll() {
            match event {
                Event::Connected => {
                    self.connected = true;
                    let said_early = conn.side() == Side::Client && conn.has_0rtt();
                    self.begins_anew = said_early && !conn.accepted_0rtt();
                }
                Event::ConnectionLost { reason } => {
                    if reason.to_string().ends_with(RETRY) {
                        panic_any(RETRY);
                    }
                    if reason == ConnectionError::VersionMismatch {
                        panic_any(NEGOTIATION);
                    }
                    self.ended = Some(match reason {
                        ConnectionError::LocallyClosed | ConnectionError::ApplicationClosed(_) => {
                            String::new()
                        }
                        other => format!("quinn: {other}"),
                    });
                }
                _ => {}
            }
        }
        for dir in [Dir::Bi, Dir::Uni] {
            while conn.streams().accept(dir).is_some() {}
        }
    }
}

/// quinn-proto 0.11.19 takes it for granted that a server whose probe timer fires without anything in flight
/// has a client in its handshake. The timer of a path that it has left fires as well (seed 11666).
///
/// And a server of it ends a connection for a bit of a long header that was turned on the way, so that the packet
/// calls itself a Retry, which nothing proves to be its client's (seed 2002232 of the conversations by bytes).
///
/// As a server that may have taken something early, it forgets the keys of the phase before together with those of
/// 0-RTT. If it has updated its own in between, as it does after some packets, it can read nothing any more of a
/// client that has not heard of that (seed 92212 of `early::a_quinn_server_hears_...`, 2008494 by bytes).
///
/// As a client it believes a Version Negotiation that answers no packet of its own: the version of a server's first
/// packet is one bit from that (seed 72348 of `early::ours_hears_...`). Nobody sends one here in earnest.
///
/// Not excused, since it is silence like any other: a client whose window losses have made small does not end its
/// handshake while a probe of a longer packet fills that window (seeds 2064618 and 2085568 by bytes: two of 100 000).
pub(crate) fn is_quinn_s(panic: &(dyn Any + Send)) -> bool {
    let said = panic.downcast_ref::<&str>();
    said.is_some_and(|said| {
        [RETRY, NEGOTIATION, DEAF].contains(said)
            || said.contains("!self.peer_completed_address_validation()")
    })
}

/// What quinn's server says of a packet from its client that calls itself a Retry.
const RETRY: &str = "client sent Retry";
/// What its client has made of a damaged packet.
const NEGOTIATION: &str = "a Version Negotiation that nobody sent";
/// Of a server that takes early data, whose client has asked at least twice for so long.
const DEAF: &str = "quinn's server reads nothing";
const LONG: Duration = Duration::from_secs(1);

fn id(number: u64) -> StreamId {
    StreamId::from(VarInt::from_u64(number).unwrap())
}

impl End for Quinn {
    fn connect(&mut self, now: Instant) {
        let config = QuicClientConfig::try_from(self.sessions.client.clone()).unwrap();
        let mut config = ClientConfig::new(Arc::new(config));
        let mut transport = TransportConfig::default();
        transport.keep_alive_interval(Some(KEEP_ALIVE));
        transport.max_idle_timeout(None);
        if let Some(bytes) = self.window {
            let mut control = CubicConfig::default();
            control.initial_window(bytes);
            transport.congestion_controller_factory(Arc::new(control));
        }
        config.transport_config(Arc::new(transport));
        let at = self.at(now);
        self.conn = Some(self.endpoint.connect(at, config, SERVER, tls::NAME).unwrap());
    }

    fn handle(&mut self, from: SocketAddr, datagram: &mut [u8], now: Instant) {
        let (at, mut reply) = (self.at(now), Vec::new());
        let bytes = BytesMut::from(&*datagram);
        match self.endpoint.handle(at, from, None, None, bytes, &mut reply) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, conn)) = &mut self.conn {
                    let before = format!("{:?}", conn.stats().frame_rx);
                    conn.handle_event(event);
                    let is_read = before != format!("{:?}", conn.stats().frame_rx);
                    let since = *self.unread.get_or_insert(now);
                    let takes_early = self.sessions.server.max_early_data_size > 0;
                    if is_read {
                        self.unread = None;
                    } else if now - since >= LONG && takes_early && conn.side().is_server() {
                        panic_any(DEAF);
                    }
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                if self.conn.is_some() {
                    self.endpoint.ignore(incoming);
                } else if self.asks_first && incoming.may_retry() {
                    let sent = self.endpoint.retry(incoming, &mut reply).expect("it may");
                    self.replies.push((from, reply[..sent.size].to_vec()));
                } else if let Ok(opened) = self.endpoint.accept(incoming, at, &mut reply, None) {
                    self.conn = Some(opened);
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.replies.push((from, reply[..transmit.size].to_vec()));
            }
            None => {}
        }
        self.settle();
    }

    fn poll_transmit(&mut self, out: &mut Vec<u8>, now: Instant) -> Option<SocketAddr> {
        if let Some((to, reply)) = self.replies.pop() {
            *out = reply;
            return Some(to);
        }
        let at = self.at(now);
        let (_, conn) = self.conn.as_mut()?;
        let sent = conn.poll_transmit(at, 1, out).map(|transmit| transmit.destination);
        self.settle();
        sent
    }

    fn deadline(&mut self) -> Option<Instant> {
        let (_, conn) = self.conn.as_mut()?;
        let since = conn.poll_timeout()?.saturating_duration_since(self.epoch).as_nanos();
        Some(Instant::from_nanos(u64::try_from(since).unwrap()))
    }

    fn handle_timeout(&mut self, now: Instant) {
        let at = self.at(now);
        if let Some((_, conn)) = &mut self.conn {
            conn.handle_timeout(at);
        }
        self.settle();
    }

    fn is_connected(&self) -> bool {
        self.connected
    }

    fn may_talk(&self) -> bool {
        self.connected || self.conn.as_ref().is_some_and(|(_, conn)| conn.has_0rtt())
    }

    fn has_to_begin_anew(&mut self) -> bool {
        std::mem::take(&mut self.begins_anew)
    }

    fn was_taken_early(&self) -> Option<bool> {
        let (_, conn) = self.conn.as_ref().filter(|(_, conn)| conn.has_0rtt() && self.connected)?;
        (conn.side() == Side::Client).then(|| conn.accepted_0rtt())
    }

    fn open(&mut self, bidi: bool, _now: Instant) -> Option<u64> {
        let (_, conn) = self.conn.as_mut()?;
        let opened = conn.streams().open(if bidi { Dir::Bi } else { Dir::Uni });
        opened.map(|id| VarInt::from(id).into_inner())
    }

    fn write(&mut self, number: u64, data: &[u8]) -> Written {
        let (_, conn) = self.conn.as_mut().unwrap();
        match conn.send_stream(id(number)).write(data) {
            Ok(taken) => Written::Bytes(taken),
            Err(WriteError::Stopped(code)) => {
                let _ = conn.send_stream(id(number)).reset(code);
                Written::Stopped
            }
            Err(WriteError::ClosedStream | WriteError::Blocked) => Written::Bytes(0),
        }
    }

    fn finish(&mut self, number: u64) {
        let (_, conn) = self.conn.as_mut().unwrap();
        if let Err(FinishError::Stopped(code)) = conn.send_stream(id(number)).finish() {
            let _ = conn.send_stream(id(number)).reset(code);
        }
    }

    fn reset(&mut self, number: u64, code: u64) {
        let (_, conn) = self.conn.as_mut().unwrap();
        let _ = conn.send_stream(id(number)).reset(VarInt::from_u64(code).unwrap());
    }

    fn stop(&mut self, number: u64, code: u64) {
        let (_, conn) = self.conn.as_mut().unwrap();
        conn.recv_stream(id(number)).stop(VarInt::from_u64(code).unwrap()).unwrap();
    }

    fn read(&mut self, number: u64, out: &mut Vec<u8>) -> Read {
        let Some((_, conn)) = &mut self.conn else { return Read::Nothing };
        let mut stream = conn.recv_stream(id(number));
        let Ok(mut chunks) = stream.read(true) else { return Read::Nothing };
        let read = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => out.extend_from_slice(&chunk.bytes),
                Ok(None) => break Read::End,
                Err(ReadError::Blocked) => break Read::Nothing,
                Err(ReadError::Reset(code)) => break Read::Reset(code.into_inner()),
            }
        };
        let _ = chunks.finalize();
        read
    }

    /// It does so by itself, once, after 10 to 1 000 packets. When it is told to it does not wait until the
    /// handshake is confirmed, nor for an acknowledgment in the phase that there is [RFC 9001 §6.1].
    fn update_keys(&mut self) {}

    fn migrate(&mut self, _now: Instant) -> bool {
        let (_, conn) = self.conn.as_mut().unwrap();
        conn.local_address_changed();
        true
    }

    fn send_datagram(&mut self, data: &[u8]) -> bool {
        let (_, conn) = self.conn.as_mut().unwrap();
        conn.datagrams().send(data.to_vec().into(), true).is_ok()
    }

    fn recv_datagram(&mut self) -> Option<Vec<u8>> {
        let (_, conn) = self.conn.as_mut()?;
        conn.datagrams().recv().map(|data| data.to_vec())
    }

    fn close(&mut self, now: Instant) {
        let at = self.at(now);
        let (_, conn) = self.conn.as_mut().unwrap();
        conn.close(at, VarInt::from_u32(7), "done".into());
        // It tells nobody what it did itself.
        self.ended = Some(String::new());
        self.settle();
    }

    fn ended(&self) -> Option<String> {
        self.ended.clone()
    }
}
