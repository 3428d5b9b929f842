//! How large a receive window should be.
//!
//! Whatever arrived in one round trip, the sender may send up to twice as much in the next (slow start)
//! and acknowledgments of it are another round trip away, so four times that is offered. What arrives
//! behind a hole counts, and what waits there comes on top: it keeps its room until the hole is filled,
//! a round trip or two in which a sender whose repair was lost, too, would else have to stop. Linux does
//! so since 6.17.

use core::time::Duration;

use tack_units::Instant;

/// Round trips are taken to be no shorter: bursts of less are one.
const LEAST_ROUND: Duration = Duration::from_millis(2);
/// Before a round trip is known.
const USUAL_RTT: Duration = Duration::from_millis(100);

/// What arrived since a round trip began, in bytes, in order or not.
#[derive(Debug)]
pub struct Round {
    began: Instant,
    arrived: u64,
    /// In the round trip before it.
    before: u64,
}

impl Round {
    /// A round that begins.
    pub fn new(now: Instant) -> Round {
        Round { began: now, arrived: 0, before: 0 }
    }

    /// So many bytes arrived that were not there before.
    pub fn on_arrived(&mut self, bytes: u64) {
        self.arrived += bytes;
    }

    /// The window wanted, in bytes; `waits`: what waits behind a hole, which counts once a round trip has passed. What
    /// has arrived before that can only become more, and a flight that doubles needs its window a round trip sooner.
    pub fn wanted(&mut self, rtt: Option<Duration>, waits: u64, now: Instant) -> usize {
        let most = self.arrived.max(self.before).saturating_mul(4);
        let round = rtt.unwrap_or(USUAL_RTT).max(LEAST_ROUND);
        let is_over = now.saturating_since(self.began) >= round;
        if is_over {
            *self = Round { before: self.arrived, ..Round::new(now) };
        }
        let wanted = most.saturating_add(if is_over { waits } else { 0 });
        usize::try_from(wanted).unwrap_or(usize::MAX)
    }
}
