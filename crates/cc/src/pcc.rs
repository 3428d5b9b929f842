//! PCC: try a rate, see what it brings, go where it brings more [Dong et al., NSDI 2015 and 2018].
//!
//! Time is cut into monitor intervals ([`monitor`]). Each sends at one rate, and a round trip after
//! its end it is known what came of it: a utility, one number. What a controller of this kind is, is
//! its utility and how it searches:
//!
//! ```text
//!            Starting  twice the rate every interval, until the utility falls            ([`doubling`])
//! Allegro    four intervals at r(1 +- eps), in two pairs; both pairs must agree on a direction,
//!            in which the rate then goes, in growing steps, until the utility falls  ([`allegro`])
//! Vivace     two intervals at r(1 +- eps); a step along the gradient between them     ([`vivace`])
//! ```
//!
//! Results of one interval come while later ones run; a search that takes another turn ignores what
//! was sent for the old one ([`Driver`]).
//!
//! Deviation: the `x` of a utility is the rate asked for, and throughput `x (1 - L)`. What leaves in
//! an interval is a whole number of bursts, which differs from the rate by more than the steps that
//! are to be compared. An interval in which the sender could not follow its rate does not count.
//!
//! Deviation: after a timeout the rate is halved and the search begins anew. The papers leave a path
//! that goes away to the loss term of the utility; without feedback there is none. So it is after two intervals more
//! than half of which was lost, whether or not the application kept up: the utility points the same way, by steps of
//! a few percent, of which each takes round trips through a full queue.

mod allegro;
mod doubling;
mod monitor;
mod vivace;

use core::fmt;
use core::time::Duration;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;

use tack_units::{Instant, Rate};

pub(crate) use self::allegro::Allegro;
use self::doubling::{Doubled, Doubling};
use self::monitor::{Interval, Monitor};
pub(crate) use self::vivace::Vivace;
use crate::config::Config;
use crate::controller::Controller;
use crate::flight::Limits;
use crate::inspect::{Inspect, Snapshot};
use crate::sample::{AckSample, LossKind, LossSample};

/// How rates are chosen and judged.
pub trait Search: fmt::Debug {
    /// The next interval of the present turn: its rate, and whether its result is wanted.
    fn next(&mut self, seen: Seen, dice: &mut Dice) -> Plan;

    /// What came of a wanted interval; true if the search takes another turn: intervals planned
    /// before are of no interest any more.
    fn on_result(&mut self, interval: &Outcome) -> bool;

    /// A wanted interval does not count: what is under way is planned again.
    fn retry(&mut self);

    /// The search begins anew from this rate.
    fn restart(&mut self, rate: Rate);

    /// Still looking for the order of magnitude.
    fn is_starting(&self) -> bool;

    /// The rate that the next ones are tried around.
    fn base(&self) -> Rate;

    /// Name of the state it is in.
    fn state(&self) -> &'static str;

    /// Length of an interval in round trips, of a choice within a range.
    fn round_trips(&self, dice: &mut Dice) -> f64;
}

/// What is known when an interval is planned.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Intervals of this turn whose results are not in.
    awaited: usize,
    /// The most that has arrived in a round trip, as a rate; `None` before one was measured.
    arrived: Option<Rate>,
}

/// An interval to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    rate: Rate,
    /// Its result will be asked for.
    wanted: bool,
}

/// What came of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// That it asked for.
    rate: Rate,
    /// Part of what was sent in it that was lost.
    loss: f64,
    /// Change of the round trip over time, as a line through the samples; 0 without two of them.
    rtt_gradient: f64,
    /// As [`Seen::arrived`], when its result was in.
    arrived: Option<Rate>,
}

/// The random choices of a search.
#[derive(Clone, Debug)]
pub struct Dice(Pcg32);

