//! x acknowledgments per send window: 2W and 4W, with the acknowledgment fixes 2WAF and 4WAF
//! [Landström & Larzon §3.2, §4.3]. The sender marks the segments.
//!
//! ```text
//! f = bw/MSS / max(floor(W/MSS) / x, 1),  W the send window: x per round trip where W limits
//! ```
//!
//! as long as so many segments arrive within the timer; else the timer's acknowledgments come
//! between: `times ceil(max(..) / (1 + floor(alpha * bw/MSS)))`.
//!
//! Slow start counts every byte: the limit that matches the strategy is W/x, and no acknowledgment
//! covers more unless one was lost.
//!
//! A cycle of one flow of 2W takes two round trips, so a window grows by alpha = 1/2 per round trip;
//! the condition for TCP-friendliness, `alpha = 3 * beta / (2 - beta)`, then lets it fall by only
//! beta = 2/7 [Landström & Larzon §4.4]. Among other flows half a window is no bdp, a cycle takes
//! little more than a round trip, and beta = 2/7 takes more than a fair share.

use core::time::Duration;

use super::byte_counting::parse_ms;
use super::polled::{self, Polled};
use super::poller::Polls;
use super::sender::SenderRule;
use super::{Needs, PathFacts, Rule};

/// Marks so many segments per send window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PerWindow {
    /// x: acknowledgments per send window.
    pub per_window: u32,
    /// The acknowledgment fixes.
    pub fixes: bool,
    /// Fall by 2/7 instead of the controller's share after the initial slow start; for 2W.
    pub gentle: bool,
    /// Longest delay of an acknowledgment nobody asked for.
    pub max_delay: Duration,
}

/// The authors' default [Landström & Larzon §4.1].
const DELAY: Duration = Duration::from_millis(100);
const GENTLE_BETA: f64 = 2.0 / 7.0;
const MOST_PER_WINDOW: u32 = 64;

impl PerWindow {
    /// x per window, 100 ms at most.
    pub const fn new(per_window: u32) -> Self {
        PerWindow { per_window, fixes: false, gentle: false, max_delay: DELAY }
    }

    /// With the acknowledgment fixes.
    pub const fn with_fixes(self) -> Self {
        PerWindow { fixes: true, ..self }
    }

    /// Falling by 2/7.
    pub const fn gentle(self) -> Self {
        PerWindow { gentle: true, ..self }
    }

    fn polls(&self) -> Polls {
        Polls { segments: u32::MAX, per_window: self.per_window }
    }
}

impl Rule for PerWindow {
    type Receiver = Polled;

    fn spelling() -> &'static str {
        "2w to 64w[af][-beta][-Nms] (-beta with 2w)"
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-').peekable();
        let first = parts.next()?;
        let (x, fixes) = match first.strip_suffix("af") {
            Some(x) => (x, true),
            None => (first, false),
        };
        let x = x.strip_suffix('w')?.parse().ok()?;
        let mut rule = PerWindow::new((2..=MOST_PER_WINDOW).contains(&x).then_some(x)?);
        rule.fixes = fixes;
        rule.gentle = parts.next_if(|part| *part == "beta" && x == 2).is_some();
        if let Some(ms) = parts.next() {
            rule.max_delay = Duration::from_millis(parse_ms(ms)?);
        }
        parts.next().is_none().then_some(rule)
    }

    fn name(&self) -> String {
        let mut name = format!("{}w", self.per_window);
        if self.fixes {
            name += "af";
        }
        if self.gentle {
            name += "-beta";
        }
        if self.max_delay != DELAY {
            name += &format!("-{}ms", self.max_delay.as_millis());
        }
        name
    }

    fn frequency(&self, path: &PathFacts) -> f64 {
        let segments = self.polls().segments_at(path.window_segments());
        polled::frequency(segments, self.max_delay, path)
    }

    fn receiver(&self, mss: u32) -> Polled {
        Polled::new(self.max_delay, mss)
    }

    fn needs(&self) -> Needs {
        Needs::Polls
    }

    fn sender(&self) -> SenderRule {
        SenderRule {
            polls: Some(self.polls()),
            fixes: self.fixes,
            abc_limit: Some(u32::MAX),
            beta: self.gentle.then_some(GENTLE_BETA),
        }
    }
}
