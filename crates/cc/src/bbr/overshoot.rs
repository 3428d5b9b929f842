//! Startup under receiver-measured rates: how fast to grow, and when the queue says enough.
//!
//! A sender that is told the rate of its arrivals and the round trip of its least delayed packets
//! sixteen times per RTT need not wait for three rounds without growth. In each half round trip,
//!
//! ```text
//! queued   least wait >= max(RTTmin/8, 4 ms)                     every packet waited on its way there
//! short    greatest rate < 0.6 * pacing rate when it was sent    less arrives than is sent
//!
//! the latest packets did not wait    grow by 2.89 per round, by 4 at first (`growth.rs`)
//! they did, or for the application   double per round
//! queued and short                   the pipe is full
//! a third lost, twice, and short     likewise
//! ```
//!
//! A buffer of a few packets is never long enough for all to wait, nor for any to wait for long: there the
//! overflow says it. Random loss of ten per cent is far from a third, and a burst of it is over a period later.
//!
//! The flight is bounded by what arrives, too: at most [`Growth::flight`] times the greatest rate of the
//! last round trip, which the receiver measures over an eighth of one. While nothing saturates the bound is
//! not felt; a bottleneck shows in it as soon as packets leave it closer together than it lets them
//! through, long before the mean over a round trip says so.
//!
//! Doubling is what lets slow start follow a path of which it knows nothing but acknowledgments.
//! While no packet waits and all that was sent arrives as fast as it was sent, the path has shown
//! room for as much: then growth may be the pacing gain of doubling, 2.89, and more of a small flight. What goes
//! into the queue is at most what one round trip sends beyond the bottleneck, until the news is back.
//!
//! What acknowledgments wait for is no queue of ours: the receiver tells packets' own wait, and the flight
//! fills a round trip without it. Data both ways, or somebody's upload, ended Startup at a quarter of the
//! path's rate otherwise.
//!
//! Deviation: [TON §VI-D] has BBR's Startup. It goes on for three rounds with 2.89 bdp in flight.

use core::time::Duration;
use std::collections::VecDeque;

use tack_units::{Instant, Rate};

use super::few_packets::FEW;
use crate::growth::{Clearance, Growth};
use crate::sample::AckSample;

/// Rise of the RTT that is a queue: as HyStart++ [RFC 9406 §4.3], its least value included, below
/// which 802.11 aggregates and hosts make such rises without a queue.
const RISE_DIVISOR: u32 = 8;
pub(super) const RISE_MIN: Duration = Duration::from_millis(4);
/// Share of packets that only an overflow takes, in two periods in a row.
const OVERFLOW: f64 = 1.0 / 3.0;
/// Samples that make a period's extremes trustworthy.
const SAMPLES: u32 = 3;
/// Periods that are remembered: round trips grow while Startup fills a queue.
const MARKS: usize = 64;

/// Watches Startup.
#[derive(Clone, Debug)]
pub(crate) struct Overshoot {
    /// When the period began; `None` before the first sample.
    began: Option<Instant>,
    least_rtt: Option<Duration>,
    least_queued: Option<Duration>,
    /// The least round trip of this period without the data's wait, and of the one before.
    least_rest: Option<Duration>,
    rest_before: Option<Duration>,
    greatest_rate: Rate,
    /// That of the period before.
    greatest_before: Rate,
    /// A rate of this period is the path's, and of the one before: not all were the application's.
    saturated: bool,
    saturated_before: bool,
    samples: u32,
    /// Bytes of this period.
    delivered: u64,
    lost: u64,
    /// The period before lost more than [`OVERFLOW`].
    overflowed: bool,
    /// What each period expected of what it sent.
    expected: VecDeque<(Instant, Rate)>,
    /// Whether packets waited in a queue, or for the application.
    clearance: Clearance,
    /// A wait that is the path's.
    standing: Duration,
    /// The pipe was full since each packet waited.
    full_for_waits: bool,
}

