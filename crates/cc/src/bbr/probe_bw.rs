//! The gain cycle of ProbeBW: send faster to find more bandwidth, then slower to drain what queue
//! that made, then cruise.
//!
//! ```text
//! sender    gain 1.25 | 0.75 | 1 1 1 1 1 1      8 phases of one RTTmin each
//! receiver  gain 1.25 | 0.75 | 1 ........ 1     4 + 4 + 24 TACK intervals [TON §VI-D]
//! ```
//!
//! The sender's phases follow the flight: 1.25 lasts until that much is in flight (or something is
//! lost), 0.75 ends early once the queue is gone. The receiver's last their time, because flight is
//! known only once per TACK.
//!
//! So a sender's probe that finds bandwidth does not end after a round: each round raises the
//! estimate by a quarter, and with it the flight at which the probe would be over, by three send
//! quanta more than the flight can follow. On small paths it goes on until the new bandwidth is
//! found: 10 round trips where [TON §VII-D] counts 24, three cycles of a probe of one round. Linux
//! does the same (`by_the_sender_a_small_path_…` in the tests has its figures).
//!
//! The cycle begins at a random place, but never with draining, so that flows which share a
//! bottleneck do not probe in step.

use core::time::Duration;

use tack_units::Instant;

/// Bandwidth growth that one probe can discover, and what drains the queue of a vain one.
const PROBE_GAIN: f64 = 1.25;
const DRAIN_GAIN: f64 = 0.75;
/// TACK intervals of probing, and as many of draining: one round trip each.
const SUBPHASE: u64 = 4;

/// Where in the cycle the sender is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cycle {
    /// Phases of one RTTmin.
    Rounds { phase: u64, phases: u64, began: Instant },
    /// TACK intervals, counted from `began` on the [`TackClock`](super::clock::TackClock).
    Intervals { began: u64, intervals: u64 },
}

/// What moves the cycle of the sender on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// In flight before this acknowledgment, in bytes.
    pub(crate) in_flight: u64,
    /// Something was lost.
    pub(crate) lost: bool,
    /// In flight at which probing has done what it can.
    pub(crate) probed: u64,
    /// In flight at which the queue is gone.
    pub(crate) drained: u64,
    /// Least time in a phase.
    pub(crate) rtt_min: Duration,
}

impl Cycle {
    /// In phases of RTTmin, `phases` of them, beginning where `random` says.
    pub(crate) fn in_rounds(phases: u64, random: u32, now: Instant) -> Self {
        // All phases but the draining one: 0, 2, 3, ...
        let pick = u64::from(random) % (phases - 1);
        let phase = if pick == 0 { 0 } else { pick + 1 };
        Cycle::Rounds { phase, phases, began: now }
    }

    /// In TACK intervals, `intervals` of them, beginning where `random` says.
    pub(crate) fn in_intervals(intervals: u64, random: u32, position: u64) -> Self {
        let pick = u64::from(random) % (intervals - SUBPHASE);
        let offset = if pick < SUBPHASE { 0 } else { pick + SUBPHASE };
        // The cycle began `offset` ago, which may be before the clock did.
        Cycle::Intervals { began: position.wrapping_sub(offset), intervals }
    }

    /// An acknowledgment: the sender's cycle may move to its next phase.
    pub(crate) fn on_ack(&mut self, flight: &Flight, now: Instant) {
        let gain = self.gain(0);
        let Cycle::Rounds { phase, phases, began } = self else { return };
        let full = now.saturating_since(*began) > flight.rtt_min;
        let over = if gain > 1.0 {
            full && (flight.lost || flight.in_flight >= flight.probed)
        } else if gain < 1.0 {
            full || flight.in_flight <= flight.drained
        } else {
            full
        };
        if over {
            *phase = (*phase + 1) % *phases;
            *began = now;
        }
    }

    /// Gain of the pacing rate at `position` of the TACK clock.
    pub(crate) fn gain(&self, position: u64) -> f64 {
        let subphase = match *self {
            Cycle::Rounds { phase, .. } => phase,
            Cycle::Intervals { began, intervals } => {
                position.wrapping_sub(began) % intervals / SUBPHASE
            }
        };
        match subphase {
            0 => PROBE_GAIN,
            1 => DRAIN_GAIN,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(10);

    fn flight(in_flight: u64) -> Flight {
        Flight { in_flight, lost: false, probed: 125, drained: 100, rtt_min: RTT }
    }

    #[test]
    fn thirty_two_intervals_are_four_up_four_down_and_cruise() {
        // [TON §VI-D].
        let cycle = Cycle::in_intervals(32, 0, 1_000);
        let gains: Vec<f64> = (1_000..1_032).map(|p| cycle.gain(p)).collect();
        assert!(gains[..4].iter().all(|g| *g == 1.25));
        assert!(gains[4..8].iter().all(|g| *g == 0.75));
        assert!(gains[8..].iter().all(|g| *g == 1.0));
        assert!((gains.iter().sum::<f64>() - 32.0).abs() < 1e-9, "a cycle gains nothing itself");
        assert_eq!(cycle.gain(1_032), 1.25);
    }

    #[test]
    fn no_cycle_begins_with_draining_and_every_other_place_occurs() {
        let mut phases = [0; 8];
        for random in 0..700 {
            let cycle = Cycle::in_rounds(8, random, Instant::ZERO);
            let Cycle::Rounds { phase, .. } = cycle else { unreachable!("asked for rounds") };
            phases[usize::try_from(phase).unwrap()] += 1;
            assert_ne!(Cycle::in_intervals(32, random, 0).gain(0), 0.75);
            assert_ne!(Cycle::in_intervals(16, random, 0).gain(0), 0.75);
        }
        assert_eq!(phases, [100, 0, 100, 100, 100, 100, 100, 100]);
    }

    #[test]
    fn probing_lasts_until_the_flight_is_there_or_something_is_lost() {
        let mut cycle = Cycle::in_rounds(8, 0, Instant::ZERO);
        let late = Instant::from_millis(50);
        cycle.on_ack(&flight(124), late);
        assert_eq!(cycle.gain(0), 1.25);
        let mut lossy = cycle;
        lossy.on_ack(&Flight { lost: true, ..flight(124) }, late);
        assert_eq!(lossy.gain(0), 0.75);
        cycle.on_ack(&flight(125), late);
        assert_eq!(cycle.gain(0), 0.75);
    }

    #[test]
    fn draining_ends_as_soon_as_the_queue_is_gone() {
        let mut cycle = Cycle::in_rounds(8, 0, Instant::ZERO);
        cycle.on_ack(&flight(200), Instant::from_millis(11));
        cycle.on_ack(&flight(101), Instant::from_millis(12));
        assert_eq!(cycle.gain(0), 0.75);
        cycle.on_ack(&flight(100), Instant::from_millis(13));
        assert_eq!(cycle.gain(0), 1.0);
    }
}