impl Dice {
    fn coin(&mut self) -> bool {
        self.0.next_u32() & 1 == 1
    }

    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        f64::from(self.0.next_u32()) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Runs a search over monitor intervals.
#[derive(Clone, Debug)]
pub struct Driver<S> {
    limits: Limits,
    initial_window: u64,
    search: S,
    dice: Dice,
    monitor: Monitor,
    /// In force; `None` before the first round trip.
    rate: Option<Rate>,
    /// When the interval under way is to end.
    until: Instant,
    /// Results of earlier turns are ignored.
    turn: u64,
    rtt_min: Option<Duration>,
    delivery: Delivery,
    choke: Choke,
}

/// What arrives in a round trip. The rates that acknowledgments bring will not do: one of the first two packets is
/// far too low, and one of an A-MPDU too high.
#[derive(Clone, Copy, Debug, Default)]
struct Delivery {
    /// When a round trip began, and what had been delivered then.
    since: Option<(Instant, u64)>,
    most: Option<Rate>,
}

impl Delivery {
    fn on_ack(&mut self, ack: &AckSample) {
        let (began, before) = *self.since.get_or_insert((ack.now, ack.delivered));
        let took = ack.now - began;
        if ack.srtt.is_some_and(|srtt| took >= srtt) {
            let rate = Rate::from_bytes_over(ack.delivered.saturating_sub(before), took);
            // Where nothing was sent, nothing arrived.
            self.most = self.most.max(rate.filter(|rate| *rate > Rate::ZERO));
            self.since = Some((ack.now, ack.delivered));
        }
    }
}

/// Intervals in a row more than half of which was lost, of those since the last time that something followed from it.
#[derive(Clone, Copy, Debug, Default)]
struct Choke {
    since: Instant,
    intervals: u32,
}

/// One may be a burst of losses.
const CHOKED: u32 = 2;

impl Choke {
    /// True if the rate is above the path's twice over.
    fn on_complete(&mut self, interval: &Interval, now: Instant) -> bool {
        if interval.began < self.since {
            return false;
        }
        self.intervals = if interval.is_choked() { self.intervals + 1 } else { 0 };
        let choked = self.intervals >= CHOKED;
        if choked {
            *self = Choke { since: now, intervals: 0 };
        }
        choked
    }
}

/// Stream of the seed's generator that is ours.
const PCC_STREAM: u64 = 0x0bcc;
/// An interval has room for so many segments at least [Allegro §3.1].
const MIN_SEGMENTS: u64 = 10;
/// What may be in flight, in rates times round trip: not to be what limits.
const WINDOW_GAIN: f64 = 2.0;
/// Deviation: the first rate is a window per round trip, as everywhere here; the papers say two
/// segments.
const MIN_RATE: Rate = Rate::from_kbps(50);
const MAX_RATE: Rate = Rate::from_mbps(400_000);

impl<S: Search> Driver<S> {
    fn with(search: S, config: &Config, now: Instant) -> Self {
        Driver {
            limits: Limits::new(config),
            initial_window: config.initial_window,
            search,
            dice: Dice(Pcg32::new(config.seed, PCC_STREAM)),
            monitor: Monitor::default(),
            rate: None,
            until: now,
            turn: 0,
            rtt_min: None,
            delivery: Delivery::default(),
            choke: Choke::default(),
        }
    }

    /// Begins the interval that the search wants, once the one before is over.
    fn advance(&mut self, now: Instant) {
        let Some(srtt) = self.limits.srtt().filter(|_| now >= self.until) else { return };
        if self.rate.is_none() {
            let first = Rate::from_bytes_over(self.initial_window, srtt).unwrap_or(MIN_RATE);
            self.search.restart(first.clamp(MIN_RATE, MAX_RATE));
        }
        let awaited = self.monitor.awaited(self.turn);
        let seen = Seen { awaited, arrived: self.delivery.most };
        let plan = self.search.next(seen, &mut self.dice);
        let rate = plan.rate.clamp(MIN_RATE, MAX_RATE);
        self.rate = Some(rate);
        let round_trips = self.search.round_trips(&mut self.dice);
        let least = rate.time_for(MIN_SEGMENTS.saturating_mul(self.limits.mss));
        let lasts = srtt.min(MAX_RTT).mul_f64(round_trips).max(least.unwrap_or(MAX_RTT));
        self.until = now + lasts;
        let turn = plan.wanted.then_some(self.turn);
        self.monitor.begin(rate, turn, now);
    }

