//! RTTmin: the second of the two minimum filters [TON §V-B], over `tau`.
//!
//! The first is the receiver's choice of the packet with the least one-way delay; this one takes
//! the ACK path's delay out as well.

use core::time::Duration;

use tack_units::{Instant, WindowedMin};

/// `tau` is at most this, to follow route changes [TON §V-B].
const MAX_TAU: Duration = Duration::from_secs(10);

/// The least RTT of the last `tau`.
#[derive(Debug)]
pub(super) struct RttMin {
    filter: WindowedMin<Duration>,
}

impl RttMin {
    pub(super) fn new(tau: Duration) -> Self {
        let tau = u64::try_from(tau.min(MAX_TAU).as_nanos()).unwrap_or(u64::MAX);
        RttMin { filter: WindowedMin::new(tau) }
    }

    pub(super) fn update(&mut self, rtt: Duration, now: Instant) {
        self.filter.update(now.as_nanos(), rtt);
    }

    pub(super) fn get(&self) -> Option<Duration> {
        self.filter.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_is_kept_for_tau_and_tau_is_at_most_ten_seconds() {
        let mut min = RttMin::new(Duration::from_secs(100));
        min.update(Duration::from_millis(10), Instant::ZERO);
        for s in 1..=10 {
            min.update(Duration::from_millis(50), Instant::from_secs(s));
            assert_eq!(min.get(), Some(Duration::from_millis(10)));
        }
        min.update(Duration::from_millis(50), Instant::from_millis(10_001));
        assert_eq!(min.get(), Some(Duration::from_millis(50)));
    }
}
