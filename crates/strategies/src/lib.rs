//! Acknowledgment strategies: when a receiver of data acknowledges, and what its sender does
//! differently for it.
//!
//! Acknowledgments per second in steady state, of a path with rate `bw`, RTTmin `R` and send window
//! `W`; `n = bw/MSS` segments per second:
//!
//! ```text
//! byte counting   bw / (L * MSS)                                              [TON Eq. 1]
//! periodic        1 / alpha                                                   [TON Eq. 2]
//! delayed         max(bw / (L * MSS), 1 / alpha)                              [TON Eq. 3]
//! TACK            min(bw / (L * MSS), beta / R)                               [TON Eq. 4]
//!
//! ae              n
//! tcp-lL          Eq. 3 with alpha = 40 ms;           n / min(L, 1 + floor(alpha * n))
//! tcp-lL-Nms      the same with another alpha
//! linux           as tcp-l2; behind a hole one for up to 44 segments
//! aNlN            n / min(N, floor(W/MSS / 2))                                by poll marks
//! 2w, 4w, ..af    n / max(W/MSS / x, 1): x per window                          by poll marks
//! arN             Eq. 3 with alpha = min(25 ms, R/4); n / min(N, 1 + floor(alpha * n))
//! akdu            Eq. 2 with that alpha;              n / (1 + floor(alpha * n))
//! picoquic        Eq. 3 with L = W/MSS/4 in 2..32 and alpha = R/4 in 1..10 ms
//! srt             1/T + floor(T * n / 64)/T, T = 10 ms
//! tack            Eq. 4
//! ```
//!
//! What stands behind a semicolon is exact where Eq. 2 and 3 are limits for small segments: an
//! acknowledgment covers whole ones. [`AckStrategy::frequency`] is the exact one.
//!
//! The table at the end of this file, `strategies!`, is the only place that lists strategies: a new
//! one is one file beside those below and one line there, besides its `mod` and `use`. A connection
//! asks a strategy four things and never which one it is: what both ends must agree on, what holds
//! with this peer, a state machine that says when an acknowledgment is due, and what changes at the
//! sender of data.
//!
//! ```
//! use tack_strategies::{AckStrategy, PathFacts};
//! use tack_units::Rate;
//!
//! let rtt_min = core::time::Duration::from_millis(80);
//! let bw = Rate::from_mbps(100);
//! let path = PathFacts { bw, rtt_min, window: bw.bytes_in(rtt_min), mss: 1_448 };
//! let per_s = |name: &str| name.parse::<AckStrategy>().unwrap().frequency(&path).round();
//! assert_eq!((per_s("ae"), per_s("tcp-l2"), per_s("ar10")), (8633.0, 4316.0, 863.0));
//! assert_eq!((per_s("srt"), per_s("4w"), per_s("tack")), (200.0, 50.0, 50.0));
//! ```
//!
//! # How to add one
//!
//! A type for its parameters, `Rule` for it, and a receiver's state with the verbs of
//! `Acknowledge`; `counter::Counter` is what most states are made of. Every third segment, for
//! instance, is `third.rs`:
//!
//! ```text
//! //! Every third full-sized segment, or 30 ms after the first: `f = bw/MSS / min(3, ..)`.
//! pub struct Third;
//!
//! impl Rule for Third {
//!     type Receiver = Waiting;
//!     fn spelling() -> &'static str { "third" }
//!     fn parse(name: &str) -> Option<Third> { (name == "third").then_some(Third) }
//!     fn name(&self) -> String { "third".to_owned() }
//!     fn frequency(&self, path: &PathFacts) -> f64 { path.counted(3.0, DELAY) }
//!     fn receiver(&self, mss: u32) -> Waiting { Waiting(Counter::new(mss)) }
//! }
//!
//! impl Acknowledge for Waiting {
//!     fn on_data(&mut self, arrival: &Arrival, _path: &PathSeen, now: Instant) {
//!         self.0.on_data(arrival, |_| (3, DELAY), now);
//!     }
//!     fn on_ack_sent(&mut self, _now: Instant) { self.0.on_ack_sent(); }
//!     fn deadline(&self) -> Option<Instant> { self.0.deadline() }
//! }
//! ```
//!
//! and in the table `Third(Third): Third;`. Names, the seeded conversations and the comparison of
//! formula and count take it from there.

mod ack_ratio;
mod byte_counting;
mod counter;
mod every_segment;
mod fixes;
mod linux;
mod marked;
mod picoquic;
mod polled;
mod poller;
mod sender;
mod srt;
mod tack;

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use tack_units::{Instant, Rate};

pub use ack_ratio::AckRatio;
pub use byte_counting::{ByteCounting, DelayedAck};
pub use counter::Cause;
pub use every_segment::EverySegment;
pub use fixes::AckSeen;
pub use linux::Linux;
pub use marked::Marked;
pub use picoquic::Picoquic;
pub use poller::{Last, Leaving};
pub use sender::{SenderRule, SenderSide};
pub use srt::Srt;