/// What an acknowledgment tells of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    pub(crate) rtt: Option<Duration>,
    /// How long its packet waited on the data path.
    pub(crate) queued: Option<Duration>,
    pub(crate) rtt_min: Duration,
    /// Measured over the last two TACK intervals.
    pub(crate) rate: Option<Rate>,
    /// Of what is sent now less than this arrives only where something holds it up.
    pub(crate) expected: Option<Rate>,
    /// The application is what limits the rate.
    pub(crate) app_limited: bool,
    /// Bytes that this acknowledgment brings, and that it declares lost.
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
}

impl Signs {
    /// Of `ack`, while a flight grows so that is paced at `pacing_rate`.
    pub(crate) fn of(
        ack: &AckSample,
        rtt_min: Duration,
        pacing_rate: Option<Rate>,
        growth: Growth,
    ) -> Signs {
        Signs {
            rtt: ack.rtt,
            queued: ack.queue(),
            rtt_min,
            rate: ack.rate.and_then(|rate| rate.delivery_rate),
            expected: pacing_rate.map(|rate| rate.mul_f64(growth.short())),
            app_limited: ack.rate.is_some_and(|rate| rate.app_limited),
            delivered: ack.acked_bytes,
            lost: ack.lost_bytes,
        }
    }

    /// Waits from here on are a queue.
    fn queued_from(&self) -> Duration {
        (self.rtt_min / RISE_DIVISOR).max(RISE_MIN)
    }

    /// The packet was let through without waiting, as soon as it was there to be sent. On a path that
    /// holds a few packets no queue lasts long: a quarter of RTTmin is one there.
    fn is_clear(&self, queued: Duration) -> bool {
        let rate = self.rate.unwrap_or(Rate::ZERO);
        let holds_few = rate.bytes_in(self.rtt_min) <= FEW * 1_500;
        let from = if holds_few { self.rtt_min / 4 } else { self.queued_from() };
        !self.app_limited && queued < from.min(self.queued_from())
    }
}

impl Default for Overshoot {
    fn default() -> Overshoot {
        Overshoot {
            began: None,
            least_rtt: None,
            least_queued: None,
            least_rest: None,
            rest_before: None,
            greatest_rate: Rate::ZERO,
            greatest_before: Rate::ZERO,
            saturated: false,
            saturated_before: false,
            samples: 0,
            delivered: 0,
            lost: 0,
            overflowed: false,
            expected: VecDeque::new(),
            clearance: Clearance::presumed(true),
            standing: Duration::ZERO,
            full_for_waits: false,
        }
    }
}

impl Overshoot {
    /// Of a Startup that goes on, on a path on which each packet waits for `standing`.
    pub(crate) fn beyond(standing: Duration) -> Overshoot {
        Overshoot { standing, ..Overshoot::default() }
    }

    /// Whether the pipe was full since each packet waited.
    pub(crate) fn was_full_for_waits(&self) -> bool {
        self.full_for_waits
    }

    /// An acknowledgment in Startup. True when the pipe is full.
    pub(crate) fn on_ack(&mut self, signs: &Signs, now: Instant) -> bool {
        let began = *self.began.get_or_insert(now);
        self.delivered = self.delivered.saturating_add(signs.delivered);
        self.lost = self.lost.saturating_add(signs.lost);
        if let (Some(rtt), Some(queued)) = (signs.rtt, signs.queued) {
            let queued = queued.saturating_sub(self.standing);
            let lessen = |least: &mut Option<Duration>, by: Duration| {
                *least = Some(least.map_or(by, |least| least.min(by)));
            };
            lessen(&mut self.least_rtt, rtt);
            lessen(&mut self.least_queued, queued);
            lessen(&mut self.least_rest, rtt.saturating_sub(queued));
            self.samples += 1;
            self.clearance.on_ack(signs.is_clear(queued));
        }
        self.greatest_rate = self.greatest_rate.max(signs.rate.unwrap_or(Rate::ZERO));
        self.saturated |= signs.rate.is_some() && !signs.app_limited;
        if now - began < signs.rtt_min / 2 || self.samples < SAMPLES {
            return false;
        }
        self.judge(signs, now)
    }

