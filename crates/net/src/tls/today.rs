//! The date, by which certificates of authorities are valid or not.

use std::time::SystemTime;

use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// The machine's own. rustls' panics where it lies before 1970, as on a machine whose clock has no battery.
#[derive(Debug)]
pub(super) struct Today;

impl TimeProvider for Today {
    #[allow(clippy::disallowed_methods, reason = "a date, which no clock that began with us has")]
    fn current_time(&self) -> Option<UnixTime> {
        Some(dated(SystemTime::now()))
    }
}

/// Before 1970 it is 1970: no certificate is valid yet, and keys need no date.
fn dated(now: SystemTime) -> UnixTime {
    UnixTime::since_unix_epoch(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_before_1970_is_a_date_and_no_panic() {
        let year = Duration::from_secs(31_536_000);
        assert_eq!(dated(SystemTime::UNIX_EPOCH - year).as_secs(), 0);
        assert_eq!(dated(SystemTime::UNIX_EPOCH + year).as_secs(), year.as_secs());
    }
}
