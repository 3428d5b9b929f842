//! picoquic's rule where nothing was negotiated: a quarter of the window or a quarter of RTTmin,
//! both bounded.
//!
//! ```text
//! f = max(bw / (g * MSS), 1 / d),  g = W/4 within 2 and 32 segments     as [TON Eq. 3]
//!                                  d = RTTmin/4 within 1 and 10 ms
//! ```
//!
//! exactly, since segments are whole, `bw/MSS / min(g, 1 + floor(d * bw/MSS))`. W is what a round
//! trip brings, which is how a receiver sees the send window.

use core::time::Duration;

use tack_units::Instant;

use super::counter::Counter;
use super::{Acknowledge, Arrival, PathFacts, PathSeen, Rule};

/// A quarter of the window, or of RTTmin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picoquic;

const PER_WINDOW: u64 = 4;
const LEAST_GAP: u64 = 2;
const MOST_GAP: u64 = 32;
const LEAST_DELAY: Duration = Duration::from_millis(1);
const MOST_DELAY: Duration = Duration::from_millis(10);

/// Segments per acknowledgment. Nothing is known before the first round trip.
fn gap(window: Option<u64>, mss: u32) -> u64 {
    let segments = window.unwrap_or(0) / u64::from(mss.max(1));
    (segments / PER_WINDOW).clamp(LEAST_GAP, MOST_GAP)
}

fn delay(rtt_min: Option<Duration>) -> Duration {
    rtt_min.map_or(MOST_DELAY, |rtt| (rtt / 4).clamp(LEAST_DELAY, MOST_DELAY))
}

impl Rule for Picoquic {
    type Receiver = Gap;

    fn spelling() -> &'static str {
        "picoquic"
    }

    fn parse(name: &str) -> Option<Self> {
        (name == "picoquic").then_some(Picoquic)
    }

    fn name(&self) -> String {
        "picoquic".to_owned()
    }

    fn frequency(&self, path: &PathFacts) -> f64 {
        path.counted(gap(Some(path.window), path.mss) as f64, delay(Some(path.rtt_min)))
    }

    fn receiver(&self, mss: u32) -> Gap {
        Gap(Counter::new(mss))
    }
}

/// What waits for an acknowledgment.
#[derive(Debug)]
pub(crate) struct Gap(Counter);

impl Acknowledge for Gap {
    fn on_data(&mut self, arrival: &Arrival, path: &PathSeen, now: Instant) {
        let gap = gap(path.window, self.0.full_size());
        self.0.on_data(arrival, |_| (gap as u32, delay(path.rtt_min)), now);
    }

    fn on_ack_sent(&mut self, _now: Instant) {
        self.0.on_ack_sent();
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.deadline()
    }
}
