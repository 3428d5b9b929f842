//! One connection [RFC 9000], client or server, without a clock.
//!
//! ```text
//! datagrams ──► handle ──► arrives: packets ──► frames ──► streams, acks, recovery, tls
//! datagrams ◄── poll_transmit ◄── transmit: what is owed, by space
//! time      ──► handle_timeout          deadline ──► the earliest of all timers
//! application: open, write, finish, read, stop, close          poll_event ──► what happened
//! ```
//!
//! One change, then poll until there is nothing more. The parts own their state and the connection draws
//! the conclusions: [`Recovery`] says what became of packets, [`Acks`] when to acknowledge,
//! [`Streams`](crate::streams) what there is to send.
//!
//! Whether TACK governs 1-RTT packets is decided once, when their keys are there, which is when the
//! peer's transport parameters are: of its packets none was read before, and of ours none has left.

mod acks;
mod arrives;
mod cids;
mod close;
mod datagrams;
mod drive;
mod early;
mod ecn;
mod frames;
mod keys;
mod log;
mod mtu;
mod open;
mod path;
mod recovery;
mod space;
mod tls;
mod transmit;
mod usage;
mod versions;

use core::time::Duration;
use std::collections::VecDeque;
use std::net::SocketAddr;

use rustls::Side;
use rustls::quic::{DirectionalKeys, Keys};
use tack_transport::{Congestion, RecvBuffer};
use tack_units::Instant;

use crate::ack_frequency::AckFrequency;
use crate::config::Config;
use crate::error::ConnectionError;
use crate::secret::Secret;
use crate::seen::{Log as SeenLog, PacketKind, Seen, What};
use crate::streams::{SendStream, StreamEvent, Streams};
use crate::wire::{ConnectionId, Parameters, Version};

use acks::Acks;
pub(crate) use cids::CidChange;
use cids::{LocalCids, RemoteCids};
use close::Closing;
pub use close::MOST_LEAVING;
use datagrams::Datagrams;
pub use early::Early;
use early::EarlyData;
use ecn::Ecn;
use keys::OneRtt;
use mtu::Mtu;
pub use open::{Accept, Connect};
use path::Path;
use recovery::Recovery;
use tls::Tls;
pub use usage::Info;

/// What happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The handshake is done. What a client said before is taken or was said again: [`Connection::early`].
    Connected,
    /// A server takes what the client says before the handshake is done.
    Early,
    /// Something happened to a stream.
    Stream(StreamEvent),
    /// A DATAGRAM frame arrived.
    Datagram,
    /// It has ended; nothing else happens.
    Closed(ConnectionError),
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Whom it is for.
    pub to: SocketAddr,
    /// ECN field of its IP header: 2 is ECT(0).
    pub ecn: u8,
    /// It carries stream data.
    pub is_data: bool,
}

/// The CRYPTO stream of a space, and what is acknowledged in it.
#[derive(Debug)]
struct Space {
    acks: Acks,
    sending: SendStream,
    receiving: RecvBuffer,
    /// Packets that are to ask for an acknowledgment, whatever they carry.
    probes: u8,
}

/// Handshake bytes that may wait for those before them [RFC 9000 §7.5].
const CRYPTO_WINDOW: usize = 64 << 10;

impl Space {
    fn new(acks: Acks, now: Instant) -> Space {
        Space {
            acks,
            sending: SendStream::of_handshake(),
            receiving: RecvBuffer::new(0, CRYPTO_WINDOW, CRYPTO_WINDOW, now),
            probes: 0,
        }
    }
}

/// How far the connection is.
#[derive(Debug)]
enum State {
    Handshaking,
    Established,
    /// Over, but for telling the peer so, or waiting until it knows [RFC 9000 §10.2].
    Ending(Closing),
    Over,
}

