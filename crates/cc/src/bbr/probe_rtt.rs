//! ProbeRTT: for a moment, send so little that no queue of ours is left, and RTTmin shows.
//!
//! ```text
//! plain TCP   window 4 MSS, until 200 ms and a round have passed with no more than that in flight
//! TACK        rate MSS * f, for max(RTT, 200 ms) [TON §VI-D] and until one of it is acknowledged
//! video       rate 0.75 of the estimate, as long as TACK's [TON §VII-D]
//! ```
//!
//! 200 ms lets flows that share a bottleneck probe at the same time, and costs 2 % of ten seconds.
//!
//! Deviation: TACK's also waits for a round, as plain TCP's does. The paper's time alone could end
//! before the first TACK that saw the empty queue arrives, or in a blackout.

use core::time::Duration;

use tack_units::Instant;

/// One probe under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbeRtt {
    /// Ends no earlier; `None` until the flight is small enough.
    until: Option<Instant>,
    round_done: bool,
}

/// Least duration.
const DURATION: Duration = Duration::from_millis(200);

impl ProbeRtt {
    /// Begins when the flight has shrunk: see [`ProbeRtt::flight_is_small`].
    pub(crate) fn by_flight() -> Self {
        Self { until: None, round_done: false }
    }

    /// Begins now and lasts `rtt`, 200 ms at least.
    pub(crate) fn by_time(rtt: Option<Duration>, now: Instant) -> Self {
        let lasts = DURATION.max(rtt.unwrap_or(Duration::ZERO));
        Self { until: Some(now + lasts), round_done: false }
    }

    /// No more is in flight than the probe allows. True when this begins the measurement.
    pub(crate) fn flight_is_small(&mut self, now: Instant) -> bool {
        let begins = self.until.is_none();
        if begins {
            self.until = Some(now + DURATION);
        }
        begins
    }

    /// A packet sent during the measurement was acknowledged.
    pub(crate) fn on_round(&mut self) {
        self.round_done |= self.until.is_some();
    }

    /// Everything it waits for has happened.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.round_done && self.until.is_some_and(|until| now > until)
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
        assert!(probe.flight_is_small(Instant::from_secs(9)));
        assert!(!probe.flight_is_small(Instant::from_secs(9)), "begins once");
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
}
