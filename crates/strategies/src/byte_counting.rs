//! The delayed acknowledgment of [RFC 1122 §4.2.3.2, RFC 5681 §4.2] with `L` and the timer
//! adjustable: delayed ACK at L = 2, byte-counting ACK above.
//!
//! ```text
//! due at once   immediate | quickack left | unacknowledged bytes >= L * full-sized segment
//! else due at   arrival of the first unacknowledged byte + alpha
//!
//! f = max(bw / (L * MSS), 1 / alpha)                              [TON Eq. 3]
//! ```
//!
//! Eq. 3 is the bound that segments of no size would reach. An acknowledgment covers whole ones:
//! those that arrive within `alpha` after the first, so that exactly
//! `f = bw/MSS / min(L, 1 + floor(alpha * bw/MSS))`.
//!
//! Quickack, as in Linux, acknowledges everything at first, after a pause as long as an RTO (the
//! peer's window is one segment then, and a delayed acknowledgment would bring its timer closer
//! again), and when the peer sends what has arrived long since. ns-2, and so [Landström & Larzon],
//! have none.

use core::time::Duration;

use tack_units::Instant;

use super::counter::{Cause, Counter};
use super::{AckStrategy, Acknowledge, Arrival, News, PathFacts, PathSeen, Rule};

/// An acknowledgment per `L` full-sized segments, or after a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteCounting {
    /// `L`: full-sized segments per acknowledgment; 2 by the RFC, 1 acknowledges everything (0
    /// too).
    pub segments_per_ack: u32,
    /// `alpha`, the longest delay; below 500 ms [RFC 9293 §3.8.6.3, MUST-40]. Longer only to
    /// reproduce papers.
    pub max_delay: Duration,
    /// Segments acknowledged at once when a connection starts, after a pause and after a
    /// needless retransmission ("quickack").
    pub quickack_segments: u32,
}

/// Linux's least delay [tcp_delack_min].
const LINUX_DELAY: Duration = Duration::from_millis(40);
const LINUX_QUICKACK: u32 = 16;
/// Names go so far: nobody measures beyond.
const MOST_SEGMENTS: u32 = 64;
const MOST_DELAY_MS: u64 = 10_000;

/// A pause before our own RTO is known: the least one of [RFC 6298 §2.4].
const PAUSE: Duration = Duration::from_secs(1);

impl ByteCounting {
    /// Every `segments_per_ack` full-sized segments, with Linux's delay and quickacks.
    pub const fn new(segments_per_ack: u32) -> Self {
        let (max_delay, quickack_segments) = (LINUX_DELAY, LINUX_QUICKACK);
        ByteCounting { segments_per_ack, max_delay, quickack_segments }
    }

    /// With another timer.
    pub const fn delayed_by_ms(self, ms: u64) -> Self {
        ByteCounting { max_delay: Duration::from_millis(ms), ..self }
    }

    /// Delaying from the first segment on.
    pub const fn without_quickack(self) -> Self {
        ByteCounting { quickack_segments: 0, ..self }
    }
}

impl AckStrategy {
    /// Byte-counting ACK with Linux's timer and quickacks.
    pub const fn every(segments_per_ack: u32) -> AckStrategy {
        AckStrategy::ByteCounting(ByteCounting::new(segments_per_ack))
    }
}

impl Rule for ByteCounting {
    type Receiver = DelayedAck;

    fn spelling() -> &'static str {
        "tcp-l1 to tcp-l64[-Nms][-noquick]"
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("tcp-l")?.split('-').peekable();
        let l = parts.next()?.parse().ok().filter(|l| (1..=MOST_SEGMENTS).contains(l))?;
        let mut rule = ByteCounting::new(l);
        if let Some(ms) = parts.next_if(|part| part.ends_with("ms")) {
            rule = rule.delayed_by_ms(parse_ms(ms)?);
        }
        if parts.next_if(|part| *part == "noquick").is_some() {
            rule = rule.without_quickack();
        }
        parts.next().is_none().then_some(rule)
    }

    fn name(&self) -> String {
        let mut name = format!("tcp-l{}", self.segments_per_ack);
        if self.max_delay != LINUX_DELAY {
            name += &format!("-{}ms", self.max_delay.as_millis());
        }
        if self.quickack_segments == 0 {
            name += "-noquick";
        }
        name
    }

    fn frequency(&self, path: &PathFacts) -> f64 {
        path.counted(f64::from(self.segments_per_ack), self.max_delay)
    }

    fn receiver(&self, mss: u32) -> DelayedAck {
        DelayedAck::new(*self, mss)
    }
}

