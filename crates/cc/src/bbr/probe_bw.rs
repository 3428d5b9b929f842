//! The gain cycle of ProbeBW: send faster to find more bandwidth, then slower to drain what queue
//! that made, then cruise.
//!
//! ```text
//! gain 1.25 | 0.75 | 1 1 1 1 1 1      8 phases: of one RTTmin each at the sender, of 4 TACK
//!                                     intervals each at the receiver [TON §VI-D]
//! ```
//!
//! The sender's phases follow the flight: 1.25 lasts until that much is in flight (or something is
//! lost). The receiver's lasts its time, because flight is known only once per TACK. 0.75 ends early
//! once the queue is gone.
//!
//! So a sender's probe that finds bandwidth does not end after a round: each round raises the
//! estimate by a quarter, and with it the flight at which the probe would be over, by three send
//! quanta more than the flight can follow. On small paths it goes on until the new bandwidth is
//! found: 10 round trips where [TON §VII-D] counts 24, three cycles of a probe of one round. Linux
//! does the same (`by_the_sender_a_small_path_…` in the tests has its figures).
//!
//! Deviation: the receiver's probe that found bandwidth is followed by another one right away, of
//! gain 1.5 and then 2 while no queue shows. On a path that has become faster, a quarter more every
//! eight round trips is slower than what any window-based controller does.
//!
//! The cycle begins at a random place, but never with draining, so that flows which share a
//! bottleneck do not probe in step.

use core::time::Duration;

use tack_units::{Instant, Rate};

/// Bandwidth growth that one probe can discover: the first, and those that follow a success.
const PROBE_GAINS: [f64; 3] = [1.25, 1.5, 2.0];
/// What drains the queue of a vain probe.
const DRAIN_GAIN: f64 = 0.75;
/// Growth of the estimate by which a receiver's probe has found bandwidth: most of the first gain.
const SUCCESS: f64 = 1.15;
/// Phases after a probe in which what it found may show: its packets' round trip, and the time that
/// the receiver measures over.
const ECHO_PHASES: u64 = 2;

/// Where in the cycle the sender is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cycle {
    /// 0 probes, 1 drains.
    phase: u64,
    phases: u64,
    began: Instant,
    /// Index into [`PROBE_GAINS`].
    level: usize,
    /// Estimate when the probe began.
    before: Rate,
}

/// What moves the cycle on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flight {
    /// A phase is over when it has lasted longer than this.
    pub(crate) phase: Duration,
    /// In flight before this acknowledgment, in bytes.
    pub(crate) in_flight: u64,
    /// Something was lost.
    pub(crate) lost: bool,
    /// In flight at which probing has done what it can.
    pub(crate) probed: u64,
    /// In flight at which the queue is gone.
    pub(crate) drained: u64,
    /// The receiver measures: probes last their time, and may be repeated.
    pub(crate) by_receiver: bool,
    /// The round trip shows a queue.
    pub(crate) queued: bool,
    /// Estimate.
    pub(crate) bandwidth: Rate,
}

impl Cycle {
    /// `phases` of them, beginning where `random` says.
    pub(crate) fn new(phases: u64, random: u32, bandwidth: Rate, now: Instant) -> Self {
        // All phases but the draining one: 0, 2, 3, ...
        let pick = u64::from(random) % (phases - 1);
        let phase = if pick == 0 { 0 } else { pick + 1 };
        Cycle { phase, phases, began: now, level: 0, before: bandwidth }
    }

    /// An acknowledgment: the cycle may move to its next phase. True when a probe begins.
    pub(crate) fn on_ack(&mut self, flight: &Flight, now: Instant) -> bool {
        if self.has_found(flight) {
            let level = if flight.queued { 0 } else { self.level + 1 };
            self.level = level.min(PROBE_GAINS.len() - 1);
            self.enter(0, flight, now);
            return true;
        }
        let full = now.saturating_since(self.began) > flight.phase;
        let over = match self.phase {
            0 => full && (flight.by_receiver || flight.lost || flight.in_flight >= flight.probed),
            1 => full || flight.in_flight <= flight.drained,
            _ => full,
        };
        if over {
            let next = (self.phase + 1) % self.phases;
            if next == 0 {
                self.level = 0;
            }
            self.enter(next, flight, now);
        }
        over && self.phase == 0
    }

