//! RTTmin, and whether it is time to measure it anew.
//!
//! The value is the least sample of ten seconds. It is *stale* when no lower sample has come for as
//! long as the profile allows: then ProbeRTT empties the queue that may be hiding a lower one.

use core::time::Duration;

use tack_units::{Instant, WindowedMin};

/// The filter and its age.
#[derive(Clone, Debug)]
pub(crate) struct MinRtt {
    filter: WindowedMin<Duration>,
    /// Last time a lower value was found, or the search for one ended.
    confirmed: Instant,
    newest: Option<Duration>,
}

/// Paths change on the scale of tens of seconds; ten allow most flows to find RTTmin in the natural
/// pauses of an application, without ever probing.
const WINDOW: Duration = Duration::from_secs(10);

impl MinRtt {
    pub(crate) fn new(now: Instant) -> Self {
        Self { filter: WindowedMin::new(WINDOW.as_nanos() as u64), confirmed: now, newest: None }
    }

    pub(crate) fn on_sample(&mut self, rtt: Duration, now: Instant) {
        if self.filter.get().is_none_or(|least| rtt < least) {
            self.confirmed = now;
        }
        self.filter.update(now.as_nanos(), rtt);
        self.newest = Some(rtt);
    }

    /// The search for a lower value ended.
    pub(crate) fn confirm(&mut self, now: Instant) {
        self.confirmed = now;
    }

    /// `None` before the first sample.
    pub(crate) fn get(&self) -> Option<Duration> {
        self.filter.get()
    }

    /// The newest sample is a quarter longer: packets wait.
    pub(crate) fn shows_queue(&self) -> bool {
        let least = self.filter.get().zip(self.newest);
        least.is_some_and(|(least, newest)| newest >= least.saturating_add(least / 4))
    }

    /// Nothing lower has been seen for longer than `age`.
    pub(crate) fn is_stale(&self, age: Duration, now: Instant) -> bool {
        self.filter.get().is_some() && now.saturating_since(self.confirmed) > age
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_wait_where_the_newest_sample_is_a_quarter_longer() {
        let mut m = MinRtt::new(Instant::ZERO);
        assert!(!m.shows_queue());
        for (rtt_ms, waits) in [(20, false), (24, false), (25, true), (21, false), (10, false)] {
            m.on_sample(Duration::from_millis(rtt_ms), Instant::ZERO);
            assert_eq!(m.shows_queue(), waits, "{rtt_ms} ms");
        }
    }

    #[test]
    fn only_a_lower_sample_keeps_it_fresh() {
        let age = Duration::from_secs(10);
        let ms = Duration::from_millis;
        let mut m = MinRtt::new(Instant::ZERO);
        assert!(!m.is_stale(age, Instant::from_secs(99)), "nothing to go stale");
        m.on_sample(ms(20), Instant::from_secs(1));
        m.on_sample(ms(20), Instant::from_secs(9));
        assert!(m.is_stale(age, Instant::from_secs(12)));
        m.on_sample(ms(19), Instant::from_secs(9));
        assert!(!m.is_stale(age, Instant::from_secs(12)));
        assert_eq!(m.get(), Some(ms(19)));
    }

    #[test]
    fn a_longer_path_is_believed_after_ten_seconds() {
        let ms = Duration::from_millis;
        let mut m = MinRtt::new(Instant::ZERO);
        m.on_sample(ms(20), Instant::ZERO);
        for s in 1..=11 {
            m.on_sample(ms(80), Instant::from_secs(s));
        }
        assert_eq!(m.get(), Some(ms(80)));
    }
}
