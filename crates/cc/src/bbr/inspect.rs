//! What BBR believes, for statistics and plots.

use super::Bbr;
use crate::controller::Controller;
use crate::inspect::{Inspect, Snapshot};

impl Inspect for Bbr {
    fn set_mss(&mut self, mss: u32) {
        self.config.mss = mss.max(1);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        Snapshot {
            name,
            state: self.state.name(),
            startup: !self.model.full_pipe.reached(),
            pacing_gain: self.pacing_gain(),
            bandwidth: self.model.bandwidth(),
            cwnd: self.window(),
            ssthresh: None,
            rtt_min: self.model.min_rtt.get(),
            pacing_rate: self.pacing_rate,
        }
    }
}
