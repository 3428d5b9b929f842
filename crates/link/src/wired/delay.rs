//! Propagation that changes with the route: another satellite, another cell.

use std::collections::VecDeque;

use core::time::Duration;

use tack_units::Instant;

/// A propagation time from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayStep {
    /// From when, by when a packet leaves the bottleneck.
    pub at: Instant,
    /// One way.
    pub delay: Duration,
}

/// The propagation time in use. Questions come in order of time.
#[derive(Debug)]
pub(super) struct DelayClock {
    delay: Duration,
    steps: VecDeque<DelayStep>,
}

impl DelayClock {
    /// `steps` ascend in time.
    pub(super) fn new(delay: Duration, steps: &[DelayStep]) -> DelayClock {
        DelayClock { delay, steps: steps.iter().copied().collect() }
    }

    /// That of a packet which leaves the bottleneck at `t`.
    pub(super) fn at(&mut self, t: Instant) -> Duration {
        while let Some(step) = self.steps.pop_front_if(|step| step.at <= t) {
            self.delay = step.delay;
        }
        self.delay
    }
}
