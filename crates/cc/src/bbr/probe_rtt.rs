//! ProbeRTT: for a moment, send so little that no queue of ours is left, and RTTmin shows.
//!
//! ```text
//! plain TCP   window 4 MSS, until 200 ms and a round have passed with no more than that in flight
//! TACK        rate MSS * f, for max(RTT, 200 ms) [TON §VI-D] and until one of it is acknowledged;
//!             or for 200 ms and until a packet is acknowledged that left with the flight that small
//! video       rate 0.75 of the estimate, as long as TACK's [TON §VII-D]
//! ```
//!
//! 200 ms lets flows that share a bottleneck probe at the same time, and costs 2 % of ten seconds.
//!
//! Deviation: TACK's also waits for a round, as plain TCP's does. The paper's time alone could end
//! before the first TACK that saw the empty queue arrives, or in a blackout. And it need not last a
//! round trip that was mostly queue, which may be half a second: what left when next to nothing was in
//! flight has seen what there is to see.

use core::time::Duration;

use tack_units::Instant;

/// One probe under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeRtt {
    /// Ends no earlier; `None` until the flight is small enough.
    until: Option<Instant>,
    /// Ends no earlier, whatever else happens.
    least: Option<Instant>,
    /// The flight has been small since.
    small_since: Option<Instant>,
    round_done: bool,
    /// A packet that left since is acknowledged.
    seen_empty: bool,
}

/// Least duration.
const DURATION: Duration = Duration::from_millis(200);

impl ProbeRtt {
    /// Begins when the flight has shrunk: see [`ProbeRtt::on_ack`].
    pub(crate) fn by_flight() -> Self {
        Self::new(None, None)
    }

    /// Begins now and lasts `rtt`, 200 ms at least.
    pub(crate) fn by_time(rtt: Option<Duration>, now: Instant) -> Self {
        let lasts = DURATION.max(rtt.unwrap_or(Duration::ZERO));
        Self::new(Some(now + lasts), Some(now + DURATION))
    }

    fn new(until: Option<Instant>, least: Option<Instant>) -> Self {
        Self { until, least, small_since: None, round_done: false, seen_empty: false }
    }

    /// A packet sent during the measurement was acknowledged.
    pub(crate) fn on_round(&mut self) {
        self.round_done |= self.until.is_some();
    }

    /// The newest packet acknowledged now left then; `small`: no more is in flight than the probe
    /// allows. True when this begins the measurement.
    pub(crate) fn on_ack(
        &mut self,
        small: bool,
        newest_sent_at: Option<Instant>,
        now: Instant,
    ) -> bool {
        let since = self.small_since;
        self.seen_empty |= since.zip(newest_sent_at).is_some_and(|(since, sent)| sent >= since);
        if !small {
            return false;
        }
        self.small_since.get_or_insert(now);
        let begins = self.until.is_none();
        self.until.get_or_insert(now + DURATION);
        begins
    }

    /// Everything it waits for has happened.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        let least = self.least.filter(|_| self.seen_empty);
        self.round_done && [self.until, least].into_iter().flatten().any(|end| now > end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_tcp_waits_for_the_flight_then_200_ms_and_a_round() {
        let mut probe = ProbeRtt::by_flight();
        probe.on_round();
        assert!(!probe.is_over(Instant::from_secs(9)), "flight still large");
        let nine = Instant::from_secs(9);
        assert!(!probe.on_ack(false, None, nine) && probe.on_ack(true, None, nine));
        assert!(!probe.on_ack(true, None, nine), "begins once");
        let end = Instant::from_secs(9) + Duration::from_millis(201);
        assert!(!probe.is_over(end), "no round yet");
        probe.on_round();
        assert!(!probe.is_over(Instant::from_secs(9)));
        assert!(probe.is_over(end));
    }

    #[test]
    fn tack_probes_for_one_round_trip_but_200_ms_at_least() {
        // [TON §VI-D].
        for (rtt_ms, lasts_ms) in [(20, 200), (500, 500)] {
            let mut probe = ProbeRtt::by_time(Some(Duration::from_millis(rtt_ms)), Instant::ZERO);
            probe.on_round();
            assert!(!probe.is_over(Instant::from_millis(lasts_ms)));
            assert!(probe.is_over(Instant::from_millis(lasts_ms + 1)));
        }
    }

    #[test]
    fn tack_does_not_wait_for_a_queue_that_is_gone() {
        let ms = Instant::from_millis;
        let mut probe = ProbeRtt::by_time(Some(Duration::from_millis(500)), ms(0));
        probe.on_round();
        probe.on_ack(true, Some(ms(10)), ms(150));
        probe.on_ack(true, Some(ms(140)), ms(220));
        assert!(!probe.is_over(ms(220)), "it left before");
        probe.on_ack(true, Some(ms(160)), ms(230));
        assert!(probe.is_over(ms(230)));
    }
}
