//! What a viewer sees of a video: the picture stands still while the frame that is due is not there,
//! and is wrong from a frame that lacks something to the next one that needs no other.
//!
//! ```text
//! due  = captured + playout delay
//! shown = max(due, there, the frame before)       late ones as soon as they are there
//! stall = shown - max(due, the frame before + interval)
//! ```
//!
//! Nothing is shown twice as long as it should be to fill a buffer again: a projection that has fallen
//! behind catches up at once.

use core::time::Duration;

use tack_sim::{Arrival, Video};
use tack_units::Instant;

use crate::stats::quantile;

/// What is watched, and since when.
#[derive(Clone, Debug)]
pub(crate) struct Playout {
    pub(crate) video: Video,
    /// When the first frame is captured.
    pub(crate) start: Instant,
    /// No frame is captured at this time or later.
    pub(crate) stop: Option<Instant>,
    /// From a frame's capture until it is due.
    pub(crate) delay: Duration,
}

/// What was seen of a video between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VideoResult {
    /// Time in which there was a picture to be seen, from the first frame's due to the end of the last, seconds.
    pub watched_s: f64,
    /// Of it, time in which the picture stood still for want of a frame, seconds.
    pub stalled_s: f64,
    /// How often it came to stand still.
    pub stalls: u64,
    /// Frames that were due.
    pub frames: u64,
    /// Of them, those that were not there when they were due.
    pub late: u64,
    /// Of them, those shown wrong: they lacked something, or one that they need did.
    pub damaged: u64,
    /// How often the picture became wrong.
    pub macroblockings: u64,
    /// Median time from a frame's capture until it was there, microseconds; `None` if none was.
    pub delay_p50_us: Option<f64>,
    /// 95th percentile of the same; a frame that did not come counts as if it came at the end.
    pub delay_p95_us: Option<f64>,
}