    /// The probe before found bandwidth.
    fn has_found(&self, flight: &Flight) -> bool {
        let shows = (1..=ECHO_PHASES).contains(&self.phase);
        flight.by_receiver && shows && flight.bandwidth >= self.before.mul_f64(SUCCESS)
    }

    fn enter(&mut self, phase: u64, flight: &Flight, now: Instant) {
        self.phase = phase;
        self.began = now;
        if phase == 0 {
            self.before = flight.bandwidth;
        }
    }

    /// Gain of the pacing rate.
    pub(crate) fn gain(&self) -> f64 {
        match self.phase {
            0 => PROBE_GAINS[self.level],
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
        Flight {
            phase: RTT,
            in_flight,
            lost: false,
            probed: 125,
            drained: 100,
            by_receiver: false,
            queued: false,
            bandwidth: Rate::from_mbps(10),
        }
    }

    fn cycle() -> Cycle {
        Cycle::new(8, 0, Rate::from_mbps(10), Instant::ZERO)
    }

    /// Gains of so many phases, one acknowledgment in each, of a receiver that sees `rates`.
    fn by_receiver(rates: &[u64], queued: bool) -> Vec<f64> {
        let mut cycle = cycle();
        let gains = rates.iter().enumerate().map(|(i, mbps)| {
            let gain = cycle.gain();
            let seen = Flight {
                by_receiver: true,
                queued,
                bandwidth: Rate::from_mbps(*mbps),
                ..flight(200)
            };
            cycle.on_ack(&seen, Instant::from_millis(11 * (i as u64 + 1)));
            gain
        });
        gains.collect()
    }

    #[test]
    fn a_vain_cycle_is_one_up_one_down_and_six_of_cruising() {
        // [TON §VI-D]: 32 intervals, 4 of them up and 4 down.
        let gains = by_receiver(&[10; 9], false);
        assert_eq!(gains, [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.25]);
        assert!((gains[..8].iter().sum::<f64>() - 8.0).abs() < 1e-9, "it gains nothing itself");
    }

    #[test]
    fn a_probe_that_found_bandwidth_is_followed_by_another_and_a_steeper_one_without_a_queue() {
        let rates = [10, 12, 12, 17, 17, 30, 30, 30, 30, 30];
        let gains = by_receiver(&rates, false);
        assert_eq!(gains, [1.25, 0.75, 1.5, 0.75, 2.0, 0.75, 2.0, 0.75, 1.0, 1.0]);
        let behind_a_queue = by_receiver(&rates, true);
        assert_eq!(behind_a_queue[..5], [1.25, 0.75, 1.25, 0.75, 1.25]);
    }

    #[test]
    fn no_cycle_begins_with_draining_and_every_other_place_occurs() {
        let mut phases = [0; 8];
        for random in 0..700 {
            let cycle = Cycle::new(8, random, Rate::MAX, Instant::ZERO);
            phases[usize::try_from(cycle.phase).unwrap()] += 1;
        }
        assert_eq!(phases, [100, 0, 100, 100, 100, 100, 100, 100]);
    }

    #[test]
    fn a_senders_probe_lasts_until_the_flight_is_there_or_something_is_lost() {
        let mut cycle = cycle();
        let late = Instant::from_millis(50);
        cycle.on_ack(&flight(124), late);
        assert_eq!(cycle.gain(), 1.25);
        let mut lossy = cycle;
        lossy.on_ack(&Flight { lost: true, ..flight(124) }, late);
        assert_eq!(lossy.gain(), 0.75);
        cycle.on_ack(&flight(125), late);
        assert_eq!(cycle.gain(), 0.75);
    }

    #[test]
    fn draining_ends_as_soon_as_the_queue_is_gone() {
        let mut cycle = cycle();
        cycle.on_ack(&flight(200), Instant::from_millis(11));
        cycle.on_ack(&flight(101), Instant::from_millis(12));
        assert_eq!(cycle.gain(), 0.75);
        cycle.on_ack(&flight(100), Instant::from_millis(13));
        assert_eq!(cycle.gain(), 1.0);
    }
}
