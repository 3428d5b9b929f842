//! How a connection ends: FIN, RST, and what is left of it [RFC 9293 §3.6].

use core::time::Duration;

use tack_units::Instant;

use crate::conn::timers::Timer;
use crate::conn::{Connection, ConnectionError, EventSet, State, UseError};
use crate::seq::SeqNum;
use crate::wire::{Flags, Header};

/// How it ended, or will.
#[derive(Debug, Default)]
pub(crate) struct Ending {
    pub(crate) outcome: Option<Result<(), ConnectionError>>,
    /// The application gave the connection up.
    orphaned: bool,
}

/// A RST to send: `SEQ`, and `ACK` if the flag goes with it [RFC 9293 §3.5.2].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reset {
    pub(crate) seq: SeqNum,
    pub(crate) ack: Option<SeqNum>,
}

impl Reset {
    /// As a header.
    pub(crate) fn header(self, src_port: u16, dst_port: u16) -> Header {
        let flags = if self.ack.is_some() { Flags::RST | Flags::ACK } else { Flags::RST };
        Header {
            src_port,
            dst_port,
            seq: self.seq,
            ack: self.ack.unwrap_or_default(),
            flags,
            ..Header::default()
        }
    }

    /// The answer to a segment that belongs to no connection [RFC 9293 §3.10.7.1].
    pub(crate) fn answering(header: &Header, payload_len: usize) -> Option<Reset> {
        if header.flags.has(Flags::RST) {
            return None;
        }
        if header.flags.has(Flags::ACK) {
            return Some(Reset { seq: header.ack, ack: None });
        }
        let len = payload_len as u32
            + u32::from(header.flags.has(Flags::SYN))
            + u32::from(header.flags.has(Flags::FIN));
        Some(Reset { seq: SeqNum(0), ack: Some(header.seq.add(len)) })
    }
}

/// How long FIN-WAIT-2 lasts when nobody waits for the peer's FIN.
const ORPHAN_WAIT: Duration = Duration::from_secs(60);

impl Ending {
    pub(crate) fn is_orphaned(&self) -> bool {
        self.orphaned
    }
}

impl Connection {
    /// Ends our stream after what was written.
    pub(crate) fn shutdown_write(&mut self) {
        match self.state.get() {
            // Deviation: [RFC 9293 §3.10.4] would end a connection in SYN-SENT. Only our stream
            // ends here; the FIN waits for the handshake, and the state follows it.
            State::SynSent | State::SynReceived => self.send.queue_fin(),
            State::Established => {
                self.send.queue_fin();
                self.state.enter(State::FinWait1);
            }
            State::CloseWait => {
                self.send.queue_fin();
                self.state.enter(State::LastAck);
            }
            _ => {}
        }
    }

    /// See [`crate::Host::shutdown_write`].
    pub(crate) fn end_stream(&mut self) -> Result<(), UseError> {
        if let Some(Err(error)) = self.ending.outcome {
            return Err(error.into());
        }
        self.shutdown_write();
        Ok(())
    }

    /// Our FIN was queued before the handshake ended.
    pub(crate) fn shut_down_early(&mut self) {
        if self.send.fin_is_queued() && self.state.get() == State::Established {
            self.state.enter(State::FinWait1);
        }
    }

    /// Ends at once with RST [RFC 9293 §3.10.5].
    pub(crate) fn abort(&mut self, now: Instant) {
        match self.state.get() {
            State::Closed | State::TimeWait => return,
            State::SynSent => {}
            _ => {
                let ack = Some(self.rcv.ack_num());
                let seq = self.send.nxt_num();
                self.agenda.owe_reset(Reset { seq, ack });
            }
        }
        self.fail(ConnectionError::Aborted, now);
    }

    /// The application gave the connection up.
    pub(crate) fn orphan(&mut self, now: Instant) {
        self.ending.orphaned = true;
        if !self.rcv.buffer.is_empty() && self.state.get() != State::TimeWait {
            return self.abort(now);
        }
        if self.state.get() == State::SynSent && self.send.buffered() == 0 {
            return self.finish(Ok(()), now);
        }
        self.shutdown_write();
        if self.state.get() == State::FinWait2 {
            self.timers.set(Timer::Orphan, now + ORPHAN_WAIT);
        }
    }

    /// Our FIN is acknowledged.
    pub(crate) fn on_fin_acked(&mut self, now: Instant) {
        match self.state.get() {
            State::FinWait1 => {
                self.state.enter(State::FinWait2);
                if self.ending.orphaned {
                    self.timers.set(Timer::Orphan, now + ORPHAN_WAIT);
                }
            }
            State::Closing => self.wait_out(now),
            State::LastAck => self.finish(Ok(()), now),
            _ => {}
        }
    }

    /// The peer's FIN and everything before it arrived.
    pub(crate) fn on_peer_fin(&mut self, now: Instant) {
        self.events.add(EventSet::READABLE);
        self.events.add(EventSet::PEER_CLOSED);
        match self.state.get() {
            State::Established => self.state.enter(State::CloseWait),
            State::FinWait1 => self.state.enter(State::Closing),
            State::FinWait2 => self.wait_out(now),
            _ => {}
        }
    }

    /// Both streams ended: the host remembers the 4-tuple, the application is told.
    fn wait_out(&mut self, now: Instant) {
        self.state.enter(State::TimeWait);
        self.timers.stop_all();
        self.ending.outcome = Some(Ok(()));
        self.events.add(EventSet::CLOSED);
        self.send.close(now);
    }

    pub(crate) fn fail(&mut self, error: ConnectionError, now: Instant) {
        self.finish(Err(error), now);
    }

    fn finish(&mut self, outcome: Result<(), ConnectionError>, now: Instant) {
        self.state.enter(State::Closed);
        self.timers.stop_all();
        self.ending.outcome = Some(outcome);
        self.events.add(EventSet::CLOSED);
        self.send.close(now);
    }
}
