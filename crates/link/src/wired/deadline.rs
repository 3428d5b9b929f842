//! Deadlines of parts, as one.

use tack_units::Instant;

/// The earlier of two deadlines; `None` is never.
pub(super) fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
