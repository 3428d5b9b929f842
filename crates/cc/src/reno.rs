//! NewReno: half the window on loss, one segment more per round trip.
//!
//! ```text
//! slow start            cwnd += min(acked, L * MSS)              [RFC 3465 §2.2]
//! congestion avoidance  cwnd += MSS per cwnd bytes acknowledged  [RFC 3465 §2.1]
//! congestion            ssthresh = flight / 2                    [RFC 5681 §3.1 Eq. 4]
//! ```
//!
//! Bytes are counted, not acknowledgments, so the growth does not depend on how often the receiver
//! acknowledges. Partial acknowledgments and the recovery point [RFC 6582] are the transport's:
//! it says when recovery begins and ends.

use tack_units::{Instant, Rate};

use crate::config::Config;
use crate::control::{Algorithm, Inspect, Snapshot};
use crate::controller::Controller;
use crate::sample::{AckSample, LossKind, LossSample};
use crate::window::CongestionWindow;

/// See the module's text.
#[derive(Clone, Debug)]
pub struct NewReno {
    window: CongestionWindow,
    /// Acknowledged in congestion avoidance since the window last grew, in bytes.
    acked: u64,
}

impl NewReno {
    /// In slow start, without a threshold.
    pub(crate) fn new(config: &Config) -> Self {
        Self { window: CongestionWindow::new(config), acked: 0 }
    }
}

impl Controller for NewReno {
    fn on_sent(&mut self, bytes: u64, _in_flight: u64, _app_limited: bool, _now: Instant) {
        self.window.on_sent(bytes);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let mut acked = self.window.on_ack(ack);
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked);
        }
        if acked == 0 || self.window.in_slow_start() {
            return;
        }
        // No acknowledgment covers more than a window, so one step at a time is enough.
        let cwnd = self.window.cwnd();
        self.acked = self.acked.saturating_add(acked);
        if self.acked >= cwnd {
            self.acked = (self.acked - cwnd).min(cwnd);
            self.window.set_cwnd(cwnd.saturating_add(self.window.mss()));
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        if loss.kind == LossKind::Spurious {
            self.window.undo();
        } else if self.window.is_news(loss.kind) {
            self.acked = 0;
            self.window.reduce(self.window.flight_at(loss) / 2, loss);
        } else if loss.kind == LossKind::Timeout {
            self.window.collapse();
        }
    }

    fn window(&self) -> u64 {
        self.window.cwnd()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.window.pacing_rate()
    }
}

impl Inspect for NewReno {
    fn set_mss(&mut self, mss: u32) {
        self.window.set_mss(mss);
    }

    fn snapshot(&self, algorithm: Algorithm) -> Snapshot {
        self.window.snapshot(algorithm)
    }
}
