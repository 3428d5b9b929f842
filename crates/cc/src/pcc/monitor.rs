//! Monitor intervals: what was sent in each, and what came of it.
//!
//! ```text
//! time of sending    |----- interval 7 -----|----- interval 8 -----|---- 9 (open) ---
//! bytes sent         from                  to = from               to
//! feedback                 .......acknowledged up to here^
//! ```
//!
//! An acknowledgment says how many bytes, and when the newest of them left ([`Departures`] knows the
//! position in what was sent); they count for the intervals they left in, evenly over what was sent
//! since the news before, and lost bytes likewise. (A report of a quarter of a round trip may tell of two
//! intervals. With all that arrived in the first and all that was lost in the second, neither would be
//! judged for what it was.) An interval is complete when all it sent is accounted for, or when something
//! has come back that left a round trip after its end: what is missing then is left out.

use core::time::Duration;
use std::collections::VecDeque;

use tack_units::{Instant, Rate};

use crate::flight::Departures;
use crate::sample::AckSample;

/// Packets of an interval that random loss may take.
const BY_CHANCE: u64 = 2;

/// One interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) rate: Rate,
    /// Of the search that wants its result, if any does.
    pub(super) turn: Option<u64>,
    pub(super) began: Instant,
    ended: Option<Instant>,
    /// Positions in what was sent.
    from: u64,
    to: u64,
    acked: u64,
    lost: u64,
    /// The application had no more to send.
    app_limited: bool,
    line: Line,
    /// The middle of the interval before.
    before: Option<(Instant, f64)>,
}

/// A least-squares line, as sums over its points.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

/// Standard errors by which a slope differs from none.
const SURE: f64 = 1.0;

impl Line {
    fn add(&mut self, x: f64, y: f64) {
        self.n += 1.0;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
        self.yy += y * y;
    }

    /// Too few points for a line.
    fn is_short(&self) -> bool {
        self.n < 3.0
    }

    /// The middle of its points.
    fn middle(&self) -> Option<(f64, f64)> {
        (self.n > 0.0).then(|| (self.x / self.n, self.y / self.n))
    }

    /// 0 where the points lie so far beside the line that it may as well be level.
    fn slope(&self) -> f64 {
        let spread = self.n * self.xx - self.x * self.x;
        let together = self.n * self.xy - self.x * self.y;
        let slope = together / spread;
        // Points at one time have no slope.
        if spread <= 1e-12 || !slope.is_finite() || self.is_short() {
            return 0.0;
        }
        let beside = self.n * self.yy - self.y * self.y - slope * together;
        let error = (beside.max(0.0) / (self.n - 2.0) / spread).sqrt();
        if slope.abs() > SURE * error { slope } else { 0.0 }
    }
}

impl Interval {
    /// Part of what is accounted for that was lost; `None` if it does not count: nothing is
    /// accounted for, or the application could not keep up.
    pub(super) fn loss(&self) -> Option<f64> {
        let known = self.acked.saturating_add(self.lost);
        (known > 0 && !self.app_limited).then(|| self.lost as f64 / known as f64)
    }

    /// One or two packets are missing, which says nothing of a queue.
    pub(super) fn lost_by_chance(&self, mss: u64) -> bool {
        self.lost <= BY_CHANCE * mss
    }

    /// More than half of what is accounted for was lost.
    pub(super) fn is_choked(&self) -> bool {
        self.lost > self.acked
    }

    /// Seconds of round trip per second of sending: of a line through the interval's, or where a few
    /// acknowledgments tell of many packets, from the middle of those before.
    pub(super) fn rtt_gradient(&self) -> f64 {
        match (self.before, self.middle()) {
            (Some((then, was)), Some((at, is))) if self.line.is_short() && at > then => {
                (is - was) / (at - then).as_secs_f64()
            }
            _ => self.line.slope(),
        }
    }

    /// When the middle of those left whose round trips are known, and their mean.
    fn middle(&self) -> Option<(Instant, f64)> {
        let (x, y) = self.line.middle()?;
        Some((self.began + Duration::from_secs_f64(x), y))
    }

    fn is_accounted_for(&self) -> bool {
        self.acked.saturating_add(self.lost) >= self.to.saturating_sub(self.from)
    }
}

