//! Copa: a rate of `1/(delta * dq)`, so that `1/delta` segments wait [Arun & Balakrishnan, NSDI
//! 2018].
//!
//! ```text
//! dq     = RTTstanding - RTTmin          queueing delay; RTTstanding is the least RTT of srtt/2,
//!                                        free of jitter in the way back; RTTmin that of 10 s
//! lambda = 1 / (delta * dq)              target, segments per second
//! cwnd  += or -= v / (delta * cwnd)      per segment, towards lambda; v doubles per round
//!                                        in which the direction stays the same
//! ```
//!
//! Every few round trips the queue is then empty once, if all who share it are of this kind. If it
//! was not for five, someone fills it, and Copa *competes*:
//!
//! ```text
//! nearly empty   dq < 0.1 * (RTTmax - RTTmin)      RTTmax of the last four round trips
//! default        delta = 1/2
//! competitive    1/delta is one more each round without loss, and half after one with
//! ```
//!
//! Deviation: a queue no longer than `1/delta` of our segments at our own rate, and no longer than a
//! tenth of RTTmin, counts as nearly empty, too. A tenth of the range of a few segments is less than
//! the burst of two that a pacer sends; two flows of this kind would take each other for a
//! competitor, and fill the buffer together.
//!
//! Deviation: where a receiver tells rates (TACK), slow start ends at the window that keeps `1/delta` segments waiting, and
//! so does momentum that passed its target; no step leads further down than to a queue that is empty by twice as many. Its
//! few reports come a quarter of a round trip late: slow start had passed its end twofold, momentum then led down to an
//! eighth of the path, and a flow alone on 40 Mbit/s x 150 ms had four fifths of it; momentum that led up, on a route
//! of 200 ms that had been one of 20, lost ten windows before steps of two segments had led down again.
//!
//! Paced at `2 cwnd / RTTstanding`, as bursts would wait and look like a queue. In default mode loss
//! means nothing [§2.2]; a timeout starts over.
//!
//! Deviation: past slow start at six fifths of `cwnd / RTTstanding` where a receiver tells rates. What a TACK lets leave
//! has the time until the next one; at twice the pace half of it waited in the queue, of which the least round trip tells
//! nothing: behind ten packets, at 8 Mbit/s and 80 ms, one flow sent 47 % of its packets again (plain TCP 0.1 %).

use core::time::Duration;
use std::collections::VecDeque;

use tack_units::{Instant, Rate, WindowedMin};

use crate::config::Config;
use crate::controller::Controller;
use crate::delivered::Delivered;
use crate::flight::{Limits, Rounds};
use crate::inspect::{Inspect, Snapshot};
use crate::sample::{AckSample, LossKind, LossSample, RateSample, RateSource};

/// Copa.
#[derive(Clone, Debug)]
pub struct Copa {
    limits: Limits,
    /// In segments, fractions included.
    cwnd: f64,
    slow_start: bool,
    rtt_min: WindowedMin<Duration>,
    standing: Extreme,
    rtt_max: Extreme,
    velocity: Velocity,
    rounds: Rounds,
    /// `1/delta`: 2 in default mode.
    weight: f64,
    competitive: bool,
    nearly_empty_at: Instant,
    /// The round under way has seen a loss.
    lost: bool,
    delivered: Delivered,
    /// Greatest rates that the receiver told in this round, and in the one before.
    told: Told,
}

/// `1/delta` in default mode.
const DEFAULT_WEIGHT: f64 = 2.0;
/// Far more than a path holds: a bound, no rule.
const MAX_WEIGHT: f64 = 1e6;
/// RTTmin is the least sample of so long.
const RTT_MIN_WINDOW: Duration = Duration::from_secs(10);
/// Round trips without an empty queue that show a competitor.
const PATIENCE: u32 = 5;
/// Round trips that RTTmax is taken over.
const RTT_MAX_ROUNDS: u32 = 4;
/// Part of the range of round trips under which a queue counts as nearly empty.
const NEARLY_EMPTY: f64 = 0.1;
/// Rounds in one direction after which the velocity doubles.
const STEADY_ROUNDS: u32 = 3;
const MIN_CWND: f64 = 2.0;
const MAX_CWND: f64 = 1e7;
const PACING_GAIN: f64 = 2.0;
const TOLD_PACING_GAIN: f64 = 1.2;

/// Greatest rates that a receiver tells in a round and in the one before: of its intervals, and of round trips.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    now: [Rate; 2],
    before: [Rate; 2],
}