    /// A period ends: is the pipe full?
    fn judge(&mut self, signs: &Signs, now: Instant) -> bool {
        let least = self.least_rtt.take().unwrap_or(signs.rtt_min);
        let queued = self.least_queued.take().is_some_and(|least| least >= signs.queued_from());
        self.rest_before = self.least_rest.take();
        let short = self
            .expected_before(now, least)
            .is_some_and(|expected| self.saturated && self.greatest_rate < expected)
            && !signs.app_limited;
        let sent = self.delivered.saturating_add(self.lost);
        let overflows = self.lost as f64 > sent as f64 * OVERFLOW;
        let full = short && (queued || overflows && self.overflowed);
        self.full_for_waits = full && queued;
        self.overflowed = overflows;
        (self.began, self.samples) = (Some(now), 0);
        (self.delivered, self.lost) = (0, 0);
        self.greatest_before = core::mem::take(&mut self.greatest_rate);
        self.saturated_before = core::mem::take(&mut self.saturated);
        if let Some(rate) = signs.expected {
            if self.expected.len() == MARKS {
                self.expected.pop_front();
            }
            self.expected.push_back((now, rate));
        }
        full
    }

    /// What is to arrive now, by what was sent an `rtt` ago.
    fn expected_before(&self, now: Instant, rtt: Duration) -> Option<Rate> {
        self.expected.iter().rev().find(|(at, _)| now - *at >= rtt).map(|(_, rate)| *rate)
    }

    /// Bytes that may be in flight, of which `initial` always may; `None` before the first rate, and where the
    /// application was the limit: what it lets through says nothing of the path.
    pub(crate) fn flight(&self, growth: Growth, rtt_min: Duration, initial: u64) -> Option<u64> {
        if !self.saturated && !self.saturated_before {
            return None;
        }
        let rate = self.greatest_rate.max(self.greatest_before);
        let rest = self.least_rest.into_iter().chain(self.rest_before).min();
        let round = rest.map_or(rtt_min, |rest| rest.max(rtt_min));
        Some(rate.mul_f64(growth.flight()).bytes_in(round).max(initial))
    }

