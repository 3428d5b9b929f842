//! The retransmission timer [RFC 6298].
//!
//! ```text
//! RTO = (SRTT + max(200 ms, 4 * RTTVAR)) * 2^backoff, at most 120 s; 1 s before the first sample
//! ```
//!
//! Deviation: [RFC 6298 §2.4] asks for at least 1 s. Like Linux, the *variation* term is at least
//! 200 ms instead: with RACK-TLP in front the timer is the last resort, and the term covers a
//! peer's delayed acknowledgment of up to 200 ms at any SRTT, which a floor on the sum would not.
//!
//! Each time the head is sent again its clock starts over, as in Linux; but not for ever. A queue of a
//! few packets that drops its oldest takes the head every time, if what follows it at once fills the
//! queue, and only a timeout sends it alone.

use core::time::Duration;

use tack_units::Instant;

use tack_transport::RttEstimator;

/// Least variation term.
pub(super) const LEAST_VARIATION: Duration = Duration::from_millis(200);

/// Most the timer backs off to: [RFC 6298 §2.5] allows any bound of at least 60 s.
const MAX_RTO: Duration = Duration::from_secs(120);

/// Before the first RTT sample [RFC 6298 §2.1].
const INITIAL_RTO: Duration = Duration::from_secs(1);

/// Doubling further changes nothing: 200 ms * 2^10 is beyond the bound.
const MAX_BACKOFF: u32 = 16;

/// Repairs of the head that each start the clock over.
const MAX_REPAIRS: u32 = 8;

/// The timer.
#[derive(Debug, Default)]
pub(super) struct Rto {
    backoff: u32,
    /// What the timer is counted from; `None` while it is stopped.
    since: Option<Instant>,
    /// Of the head that is outstanding, while each started the clock over.
    repairs: u32,
}

impl Rto {
    /// Now in force, backoff included.
    pub(super) fn timeout(&self, rtt: &RttEstimator) -> Duration {
        let base = match (rtt.srtt(), rtt.rttvar()) {
            (Some(srtt), Some(rttvar)) => srtt + (rttvar * 4).max(LEAST_VARIATION),
            _ => INITIAL_RTO,
        };
        let backed_off = match self.backoff {
            0 => base,
            backoff => base.saturating_mul(1 << backoff),
        };
        backed_off.min(MAX_RTO)
    }

    pub(super) fn deadline(&self, rtt: &RttEstimator) -> Option<Instant> {
        self.since.map(|since| since + self.timeout(rtt))
    }

    /// A segment left: the timer runs from here if it did not [RFC 6298 §5.1].
    pub(super) fn on_sent(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// New data was acknowledged [RFC 6298 §5.2, §5.3]. `outstanding`: something still is.
    pub(super) fn on_advance(&mut self, outstanding: bool, now: Instant) {
        self.since = outstanding.then_some(now);
        self.repairs = 0;
    }

    /// A probe left, in place of a timeout [RFC 8985 §7.3].
    pub(super) fn on_probe(&mut self, now: Instant) {
        self.since = Some(now);
    }

    /// The head is sent again: the timer would else undercut its repair.
    pub(super) fn on_repair(&mut self, now: Instant) {
        if self.repairs < MAX_REPAIRS {
            self.repairs += 1;
            self.since = Some(now);
        }
    }

    /// A valid RTT sample ends the backoff [RFC 6298 §5.7, §3].
    pub(super) fn on_rtt_sample(&mut self) {
        self.backoff = 0;
    }

    /// The timeout proved spurious.
    pub(super) fn undo(&mut self) {
        self.backoff = 0;
    }

    /// It expired.
    pub(super) fn on_expiry(&mut self, now: Instant) {
        self.backoff = (self.backoff + 1).min(MAX_BACKOFF);
        self.since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_timeout_follows_the_estimate_with_a_floor_under_the_variation() {
        let mut rtt = RttEstimator::default();
        let rto = Rto::default();
        assert_eq!(rto.timeout(&rtt), Duration::from_secs(1));
        rtt.smooth(100 * MS);
        assert_eq!(rto.timeout(&rtt), 300 * MS, "100 + 4 * 50");
        for _ in 0..100 {
            rtt.smooth(100 * MS);
        }
        assert_eq!(rto.timeout(&rtt), 300 * MS, "100 + 200, the floor");
    }

    #[test]
    fn expiries_double_up_to_two_minutes_and_a_sample_ends_it() {
        let mut rtt = RttEstimator::default();
        rtt.smooth(100 * MS);
        let mut rto = Rto::default();
        let mut now = Instant::ZERO;
        rto.on_sent(now);
        let mut expected = 300 * MS;
        for _ in 0..40 {
            assert_eq!(rto.deadline(&rtt), Some(now + expected));
            now += expected;
            rto.on_expiry(now);
            expected = (expected * 2).min(MAX_RTO);
        }
        rto.on_rtt_sample();
        assert_eq!(rto.timeout(&rtt), 300 * MS);
    }

    #[test]
    fn sending_does_not_restart_a_running_timer_and_the_last_acknowledgment_stops_it() {
        let rtt = RttEstimator::default();
        let mut rto = Rto::default();
        assert_eq!(rto.deadline(&rtt), None);
        rto.on_sent(Instant::ZERO);
        rto.on_sent(Instant::from_millis(500));
        assert_eq!(rto.deadline(&rtt), Some(Instant::from_secs(1)));
        rto.on_advance(true, Instant::from_millis(500));
        assert_eq!(rto.deadline(&rtt), Some(Instant::from_millis(1_500)));
        rto.on_advance(false, Instant::from_millis(600));
        assert_eq!(rto.deadline(&rtt), None);
    }

    #[test]
    fn repairs_of_the_head_put_the_timer_off_a_few_times_only() {
        let mut rto = Rto::default();
        rto.on_sent(Instant::ZERO);
        for n in 1..20u32 {
            rto.on_repair(Instant::ZERO + n * 100 * MS);
            let last = Instant::ZERO + n.min(MAX_REPAIRS) * 100 * MS;
            assert_eq!(rto.deadline(&RttEstimator::default()), Some(last + INITIAL_RTO), "{n}");
        }
        rto.on_advance(true, Instant::from_secs(3));
        rto.on_repair(Instant::from_secs(4));
        assert_eq!(rto.deadline(&RttEstimator::default()), Some(Instant::from_secs(5)));
    }
}
