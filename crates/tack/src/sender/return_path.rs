//! What of a round trip is the return path's: samples without the queue that the receiver saw on the
//! data path.

use core::time::Duration;

/// Follows the round trip without the queue of the data path.
#[derive(Debug, Default)]
pub(super) struct ReturnPath {
    /// Smoothed like SRTT; `None` before the first sample.
    rtt: Option<Duration>,
    /// On the data path, of the latest sample.
    queued: Duration,
}

impl ReturnPath {
    /// A packet's round trip, of which it waited `queued` on the data path.
    pub(super) fn on_sample(&mut self, rtt: Duration, queued: Duration) {
        let rest = rtt.saturating_sub(queued);
        self.rtt = Some(self.rtt.map_or(rest, |mean| mean / 2 + rest / 2));
        self.queued = queued.min(rtt);
    }

    /// The round trip without a queue on the data path: over RTTmin, what acknowledgments wait for.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// How long data waited lately.
    pub(super) fn queued(&self) -> Duration {
        self.queued
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_of_data_is_no_queue_of_acknowledgments() {
        let ms = Duration::from_millis;
        let mut path = ReturnPath::default();
        for _ in 0..100 {
            path.on_sample(ms(140), ms(100));
        }
        assert_eq!(path.rtt(), Some(ms(40)));
        for _ in 0..100 {
            path.on_sample(ms(140), ms(10));
        }
        assert!(path.rtt().is_some_and(|rtt| rtt > ms(129)));
        path.on_sample(ms(5), ms(500));
        assert_eq!(path.queued(), ms(5), "no longer than the whole round trip");
    }
}
