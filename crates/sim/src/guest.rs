//! A stack that is not ours, on a simulated host: its datagrams in UDP, its stream under the same
//! applications as our TCP's.

use core::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use tack_link::{HostId, Packet, PacketKind};
use tack_tcp::wire::ipv4;
use tack_tcp::{ConnectionError, Ecn};
use tack_units::{Instant, earliest};

use crate::app::{App, Pattern};
use crate::endpoint::{Outgoing, Spare};
use crate::flow::FlowId;
use crate::report::GuestInfo;
use crate::side::{Role, Side, Stream};

const UDP: u8 = 17;
const UDP_HEADER_LEN: usize = 8;
const TTL: u8 = 64;

/// One end of one connection of a foreign stack, without a clock: bytes and a time go in, bytes and a
/// deadline come out. It carries one stream, which the application of its flow reads and writes.
pub trait Guest: Stream + fmt::Debug + Send {
    /// Opens the connection; asked of the connecting end alone, once.
    fn connect(&mut self, now: Instant);

    /// Takes a datagram that arrived; `ecn` is the field of its IP header.
    fn handle(&mut self, datagram: &[u8], ecn: u8, now: Instant);

    /// Appends the next datagram to send to `out`: whether it carries stream data, and its ECN field.
    fn poll_transmit(&mut self, out: &mut Vec<u8>, now: Instant) -> Option<(PacketKind, u8)>;

    /// When [`Guest::handle_timeout`] is due.
    fn deadline(&self) -> Option<Instant>;

    /// Runs every timer that is due.
    fn handle_timeout(&mut self, now: Instant);

    /// How the connection ended, if it has.
    fn closed(&self) -> Option<Result<(), ConnectionError>>;

    /// What the stack says of itself; `None` before there is a connection.
    fn info(&self) -> Option<GuestInfo>;
}

/// A flow's settings where both ends are guests.
#[derive(Debug)]
pub struct GuestFlow {
    /// Connects, and sends the application's data or requests.
    pub from: HostId,
    /// Listens.
    pub to: HostId,
    /// What is sent.
    pub app: App,
    /// The stacks of the connecting end and the listening one.
    pub stacks: [Box<dyn Guest>; 2],
    /// When it connects.
    pub start: Instant,
    /// When the application falls silent and ends its stream; `None` is never.
    pub stop: Option<Instant>,
}

/// One end of a guest's flow: the stack, and the application on it.
#[derive(Debug)]
pub(crate) struct GuestEnd {
    pub(crate) side: Side,
    stack: Box<dyn Guest>,
    port: u16,
    local: Ipv4Addr,
    peer: (HostId, Ipv4Addr),
    /// The connecting end before it connects.
    waits: bool,
    /// The application has something to do.
    stirred: bool,
    /// Where datagrams are composed.
    datagram: Vec<u8>,
}

impl GuestEnd {
    pub(crate) fn new(
        flow: (FlowId, u16),
        role: Role,
        pattern: Arc<Pattern>,
        stack: Box<dyn Guest>,
        local: Ipv4Addr,
        peer: (HostId, Ipv4Addr),
    ) -> Self {
        let (flow, port) = flow;
        let waits = matches!(role, Role::Client { .. });
        let side = Side::new(flow, role, pattern);
        GuestEnd { side, stack, port, local, peer, waits, stirred: false, datagram: vec![] }
    }

    pub(crate) fn info(&self) -> Option<GuestInfo> {
        self.stack.info()
    }

    pub(crate) fn handle(&mut self, packet: &Packet, payload: &[u8], now: Instant) {
        self.side.account(packet, now);
        if let Some(datagram) = payload.get(UDP_HEADER_LEN..) {
            self.stack.handle(datagram, packet.ecn, now);
            self.stirred = true;
        }
    }

    pub(crate) fn poll_transmit(&mut self, spare: &mut Spare, now: Instant) -> Option<Outgoing> {
        if core::mem::take(&mut self.stirred) {
            self.run(now);
        }
        self.datagram.clear();
        let (kind, ecn) = self.stack.poll_transmit(&mut self.datagram, now)?;
        // What left made room for more.
        self.stirred = true;
        let len = (UDP_HEADER_LEN + self.datagram.len()) as u16;
        let header = ipv4::Header {
            src: self.local,
            dst: self.peer.1,
            protocol: UDP,
            ttl: TTL,
            dscp: 0,
            ecn: Ecn::from_bits(ecn),
            identification: 0,
            dont_fragment: true,
        };
        let mut bytes = spare.take();
        header.emit(usize::from(len), &mut bytes).expect("a datagram fits a packet");
        // Without a checksum [RFC 768]: what QUIC cannot open it drops.
        for half in [self.port, self.port, len, 0] {
            bytes.extend_from_slice(&half.to_be_bytes());
        }
        bytes.extend_from_slice(&self.datagram);
        let ip_bytes = bytes.len() as u32;
        self.side.account_departure(kind, ip_bytes);
        Some(Outgoing { dst: self.peer.0, ip_bytes, kind, bytes, ecn })
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        earliest(self.stack.deadline(), self.side.timer())
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.stack.deadline().is_some_and(|at| at <= now) {
            self.stack.handle_timeout(now);
        }
        self.run(now);
    }

    fn run(&mut self, now: Instant) {
        if self.waits && self.side.timer().is_some_and(|at| at <= now) {
            self.waits = false;
            self.stack.connect(now);
        }
        self.side.set_closed(self.stack.closed());
        if !self.waits {
            self.side.exchange(&mut *self.stack, now);
        }
    }
}

/// The port of the flow that a UDP packet belongs to, and what is behind its IP header.
pub(crate) fn udp(packet: &[u8]) -> Option<(u16, &[u8])> {
    let packet = ipv4::Packet::parse(packet).ok().filter(|p| p.header.protocol == UDP)?;
    let port = packet.payload.get(..2)?;
    Some((u16::from_be_bytes([port[0], port[1]]), packet.payload))
}