/// `100ms` and the like.
pub(super) fn parse_ms(text: &str) -> Option<u64> {
    let ms = text.strip_suffix("ms")?.parse().ok()?;
    (1..=MOST_DELAY_MS).contains(&ms).then_some(ms)
}

/// What waits for an acknowledgment by [`ByteCounting`].
///
/// A host that counts packets instead of bytes lets each be one byte long, and the full size one byte:
///
/// ```
/// use tack_strategies::{Acknowledge, Arrival, ByteCounting, Cause, DelayedAck, News, PathSeen};
/// use tack_units::Instant;
///
/// let every_second = ByteCounting::new(2).delayed_by_ms(25).without_quickack();
/// let (mut acks, path) = (DelayedAck::new(every_second, 1), PathSeen::default());
/// let news = News::InOrder;
/// let packet = Arrival { bytes: 1, segment: 1, immediate: false, news, polled: false };
/// acks.on_data(&packet, &path, Instant::ZERO);
/// assert_eq!(acks.deadline(), Some(Instant::from_millis(25)));
/// acks.on_data(&packet, &path, Instant::from_millis(1));
/// assert!(acks.is_due(Instant::from_millis(1)) && acks.cause() == Cause::Count);
/// ```
#[derive(Debug)]
pub struct DelayedAck {
    rule: ByteCounting,
    /// That of the rule when the first of what waits came.
    max_delay: Duration,
    counter: Counter,
    quickack_left: u32,
    /// When RCV.NXT moved last.
    advanced_at: Option<Instant>,
}

impl DelayedAck {
    /// Nothing waits. `mss`: text of a full-sized segment in bytes at most.
    pub fn new(rule: ByteCounting, mss: u32) -> DelayedAck {
        DelayedAck {
            rule,
            max_delay: rule.max_delay,
            counter: Counter::new(mss),
            quickack_left: rule.quickack_segments,
            advanced_at: None,
        }
    }

    /// The peer asks for another rule: for its count from the next arrival on, for its delay once
    /// what waits now is acknowledged.
    pub fn adjust(&mut self, rule: ByteCounting) {
        self.rule = rule;
    }

    /// Why an acknowledgment is due when it is; means nothing while nothing waits.
    pub fn cause(&self) -> Cause {
        self.counter.cause()
    }
}

impl Acknowledge for DelayedAck {
    fn on_data(&mut self, arrival: &Arrival, path: &PathSeen, now: Instant) {
        if arrival.bytes == 0 && !arrival.immediate {
            return;
        }
        let pause = path.rto.unwrap_or(PAUSE);
        let paused = || self.advanced_at.is_some_and(|last| now - last >= pause);
        let quick = match arrival.news {
            News::InOrder => paused(),
            News::Island => false,
            News::Nothing => true,
        };
        if quick {
            self.quickack_left = self.rule.quickack_segments;
        }
        if arrival.news == News::InOrder {
            self.advanced_at = Some(now);
        }
        if self.deadline().is_none() {
            self.max_delay = self.rule.max_delay;
        }
        let (rule, max_delay, left) = (&self.rule, self.max_delay, &mut self.quickack_left);
        let by_rule = |segments| {
            let quick = *left > 0;
            *left = left.saturating_sub(segments);
            (if quick { 0 } else { rule.segments_per_ack }, max_delay)
        };
        self.counter.on_data(arrival, by_rule, now);
    }

    fn on_ack_sent(&mut self, _now: Instant) {
        self.counter.on_ack_sent();
    }

