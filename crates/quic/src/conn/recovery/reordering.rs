//! How late a packet may be before it counts as lost, to a plain peer.
//!
//! ```text
//! at first        3 packets, or 9/8 RTT                                  [RFC 9002 §6.1]
//! once it showed  time alone: 9/8 RTT, an eighth more each time that was too short, 2 RTT at most
//! ```
//!
//! Thresholds may adapt to packets that were taken for lost and arrived [RFC 9002 §6.1.1, §6.1.2]. This is done by the
//! rule that TCP has for its reordering window [RFC 8985 §6.2]: it grows once per round trip, and after sixteen
//! loss episodes without such a packet all is as at first.

use core::time::Duration;

use tack_units::Instant;

use crate::seen::LossReason;

/// kPacketThreshold [RFC 9002 §6.1.1].
const PACKET_THRESHOLD: u64 = 3;
/// kTimeThreshold is so many eighths of a round trip more than one [RFC 9002 §6.1.2].
const LEAST_EIGHTHS: u32 = 1;
const MOST_EIGHTHS: u32 = 8;
/// Loss episodes after which a path is taken for one that keeps its order.
const PERSIST: u32 = 16;

/// See the [module's text](self).
#[derive(Debug)]
pub(super) struct Reordering {
    /// Loss episodes that the path is yet believed to reorder; 0: it does not.
    persist: u32,
    eighths: u32,
    /// When the time grew last.
    grown_at: Option<Instant>,
}

impl Default for Reordering {
    fn default() -> Self {
        Reordering { persist: 0, eighths: LEAST_EIGHTHS, grown_at: None }
    }
}

impl Reordering {
    /// So many numbers below the largest that arrived a packet is lost; `None`: that says nothing here.
    pub(super) fn packets(&self) -> Option<u64> {
        (self.persist == 0).then_some(PACKET_THRESHOLD)
    }

    /// So long after it left a packet is lost that was overtaken.
    pub(super) fn time(&self, rtt: Duration) -> Duration {
        rtt + rtt * self.eighths / 8
    }

    /// A packet arrived that had been taken for lost, and why it had.
    pub(super) fn on_spurious(&mut self, reason: LossReason, rtt: Duration, now: Instant) {
        self.persist = PERSIST;
        let grown_lately = self.grown_at.is_some_and(|at| now.saturating_since(at) < rtt);
        if reason == LossReason::Late && !grown_lately {
            self.grown_at = Some(now);
            self.eighths = (self.eighths + 1).min(MOST_EIGHTHS);
        }
    }

    /// A loss episode begins.
    pub(super) fn on_episode(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            *self = Reordering::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    #[test]
    fn thresholds_are_those_of_the_rfc_until_a_lost_packet_arrives_and_after_sixteen_episodes_again()
     {
        let mut reordering = Reordering::default();
        assert_eq!(reordering.packets(), Some(3));
        assert_eq!(reordering.time(RTT), RTT * 9 / 8);
        reordering.on_spurious(LossReason::Overtaken, RTT, Instant::ZERO);
        assert_eq!((reordering.packets(), reordering.time(RTT)), (None, RTT * 9 / 8));
        (1..PERSIST).for_each(|_| reordering.on_episode());
        assert_eq!(reordering.packets(), None);
        reordering.on_episode();
        assert_eq!((reordering.packets(), reordering.time(RTT)), (Some(3), RTT * 9 / 8));
    }

    #[test]
    fn the_time_grows_once_per_round_trip_up_to_two_of_them() {
        let mut reordering = Reordering::default();
        for half_rounds in 0..8 {
            let now = Instant::ZERO + RTT / 2 * half_rounds;
            reordering.on_spurious(LossReason::Late, RTT, now);
        }
        assert_eq!(reordering.time(RTT), RTT + RTT * 5 / 8);
        for rounds in 10..30 {
            reordering.on_spurious(LossReason::Late, RTT, Instant::ZERO + RTT * rounds);
        }
        assert_eq!(reordering.time(RTT), 2 * RTT);
    }
}
