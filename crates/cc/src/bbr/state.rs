//! BBR's states, their gains, and which may follow which.

use core::f64::consts::LN_2;

use crate::growth::HIGH_GAIN;

/// What the sender is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Doubling the rate every round until the pipe is full.
    Startup,
    /// Letting go the queue that Startup made.
    Drain,
    /// Cruising and probing for bandwidth; with ProbeRtt, the paper's Stable.
    ProbeBw,
    /// Emptying the queue to see RTTmin.
    ProbeRtt,
}

/// Sends away in one round what Startup put into the queue.
pub(crate) const DRAIN_GAIN: f64 = LN_2 / 2.0;
/// Flight allowed in ProbeBW, in bdp: the second one covers acknowledgments that are late.
pub(crate) const CWND_GAIN: f64 = 2.0;

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Startup => "startup",
            State::Drain => "drain",
            State::ProbeBw => "probe_bw",
            State::ProbeRtt => "probe_rtt",
        }
    }

    /// Whether `next` may follow.
    pub(crate) fn allows(self, next: State) -> bool {
        use State::{Drain, ProbeBw, ProbeRtt, Startup};
        matches!(
            (self, next),
            (Startup, Drain | ProbeRtt)
                | (Drain, ProbeBw | ProbeRtt)
                | (ProbeBw, Startup | ProbeBw | ProbeRtt)
                | (ProbeRtt, Startup | ProbeBw)
        )
    }

    /// Flight allowed, in bdp.
    pub(crate) fn cwnd_gain(self) -> f64 {
        match self {
            State::Startup | State::Drain => HIGH_GAIN,
            State::ProbeBw | State::ProbeRtt => CWND_GAIN,
        }
    }
}
