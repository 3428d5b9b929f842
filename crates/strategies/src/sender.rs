//! What a strategy changes at the sender of data. Connection code asks this and never which
//! strategy it is; without an agreement all of it is off.

use tack_cc::WindowRules;
use tack_units::Instant;

use super::fixes::{AckFixes, AckSeen};
use super::poller::{Leaving, Poller, Polls};

/// A strategy's deviations from a sender that knows nothing of how it is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SenderRule {
    /// Which segments are marked for acknowledgment.
    pub(crate) polls: Option<Polls>,
    /// The acknowledgment fixes, AF [Landström & Larzon §4.3].
    pub(crate) fixes: bool,
    /// Appropriate Byte Counting's `L`, where the strategy has a fixed one.
    pub(crate) abc_limit: Option<u32>,
    /// `beta` after the initial slow start.
    pub(crate) beta: Option<f64>,
}

impl SenderRule {
    /// How a window-based controller counts and falls, `usual` without the strategy.
    pub fn window_rules(&self, usual: WindowRules) -> WindowRules {
        WindowRules {
            abc_limit: self.abc_limit.unwrap_or(usual.abc_limit),
            beta: self.beta.or(usual.beta),
            ..usual
        }
    }
}

/// The rule at work.
#[derive(Debug, Default)]
pub struct SenderSide {
    poller: Option<Poller>,
    fixes: Option<AckFixes>,
}

impl SenderSide {
    /// Nothing was sent yet.
    pub fn new(rule: &SenderRule) -> SenderSide {
        SenderSide {
            poller: rule.polls.map(Poller::new),
            fixes: rule.fixes.then(AckFixes::default),
        }
    }

    /// The segment is to carry a mark.
    pub fn marks(&self, leaving: &Leaving) -> bool {
        self.poller.as_ref().is_some_and(|poller| poller.marks(leaving))
    }

    /// The segment left.
    pub fn on_sent(&mut self, leaving: &Leaving, marked: bool) {
        if let Some(poller) = &mut self.poller {
            poller.on_sent(leaving, marked);
        }
    }

    /// An acknowledgment was applied.
    pub fn on_ack(&mut self, ack: &AckSeen, now: Instant) {
        if let Some(fixes) = &mut self.fixes {
            fixes.on_ack(ack, now);
        }
    }

    /// A probe or retransmission timer fired: the next segment must be answered, and nothing is
    /// held any more.
    pub fn on_timeout(&mut self) {
        if let Some(poller) = &mut self.poller {
            poller.on_timeout();
        }
        if let Some(fixes) = &mut self.fixes {
            fixes.release();
        }
    }

    /// Room in the window that must not be used now, in bytes, and until when; fast retransmits
    /// wait until then too.
    pub fn held(&self, now: Instant) -> Option<(u64, Instant)> {
        self.fixes.as_ref()?.held(now)
    }
}

#[cfg(test)]
mod tests {
    use crate::{AckStrategy, Needs};
    use tack_cc::WindowRules;

    #[test]
    fn the_controller_hears_of_a_strategy_that_was_agreed_on_and_of_no_other() {
        let usual = WindowRules { abc_limit: 7, ..WindowRules::default() };
        let rules = |name: &str, agreed: Needs| {
            let ack: AckStrategy = name.parse().expect("a strategy");
            ack.in_force(agreed).sender().window_rules(usual)
        };
        assert_eq!(rules("a8l8", Needs::Polls), WindowRules { abc_limit: 8, ..usual });
        let gentle = rules("2waf-beta", Needs::Polls);
        assert_eq!((gentle.abc_limit, gentle.beta), (u32::MAX, Some(2.0 / 7.0)));
        for name in ["a8l8", "2waf-beta", "4w", "ar10", "tcp-l16", "tack"] {
            assert_eq!(rules(name, Needs::Nothing), usual, "{name}");
        }
    }
}