impl Told {
    fn on_ack(&mut self, ack: &AckSample, bounded: Option<RateSample>) {
        let counts =
            |sample: &RateSample| sample.source == RateSource::Receiver && !sample.app_limited;
        for (greatest, sample) in self.now.iter_mut().zip([ack.rate, bounded]) {
            let rate = sample.filter(counts).and_then(|sample| sample.delivery_rate);
            *greatest = (*greatest).max(rate.unwrap_or(Rate::ZERO));
        }
    }

    fn on_round(&mut self) {
        self.before = core::mem::take(&mut self.now);
    }

    fn interval(&self) -> Rate {
        self.now[0].max(self.before[0])
    }

    fn round_trip(&self) -> Rate {
        self.now[1].max(self.before[1])
    }
}

/// How fast the window moves, and where.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Velocity {
    v: f64,
    up: bool,
    /// Rounds it has gone the same way.
    rounds: u32,
    /// The window when the round began.
    began_at: f64,
}

impl Velocity {
    fn at_rest(cwnd: f64) -> Self {
        Velocity { v: 1.0, up: true, rounds: 0, began_at: cwnd }
    }

    /// A round is over, and the window came to this.
    fn on_round(&mut self, cwnd: f64) {
        let up = cwnd > self.began_at;
        if up == self.up {
            self.rounds += 1;
            if self.rounds >= STEADY_ROUNDS {
                self.v *= 2.0;
            }
        } else {
            (self.v, self.rounds) = (1.0, 0);
        }
        (self.up, self.began_at) = (up, cwnd);
    }

    /// It goes up faster than a step of `1/delta` segments per round.
    fn has_momentum_up(&self) -> bool {
        self.up && self.v > 1.0
    }

    /// The next step, in segments, for `acked` of them: never more than doubles the window.
    fn step(&mut self, up: bool, acked: f64, weight: f64, cwnd: f64) -> f64 {
        if up != self.up && self.v > 1.0 {
            // The target was passed: no momentum beyond it.
            (self.v, self.rounds, self.up) = (1.0, 0, up);
        }
        let step = (self.v * weight / cwnd * acked).min(acked);
        if up { step } else { -step }
    }
}

/// The extreme of the samples of a time that changes with the round trip.
#[derive(Clone, Debug)]
struct Extreme {
    /// Each better than those behind it; in order of time.
    samples: VecDeque<(Instant, Duration)>,
    greatest: bool,
}

/// Samples closer than this part of the window count as one: what bounds their number.
const GRAIN: u32 = 64;

impl Extreme {
    fn least() -> Self {
        Extreme { samples: VecDeque::new(), greatest: false }
    }

    fn greatest() -> Self {
        Extreme { samples: VecDeque::new(), greatest: true }
    }

    fn update(&mut self, value: Duration, window: Duration, now: Instant) {
        let beats = |old: Duration| if self.greatest { value >= old } else { value <= old };
        while self.samples.back().is_some_and(|(_, old)| beats(*old)) {
            self.samples.pop_back();
        }
        let close = |(at, _): &(Instant, Duration)| now.saturating_since(*at) < window / GRAIN;
        if !self.samples.back().is_some_and(close) {
            self.samples.push_back((now, value));
        }
        while self.samples.len() > 1
            && self.samples.front().is_some_and(|(at, _)| now.saturating_since(*at) > window)
        {
            self.samples.pop_front();
        }
        self.samples.truncate(GRAIN as usize * 2);
    }

    fn get(&self) -> Option<Duration> {
        self.samples.front().map(|(_, value)| *value)
    }
}

