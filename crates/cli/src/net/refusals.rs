//! When a process that listened is taken for gone.

use std::time::Duration;

use tokio::time::Instant;

use crate::exit::Failure;

/// A host that says for so long that nobody listens there has lost the process that did. A refusal alone is not
/// enough: a machine between may be starting anew.
const LIMIT: Duration = Duration::from_secs(5);

/// Since when, and when last, a host has said that nobody listens there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusals(Option<(Instant, Instant)>);

impl Refusals {
    /// One more attempt failed. Whether the process is gone.
    pub fn add(&mut self, failure: &Failure, now: Instant) -> bool {
        if !failure.is_refusal {
            return false;
        }
        let since = match self.0 {
            Some((since, last)) if now - last < LIMIT => since,
            _ => now,
        };
        self.0 = Some((since, now));
        now - since >= LIMIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::ExitCode;

    #[test]
    fn who_is_refused_again_and_again_for_five_seconds_is_told_that_the_process_is_gone() {
        let begun = Instant::now();
        let at = |s| begun + Duration::from_secs(s);
        let other = Failure::new(ExitCode::Failed, "silence");
        let refused = Failure { is_refusal: true, ..Failure::new(ExitCode::Failed, "refused") };
        let mut refusals = Refusals::default();
        assert!([0, 2, 4].iter().all(|s| !refusals.add(&refused, at(*s))));
        assert!(!refusals.add(&other, at(5)), "it may be there");
        assert!(refusals.add(&refused, at(6)));
        assert!(!refusals.add(&refused, at(12)), "a pause in which it may have been there");
    }
}
