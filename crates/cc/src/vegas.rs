//! Vegas: a few segments in the queue, by the round trip alone [Brakmo et al., SIGCOMM 1994].
//!
//! ```text
//! diff = cwnd * (RTT - BaseRTT) / RTT      segments that wait; RTT is the least one of a round
//!
//! slow start             doubles every other round until diff > gamma; then back to what did not wait
//! congestion avoidance   diff < alpha: one segment more     diff > beta: one less, per round
//! loss                   as NewReno
//! ```
//!
//! With `alpha` = 2, `beta` = 4 and `gamma` = 1, as in Linux; the paper has 1 and 3, or 2 and 4.
//!
//! Slow start keeps still every other round, so that what is compared is of one window; Linux does
//! not, and overshoots by a window.
//!
//! Deviation: loss is NewReno's, as in Linux: the paper's finer timer is RACK's today.
//!
//! `BaseRTT` is the least round trip ever seen: a path that becomes longer looks like a queue, and
//! the second of two flows takes the queue of the first for distance. Both are Vegas's own
//! weaknesses [Mo et al., INFOCOM 1999].

use core::time::Duration;

use tack_units::{Instant, Rate};

use crate::config::Config;
use crate::controller::Controller;
use crate::flight::Rounds;
use crate::inspect::{Inspect, Snapshot};
use crate::sample::{AckSample, LossSample};
use crate::window::{Answer, CongestionWindow};

/// TCP Vegas.
#[derive(Clone, Debug)]
pub struct Vegas {
    window: CongestionWindow,
    base_rtt: Option<Duration>,
    rounds: Rounds,
    /// Least round trip of this round, and samples of it.
    least: Option<Duration>,
    samples: u32,
    /// Slow start keeps still in this round.
    still: bool,
}

/// Segments that wait: fewer are too few, more than `BETA` too many.
const ALPHA: f64 = 2.0;
const BETA: f64 = 4.0;
/// Segments that wait when slow start ends.
const GAMMA: f64 = 1.0;
/// Of delayed acknowledgments, fewer may all have waited for the timer; Linux then does as NewReno.
const MIN_SAMPLES: u32 = 3;

impl Vegas {
    /// In slow start.
    pub(crate) fn new(config: &Config) -> Self {
        Vegas {
            window: CongestionWindow::new(config).keeping_queues_short(),
            base_rtt: None,
            rounds: Rounds::default(),
            least: None,
            samples: 0,
            still: false,
        }
    }

    /// Segments of the window that wait in queues.
    fn waiting(&self, ack: &AckSample) -> Option<f64> {
        // A TACK's sample is free of the receiver's delay.
        let enough = self.samples >= MIN_SAMPLES || !ack.ack_interval.is_zero();
        let (rtt, base) = (self.least.filter(|_| enough)?, self.base_rtt?);
        let segments = self.window.cwnd() as f64 / self.window.mss() as f64;
        (!rtt.is_zero()).then(|| segments * (rtt.saturating_sub(base)).div_duration_f64(rtt))
    }

    /// A round is over, in which the window was used.
    fn end_round(&mut self, ack: &AckSample) {
        let (cwnd, mss) = (self.window.cwnd(), self.window.mss());
        let Some(waiting) = self.waiting(ack) else {
            if !self.window.in_slow_start() {
                self.window.set_cwnd(cwnd.saturating_add(mss));
            }
            return;
        };
        if self.window.in_slow_start() {
            if waiting > GAMMA {
                // What does not wait, and one segment.
                let excess = (waiting * mss as f64) as u64;
                self.window.set_cwnd(cwnd.saturating_sub(excess).saturating_add(mss).min(cwnd));
                self.window.leave_slow_start();
            }
        } else if waiting > BETA {
            self.window.set_cwnd(cwnd.saturating_sub(mss).max(2 * mss));
            // Below the threshold it would be slow start again.
            self.window.leave_slow_start();
        } else if waiting < ALPHA {
            self.window.set_cwnd(cwnd.saturating_add(mss));
        }
    }
}

impl Controller for Vegas {
    fn on_sent(&mut self, bytes: u64, _in_flight: u64, _app_limited: bool, _now: Instant) {
        self.window.on_sent(bytes);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let acked = self.window.on_ack(ack);
        if let Some(rtt) = ack.rtt.filter(|rtt| !rtt.is_zero()) {
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            self.samples = self.samples.saturating_add(1);
        }
        let ended = self.rounds.on_ack(ack);
        if ended && acked > 0 {
            self.end_round(ack);
        }
        if acked > 0 && self.window.in_slow_start() && !self.still {
            self.window.slow_start(acked);
        }
        if ended {
            (self.least, self.samples) = (None, 0);
            self.still = !self.still;
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        if self.window.on_loss(loss) == Answer::Reduce {
            self.window.halve(loss);
        }
    }

    fn window(&self) -> u64 {
        self.window.window()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.window.pacing_rate()
    }
}

impl Inspect for Vegas {
    fn set_mss(&mut self, mss: u32) {
        self.window.set_mss(mss);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        Snapshot { rtt_min: self.base_rtt, ..self.window.snapshot(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;

    const MSS: u64 = 1_000;

    /// A window of 50 segments after `rounds` round trips of this length on a path of 100 ms.
    fn after(rounds: u64, rtt_ms: u64) -> u64 {
        let mut vegas = Vegas::new(&Config { initial_window: 50 * MSS, ..Config::new(1_000) });
        vegas.base_rtt = Some(Duration::from_millis(100));
        vegas.window.leave_slow_start();
        let mut delivered = 0;
        // The first acknowledgment ends the round before.
        while delivered <= rounds * 50 * MSS {
            delivered += MSS;
            let (rtt, in_flight) = (Some(Duration::from_millis(rtt_ms)), 49 * MSS);
            vegas.on_ack(&AckSample { acked_bytes: MSS, delivered, in_flight, rtt, ..ack() });
        }
        vegas.window() / MSS
    }

    #[test]
    fn a_segment_per_round_up_below_two_waiting_and_down_above_four() {
        // Of 50 segments, 100/102 ms leave one waiting, 106 three, 115 six and a half.
        assert_eq!(after(5, 102), 50 + 1 + 5, "the first round has no three samples");
        assert_eq!(after(5, 106), 50 + 1);
        assert_eq!(after(2, 115), 50 + 1 - 2);
    }
}
