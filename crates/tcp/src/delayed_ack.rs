//! The delayed acknowledgment of [RFC 1122 §4.2.3.2, RFC 5681 §4.2] with `L` adjustable.
//!
//! ```text
//! due at once   immediate | quickack left | unacknowledged bytes >= L * full-sized segment
//! else due at   arrival of the first unacknowledged byte + max_delay
//! ```
//!
//! Frequency in steady state: `f = bw / (L * MSS)`, and never less than `1 / max_delay` while data
//! arrives: the *more* frequent of the two, where TACK takes the less frequent.
//!
//! Strategies differ only in what they do inside five verbs: `on_data`, `on_ack_sent`, `is_due`,
//! `deadline` and the constructor. Another one is another file with these verbs.

use core::time::Duration;

use tack_units::Instant;

/// When plain TCP acknowledges.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayedAckConfig {
    /// Full-sized segments per acknowledgment; 2 by the RFC, 1 acknowledges everything (0 too).
    pub segments_per_ack: u32,
    /// Longest delay; below 500 ms [RFC 9293 §3.8.6.3, MUST-40]. Longer only to reproduce papers.
    pub max_delay: Duration,
    /// Segments acknowledged at once when a connection or a burst after idle starts ("quickack").
    pub quickack_segments: u32,
}

impl Default for DelayedAckConfig {
    fn default() -> Self {
        DelayedAckConfig {
            segments_per_ack: 2,
            max_delay: Duration::from_millis(40),
            quickack_segments: 16,
        }
    }
}

/// Without data for so long, the next burst starts with quickacks: a sender restarts its window
/// after an idle RTO [RFC 5681 §4.1], and 1 s is the RTO's least value by [RFC 6298 §2.4].
const IDLE: Duration = Duration::from_secs(1);

/// The peer's full-sized segment is never taken to be smaller, or a peer that types would be
/// acknowledged byte by byte. The default MSS [RFC 9293 §3.7.1].
const LEAST_FULL_SIZE: u32 = 536;

/// The state of the delay.
#[derive(Debug)]
pub struct DelayedAck {
    config: DelayedAckConfig,
    /// MSS we announced: no segment is larger, though a coalesced arrival may be.
    mss: u32,
    /// The largest segment seen so far. The peer's options make its full size less than our MSS,
    /// and counting with the MSS would acknowledge every third segment instead of every second.
    full_size: u32,
    quickack_left: u32,
    /// Bytes that no acknowledgment covers yet.
    unacked_bytes: u64,
    /// When an acknowledgment is due; `None` when nothing waits.
    due_at: Option<Instant>,
    last_data_at: Option<Instant>,
}

impl DelayedAck {
    /// Nothing to acknowledge yet. `mss` in bytes, as announced to the peer.
    pub fn new(config: DelayedAckConfig, mss: u32) -> Self {
        let quickack_left = config.quickack_segments;
        let mss = mss.max(1);
        DelayedAck {
            config,
            mss,
            full_size: LEAST_FULL_SIZE.min(mss),
            quickack_left,
            unacked_bytes: 0,
            due_at: None,
            last_data_at: None,
        }
    }

    /// `bytes` of data arrived. `immediate`: out of order, fills a hole, FIN, out of window, or
    /// a duplicate: acknowledge at once [RFC 5681 §4.2].
    pub fn on_data(&mut self, bytes: u32, immediate: bool, now: Instant) {
        if bytes == 0 && !immediate {
            return;
        }
        if self.last_data_at.is_some_and(|last| now - last >= IDLE) {
            self.quickack_left = self.config.quickack_segments;
        }
        self.last_data_at = Some(now);
        self.full_size = self.full_size.max(bytes.min(self.mss));
        self.unacked_bytes += u64::from(bytes);
        let quick = self.quickack_left > 0;
        self.quickack_left = self.quickack_left.saturating_sub(bytes.div_ceil(self.full_size));
        let limit = u64::from(self.config.segments_per_ack) * u64::from(self.full_size);
        let by = if immediate || quick || self.unacked_bytes >= limit {
            now
        } else {
            now + self.config.max_delay
        };
        self.due_at = Some(self.due_at.map_or(by, |due| due.min(by)));
    }

    /// An acknowledgment left, alone or on data.
    pub fn on_ack_sent(&mut self) {
        self.unacked_bytes = 0;
        self.due_at = None;
    }

    /// An acknowledgment is due.
    pub fn is_due(&self, now: Instant) -> bool {
        self.due_at.is_some_and(|due| due <= now)
    }

