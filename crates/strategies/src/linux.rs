//! Linux's receiver since 4.18: delayed acknowledgment, but while something is missing it does not
//! acknowledge each segment, as [RFC 5681 §4.2] says it SHOULD: it "compresses" SACKs.
//!
//! ```text
//! behind a hole     the first 3 after RCV.NXT moved at once, which is what fast retransmit wants;
//!                   then one for up to 44 segments, after min(1 ms, RTT/20) at the latest
//! else              as delayed acknowledgment with L = 2
//!
//! f = bw/MSS / min(2, 1 + floor(40 ms * bw/MSS))      without loss: the same
//! ```
//!
//! Deviation: Linux counts the delay with its estimate of the round trip, this with the least one.

use core::time::Duration;

use tack_units::Instant;

use super::byte_counting::{ByteCounting, DelayedAck};
use super::{Acknowledge, Arrival, News, PathFacts, PathSeen, Rule};

/// Delayed acknowledgment whose SACKs are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Linux;

const DELAYED: ByteCounting = ByteCounting::new(2);
/// Duplicates that go at once: the threshold of fast retransmit [RFC 5681 §3.2].
const AT_ONCE: u32 = 3;
/// Most segments that one acknowledgment waits for [tcp_comp_sack_nr].
const MOST_COMPRESSED: u32 = 44;
/// Longest wait [tcp_comp_sack_delay_ns].
const LONGEST: Duration = Duration::from_millis(1);
/// Part of the round trip that it waits, where that is less.
const PART_OF_RTT: u32 = 20;

impl Rule for Linux {
    type Receiver = Compressing;

    fn spelling() -> &'static str {
        "linux"
    }

    fn parse(name: &str) -> Option<Self> {
        (name == "linux").then_some(Linux)
    }

    fn name(&self) -> String {
        "linux".to_owned()
    }

    fn frequency(&self, path: &PathFacts) -> f64 {
        DELAYED.frequency(path)
    }

    fn receiver(&self, mss: u32) -> Compressing {
        Compressing { delayed: DELAYED.receiver(mss), duplicates: 0, compressed: 0, due_at: None }
    }
}

/// What waits, in order and behind a hole.
#[derive(Debug)]
pub(crate) struct Compressing {
    delayed: DelayedAck,
    /// Sent at once since RCV.NXT moved.
    duplicates: u32,
    /// Segments behind a hole that no acknowledgment covers yet.
    compressed: u32,
    /// When they are acknowledged at the latest.
    due_at: Option<Instant>,
}

impl Acknowledge for Compressing {
    fn on_data(&mut self, arrival: &Arrival, path: &PathSeen, now: Instant) {
        if arrival.news == News::InOrder {
            self.duplicates = 0;
        }
        if arrival.news != News::Island {
            return self.delayed.on_data(arrival, path, now);
        }
        if self.duplicates < AT_ONCE || self.compressed >= MOST_COMPRESSED {
            self.duplicates = self.duplicates.saturating_add(1);
            return self.delayed.on_data(arrival, path, now);
        }
        self.compressed += 1;
        let wait = path.rtt_min.map_or(LONGEST, |rtt| LONGEST.min(rtt / PART_OF_RTT));
        self.due_at.get_or_insert(now + wait);
    }

    fn on_ack_sent(&mut self, now: Instant) {
        self.delayed.on_ack_sent(now);
        (self.compressed, self.due_at) = (0, None);
    }

    fn deadline(&self) -> Option<Instant> {
        let delayed = self.delayed.deadline();
        self.due_at.map_or(delayed, |due| Some(delayed.map_or(due, |d| d.min(due))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u32 = 1_448;
    const RTT: Duration = Duration::from_millis(100);

    fn arrival(news: News) -> Arrival {
        let immediate = news != News::InOrder;
        Arrival { bytes: FULL, segment: FULL, immediate, news, polled: false }
    }

    /// Segments behind a hole, one per tenth of a millisecond; after which of them an
    /// acknowledgment leaves.
    fn acknowledged(receiver: &mut Compressing, segments: u64, rtt: Duration) -> Vec<u64> {
        let path = PathSeen { rtt_min: Some(rtt), ..PathSeen::default() };
        let mut after = Vec::new();
        for n in 1..=segments {
            let now = Instant::from_micros(1_000_000 + n * 100);
            receiver.on_data(&arrival(News::Island), &path, now);
            if receiver.is_due(now) {
                receiver.on_ack_sent(now);
                after.push(n);
            }
        }
        after
    }

    fn receiver() -> Compressing {
        Linux.receiver(FULL)
    }

    #[test]
    fn three_duplicates_go_at_once_and_then_one_per_millisecond() {
        assert_eq!(acknowledged(&mut receiver(), 30, RTT), [1, 2, 3, 14, 25]);
    }

    #[test]
    fn a_short_path_waits_for_a_twentieth_of_its_round_trip() {
        let rtt = Duration::from_millis(4);
        assert_eq!(acknowledged(&mut receiver(), 9, rtt), [1, 2, 3, 6, 9]);
    }

    #[test]
    fn a_burst_is_acknowledged_per_forty_four_segments() {
        let mut receiver = receiver();
        let (path, now) = (PathSeen::default(), Instant::from_millis(1));
        let due = |receiver: &mut Compressing| {
            receiver.on_data(&arrival(News::Island), &path, now);
            let due = receiver.is_due(now);
            if due {
                receiver.on_ack_sent(now);
            }
            due
        };
        let after: Vec<u32> = (1..=100).filter(|_| due(&mut receiver)).collect();
        assert_eq!(after, [1, 2, 3, 48, 93]);
    }

    #[test]
    fn what_fills_a_hole_goes_at_once_and_three_duplicates_after_it() {
        let mut receiver = receiver();
        acknowledged(&mut receiver, 10, RTT);
        let now = Instant::from_millis(1_002);
        let filling = Arrival { immediate: true, ..arrival(News::InOrder) };
        receiver.on_data(&filling, &PathSeen::default(), now);
        assert!(receiver.is_due(now));
        receiver.on_ack_sent(now);
        assert_eq!(acknowledged(&mut receiver, 5, RTT), [1, 2, 3]);
    }
}