    fn deadline(&self) -> Option<Instant> {
        self.counter.deadline()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const FULL: u32 = 1_448;
    const PATH: PathSeen = PathSeen { rtt_min: None, window: None, rto: None };

    fn lazy(segments_per_ack: u32) -> DelayedAck {
        ByteCounting::new(segments_per_ack).without_quickack().receiver(1_460)
    }

    fn text(bytes: u32) -> Arrival {
        Arrival { bytes, segment: bytes, immediate: false, news: News::InOrder, polled: false }
    }

    fn at_once(bytes: u32) -> Arrival {
        Arrival { bytes, segment: bytes, immediate: true, news: News::InOrder, polled: false }
    }

    /// Sends `n` segments of `bytes`, 1 ms apart, and counts acknowledgments.
    fn acks(delay: &mut DelayedAck, n: u32, bytes: u32, start: Instant) -> u32 {
        let mut sent = 0;
        for i in 0..n {
            let now = start + MS * i;
            delay.on_data(&text(bytes), &PATH, now);
            if delay.is_due(now) {
                delay.on_ack_sent(Instant::ZERO);
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
            delay.on_data(&at_once(FULL), &PATH, Instant::ZERO);
            delay.on_ack_sent(Instant::ZERO);
            assert_eq!(acks(&mut delay, 240, FULL, Instant::ZERO), expected, "L = {l}");
        }
    }

    #[test]
    fn bytes_count_not_segments() {
        let mut delay = lazy(2);
        delay.on_data(&at_once(FULL), &PATH, Instant::ZERO);
        delay.on_ack_sent(Instant::ZERO);
        assert_eq!(acks(&mut delay, 39, 100, Instant::ZERO), 1, "2,896 bytes make two segments");
    }

    #[test]
    fn a_lone_segment_is_acknowledged_after_the_delay_counted_from_the_first_byte() {
        let mut delay = lazy(4);
        assert_eq!(delay.deadline(), None);
        delay.on_data(&text(100), &PATH, Instant::ZERO);
        delay.on_data(&text(100), &PATH, Instant::ZERO + MS * 30);
        let due = Instant::ZERO + MS * 40;
        assert_eq!(delay.deadline(), Some(due));
        assert!(!delay.is_due(due - Duration::from_nanos(1)));
        assert!(delay.is_due(due));
        delay.on_ack_sent(Instant::ZERO);
        assert_eq!(delay.deadline(), None);
        assert!(!delay.is_due(due + Duration::from_secs(9)));
    }

    #[test]
    fn another_rule_counts_at_once_and_delays_what_comes_after_the_next_acknowledgment() {
        let packet = Arrival { segment: 1, ..text(1) };
        let every = |l, ms| ByteCounting::new(l).delayed_by_ms(ms).without_quickack();
        let mut delay = DelayedAck::new(every(2, 25), 1);
        delay.on_data(&packet, &PATH, Instant::ZERO);
        delay.adjust(every(4, 5));
        for ms in [1, 2] {
            delay.on_data(&packet, &PATH, Instant::from_millis(ms));
            assert_eq!(delay.deadline(), Some(Instant::from_millis(25)));
            assert_eq!(delay.cause(), Cause::Delay);
        }
        delay.on_data(&packet, &PATH, Instant::from_millis(3));
        assert_eq!(delay.deadline(), Some(Instant::from_millis(3)));
        assert_eq!(delay.cause(), Cause::Count);
        delay.on_ack_sent(Instant::from_millis(3));
        delay.on_data(&packet, &PATH, Instant::from_millis(4));
        assert_eq!(delay.deadline(), Some(Instant::from_millis(9)));
    }

    #[test]
    fn an_acknowledgment_is_due_because_something_asks_or_as_many_came_or_for_the_delay() {
        let mut delay = lazy(2);
        delay.on_data(&at_once(100), &PATH, Instant::ZERO);
        assert_eq!(delay.cause(), Cause::Asked);
        delay.on_data(&text(100), &PATH, Instant::ZERO);
        assert_eq!(delay.cause(), Cause::Asked, "what came since changes nothing");
        delay.on_data(&text(FULL), &PATH, Instant::ZERO);
        delay.on_data(&text(FULL), &PATH, Instant::ZERO);
        assert_eq!(delay.cause(), Cause::Count);
        delay.on_ack_sent(Instant::ZERO);
        delay.on_data(&text(100), &PATH, Instant::ZERO);
        assert_eq!(delay.cause(), Cause::Delay);
    }

    #[test]
    fn what_needs_an_answer_at_once_gets_it_even_without_data() {
        let mut delay = lazy(2);
        delay.on_data(&text(0), &PATH, Instant::ZERO);
        assert_eq!(delay.deadline(), None, "nothing to acknowledge");
        delay.on_data(&at_once(0), &PATH, Instant::ZERO);
        assert!(delay.is_due(Instant::ZERO), "FIN or a segment out of window");
    }

    #[test]
    fn a_connection_and_a_burst_after_idle_start_with_quickacks() {
        let mut delay =
            ByteCounting { quickack_segments: 4, ..ByteCounting::new(2) }.receiver(FULL);
        assert_eq!(acks(&mut delay, 10, FULL, Instant::ZERO), 4 + 3);
        // 10 ms later nothing is idle.
        assert_eq!(acks(&mut delay, 10, FULL, Instant::from_millis(20)), 5);
        assert_eq!(acks(&mut delay, 10, FULL, Instant::from_secs(2)), 4 + 3);
    }

    #[test]
    fn a_pause_as_long_as_an_rto_and_a_needless_retransmission_bring_quickacks_back() {
        let path = PathSeen { rto: Some(MS * 250), ..PATH };
        let quick_after = |arrival: Arrival, pause: Duration| {
            let mut delay = ByteCounting::new(2).receiver(FULL);
            acks(&mut delay, 40, FULL, Instant::ZERO);
            let now = Instant::from_millis(39) + pause;
            delay.on_data(&arrival, &path, now);
            delay.on_ack_sent(now);
            acks(&mut delay, 10, FULL, now + MS) == 10
        };
        assert!(!quick_after(text(FULL), MS * 249));
        assert!(quick_after(text(FULL), MS * 250));
        let behind_a_hole = Arrival { news: News::Island, ..at_once(FULL) };
        assert!(!quick_after(behind_a_hole, MS * 249));
        assert!(quick_after(Arrival { news: News::Nothing, ..at_once(FULL) }, MS));
    }

    #[test]
    fn while_a_hole_is_open_the_pause_goes_on() {
        let path = PathSeen { rto: Some(MS * 250), ..PATH };
        let mut delay = ByteCounting::new(2).receiver(FULL);
        acks(&mut delay, 40, FULL, Instant::ZERO);
        for ms in [100, 200, 280] {
            let behind_a_hole = Arrival { news: News::Island, ..at_once(FULL) };
            delay.on_data(&behind_a_hole, &path, Instant::from_millis(ms));
            delay.on_ack_sent(Instant::from_millis(ms));
        }
        delay.on_data(&at_once(FULL), &path, Instant::from_millis(300));
        delay.on_ack_sent(Instant::from_millis(300));
        assert_eq!(acks(&mut delay, 10, FULL, Instant::from_millis(301)), 10);
    }

    #[test]
    fn a_coalesced_arrival_counts_all_its_bytes_and_teaches_no_size_above_the_mss() {
        let mut delay = lazy(2);
        delay.on_data(&text(60_000), &PATH, Instant::ZERO);
        assert!(delay.is_due(Instant::ZERO));
        delay.on_ack_sent(Instant::ZERO);
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
            delay.on_data(&at_once(FULL), &PATH, Instant::ZERO);
            delay.on_ack_sent(Instant::ZERO);
            let mut waiting: Vec<(Instant, u32, bool)> = Vec::new();
            let mut now = Instant::ZERO;
            for _ in 0..300 {
                now += Duration::from_micros(rng.random_range(0..20_000));
                let (bytes, immediate) = (rng.random_range(1..=FULL), rng.random_bool(0.02));
                delay.on_data(
                    &Arrival {
                        bytes,
                        segment: bytes,
                        immediate,
                        news: News::InOrder,
                        polled: false,
                    },
                    &PATH,
                    now,
                );
                waiting.push((now, bytes, immediate));
                let total: u32 = waiting.iter().map(|w| w.1).sum();
                let due = total >= l * FULL
                    || waiting.iter().any(|w| w.2)
                    || waiting[0].0 + MS * 40 <= now;
                assert_eq!(delay.is_due(now), due, "seed {seed}");
                if due {
                    delay.on_ack_sent(Instant::ZERO);
                    waiting.clear();
                }
            }
        }
    }
}
