//! Every segment is acknowledged at once, whatever its size ("AE") [Landström & Larzon §3.2].
//!
//! ```text
//! f = bw / MSS                                                    [TON Eq. 1 at L = 1]
//! ```

use tack_units::Instant;

use super::counter::Counter;
use super::{Acknowledge, Arrival, PathFacts, PathSeen, Rule};

/// Acknowledges every segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EverySegment;

impl Rule for EverySegment {
    type Receiver = AtOnce;

    fn spelling() -> &'static str {
        "ae"
    }

    fn parse(name: &str) -> Option<Self> {
        (name == "ae").then_some(EverySegment)
    }

    fn name(&self) -> String {
        "ae".to_owned()
    }

    fn frequency(&self, path: &PathFacts) -> f64 {
        path.segments_per_s()
    }

    fn receiver(&self, mss: u32) -> AtOnce {
        AtOnce(Counter::new(mss))
    }
}

/// What came and is not acknowledged, for no time.
#[derive(Debug)]
pub(crate) struct AtOnce(Counter);

impl Acknowledge for AtOnce {
    fn on_data(&mut self, arrival: &Arrival, _path: &PathSeen, now: Instant) {
        self.0.on_data(arrival, |_| (1, core::time::Duration::ZERO), now);
    }

    fn on_ack_sent(&mut self, _now: Instant) {
        self.0.on_ack_sent();
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }
}
