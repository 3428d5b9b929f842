//! When the next burst may leave: a token bucket.
//!
//! ```text
//! tokens += rate * elapsed        at most `depth` (one burst)
//! tokens -= bytes                 on every transmission; may go below zero
//! budget  = max(tokens, 0)
//! departure: the time at which `tokens` is one whole burst again
//! ```
//!
//! Waiting for a whole burst, not for one segment, is what lets segmentation offload work: the
//! sender wakes once per burst and hands the kernel that many bytes. A burst is what the rate moves
//! in [`PacerConfig::burst_time`], within bounds:
//!
//! ```text
//! burst = clamp(rate * burst_time, min_burst, max_burst)
//! ```
//!
//! Tokens are kept in bit·ns (rate in bit/s times nanoseconds), so nothing is ever rounded: over a
//! long run, what leaves is the rate times the time, to the byte.
//!
//! An idle sender earns one burst at most. A sender that *waits for the pacer* is owed what a late
//! timer cost it, up to [`PacerConfig::catch_up`]: otherwise a timer 1 ms late would halve the rate
//! of a 1 ms burst. Who came in time and found its window closed is owed nothing.

use core::time::Duration;

use tack_units::{Instant, Rate};

/// Bounds of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacerConfig {
    /// A burst is what the rate moves in this time. 50 to 500 us keeps the queue it makes at the
    /// bottleneck well under the delays at stake.
    pub burst_time: Duration,
    /// A burst is never smaller, in bytes: two segments as a rule, so that delayed ACKs are not kept waiting.
    pub min_burst: u64,
    /// A burst is never larger, in bytes: what one offloaded send can carry.
    pub max_burst: u64,
    /// Lateness of the timer that is made up for. A burst that is late by `d` has
    /// `burst + rate * min(d, catch_up)` bytes, and no more than `burst + max_owed`.
    pub catch_up: Duration,
    /// Bytes that lateness can earn.
    pub max_owed: u64,
}

impl PacerConfig {
    /// Half a millisecond of data, between two segments and 64 KiB; timers may be 10 ms late, as where
    /// a scheduler has others run first or ticks 100 times a second.
    pub fn new(mss: u32) -> Self {
        Self {
            burst_time: Duration::from_micros(500),
            min_burst: 2 * u64::from(mss.max(1)),
            max_burst: 64 * 1024,
            catch_up: Duration::from_millis(10),
            max_owed: 16 * 64 * 1024,
        }
    }
}

/// Tells when the next burst may leave, and how large it may be.
///
/// Set the rate whenever the controller's changes; send while [`Pacer::budget`] covers a segment,
/// reporting each with [`Pacer::on_sent`]; then sleep until [`Pacer::next_departure`].
#[derive(Clone, Debug)]
pub struct Pacer {
    config: PacerConfig,
    rate: Option<Rate>,
    /// In bit·ns; negative after a segment larger than the budget.
    tokens: i128,
    /// `tokens` is as of this time.
    settled: Instant,
    /// The departure that the sender waits for, until what its lateness cost has been spent.
    awaited: Option<Awaited>,
}

#[derive(Clone, Copy, Debug)]
struct Awaited {
    due: Instant,
    /// When the sender came for it; what is not spent within `catch_up` of this lapses.
    claimed: Option<Instant>,
}

impl Awaited {
    /// By how much the sender came late.
    fn late(&self) -> Duration {
        self.claimed.map_or(Duration::ZERO, |claimed| claimed - self.due)
    }
}

/// One byte in bit·ns per second of rate: 8 bits times 10^9 ns.
const BYTE: i128 = 8_000_000_000;

impl Pacer {
    /// A full bucket and no rate yet.
    pub fn new(config: PacerConfig, now: Instant) -> Self {
        let min_burst = config.min_burst.max(1);
        let config =
            PacerConfig { min_burst, max_burst: config.max_burst.max(min_burst), ..config };
        Self {
            config,
            rate: None,
            tokens: i128::from(config.max_burst) * BYTE,
            settled: now,
            awaited: None,
        }
    }

