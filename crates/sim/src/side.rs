//! One end of a flow: moves the application's bytes and checks every byte that arrives.

use std::net::SocketAddr;
use std::sync::Arc;

use tack_link::{Packet, PacketKind};
use tack_tcp::{ConnConfig, ConnId, ConnectionError, EventKind, Host, Info};
use tack_units::Instant;

use crate::app::{App, Client, Pattern, server_target};
use crate::delays::Delays;
use crate::flow::FlowId;
use crate::report::{SideReport, Traffic};
use crate::stall::EndCounts;
use crate::video::Reader;

/// How far an application writes ahead of what the stack sent: a few of its largest bursts, so that
/// it never runs dry. A buffer full of unsent bytes would not make it faster, but the simulation
/// slower: what does not fit the processor's caches is copied slowly.
const WRITE_AHEAD_BYTES: u64 = 256 << 10;

/// What an application sees of a connection, whichever stack carries it.
pub trait Stream {
    /// Hands every byte that can be read to `take`, in order.
    fn read(&mut self, take: &mut dyn FnMut(&[u8]), now: Instant);

    /// The peer's stream ended, and all of it was read.
    fn at_end(&self) -> bool;

    /// Bytes written and not sent yet.
    fn unsent(&self) -> u64;

    /// Takes the first of `bytes`: how many; `None` when the connection is over.
    fn write(&mut self, bytes: &[u8], now: Instant) -> Option<usize>;

    /// Nothing more will be written. False when that cannot be said yet, or any more.
    fn finish(&mut self, now: Instant) -> bool;
}

/// A connection of one of our hosts; no socket.
struct HostStream<'a> {
    host: &'a mut Host,
    conn: ConnId,
}

impl Stream for HostStream<'_> {
    fn read(&mut self, take: &mut dyn FnMut(&[u8]), now: Instant) {
        let (head, tail) = self.host.readable(self.conn);
        let bytes = head.len() + tail.len();
        if bytes > 0 {
            take(head);
            take(tail);
            self.host.consume(self.conn, bytes, now);
        }
    }

    fn at_end(&self) -> bool {
        self.host.at_end(self.conn)
    }

    fn unsent(&self) -> u64 {
        self.host.unsent(self.conn)
    }

    fn write(&mut self, bytes: &[u8], now: Instant) -> Option<usize> {
        // An error means that the connection is over; its event says why.
        self.host.write(self.conn, bytes, now).ok()
    }

    fn finish(&mut self, now: Instant) -> bool {
        // As above: an ended connection has nothing left to shut.
        self.host.shutdown_write(self.conn, now).is_ok()
    }
}

#[derive(Debug)]
pub(crate) enum Role {
    /// `config` until the connection is opened.
    Client {
        client: Client,
        config: Option<(SocketAddr, Box<ConnConfig>)>,
    },
    Server {
        app: App,
    },
}

#[derive(Debug)]
pub(crate) struct Side {
    role: Role,
    pattern: Arc<Pattern>,
    /// Where in the pattern the two streams begin.
    out_phase: u64,
    in_phase: u64,
    conn: Option<ConnId>,
    written: u64,
    /// There is more to write once the stack has sent some.
    waits: bool,
    received: u64,
    first_wrong_byte: Option<u64>,
    at_end: bool,
    shut: bool,
    closed: Option<Result<(), ConnectionError>>,
    last_read_at: Option<Instant>,
    /// Of a video.
    frames: Option<Reader>,
    data_delays: Delays,
    ack_delays: Delays,
    departed: Traffic,
    arrived: Traffic,
}

impl Side {
    pub(crate) fn new(flow: FlowId, role: Role, pattern: Arc<Pattern>) -> Self {
        // Any two streams of a run begin elsewhere, so that a mix-up shows.
        let phase = |direction| (u64::from(flow.0) * 2 + direction) * 7_919;
        let (out_phase, in_phase) = match role {
            Role::Client { .. } => (phase(0), phase(1)),
            Role::Server { .. } => (phase(1), phase(0)),
        };
        let frames = match &role {
            Role::Server { app: App::Video(video) } => Some(Reader::new(video.clone())),
            _ => None,
        };
        Side {
            role,
            pattern,
            out_phase,
            in_phase,
            conn: None,
            written: 0,
            waits: false,
            received: 0,
            first_wrong_byte: None,
            at_end: false,
            shut: false,
            closed: None,
            last_read_at: None,
            frames,
            data_delays: Delays::default(),
            ack_delays: Delays::default(),
            departed: Traffic::default(),
            arrived: Traffic::default(),
        }
    }

    pub(crate) fn conn(&self) -> Option<ConnId> {
        self.conn
    }

    pub(crate) fn accepted(&mut self, conn: ConnId) {
        self.conn = Some(conn);
    }

    /// When the application wants to run though nothing happened.
    pub(crate) fn timer(&self) -> Option<Instant> {
        match &self.role {
            Role::Client { client, .. } if self.closed.is_none() => client.deadline(),
            _ => None,
        }
    }

