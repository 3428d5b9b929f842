//! 0-RTT [RFC 9001 §4.6]: what a client says before it has heard its server, by what it remembers of it.
//!
//! ```text
//! client   None ──► Open ──┬──► Accepted            server   None ──► Accepted
//!          (remembered)    └──► Rejected: all streams begin anew, with the limits of now
//! ```
//!
//! 0-RTT packets share their numbers with 1-RTT packets. They are sent by [RFC 9002], and have no frame of
//! TACK; where TACK governs 1-RTT packets it takes over what is in flight.

use rustls::Side;
use rustls::quic::DirectionalKeys;

use super::space::SpaceId;
use super::{Connection, Event};
use crate::error::Violation;
use crate::protection::SealKeys;
use crate::wire::{Frame, Parameters};

/// What became of the data that a client sends before the handshake is done (0-RTT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Early {
    /// There is none.
    #[default]
    None,
    /// A client may send, and has not heard yet whether the server takes it.
    Open,
    /// The server takes it.
    Accepted,
    /// The server does not: it was sent again when the handshake was done.
    Rejected,
}

/// See the [module's text](self).
#[derive(Default)]
pub(super) struct EarlyData {
    state: Early,
    keys: Option<DirectionalKeys>,
    /// What a client was told by the server before.
    remembered: Option<Parameters>,
    /// Bytes of 0-RTT packets that a server takes yet.
    left: u64,
    /// The first number that a packet of ours with 1-RTT keys may have.
    end: u64,
}

impl EarlyData {
    /// Whether 0-RTT packets can leave, of a client, or be read, of a server.
    pub(super) fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    pub(super) fn seal_keys(&self) -> Option<SealKeys<'_>> {
        self.keys.as_ref().map(SealKeys::from)
    }

    /// What opens a packet of `bytes`; `None`: there are no keys, or it is more than is taken.
    pub(super) fn open_keys(&self, bytes: usize) -> Option<&DirectionalKeys> {
        self.keys.as_ref().filter(|_| bytes as u64 <= self.left)
    }

    /// A packet was taken.
    pub(super) fn on_packet(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes as u64);
    }

    /// No 0-RTT packet leaves or is read any more.
    pub(super) fn drop_keys(&mut self) {
        self.keys = None;
    }

    /// What a client remembers while it knows nothing newer.
    pub(super) fn remembered(&self) -> Option<&Parameters> {
        self.remembered.as_ref()
    }

    /// Whoever acknowledges this number has 1-RTT keys.
    pub(super) fn is_beyond(&self, number: u64) -> bool {
        number >= self.end
    }
}

impl Connection {
    /// What became of what a client said before the handshake was done.
    pub fn early(&self) -> Early {
        self.early.state
    }

    /// A client begins: it may know enough of the server to speak at once.
    pub(super) fn begin_early_as_client(&mut self) {
        let Some((keys, remembered)) = self.tls.remembered() else { return };
        let remembered = remembered.remembered();
        self.streams.on_parameters(&remembered);
        let state = Early::Open;
        self.early =
            EarlyData { state, keys: Some(keys), remembered: Some(remembered), left: 0, end: 0 };
    }

    /// A server has read the client's first words: it may have taken early data.
    pub(super) fn begin_early_as_server(&mut self) {
        let decided = self.side == Side::Client || self.early.state != Early::None;
        let Some(keys) = self.tls.zero_rtt_keys().filter(|_| !decided) else { return };
        (self.early.state, self.early.keys) = (Early::Accepted, Some(keys));
        self.early.left = self.config.max_early_data;
        self.events.push_back(Event::Early);
    }

    /// The server's parameters of now came, and whether it takes what was said early. Limits that were
    /// remembered may not have shrunk if it does [RFC 9000 §7.4.1]; if not, nothing of what was assumed
    /// holds, and streams begin anew [RFC 9001 §4.6.2].
    pub(super) fn settle_early(&mut self, peer: &Parameters) -> Result<(), Violation> {
        self.early.drop_keys();
        let (next, _) = self.recovery.next_number(SpaceId::Data);
        self.early.end = next;
        let Some(remembered) = self.early.remembered.take() else { return Ok(()) };
        if self.tls.is_early_data_accepted() {
            self.early.state = Early::Accepted;
            if !peer.allows_as_much_as(&remembered) {
                let reason = "0-RTT is taken, but less is allowed than was before";
                return Err(Violation::of_protocol(reason));
            }
            return Ok(());
        }
        self.early.state = Early::Rejected;
        self.recovery.forget_all(SpaceId::Data);
        self.streams.begin_anew(peer);
        Ok(())
    }
}

/// Frames of 0-RTT packets [RFC 9000 §12.5]. Those of TACK and of ACK frequency are for 1-RTT packets alone.
pub(super) fn is_of_early(frame: &Frame<'_>) -> bool {
    match frame {
        Frame::Padding(_)
        | Frame::Ping
        | Frame::ResetStream { .. }
        | Frame::StopSending { .. }
        | Frame::Stream { .. }
        | Frame::MaxData(_)
        | Frame::MaxStreamData { .. }
        | Frame::MaxStreams { .. }
        | Frame::DataBlocked(_)
        | Frame::StreamDataBlocked { .. }
        | Frame::StreamsBlocked { .. }
        | Frame::NewConnectionId { .. }
        | Frame::PathChallenge(_)
        | Frame::Close(_)
        | Frame::Datagram(_) => true,
        Frame::Ack(_)
        | Frame::Crypto { .. }
        | Frame::NewToken(_)
        | Frame::RetireConnectionId(_)
        | Frame::PathResponse(_)
        | Frame::HandshakeDone
        | Frame::AckFrequency(_)
        | Frame::ImmediateAck
        | Frame::Report(_)
        | Frame::Loss(_)
        | Frame::Frequency(_)
        | Frame::Stamp(_) => false,
    }
}
