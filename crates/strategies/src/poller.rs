//! Which segments a sender marks to be acknowledged [Landström & Larzon §4.1].
//!
//! ```text
//! marked   every N-th segment's worth of bytes, or each 1/x of the send window, whichever is less;
//!          the window is what whole segments fill of it
//!          the last of the application's data
//!          the last that the window lets go while no mark is under way: nothing would clock more
//!          the first after a timer fired
//! ```
//!
//! While a mark is under way the window's last segment needs none: the acknowledgment of the mark
//! lets more go. Marked all the same it would be acknowledged for itself, clock out so much for
//! itself and be marked again: windows would break into ever smaller bursts.
//!
//! Shares of a window need not be whole segments: what a mark comes late by is taken off the next
//! share. Rounded up one by one, two shares of 11 segments would be more than the window, the second
//! mark would wait for the acknowledgment of the first, and the sender would stop and wait.

/// How often marks come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Polls {
    /// Full-sized segments per mark; `u32::MAX`: only the window counts.
    pub(crate) segments: u32,
    /// Marks per send window: at most, if only the window counts, else at least.
    pub(crate) per_window: u32,
}

impl Polls {
    /// Full-sized segments per mark, in the mean, at a send window of so many.
    pub(crate) fn segments_at(&self, window: f64) -> f64 {
        let share = window.floor() / f64::from(self.per_window.max(1));
        let share = if self.is_of_window() { share } else { share.floor() };
        share.min(f64::from(self.segments)).max(1.0)
    }

    fn is_of_window(&self) -> bool {
        self.segments == u32::MAX
    }
}

/// What is about to leave, in bytes and stream offsets.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// End of the segment.
    pub end: u64,
    /// Its text.
    pub len: u64,
    /// The oldest offset that is unacknowledged.
    pub una: u64,
    /// Full-sized text.
    pub mss: u64,
    /// The lesser of congestion window and the peer's.
    pub window: u64,
    /// What follows it.
    pub last: Last,
}

/// Whether it is the last for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// More may follow.
    No,
    /// A window is full with it.
    OfWindow,
    /// Nothing more was written.
    OfData,
}

/// Marks at work.
#[derive(Debug)]
pub(crate) struct Poller {
    polls: Polls,
    /// Text sent since the last mark, and what that came late by.
    since: u64,
    /// End of the last marked segment.
    marked_to: u64,
    /// The next segment is marked whatever it is.
    due: bool,
}

impl Poller {
    pub(crate) fn new(polls: Polls) -> Poller {
        Poller { polls, since: 0, marked_to: 0, due: false }
    }

    pub(crate) fn marks(&self, leaving: &Leaving) -> bool {
        let full = self.since + leaving.len >= self.share(leaving);
        let silent = match leaving.last {
            Last::No => false,
            Last::OfWindow => self.marked_to <= leaving.una,
            Last::OfData => true,
        };
        self.due || full || silent
    }

    pub(crate) fn on_sent(&mut self, leaving: &Leaving, marked: bool) {
        self.since += leaving.len;
        if marked {
            let late = self.since.checked_sub(self.share(leaving));
            let late = late.filter(|late| self.polls.is_of_window() && *late < leaving.mss);
            self.since = late.unwrap_or(0);
            self.marked_to = self.marked_to.max(leaving.end);
            self.due = false;
        }
    }

    /// Bytes per mark.
    fn share(&self, leaving: &Leaving) -> u64 {
        let mss = leaving.mss.max(1);
        let segments = self.polls.segments_at(leaving.window as f64 / mss as f64);
        (segments * mss as f64) as u64
    }

