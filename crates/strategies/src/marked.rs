//! The sender marks what is to be acknowledged, by two counts: every N-th segment, and x per send
//! window. A4L4 and A8L8 have both; 2W and 4W count the window alone (N is infinite), and 2WAF and
//! 4WAF are these with the acknowledgment fixes [Landström & Larzon §3.2, §4.3].
//!
//! ```text
//! f = bw/MSS / max(min(N, floor(W/MSS) / x), 1),  W the send window; with N finite the share of the
//!                                                window is whole segments, too
//! ```
//!
//! as long as so many segments arrive within the timer; else the timer's acknowledgments come
//! between: `times ceil(max(..) / (1 + floor(alpha * bw/MSS)))`.
//!
//! Slow start counts every byte: the limit that matches the strategy is N, and of the window alone W/x,
//! which no acknowledgment exceeds unless one was lost.
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

/// Marks every N-th segment, and x per send window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Marked {
    /// N: full-sized segments per acknowledgment, and the limit of byte counting; `u32::MAX`: only the
    /// window counts.
    pub segments_per_ack: u32,
    /// x: acknowledgments per send window; at least, where segments count as well.
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
/// The lower bound without which a sender cannot use a path fully [Landström & Larzon §3.1].
const LOWER_BOUND: u32 = 2;
const GENTLE_BETA: f64 = 2.0 / 7.0;
/// Of N and of x.
const MOST: u32 = 64;

impl Marked {
    /// Every `segments_per_ack` segments, two per window at least, 100 ms at most.
    pub const fn every(segments_per_ack: u32) -> Self {
        Marked { segments_per_ack, ..Marked::per_window(LOWER_BOUND) }
    }

    /// So many per window, 100 ms at most.
    pub const fn per_window(per_window: u32) -> Self {
        let segments_per_ack = u32::MAX;
        Marked { segments_per_ack, per_window, fixes: false, gentle: false, max_delay: DELAY }
    }

    /// With the acknowledgment fixes.
    pub const fn with_fixes(self) -> Self {
        Marked { fixes: true, ..self }
    }

    /// Falling by 2/7.
    pub const fn gentle(self) -> Self {
        Marked { gentle: true, ..self }
    }

    fn polls(&self) -> Polls {
        Polls { segments: self.segments_per_ack, per_window: self.per_window }
    }

    /// `aNlN`, the number twice, or `Nw`, `Nwaf`.
    fn parse_counts(name: &str) -> Option<Self> {
        if let Some((n, l)) = name.strip_prefix('a').and_then(|counts| counts.split_once('l')) {
            return count(n).filter(|n| count(l) == Some(*n)).map(Marked::every);
        }
        let (x, fixes) = name.strip_suffix("af").map_or((name, false), |x| (x, true));
        let marked = Marked::per_window(count(x.strip_suffix('w')?)?);
        Some(if fixes { marked.with_fixes() } else { marked })
    }
}

fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|n| (2..=MOST).contains(n))
}

impl Rule for Marked {
    type Receiver = Polled;

    fn spelling() -> &'static str {
        "a2l2 to a64l64[-Nms], 2w to 64w[af][-beta][-Nms] (-beta with 2w)"
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-').peekable();
        let mut rule = Marked::parse_counts(parts.next()?)?;
        let is_2w = rule.polls() == Marked::per_window(2).polls();
        rule.gentle = parts.next_if(|part| *part == "beta" && is_2w).is_some();
        if let Some(ms) = parts.next() {
            rule.max_delay = Duration::from_millis(parse_ms(ms)?);
        }
        parts.next().is_none().then_some(rule)
    }

    fn name(&self) -> String {
        let mut name = match self.segments_per_ack {
            u32::MAX => format!("{}w", self.per_window),
            n => format!("a{n}l{n}"),
        };
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
            abc_limit: Some(self.segments_per_ack),
            beta: self.gentle.then_some(GENTLE_BETA),
        }
    }
}