    /// How fast a flight of `cwnd` bytes may grow that began as `initial`.
    pub(crate) fn growth(&self, cwnd: u64, initial: u64, rtt_min: Option<Duration>) -> Growth {
        self.clearance.growth(cwnd, initial, rtt_min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(80);

    /// Sixteen TACKs per RTT, of a queue that grows by `rise_ms` per RTT from the second on, while
    /// `share` of what is sent arrives. RTTs until the pipe is full, of eight.
    fn full_after(rise_ms: u64, share: f64) -> Option<u64> {
        full_of(rise_ms, 0, share)
    }

    /// The same, and the acknowledgments' own queue grows by `back_ms`.
    fn full_of(rise_ms: u64, back_ms: u64, share: f64) -> Option<u64> {
        let mut overshoot = Overshoot::default();
        (0..8 * 16u64)
            .find(|tack| {
                let grown = |by: u64| Duration::from_millis(by * tack.saturating_sub(16) / 16);
                let (queue, back) = (grown(rise_ms), grown(back_ms));
                let pacing = Rate::from_mbps(100);
                let signs = Signs {
                    rtt: Some(RTT + queue + back),
                    queued: Some(queue),
                    rtt_min: RTT,
                    rate: Some(pacing.mul_f64(share)),
                    expected: Some(pacing.mul_f64(Growth::Clear.short())),
                    app_limited: false,
                    delivered: 0,
                    lost: 0,
                };
                overshoot.on_ack(&signs, Instant::from_millis(tack * 5))
            })
            .map(|tack| tack / 16)
    }

    #[test]
    fn a_queue_from_which_less_comes_out_than_goes_in_fills_the_pipe_within_two_round_trips() {
        assert!(full_after(40, 0.5).is_some_and(|rtts| rtts <= 3));
    }

    #[test]
    fn neither_delay_nor_a_low_rate_alone_does() {
        assert_eq!(full_after(40, 1.0), None);
        assert_eq!(full_after(0, 0.5), None);
        assert_eq!(full_after(0, 1.0), None);
    }

    /// The half round trips among the first twelve at whose end the pipe is full, where of each `shares` is lost.
    fn full_with(shares: [f64; 3], arrives: f64) -> Vec<usize> {
        let mut overshoot = Overshoot::default();
        let is_full = |period: usize| {
            (0..8).any(|tack| {
                let lost = shares[period % shares.len()];
                let signs = Signs {
                    rtt: Some(RTT),
                    queued: Some(Duration::ZERO),
                    rtt_min: RTT,
                    rate: Some(Rate::from_mbps(100).mul_f64(arrives)),
                    expected: Some(Rate::from_mbps(100).mul_f64(Growth::Clear.short())),
                    app_limited: false,
                    delivered: (10_000.0 * (1.0 - lost)) as u64,
                    lost: (10_000.0 * lost) as u64,
                };
                overshoot.on_ack(&signs, Instant::from_millis(period as u64 * 40 + tack * 5))
            })
        };
        (0..12).map(is_full).enumerate().filter(|(_, full)| *full).map(|(i, _)| i).collect()
    }

    #[test]
    fn a_buffer_too_short_to_wait_in_shows_by_what_it_loses() {
        assert!(full_with([0.5; 3], 0.5).first().is_some_and(|period| *period <= 4));
        assert_eq!(full_with([0.1; 3], 0.5), [], "random loss");
        assert_eq!(full_with([0.6, 0.0, 0.0], 0.5), [], "a burst of it");
        assert_eq!(full_with([0.5; 3], 0.7), [], "what arrives grows with what is sent");
    }

    #[test]
    fn acknowledgments_that_tell_no_rate_fill_no_pipe_however_long_packets_waited() {
        let full_of = |rate: Option<Rate>| {
            let mut overshoot = Overshoot::default();
            let signs = Signs {
                rtt: Some(RTT * 2),
                queued: Some(RTT),
                rtt_min: RTT,
                rate,
                expected: Some(Rate::from_mbps(60)),
                app_limited: false,
                delivered: 0,
                lost: 0,
            };
            (0..64u64).any(|ack| overshoot.on_ack(&signs, Instant::from_millis(ack * 5)))
        };
        assert!(!full_of(None));
        assert!(full_of(Some(Rate::from_mbps(50))), "less arrives than was sent");
    }

    #[test]
    fn what_acknowledgments_wait_for_fills_no_pipe_and_makes_room_in_flight() {
        assert_eq!(full_of(0, 40, 0.5), None);
        assert!(full_of(40, 10, 0.5).is_some());
        let mut overshoot = Overshoot::default();
        let signs = Signs {
            rtt: Some(RTT * 2),
            queued: Some(Duration::ZERO),
            rtt_min: RTT,
            rate: Some(Rate::from_mbps(80)),
            expected: None,
            app_limited: false,
            delivered: 0,
            lost: 0,
        };
        overshoot.on_ack(&signs, Instant::ZERO);
        assert_eq!(overshoot.flight(Growth::Clear, RTT, 0), Some(10_000 * 2 * 160));
    }

    #[test]
    fn what_an_application_lets_through_bounds_no_flight() {
        let mut overshoot = Overshoot::default();
        let mut signs = Signs {
            rtt: Some(RTT),
            queued: Some(Duration::ZERO),
            rtt_min: RTT,
            rate: Some(Rate::from_mbps(1)),
            expected: None,
            app_limited: true,
            delivered: 0,
            lost: 0,
        };
        let mut flight_after = |signs: &Signs, from_ms: u64| {
            (0..32).for_each(|tack| {
                overshoot.on_ack(signs, Instant::from_millis(from_ms + tack * 5));
            });
            overshoot.flight(Growth::Doubling, RTT, 0)
        };
        assert_eq!(flight_after(&signs, 0), None);
        signs.app_limited = false;
        assert!(flight_after(&signs, 160).is_some_and(|flight| flight < 100_000));
        signs.app_limited = true;
        assert_eq!(flight_after(&signs, 320), None);
    }
}