impl Copa {
    /// In slow start.
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let limits = Limits::new(config);
        let cwnd = limits.segments(config.initial_window);
        Copa {
            limits,
            cwnd,
            slow_start: true,
            rtt_min: WindowedMin::new(RTT_MIN_WINDOW.as_nanos() as u64),
            standing: Extreme::least(),
            rtt_max: Extreme::greatest(),
            velocity: Velocity::at_rest(cwnd),
            rounds: Rounds::default(),
            weight: DEFAULT_WEIGHT,
            competitive: false,
            nearly_empty_at: now,
            lost: false,
            delivered: Delivered::default(),
            told: Told::default(),
        }
    }

    fn measure(&mut self, rtt: Duration, now: Instant) {
        let srtt = self.limits.srtt().unwrap_or(rtt);
        let position = u64::try_from((now - Instant::ZERO).as_nanos()).unwrap_or(u64::MAX);
        self.rtt_min.update(position, rtt);
        self.standing.update(rtt, srtt / 2, now);
        self.rtt_max.update(rtt, srtt.saturating_mul(RTT_MAX_ROUNDS), now);
        let Some(queueing) = self.queueing() else { return };
        let standing = self.standing.get().unwrap_or(rtt).as_secs_f64();
        let rtt_min = self.rtt_min.get().unwrap_or(rtt);
        let range = self.rtt_max.get().unwrap_or(rtt).saturating_sub(rtt_min);
        // What two segments of ours take at our part of the rate.
        let own = (standing * DEFAULT_WEIGHT / self.cwnd).min(rtt_min.as_secs_f64() / 10.0);
        if queueing.as_secs_f64() <= (range.as_secs_f64() * NEARLY_EMPTY).max(own) {
            self.nearly_empty_at = now;
        }
        let patience = srtt.saturating_mul(PATIENCE);
        let competitive = now.saturating_since(self.nearly_empty_at) > patience;
        if competitive != self.competitive {
            (self.competitive, self.weight) = (competitive, DEFAULT_WEIGHT);
        }
    }

    fn queueing(&self) -> Option<Duration> {
        Some(self.standing.get()?.saturating_sub(self.rtt_min.get()?))
    }

    /// The rate is below the target; `None` before the first round trip.
    fn is_below_target(&self) -> Option<bool> {
        let (standing, queueing) = (self.standing.get()?.as_secs_f64(), self.queueing()?);
        // cwnd/RTTstanding <= 1/(delta dq), with nothing divided by a queue of zero.
        Some(self.cwnd * queueing.as_secs_f64() <= self.weight * standing)
    }

    fn on_round(&mut self) {
        if !self.slow_start {
            self.velocity.on_round(self.cwnd);
        }
        if self.competitive && !self.lost {
            self.weight = (self.weight + 1.0).min(MAX_WEIGHT);
        }
        self.lost = false;
        self.told.on_round();
    }

    /// Segments that the path holds without a queue at this rate of a receiver's; `None` where none tells.
    fn held(&self, rate: Rate) -> Option<f64> {
        let rtt_min = self.rtt_min.get().filter(|_| rate > Rate::ZERO)?;
        Some(self.limits.segments(rate.bytes_in(rtt_min)))
    }

    fn pacing_gain(&self) -> f64 {
        let told = self.told.interval() > Rate::ZERO && !self.slow_start;
        if told { TOLD_PACING_GAIN } else { PACING_GAIN }
    }

    fn adjust(&mut self, ack: &AckSample) {
        let Some(below) = self.is_below_target() else { return };
        let acked = self.limits.segments(ack.acked_bytes).min(self.cwnd);
        if self.slow_start && below {
            self.cwnd += if ack.cwnd_limited { acked } else { 0.0 };
        } else {
            let passed = !below && self.velocity.has_momentum_up();
            if self.slow_start || passed {
                let goal = self.held(self.told.interval()).map(|held| held + self.weight);
                self.cwnd = self.cwnd.min(goal.unwrap_or(f64::INFINITY));
            }
            if core::mem::take(&mut self.slow_start) {
                self.velocity = Velocity { up: false, ..Velocity::at_rest(self.cwnd) };
            }
            // A window nobody uses says nothing about the path.
            if !below || ack.cwnd_limited {
                let least = self.held(self.told.round_trip()).map(|held| held - 2.0 * self.weight);
                let least = least.unwrap_or(0.0).min(self.cwnd);
                self.cwnd += self.velocity.step(below, acked, self.weight, self.cwnd);
                self.cwnd = self.cwnd.max(least);
            }
        }
        self.cwnd = self.cwnd.clamp(MIN_CWND, MAX_CWND);
    }
}

impl Controller for Copa {
    fn on_sent(&mut self, _bytes: u64, _in_flight: u64, _app_limited: bool, _now: Instant) {}