/// What a formula of frequency needs to know of a path in steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathFacts {
    /// Rate at which text arrives, headers not counted.
    pub bw: Rate,
    /// RTTmin.
    pub rtt_min: Duration,
    /// Send window in bytes: what is unacknowledged at most.
    pub window: u64,
    /// Text of a full-sized segment in bytes.
    pub mss: u32,
}

impl PathFacts {
    /// Full-sized segments per second.
    pub fn segments_per_s(&self) -> f64 {
        self.bw.as_bps() as f64 / 8.0 / f64::from(self.mss.max(1))
    }

    /// The send window in full-sized segments.
    fn window_segments(&self) -> f64 {
        self.window as f64 / f64::from(self.mss.max(1))
    }

    /// Frequency of acknowledging `segments` at once, or what arrived until `max_delay` after the
    /// first: `bw/MSS / min(segments, 1 + floor(max_delay * bw/MSS))`.
    fn counted(&self, segments: f64, max_delay: Duration) -> f64 {
        let per_s = self.segments_per_s();
        let while_waiting = (max_delay.as_secs_f64() * per_s).floor();
        per_s / segments.min(1.0 + while_waiting).max(1.0)
    }
}

/// What both ends must agree on before a strategy can be; TCP's say so in their SYNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing: the receiver decides alone.
    Nothing,
    /// TACK, permitted by both.
    Tack,
    /// The poll mark: each end acknowledges what the other marks.
    Polls,
}

/// What a receiver of data sees of the path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathSeen {
    /// Least round trip; `None` before the first.
    pub rtt_min: Option<Duration>,
    /// Bytes that came in a round trip; `None` before the first.
    pub window: Option<u64>,
    /// Our own retransmission timeout, which is about the peer's; `None` before the first round
    /// trip.
    pub rto: Option<Duration>,
}

/// A segment with text or FIN, as far as plain acknowledgment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Sequence space it takes.
    pub bytes: u32,
    /// That of one segment, when the device merged several into this one.
    pub segment: u32,
    /// Out of order, fills a hole, FIN or a duplicate: acknowledged at once by every strategy
    /// [RFC 5681 §4.2].
    pub immediate: bool,
    /// What came of it.
    pub news: News,
    /// It has a poll mark, and polls were agreed on.
    pub polled: bool,
}

/// What a segment brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// RCV.NXT moved.
    InOrder,
    /// Text behind a hole.
    Island,
    /// Nothing that was not here already: the peer has missed an acknowledgment.
    Nothing,
}

/// What a strategy is. Implemented by its parameters.
pub(crate) trait Rule {
    /// Says when an acknowledgment is due.
    type Receiver: Acknowledge
    where
        Self: Sized;

    /// How its names are spelt, for messages.
    fn spelling() -> &'static str
    where
        Self: Sized;

    /// The strategy a name means, in lower case; `None` if it is no name of this family.
    fn parse(name: &str) -> Option<Self>
    where
        Self: Sized;

    /// The receiver's state. `mss`: text of a segment in bytes, as announced to the peer.
    fn receiver(&self, mss: u32) -> Self::Receiver
    where
        Self: Sized;

    /// Its name.
    fn name(&self) -> String;

    /// Acknowledgments per second in steady state without loss.
    fn frequency(&self, path: &PathFacts) -> f64;

    /// What both ends must agree on.
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    /// What changes at the sender of data.
    fn sender(&self) -> SenderRule {
        SenderRule::default()
    }
}

/// When an acknowledgment is due: the verbs of a receiver of data.
pub trait Acknowledge {
    /// Text or FIN arrived.
    fn on_data(&mut self, arrival: &Arrival, path: &PathSeen, now: Instant);

    /// An acknowledgment left, alone or on data.
    fn on_ack_sent(&mut self, now: Instant);

    /// When one will be due; `None` when nothing waits.
    fn deadline(&self) -> Option<Instant>;

    /// One is due.
    fn is_due(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|at| at <= now)
    }
}

/// A name that is no strategy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no acknowledgment strategy is named `{name}`; there are {}", AckStrategy::names())]
pub struct UnknownStrategy {
    name: Box<str>,
}

