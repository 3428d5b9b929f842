//! A receiver that acknowledges what it is asked to [Landström & Larzon §4.1]: marked segments, at
//! once what every strategy acknowledges at once, and the rest when a timer fires.
//!
//! A path that takes the marks away is noticed: a sender marks the last segment before it falls
//! silent, so a timer that fires means a mark was lost. After [`UNMARKED`] times in a row without
//! a mark the receiver goes on with a delayed acknowledgment until one comes.

use core::time::Duration;

use tack_units::Instant;

use super::counter::Counter;
use super::{Acknowledge, Arrival, PathFacts, PathSeen};

/// Timers in a row that make a receiver believe marks do not arrive.
const UNMARKED: u32 = 3;
/// What it does then [RFC 5681 §4.2].
const SEGMENTS_WITHOUT_MARKS: u32 = 2;

/// What waits for an acknowledgment.
#[derive(Debug)]
pub(crate) struct Polled {
    counter: Counter,
    interval: Duration,
    /// Something among it is acknowledged at once.
    asked: bool,
    unmarked_timers: u32,
}

impl Polled {
    /// `interval`: of the timer.
    pub(crate) fn new(interval: Duration, mss: u32) -> Polled {
        Polled { counter: Counter::new(mss), interval, asked: false, unmarked_timers: 0 }
    }
}

impl Acknowledge for Polled {
    fn on_data(&mut self, arrival: &Arrival, _path: &PathSeen, now: Instant) {
        if arrival.polled {
            self.unmarked_timers = 0;
        }
        let immediate = arrival.immediate || arrival.polled;
        self.asked |= immediate;
        let marks_come = self.unmarked_timers < UNMARKED;
        let segments = if marks_come { u32::MAX } else { SEGMENTS_WITHOUT_MARKS };
        let arrival = Arrival { immediate, ..*arrival };
        self.counter.on_data(&arrival, |_| (segments, self.interval), now);
    }

    fn on_ack_sent(&mut self, now: Instant) {
        let timer = !self.asked && self.deadline().is_some_and(|at| at <= now);
        self.unmarked_timers = self.unmarked_timers.saturating_add(u32::from(timer));
        self.asked = false;
        self.counter.on_ack_sent();
    }

    fn deadline(&self) -> Option<Instant> {
        self.counter.deadline()
    }
}

/// Acknowledgments per second when every `segments`-th segment is marked and the timer tells of
/// what waits longer between two marks.
pub(super) fn frequency(segments: f64, interval: Duration, path: &PathFacts) -> f64 {
    let per_s = path.segments_per_s();
    let per_timer = 1.0 + (interval.as_secs_f64() * per_s).floor();
    per_s / segments * (segments / per_timer).ceil()
}

#[cfg(test)]
mod tests {
    use super::super::News;
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const PLAIN: Arrival = Arrival {
        bytes: 1_000,
        segment: 1_000,
        immediate: false,
        news: News::InOrder,
        polled: false,
    };
    const MARKED: Arrival = Arrival { polled: true, ..PLAIN };

    #[test]
    fn marks_and_holes_are_answered_at_once_and_the_rest_by_the_timer() {
        let mut polled = Polled::new(MS * 100, 1_000);
        polled.on_data(&PLAIN, &PathSeen::default(), Instant::ZERO);
        for at in 1..50 {
            polled.on_data(&PLAIN, &PathSeen::default(), Instant::from_millis(at));
        }
        assert_eq!(polled.deadline(), Some(Instant::from_millis(100)));
        for asked in [MARKED, Arrival { immediate: true, ..PLAIN }] {
            polled.on_data(&asked, &PathSeen::default(), Instant::from_millis(60));
            assert!(polled.is_due(Instant::from_millis(60)));
            polled.on_ack_sent(Instant::from_millis(60));
            assert_eq!(polled.deadline(), None);
        }
    }

    #[test]
    fn a_receiver_that_hears_no_marks_takes_to_delayed_acknowledgment_until_it_does() {
        let mut polled = Polled::new(MS * 100, 1_000);
        let mut now = Instant::ZERO;
        let mut two_segments_are_answered = |polled: &mut Polled| {
            polled.on_data(&PLAIN, &PathSeen::default(), now);
            polled.on_data(&PLAIN, &PathSeen::default(), now);
            let at_once = polled.is_due(now);
            now += MS * 100;
            assert!(polled.is_due(now));
            polled.on_ack_sent(now);
            at_once
        };
        for _ in 0..3 {
            assert!(!two_segments_are_answered(&mut polled));
        }
        for _ in 0..5 {
            assert!(two_segments_are_answered(&mut polled));
        }
        polled.on_data(&MARKED, &PathSeen::default(), Instant::from_secs(9));
        polled.on_ack_sent(Instant::from_secs(9));
        assert!(!two_segments_are_answered(&mut polled));
    }
}
