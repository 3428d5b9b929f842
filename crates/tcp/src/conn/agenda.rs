//! What is owed to the wire, and what comes first.
//!
//! ```text
//!  1 Reset          the last word
//!  2 Syn            nothing else before both ends are synchronized
//!  3 HandshakeAck   the peer's SYN/ACK, before anything that presumes it
//!  4 Feedback       TACKs and IACKs: late ones cost the peer more than late data
//!  5 WindowProbe    the peer must answer it, and data waits for the answer
//!  6 Keepalive      likewise, but nothing waits
//!  7 Data           a tail loss probe, what is lost, what is new: SEG.ACK goes with it
//!  8 Ack            alone, where nothing above carried it
//! ```
//!
//! Feedback, data and acknowledgments have their turn always: whether there are any, the policy, the
//! windows and the pacer say. The others are noted here when their reason arises.

use crate::conn::State;
use crate::conn::close::Reset;

/// Something that may have to leave. The numbers are bits; the lower comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Owed {
    /// RST.
    Reset = 1 << 0,
    /// SYN or SYN/ACK.
    Syn = 1 << 1,
    /// The third segment of the handshake.
    HandshakeAck = 1 << 2,
    /// A TACK or IACK.
    Feedback = 1 << 3,
    /// A probe of a closed window [RFC 9293 §3.8.6.1].
    WindowProbe = 1 << 4,
    /// A probe of a silent peer [RFC 9293 §3.8.4].
    Keepalive = 1 << 5,
    /// Text and FIN.
    Data = 1 << 6,
    /// An acknowledgment for the protocol's sake, whatever the policy says.
    Ack = 1 << 7,
    /// A tail loss probe. It leads the burst of data, and has no turn of its own.
    LossProbe = 1 << 8,
}

const IN_ORDER: [Owed; 8] = [
    Owed::Reset,
    Owed::Syn,
    Owed::HandshakeAck,
    Owed::Feedback,
    Owed::WindowProbe,
    Owed::Keepalive,
    Owed::Data,
    Owed::Ack,
];

/// What has its turn always.
const ALWAYS: u16 = Owed::Feedback as u16 | Owed::Data as u16 | Owed::Ack as u16;

/// See the [module's text](self).
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    noted: u16,
    /// The RST that is noted.
    reset: Reset,
}

impl Agenda {
    /// `owed` must leave.
    pub(crate) fn owe(&mut self, owed: Owed) {
        self.noted |= owed as u16;
    }

    /// A RST must leave, this one.
    pub(crate) fn owe_reset(&mut self, reset: Reset) {
        self.owe(Owed::Reset);
        self.reset = reset;
    }

    pub(crate) fn owes(&self, owed: Owed) -> bool {
        self.noted & owed as u16 != 0
    }

    /// `owed` left, or need not any more. True if it was noted.
    pub(crate) fn strike(&mut self, owed: Owed) -> bool {
        let noted = self.owes(owed);
        self.noted &= !(owed as u16);
        noted
    }

    /// The RST to send now.
    pub(crate) fn take_reset(&mut self) -> Option<Reset> {
        self.strike(Owed::Reset).then_some(self.reset)
    }

    /// What has its turn now, in order.
    pub(crate) fn turns(&self, state: State) -> Turns {
        let (always, possible) = match state {
            State::Closed => (0, Owed::Reset as u16),
            State::SynSent => (0, Owed::Reset as u16 | Owed::Syn as u16),
            // A peer that began anew learns from the acknowledgment that we have not.
            State::SynReceived => (0, Owed::Reset as u16 | Owed::Syn as u16 | Owed::Ack as u16),
            _ => (ALWAYS, u16::MAX),
        };
        Turns((self.noted | always) & possible & !(Owed::LossProbe as u16))
    }
}

/// What of an [`Agenda`] has its turn still.
#[derive(Debug)]
pub(crate) struct Turns(u16);

impl Iterator for Turns {
    type Item = Owed;

    fn next(&mut self) -> Option<Owed> {
        let next = *IN_ORDER.get(self.0.trailing_zeros() as usize)?;
        self.0 &= !(next as u16);
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_come_in_the_order_of_precedence_whatever_the_order_of_reasons() {
        let mut agenda = Agenda::default();
        let always = [Owed::Feedback, Owed::Data, Owed::Ack];
        assert!(agenda.turns(State::Established).eq(always));
        assert_eq!(agenda.turns(State::SynReceived).count(), 0);
        for owed in IN_ORDER.into_iter().rev() {
            agenda.owe(owed);
        }
        assert!(agenda.turns(State::Established).eq(IN_ORDER));
        assert!(agenda.turns(State::SynSent).eq([Owed::Reset, Owed::Syn]));
        assert!(agenda.turns(State::SynReceived).eq([Owed::Reset, Owed::Syn, Owed::Ack]));
        assert!(agenda.turns(State::Closed).eq([Owed::Reset]));
    }

    #[test]
    fn what_is_struck_has_no_turn_and_a_loss_probe_never_has() {
        let mut agenda = Agenda::default();
        agenda.owe(Owed::LossProbe);
        agenda.owe(Owed::Keepalive);
        assert!(agenda.strike(Owed::Keepalive));
        assert!(!agenda.strike(Owed::Keepalive));
        assert_eq!(agenda.turns(State::Established).count(), 3);
        assert!(agenda.owes(Owed::LossProbe));
    }
}
