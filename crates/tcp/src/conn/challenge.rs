//! How often a connection answers what it does not accept [RFC 5961 §7].
//!
//! Deviation: the RFC's limit counts over all connections of a host. Anybody can then learn from
//! his own connection how often others were challenged, and so find their numbers
//! (CVE-2016-5696). Ours counts per connection.

use core::time::Duration;

use tack_units::Instant;

/// At most one answer per interval to segments that an attacker could send blindly; what a
/// connection's own peer sends by mistake is answered by the next one.
#[derive(Debug, Default)]
pub(crate) struct ChallengeLimit {
    next: Instant,
}

const INTERVAL: Duration = Duration::from_millis(100);

impl ChallengeLimit {
    /// An answer may leave now.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        let admitted = now >= self.next;
        if admitted {
            self.next = now + INTERVAL;
        }
        admitted
    }
}
