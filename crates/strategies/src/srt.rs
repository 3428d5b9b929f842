//! SRT's rule: a full acknowledgment every 10 ms, and a light one every 64 packets between.
//!
//! ```text
//! f = 1/T + floor(T * bw/MSS / 64)/T,  T = 10 ms
//! ```
//!
//! with `bw/MSS` for `1/T` where packets are rarer. Both kinds are ordinary acknowledgments here:
//! TCP has one size. Periods run on whether data comes or not, and one without data has none.
//!
//! Deviation: a packet is a full-sized segment's worth of bytes, since TCP counts bytes.

use core::time::Duration;

use tack_units::Instant;

use super::counter::Counter;
use super::{Acknowledge, Arrival, PathFacts, PathSeen, Rule};

/// Every 10 ms, and every 64 segments between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Srt;

const PERIOD: Duration = Duration::from_millis(10);
const LIGHT_SEGMENTS: u32 = 64;

impl Rule for Srt {
    type Receiver = Periods;

    fn spelling() -> &'static str {
        "srt"
    }

    fn parse(name: &str) -> Option<Self> {
        (name == "srt").then_some(Srt)
    }

    fn name(&self) -> String {
        "srt".to_owned()
    }

    fn frequency(&self, path: &PathFacts) -> f64 {
        let per_s = path.segments_per_s();
        let periods_per_s = 1.0 / PERIOD.as_secs_f64();
        let light = (per_s / periods_per_s / f64::from(LIGHT_SEGMENTS)).floor();
        periods_per_s.min(per_s) + light * periods_per_s
    }

    fn receiver(&self, mss: u32) -> Periods {
        Periods { counter: Counter::new(mss), next: Instant::ZERO }
    }
}

/// What waits for an acknowledgment.
#[derive(Debug)]
pub(crate) struct Periods {
    counter: Counter,
    /// End of the period under way.
    next: Instant,
}

impl Acknowledge for Periods {
    fn on_data(&mut self, arrival: &Arrival, _path: &PathSeen, now: Instant) {
        if self.next <= now {
            let over = now.saturating_since(self.next).as_nanos() % PERIOD.as_nanos();
            self.next = now + PERIOD - Duration::from_nanos(over as u64);
        }
        let wait = self.next - now;
        self.counter.on_data(arrival, |_| (LIGHT_SEGMENTS, wait), now);
    }

    fn on_ack_sent(&mut self, _now: Instant) {
        self.counter.on_ack_sent();
    }

    fn deadline(&self) -> Option<Instant> {
        self.counter.deadline()
    }
}