// A macro, against the habit of this house, for the reason `algorithms!` of `tack-cc` is one: enum,
// names and dispatch are one list, and written out every strategy would touch ten places.
macro_rules! strategies {
    ($($(#[$doc:meta])* $variant:ident($rule:ty): $($listed:expr),+;)*) => {
        /// When a receiver of data acknowledges. See the [module's text](self).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum AckStrategy {
            $($(#[$doc])* $variant($rule),)*
        }

        impl AckStrategy {
            /// Every family, with the parameters that papers and stacks use.
            pub const ALL: &[AckStrategy] = &[$($(AckStrategy::$variant($listed),)+)*];

            /// How names are spelt, for messages and help: `N` is a number, what is in brackets may
            /// be left out.
            pub fn names() -> String {
                [$(<$rule as Rule>::spelling(),)*].join(", ")
            }

            fn rule(&self) -> &dyn Rule {
                match self { $(AckStrategy::$variant(rule) => rule,)* }
            }

            /// The receiver's state. `mss`: text of a segment in bytes, as announced to the peer.
            pub fn receiver(&self, mss: u32) -> Receiver {
                Receiver(match self {
                    $(AckStrategy::$variant(rule) => State::$variant(rule.receiver(mss)),)*
                })
            }
        }

        impl FromStr for AckStrategy {
            type Err = UnknownStrategy;

            /// Names are matched without regard to case.
            fn from_str(s: &str) -> Result<Self, UnknownStrategy> {
                let name = s.trim().to_ascii_lowercase();
                $(if let Some(rule) = <$rule as Rule>::parse(&name) {
                    return Ok(AckStrategy::$variant(rule));
                })*
                Err(UnknownStrategy { name: s.trim().into() })
            }
        }

        #[derive(Debug)]
        enum State {
            $($variant(<$rule as Rule>::Receiver),)*
        }

        impl State {
            fn verbs(&self) -> &dyn Acknowledge {
                match self { $(State::$variant(receiver) => receiver,)* }
            }

            fn verbs_mut(&mut self) -> &mut dyn Acknowledge {
                match self { $(State::$variant(receiver) => receiver,)* }
            }
        }
    };
}

strategies! {
    /// TCP-TACK; with a peer that does not know it, [`AckStrategy::PLAIN`].
    Tack(::tack::Params): ::tack::Params::DEFAULT;
    /// Every segment.
    EverySegment(EverySegment): EverySegment;
    /// Delayed and byte-counting ACK.
    ByteCounting(ByteCounting):
        ByteCounting::new(1),
        ByteCounting::new(2),
        ByteCounting::new(2).delayed_by_ms(100),
        ByteCounting::new(2).delayed_by_ms(200),
        ByteCounting::new(2).delayed_by_ms(1_000),
        ByteCounting::new(2).delayed_by_ms(100).without_quickack(),
        ByteCounting::new(4),
        ByteCounting::new(8),
        ByteCounting::new(16);
    /// Linux's: every second segment, and SACKs compressed.
    Linux(Linux): Linux;
    /// Every N-th segment and two per window at least, or so many per window, by poll marks.
    Marked(Marked):
        Marked::every(4),
        Marked::every(8),
        Marked::every(16),
        Marked::per_window(2),
        Marked::per_window(2).with_fixes(),
        Marked::per_window(2).with_fixes().gentle(),
        Marked::per_window(4),
        Marked::per_window(4).with_fixes();
    /// Every N-th segment or a quarter of RTTmin.
    AckRatio(AckRatio): AckRatio::new(10), AckRatio::without_count();
    /// A quarter of the window or of RTTmin.
    Picoquic(Picoquic): Picoquic;
    /// Every 10 ms, and every 64 segments between.
    Srt(Srt): Srt;
}

impl AckStrategy {
    /// What nothing need be agreed on for: delayed acknowledgment as Linux has it.
    pub const PLAIN: AckStrategy = AckStrategy::every(2);

    /// The name users type.
    pub fn name(&self) -> String {
        self.rule().name()
    }

    /// Acknowledgments per second in steady state without loss: the strategy's formula, see
    /// the [module's text](self).
    pub fn frequency(&self, path: &PathFacts) -> f64 {
        self.rule().frequency(path)
    }

    /// What both ends must agree on.
    pub fn needs(&self) -> Needs {
        self.rule().needs()
    }

    /// What is left of it with a peer with which `agreed` was agreed on.
    pub fn in_force(self, agreed: Needs) -> AckStrategy {
        let needs = self.needs();
        if needs == Needs::Nothing || needs == agreed { self } else { AckStrategy::PLAIN }
    }

    /// What changes at the sender of data.
    pub fn sender(&self) -> SenderRule {
        self.rule().sender()
    }
}

/// The receiver's state of any strategy.
#[derive(Debug)]
pub struct Receiver(State);

impl Acknowledge for Receiver {
    fn on_data(&mut self, arrival: &Arrival, path: &PathSeen, now: Instant) {
        self.0.verbs_mut().on_data(arrival, path, now);
    }

    fn on_ack_sent(&mut self, now: Instant) {
        self.0.verbs_mut().on_ack_sent(now);
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.verbs().deadline()
    }
}

impl Acknowledge for Box<Receiver> {
    fn on_data(&mut self, arrival: &Arrival, path: &PathSeen, now: Instant) {
        self.as_mut().on_data(arrival, path, now);
    }

    fn on_ack_sent(&mut self, now: Instant) {
        self.as_mut().on_ack_sent(now);
    }

    fn deadline(&self) -> Option<Instant> {
        self.as_ref().deadline()
    }
}

impl fmt::Display for AckStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

#[cfg(test)]
mod tests;
