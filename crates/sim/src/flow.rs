//! One TCP connection of an experiment: who, what, how and when.

use core::time::Duration;

use tack_cc::Algorithm;
use tack_link::{HostId, PacketKind};
use tack_tcp::{AckStrategy, ConnConfig, ConnectionError, Info};
use tack_units::Instant;

use crate::app::App;
use crate::delays::Delays;
use crate::guest::{Guest, GuestInfo};
use crate::video::Arrival;

/// Names a flow of a simulation; numbered from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// Settings of a connection's end, on top of the stack's defaults.
#[derive(Clone, Debug)]
pub struct Transport {
    /// When to acknowledge, and how to send to who acknowledges so.
    pub ack: AckStrategy,
    /// Congestion control; `None` is the stack's choice, BBR.
    pub congestion: Option<Algorithm>,
    /// Bound on the send buffer, bytes; `None` is the stack's default.
    pub send_buffer: Option<usize>,
    /// Bound on the receive buffer, bytes; `None` is the stack's default.
    pub recv_buffer: Option<usize>,
}

impl Transport {
    /// The given strategy and defaults for the rest.
    pub fn new(ack: AckStrategy) -> Self {
        Transport { ack, congestion: None, send_buffer: None, recv_buffer: None }
    }

    /// As the stack wants it.
    pub fn conn_config(&self) -> ConnConfig {
        ConnConfig::default().with(|it| {
            it.ack = self.ack;
            it.congestion = self.congestion;
            it.send_buffer = self.send_buffer.unwrap_or(it.send_buffer);
            it.recv_buffer = self.recv_buffer.unwrap_or(it.recv_buffer);
        })
    }
}

/// A flow's settings.
#[derive(Clone, Debug)]
pub struct FlowConfig {
    /// Connects, and sends the application's data or requests.
    pub from: HostId,
    /// Listens.
    pub to: HostId,
    /// What is sent.
    pub app: App,
    /// The connecting end.
    pub from_conn: ConnConfig,
    /// The listening end.
    pub to_conn: ConnConfig,
    /// When it connects.
    pub start: Instant,
    /// When the application falls silent and ends its stream; `None` is never.
    pub stop: Option<Instant>,
}

impl FlowConfig {
    /// Bulk from the start of the run to its end, with one setting for both ends.
    pub fn bulk(from: HostId, to: HostId, transport: &Transport) -> Self {
        FlowConfig {
            from,
            to,
            app: App::Bulk { bytes: None },
            from_conn: transport.conn_config(),
            to_conn: transport.conn_config(),
            start: Instant::ZERO,
            stop: None,
        }
    }
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

/// What one end of a flow did so far.
#[derive(Debug)]
pub struct SideReport<'a> {
    /// What the stack says; `None` before there is a connection.
    pub info: Option<Info>,
    /// What a guest's stack says; `None` of our own, and before there is a connection.
    pub guest: Option<GuestInfo>,
    /// Bytes the application wrote.
    pub written: u64,
    /// Bytes it read, every one of them compared with what was written.
    pub received: u64,
    /// Offset of the first byte read that was not the one written; `None` is what we want.
    pub first_wrong_byte: Option<u64>,
    /// Whether the peer's stream ended, and all of it was read.
    pub at_end: bool,
    /// How the connection ended, if it has.
    pub closed: Option<Result<(), ConnectionError>>,
    /// When the last byte was read.
    pub last_read_at: Option<Instant>,
    /// Request to complete response, in order; at the connecting end of request–response flows.
    pub latencies: &'a [Duration],
    /// Frames that were read, in order; at the listening end of a video.
    pub frames: &'a [Arrival],
    /// One-way delays of the packets with stream data that arrived here.
    pub data_delays: &'a Delays,
    /// One-way delays of all others, acknowledgments first of all.
    pub ack_delays: &'a Delays,
    /// Packets that left this end, whatever became of them.
    pub departed: Traffic,
    /// Packets that arrived here.
    pub arrived: Traffic,
}

/// Packets of one flow in one direction, counted at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// With stream data.
    pub data_packets: u64,
    /// Without: acknowledgments of any kind, SYN, FIN, RST.
    pub ack_packets: u64,
    /// IP-level bytes of those with stream data.
    pub data_bytes: u64,
    /// IP-level bytes of all others.
    pub ack_bytes: u64,
}

impl Traffic {
    pub(crate) fn count(&mut self, kind: PacketKind, ip_bytes: u32) {
        let (packets, bytes) = match kind {
            PacketKind::Data => (&mut self.data_packets, &mut self.data_bytes),
            PacketKind::Ack => (&mut self.ack_packets, &mut self.ack_bytes),
        };
        *packets += 1;
        *bytes += u64::from(ip_bytes);
    }

    /// What was counted since `earlier`, a count of the same end.
    #[must_use]
    pub fn since(&self, earlier: &Traffic) -> Traffic {
        Traffic {
            data_packets: self.data_packets - earlier.data_packets,
            ack_packets: self.ack_packets - earlier.ack_packets,
            data_bytes: self.data_bytes - earlier.data_bytes,
            ack_bytes: self.ack_bytes - earlier.ack_bytes,
        }
    }
}

impl core::ops::Add for Traffic {
    type Output = Traffic;

    fn add(self, other: Traffic) -> Traffic {
        Traffic {
            data_packets: self.data_packets + other.data_packets,
            ack_packets: self.ack_packets + other.ack_packets,
            data_bytes: self.data_bytes + other.data_bytes,
            ack_bytes: self.ack_bytes + other.ack_bytes,
        }
    }
}