/// One connection, client or server, without a clock.
///
/// - **Input**: [`handle`](Self::handle) a datagram, [`handle_timeout`](Self::handle_timeout), and what the
///   application does: [`open`](Self::open), [`write`](Self::write), [`read`](Self::read), ...
/// - **Output**: [`poll_transmit`](Self::poll_transmit) and [`poll_event`](Self::poll_event) until `None`,
///   then wait for [`deadline`](Self::deadline).
pub struct Connection {
    side: Side,
    config: Config,
    version: Version,
    state: State,
    /// How it ended.
    ended: Option<ConnectionError>,
    tls: Tls,
    initial_keys: Option<Keys>,
    /// What opens Initial packets of the version that the client began with, where it is another now.
    first_keys: Option<(Version, DirectionalKeys)>,
    /// What a server has of a ClientHello that is not whole; `None`: TLS has begun.
    hello: Option<Vec<u8>>,
    handshake_keys: Option<Keys>,
    early: EarlyData,
    one_rtt: Option<OneRtt>,
    spaces: [Space; 3],
    recovery: Recovery,
    congestion: Congestion,
    ecn: Ecn,
    mtu: Mtu,
    path: Path,
    local_cids: LocalCids,
    remote_cids: RemoteCids,
    streams: Streams,
    /// What the peer's first flight was sent to, and what a Retry changed it to.
    original_dcid: ConnectionId,
    retry_scid: Option<ConnectionId>,
    token: Vec<u8>,
    /// The peer's; `None` before they came.
    peer: Option<Parameters>,
    ours: Parameters,
    /// Asks a peer that has no TACK.
    ack_frequency: Option<AckFrequency>,
    /// 1-RTT packets may carry HANDSHAKE_DONE.
    handshake_done_owed: bool,
    confirmed: bool,
    /// A client has said its Finished twice.
    has_finished_again: bool,
    /// How often a server has said its flight again because it was asked to.
    flights_again: u8,
    /// Packets that came before their keys, the ECN field of each, and when.
    held: Vec<(PacketKind, Vec<u8>, u8, Instant)>,
    /// Since when nothing came, or left that asks for an answer.
    idle_since: Instant,
    /// A packet came since one left that asks for an answer.
    heard_since_asking: bool,
    /// Bytes that the pacer lets go at this time.
    allowance: (Instant, u64),
    /// When it lets more go.
    paced_until: Option<Instant>,
    /// Application data was sent once: its receiver is told a frequency.
    has_sent_data: bool,
    next_skip: u64,
    /// Timeouts since something was acknowledged last.
    timeouts_in_a_row: u32,
    /// Nobody here uses it any more: it ends when what was written has arrived, or then.
    leaving: Option<Instant>,
    /// A server owes the client a token for its next connection.
    new_token_owed: bool,
    /// What a server gave us for the next connection.
    new_token: Option<Vec<u8>>,
    secret: Secret,
    number: u64,
    datagrams_in: Datagrams,
    datagrams_out: Datagrams,
    /// Stream data waited while a packet left with datagrams alone: the next one is for it.
    streams_waited: bool,
    events: VecDeque<Event>,
    counters: Counters,
    /// What whoever looks on was not told yet.
    seen: SeenLog,
    /// When it was last asked how often the peer is to acknowledge.
    frequency_at: Option<Instant>,
    /// Buffers of packets that have left, empty.
    spare: Vec<u8>,
    spare_tail: Vec<u8>,
}

/// What passed, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// That left.
    pub packets_sent: u64,
    /// That arrived, were opened and not had before.
    pub packets_received: u64,
    /// That could not be opened, or read without keys.
    pub packets_dropped: u64,
    /// That arrived twice, or too late to tell.
    pub duplicates: u64,
    /// Acknowledgments sent in packets that had nothing else.
    pub acks_sent: u64,
    /// TACKs among them that left at once, for a loss.
    pub loss_acks_sent: u64,
    /// And those that told of congestion marks at once.
    pub ce_acks_sent: u64,
    /// That left with stream data or datagrams.
    pub data_packets_sent: u64,
    /// That left with stream data some of which had left before.
    pub data_packets_resent: u64,
    /// That arrived with them.
    pub data_packets_received: u64,
    /// Acknowledgments of 1-RTT packets that arrived, the TACKs among them, and the loss IACKs (TACK_LOSS).
    pub acks_received: u64,
    /// See `acks_received`.
    pub tacks_received: u64,
    /// See `acks_received`.
    pub loss_acks_received: u64,
    /// Retransmission timeouts, of TACK.
    pub timeouts: u64,
    /// Loss episodes, persistent congestion of plain QUIC's among them; timeouts apart.
    pub loss_episodes: u64,
    /// Generations of keys that followed the first, by whichever side.
    pub key_updates: u64,
    /// Times that the peer was found elsewhere, or this side moved.
    pub moves: u64,
}

