//! Packet-timed round trips.
//!
//! A round ends when something sent after it began is acknowledged. Counted in delivered bytes, not
//! in time, so neither a jittery clock nor a queue that grows meanwhile changes what a round is:
//! one flight of data.

/// Counts rounds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    count: u64,
    /// The round ends with a packet sent when at least this was delivered, in bytes.
    end: u64,
}

impl Round {
    /// True when the acknowledged packet, sent at `prior_delivered`, begins a new round.
    pub(crate) fn on_ack(&mut self, prior_delivered: u64, delivered: u64) -> bool {
        if prior_delivered < self.end {
            return false;
        }
        self.end = delivered;
        self.count += 1;
        true
    }

    /// The next round begins with what is sent from now on.
    pub(crate) fn restart(&mut self, delivered: u64) {
        self.end = delivered;
    }

    /// Rounds begun so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_lasts_until_a_packet_sent_in_it_is_acknowledged() {
        // A flight of 10: packet n is sent when n - 10 were delivered.
        let mut round = Round::default();
        let started: Vec<u64> =
            (1..=40).filter(|n: &u64| round.on_ack(n.saturating_sub(10), *n)).collect();
        assert_eq!(started, [1, 11, 21, 31]);
        assert_eq!(round.count(), 4);
    }

    #[test]
    fn a_restarted_round_waits_for_what_is_sent_afterwards() {
        let mut round = Round::default();
        round.on_ack(0, 10);
        round.restart(50);
        assert!(!round.on_ack(49, 60));
        assert!(round.on_ack(50, 60));
    }
}
