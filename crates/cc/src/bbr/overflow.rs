//! A queue that overflowed: for a round as much leaves as arrives.
//!
//! A path that turns slower holds the old window and drops the rest of it. The receiver tells of the drops once
//! what waited before them has arrived, and a sender that keeps its window sends as much again at once, into a
//! queue that is still full.
//!
//! ```text
//! overflow   all that arrived in the round under way waited (as in a congested round: [`short_term`]), it is less
//!            than half of what the bandwidth would bring, and a quarter of the window was lost meanwhile, eight
//!            packets, beyond twice what is lost at random
//! a round    flight <= what is in flight + what arrives
//! then       flight <= the bound + twice what arrives, until that is the window
//! at once    no bound, when something arrives that did not wait
//! ```
//!
//! Half, since a path that others share overflows, too: beside BBRv1's flow, which yields to nothing, one that did
//! had 0.84 shares less than it where 0.28 are usual (half a bdp of buffer, `lab reproduce S15-buffer`).
//!
//! Deviation: [TON §VI-D] keeps its window whatever is lost. Plain BBR conserves packets after each loss
//! ([`conserve`](super::conserve)); here loss alone says nothing.
//!
//! [`short_term`]: super::short_term

use crate::sample::AckSample;

/// Part of the window that no path loses at random: of twice a bdp in flight it is more than half of what arrives.
const OF_WINDOW: u64 = 4;
/// What the bound gains for each byte that arrives.
const GROWTH: u64 = 2;
/// Packets lost that are more than chance.
const LEAST: u64 = 8;

/// The bound on the flight after an overflow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Overflow {
    /// Bytes.
    flight: Option<u64>,
    /// The round of the overflow lasts until this much is delivered, in bytes.
    conserved_until: u64,
}

/// What the round under way shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Lost beyond what is random, in bytes, of a round that is slower than it should be and all of which waited.
    pub(crate) lost: u64,
    /// What was just acknowledged did not wait.
    pub(crate) is_over: bool,
}

impl Overflow {
    /// An acknowledgment under a window of `cwnd` bytes.
    pub(crate) fn on_ack(&mut self, ack: &AckSample, waiting: Waiting, cwnd: u64, mss: u64) {
        let many = (cwnd / OF_WINDOW).max(LEAST.saturating_mul(mss));
        let arrived = ack.in_flight.saturating_add(ack.acked_bytes);
        let bound = self.flight.filter(|_| !waiting.is_over);
        let conserving = bound.is_some() && ack.delivered < self.conserved_until;
        self.flight = match bound {
            Some(flight) if conserving => Some(flight.saturating_sub(ack.lost_bytes).max(arrived)),
            _ if ack.lost_bytes > 0 && waiting.lost >= many => {
                self.conserved_until = ack.delivered.saturating_add(ack.in_flight);
                Some(arrived)
            }
            bound => {
                bound.map(|flight| flight.saturating_add(GROWTH.saturating_mul(ack.acked_bytes)))
            }
        };
    }

    /// No more than this should be in flight, in bytes; `None`: unbounded.
    pub(crate) fn flight(&self) -> Option<u64> {
        self.flight
    }

    /// What is left of the window that would be without it, in bytes.
    pub(crate) fn bound(&mut self, window: u64) -> u64 {
        self.flight = self.flight.filter(|flight| *flight < window);
        self.flight.unwrap_or(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;

    const MSS: u64 = 1_000;
    const CWND: u64 = 100 * MSS;

    /// Acknowledgments of (delivered, acknowledged, lost, in flight), in packets, each of which waited.
    fn after(acks: &[(u64, u64, u64, u64)], lost: u64) -> Overflow {
        let mut overflow = Overflow::default();
        for (delivered, acked, lost_now, in_flight) in acks {
            let ack = AckSample {
                delivered: delivered * MSS,
                acked_bytes: acked * MSS,
                lost_bytes: lost_now * MSS,
                in_flight: in_flight * MSS,
                ..ack()
            };
            overflow.on_ack(&ack, Waiting { lost: lost * MSS, is_over: false }, CWND, MSS);
        }
        overflow
    }

    #[test]
    fn as_much_leaves_as_arrives_for_a_round_after_which_the_bound_grows_by_twice_as_much() {
        let overflown = (1_000, 2, 50, 40);
        let mut overflow = after(&[overflown], 50);
        assert_eq!(overflow.flight(), Some(42 * MSS));
        overflow = after(&[overflown, (1_020, 20, 0, 22), (1_039, 19, 10, 15)], 50);
        assert_eq!(overflow.flight(), Some(34 * MSS), "what is in flight, and what arrived");
        overflow = after(&[overflown, (1_020, 20, 0, 22), (1_040, 20, 0, 22)], 0);
        assert_eq!(overflow.flight(), None, "nothing was lost that waited");
        overflow = after(&[overflown, (1_040, 10, 0, 2), (1_045, 5, 0, 2)], 50);
        assert_eq!(overflow.bound(CWND), (42 + 2 * 10 + 2 * 5) * MSS);
        assert_eq!(overflow.bound(72 * MSS), 72 * MSS);
        assert_eq!(overflow.flight(), None, "it bounds nothing any more");
    }

    #[test]
    fn less_than_a_quarter_of_the_window_or_eight_packets_is_no_overflow() {
        assert_eq!(after(&[(1_000, 2, 24, 40)], 24).flight(), None);
        let mut overflow = Overflow::default();
        let lost = AckSample { lost_bytes: 7 * MSS, in_flight: 9 * MSS, ..ack() };
        overflow.on_ack(&lost, Waiting { lost: 7 * MSS, is_over: false }, 16 * MSS, MSS);
        assert_eq!(overflow.flight(), None);
    }

    #[test]
    fn the_bound_is_gone_at_once_when_something_arrives_that_did_not_wait() {
        let mut overflow = after(&[(1_000, 2, 50, 40)], 50);
        let next = AckSample { delivered: 1_010 * MSS, acked_bytes: 10 * MSS, ..ack() };
        overflow.on_ack(&next, Waiting { lost: 0, is_over: true }, CWND, MSS);
        assert_eq!(overflow.flight(), None);
    }
}