    /// Follows the controller's rate from `now` on. `None`: not paced, every burst may be
    /// [`PacerConfig::max_burst`].
    pub fn set_rate(&mut self, rate: Option<Rate>, now: Instant) {
        if rate != self.rate {
            self.settle(now);
            self.rate = rate;
            self.tokens = self.tokens.min(self.depth());
        }
    }

    /// A burst is never smaller from `now` on, in bytes; at least one.
    pub fn set_min_burst(&mut self, min_burst: u64, now: Instant) {
        if min_burst != self.config.min_burst {
            self.settle(now);
            self.config.min_burst = min_burst.max(1);
            self.config.max_burst = self.config.max_burst.max(self.config.min_burst);
            self.tokens = self.tokens.min(self.depth());
        }
    }

    /// Bursts last so long from `now` on.
    pub fn set_burst_time(&mut self, burst_time: Duration, now: Instant) {
        if burst_time != self.config.burst_time {
            self.settle(now);
            self.config.burst_time = burst_time;
            self.tokens = self.tokens.min(self.depth());
        }
    }

    /// The rate in force.
    pub fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Bytes in one burst at the present rate.
    pub fn burst(&self) -> u64 {
        let config = &self.config;
        match self.rate {
            None => config.max_burst,
            Some(rate) => {
                rate.bytes_in(config.burst_time).clamp(config.min_burst, config.max_burst)
            }
        }
    }

    /// Bytes that may leave at `now`. Send whole segments while they fit.
    pub fn budget(&mut self, now: Instant) -> u64 {
        if self.rate.is_none() {
            return self.config.max_burst;
        }
        self.settle(now);
        u64::try_from(self.tokens / BYTE).unwrap_or(0)
    }

    /// `bytes` left at `now`. More than the budget is allowed and paid back by waiting longer.
    pub fn on_sent(&mut self, bytes: u64, now: Instant) {
        self.settle(now);
        if self.rate.is_some() {
            // Debt is bounded so that a host that ignores the budget can recover from it.
            let floor = -i128::from(u32::MAX) * BYTE;
            self.tokens = (self.tokens - i128::from(bytes) * BYTE).max(floor);
        }
        if self.awaited.is_some() && self.tokens <= i128::from(self.burst()) * BYTE {
            self.awaited = None;
        }
    }

    /// When the next burst may leave; not before `now`. To be asked only by a sender that has data
    /// and window but no budget: from then on, a late timer is made up for.
    ///
    /// [`Instant::MAX`] while the rate is zero.
    pub fn next_departure(&mut self, now: Instant) -> Instant {
        self.settle(now);
        let departure = self.departure();
        self.awaited = Some(Awaited { due: departure, claimed: None });
        departure
    }

    /// The sender waits for something else: for data, or for its window to open.
    pub fn stop_waiting(&mut self) {
        self.awaited = None;
    }

    fn departure(&self) -> Instant {
        let missing = i128::from(self.burst()) * BYTE - self.tokens;
        match self.rate {
            None => self.settled,
            Some(_) if missing <= 0 => self.settled,
            Some(Rate::ZERO) => Instant::MAX,
            Some(rate) => {
                let ns = missing.unsigned_abs().div_ceil(u128::from(rate.as_bps()));
                self.settled + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
            }
        }
    }

    /// Most tokens there may be, in bit·ns.
    fn depth(&self) -> i128 {
        let owed = self.rate.zip(self.awaited).map_or(0, |(rate, awaited)| {
            rate.bytes_in(awaited.late().min(self.config.catch_up)).min(self.config.max_owed)
        });
        (i128::from(self.burst()) + i128::from(owed)) * BYTE
    }