    fn on_ack(&mut self, ack: &AckSample) {
        self.limits.on_ack(ack);
        if let Some(rtt) = ack.rtt.filter(|rtt| !rtt.is_zero()) {
            self.measure(rtt, ack.now);
        }
        self.told.on_ack(ack, self.delivered.bounded(ack));
        self.delivered.on_ack(ack.delivered, ack.srtt, ack.now);
        if self.rounds.on_ack(ack) {
            self.on_round();
        }
        if ack.acked_bytes > 0 {
            self.adjust(ack);
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        match loss.kind {
            LossKind::Spurious => {}
            LossKind::Timeout => {
                self.limits.on_timeout();
                self.cwnd = MIN_CWND;
                self.slow_start = true;
                self.weight = DEFAULT_WEIGHT;
                self.velocity = Velocity::at_rest(self.cwnd);
            }
            LossKind::Recovery | LossKind::CongestionExperienced => {
                if self.competitive && !self.lost {
                    self.weight = (self.weight / 2.0).max(DEFAULT_WEIGHT);
                }
                self.lost = true;
            }
        }
    }

    fn window(&self) -> u64 {
        self.limits.window(self.limits.bytes(self.cwnd))
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.limits.pace(self.limits.bytes(self.cwnd), self.pacing_gain(), self.standing.get())
    }
}

impl Inspect for Copa {
    fn set_mss(&mut self, mss: u32) {
        let bytes = self.limits.bytes(self.cwnd);
        self.limits.set_mss(mss);
        self.cwnd = self.limits.segments(bytes).clamp(MIN_CWND, MAX_CWND);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        let state = match (self.slow_start, self.competitive) {
            (true, _) => "slow_start",
            (false, false) => "default",
            (false, true) => "competitive",
        };
        let rate = self.limits.pace(self.window(), 1.0, self.standing.get());
        Snapshot {
            startup: self.slow_start,
            pacing_gain: self.pacing_gain(),
            bandwidth: rate,
            rtt_min: self.rtt_min.get(),
            ..Snapshot::new(name, state, self.window(), self.pacing_rate())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;

    #[test]
    fn random_samples_have_the_extreme_of_the_window_up_to_a_grain_of_it() {
        use rand_pcg::rand_core::Rng;
        let mut dice = rand_pcg::Pcg32::new(4, 4);
        let window = Duration::from_millis(640);
        let (mut least, mut greatest) = (Extreme::least(), Extreme::greatest());
        let (mut all, mut now) = (Vec::new(), Instant::ZERO);
        for _ in 0..5_000 {
            now += Duration::from_millis(u64::from(dice.next_u32() % 20));
            let value = Duration::from_millis(u64::from(dice.next_u32() % 300));
            all.push((now, value));
            least.update(value, window, now);
            greatest.update(value, window, now);
            let since = |age: Duration| {
                let inside = all.iter().filter(move |(at, _)| now - *at <= age).map(|(_, v)| *v);
                (inside.clone().min(), inside.max())
            };
            // No worse than that of a window one grain shorter, no better than one longer.
            let (inner, outer) = (since(window - window / GRAIN), since(window + window / GRAIN));
            assert!(least.get() >= outer.0 && greatest.get() <= outer.1);
            let close = Duration::from_millis(10);
            let newest = all.iter().rev().take_while(|(at, _)| now - *at < close).count();
            if newest == 1 {
                assert!(least.get() <= inner.0 && greatest.get() >= inner.1);
            }
            assert!(least.samples.len() <= 2 * GRAIN as usize);
        }
    }

    #[test]
    fn the_velocity_doubles_from_the_third_round_in_one_direction_on_and_a_turn_ends_that() {
        let mut velocity = Velocity::at_rest(10.0);
        let seen: Vec<f64> = [11.0, 12.0, 13.0, 15.0, 19.0, 18.0]
            .map(|cwnd| {
                velocity.on_round(cwnd);
                velocity.v
            })
            .into();
        assert_eq!(seen, [1.0, 1.0, 2.0, 4.0, 8.0, 1.0]);
    }

    #[test]
    fn momentum_that_passes_its_target_ends_at_what_a_receiver_tells_of_the_path() {
        for (source, left) in [(RateSource::Receiver, 502), (RateSource::Sender, 900)] {
            let mut copa = Copa::new(&Config::new(1_000), Instant::ZERO);
            let hear = |copa: &mut Copa, now_ms, rtt_ms| {
                let rate = Some(RateSample {
                    delivery_rate: Some(Rate::from_mbps(20)),
                    app_limited: false,
                    source,
                    prior_delivered: 0,
                    interval: Duration::ZERO,
                });
                let rtt = Some(Duration::from_millis(rtt_ms));
                let now = Instant::from_millis(now_ms);
                let sample = AckSample { now, rtt, srtt: rtt, rate, ..ack() };
                copa.on_ack(&AckSample { acked_bytes: 1_000, delivered: 1_000, ..sample });
            };
            hear(&mut copa, 0, 200);
            (copa.slow_start, copa.cwnd) = (false, 900.0);
            copa.velocity = Velocity { v: 64.0, ..Velocity::at_rest(900.0) };
            hear(&mut copa, 1_000, 360);
            assert_eq!(copa.cwnd.round() as u64, left, "{source:?}");
        }
    }

    #[test]
    fn a_competitor_is_met_with_a_weight_that_grows_by_one_and_halves() {
        let mut copa = Copa::new(&Config::new(1_000), Instant::ZERO);
        copa.competitive = true;
        (0..8).for_each(|_| copa.on_round());
        assert_eq!(copa.weight, 10.0);
        let (kind, now) = (LossKind::Recovery, Instant::ZERO);
        copa.on_loss(&LossSample { now, kind, lost_bytes: 1_000, in_flight: 0 });
        copa.on_loss(&LossSample { now, kind, lost_bytes: 1_000, in_flight: 0 });
        assert_eq!(copa.weight, 5.0, "once per round");
    }
}
