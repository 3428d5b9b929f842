//! Which delivery rates are lower bounds only, because the application had nothing to send.
//!
//! The receiver measures over two TACK intervals. A rate is limited while packets sent before the
//! pause still arrive, and until the measurement no longer reaches back to the pause.

//! Deviation: [TON §VI-D] leaves open who judges; the receiver measures the rate, but only the sender
//! knows why packets did not come, so it is judged here.

use core::time::Duration;

use tack_units::Instant;

/// Remembers up to which PKT.SEQ the application was the limit.
#[derive(Debug, Default)]
pub(super) struct AppLimited {
    /// First PKT.SEQ sent after the pause; `None` when no pause matters any more.
    until: Option<u64>,
    /// Counter and arrival of the first TACK that showed a packet from after the pause.
    passed: Option<(u32, Instant)>,
}

impl AppLimited {
    /// There is nothing to send before `next_pkt_seq`.
    pub(super) fn on_pause(&mut self, next_pkt_seq: u64) {
        self.until = Some(next_pkt_seq);
        self.passed = None;
    }

    /// Whether the rate in TACK number `counter` is a lower bound only.
    pub(super) fn covers(
        &mut self,
        counter: u32,
        largest: u64,
        alpha: Duration,
        now: Instant,
    ) -> bool {
        let Some(until) = self.until else { return false };
        if largest < until {
            return true;
        }
        let (first, at) = *self.passed.get_or_insert((counter, now));
        if counter.wrapping_sub(first) > 2 && now - at > alpha.saturating_mul(2) {
            *self = Self::default();
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_forgotten_two_intervals_after_it_left_the_path() {
        let mut limited = AppLimited::default();
        let alpha = Duration::from_millis(10);
        let covers = |l: &mut AppLimited, n: u32, largest| {
            l.covers(n, largest, alpha, Instant::from_millis(10 * u64::from(n)))
        };
        assert!(!covers(&mut limited, 1, 5));
        limited.on_pause(10);
        assert!(covers(&mut limited, 2, 9));
        for n in 3..=5 {
            assert!(covers(&mut limited, n, 10 + u64::from(n)));
        }
        assert!(!covers(&mut limited, 6, 30));
        assert!(!covers(&mut limited, 7, 31));
    }
}
