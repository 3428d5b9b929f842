//! What both searches begin with: twice the rate every interval, until the utility falls.
//!
//! Three deviations, all for a queue that makes round trips longer than the intervals were. The papers' rate goes on
//! doubling until the queue's end is heard of: to 100 Gbit/s on 802.11g, and of 5 Mbit/s and a thousand packets of
//! queue four fifths of all packets were sent in vain.
//!
//! - Nothing is doubled while three intervals lack their results (where round trips stay as they are there are two
//!   at most): until they are in, no more leaves than arrives.
//! - No rate is more than [`AHEAD`] times what has arrived. It doubles twice before its first half is heard of.
//! - Three results that bring no more of what arrives, of which more was asked, end it there: the pipe is full, as in
//!   BBR.
//!
//! A fourth: where more than half of the first interval is lost the first rate was above the path's twice over, and
//! is halved. The papers begin with two segments per round trip; a window of ten may be fifty times the path's rate,
//! and the steps that follow take seconds, in which all that is lost is sent again and lost.

use tack_units::Rate;

use super::{MAX_RATE, MIN_RATE, Outcome, Plan, Seen};
use crate::bbr::full_pipe::FullPipe;

/// The starting state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubling {
    next: Rate,
    /// Rate and utility of the last result.
    best: Option<(Rate, f64)>,
    pipe: FullPipe,
}

/// One has just ended, and what the one before it sent is still being acknowledged.
const MOST_AWAITED: usize = 2;
/// Of what has arrived: two doublings, and half of one that a round trip across two intervals shows less.
const AHEAD: f64 = 6.0;
/// So much more was asked for than arrived where a path is full, and not the measure short.
const ABOVE: f64 = 1.25;
/// Loss that tells of a rate above the path's twice over.
const TOO_MUCH: f64 = 0.5;

/// What a result says to [`Doubling`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Doubled {
    /// Go on.
    Yet,
    /// Begin anew, from this rate.
    Anew(Rate),
    /// The utility has fallen, or nothing more arrives: this is the rate to go on with.
    Found(Rate),
}

impl Doubling {
    pub(super) fn from(rate: Rate) -> Self {
        Doubling { next: rate, best: None, pipe: FullPipe::default() }
    }

    /// Begins anew from this rate, and remembers what has arrived.
    pub(super) fn again(self, rate: Rate) -> Self {
        Doubling { pipe: self.pipe, ..Doubling::from(rate) }
    }

    pub(super) fn next(&mut self, seen: Seen) -> Plan {
        if seen.awaited > MOST_AWAITED {
            let rate = self.next.mul_f64(0.5).min(seen.arrived.unwrap_or(MAX_RATE));
            return Plan { rate, wanted: false };
        }
        let rate = self.next.min(seen.arrived.map_or(MAX_RATE, |rate| rate.mul_f64(AHEAD)));
        self.next = rate.mul_f64(2.0).min(MAX_RATE);
        Plan { rate, wanted: true }
    }

    pub(super) fn on_result(&mut self, outcome: &Outcome, utility: f64) -> Doubled {
        if self.best.is_none() && outcome.loss > TOO_MUCH {
            *self = self.again(outcome.rate.mul_f64(0.5).max(MIN_RATE));
            return Doubled::Anew(self.next);
        }
        let most = outcome.arrived.unwrap_or(MAX_RATE).max(MIN_RATE);
        match outcome.arrived.filter(|_| outcome.rate > most.mul_f64(ABOVE)) {
            Some(arrived) => self.pipe.on_round(arrived),
            // A first window that arrived at once told of more than has been asked for.
            None => self.pipe.forget_plateau(),
        }
        match self.best {
            Some((best, before)) if outcome.rate > best && utility <= before => {
                Doubled::Found(best.min(most))
            }
            _ if self.pipe.reached() => Doubled::Found(outcome.rate.min(most)),
            // A rate that was held is no step, and its utility says nothing of one.
            Some((best, _)) if outcome.rate <= best => Doubled::Yet,
            _ => {
                self.best = Some((outcome.rate, utility));
                Doubled::Yet
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(mbps: u64, loss: f64, arrived: Option<u64>) -> Outcome {
        let arrived = arrived.map(Rate::from_mbps);
        Outcome { rate: Rate::from_mbps(mbps), loss, rtt_gradient: 0.0, arrived }
    }

    #[test]
    fn a_first_rate_of_which_most_is_lost_is_halved_until_it_is_not() {
        let mut doubling = Doubling::from(Rate::from_mbps(64));
        let mut on_result =
            |mbps, loss, utility| doubling.on_result(&outcome(mbps, loss, None), utility);
        assert_eq!(on_result(64, 0.97, -62.0), Doubled::Anew(Rate::from_mbps(32)));
        assert_eq!(on_result(32, 0.9, -28.0), Doubled::Anew(Rate::from_mbps(16)));
        assert_eq!(on_result(16, 0.4, -6.0), Doubled::Yet);
        assert_eq!(on_result(32, 0.9, -28.0), Doubled::Found(Rate::from_mbps(16)));
    }

    #[test]
    fn nothing_is_doubled_before_the_last_doublings_are_heard_of_and_no_more_leaves_than_arrives() {
        let mut doubling = Doubling::from(Rate::from_mbps(1));
        let arrived = Some(Rate::from_mbps(3));
        let planned = [0, 1, 2, 3, 3, 2, 2].map(|awaited| {
            let plan = doubling.next(Seen { awaited, arrived });
            (plan.rate.as_mbps_f64(), plan.wanted)
        });
        let doubled = [1.0, 2.0, 4.0].map(|rate| (rate, true));
        let held = [(3.0, false); 2];
        assert_eq!(planned, [&doubled[..], &held, &[(8.0, true), (16.0, true)]].concat()[..]);
    }

    #[test]
    fn what_arrives_and_grows_no_more_is_the_rate_although_nothing_is_lost() {
        let mut doubling = Doubling::from(Rate::from_mbps(100));
        let found = [100, 25, 25, 25, 25]
            .map(|mbps| doubling.on_result(&outcome(mbps, 0.0, Some(5)), mbps as f64));
        assert_eq!(found[..3], [Doubled::Yet; 3]);
        assert_eq!(found[3], Doubled::Found(Rate::from_mbps(5)));
    }
}
