//! Windowed maximum and minimum in constant memory.
//!
//! Three candidates are kept: the best of the window, the best after it, and the best after that
//! (the estimator of K. Nichols, as Linux's `win_minmax` uses it). When the best leaves the window,
//! the runner-up takes over at once. The position along the window is any counter that never
//! decreases: nanoseconds, round trips, TACK intervals.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample<T> {
    at: u64,
    value: T,
}

#[derive(Clone, Copy, Debug)]
struct Windowed<T> {
    window: u64,
    best: Option<[Sample<T>; 3]>,
}

impl<T: Copy> Windowed<T> {
    fn update(&mut self, at: u64, value: T, wins: impl Fn(&T, &T) -> bool) -> T {
        let new = Sample { at, value };
        let Some(best) = &mut self.best else {
            self.best = Some([new; 3]);
            return value;
        };
        // A new best makes every older candidate useless; so does a window with nothing recent.
        if wins(&value, &best[0].value) || at.saturating_sub(best[2].at) > self.window {
            *best = [new; 3];
            return value;
        }
        if wins(&value, &best[1].value) {
            best[1] = new;
            best[2] = new;
        } else if wins(&value, &best[2].value) {
            best[2] = new;
        }
        let age = at.saturating_sub(best[0].at);
        if age > self.window {
            *best = [best[1], best[2], new];
            // The new leader may be stale as well: it was found when the old one was.
            if at.saturating_sub(best[0].at) > self.window {
                *best = [best[1], best[2], new];
            }
        } else if best[1].at == best[0].at && age > self.window / 4 {
            // A quarter of the window without a runner-up: take one from the second quarter.
            best[1] = new;
            best[2] = new;
        } else if best[2].at == best[1].at && age > self.window / 2 {
            best[2] = new;
        }
        best[0].value
    }
}

macro_rules! windowed {
    ($name:ident, $what:literal, $wins:expr) => {
        #[doc = concat!("The ", $what, " of the samples of the last `window` positions.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(Windowed<T>);

        impl<T: Copy + PartialOrd> $name<T> {
            /// An empty filter over `window` positions.
            pub fn new(window: u64) -> Self {
                Self(Windowed { window, best: None })
            }

            /// Adds a sample at position `at` (never less than before) and returns the extreme.
            pub fn update(&mut self, at: u64, value: T) -> T {
                self.0.update(at, value, $wins)
            }

            /// The extreme as of the last update; `None` before the first.
            pub fn get(&self) -> Option<T> {
                self.0.best.map(|b| b[0].value)
            }

            /// How many windows before position `at` the newest sample lies that is known; zero within one.
            pub fn windows_since(&self, at: u64) -> Option<u64> {
                let Windowed { window, best } = self.0;
                best.map(|best| at.saturating_sub(best[2].at) / window.saturating_add(1))
            }

            /// Forgets everything; the window may change with it.
            pub fn reset(&mut self, window: u64) {
                self.0 = Windowed { window, best: None };
            }
        }
    };
}

windowed!(WindowedMax, "greatest", |a, b| a >= b);
windowed!(WindowedMin, "least", |a, b| a <= b);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maximum_forgets_what_left_the_window() {
        let mut m = WindowedMax::new(10);
        m.update(0, 100);
        for at in 1..=10 {
            assert_eq!(m.update(at, 50), 100);
        }
        assert_eq!(m.update(11, 50), 50);
    }

    #[test]
    fn windows_without_a_sample_are_counted() {
        let mut m = WindowedMax::new(10);
        assert_eq!(m.windows_since(0), None);
        m.update(0, 100);
        m.update(5, 50);
        let since = [0, 10, 15, 16, 26, 27].map(|at| m.windows_since(at));
        assert_eq!(since, [0, 0, 0, 1, 1, 2].map(Some));
    }

    #[test]
    fn minimum_takes_a_new_best_at_once() {
        let mut m = WindowedMin::new(10);
        assert_eq!(m.get(), None);
        m.update(0, 5);
        assert_eq!(m.update(1, 3), 3);
        assert_eq!(m.update(2, 4), 3);
    }

    /// The naive oracle is the exact extreme. Three candidates cannot always match it, but the
    /// answer must be a sample of the window and never beat the exact extreme.
    #[test]
    fn answer_is_a_sample_of_the_window_and_never_beats_the_exact_maximum() {
        let mut x: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut next = || {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x
        };
        for _ in 0..200 {
            let window = next() % 40;
            let mut m = WindowedMax::new(window);
            let mut seen: Vec<(u64, u64)> = Vec::new();
            let mut at = 0;
            for _ in 0..200 {
                at += next() % 7;
                let v = next() % 1_000;
                seen.push((at, v));
                let got = m.update(at, v);
                let exact = seen.iter().filter(|s| at - s.0 <= window).map(|s| s.1).max();
                assert!(got <= exact.unwrap());
                assert!(seen.iter().any(|s| s.1 == got && at - s.0 <= window), "stale {got}");
            }
        }
    }
}
