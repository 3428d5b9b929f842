//! How fast packets leave.

use tack_units::{Rate, math};

use super::state::{DRAIN_GAIN, State};
use super::{Bbr, PACING_MARGIN};
use crate::growth::HIGH_GAIN;

/// Over the rate at which packets between two pauses arrive: as a probe, which a queue of a quarter of the burst bears.
const BURST_GAIN: f64 = 1.25;
/// So many steps of it are more than [`HIGH_GAIN`].
const MOST_STEPS: u64 = 6;

impl Bbr {
    pub(super) fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => self.growth().pacing_gain(),
            State::Drain => DRAIN_GAIN,
            State::ProbeBw if self.idle_restart => 1.0,
            State::ProbeBw if self.model.long_term.bandwidth().is_some() => 1.0,
            State::ProbeBw => self.cycle.gain(),
            State::ProbeRtt => self.constants.probe_rtt_gain.unwrap_or(1.0),
        }
    }

    /// `MSS * f` [TON §VI-D]; zero for plain TCP.
    ///
    /// Deviation: not once bandwidth is known and packets wait. Where four of them are more than the path
    /// holds, it is a rate above the bandwidth: half of all packets were lost for ever.
    ///
    /// Deviation: of `f` by the round trip as it is, as if four segments were the least window. On a
    /// slow path a segment per RTTmin/4 is a multiple of the bandwidth, and fills any buffer.
    fn least_rate(&self) -> Rate {
        let known = self.state == State::ProbeBw && self.model.min_rtt.shows_queue();
        if !self.is_receiver_based() || known {
            return Rate::ZERO;
        }
        Rate::from_bytes_over(self.mss(), self.model.clock.stretched()).unwrap_or(Rate::ZERO)
    }

    /// A segment per second, whatever the estimate: or no acknowledgment could ever correct it.
    fn crawl(&self) -> Rate {
        Rate::from_bps(self.mss() * 8)
    }

    pub(super) fn update_pacing(&mut self) {
        let Some(bandwidth) = self.model.bandwidth() else {
            // No rate sample yet: the window over the first RTT stands in for one.
            let rate = self.model.srtt().and_then(|srtt| Rate::from_bytes_over(self.cwnd, srtt));
            let rate = rate.map(|r| r.mul_f64(HIGH_GAIN * PACING_MARGIN));
            self.pacing_rate = rate.map(|r| r.max(self.crawl()));
            return;
        };
        let silent = self.state == State::ProbeRtt && self.is_receiver_based() && !self.is_gentle();
        let rate = if silent {
            self.least_rate()
        } else {
            bandwidth.mul_f64(self.pacing_gain() * PACING_MARGIN).max(self.least_rate())
        };
        // As fast as its packets arrive between two pauses, where the application holds the flow down, and nothing
        // else would tell that the path bears more. A step more for each window in which none were enough to tell.
        let held_down = self.model.is_held_down();
        let spread = self.model.spread().filter(|_| held_down);
        let burst = spread.map_or(Rate::MAX, |(spread, windows)| {
            let steps = windows.saturating_add(1).min(MOST_STEPS);
            spread.mul_f64(math::pow(BURST_GAIN, steps as f64))
        });
        let rate = match self.state {
            // It may last for ever then. Below the least rate, bursts would tell of nothing but that.
            State::Startup => rate.min(burst.max(self.least_rate())),
            State::ProbeBw if self.model.knows_bursts_alone() => {
                rate.max(burst.min(bandwidth.mul_f64(HIGH_GAIN)))
            }
            _ => rate,
        };
        let rate = rate.max(self.crawl());
        let may_fall =
            self.model.full_pipe.reached() || self.state == State::ProbeRtt || spread.is_some();
        if may_fall || self.pacing_rate.is_none_or(|current| rate > current) {
            self.pacing_rate = Some(rate);
        }
    }
}
