//! The delayed acknowledgment of [RFC 1122 §4.2.3.2, RFC 5681 §4.2] with `L` adjustable.

use core::time::Duration;

use tack_units::Instant;

/// When plain TCP acknowledges.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayedAckConfig {
    /// Full-sized segments per acknowledgment; 2 by the RFC, 1 acknowledges everything.
    pub segments_per_ack: u32,
    /// Longest delay; below 500 ms.
    pub max_delay: Duration,
    /// Segments acknowledged at once when a connection or a burst after idle starts ("quickack").
    pub quickack_segments: u32,
}

impl Default for DelayedAckConfig {
    fn default() -> Self {
        DelayedAckConfig {
            segments_per_ack: 2,
            max_delay: Duration::from_millis(40),
            quickack_segments: 16,
        }
    }
}

/// The state of the delay.
#[derive(Debug)]
pub struct DelayedAck {
    _config: DelayedAckConfig,
}

impl DelayedAck {
    /// Nothing to acknowledge yet.
    pub fn new(config: DelayedAckConfig, mss: u32) -> Self {
        let _ = mss;
        DelayedAck { _config: config }
    }

    /// `bytes` of data arrived. `immediate`: out of order, fills a hole, FIN, out of window, or
    /// a duplicate: acknowledge at once [RFC 5681 §4.2].
    pub fn on_data(&mut self, bytes: u32, immediate: bool, now: Instant) {
        let _ = (bytes, immediate, now);
    }

    /// An acknowledgment left, alone or on data.
    pub fn on_ack_sent(&mut self) {}

    /// An acknowledgment is due.
    pub fn is_due(&self, now: Instant) -> bool {
        let _ = now;
        false
    }

    /// When one will be due; `None` when nothing waits.
    pub fn deadline(&self) -> Option<Instant> {
        None
    }
}