impl core::fmt::Debug for Connection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Connection")
            .field("side", &self.side)
            .field("state", &self.state)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// The peer's address.
    pub fn remote(&self) -> SocketAddr {
        self.path.remote()
    }

    /// Which side this is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// The version spoken.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The handshake went on with what both ends kept of an earlier one [RFC 8446 §2.2].
    pub fn is_resumed(&self) -> bool {
        self.tls.is_resumed()
    }

    /// The handshake is done, and the connection has not ended.
    pub fn is_established(&self) -> bool {
        matches!(self.state, State::Established)
    }

    /// The handshake is under way.
    pub fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshaking)
    }

    /// A packet of the peer came that could be opened.
    pub(crate) fn has_heard(&self) -> bool {
        self.counters.packets_received > 0
    }

    /// How it ended; `None`: it has not. What arrived before can still be read.
    pub fn closed(&self) -> Option<&ConnectionError> {
        self.ended.as_ref()
    }

    /// Whatever was written has arrived, or never will.
    pub fn is_delivered(&self) -> bool {
        self.is_ending() || self.streams.is_delivered()
    }

    /// It has ended, and nothing more of it will leave.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Both ends speak TACK, and 1-RTT packets go by it.
    pub fn is_tack(&self) -> bool {
        self.recovery.is_tack()
    }

    /// What happened; to be called until `None` after every change.
    pub fn poll_event(&mut self) -> Option<Event> {
        // Streams say nothing after the end.
        if let Some(event) = self.events.pop_front() {
            return Some(event);
        }
        if self.is_ending() {
            return None;
        }
        self.streams.poll_event().map(Event::Stream)
    }

    /// IDs that the endpoint finds this connection by, changed since the last call.
    pub(crate) fn take_cid_changes(&mut self) -> Vec<CidChange> {
        self.local_cids.take_changes()
    }

    /// What the server gave us for the next connection to it, if that is news.
    pub(crate) fn take_new_token(&mut self) -> Option<Vec<u8>> {
        self.new_token.take()
    }

    /// IDs in force.
    pub(crate) fn cids(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.local_cids.active()
    }

    /// Keeps what happens for whoever looks on.
    pub(crate) fn look(&mut self) {
        self.seen.open();
    }

    /// What happened since it was last asked.
    pub(crate) fn seen(&mut self) -> &mut SeenLog {
        &mut self.seen
    }

    /// Tells whoever looks on; `what` is not made where nobody does.
    fn note(&mut self, now: Instant, what: impl FnOnce() -> What) {
        let (peer, original_dcid) = (self.path.remote(), self.original_dcid);
        self.seen.note(|| Seen { at: now, peer, original_dcid, what: what() });
    }

    fn note_figures(&mut self, now: Instant) {
        if self.seen.is_open() {
            let figures = self.figures();
            self.note(now, || What::Figures(figures));
        }
    }

    fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending(_) | State::Over)
    }

    /// Nothing may leave before the peer has shown that it is where it says.
    fn is_blocked(&self) -> bool {
        self.path.credit() < u64::from(mtu::BASE)
    }

    /// Three probe timeouts: whatever is under way has arrived by then [RFC 9000 §10.2].
    fn three_pto(&self) -> Duration {
        3 * self.recovery.pto_interval()
    }
}
