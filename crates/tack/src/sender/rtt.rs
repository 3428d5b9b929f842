//! Round-trip time: samples, their average and variation [RFC 6298 §2].
//!
//! Deviation: the gain of the average is 1/2, not 1/8. An eighth is for a sample per segment or two:
//! such an average follows the path within a part of a round trip. `beta` samples per round trip, each
//! of the packet that waited least, would take two of them, and window-based controllers pace by what
//! it says: behind a queue that has just gone, at a fraction of the rate.
//!
//! Where data goes both ways it carries most acknowledgments, and a TACK comes when something has gone wrong:
//! such samples alone are ten times the round trip. So where no TACK has timed it for a second, a cumulative
//! acknowledgment does, with the delay that the peer's application gave it, as in other TCPs.

use core::time::Duration;

use tack_units::Instant;

use crate::feedback::Timing;

/// Longer samples are errors of a clock, or lies.
const MAX_SAMPLE: Duration = Duration::from_secs(60);

/// Without a TACK's for so long, the host's own samples count.
const UNTIMED: Duration = Duration::from_secs(1);

/// A round trip from what a TACK says: `RTT = now - t0* - dt*` [TON §V-B], clocks modulo 2^32 us.
/// `None` when that is negative, or longer than a minute.
pub(super) fn sample(timing: Timing, clock_us: u32) -> Option<Duration> {
    let elapsed = Duration::from_micros(u64::from(clock_us.wrapping_sub(timing.departure_us)));
    // A receiver that rounds dt* up by its clock's tick must not make the sample negative.
    let rtt = elapsed.checked_sub(timing.delay)?.max(Duration::from_micros(1));
    (rtt <= MAX_SAMPLE).then_some(rtt)
}

/// SRTT and RTTVAR.
#[derive(Debug, Default)]
pub(super) struct Rtt {
    srtt: Option<Duration>,
    rttvar: Duration,
    /// The average with the usual gain.
    slow: Duration,
    /// When a TACK last told one.
    timed: Option<Instant>,
}

impl Rtt {
    /// A TACK told one.
    pub(super) fn on_timing(&mut self, rtt: Duration, now: Instant) {
        self.timed = Some(now);
        self.update(rtt);
    }

    /// The host measured one; whether it counts.
    pub(super) fn on_sample(&mut self, rtt: Duration, now: Instant) -> bool {
        let counts = self.timed.is_none_or(|timed| now - timed >= UNTIMED);
        if counts {
            self.update(rtt);
        }
        counts
    }

    fn update(&mut self, rtt: Duration) {
        let rtt = rtt.min(MAX_SAMPLE);
        match self.srtt {
            None => {
                self.srtt = Some(rtt);
                self.rttvar = rtt / 2;
                self.slow = rtt;
            }
            Some(srtt) => {
                self.rttvar = self.rttvar * 3 / 4 + srtt.abs_diff(rtt) / 4;
                self.srtt = Some(srtt / 2 + rtt / 2);
                self.slow = self.slow * 7 / 8 + rtt / 8;
            }
        }
    }

    /// What a probe goes by, where silence is to be found soon: a moment at which the medium was taken does not
    /// make round trips long for the rest of a short flow. With the usual gain, unless they have become shorter.
    pub(super) fn usual(&self) -> Option<Duration> {
        self.srtt.map(|srtt| srtt.min(self.slow))
    }

    pub(super) fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    pub(super) fn rttvar(&self) -> Option<Duration> {
        self.srtt.map(|_| self.rttvar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn the_tack_delay_is_taken_off_across_the_wrap() {
        // [TON Fig. 5b]: RTT = t1 - t0 - dt.
        for t0 in [0u32, 5, u32::MAX - 50_000] {
            let timing = Timing { departure_us: t0, delay: ms(20), ..Timing::default() };
            assert_eq!(sample(timing, t0.wrapping_add(100_000)), Some(ms(80)));
        }
    }

    #[test]
    fn impossible_samples_are_refused() {
        let timing = Timing { departure_us: 1_000, delay: ms(5), ..Timing::default() };
        assert_eq!(sample(timing, 900), None, "before it left");
        assert_eq!(sample(timing, 2_000), None, "a delay longer than the round trip");
        let lie = Timing { departure_us: 0, delay: Duration::MAX, ..Timing::default() };
        assert_eq!(sample(lie, u32::MAX), None);
    }

    #[test]
    fn average_and_variation_follow_the_samples_of_a_round_trip() {
        let mut rtt = Rtt::default();
        assert_eq!((rtt.srtt(), rtt.rttvar()), (None, None));
        rtt.update(ms(80));
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(ms(80)), Some(ms(40))));
        rtt.update(ms(160));
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(ms(120)), Some(ms(50))));
    }

    #[test]
    fn where_no_tack_has_timed_it_for_a_second_the_host_s_samples_count() {
        let at = Instant::from_millis;
        let mut rtt = Rtt::default();
        assert!(rtt.on_sample(ms(80), at(0)), "the handshake's");
        rtt.on_timing(ms(40), at(100));
        for (when, counts) in [(100, false), (1_099, false), (1_100, true), (5_000, true)] {
            assert_eq!(rtt.on_sample(ms(500), at(when)), counts, "{when} ms");
        }
        rtt.on_timing(ms(40), at(5_001));
        assert!(!rtt.on_sample(ms(500), at(6_000)));
    }

    #[test]
    fn a_probe_does_not_wait_for_what_a_moment_made_long() {
        let mut rtt = Rtt::default();
        let usual = |rtt: &Rtt| rtt.usual().unwrap();
        (0..20).for_each(|_| rtt.update(ms(40)));
        (0..3).for_each(|_| rtt.update(ms(600)));
        assert!(rtt.srtt().unwrap() > ms(500) && usual(&rtt) < ms(240), "{rtt:?}");
        (0..40).for_each(|_| rtt.update(ms(600)));
        assert!(usual(&rtt) > ms(580), "{rtt:?}");
        (0..4).for_each(|_| rtt.update(ms(40)));
        assert!(usual(&rtt) < ms(90), "shorter at once: {rtt:?}");
    }
}