    /// When one will be due; `None` when nothing waits.
    pub fn deadline(&self) -> Option<Instant> {
        self.due_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FULL: u32 = 1_448;

    fn lazy(segments_per_ack: u32) -> DelayedAck {
        let config =
            DelayedAckConfig { segments_per_ack, quickack_segments: 0, ..Default::default() };
        DelayedAck::new(config, 1_460)
    }

    /// Sends `n` segments of `bytes`, 1 ms apart, and counts acknowledgments.
    fn acks(delay: &mut DelayedAck, n: u32, bytes: u32, start: Instant) -> u32 {
        let mut sent = 0;
        for i in 0..n {
            let now = start + MS * i;
            delay.on_data(bytes, false, now);
            if delay.is_due(now) {
                delay.on_ack_sent();
                sent += 1;
            }
        }
        sent
    }

    #[test]
    fn every_lth_full_sized_segment_is_acknowledged_though_options_make_it_smaller_than_the_mss() {
        for (l, expected) in [(0, 240), (1, 240), (2, 120), (4, 60), (8, 30), (16, 15)] {
            // The first segment teaches the size; before it 536 is assumed.
            let mut delay = lazy(l);
            delay.on_data(FULL, true, Instant::ZERO);
            delay.on_ack_sent();
            assert_eq!(acks(&mut delay, 240, FULL, Instant::ZERO), expected, "L = {l}");
        }
    }

    #[test]
    fn bytes_count_not_segments() {
        let mut delay = lazy(2);
        delay.on_data(FULL, true, Instant::ZERO);
        delay.on_ack_sent();
        assert_eq!(acks(&mut delay, 39, 100, Instant::ZERO), 1, "2,896 bytes make two segments");
    }

    #[test]
    fn a_lone_segment_is_acknowledged_after_the_delay_counted_from_the_first_byte() {
        let mut delay = lazy(4);
        assert_eq!(delay.deadline(), None);
        delay.on_data(100, false, Instant::ZERO);
        delay.on_data(100, false, Instant::ZERO + MS * 30);
        let due = Instant::ZERO + MS * 40;
        assert_eq!(delay.deadline(), Some(due));
        assert!(!delay.is_due(due - Duration::from_nanos(1)));
        assert!(delay.is_due(due));
        delay.on_ack_sent();
        assert_eq!(delay.deadline(), None);
        assert!(!delay.is_due(due + Duration::from_secs(9)));
    }

    #[test]
    fn what_needs_an_answer_at_once_gets_it_even_without_data() {
        let mut delay = lazy(2);
        delay.on_data(0, false, Instant::ZERO);
        assert_eq!(delay.deadline(), None, "nothing to acknowledge");
        delay.on_data(0, true, Instant::ZERO);
        assert!(delay.is_due(Instant::ZERO), "FIN or a segment out of window");
    }

    #[test]
    fn a_connection_and_a_burst_after_idle_start_with_quickacks() {
        let config = DelayedAckConfig { quickack_segments: 4, ..Default::default() };
        let mut delay = DelayedAck::new(config, FULL);
        assert_eq!(acks(&mut delay, 10, FULL, Instant::ZERO), 4 + 3);
        // 10 ms later nothing is idle.
        assert_eq!(acks(&mut delay, 10, FULL, Instant::from_millis(20)), 5);
        assert_eq!(acks(&mut delay, 10, FULL, Instant::from_secs(2)), 4 + 3);
    }

    #[test]
    fn a_coalesced_arrival_counts_all_its_bytes_and_teaches_no_size_above_the_mss() {
        let mut delay = lazy(2);
        delay.on_data(60_000, false, Instant::ZERO);
        assert!(delay.is_due(Instant::ZERO));
        delay.on_ack_sent();
        assert_eq!(acks(&mut delay, 4, 1_460, Instant::ZERO), 2);
    }

    /// Against a naive model that keeps the arrivals themselves.
    #[test]
    fn random_arrivals_are_acknowledged_when_the_rule_says_so() {
        use rand::{RngExt, SeedableRng};
        for seed in 0..200 {
            let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
            let l = rng.random_range(1..9);
            let mut delay = lazy(l);
            delay.on_data(FULL, true, Instant::ZERO);
            delay.on_ack_sent();
            let mut waiting: Vec<(Instant, u32, bool)> = Vec::new();
            let mut now = Instant::ZERO;
            for _ in 0..300 {
                now += Duration::from_micros(rng.random_range(0..20_000));
                let (bytes, immediate) = (rng.random_range(1..=FULL), rng.random_bool(0.02));
                delay.on_data(bytes, immediate, now);
                waiting.push((now, bytes, immediate));
                let total: u32 = waiting.iter().map(|w| w.1).sum();
                let due = total >= l * FULL
                    || waiting.iter().any(|w| w.2)
                    || waiting[0].0 + MS * 40 <= now;
                assert_eq!(delay.is_due(now), due, "seed {seed}");
                if due {
                    delay.on_ack_sent();
                    waiting.clear();
                }
            }
        }
    }
}
