//! RTTmin, and whether it is time to measure it anew.
//!
//! The value is the least sample of ten seconds. It is *stale* when no lower sample has come for as
//! long as the profile allows: then ProbeRTT empties the queue that may be hiding a lower one.
//!
//! Deviation: under TACK it must be *unseen*, too. A flow that is alone meets the same round trip again after
//! each of its probes for bandwidth, and to fall silent for it every ten seconds [TON §VI-D] took 6 % of a
//! satellite's goodput and 2 % of a path of 40 ms. So what a ProbeRTT has found counts as fresh for
//! as long as samples are as low and nothing is lost, a minute at most. Flows that share a queue do not
//! see what they found alone, and probe as before; where the queue is full, each sample is as low as the
//! others, but packets are lost.

use core::time::Duration;

use tack_units::{Instant, WindowedMin};

/// The filter and its age.
#[derive(Clone, Debug)]
pub(crate) struct MinRtt {
    filter: WindowedMin<Duration>,
    /// Last time a lower value was found, or the search for one ended.
    confirmed: Instant,
    /// What that search found, or less.
    found: Option<Duration>,
    /// Last time that a sample was as low as that.
    seen: Instant,
    /// Last time that packets were lost.
    lost: Option<Instant>,
    newest: Option<Duration>,
}

/// Paths change on the scale of tens of seconds; ten allow most flows to find RTTmin in the natural
/// pauses of an application, without ever probing.
const WINDOW: Duration = Duration::from_secs(10);
/// Samples that differ by this part saw the same queue.
const NOISE: u32 = 32;
/// What is seen again and again is believed for so many times as long.
const BELIEVED: u32 = 6;

impl MinRtt {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            filter: WindowedMin::new(WINDOW.as_nanos() as u64),
            confirmed: now,
            found: None,
            seen: now,
            lost: None,
            newest: None,
        }
    }

    pub(crate) fn on_sample(&mut self, rtt: Duration, now: Instant) {
        if self.filter.get().is_none_or(|least| rtt < least) {
            self.confirmed = now;
        }
        self.found = self.found.map(|found| found.min(rtt));
        if self.found.is_some_and(|found| rtt <= found.saturating_add(found / NOISE)) {
            self.seen = now;
        }
        self.filter.update(now.as_nanos(), rtt);
        self.newest = Some(rtt);
    }

    /// The path is another, of round trips of `rtt` at least.
    pub(crate) fn replace(&mut self, rtt: Duration, now: Instant) {
        *self = MinRtt { lost: self.lost, ..MinRtt::new(now) };
        self.on_sample(rtt, now);
    }

    /// Packets are lost.
    pub(crate) fn on_loss(&mut self, now: Instant) {
        self.lost = Some(now);
    }

    /// The search for a lower value ended.
    pub(crate) fn confirm(&mut self, now: Instant) {
        self.confirmed = now;
        self.found = self.filter.get();
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

    /// Stale, and what the last search found has not been seen for longer than `age`, or not without loss.
    pub(crate) fn is_unseen(&self, age: Duration, now: Instant) -> bool {
        let within = |since: Instant| now.saturating_since(since) <= age;
        let seen = within(self.seen) && !self.lost.is_some_and(within);
        self.is_stale(if seen { age * BELIEVED } else { age }, now)
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

    /// A search that found 40 ms has just ended, then so many seconds of samples of `rtt_us` each 100 ms.
    fn after(seconds: u64, rtt_us: u64) -> (MinRtt, Instant) {
        let mut m = MinRtt::new(Instant::ZERO);
        m.on_sample(Duration::from_millis(40), Instant::ZERO);
        m.confirm(Instant::ZERO);
        for tenth in 1..=10 * seconds {
            m.on_sample(Duration::from_micros(rtt_us), Instant::from_millis(100 * tenth));
        }
        (m, Instant::from_secs(seconds))
    }

    #[test]
    fn what_a_search_found_is_fresh_while_it_is_seen_but_not_for_more_than_a_minute() {
        let age = Duration::from_secs(10);
        for (seconds, unseen) in [(11, false), (59, false), (61, true)] {
            let (m, now) = after(seconds, 41_000);
            assert!(m.is_stale(age, now), "nothing lower came");
            assert_eq!(m.is_unseen(age, now), unseen, "{seconds} s");
        }
    }

    #[test]
    fn a_standing_queue_and_losses_make_it_stale_as_ever() {
        let age = Duration::from_secs(10);
        let (m, now) = after(11, 42_000);
        assert!(m.is_unseen(age, now), "a queue of 2 ms");
        let (mut m, now) = after(11, 41_000);
        m.on_loss(Instant::from_secs(2));
        assert!(m.is_unseen(age, now), "a full queue is as long each time");
        // The filter has forgotten 40 ms by then: it does not creep.
        let (mut m, now) = after(20, 41_000);
        m.on_sample(Duration::from_micros(42_200), now);
        assert!(m.is_unseen(age, now + age + age / 10), "41 ms and a little");
    }

    #[test]
    fn what_no_search_has_found_is_not_believed() {
        let age = Duration::from_secs(10);
        let mut m = MinRtt::new(Instant::ZERO);
        for s in 0..=11 {
            m.on_sample(Duration::from_millis(40), Instant::from_secs(s));
        }
        assert!(m.is_unseen(age, Instant::from_secs(11)));
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
