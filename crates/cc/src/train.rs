//! The first HyStart: when a train of acknowledgments shows that the path is full [Ha & Rhee 2008].

use core::time::Duration;

use tack_units::Instant;

use crate::sample::AckSample;

/// HyStart: a round's acknowledgments that come as one train as long as half the least RTT, or come
/// later than the least RTT did, show that the path is full.
#[derive(Clone, Debug)]
pub(crate) struct Train {
    /// `Pacing::Always` stretches a train to a round trip.
    paced: bool,
    found: bool,
    round_began: Instant,
    /// The round ends when this much is delivered, in bytes.
    round_end: u64,
    last_ack: Instant,
    /// Least RTT of the round, and samples of it.
    least: Option<Duration>,
    samples: u32,
}

/// Acknowledgments further apart are not of one train.
const TRAIN_GAP: Duration = Duration::from_millis(2);
/// What a sender's bursts may add to a train.
const TRAIN_SLACK: Duration = Duration::from_millis(1);
/// Samples that make a round's least RTT trustworthy, and the rise of it that counts.
const SAMPLES: u32 = 8;
const RISE_DIVISOR: u32 = 8;
const RISE_MIN: Duration = Duration::from_millis(4);
const RISE_MAX: Duration = Duration::from_millis(16);

impl Train {
    pub(crate) fn new(paced: bool) -> Self {
        Self {
            paced,
            found: false,
            round_began: Instant::ZERO,
            round_end: 0,
            last_ack: Instant::ZERO,
            least: None,
            samples: 0,
        }
    }

    /// It has seen a full path, and is done.
    pub(crate) fn has_found(&self) -> bool {
        self.found
    }

    /// As it was at first.
    pub(crate) fn restarted(&self) -> Self {
        Self::new(self.paced)
    }

    /// Rounds are counted from the first acknowledgment on, so that one begins where a train does.
    pub(crate) fn count_rounds(&mut self, ack: &AckSample) {
        if ack.delivered > self.round_end {
            self.round_end = ack.delivered.saturating_add(ack.in_flight);
            (self.round_began, self.last_ack) = (ack.now, ack.now);
            (self.least, self.samples) = (None, 0);
        }
    }

    /// One acknowledgment of slow start with an RTT sample of `rtt`, of segments of `mss` bytes; true
    /// if it is to end.
    pub(crate) fn on_ack(
        &mut self,
        ack: &AckSample,
        mss: u64,
        rtt: Duration,
        delay_min: Duration,
    ) -> bool {
        let mut full = false;
        let gap = ack.now - self.last_ack;
        // A TACK is of the train where what it covers arrived as densely, and without a pause.
        let dense = gap / ack.rtt_samples(mss).max(1) <= TRAIN_GAP;
        if dense && gap <= TRAIN_GAP.max(ack.ack_interval.saturating_mul(3) / 2) {
            self.last_ack = ack.now;
            let whole = delay_min.saturating_add(TRAIN_SLACK);
            full |= ack.now - self.round_began > if self.paced { whole } else { whole / 2 };
        }
        let least = self.least.map_or(rtt, |least| least.min(rtt));
        self.least = Some(least);
        self.samples = self.samples.saturating_add(ack.rtt_samples(mss));
        // Linux judges from the ninth on.
        if self.samples > SAMPLES {
            let rise = (delay_min / RISE_DIVISOR).clamp(RISE_MIN, RISE_MAX);
            full |= least > delay_min.saturating_add(rise);
        }
        self.found |= full;
        full
    }
}
