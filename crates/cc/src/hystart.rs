//! Leaving slow start before the queue overflows: HyStart++ [RFC 9406].
//!
//! When the least RTT of a round rises an eighth above that of the round before, a queue is
//! building. Slow start then goes on conservatively (a quarter of the growth) for five rounds; if
//! the RTT falls back meanwhile it was jitter and slow start resumes, otherwise it ends.
//!
//! ```text
//! SlowStart --RTT rose--> Conservative --5 rounds--> over
//!     ^----- RTT fell below where Conservative began -----'
//! ```

use core::time::Duration;

use crate::sample::AckSample;

/// The detector; used during the first slow start only.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HyStart {
    /// The round ends when this much is delivered, in bytes.
    round_end: u64,
    /// Least RTT of this round and of the one before.
    least: Option<Duration>,
    least_before: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

#[derive(Clone, Copy, Debug)]
struct Conservative {
    baseline: Duration,
    rounds: u32,
}

/// How slow start goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// By every acknowledged byte.
    Full,
    /// By a quarter of them.
    Quarter,
    /// It is over.
    Over,
}

/// Rise that counts, within bounds that keep short paths from noise and long ones from deafness
/// [RFC 9406 §4.3].
const RISE_DIVISOR: u32 = 8;
const RISE_MIN: Duration = Duration::from_millis(4);
const RISE_MAX: Duration = Duration::from_millis(16);
/// Samples that make a round's least RTT trustworthy.
const SAMPLES: u32 = 8;
/// Rounds of conservative growth.
const ROUNDS: u32 = 5;

impl HyStart {
    /// One acknowledgment in slow start, of segments of `mss` bytes.
    pub(crate) fn on_ack(&mut self, ack: &AckSample, mss: u64) -> Growth {
        if ack.delivered >= self.round_end
            && let Some(growth) = self.end_round(ack)
        {
            return growth;
        }
        if let Some(rtt) = ack.rtt {
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
            self.samples = self.samples.saturating_add(ack.rtt_samples(mss));
            self.judge();
        }
        if self.conservative.is_some() { Growth::Quarter } else { Growth::Full }
    }

    fn end_round(&mut self, ack: &AckSample) -> Option<Growth> {
        self.round_end = ack.delivered.saturating_add(ack.in_flight).saturating_add(1);
        self.least_before = self.least.take();
        self.samples = 0;
        let conservative = self.conservative.as_mut()?;
        conservative.rounds += 1;
        (conservative.rounds >= ROUNDS).then_some(Growth::Over)
    }

    fn judge(&mut self) {
        let Some(least) = self.least.filter(|_| self.samples >= SAMPLES) else { return };
        match (&self.conservative, self.least_before) {
            (Some(conservative), _) => {
                if least < conservative.baseline {
                    self.conservative = None;
                }
            }
            (None, Some(before)) => {
                let rise = (before / RISE_DIVISOR).clamp(RISE_MIN, RISE_MAX);
                if least >= before.saturating_add(rise) {
                    self.conservative = Some(Conservative { baseline: least, rounds: 0 });
                }
            }
            (None, None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;

    /// Rounds of 20 segments with the given RTT in ms; growth at the end of each.
    fn rounds(rtts_ms: &[u64]) -> Vec<Growth> {
        let mut hystart = HyStart::default();
        let mut delivered = 0;
        let round = |rtt_ms: &u64| {
            let mut growth = Growth::Full;
            for _ in 0..20 {
                delivered += 1_000;
                let rtt = Some(Duration::from_millis(*rtt_ms));
                let in_flight = 19_999;
                let sample = AckSample { delivered, in_flight, rtt, ..ack() };
                growth = hystart.on_ack(&sample, 1_000);
                if growth == Growth::Over {
                    break;
                }
            }
            growth
        };
        rtts_ms.iter().map(round).collect()
    }

    #[test]
    fn a_rise_of_an_eighth_slows_growth_and_five_rounds_later_ends_it() {
        use Growth::{Full, Over, Quarter};
        let seen = rounds(&[80, 80, 92, 92, 92, 92, 92, 92]);
        assert_eq!(seen, [Full, Full, Quarter, Quarter, Quarter, Quarter, Quarter, Over]);
    }

    #[test]
    fn a_tack_that_covers_sixteen_segments_is_as_good_as_eight_acknowledgments() {
        let seen = |segments: u64| {
            let mut hystart = HyStart::default();
            let mut delivered = 0;
            let growth = [80, 80, 92].map(|rtt_ms| {
                let acked_bytes = segments * 1_000;
                delivered += acked_bytes;
                let (rtt, ack_interval) = (Some(Duration::from_millis(rtt_ms)), Duration::MAX);
                let in_flight = acked_bytes - 1;
                let rates = AckSample { delivered, in_flight, rtt, ack_interval, ..ack() };
                hystart.on_ack(&AckSample { acked_bytes, ..rates }, 1_000)
            });
            growth[2]
        };
        assert_eq!((seen(15), seen(16)), (Growth::Full, Growth::Quarter));
    }

    #[test]
    fn a_smaller_rise_is_jitter() {
        assert!(rounds(&[80, 89, 98, 107]).iter().all(|g| *g == Growth::Full));
    }

    #[test]
    fn growth_resumes_when_the_rtt_falls_back() {
        let seen = rounds(&[80, 80, 95, 80, 80]);
        assert_eq!(seen[2], Growth::Quarter);
        assert_eq!(seen[3..], [Growth::Full, Growth::Full]);
    }
}
