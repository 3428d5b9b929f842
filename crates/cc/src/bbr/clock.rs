//! Time in TACK intervals: the axis of the receiver-based filters and cycles.
//!
//! Counting TACKs would be wrong: lost TACKs would stretch every window measured in them. So time
//! that passed is divided by the interval in force:
//!
//! ```text
//! unit     = max(1/f, SRTT/4, 2 * MSS/bw)
//! position = sum of elapsed / unit
//! ```
//!
//! Two kinds of time do not count, because nothing was measured in them: an idle or probing
//! sender's ([`TackClock::skip`]), and silence beyond [`MAX_SILENCE`] units, so that a path that
//! was dead for a while (a Wi-Fi scan lasts 100 to 250 ms) does not empty the filters.
//!
//! Deviation: a unit is never shorter than a quarter of the smoothed round trip, whatever interval
//! is in force. While bandwidth is probed, intervals are shorter; a filter of "40 intervals" would
//! forget within two rounds. And behind a queue of ten RTTmin, in which a path that became slow for
//! half a second leaves a flow, 40 intervals are one round: the filter would forget what the path can
//! do before anything sent since comes back. Ten rounds is what BBR remembers.
//!
//! Where counting rules Eq. 4, `1/f` is what two segments take, whatever interval was agreed on: on a path of a
//! packet or less, 40 intervals of RTTmin/4 were three packets, and with one in seven lost the best of three is
//! less than what was sent, so that the estimate fell for ever.

use core::time::Duration;

use tack_units::Instant;

/// Counts TACK intervals by elapsed time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TackClock {
    position: u64,
    /// Elapsed, not yet a whole unit.
    carry: Duration,
    settled: Instant,
    /// What is counted in. Zero until the first RTT is known: time stands still.
    unit: Duration,
    /// `1/f` of the period rule.
    interval: Duration,
    /// `1/f` of the period rule, by the round trip as it is.
    stretched: Duration,
    /// Units since feedback was last heard.
    silence: u64,
}

/// Units of silence that count: less than a round trip at beta = 4. A sender that has one segment in flight, or waits
/// for its timer, measures nothing meanwhile. With eight of them five timeouts emptied the filter, what was sent
/// next went at the rate that was left, and one flow beside nine on a path of 2 ms stayed at a tenth of its share.
/// Two would be better there, and resend more than TCP does where four packets do not fit.
const MAX_SILENCE: u64 = 3;
/// TACKs per RTTmin by the period rule, `beta` [TON §IV-A].
const BETA: u32 = 4;

impl TackClock {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            position: 0,
            carry: Duration::ZERO,
            settled: now,
            unit: Duration::ZERO,
            interval: Duration::ZERO,
            stretched: Duration::ZERO,
            silence: 0,
        }
    }

    /// Feedback arrived; these are in force from now on. `counting`: what two segments take.
    pub(crate) fn on_feedback(
        &mut self,
        ack_interval: Duration,
        rtt_min: Option<Duration>,
        srtt: Option<Duration>,
        counting: Duration,
        now: Instant,
    ) {
        self.advance(now);
        self.silence = 0;
        self.interval = ack_interval.max(rtt_min.unwrap_or(Duration::ZERO) / BETA);
        self.stretched = self.interval.max(srtt.unwrap_or(Duration::ZERO) / BETA);
        self.unit = self.stretched.max(counting);
    }

    /// Position at `now`, in intervals.
    pub(crate) fn advance(&mut self, now: Instant) -> u64 {
        let elapsed = now.saturating_since(self.settled).saturating_add(self.carry);
        self.settled = self.settled.max(now);
        if self.unit.is_zero() {
            return self.position;
        }
        let whole = elapsed.as_nanos() / self.unit.as_nanos();
        let rest = elapsed.as_nanos() % self.unit.as_nanos();
        let counted = u64::try_from(whole).unwrap_or(u64::MAX).min(MAX_SILENCE - self.silence);
        self.carry = Duration::from_nanos(u64::try_from(rest).unwrap_or(0));
        self.silence += counted;
        self.position = self.position.saturating_add(counted);
        self.position
    }

    /// The time since the last call did not count.
    pub(crate) fn skip(&mut self, now: Instant) {
        self.settled = self.settled.max(now);
    }

    /// `1/f` of the period rule, never below SRTT/4. Zero while unknown.
    pub(crate) fn stretched(&self) -> Duration {
        self.stretched
    }

    /// `1/f`: the interval in force, never below RTTmin/4. Zero while unknown.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Duration = Duration::from_millis(5);

    fn running() -> TackClock {
        let mut clock = TackClock::new(Instant::ZERO);
        clock.on_feedback(UNIT, None, None, Duration::ZERO, Instant::ZERO);
        clock
    }

    #[test]
    fn every_other_tack_may_be_lost_without_stretching_time() {
        let (mut every, mut few) = (running(), running());
        for n in 1..=100 {
            let now = Instant::from_millis(5 * n);
            every.on_feedback(UNIT, None, None, Duration::ZERO, now);
            if n % 2 == 0 {
                few.on_feedback(UNIT, None, None, Duration::ZERO, now);
            }
        }
        let end = Instant::from_millis(500);
        assert_eq!((every.advance(end), few.advance(end)), (100, 100));
    }

    #[test]
    fn fractions_of_an_interval_add_up_without_loss() {
        let mut clock = running();
        for ms in 1..=1_003 {
            clock.on_feedback(UNIT, None, None, Duration::ZERO, Instant::from_millis(ms));
        }
        assert_eq!(clock.advance(Instant::from_millis(1_005)), 201);
    }

    #[test]
    fn a_silence_counts_as_three_intervals_at_most() {
        let mut clock = running();
        for ms in [100, 200, 250] {
            assert_eq!(clock.advance(Instant::from_millis(ms)), 3);
        }
        clock.on_feedback(UNIT, None, None, Duration::ZERO, Instant::from_millis(251));
        assert_eq!(clock.advance(Instant::from_millis(256)), 4);
    }

    #[test]
    fn per_packet_acknowledgments_leave_a_quarter_round_trip_as_unit() {
        let mut clock = TackClock::new(Instant::ZERO);
        let rtt_min = Some(Duration::from_millis(40));
        clock.on_feedback(
            Duration::from_micros(100),
            rtt_min,
            rtt_min,
            Duration::ZERO,
            Instant::ZERO,
        );
        assert_eq!(clock.interval(), Duration::from_millis(10));
        assert_eq!(clock.advance(Instant::from_millis(20)), 2);
    }

    #[test]
    fn skipped_time_and_time_before_the_first_interval_do_not_count() {
        let mut clock = TackClock::new(Instant::ZERO);
        assert_eq!(clock.advance(Instant::from_secs(1)), 0);
        clock.on_feedback(UNIT, None, None, Duration::ZERO, Instant::from_secs(1));
        clock.skip(Instant::from_secs(9));
        assert_eq!(clock.advance(Instant::from_secs(9) + UNIT), 1);
    }

    #[test]
    fn where_two_segments_take_longer_than_an_interval_they_are_what_is_counted() {
        let mut clock = TackClock::new(Instant::ZERO);
        let (rtt, counting) = (Some(Duration::from_millis(2)), Duration::from_millis(8));
        clock.on_feedback(Duration::from_micros(500), rtt, rtt, counting, Instant::ZERO);
        let quarter = Duration::from_micros(500);
        assert_eq!((clock.stretched(), clock.interval()), (quarter, quarter));
        assert_eq!(clock.advance(Instant::from_millis(17)), 2);
    }
}
