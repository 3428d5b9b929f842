//! The acknowledgment fixes, "AF" [Landström & Larzon §4.3].
//!
//! With rare acknowledgments a hole makes the receiver say early what it would have said later: a
//! cumulative acknowledgment with SACK. A sender that takes it for its clock releases a burst, and
//! the fast retransmit right behind it, into a queue that has just overflowed. So, outside
//! recovery, the room such an acknowledgment makes is left alone, and retransmissions wait, until
//! the next acknowledgment would have come: one usual interval after the last. Limited Transmit
//! [RFC 3042] stays: what later SACK blocks report may be replaced by new segments, until a loss is
//! certain.

use core::time::Duration;

use tack_units::Instant;

/// An acknowledgment, applied.
#[derive(Clone, Copy, Debug)]
pub struct AckSeen {
    /// It acknowledged something cumulatively.
    pub advanced: bool,
    /// It had SACK blocks.
    pub has_sack: bool,
    /// The sender was in recovery before.
    pub in_recovery: bool,
    /// Room in the congestion window now, in bytes.
    pub room: u64,
}

/// What the fixes remember.
#[derive(Debug, Default)]
pub(crate) struct AckFixes {
    /// The last acknowledgment that came in its turn.
    last_at: Option<Instant>,
    /// Smoothed time between two of them.
    interval: Option<Duration>,
    hold: Option<Hold>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    /// What the early acknowledgment would have clocked out.
    room: u64,
    until: Instant,
}

impl AckFixes {
    pub(crate) fn on_ack(&mut self, ack: &AckSeen, now: Instant) {
        if ack.in_recovery {
            // The receiver answers every segment: no interval to learn, and none to wait for.
            self.last_at = None;
            return;
        }
        match (ack.advanced, ack.has_sack) {
            (true, false) => self.on_turn(now),
            (true, true) if self.hold.is_none() => {
                let expected = self.last_at.zip(self.interval).map(|(at, every)| at + every);
                let until = expected.filter(|at| *at > now);
                self.hold = until.map(|until| Hold { room: ack.room, until });
            }
            _ => {}
        }
    }

    /// An acknowledgment in its turn; holes, if there were any, were reordering.
    fn on_turn(&mut self, now: Instant) {
        if let Some(last) = self.last_at {
            let sample = now.saturating_since(last);
            self.interval = Some(self.interval.map_or(sample, |mean| (mean * 3 + sample) / 4));
        }
        self.last_at = Some(now);
        self.hold = None;
    }

    pub(crate) fn release(&mut self) {
        self.hold = None;
        self.last_at = None;
    }

    /// Bytes held, and until when.
    pub(crate) fn held(&self, now: Instant) -> Option<(u64, Instant)> {
        self.hold.filter(|hold| hold.until > now).map(|hold| (hold.room, hold.until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: AckSeen = AckSeen { advanced: true, has_sack: false, in_recovery: false, room: 7 };
    const EARLY: AckSeen = AckSeen { has_sack: true, ..TURN };

    fn ms(n: u64) -> Instant {
        Instant::from_millis(n)
    }

    fn steady() -> AckFixes {
        let mut fixes = AckFixes::default();
        for at in [0, 100, 200, 300] {
            fixes.on_ack(&TURN, ms(at));
        }
        fixes
    }

    #[test]
    fn an_early_acknowledgment_clocks_nothing_until_the_next_one_is_expected() {
        let mut fixes = steady();
        assert_eq!(fixes.held(ms(310)), None);
        fixes.on_ack(&EARLY, ms(320));
        assert_eq!(fixes.held(ms(320)), Some((7, ms(400))));
        // What follows neither prolongs nor widens it.
        fixes.on_ack(&AckSeen { advanced: false, room: 9, ..EARLY }, ms(330));
        fixes.on_ack(&AckSeen { room: 9, ..EARLY }, ms(330));
        fixes.on_ack(&AckSeen { in_recovery: true, ..EARLY }, ms(340));
        assert_eq!(fixes.held(ms(399)), Some((7, ms(400))));
        assert_eq!(fixes.held(ms(400)), None);
    }

    #[test]
    fn reordering_ends_the_hold_with_the_acknowledgment_that_fills_the_hole() {
        let mut fixes = steady();
        fixes.on_ack(&EARLY, ms(320));
        fixes.on_ack(&TURN, ms(325));
        assert_eq!(fixes.held(ms(325)), None);
    }

    #[test]
    fn nothing_is_held_without_an_interval_in_recovery_or_after_a_timeout() {
        let mut fixes = AckFixes::default();
        fixes.on_ack(&TURN, ms(0));
        fixes.on_ack(&EARLY, ms(1));
        assert_eq!(fixes.held(ms(1)), None, "one acknowledgment makes no interval");
        let mut fixes = steady();
        fixes.on_ack(&AckSeen { in_recovery: true, ..EARLY }, ms(320));
        assert_eq!(fixes.held(ms(320)), None);
        let mut fixes = steady();
        fixes.on_ack(&EARLY, ms(320));
        fixes.release();
        assert_eq!(fixes.held(ms(320)), None);
        let mut fixes = steady();
        fixes.on_ack(&EARLY, ms(450));
        assert_eq!(fixes.held(ms(450)), None, "the next one is late already");
    }
}
