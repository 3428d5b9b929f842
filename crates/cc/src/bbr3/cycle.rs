//! ProbeBW's cycle, and which samples belong to a probe [draft-ietf-ccwg-bbr §5.3.3].
//!
//! ```text
//! Down    0.90  until one bdp is in flight, and 15 % below the long-term bound
//! Cruise  1     until 2 to 3 s have passed since Down began, or as many rounds as a Reno flow
//!               with this window takes to fill the queue again, 63 at most
//! Refill  1     one round, without short-term bounds: the pipe is full when the probe begins
//! Up      1.25  until loss, or three rounds without a quarter more bandwidth
//! ```

use core::time::Duration;

use tack_units::{Instant, Rate};

use crate::bbr::full_pipe::FullPipe;

/// Where in the cycle the sender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Down,
    Cruise,
    Refill,
    Up,
}

impl Phase {
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            Phase::Down => 0.90,
            Phase::Cruise | Phase::Refill => 1.0,
            Phase::Up => 1.25,
        }
    }

    pub(super) fn cwnd_gain(self) -> f64 {
        if self == Phase::Up { 2.25 } else { 2.0 }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Phase::Down => "probe_bw_down",
            Phase::Cruise => "probe_bw_cruise",
            Phase::Refill => "probe_bw_refill",
            Phase::Up => "probe_bw_up",
        }
    }
}

/// What the acknowledgments that arrive are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Samples {
    /// Nothing of a probe.
    Other,
    /// A probe has begun; what arrives left before it.
    Starting,
    /// What arrives left during the probe.
    Feedback,
    /// The probe is over; what arrives left during it.
    Stopping,
}

/// The cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    phase: Phase,
    /// When Down began.
    down_at: Instant,
    wait: Duration,
    rounds: u64,
    /// Rounds that a Reno flow takes, with the least flight since Down began that was wanted.
    reno_rounds: u64,
    samples: Samples,
    /// Loss of a probe has not been counted yet.
    unjudged: bool,
    /// Up's own plateau.
    plateau: FullPipe,
    /// Cycles whose probes are over: the axis of the bandwidth filter.
    count: u64,
}

/// Least time between two probes; up to a second more is added at random.
const WAIT: Duration = Duration::from_secs(2);
/// No more rounds between two probes, however large the window.
const MAX_ROUNDS: u64 = 63;