    /// The search begins anew, from half the rate.
    fn halve(&mut self) {
        self.turn += 1;
        let half = self.search.base().mul_f64(0.5).clamp(MIN_RATE, MAX_RATE);
        self.search.restart(half);
        self.rate = Some(half);
        self.until = Instant::ZERO;
    }

    fn judge(&mut self, now: Instant) {
        while let Some(interval) = self.monitor.take_complete(self.limits.srtt()) {
            if self.choke.on_complete(&interval, now) {
                self.halve();
                continue;
            }
            let Interval { rate, turn, .. } = interval;
            if turn != Some(self.turn) {
                continue;
            }
            let Some(loss) = interval.loss() else {
                self.search.retry();
                self.turn += 1;
                self.until = Instant::ZERO;
                continue;
            };
            // Of ten packets one is 10 %, and twice what Allegro stands; a full queue takes as many as there are too many.
            let chance = self.search.is_starting() && interval.lost_by_chance(self.limits.mss);
            let loss = if chance { 0.0 } else { loss };
            let (rtt_gradient, arrived) = (interval.rtt_gradient(), self.delivery.most);
            let outcome = Outcome { rate, loss, rtt_gradient, arrived };
            if self.search.on_result(&outcome) {
                self.turn += 1;
                // The interval under way is of the old turn.
                self.until = Instant::ZERO;
            }
        }
    }
}

/// Longer round trips are no measure of an interval.
const MAX_RTT: Duration = Duration::from_secs(5);

impl<S: Search> Controller for Driver<S> {
    fn on_sent(&mut self, bytes: u64, in_flight: u64, app_limited: bool, now: Instant) {
        self.monitor.on_sent(bytes, in_flight, app_limited, now);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.limits.on_ack(ack);
        self.rtt_min = ack.rtt_min.or(self.rtt_min);
        self.delivery.on_ack(ack);
        self.monitor.on_ack(ack);
        self.judge(ack.now);
        self.advance(ack.now);
    }

    fn on_loss(&mut self, loss: &LossSample) {
        if loss.kind != LossKind::Timeout {
            return;
        }
        self.limits.on_timeout();
        self.monitor.forget();
        if self.rate.is_some() {
            self.halve();
        }
    }

    fn window(&self) -> u64 {
        let (Some(rate), Some(srtt)) = (self.rate, self.limits.srtt()) else {
            return self.limits.window(self.initial_window);
        };
        // The gain has room for what waits for a TACK.
        let flight = rate.mul_f64(WINDOW_GAIN).bytes_in(srtt);
        self.limits.bound(flight.max(MIN_SEGMENTS.saturating_mul(self.limits.mss)))
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rate = self.rate.or_else(|| self.limits.pace(self.initial_window, 1.0, None))?;
        Some(self.limits.floor(rate))
    }
}

impl<S: Search> Inspect for Driver<S> {
    fn set_mss(&mut self, mss: u32) {
        self.limits.set_mss(mss);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        let base = self.rate.map(|_| self.search.base());
        let gain = match (self.rate, base) {
            (Some(rate), Some(base)) => rate.as_mbps_f64() / base.as_mbps_f64().max(1e-6),
            _ => 1.0,
        };
        Snapshot {
            startup: self.search.is_starting(),
            pacing_gain: gain,
            bandwidth: base,
            rtt_min: self.rtt_min,
            ..Snapshot::new(name, self.search.state(), self.window(), self.pacing_rate())
        }
    }
}