/// The intervals whose results are not in.
#[derive(Clone, Debug, Default)]
pub(super) struct Monitor {
    departures: Departures,
    intervals: VecDeque<Interval>,
    /// Positions up to which acknowledgments have come, and news of losses.
    heard: u64,
    heard_lost: u64,
    /// Latest departure that was acknowledged.
    newest: Option<Instant>,
}

/// Intervals remembered: results are in after a round trip, and none is shorter than that.
const INTERVALS: usize = 64;

impl Monitor {
    /// The open interval ends, another begins.
    pub(super) fn begin(&mut self, rate: Rate, turn: Option<u64>, now: Instant) {
        let from = self.departures.sent();
        if let Some(open) = self.intervals.back_mut() {
            (open.ended, open.to) = (Some(now), from);
        }
        if self.intervals.len() >= INTERVALS {
            self.intervals.pop_front();
        }
        self.intervals.push_back(Interval {
            rate,
            turn,
            began: now,
            ended: None,
            from,
            to: u64::MAX,
            acked: 0,
            lost: 0,
            app_limited: false,
            line: Line::default(),
            before: None,
        });
    }

    pub(super) fn on_sent(&mut self, bytes: u64, in_flight: u64, app_limited: bool, now: Instant) {
        self.departures.on_sent(bytes, in_flight, 0, now);
        if let Some(open) = self.intervals.back_mut() {
            open.app_limited |= app_limited;
        }
    }

    pub(super) fn on_ack(&mut self, ack: &AckSample) {
        let position = |at: Option<Instant>| Some(self.departures.at(at?)?.sent);
        let newest = position(ack.newest_sent_at).unwrap_or(self.heard);
        let lost_at = position(ack.lost_sent_at).unwrap_or(newest);
        let (before, before_lost) = (self.heard, self.heard_lost);
        self.spread(ack.acked_bytes, before, newest, |interval| &mut interval.acked);
        self.heard = before.max(newest);
        if ack.lost_bytes > 0 {
            self.spread(ack.lost_bytes, before_lost, lost_at, |interval| &mut interval.lost);
            self.heard_lost = before_lost.max(lost_at);
        }
        self.newest = self.newest.max(ack.newest_sent_at);
        if let (Some(rtt), Some(sent_at)) = (ack.rtt, ack.newest_sent_at)
            && let Some(interval) = self.intervals.iter_mut().find(|i| newest <= i.to)
            && sent_at >= interval.began
        {
            let since = sent_at - interval.began;
            interval.line.add(since.as_secs_f64(), rtt.as_secs_f64());
        }
    }

    /// `bytes` came to something, the last of them at `newest` in what was sent: evenly those that were sent
    /// since `before`, of which others came to something else, and what is more at `newest`.
    fn spread(
        &mut self,
        bytes: u64,
        before: u64,
        newest: u64,
        account: fn(&mut Interval) -> &mut u64,
    ) {
        let after = newest.max(before);
        let share = bytes as f64 / (after - before).max(bytes).max(1) as f64;
        let mut left = bytes;
        for interval in &mut self.intervals {
            let overlap = after.min(interval.to).saturating_sub(before.max(interval.from));
            let part = ((overlap as f64 * share) as u64).min(left);
            let account = account(interval);
            *account = account.saturating_add(part);
            left -= part;
        }
        if let Some(interval) = self.intervals.iter_mut().find(|i| newest <= i.to) {
            let account = account(interval);
            *account = account.saturating_add(left);
        }
    }

    /// The oldest interval, if all is known of it that will be.
    pub(super) fn take_complete(&mut self, srtt: Option<Duration>) -> Option<Interval> {
        let oldest = self.intervals.front()?;
        let late = oldest.ended? + srtt.unwrap_or_default();
        let is_over = oldest.is_accounted_for() || self.newest.is_some_and(|at| at >= late);
        let over = if is_over { self.intervals.pop_front() } else { None };
        if let (Some(over), Some(next)) = (&over, self.intervals.front_mut()) {
            next.before = over.middle().or(over.before);
        }
        over
    }

