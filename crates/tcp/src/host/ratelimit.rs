//! At most so many answers per second to what belongs to no connection.

use core::time::Duration;

use tack_units::Instant;

/// A counter per second.
#[derive(Debug)]
pub(crate) struct RateLimit {
    per_s: u32,
    began: Instant,
    used: u32,
}

impl RateLimit {
    pub(crate) fn new(per_s: u32, now: Instant) -> RateLimit {
        RateLimit { per_s, began: now, used: 0 }
    }

    /// One more is allowed.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        if now.saturating_since(self.began) >= Duration::from_secs(1) {
            self.began = now;
            self.used = 0;
        }
        let admitted = self.used < self.per_s;
        self.used += u32::from(admitted);
        admitted
    }
}
