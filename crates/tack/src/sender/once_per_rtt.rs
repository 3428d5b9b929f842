//! One segment is retransmitted at most once per RTT, however often its loss is told [TON §V-A].
//!
//! Proof that a retransmission is lost takes a round trip: it must reach the peer's path, something
//! sent later must arrive, and the news must come back. So news that comes earlier than the least
//! RTT is no news: a repetition that crossed the retransmission, or a lie.

//! Deviation: [TON §V-A] says once per RTT; it is once per RTT*min*. A queue makes the round trip of a
//! retransmission longer, and within it the paper's rule would refuse news that is true: PKT.SEQ says
//! of a retransmission for certain whether it was lost, so the guard only has to refuse what cannot be
//! news at all.

use core::cell::Cell;
use core::time::Duration;

use tack_units::Instant;

use super::log::Segment;

/// Refuses to repeat a retransmission inside one RTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct OncePerRtt {
    /// Zero while unknown: then nothing is refused.
    pub(super) rtt: Duration,
}

impl OncePerRtt {
    /// Whether a segment may be declared lost at `now` that was last sent at `sent_at`.
    /// A first transmission always may: the least RTT may be overestimated.
    pub(super) fn allows(self, sent_at: Instant, retransmitted: bool, now: Instant) -> bool {
        !retransmitted || now - sent_at >= self.rtt
    }

    /// The same of a segment; `newest` becomes the latest departure of one that was allowed.
    pub(super) fn judges(self, s: &Segment, newest: &Cell<Option<Instant>>, now: Instant) -> bool {
        let allowed = self.allows(s.sent_at, s.retransmitted, now);
        if allowed {
            newest.set(newest.get().max(Some(s.sent_at)));
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tellings_never_retransmit_twice_within_an_rtt() {
        // The oracle keeps every time of retransmission of every segment.
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        let guard = OncePerRtt { rtt: Duration::from_millis(40) };
        let mut times: [Vec<Instant>; 8] = Default::default();
        let mut now = Instant::ZERO;
        let mut refused = 0;
        for _ in 0..20_000 {
            now += Duration::from_micros(next() % 4_000);
            let sent = &mut times[(next() % 8) as usize];
            let last = sent.last().copied();
            if guard.allows(last.unwrap_or_default(), last.is_some(), now) {
                sent.push(now);
            } else {
                refused += 1;
            }
        }
        for sent in &times {
            assert!(sent.windows(2).all(|w| w[1] - w[0] >= guard.rtt));
            // Told every 16 ms on average: it must not be starved either.
            assert!(sent.windows(2).all(|w| w[1] - w[0] <= 20 * guard.rtt));
        }
        assert!(refused > 0);
    }

    #[test]
    fn a_first_transmission_may_always_be_lost() {
        let guard = OncePerRtt { rtt: Duration::from_secs(1) };
        assert!(guard.allows(Instant::from_secs(5), false, Instant::from_secs(5)));
        assert!(!guard.allows(Instant::from_secs(5), true, Instant::from_secs(5)));
    }
}
