//! One end of a flow: moves the application's bytes and checks every byte that arrives.

use std::net::SocketAddr;
use std::sync::Arc;

use tack_link::{Packet, PacketKind};
use tack_tcp::{ConnConfig, ConnId, ConnectionError, EventKind, Host, Info};
use tack_units::Instant;

use crate::app::{App, Client, Pattern, server_target};
use crate::delays::Delays;
use crate::flow::{FlowId, SideReport, Traffic};
use crate::stall::EndCounts;

/// How far an application writes ahead of what the stack sent: a few of its largest bursts, so that
/// it never runs dry. A buffer full of unsent bytes would not make it faster, but the simulation
/// slower: what does not fit the processor's caches is copied slowly.
const WRITE_AHEAD_BYTES: u64 = 256 << 10;

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
            self.read(tcp, conn, now);
            if self.closed.is_none() {
                self.write(tcp, conn, now);
            }
        }
        opened
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

    fn read(&mut self, tcp: &mut Host, conn: ConnId, now: Instant) {
        loop {
            let (head, tail) = tcp.readable(conn);
            let bytes = head.len() + tail.len();
            if bytes == 0 {
                break;
            }
            let at = self.in_phase + self.received;
            let intact = self.pattern.matches(at, head)
                && self.pattern.matches(at + head.len() as u64, tail);
            if !intact && self.first_wrong_byte.is_none() {
                self.first_wrong_byte = Some(self.received);
            }
            tcp.consume(conn, bytes, now);
            self.received += bytes as u64;
            self.last_read_at = Some(now);
        }
        self.at_end = tcp.at_end(conn);
    }

    /// Writes on after the stack sent some of what was written before.
    pub(crate) fn refill(&mut self, tcp: &mut Host, now: Instant) {
        if let Some(conn) = self.conn
            && self.waits
            && tcp.unsent(conn) <= WRITE_AHEAD_BYTES / 2
        {
            self.write(tcp, conn, now);
        }
    }

    fn write(&mut self, tcp: &mut Host, conn: ConnId, now: Instant) {
        let (target, done) = self.wanted(now);
        self.waits = false;
        while self.written < target {
            let ahead = tcp.unsent(conn);
            if ahead >= WRITE_AHEAD_BYTES {
                self.waits = true;
                return;
            }
            let most = (target - self.written).min(WRITE_AHEAD_BYTES - ahead);
            let chunk = self.pattern.at(self.out_phase + self.written, most);
            // An error means that the connection is over; its event says why.
            let Ok(taken) = tcp.write(conn, chunk, now) else { return };
            self.written += taken as u64;
            if taken < chunk.len() {
                return;
            }
        }
        if done && !self.shut {
            // As above: an ended connection has nothing left to shut.
            self.shut = tcp.shutdown_write(conn, now).is_ok();
        }
    }

    /// Bytes that should be written by now, and whether that is all there will be.
    fn wanted(&mut self, now: Instant) -> (u64, bool) {
        match &mut self.role {
            Role::Client { client, .. } => {
                if client.has_stopped(now) {
                    return (self.written, true);
                }
                let target = client.target(self.received, now);
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
            data_delays: &self.data_delays,
            ack_delays: &self.ack_delays,
            departed: self.departed,
            arrived: self.arrived,
        }
    }
}
