//! What the network says of the path: ICMP errors, and the size of packets.
//!
//! ```text
//! error        SYN-SENT, SYN-RECEIVED                 later
//! hard         ends the attempt at once               remembered
//! soft         remembered; ends it when two SYNs      remembered
//!              met one [RFC 5461 §4.2]
//! ```
//!
//! What is remembered is the reason given if the connection then times out
//! [RFC 1122 §4.2.3.9, §4.2.3.5]; an acknowledgment of something new ends the memory. So a forged
//! error cannot end a connection once it is established [RFC 5927 §5.2].

use tack_units::Instant;

use crate::conn::{Connection, ConnectionError, State};
use crate::seq::SeqNum;
use crate::wire::icmp::PathError;

/// What came of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What it quotes is not in flight: it is forged, or late.
    Implausible,
    /// It was taken in.
    Heeded,
    /// Every connection to this destination should know: packets of so many bytes pass.
    Learned(u16),
}

/// The last error of the path.
#[derive(Debug, Default)]
pub(crate) struct PathNews {
    last: Option<PathError>,
    /// The SYN that first met one, counted from 1.
    first_syn: Option<u32>,
}

impl PathNews {
    pub(crate) fn last(&self) -> Option<PathError> {
        self.last
    }

    /// Something new was acknowledged: the path works.
    pub(crate) fn on_progress(&mut self) {
        *self = PathNews::default();
    }

    /// Why nobody answers: what the path said, or that we only waited.
    pub(crate) fn explain(&self, timed_out: ConnectionError) -> ConnectionError {
        self.last.map_or(timed_out, ConnectionError::Unreachable)
    }

    /// A soft error met the SYN with this number; whether it is the second one.
    fn repeats(&mut self, syn: u32) -> bool {
        *self.first_syn.get_or_insert(syn) != syn
    }
}

impl Connection {
    /// A router or host could not deliver what we sent with SEG.SEQ `seq`.
    pub(crate) fn on_path_error(&mut self, error: PathError, seq: SeqNum, now: Instant) -> Verdict {
        if !self.is_in_flight(seq) {
            return Verdict::Implausible;
        }
        self.path.last = Some(error);
        if matches!(self.state.get(), State::SynSent | State::SynReceived) {
            let repeats = self.path.repeats(self.open.transmissions());
            if error == PathError::PortUnreachable {
                self.fail(ConnectionError::Refused, now);
            } else if error.is_hard() || repeats {
                self.fail(ConnectionError::Unreachable(error), now);
            }
        }
        Verdict::Heeded
    }

    /// A router takes packets of `mtu` bytes only.
    pub(crate) fn on_too_big(&mut self, mtu: u16, seq: SeqNum, now: Instant) -> Verdict {
        if !self.is_in_flight(seq) {
            return Verdict::Implausible;
        }
        if self.send.on_too_big(mtu, seq, now) { Verdict::Learned(mtu) } else { Verdict::Heeded }
    }

    fn is_in_flight(&self, seq: SeqNum) -> bool {
        match self.state.get() {
            State::Closed | State::TimeWait => false,
            state => self.send.has_in_flight(seq, state.is_synchronized()),
        }
    }

    /// What the host knows of packets on this path: the largest in bytes, or no bound.
    pub(crate) fn on_path_mtu(&mut self, mtu: Option<u16>, now: Instant) {
        self.send.on_path_mtu(mtu, now);
    }

    /// A packet size that a search found to be the largest, for the host's table.
    pub(crate) fn take_settled_mtu(&mut self) -> Option<u16> {
        self.send.take_settled_mtu()
    }
}
