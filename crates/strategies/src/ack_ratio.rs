//! AR 1:N, the QUIC default that [Custura et al. §VII] propose: every N-th packet, or a quarter of
//! RTTmin after the first; 1:2 for the first 100 packets. Without the count it is what Google's
//! QUIC does on request (connection option AKDU).
//!
//! ```text
//! f = max(bw / (N * MSS), 1 / d),  d = min(max_ack_delay, RTTmin/4)      as [TON Eq. 3]
//! ```
//!
//! exactly, since packets are whole, `bw/MSS / min(N, 1 + floor(d * bw/MSS))`; N infinite without
//! the count.
//!
//! Deviation: a packet is a full-sized segment's worth of bytes, since TCP counts bytes.

use core::time::Duration;

use tack_units::Instant;

use super::counter::Counter;
use super::{Acknowledge, Arrival, PathFacts, PathSeen, Rule};

/// Every N-th segment, or a quarter of RTTmin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AckRatio {
    /// N; `u32::MAX` counts nothing.
    pub segments_per_ack: u32,
    /// Longest delay, whatever RTTmin is.
    pub max_ack_delay: Duration,
}

/// QUIC's default [RFC 9000 §18.2].
const MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// RTTmin is divided by it.
const PER_RTT: u32 = 4;
const FIRST_SEGMENTS: u32 = 100;
const FIRST_SEGMENTS_PER_ACK: u32 = 2;
const MOST_SEGMENTS: u32 = 100;

impl AckRatio {
    /// 1:N.
    pub const fn new(segments_per_ack: u32) -> Self {
        AckRatio { segments_per_ack, max_ack_delay: MAX_ACK_DELAY }
    }

    /// The delay only.
    pub const fn without_count() -> Self {
        AckRatio::new(u32::MAX)
    }

    fn delay(&self, rtt_min: Option<Duration>) -> Duration {
        rtt_min.map_or(self.max_ack_delay, |rtt| self.max_ack_delay.min(rtt / PER_RTT))
    }
}

impl Rule for AckRatio {
    type Receiver = Ratio;

    fn spelling() -> &'static str {
        "ar2 to ar100, akdu"
    }

    fn parse(name: &str) -> Option<Self> {
        if name == "akdu" {
            return Some(AckRatio::without_count());
        }
        let n = name.strip_prefix("ar")?.parse().ok()?;
        (2..=MOST_SEGMENTS).contains(&n).then(|| AckRatio::new(n))
    }

    fn name(&self) -> String {
        match self.segments_per_ack {
            u32::MAX => "akdu".to_owned(),
            n => format!("ar{n}"),
        }
    }

    fn frequency(&self, path: &PathFacts) -> f64 {
        path.counted(f64::from(self.segments_per_ack), self.delay(Some(path.rtt_min)))
    }

    fn receiver(&self, mss: u32) -> Ratio {
        Ratio { rule: *self, counter: Counter::new(mss), first_left: FIRST_SEGMENTS }
    }
}

/// What waits for an acknowledgment.
#[derive(Debug)]
pub(crate) struct Ratio {
    rule: AckRatio,
    counter: Counter,
    /// Of the first segments, how many are to come.
    first_left: u32,
}

impl Acknowledge for Ratio {
    fn on_data(&mut self, arrival: &Arrival, path: &PathSeen, now: Instant) {
        let (rule, left) = (&self.rule, &mut self.first_left);
        let by_rule = |segments| {
            let first = *left > 0;
            *left = left.saturating_sub(segments);
            let count = if first { FIRST_SEGMENTS_PER_ACK } else { rule.segments_per_ack };
            (count, rule.delay(path.rtt_min))
        };
        self.counter.on_data(arrival, by_rule, now);
    }

    fn on_ack_sent(&mut self, _now: Instant) {
        self.counter.on_ack_sent();
    }

    fn deadline(&self) -> Option<Instant> {
        self.counter.deadline()
    }
}
