//! How fast the model and the simulator are on this machine, in simulated seconds per second.
//!
//! ```text
//! cargo run --release -p tack-bench -- speed flows --phy ac       # whole transports over it
//! cargo run --release -p tack-bench -- speed wlan                 # the MAC alone
//! cargo run --release -p tack-bench -- speed ns3                  # beside ns-3's rates and speed
//! ```

mod flows;
mod wlan;

use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Subcommand;

pub(crate) use flows::FlowsArgs;

/// What to time.
#[derive(Debug, Subcommand)]
pub(crate) enum Speed {
    /// Bulk flows over a WLAN and a wire.
    Flows(FlowsArgs),
    /// Every WLAN standard, the MAC alone, and how the cost grows with stations.
    Wlan,
    /// The model beside ns-3, for every row of the reference table that the tests hold it to.
    Ns3 {
        /// Seconds to simulate of each row.
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
    },
}

pub(crate) fn run(speed: &Speed) -> Result<()> {
    match speed {
        Speed::Flows(args) => flows::run(args),
        Speed::Wlan => wlan::standards(),
        Speed::Ns3 { seconds } => wlan::beside_ns3(Duration::try_from_secs_f64(*seconds)?),
    }
}

/// What `work` returns, and how long it took.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the real clock")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}
