//! Traffic of an application that has only so much to send: `-b`, in bursts if asked for.
//!
//! With `R` bit/s in bursts of `n` blocks of `B` bytes, burst `k` may leave at `k · 8nB/R` after the
//! start. A path that was slower for a while is caught up with, as iperf3 does: the rate holds for
//! the whole test.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tack_units::Rate;

/// So much, in such bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Bits per second of each stream; 0 is without limit.
    pub bits_per_second: u64,
    /// Blocks of a burst, at least one.
    pub blocks: u32,
}

impl Pace {
    /// When a stream that has sent so many bytes may go on, from its start.
    pub fn due(self, sent_bytes: u64, block_bytes: usize) -> Duration {
        let burst = self.burst_bytes(block_bytes);
        self.time_for(sent_bytes / burst * burst)
    }

    /// The time between two bursts.
    pub fn gap(self, block_bytes: usize) -> Duration {
        self.time_for(self.burst_bytes(block_bytes))
    }

    fn time_for(self, bytes: u64) -> Duration {
        Rate::from_bps(self.bits_per_second).time_for(bytes).unwrap_or_default()
    }

    fn burst_bytes(self, block_bytes: usize) -> u64 {
        (u64::from(self.blocks) * block_bytes as u64).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_leave_at_once_and_then_at_the_rate() {
        let pace = Pace { bits_per_second: 8_000_000, blocks: 10 };
        let ms = Duration::from_millis;
        assert_eq!(pace.gap(1_000), ms(10));
        assert_eq!(pace.due(0, 1_000), ms(0));
        assert_eq!(pace.due(9_999, 1_000), ms(0), "a burst is not torn");
        assert_eq!(pace.due(10_000, 1_000), ms(10));
        assert_eq!(pace.due(1_000_000, 1_000), ms(1_000));
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let pace = Pace { bits_per_second: 0, blocks: 1 };
        assert_eq!(pace.due(u64::MAX, 1), Duration::ZERO);
        assert_eq!(Pace { blocks: 0, ..pace }.due(5, 0), Duration::ZERO);
    }
}
