//! QUIC versions 1 and 2 without a clock, a socket or a thread, and TACK in it.
//!
//! A [`Connection`] takes datagrams and the time, and gives datagrams, events and a deadline. TLS is
//! rustls', packet protection too. Between two ends that both know TACK, 1-RTT packets are acknowledged and
//! repaired by the mechanism of the crate `tack` (`docs/quic-tack.md`); towards a stock peer that knows
//! ACK_FREQUENCY a sender asks for Eq. 4 by it ([`ack_frequency`]); towards others it is plain RFC 9000,
//! with loss recovery by RFC 9002.
//!
//! ```text
//! endpoint  any number of connections on a socket: who gets a datagram, who may come in
//! conn      one connection: handshake, packets, acknowledgments, recovery, paths, close
//! seen      what whoever looks on is told
//! streams   streams: buffers, limits, turns
//! wire      frames, headers, transport parameters
//! protection  packet protection, Retry's integrity
//! ```
//!
//! What is not there: a server's preferred address, a client's change to another version within a handshake
//! [RFC 9368 §2.3], multipath. What the RFCs demand, and the test of each demand, is listed in
//! `docs/quic-requirements.md`.

pub mod ack_frequency;
mod config;
mod conn;
mod endpoint;
mod error;
pub mod protection;
mod secret;
mod seen;
pub mod streams;
pub mod wire;

pub use config::Config;
pub use conn::{Accept, Connect, Connection, Counters, Datagram, Early, Event, Info, MOST_LEAVING};
pub use endpoint::{ConnId, Endpoint, EndpointCounters, Listen};
pub use error::{ConnectionError, UseError, code};
pub use seen::{AckReason, DropReason, LossReason, PacketKind, Seen, SeenPacket, What};
