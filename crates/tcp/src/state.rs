//! The states of [RFC 9293 §3.3.2] and the edges between them.

/// State of a connection. CLOSED is a connection that is over; LISTEN belongs to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A SYN was sent.
    SynSent,
    /// A SYN came, and ours is out too.
    SynReceived,
    /// Data flows both ways.
    Established,
    /// We ended our stream; the peer has not acknowledged that.
    FinWait1,
    /// The peer acknowledged our end and may still send.
    FinWait2,
    /// The peer ended its stream; we may still send.
    CloseWait,
    /// Both ended at once; ours is not acknowledged.
    Closing,
    /// The peer ended first, then we; ours is not acknowledged.
    LastAck,
    /// Both ended and all is acknowledged; the host remembers the 4-tuple for 2 MSL.
    TimeWait,
    /// Over.
    Closed,
}

/// Holds the state; the only place that writes it.
#[derive(Debug)]
pub(crate) struct StateCell(State);

impl StateCell {
    pub(crate) fn new(state: State) -> Self {
        StateCell(state)
    }

    pub(crate) fn get(&self) -> State {
        self.0
    }

    /// Moves along an edge of [RFC 9293 Fig. 5]; anything may end in CLOSED.
    pub(crate) fn enter(&mut self, next: State) {
        use State::*;
        assert!(
            matches!(
                (self.0, next),
                (SynSent, SynReceived | Established)
                    | (SynReceived, Established | FinWait1)
                    | (Established, FinWait1 | CloseWait)
                    | (FinWait1, FinWait2 | Closing | TimeWait)
                    | (FinWait2, TimeWait)
                    | (CloseWait, LastAck)
                    | (Closing, TimeWait)
                    | (_, Closed)
            ),
            "{:?} -> {next:?} is not an edge of [RFC 9293 Fig. 5]",
            self.0
        );
        self.0 = next;
    }
}

impl State {
    /// Both SYNs are exchanged and the connection is not over.
    pub fn is_synchronized(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed)
    }

    /// Nothing but TIME-WAIT is left of it.
    pub(crate) fn is_over(self) -> bool {
        matches!(self, State::TimeWait | State::Closed)
    }

    /// The peer may still send data.
    pub fn may_receive(self) -> bool {
        matches!(self, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Our stream is not ended.
    pub fn may_send(self) -> bool {
        matches!(self, State::SynSent | State::SynReceived | State::Established | State::CloseWait)
    }
}