    fn settle(&mut self, now: Instant) {
        let elapsed = now.saturating_since(self.settled);
        self.settled = self.settled.max(now);
        if let Some(awaited) = self.awaited.as_mut().filter(|awaited| awaited.due <= now) {
            let claimed = *awaited.claimed.get_or_insert(now);
            if now > claimed + self.config.catch_up {
                self.awaited = None;
            }
        }
        let Some(rate) = self.rate.filter(|_| !elapsed.is_zero()) else { return };
        let earned = i128::from(rate.as_bps())
            .saturating_mul(i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX));
        self.tokens = self.tokens.saturating_add(earned).min(self.depth());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_460;
    const MTU: u32 = 1_460;

    /// Sends segments as told until `end`, every timer `late`; returns bytes sent and the longest
    /// burst.
    fn run(rate: Rate, late: Duration, end: Instant) -> (u64, u64) {
        let mut pacer = Pacer::new(PacerConfig::new(MTU), Instant::ZERO);
        pacer.set_rate(Some(rate), Instant::ZERO);
        let (mut now, mut sent, mut longest) = (Instant::ZERO, 0, 0);
        while now < end {
            let mut burst = 0;
            while pacer.budget(now) >= MSS {
                pacer.on_sent(MSS, now);
                burst += MSS;
            }
            sent += burst;
            longest = longest.max(burst);
            now = pacer.next_departure(now) + late;
        }
        (sent, longest)
    }

    #[test]
    fn over_an_hour_exactly_the_rate_leaves() {
        // Rates that divide nothing evenly: any rounding would show.
        for bps in [999_983, 7_654_321, 123_456_789] {
            let (rate, end) = (Rate::from_bps(bps), Instant::from_secs(3_600));
            let end = if bps > 10_000_000 { Instant::from_secs(300) } else { end };
            let (sent, _) = run(rate, Duration::ZERO, end);
            let earned = rate.bytes_in(end - Instant::ZERO);
            let slack = Pacer::new(PacerConfig::new(MTU), end).burst();
            assert!(sent.abs_diff(earned) <= slack, "{bps}: {sent} of {earned} bytes");
        }
    }

    #[test]
    fn late_timers_cost_no_rate_and_bursts_stay_bounded() {
        let end = Instant::from_secs(20);
        for mbps in [2, 50, 400] {
            let rate = Rate::from_mbps(mbps);
            let earned = rate.bytes_in(end - Instant::ZERO);
            for late_us in [100, 1_000, 9_900] {
                let (sent, longest) = run(rate, Duration::from_micros(late_us), end);
                let share = sent as f64 / earned as f64;
                assert!(share > 0.999, "{mbps} Mbit/s, {late_us} us: {share}");
                let owed = rate.bytes_in(Duration::from_micros(late_us));
                assert!(longest <= 65_536 + owed, "{mbps} Mbit/s, {late_us} us: {longest}");
            }
        }
    }

    #[test]
    fn a_second_of_sleep_is_not_made_up_for() {
        let rate = Rate::from_mbps(4_000);
        let (_, longest) = run(rate, Duration::from_secs(1), Instant::from_secs(20));
        assert!(longest <= 65_536 + (1 << 20), "{longest}");
        let (_, longest) = run(Rate::from_mbps(8), Duration::from_secs(1), Instant::from_secs(20));
        assert!(longest <= 2_920 + 10_000, "{longest}");
    }

    #[test]
    fn who_came_in_time_and_could_not_send_is_owed_nothing() {
        let mut pacer = Pacer::new(PacerConfig::new(MTU), Instant::ZERO);
        pacer.set_rate(Some(Rate::from_mbps(100)), Instant::ZERO);
        pacer.on_sent(6_250, Instant::ZERO);
        let due = pacer.next_departure(Instant::ZERO);
        assert_eq!(pacer.budget(due), 6_250);
        // Its window opens only now.
        assert_eq!(pacer.budget(due + Duration::from_millis(5)), 6_250);
        pacer.on_sent(6_250, due + Duration::from_millis(5));
        let due = pacer.next_departure(due + Duration::from_millis(5));
        // An acknowledgment closes it before, so that nobody comes when it is due.
        pacer.stop_waiting();
        assert_eq!(pacer.budget(due + Duration::from_millis(5)), 6_250);
    }

