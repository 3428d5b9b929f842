//! Which delivery rates are lower bounds only, because the application had nothing to send.
//!
//! The receiver measures over two TACK intervals. A rate is limited if a pause lies between two packets
//! that arrived in that time, or follows the last of them: the TACK may have waited for a timer then.
//! What was sent without a pause tells of the path, however short it was: a response of thirty
//! packets that a bottleneck spreads out shows its rate. The silence before a timeout is a pause, too: nothing was on
//! its way, and a rate over such a time says how long the timer was.
//!
//! Deviation: [TON §VI-D] leaves open who judges; the receiver measures the rate, but only the sender
//! knows why packets did not come, so it is judged here.

use core::time::Duration;
use std::collections::VecDeque;

use tack_units::Instant;

/// TACKs within which two intervals lie.
const SPAN: u32 = 3;
/// Pauses, and TACKs, that are told apart.
const MARKS: usize = 64;

/// Remembers where the application paused.
#[derive(Debug, Default)]
pub(super) struct AppLimited {
    /// First PKT.SEQs sent after pauses, ascending, from and to: what lies between counts as paused.
    pauses: VecDeque<(u64, u64)>,
    /// TACKs that a measurement may reach back to: counter, arrival, largest PKT.SEQ.
    tacks: VecDeque<(u32, Instant, u64)>,
}

impl AppLimited {
    /// There is nothing to send before `next_pkt_seq`.
    pub(super) fn on_pause(&mut self, next_pkt_seq: u64) {
        if self.pauses.back().is_some_and(|(_, to)| *to >= next_pkt_seq) {
            return;
        }
        if self.pauses.len() == MARKS
            && let Some((from, _)) = self.pauses.pop_front()
            && let Some(oldest) = self.pauses.front_mut()
        {
            oldest.0 = from;
        }
        self.pauses.push_back((next_pkt_seq, next_pkt_seq));
    }

    /// Whether the rate in TACK number `counter`, which saw `largest`, is a lower bound only.
    pub(super) fn covers(
        &mut self,
        counter: u32,
        largest: u64,
        alpha: Duration,
        now: Instant,
    ) -> bool {
        let lies_before = |tack: &(u32, Instant, u64)| {
            counter.wrapping_sub(tack.0) >= SPAN && now - tack.1 >= alpha.saturating_mul(2)
        };
        while self.tacks.get(1).is_some_and(lies_before) || self.tacks.len() == MARKS {
            self.tacks.pop_front();
        }
        let start = self.tacks.front().filter(|tack| lies_before(tack));
        let start = start.map_or(0, |(.., largest)| *largest);
        self.tacks.push_back((counter, now, largest));
        while self.pauses.front().is_some_and(|(_, to)| *to <= start) {
            self.pauses.pop_front();
        }
        self.pauses.front().is_some_and(|(from, _)| *from <= largest.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALPHA: Duration = Duration::from_millis(10);

    fn covers(limited: &mut AppLimited, n: u32, largest: u64) -> bool {
        limited.covers(n, largest, ALPHA, Instant::from_millis(10 * u64::from(n)))
    }

    #[test]
    fn a_pause_is_forgotten_when_no_measurement_reaches_back_to_it() {
        let mut limited = AppLimited::default();
        assert!(!covers(&mut limited, 1, 5));
        limited.on_pause(10);
        assert!(!covers(&mut limited, 2, 8), "more was sent behind these");
        assert!(covers(&mut limited, 3, 9), "the last ones before it");
        for n in 4..=6 {
            assert!(covers(&mut limited, n, 7 + u64::from(n)), "{n}");
        }
        assert!(!covers(&mut limited, 7, 30));
        assert!(!covers(&mut limited, 8, 31));
    }

    #[test]
    fn packets_that_an_application_sends_one_by_one_are_all_limited() {
        // A few in flight, and more than are told apart.
        for in_flight in [2, 100] {
            let mut limited = AppLimited::default();
            for n in 1..=300 {
                limited.on_pause(in_flight + u64::from(n));
                if n > 5 {
                    assert!(covers(&mut limited, n, in_flight + u64::from(n) - 1), "{n}");
                }
            }
            for n in 301..=400 {
                limited.on_pause(in_flight + u64::from(n));
                assert!(covers(&mut limited, n, in_flight + 299 + u64::from(n - 300) / 2), "{n}");
            }
            assert!(limited.pauses.len() <= MARKS && limited.tacks.len() <= MARKS);
        }
    }

    #[test]
    fn the_middle_of_a_long_response_is_not_limited() {
        let mut limited = AppLimited::default();
        limited.on_pause(100);
        limited.on_pause(130);
        let judged: Vec<bool> =
            (0..14).map(|n| covers(&mut limited, n, 101 + 2 * u64::from(n))).collect();
        assert_eq!(judged[..3], [true; 3]);
        assert_eq!(judged[5..13], [false; 8]);
    }
}
