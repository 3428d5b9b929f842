//! A token bucket that drops what exceeds it.

use tack_units::{Instant, Rate};

use super::MSS;

/// A policer's bucket: bytes missing from it, as of a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Policed {
    missing: u64,
    at: Instant,
}

impl Policed {
    /// Whether a packet passes a bucket of this rate and depth.
    pub(super) fn admit(&mut self, (rate, depth): (Rate, u64), now: Instant) -> bool {
        let refilled = rate.bytes_in(now - self.at);
        if refilled >= MSS {
            self.missing = self.missing.saturating_sub(refilled);
            self.at = now;
        }
        let admitted = self.missing + MSS <= depth;
        self.missing += if admitted { MSS } else { 0 };
        admitted
    }
}
