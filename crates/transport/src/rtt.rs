//! Smoothed RTT [RFC 6298 §2] and the least RTT of the last 10 s.

use core::time::Duration;

use tack_units::{Instant, WindowedMin};

/// Window of the minimum: as long as BBR and TACK's `tau` look back.
const MIN_WINDOW: Duration = Duration::from_secs(10);

/// An RTT beyond this is a broken clock or a lie, not a path: RTO goes no higher either.
const MAX_RTT: Duration = Duration::from_secs(120);

/// The estimator.
#[derive(Debug)]
pub struct RttEstimator {
    srtt: Option<Duration>,
    rttvar: Duration,
    min: WindowedMin<Duration>,
}

impl Default for RttEstimator {
    /// Without a sample.
    fn default() -> Self {
        let min = WindowedMin::new(MIN_WINDOW.as_nanos() as u64);
        RttEstimator { srtt: None, rttvar: Duration::ZERO, min }
    }
}

impl RttEstimator {
    /// Starts from what another estimator knew.
    pub fn seed(&mut self, srtt: Duration, now: Instant) {
        self.smooth(srtt);
        self.sample_min(srtt, now);
    }

    /// A sample for the RTO, delays of the receiver included.
    pub fn smooth(&mut self, rtt: Duration) {
        let rtt = rtt.min(MAX_RTT);
        match self.srtt {
            None => {
                self.srtt = Some(rtt);
                self.rttvar = rtt / 2;
            }
            Some(srtt) => {
                // alpha = 1/8, beta = 1/4; RTTVAR first, with the old SRTT.
                self.rttvar = (self.rttvar * 3 + srtt.abs_diff(rtt)) / 4;
                self.srtt = Some((srtt * 7 + rtt) / 8);
            }
        }
    }

    /// A sample for the minimum: the newest packet acknowledged.
    pub fn sample_min(&mut self, rtt: Duration, now: Instant) {
        self.min.update(now.as_nanos(), rtt.min(MAX_RTT));
    }

    /// Smoothed; `None` before the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// Its variation; `None` before the first sample.
    pub fn rttvar(&self) -> Option<Duration> {
        self.srtt.map(|_| self.rttvar)
    }

    /// The least of the last 10 s.
    pub fn min(&self) -> Option<Duration> {
        self.min.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_first_sample_sets_and_later_ones_smooth() {
        let mut rtt = RttEstimator::default();
        assert_eq!((rtt.srtt(), rtt.rttvar(), rtt.min()), (None, None, None));
        rtt.smooth(100 * MS);
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Some(100 * MS), Some(50 * MS)));
        rtt.smooth(180 * MS);
        assert_eq!(rtt.rttvar(), Some(Duration::from_micros(57_500)), "3/4 * 50 + 1/4 * 80");
        assert_eq!(rtt.srtt(), Some(110 * MS), "7/8 * 100 + 1/8 * 180");
    }

    #[test]
    fn the_minimum_forgets_after_ten_seconds() {
        let mut rtt = RttEstimator::default();
        rtt.sample_min(10 * MS, Instant::ZERO);
        for s in 1..=10 {
            rtt.sample_min(30 * MS, Instant::from_secs(s));
            assert_eq!(rtt.min(), Some(10 * MS));
        }
        rtt.sample_min(30 * MS, Instant::from_secs(11));
        assert_eq!(rtt.min(), Some(30 * MS));
    }

    #[test]
    fn an_absurd_sample_is_bounded() {
        let mut rtt = RttEstimator::default();
        for _ in 0..100 {
            rtt.smooth(Duration::MAX);
        }
        assert_eq!(rtt.srtt(), Some(MAX_RTT));
    }
}
