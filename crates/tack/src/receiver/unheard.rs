//! Said again to a sender that has not heard: it sends what has long been here.
//!
//! Few acknowledgments are easily lost together. Then the sender's window is used up, nothing arrives that
//! would be acknowledged by rule, and what is left is one answer for each probe and timeout, whose waits
//! grow. So an answer to something needless is repeated until something new arrives: once, after the
//! second such packet in a row twice, then three times, a TACK interval apart. Only where the sender has told
//! that acknowledgments are lost: elsewhere, what is needless is a timer that was early.
//!
//! Deviation: [TON] has no such copies. At 7 % of acknowledgments lost in bursts of four a flow of 125 Mbit/s
//! stood still for seconds, where 160 times as many ACKs outlast a burst in a millisecond.

use core::time::Duration;

use tack_units::Instant;

/// Most copies of an answer.
const MOST_COPIES: u32 = 3;
/// Copies closer than this share one fate.
const LEAST_SPACING: Duration = Duration::from_millis(1);

/// Copies that are still to be sent.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    /// Needless packets since something new arrived.
    in_a_row: u32,
    copies: u32,
    due: Option<Instant>,
}

impl Unheard {
    /// A packet arrived, and the sender should have known that it is `needless`.
    pub(super) fn on_arrival(&mut self, needless: bool) {
        if needless {
            self.in_a_row = (self.in_a_row + 1).min(MOST_COPIES);
            self.copies = self.in_a_row;
        } else {
            *self = Unheard::default();
        }
    }

    /// A TACK leaves.
    pub(super) fn on_tack(&mut self, alpha: Duration, rtt_min: Duration, now: Instant) {
        let spacing = alpha.max(rtt_min / 4).max(LEAST_SPACING);
        self.due = (self.copies > 0).then(|| now + spacing);
        self.copies = self.copies.saturating_sub(1);
    }

    /// When the next copy is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALPHA: Duration = Duration::from_millis(5);

    /// Copies of the answer to what came last, all sent in time.
    fn copies(unheard: &mut Unheard) -> u64 {
        unheard.on_tack(ALPHA, ALPHA * 4, Instant::ZERO);
        let mut now = Instant::ZERO;
        let mut copies = 0;
        while let Some(due) = unheard.due() {
            assert_eq!(due, now + ALPHA);
            (now, copies) = (due, copies + 1);
            unheard.on_tack(ALPHA, ALPHA * 4, now);
        }
        copies
    }

    #[test]
    fn answers_to_what_is_needless_are_repeated_the_more_the_longer_nothing_new_comes() {
        let mut unheard = Unheard::default();
        for expected in [1, 2, 3, 3, 3] {
            unheard.on_arrival(true);
            assert_eq!(copies(&mut unheard), expected);
        }
    }

    #[test]
    fn what_is_new_ends_it() {
        let mut unheard = Unheard::default();
        (0..2).for_each(|_| unheard.on_arrival(true));
        unheard.on_tack(ALPHA, ALPHA * 4, Instant::ZERO);
        unheard.on_arrival(false);
        assert_eq!(unheard.due(), None);
        assert_eq!(copies(&mut unheard), 0);
    }

    #[test]
    fn copies_are_apart_even_where_nothing_is_known_of_the_path() {
        let mut unheard = Unheard::default();
        unheard.on_arrival(true);
        unheard.on_tack(Duration::ZERO, Duration::ZERO, Instant::ZERO);
        assert_eq!(unheard.due(), Some(Instant::ZERO + LEAST_SPACING));
    }
}