    #[test]
    fn an_idle_sender_earns_one_burst() {
        let mut pacer = Pacer::new(PacerConfig::new(MTU), Instant::ZERO);
        pacer.set_rate(Some(Rate::from_mbps(100)), Instant::ZERO);
        assert_eq!(pacer.burst(), 6_250);
        pacer.on_sent(6_250, Instant::ZERO);
        assert_eq!(pacer.budget(Instant::ZERO), 0);
        assert_eq!(pacer.budget(Instant::from_secs(3_600)), 6_250);
    }

    #[test]
    fn a_burst_is_half_a_millisecond_within_two_segments_and_64_kib() {
        let mut pacer = Pacer::new(PacerConfig::new(MTU), Instant::ZERO);
        for (mbps, bytes) in [(1, 2_920), (100, 6_250), (800, 50_000), (40_000, 65_536)] {
            pacer.set_rate(Some(Rate::from_mbps(mbps)), Instant::ZERO);
            assert_eq!(pacer.burst(), bytes, "{mbps} Mbit/s");
        }
    }

    #[test]
    fn without_a_rate_a_burst_may_always_leave_and_at_rate_zero_never() {
        let mut pacer = Pacer::new(PacerConfig::new(MTU), Instant::ZERO);
        pacer.on_sent(1 << 20, Instant::ZERO);
        assert_eq!(pacer.budget(Instant::ZERO), 65_536);
        assert_eq!(pacer.next_departure(Instant::ZERO), Instant::ZERO);
        pacer.set_rate(Some(Rate::ZERO), Instant::ZERO);
        pacer.on_sent(1 << 20, Instant::ZERO);
        assert_eq!(pacer.next_departure(Instant::from_secs(1)), Instant::MAX);
    }

    #[test]
    fn overdrawing_is_paid_back_by_waiting() {
        let mut pacer = Pacer::new(PacerConfig::new(MTU), Instant::ZERO);
        pacer.set_rate(Some(Rate::from_mbps(8)), Instant::ZERO);
        pacer.on_sent(2_920 + 10_000, Instant::ZERO);
        let due = Instant::from_nanos((10_000 + 2_920) * 1_000);
        assert_eq!(pacer.next_departure(Instant::ZERO), due);
        assert_eq!(pacer.budget(due), 2_920);
    }

    /// Whatever happens, in whatever order, no window of time sees more than the rate and two
    /// bursts, and the budget is there at the time that was promised.
    #[test]
    fn random_use_never_exceeds_rate_and_burst_and_keeps_every_promise() {
        use rand_pcg::rand_core::Rng;
        for seed in 0..50 {
            let mut dice = rand_pcg::Pcg32::new(seed, 3);
            let mut below = |n: u32| u64::from(dice.next_u32() % n);
            let rate = Rate::from_kbps(100 + below(1_000_000));
            let mut pacer = Pacer::new(PacerConfig::new(MTU), Instant::ZERO);
            pacer.set_rate(Some(rate), Instant::ZERO);
            let (mut now, mut sent) = (Instant::ZERO, 0);
            for _ in 0..500 {
                match below(4) {
                    0 => now += Duration::from_nanos(below(10_000_000)),
                    1 => {
                        let promised = pacer.next_departure(now);
                        assert!(promised >= now, "seed {seed}");
                        let burst = pacer.burst();
                        assert!(pacer.clone().budget(promised) >= burst, "seed {seed}");
                        now = promised;
                    }
                    _ => {
                        let bytes = pacer.budget(now).min(below(100_000));
                        pacer.on_sent(bytes, now);
                        sent += bytes;
                    }
                }
                let most = rate.bytes_in(now - Instant::ZERO) + 2 * 65_536;
                assert!(sent <= most, "seed {seed}: {sent} of {most} bytes");
            }
        }
    }
}
