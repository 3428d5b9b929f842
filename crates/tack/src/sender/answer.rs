//! How long it takes until data in return says that all has arrived: in a dialogue, silence of much longer is a loss.
//!
//! ```text
//! usual = answer + max(4 variation, answer / 8)       as the RTO has it [RFC 6298 §2]
//! ```
//!
//! Few packets are acknowledged by the answer to them, or once the receiver has waited for it in vain. A loss among
//! them was found by a silence as long as that patience, several times a short round trip, where an answer had
//! always come within one.
//!
//! Only a transmission that no probe followed is a sample, and each probe doubles what is waited for until there is another
//! [RFC 6298 §5.5, Karn]: answers that have become slower are learnt so, by however much. When the receiver's patience ends before the
//! answer comes, nothing is known of the next ones; and a handshake, or what its end owes, is no dialogue: four answers are.

use core::time::Duration;

/// Answers take what they take by the application's hand: they vary by so much, whatever the last ones were like.
const LEAST_VARIATION: u32 = 8;

/// Answers that make a dialogue.
const DIALOGUE: u32 = 4;

/// Then the probe has long gone by the receiver's patience instead.
const MAX_DOUBLINGS: u32 = 10;

/// Mean and variation of the answers' times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answer {
    mean: Option<Duration>,
    variation: Duration,
    /// Answers since the receiver last waited for one in vain.
    in_a_row: u32,
    /// Probes since the last sample.
    doublings: u32,
}

impl Answer {
    /// Everything was acknowledged by data, so long after the last of it left, without a probe.
    pub(super) fn on_sample(&mut self, time: Duration) {
        match self.mean {
            None => (self.mean, self.variation) = (Some(time), time / 2),
            Some(mean) => {
                self.variation = self.variation * 3 / 4 + mean.abs_diff(time) / 4;
                self.mean = Some(mean * 7 / 8 + time / 8);
            }
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.doublings = 0;
    }

    /// The receiver waited for it in vain.
    pub(super) fn on_none(&mut self) {
        self.in_a_row = 0;
    }

    /// A probe leaves.
    pub(super) fn on_probe(&mut self) {
        self.doublings = (self.doublings + 1).min(MAX_DOUBLINGS);
    }

    /// After how long a silence it has not come in time; `None`: nobody knows.
    pub(super) fn at_most(&self) -> Option<Duration> {
        let mean = self.mean.filter(|_| self.in_a_row >= DIALOGUE)?;
        let usual = mean + (4 * self.variation).max(mean / LEAST_VARIATION);
        Some(usual.saturating_mul(1 << self.doublings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn of(times_ms: impl IntoIterator<Item = u64>) -> Answer {
        let mut answer = Answer::default();
        times_ms.into_iter().for_each(|time| answer.on_sample(ms(time)));
        answer
    }

    #[test]
    fn answers_that_come_alike_are_expected_soon_and_others_by_how_they_vary() {
        assert_eq!(Answer::default().at_most(), None);
        assert_eq!(of([16; 3]).at_most(), None, "no dialogue yet");
        assert!(of([16; 4]).at_most().is_some_and(|most| most > ms(24) && most < ms(48)));
        let alike = of([16; 60]).at_most().unwrap();
        assert!((ms(18)..ms(19)).contains(&alike), "{alike:?}");
        let varied = of((0..60).map(|i| if i % 2 == 0 { 10 } else { 50 })).at_most().unwrap();
        assert!(varied > ms(90), "{varied:?}");
    }

    #[test]
    fn each_probe_doubles_what_is_waited_for_until_an_answer_comes_without_one() {
        let mut answer = of([16; 60]);
        let once = answer.at_most().unwrap();
        answer.on_probe();
        assert_eq!(answer.at_most(), Some(2 * once));
        answer.on_probe();
        assert_eq!(answer.at_most(), Some(4 * once));
        answer.on_sample(ms(60));
        let since = answer.at_most().unwrap();
        assert!(since > ms(60) && since < 4 * once, "the slower one is learnt: {since:?}");
    }

    #[test]
    fn after_an_answer_that_did_not_come_none_is_expected_before_four_do() {
        let mut answer = of([16; 60]);
        answer.on_none();
        assert_eq!(answer.at_most(), None);
        (0..3).for_each(|_| answer.on_sample(ms(16)));
        assert_eq!(answer.at_most(), None);
        answer.on_sample(ms(16));
        assert!(answer.at_most().is_some());
    }
}
