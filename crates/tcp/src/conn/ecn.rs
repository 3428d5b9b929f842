//! Explicit congestion notification [RFC 3168 §6.1], when both SYNs agreed.

use crate::wire::Flags;
use crate::wire::ip::Ecn;

/// The receiver of marks: it echoes them.
#[derive(Debug, Default)]
pub(crate) struct EcnEcho {
    on: bool,
    /// CE came; ECE goes on every acknowledgment until CWR comes.
    due: bool,
}

impl EcnEcho {
    pub(crate) fn agree(&mut self, on: bool) {
        self.on = on;
    }

    /// A segment with text arrived.
    pub(crate) fn on_text(&mut self, flags: Flags, ecn: Ecn) {
        if self.on && flags.has(Flags::CWR) {
            self.due = false;
        }
        self.due |= self.on && ecn == Ecn::Ce;
    }

    /// Flags of a segment with an acknowledgment.
    pub(crate) fn flags(&self) -> Flags {
        if self.due { Flags::ECE } else { Flags::default() }
    }
}

/// The sender of what is marked: it reacts.
#[derive(Debug, Default)]
pub(crate) struct EcnReaction {
    on: bool,
    /// We reacted; CWR goes on the next new data.
    cwr_due: bool,
    /// One reaction per window: until more than this is acknowledged. What comes right after it
    /// carries CWR, so whoever acknowledges just this has not been told yet.
    reacted_until: Option<u64>,
}

impl EcnReaction {
    pub(crate) fn agree(&mut self, on: bool) {
        self.on = on;
    }

    /// What new data is marked with; retransmissions and bare ACKs are not [RFC 3168 §6.1.5].
    pub(crate) fn codepoint(&self, fresh: bool) -> Ecn {
        if self.on && fresh { Ecn::Ect0 } else { Ecn::NotEct }
    }

    /// Flags of a segment with text that leaves; `fresh`: it carries new data.
    pub(crate) fn flags(&mut self, fresh: bool) -> Flags {
        let cwr = fresh && core::mem::take(&mut self.cwr_due);
        if cwr { Flags::CWR } else { Flags::default() }
    }

    /// The peer says that marks arrived. True when the sender must react now.
    pub(crate) fn on_echo(&mut self, snd_una: u64, snd_nxt: u64) -> bool {
        if !self.on || self.reacted_until.is_some_and(|point| snd_una <= point) {
            return false;
        }
        self.reacted_until = Some(snd_nxt);
        self.cwr_due = true;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_echoed_until_the_sender_says_it_reacted_once_per_window() {
        let (mut sender, mut receiver) = (EcnReaction::default(), EcnEcho::default());
        sender.agree(true);
        receiver.agree(true);
        receiver.on_text(Flags::ACK, Ecn::Ce);
        assert!(receiver.flags().has(Flags::ECE));
        assert!(sender.on_echo(100, 200));
        assert!(!sender.on_echo(150, 250));
        assert!(!sender.on_echo(200, 250), "CWR is still on its way");
        assert!(sender.flags(true).has(Flags::CWR));
        assert!(!sender.flags(true).has(Flags::CWR));
        receiver.on_text(Flags::ACK | Flags::CWR, Ecn::Ect0);
        assert!(!receiver.flags().has(Flags::ECE));
        assert!(sender.on_echo(201, 300));
    }

    #[test]
    fn nothing_is_marked_or_echoed_unless_agreed() {
        let (mut sender, mut receiver) = (EcnReaction::default(), EcnEcho::default());
        receiver.on_text(Flags::ACK, Ecn::Ce);
        assert_eq!(receiver.flags(), Flags::default());
        assert_eq!(sender.codepoint(true), Ecn::NotEct);
        assert!(!sender.on_echo(1, 2));
        assert_eq!(sender.flags(true), Flags::default());
    }
}
