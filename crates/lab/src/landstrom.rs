//! What [Landström & Larzon] found, run again.
//!
//! The paper's figures give no topology in text: access rates and, for its Fig. 5, the round trip
//! are ours (10 Mbit/s, or twice a faster bottleneck; 50 and 100 ms). Everything else is the
//! paper's: 1000-byte segments, timestamps, SACK, NewReno without pacing, poll marks from the
//! sender, drop-tail that counts packets.
//!
//! L5, byte counting after a timeout, is no run here: it is a rule of the controller and held to by
//! its own tests.
//!
//! Deviations of our stack from ns-2's that none of this can turn off: an initial window of ten
//! segments instead of four, RACK-TLP instead of duplicate acknowledgments and timeouts alone.

mod buffers;
mod counts;
mod files;
mod sharing;
mod utilisation;

use core::time::Duration;

use tack_cc::Algorithm;

use crate::dumbbell::{Dumbbell, Queue, flow};
use crate::reproduce::{Claim, Extent};
use crate::scenario::{Flow, Scenario, Strategy};

pub use buffers::Buffers;
pub use counts::Counts;
pub use files::{ByteCountingDelay, Files};
pub use sharing::Sharing;
pub use utilisation::Utilisation;

/// Every row that can be checked, in order.
pub fn claims(extent: Extent) -> Vec<Box<dyn Claim>> {
    vec![
        Box::new(Counts::new(extent)),
        Box::new(Files::new(extent)),
        Box::new(ByteCountingDelay::new(extent)),
        Box::new(Utilisation::new(extent)),
        Box::new(Buffers::new(extent)),
        Box::new(Sharing::new(extent)),
    ]
}

/// One strategy as the paper calls it, with the delay of unasked acknowledgments in milliseconds.
pub(crate) fn named(paper: &str, delay_ms: u32) -> Strategy {
    let name = match paper {
        "AE" => "ae".to_owned(),
        "DAL2" => format!("tcp-l2-{delay_ms}ms-noquick"),
        // The paper's default needs no mention in a name.
        other if delay_ms == 100 => other.to_lowercase(),
        "2WAF-beta" => format!("2waf-beta-{delay_ms}ms"),
        other => format!("{}-{delay_ms}ms", other.to_lowercase()),
    };
    name.parse().unwrap_or_else(|e| panic!("a name of our own: {e}"))
}

/// The link from hosts to a bottleneck of `rate_mbps`.
fn access_mbps(rate_mbps: f64) -> f64 {
    (2.0 * rate_mbps).max(10.0)
}

/// One bottleneck with a drop-tail buffer, and `flows` over it that start within half a second.
#[derive(Clone, Copy, Debug)]
struct Bottleneck {
    rate_mbps: f64,
    rtt: Duration,
    buffer_bdp: f64,
}

impl Bottleneck {
    fn scenario(&self, strategy: Strategy, flows: u32, seconds: f64, seed: u64) -> Scenario {
        let dumbbell = Dumbbell {
            rate_mbps: self.rate_mbps,
            access_mbps: access_mbps(self.rate_mbps),
            rtt: self.rtt,
            queue: Queue::DropTail(self.buffer_bdp),
            pairs: flows,
            staggered: flows > 1,
            processing: Duration::ZERO,
        };
        let flow = Flow { count: flows, start_jitter_s: 0.5, ..flow(strategy, Algorithm::NewReno) };
        // "The initial 40 % of each simulation is disregarded" [Landström & Larzon §4.3].
        dumbbell.scenario(vec![flow], seconds, seconds * 0.4, seed)
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