    /// No mark is taken to be under way any more.
    pub(crate) fn on_timeout(&mut self) {
        self.marked_to = 0;
        self.due = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_000;

    /// A bulk sender with a constant window of `window` segments and a receiver that acknowledges
    /// marks only, in lock step: returns the sizes of what each acknowledgment covered.
    fn covered(polls: Polls, window: u64, segments: u64) -> Vec<u64> {
        let mut poller = Poller::new(polls);
        let (mut una, mut nxt) = (0, 0);
        let (mut marks, mut covered) = (std::collections::VecDeque::new(), Vec::new());
        while nxt < segments {
            while nxt < una + window {
                let last = if nxt + 1 == una + window { Last::OfWindow } else { Last::No };
                let (end, una) = ((nxt + 1) * MSS, una * MSS);
                let window = window * MSS;
                let leaving = Leaving { end, len: MSS, una, mss: MSS, window, last };
                let marked = poller.marks(&leaving);
                poller.on_sent(&leaving, marked);
                nxt += 1;
                if marked {
                    marks.push_back(nxt);
                }
            }
            let ack = marks.pop_front().expect("a full window has a mark under way");
            covered.push(ack - una);
            una = ack;
        }
        covered
    }

    #[test]
    fn marks_come_x_times_per_window_or_every_nth_segment_and_never_break_up_windows() {
        for window in 1..200u64 {
            for per_window in [2, 4] {
                let polls = Polls { segments: u32::MAX, per_window };
                let x = u64::from(per_window);
                let covered = covered(polls, window, 20 * window);
                let wrong = |c: &u64| ![window / x, window.div_ceil(x)].contains(&(*c).max(1));
                assert!(!covered.iter().any(wrong), "{window}: {covered:?}");
                let exact = window.is_multiple_of(x) || window < x;
                assert!(!exact || covered.iter().all(|c| *c == covered[0]), "{window}");
                if window >= x {
                    let windows = covered.chunks_exact(x as usize);
                    assert!(windows.into_iter().all(|c| c.iter().sum::<u64>() == window));
                }
            }
            for segments in [4, 8, 16] {
                let polls = Polls { segments, per_window: 2 };
                let expected = (window / 2).min(u64::from(segments)).max(1);
                let covered = covered(polls, window, 20 * window);
                assert!(covered[1..].iter().all(|c| *c == expected), "{window}: {covered:?}");
            }
        }
    }

    #[test]
    fn an_odd_window_has_two_marks_under_way_like_an_even_one() {
        let polls = Polls { segments: u32::MAX, per_window: 2 };
        for window in [10, 11, 12, 13] {
            let mut poller = Poller::new(polls);
            let marks = |poller: &mut Poller, from: u64| {
                let mark = |n: u64| {
                    let (end, last) = (n * MSS, Last::No);
                    let leaving =
                        Leaving { end, len: MSS, una: 0, mss: MSS, window: window * MSS, last };
                    let marked = poller.marks(&leaving);
                    poller.on_sent(&leaving, marked);
                    marked
                };
                (from + 1..=from + window).map(mark).filter(|marked| *marked).count()
            };
            for turn in 0..10 {
                assert_eq!(marks(&mut poller, turn * window), 2, "window {window}, turn {turn}");
            }
        }
        // What no whole segment fills is no part of a window.
        assert_eq!(polls.segments_at(10.9), polls.segments_at(10.0));
    }

    #[test]
    fn whoever_falls_silent_asks_for_an_answer() {
        let mut poller = Poller::new(Polls { segments: u32::MAX, per_window: 2 });
        let segment =
            Leaving { end: MSS, len: MSS, una: 0, mss: MSS, window: 100 * MSS, last: Last::No };
        assert!(!poller.marks(&segment));
        assert!(poller.marks(&Leaving { last: Last::OfData, ..segment }), "nothing more to send");
        assert!(poller.marks(&Leaving { last: Last::OfWindow, ..segment }), "nothing under way");
        poller.on_sent(&segment, true);
        let next = Leaving { end: 2 * MSS, last: Last::OfWindow, ..segment };
        assert!(!poller.marks(&next), "the first mark's acknowledgment is on its way");
        assert!(poller.marks(&Leaving { una: MSS, ..next }), "it has come");
        poller.on_timeout();
        assert!(poller.marks(&Leaving { last: Last::No, ..next }), "it was lost");
    }

    /// Against a model that keeps every segment since the last mark.
    #[test]
    fn random_segments_are_marked_when_the_rule_says_so() {
        use rand::{RngExt, SeedableRng};
        for seed in 0..300 {
            let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
            let polls = Polls {
                segments: [4, 8, u32::MAX][rng.random_range(0..3)],
                per_window: [2, 4][rng.random_range(0..2)],
            };
            let mut poller = Poller::new(polls);
            let (mut lens, mut marks): (Vec<u64>, Vec<u64>) = Default::default();
            let (mut nxt, mut una, mut due) = (0, 0, false);
            for _ in 0..500 {
                if rng.random_bool(0.3) {
                    una = rng.random_range(una..=nxt);
                }
                if rng.random_bool(0.02) {
                    poller.on_timeout();
                    marks.clear();
                    due = true;
                }
                let last =
                    [Last::No, Last::No, Last::OfWindow, Last::OfData][rng.random_range(0..4)];
                let (len, window) = (rng.random_range(0..=MSS), rng.random_range(1..40) * MSS);
                let leaving = Leaving { end: nxt + len, len, una, mss: MSS, window, last };
                lens.push(len);
                let share = match (polls.segments, polls.per_window) {
                    (u32::MAX, x) => (window / u64::from(x)).max(MSS),
                    (n, x) => (window / MSS / u64::from(x)).clamp(1, u64::from(n)) * MSS,
                };
                let full = lens.iter().sum::<u64>() >= share;
                let expected = due
                    || last == Last::OfData
                    || full
                    || last == Last::OfWindow && marks.iter().all(|m| *m <= una);
                let marked = poller.marks(&leaving);
                assert_eq!(marked, expected, "seed {seed}");
                poller.on_sent(&leaving, marked);
                nxt += len;
                if marked {
                    let late = lens.drain(..).sum::<u64>().saturating_sub(share);
                    lens.extend((polls.segments == u32::MAX && late < MSS).then_some(late));
                    marks.push(nxt);
                    due = false;
                }
            }
        }
    }
}
