//! Acknowledgment strategies: when a receiver of data acknowledges.
//!
//! The table at the end of this file, `strategies!`, is the only place that lists them: a new
//! strategy is one file beside those below and one line there. A connection asks a strategy three
//! things and never which one it is: what both SYNs must agree on, what holds with this peer, and a
//! state machine that says when an acknowledgment is due.

mod byte_counting;
mod counter;
mod every_segment;
mod tack;

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use tack_units::{Instant, Rate};

pub use byte_counting::ByteCounting;
pub use every_segment::EverySegment;

/// What a formula of frequency needs to know of a path in steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathFacts {
    /// Rate at which text arrives, TCP and IP headers not counted.
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

    /// Frequency of acknowledging `segments` at once, or what arrived until `max_delay` after the
    /// first: `bw/MSS / min(segments, 1 + floor(max_delay * bw/MSS))`.
    fn counted(&self, segments: f64, max_delay: Duration) -> f64 {
        let per_s = self.segments_per_s();
        let while_waiting = (max_delay.as_secs_f64() * per_s).floor();
        per_s / segments.min(1.0 + while_waiting).max(1.0)
    }
}

/// What both SYNs must agree on before a strategy can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: the receiver decides alone.
    Nothing,
    /// TACK-Permitted in both.
    Tack,
}

/// A segment with text or FIN, as far as plain acknowledgment goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// Sequence space it takes.
    pub(crate) bytes: u32,
    /// Out of order, fills a hole, FIN or a duplicate: acknowledged at once by every strategy
    /// [RFC 5681 §4.2].
    pub(crate) immediate: bool,
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

    /// What both SYNs must agree on.
    fn needs(&self) -> Needs {
        Needs::Nothing
    }
}

/// When an acknowledgment is due: the verbs of a receiver of data.
pub(crate) trait Acknowledge {
    /// Text or FIN arrived.
    fn on_data(&mut self, arrival: &Arrival, now: Instant);

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
            pub(crate) fn receiver(&self, mss: u32) -> Receiver {
                match self {
                    $(AckStrategy::$variant(rule) => Receiver::$variant(rule.receiver(mss)),)*
                }
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

        /// The receiver's state of any strategy.
        #[derive(Debug)]
        pub(crate) enum Receiver {
            $($variant(<$rule as Rule>::Receiver),)*
        }

        impl Receiver {
            fn verbs(&self) -> &dyn Acknowledge {
                match self { $(Receiver::$variant(receiver) => receiver,)* }
            }

            fn verbs_mut(&mut self) -> &mut dyn Acknowledge {
                match self { $(Receiver::$variant(receiver) => receiver,)* }
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

    /// What both SYNs must agree on.
    pub(crate) fn needs(&self) -> Needs {
        self.rule().needs()
    }

    /// What is left of it with a peer with which `agreed` was agreed on.
    pub(crate) fn in_force(self, agreed: Needs) -> AckStrategy {
        let needs = self.needs();
        if needs == Needs::Nothing || needs == agreed { self } else { AckStrategy::PLAIN }
    }
}

impl Acknowledge for Receiver {
    fn on_data(&mut self, arrival: &Arrival, now: Instant) {
        self.verbs_mut().on_data(arrival, now);
    }

    fn on_ack_sent(&mut self, now: Instant) {
        self.verbs_mut().on_ack_sent(now);
    }

    fn deadline(&self) -> Option<Instant> {
        self.verbs().deadline()
    }
}

impl fmt::Display for AckStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_what_they_name() {
        for ack in AckStrategy::ALL {
            assert_eq!(ack.name().parse(), Ok(*ack));
            assert_eq!(ack.name().to_uppercase().parse(), Ok(*ack));
        }
        let mut names: Vec<_> = AckStrategy::ALL.iter().map(AckStrategy::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), AckStrategy::ALL.len(), "each has a name of its own");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for name in ["", "tcp-l", "tcp-l0", "tcp-l65", "tcp-l2-0ms", "tcp-l2-quick", "tackle"] {
            let error = name.parse::<AckStrategy>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}`")), "{error}");
            assert!(error.contains("tack") && error.contains("tcp-l1 to"), "{error}");
        }
    }

    #[test]
    fn what_nobody_agreed_to_is_not_done() {
        for ack in AckStrategy::ALL {
            assert_eq!(ack.in_force(ack.needs()), *ack);
            let alone = ack.in_force(Needs::Nothing);
            assert_eq!(alone.needs(), Needs::Nothing);
            assert_eq!(alone == *ack, ack.needs() == Needs::Nothing);
        }
    }
}
