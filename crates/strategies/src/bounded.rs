//! Every N-th segment, and two per send window at least: A4L4, A8L8 [Landström & Larzon §3.2]. The
//! sender marks them, and counts as many segments per acknowledgment in slow start.
//!
//! ```text
//! f = bw/MSS / min(N, floor(W/MSS / 2)),  W the send window
//! ```
//!
//! as long as so many segments arrive within the timer; else the timer's acknowledgments come
//! between: `times ceil(min(..) / (1 + floor(alpha * bw/MSS)))`.

use core::time::Duration;

use super::byte_counting::parse_ms;
use super::polled::{self, Polled};
use super::poller::Polls;
use super::sender::SenderRule;
use super::{Needs, PathFacts, Rule};

/// Marks every N-th segment, with a lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bounded {
    /// N: full-sized segments per acknowledgment, and the limit of byte counting.
    pub segments_per_ack: u32,
    /// Acknowledgments per send window at least.
    pub per_window: u32,
    /// Longest delay of an acknowledgment nobody asked for.
    pub max_delay: Duration,
}

/// The authors' default [Landström & Larzon §4.1].
const DELAY: Duration = Duration::from_millis(100);
/// The lower bound without which a sender cannot use a path fully [Landström & Larzon §3.1].
const LOWER_BOUND: u32 = 2;
const MOST_SEGMENTS: u32 = 64;

impl Bounded {
    /// Every `segments_per_ack` segments, two per window at least, 100 ms at most.
    pub const fn new(segments_per_ack: u32) -> Self {
        Bounded { segments_per_ack, per_window: LOWER_BOUND, max_delay: DELAY }
    }

    fn polls(&self) -> Polls {
        Polls { segments: self.segments_per_ack, per_window: self.per_window }
    }
}

impl Rule for Bounded {
    type Receiver = Polled;

    fn spelling() -> &'static str {
        "a2l2 to a64l64[-Nms]"
    }

    fn parse(name: &str) -> Option<Self> {
        let (counts, ms) = match name.split_once('-') {
            Some((counts, ms)) => (counts, Some(ms)),
            None => (name, None),
        };
        let (n, l) = counts.strip_prefix('a')?.split_once('l')?;
        let n = n.parse().ok().filter(|n| n == l.parse::<u32>().as_ref().unwrap_or(&0))?;
        let mut rule = Bounded::new((2..=MOST_SEGMENTS).contains(&n).then_some(n)?);
        if let Some(ms) = ms {
            rule.max_delay = Duration::from_millis(parse_ms(ms)?);
        }
        Some(rule)
    }

    fn name(&self) -> String {
        let n = self.segments_per_ack;
        let mut name = format!("a{n}l{n}");
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
            abc_limit: Some(self.segments_per_ack),
            ..SenderRule::default()
        }
    }
}
