//! Why a half gets what it gets: the share taken apart by what governs additive increase and
//! multiplicative decrease.
//!
//! ```text
//! R = mean cwnd / rate      the round trip that the controller lives: a window per so long
//! p = events / packets      window reductions, losses and timeouts alike, per data packet
//! W = sqrt(k / p)           mean window of AIMD, k the same for both   [RFC 5348 §3.1, p small]
//! rate = W / R
//!
//! ratio of rates = (R_ae / R) * sqrt(p_ae / p) * rest
//!                   round        events
//! ```
//!
//! `rest` is 1 for two AIMD controllers of the same constants; where it is not, one of them grows
//! slower per round, or falls deeper per event, than the other.

use serde::Serialize;

use super::Half;
use crate::dumbbell::SEGMENT_BYTES;

/// What the flows of one half lived, means over flows and seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Lived {
    /// Application bits per second of a flow.
    pub goodput_bps: f64,
    /// Data packets per second of a flow, retransmissions included.
    pub packets_per_s: f64,
    /// Mean window, segments.
    pub window: f64,
    /// Time in which a mean window leaves, milliseconds.
    pub round_ms: f64,
    /// Mean of what is known to be under way, segments: without what arrived unacknowledged it
    /// would be smaller.
    pub in_flight: f64,
    /// Mean smoothed round trip, milliseconds.
    pub srtt_ms: f64,
    /// Loss episodes per second and flow.
    pub episodes_per_s: f64,
    /// Timeouts per second and flow.
    pub timeouts_per_s: f64,
    /// Lost packets per episode or timeout.
    pub lost_per_event: f64,
}

impl Lived {
    pub(super) fn of(halves: &[&Half<'_>]) -> Lived {
        let n = (halves.len() as f64).max(1.0);
        let mean = |f: &dyn Fn(&Half<'_>) -> f64| halves.iter().map(|h| f(h)).sum::<f64>() / n;
        let segment = f64::from(SEGMENT_BYTES);
        let packets_per_s = mean(&|h| h.mean(|f| f.data_packets_per_s));
        let window = mean(&|h| h.mean(|f| f.cwnd_mean_bytes)) / segment;
        let episodes_per_s = mean(&|h| h.mean(|f| f.loss_episodes_per_s));
        let timeouts_per_s = mean(&|h| h.mean(|f| f.timeouts_per_s));
        let lost_per_s = mean(&|h| h.mean(|f| f.data_lost_per_s));
        Lived {
            goodput_bps: mean(&|h| h.mean(|f| f.goodput_bps)),
            packets_per_s,
            window,
            round_ms: 1e3 * window / packets_per_s.max(1e-9),
            in_flight: mean(&|h| h.mean(|f| f.in_flight_mean_bytes)) / segment,
            srtt_ms: mean(&|h| h.mean(|f| f.srtt_mean_us)) / 1e3,
            episodes_per_s,
            timeouts_per_s,
            lost_per_event: lost_per_s / (episodes_per_s + timeouts_per_s).max(1e-9),
        }
    }

    /// Reductions per data packet.
    fn events_per_packet(&self) -> f64 {
        (self.episodes_per_s + self.timeouts_per_s) / self.packets_per_s.max(1e-9)
    }
}

/// The ratio of rates, others to every-segment, and its factors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Why {
    /// Packets per second of the others' flows over those of every-segment.
    pub ratio: f64,
    /// What of it the rounds explain: above 1, theirs is the shorter.
    pub round: f64,
    /// What reductions per packet explain: above 1, they meet fewer.
    pub events: f64,
    /// What is left.
    pub rest: f64,
}

impl Why {
    /// Takes `others` and `every` apart; all ones where there is nothing to go by.
    pub fn of(others: &Lived, every: &Lived) -> Why {
        let over = |a: f64, b: f64| if a > 0.0 && b > 0.0 { a / b } else { 1.0 };
        let ratio = over(others.packets_per_s, every.packets_per_s);
        let round = over(every.round_ms, others.round_ms);
        let events = over(every.events_per_packet(), others.events_per_packet()).sqrt();
        Why { ratio, round, events, rest: ratio / (round * events) }
    }

    /// The share that rounds and events predict.
    pub fn predicted_share(&self) -> f64 {
        let ratio = self.round * self.events;
        2.0 * ratio / (1.0 + ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lived(packets_per_s: f64, round_ms: f64, episodes_per_s: f64) -> Lived {
        Lived { packets_per_s, round_ms, episodes_per_s, ..Lived::default() }
    }

    #[test]
    fn a_longer_round_and_more_events_explain_a_lower_rate() {
        // Half the rate: twice the round, as many events per packet.
        let why = Why::of(&lived(50.0, 200.0, 0.5), &lived(100.0, 100.0, 1.0));
        assert_eq!(why, Why { ratio: 0.5, round: 0.5, events: 1.0, rest: 1.0 });
        assert!((why.predicted_share() - 2.0 / 3.0).abs() < 1e-12);
        // Half the rate: four times the events per packet.
        let why = Why::of(&lived(50.0, 100.0, 2.0), &lived(100.0, 100.0, 1.0));
        assert_eq!(why, Why { ratio: 0.5, round: 1.0, events: 0.5, rest: 1.0 });
        // Half the rate for neither reason: the controller is another.
        let why = Why::of(&lived(50.0, 100.0, 0.5), &lived(100.0, 100.0, 1.0));
        assert_eq!(why, Why { ratio: 0.5, round: 1.0, events: 1.0, rest: 0.5 });
    }

    #[test]
    fn nothing_lived_explains_nothing() {
        let why = Why::of(&Lived::default(), &Lived::default());
        assert_eq!(why, Why { ratio: 1.0, round: 1.0, events: 1.0, rest: 1.0 });
        assert_eq!(why.predicted_share(), 1.0);
    }
}