    pub(crate) fn on_event(&mut self, kind: EventKind) {
        if let EventKind::Closed(outcome) = kind {
            self.closed = Some(outcome);
        }
    }

    /// How the connection ended, where no event tells it.
    pub(crate) fn set_closed(&mut self, closed: Option<Result<(), ConnectionError>>) {
        self.closed = closed;
    }

    pub(crate) fn account(&mut self, packet: &Packet, now: Instant) {
        self.arrived.count(packet.kind, packet.ip_bytes);
        match packet.kind {
            PacketKind::Data => self.data_delays.record(now - packet.sent_at),
            PacketKind::Ack => self.ack_delays.record(now - packet.sent_at),
        }
    }

    /// A packet of this end is on its way.
    pub(crate) fn account_departure(&mut self, kind: PacketKind, ip_bytes: u32) {
        self.departed.count(kind, ip_bytes);
    }

    /// Connects, reads, writes and ends the stream as far as possible at `now`. Returns the
    /// connection if this opened it.
    pub(crate) fn run(&mut self, tcp: &mut Host, now: Instant) -> Option<ConnId> {
        let opened = self.connect(tcp, now);
        if let Some(conn) = self.conn {
            self.exchange(&mut HostStream { host: tcp, conn }, now);
        }
        opened
    }

    /// Reads, writes and ends the stream as far as possible at `now`.
    pub(crate) fn exchange<S: Stream + ?Sized>(&mut self, stream: &mut S, now: Instant) {
        self.read(stream, now);
        if self.closed.is_none() {
            self.write(stream, now);
        }
    }

    fn connect(&mut self, tcp: &mut Host, now: Instant) -> Option<ConnId> {
        let Role::Client { client, config } = &mut self.role else { return None };
        if client.deadline().is_none_or(|at| at > now) {
            return None;
        }
        let (remote, config) = config.take()?;
        let conn = tcp.connect(remote, *config, now).expect("the world has ports and addresses");
        self.conn = Some(conn);
        self.conn
    }

    fn read<S: Stream + ?Sized>(&mut self, stream: &mut S, now: Instant) {
        let mut take = |bytes: &[u8]| {
            if bytes.is_empty() {
                return;
            }
            let intact = self.pattern.matches(self.in_phase + self.received, bytes);
            if !intact && self.first_wrong_byte.is_none() {
                self.first_wrong_byte = Some(self.received);
            }
            self.received += bytes.len() as u64;
            self.last_read_at = Some(now);
        };
        stream.read(&mut take, now);
        if let Some(frames) = &mut self.frames {
            frames.on_read(self.received, now);
        }
        self.at_end = stream.at_end();
    }

    /// Writes on after the stack sent some of what was written before.
    pub(crate) fn refill(&mut self, tcp: &mut Host, now: Instant) {
        if let Some(conn) = self.conn
            && self.waits
            && tcp.unsent(conn) <= WRITE_AHEAD_BYTES / 2
        {
            self.write(&mut HostStream { host: tcp, conn }, now);
        }
    }

    fn write<S: Stream + ?Sized>(&mut self, stream: &mut S, now: Instant) {
        let (target, done) = self.wanted(now);
        self.waits = false;
        while self.written < target {
            let ahead = stream.unsent();
            if ahead >= WRITE_AHEAD_BYTES {
                self.waits = true;
                return;
            }
            let most = (target - self.written).min(WRITE_AHEAD_BYTES - ahead);
            let chunk = self.pattern.at(self.out_phase + self.written, most);
            let Some(taken) = stream.write(chunk, now) else { return };
            self.written += taken as u64;
            if taken < chunk.len() {
                return;
            }
        }
        if done && !self.shut {
            self.shut = stream.finish(now);
        }
    }

    /// Bytes that should be written by now, and whether that is all there will be.
    fn wanted(&mut self, now: Instant) -> (u64, bool) {
        match &mut self.role {
            Role::Client { client, .. } => {
                if client.has_stopped(now) {
                    return (self.written, true);
                }
                let target = client.target(self.written, self.received, now);
                (target, client.is_done(self.received, now))
            }
            Role::Server { app } => (server_target(app, self.received), self.at_end),
        }
    }

    /// What tells whether the stream moves.
    pub(crate) fn counts(&self) -> EndCounts {
        EndCounts { written: self.written, received: self.received, closed: self.closed }
    }

    pub(crate) fn report(&self, info: Option<Info>) -> SideReport<'_> {
        SideReport {
            info,
            guest: None,
            written: self.written,
            received: self.received,
            first_wrong_byte: self.first_wrong_byte,
            at_end: self.at_end,
            closed: self.closed,
            last_read_at: self.last_read_at,
            latencies: match &self.role {
                Role::Client { client, .. } => client.latencies(),
                Role::Server { .. } => &[],
            },
            frames: self.frames.as_ref().map_or(&[], Reader::arrivals),
            data_delays: &self.data_delays,
            ack_delays: &self.ack_delays,
            departed: self.departed,
            arrived: self.arrived,
        }
    }
}