impl Cycle {
    pub(super) fn new(now: Instant) -> Self {
        Cycle {
            phase: Phase::Down,
            down_at: now,
            wait: WAIT,
            rounds: 0,
            reno_rounds: MAX_ROUNDS,
            samples: Samples::Other,
            unjudged: false,
            plateau: FullPipe::default(),
            count: 0,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// `dice` decides how long to wait for the next probe; `bandwidth` is what Up is to exceed.
    pub(super) fn enter(&mut self, phase: Phase, dice: u32, bandwidth: Rate, now: Instant) {
        self.phase = phase;
        match phase {
            Phase::Down => {
                self.down_at = now;
                self.rounds = u64::from(dice & 1);
                self.reno_rounds = MAX_ROUNDS;
                self.wait = WAIT + Duration::from_millis(u64::from(dice >> 1) % 1_000);
                self.samples = Samples::Stopping;
            }
            Phase::Cruise => {}
            Phase::Refill => self.samples = Samples::Other,
            Phase::Up => {
                self.samples = Samples::Starting;
                self.unjudged = true;
                self.plateau = FullPipe::default();
                self.plateau.on_round(bandwidth);
            }
        }
    }

    pub(super) fn on_round(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
    }

    /// `segments`: of the flight that is wanted. Where it grows without a probe there is room, and the probe does not
    /// wait for that: a receiver's rates, told four times a round trip, grow by a twentieth in a round, as far ahead
    /// of the rounds as these go on.
    pub(super) fn is_time_to_probe(&mut self, segments: u64, now: Instant) -> bool {
        self.reno_rounds = self.reno_rounds.min(segments);
        let as_reno = self.rounds >= self.reno_rounds;
        as_reno || now.saturating_since(self.down_at) > self.wait
    }

    /// In Up: `rate` is the newest sample, `sampled` the same where a round ended with it.
    /// `bounded`: the long-term bound is what holds the sender, so no plateau counts.
    pub(super) fn is_time_to_go_down(
        &mut self,
        rate: Option<Rate>,
        sampled: Option<Rate>,
        bounded: bool,
    ) -> bool {
        if bounded {
            self.plateau = FullPipe::default();
            self.plateau.on_round(rate.unwrap_or(Rate::ZERO));
            return false;
        }
        if let Some(rate) = sampled {
            self.plateau.on_round(rate);
        }
        self.plateau.reached()
    }

    /// True when the last sample of a probe is in.
    pub(super) fn on_round_of_samples(&mut self, round_started: bool) -> bool {
        if !round_started {
            return false;
        }
        match self.samples {
            Samples::Starting => {
                self.samples = Samples::Feedback;
                false
            }
            Samples::Stopping => {
                (self.samples, self.unjudged) = (Samples::Other, false);
                true
            }
            Samples::Other | Samples::Feedback => false,
        }
    }

    /// What arrives is of no probe.
    pub(super) fn stop_samples(&mut self) {
        (self.samples, self.unjudged) = (Samples::Other, false);
    }

    /// Loss of a probe is judged once.
    pub(super) fn take_samples(&mut self) -> bool {
        core::mem::take(&mut self.unjudged)
    }

    /// The bandwidths of the probe before the last one are forgotten.
    pub(super) fn advance_filter(&mut self) {
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_probe_comes_after_two_to_three_seconds_or_as_many_rounds_as_reno_needs() {
        for dice in [0, 1, 77, u32::MAX] {
            let mut cycle = Cycle::new(Instant::ZERO);
            cycle.enter(Phase::Down, dice, Rate::ZERO, Instant::ZERO);
            assert!(!cycle.is_time_to_probe(100, Instant::from_secs(2)), "{dice}");
            assert!(cycle.is_time_to_probe(100, Instant::from_millis(3_001)), "{dice}");
            (0..20).for_each(|_| cycle.on_round());
            assert!(!cycle.is_time_to_probe(22, Instant::ZERO));
            assert!(cycle.is_time_to_probe(20, Instant::ZERO));
            cycle.enter(Phase::Down, dice, Rate::ZERO, Instant::ZERO);
            (0..63).for_each(|_| cycle.on_round());
            assert!(cycle.is_time_to_probe(10_000, Instant::ZERO));
        }
    }

    #[test]
    fn a_flight_that_grows_without_a_probe_does_not_put_the_probe_off() {
        let mut cycle = Cycle::new(Instant::ZERO);
        cycle.enter(Phase::Down, 0, Rate::ZERO, Instant::ZERO);
        let rounds = (20..60).position(|segments| {
            cycle.on_round();
            cycle.is_time_to_probe(segments, Instant::ZERO)
        });
        assert_eq!(rounds, Some(19));
    }

    #[test]
    fn loss_of_a_probe_is_judged_once() {
        let mut cycle = Cycle::new(Instant::ZERO);
        assert!(!cycle.take_samples());
        cycle.enter(Phase::Up, 0, Rate::ZERO, Instant::ZERO);
        assert!(cycle.take_samples());
        assert!(!cycle.take_samples());
    }

    #[test]
    fn up_ends_with_three_rounds_without_a_quarter_more() {
        let mut cycle = Cycle::new(Instant::ZERO);
        cycle.enter(Phase::Up, 0, Rate::from_mbps(10), Instant::ZERO);
        let rounds = [12, 13, 13, 13, 13].map(|mbps| {
            let rate = Some(Rate::from_mbps(mbps));
            cycle.is_time_to_go_down(rate, rate, false)
        });
        assert_eq!(rounds, [false, false, false, false, true]);
    }
}