impl Playout {
    /// What is seen between `from` and `end`; `arrivals` are of all the run so far, which is `end`.
    pub(crate) fn watch(&self, arrivals: &[Arrival], from: Instant, end: Instant) -> VideoResult {
        let interval = self.video.interval();
        let mut out = VideoResult::default();
        let mut delays = Vec::new();
        let mut before: Option<Instant> = None;
        let since = from.max(self.start + self.video.captured_at(0) + self.delay);
        let (mut is_wrong, mut is_still) = (false, false);
        for n in 0.. {
            let captured = self.start + self.video.captured_at(n);
            let due = captured + self.delay;
            if due > end || self.stop.is_some_and(|stop| captured >= stop) {
                break;
            }
            let arrival = arrivals.get(n as usize);
            let there = arrival.map_or(end, |a| a.at);
            let shown = due.max(there).max(before.unwrap_or(due));
            let expected = due.max(before.map_or(due, |at| at + interval));
            before = Some(shown);
            let stall = shown.saturating_since(expected.max(from));
            if !stall.is_zero() {
                out.stalled_s += stall.as_secs_f64();
                out.stalls += u64::from(!is_still);
            }
            is_still = shown > expected;
            let was_wrong = is_wrong;
            is_wrong = match arrival {
                Some(a) if a.is_whole => is_wrong && !self.video.frame(n).is_key,
                // Of one that may still come nobody knows.
                None => is_wrong,
                Some(_) => true,
            };
            if due < from {
                continue;
            }
            out.frames += 1;
            out.late += u64::from(there > due || arrival.is_none());
            out.damaged += u64::from(is_wrong && arrival.is_some());
            out.macroblockings += u64::from(is_wrong && !was_wrong);
            delays.push(there.saturating_since(captured).as_secs_f64() * 1e6);
        }
        let until = before.map_or(since, |shown| end.min(shown + interval));
        out.watched_s = until.saturating_since(since).as_secs_f64();
        out.delay_p50_us = quantile(&mut delays, 0.5);
        out.delay_p95_us = quantile(&mut delays, 0.95);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tack_sim::Frame;

    /// Ten frames a second, every fifth a key frame, due after 200 ms.
    fn playout() -> Playout {
        let frames: Vec<Frame> = (0..5).map(|n| Frame { bytes: 1_000, is_key: n == 0 }).collect();
        Playout {
            video: Video::new(&frames, 10).unwrap(),
            start: Instant::ZERO,
            stop: None,
            delay: Duration::from_millis(200),
        }
    }

    /// Arrivals so many milliseconds after capture; `None` lacks something.
    fn arrivals(delays: &[Option<u64>]) -> Vec<Arrival> {
        let of = |(n, delay): (usize, &Option<u64>)| Arrival {
            at: Instant::from_millis(n as u64 * 100 + delay.unwrap_or(50)),
            is_whole: delay.is_some(),
        };
        delays.iter().enumerate().map(of).collect()
    }

    fn seen(delays: &[Option<u64>], end_ms: u64) -> VideoResult {
        let end = Instant::from_millis(end_ms);
        let so_far: Vec<Arrival> =
            arrivals(delays).into_iter().take_while(|a| a.at <= end).collect();
        playout().watch(&so_far, Instant::ZERO, end)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn frames_that_are_there_in_time_are_shown_without_a_stall() {
        let result = seen(&[Some(200); 10], 1_199);
        assert_eq!((result.frames, result.late, result.stalls, result.damaged), (10, 0, 0, 0));
        assert!(near(result.stalled_s, 0.0) && near(result.watched_s, 0.999), "{result:?}");
        assert_eq!(result.delay_p50_us, Some(200e3));
    }

    #[test]
    fn a_late_frame_stalls_the_picture_and_those_behind_it_catch_up_at_once() {
        // Frame 2 comes 350 ms after it was due, and 3 to 5 with it.
        let delays = [100, 100, 550, 450, 350, 250, 100, 100].map(Some);
        let result = seen(&delays, 950);
        assert_eq!((result.late, result.stalls), (4, 1));
        assert!(near(result.stalled_s, 0.35), "{result:?}");
    }

    #[test]
    fn a_path_that_carries_half_of_a_video_stalls_it_half_of_the_time() {
        let delays: Vec<Option<u64>> = (0..100).map(|n| Some(200 + n * 100)).collect();
        let result = seen(&delays, 10_200);
        let ratio = result.stalled_s / result.watched_s;
        assert!((ratio - 0.5).abs() < 0.01, "{ratio}");
    }

    #[test]
    fn what_never_comes_stalls_until_the_end() {
        let result = seen(&[Some(100); 3], 1_200);
        // Frames 3 to 10 were due: from 500 ms on.
        assert_eq!((result.frames, result.late, result.stalls), (11, 8, 1));
        assert!(near(result.stalled_s, 0.7), "{result:?}");
    }

    #[test]
    fn the_picture_is_wrong_from_a_frame_that_lacks_something_to_the_next_key_frame() {
        let mut delays = [Some(100); 20];
        // From 2 on, beyond the key frame 5, which lacks something, too, to 9; and 14 alone.
        (delays[2], delays[5], delays[14]) = (None, None, None);
        let result = seen(&delays, 5_000);
        assert_eq!((result.macroblockings, result.damaged), (2, 3 + 5 + 1), "{result:?}");
        (delays[4], delays[5]) = (Some(100), Some(100));
        let result = seen(&delays, 5_000);
        assert_eq!((result.macroblockings, result.damaged), (2, 3 + 1), "{result:?}");
    }

    #[test]
    fn no_more_time_stands_still_than_was_watched_whatever_part_is_measured() {
        // A frame that was due before the warm-up's end and never comes: still from then on.
        let from = Instant::from_millis(1_050);
        let seen = playout().watch(&[], from, Instant::from_millis(1_190));
        assert!(near(seen.stalled_s, 0.14) && near(seen.watched_s, 0.14), "{seen:?}");
        // Of a video that has ended there is nothing more to be seen.
        let ends = Playout { stop: Some(Instant::from_millis(250)), ..playout() };
        let seen =
            ends.watch(&arrivals(&[Some(100); 3]), Instant::ZERO, Instant::from_millis(9_000));
        assert!(near(seen.watched_s, 0.3) && near(seen.stalled_s, 0.0), "{seen:?}");
        let seen = ends.watch(&[], Instant::from_millis(5_000), Instant::from_millis(9_000));
        assert!(seen.stalled_s <= seen.watched_s, "{seen:?}");
    }

    #[test]
    fn only_what_is_due_after_the_warm_up_counts() {
        let delays = [100, 900, 800, 100, 100, 100, 100, 100, 100, 100].map(Some);
        let whole = seen(&delays, 1_150);
        assert!(near(whole.stalled_s, 0.7), "{whole:?}");
        let from = Instant::from_millis(900);
        let later = playout().watch(&arrivals(&delays), from, Instant::from_millis(1_150));
        assert_eq!((later.frames, later.stalls), (3, 1));
        assert!(near(later.stalled_s, 0.1) && near(later.watched_s, 0.25), "{later:?}");
    }
}