    /// Intervals of this turn whose results are not in.
    pub(super) fn awaited(&self, turn: u64) -> usize {
        self.intervals.iter().filter(|interval| interval.turn == Some(turn)).count()
    }

    /// Nothing that is under way counts.
    pub(super) fn forget(&mut self) {
        self.intervals.clear();
        (self.heard, self.heard_lost) = (self.departures.sent(), self.departures.sent());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;

    const MSS: u64 = 1_000;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A segment each millisecond; an interval every 20 ms.
    fn sent(until_ms: u64) -> Monitor {
        let mut monitor = Monitor::default();
        for ms in 0..until_ms {
            if ms % 20 == 0 {
                monitor.begin(Rate::from_mbps(8 + ms), Some(ms), at(ms));
            }
            monitor.on_sent(MSS, 0, false, at(ms));
        }
        monitor
    }

    fn feedback(acked: u64, newest_ms: u64, lost: u64, lost_ms: u64, rtt_ms: u64) -> AckSample {
        AckSample {
            acked_bytes: acked * MSS,
            lost_bytes: lost * MSS,
            newest_sent_at: Some(at(newest_ms)),
            lost_sent_at: Some(at(lost_ms)),
            rtt: Some(Duration::from_millis(rtt_ms)),
            ..ack()
        }
    }

    #[test]
    fn an_acknowledgment_over_a_border_counts_on_both_sides_of_it() {
        let mut monitor = sent(60);
        monitor.on_ack(&feedback(15, 14, 0, 0, 50));
        monitor.on_ack(&feedback(10, 24, 0, 0, 50));
        assert_eq!(monitor.intervals[0].acked, 20 * MSS);
        assert_eq!(monitor.intervals[1].acked, 5 * MSS);
        let first = monitor.take_complete(None).map(|i| (i.rate, i.turn, i.loss()));
        assert_eq!(first, Some((Rate::from_mbps(8), Some(0), Some(0.0))));
        assert!(monitor.take_complete(Some(Duration::from_millis(20))).is_none());
    }

    #[test]
    fn what_is_lost_counts_where_it_left() {
        let mut monitor = sent(60);
        monitor.on_ack(&feedback(18, 19, 0, 0, 50));
        assert!(monitor.take_complete(Some(Duration::from_secs(1))).is_none(), "two are missing");
        monitor.on_ack(&feedback(10, 29, 2, 17, 50));
        let first = monitor.take_complete(None).and_then(|i| i.loss());
        assert_eq!(first, Some(0.1));
    }

    #[test]
    fn what_is_missing_a_round_trip_later_is_left_out() {
        let mut monitor = sent(60);
        monitor.on_ack(&feedback(18, 19, 0, 0, 50));
        monitor.on_ack(&feedback(10, 29, 0, 0, 50));
        let first = monitor.take_complete(Some(Duration::from_millis(9))).and_then(|i| i.loss());
        assert_eq!(first, Some(0.0));
    }

    #[test]
    fn the_round_trips_of_an_interval_are_a_line() {
        let mut monitor = sent(40);
        for ms in 0..20 {
            // Half a millisecond longer each millisecond.
            let rtt = Some(Duration::from_micros(50_000 + 500 * ms));
            monitor.on_ack(&AckSample { rtt, ..feedback(1, ms, 0, 0, 0) });
        }
        let gradient = monitor.take_complete(None).map(|i| i.rtt_gradient());
        assert!(gradient.is_some_and(|g| (g - 0.5).abs() < 1e-6), "{gradient:?}");
        assert_eq!(Line::default().slope(), 0.0);
    }

    #[test]
    fn random_feedback_credits_every_byte_once() {
        use rand_pcg::rand_core::Rng;
        let mut dice = rand_pcg::Pcg32::new(9, 9);
        let mut monitor = sent(200);
        let (mut known, mut newest) = (0, 0);
        while newest < 199 {
            let step = u64::from(dice.next_u32() % 7);
            newest = (newest + step).min(199);
            let acked = newest + 1 - known;
            known = newest + 1;
            monitor.on_ack(&feedback(acked, newest, 0, 0, 50));
        }
        let acked: Vec<u64> = monitor.intervals.iter().map(|i| i.acked / MSS).collect();
        assert_eq!(acked, [20; 10]);
    }
}
