//! What a controller shows beside its window and rate.

use core::fmt;
use core::time::Duration;

use tack_units::Rate;

use crate::controller::Controller;
use crate::window::CongestionWindow;

/// What a controller believes, for statistics and plots. Nothing decides by it but the TACK
/// schedule, which needs `bandwidth` and `startup` [TON §VI-C].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// Name of the controller, as [`Algorithm`](crate::Algorithm) prints it.
    pub name: &'static str,
    /// Name of the state it is in, e.g. `probe_bw`.
    pub state: &'static str,
    /// Still looking for the bandwidth of the path: the receiver should acknowledge every packet.
    pub startup: bool,
    /// Gain applied to the rate now.
    pub pacing_gain: f64,
    /// Bandwidth of the path: estimated, or `cwnd/srtt` of a window-based controller. `None` before
    /// the first sample.
    pub bandwidth: Option<Rate>,
    /// The window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `None` while infinite or when the algorithm has none.
    pub ssthresh: Option<u64>,
    /// RTTmin as the controller knows it; `None` when it keeps none or has no sample.
    pub rtt_min: Option<Duration>,
    /// Pacing rate in force.
    pub pacing_rate: Option<Rate>,
}

impl Snapshot {
    /// Of a controller that is in `state` and has this window and rate: past its startup, of no
    /// gain, and its rate is its estimate of the bandwidth.
    pub fn new(
        name: &'static str,
        state: &'static str,
        cwnd: u64,
        pacing_rate: Option<Rate>,
    ) -> Self {
        Snapshot {
            name,
            state,
            startup: false,
            pacing_gain: 1.0,
            bandwidth: pacing_rate,
            cwnd,
            ssthresh: None,
            rtt_min: None,
            pacing_rate,
        }
    }
}

impl CongestionWindow {
    /// What any controller with such a window believes.
    pub(crate) fn snapshot(&self, name: &'static str) -> Snapshot {
        let state = match (self.in_recovery(), self.in_slow_start()) {
            (true, _) => "recovery",
            (false, true) => "slow_start",
            (false, false) => "congestion_avoidance",
        };
        Snapshot {
            name,
            state,
            startup: self.in_slow_start() && !self.in_recovery(),
            pacing_gain: self.pacing_gain(),
            bandwidth: self.bandwidth(),
            cwnd: self.cwnd(),
            ssthresh: self.ssthresh(),
            rtt_min: None,
            pacing_rate: self.pacing_rate(),
        }
    }
}

/// What a transport needs of a [`Controller`] while a connection lives beyond samples and numbers.
pub trait Inspect: Controller + fmt::Debug {
    /// Replaces the MSS, when path MTU discovery found another; at least one byte.
    fn set_mss(&mut self, mss: u32);

    /// What it believes; `name` is what it runs under.
    fn snapshot(&self, name: &'static str) -> Snapshot;
}
