//! One TCP connection of an experiment: who, what, how and when.

use tack_cc::Algorithm;
use tack_link::HostId;
use tack_tcp::{AckStrategy, ConnConfig};
use tack_units::Instant;

use crate::app::App;

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
