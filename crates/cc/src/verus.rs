//! Verus: for a delay, the window that makes it, as the path itself has shown [Zaki et al., SIGCOMM
//! 2015].
//!
//! For cellular links, whose rate changes faster than round trips can follow. Every 5 ms it chooses
//! a delay a little higher or lower, and looks up the window for it in the *delay profile*, which
//! every acknowledgment refreshes:
//!
//! ```text
//! D_max   greatest delay of an epoch, smoothed         dD: its change
//! D_est   - 2 ms   if D_max > 2 D_min                  at least D_min
//!         - 1 ms   if dD > 0
//!         + 2 ms   otherwise
//! W       = profile^-1(D_est)                          profile: window -> delay
//! ```
//!
//! Slow start fills the profile, and ends with loss or a delay of 15 `D_min`. Loss halves the window
//! that the lost packet left in; until it is repaired the window grows by a segment per round, and
//! the profile learns nothing.
//!
//! Deviation: the paper sends `W_(i+1) + (2 - n)/(n - 1) W_i` segments in an epoch, which keeps
//! `W` of them in flight; here `W` is the window, and a pacer spreads it over a round trip.
//!
//! Deviation: between its points the profile is a line, not a cubic spline fitted once a second.
//! A spline through points that noise has moved swings below and above them.
//!
//! `R` = 2 is the most careful of the paper's three (2, 4, 6).

use core::time::Duration;
use std::collections::BTreeMap;

use tack_units::{Instant, Rate, WindowedMin};

use crate::config::Config;
use crate::controller::Controller;
use crate::flight::{Departures, Limits};
use crate::inspect::{Inspect, Snapshot};
use crate::sample::{AckSample, LossKind, LossSample};

/// Verus.
#[derive(Clone, Debug)]
pub struct Verus {
    limits: Limits,
    departures: Departures,
    profile: Profile,
    /// In segments, fractions included.
    cwnd: f64,
    phase: Phase,
    d_min: WindowedMin<Duration>,
    /// Seconds: the smoothed greatest delay, and that of one epoch before.
    d_max: Option<f64>,
    d_est: f64,
    epoch: Epoch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    SlowStart,
    Normal,
    Recovery,
}

/// The epoch under way.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    ends: Instant,
    /// Greatest delay so far, in seconds.
    greatest: Option<f64>,
}

const EPOCH: Duration = Duration::from_millis(5);
const DELTA_1: f64 = 0.001;
const DELTA_2: f64 = 0.002;
/// `R`.
const RATIO: f64 = 2.0;
/// Slow start ends at so many `D_min`.
const SLOW_START_RATIO: f64 = 15.0;
/// What loss leaves of the window.
const M: f64 = 0.5;
/// Weight of the newest epoch in `D_max`.
const D_MAX_GAIN: f64 = 0.8;
/// Changes of `D_max` that are none: clocks and bursts.
const STEADY_S: f64 = 0.000_1;
const D_MIN_WINDOW: Duration = Duration::from_secs(10);
const MIN_CWND: f64 = 2.0;
const MAX_CWND: f64 = 1e6;
const PACING_GAIN: f64 = 1.25;

/// Delays in seconds by window in segments.
#[derive(Clone, Debug, Default)]
struct Profile {
    points: BTreeMap<u32, f64>,
}

/// Weight of a new delay in a point of the profile.
const POINT_GAIN: f64 = 0.25;
/// Windows within a sixty-fourth of each other are one point: what bounds their number, 64 for each
/// doubling.
const GRAIN: u32 = 64;
/// How much further than the profile reaches a window may go.
const BEYOND: f64 = 1.25;

impl Profile {
    fn learn(&mut self, window: f64, delay: f64) {
        let window = window.clamp(1.0, MAX_CWND) as u32;
        // Rounded to the six leading bits.
        let step = 1 << (u32::BITS - window.leading_zeros()).saturating_sub(GRAIN.ilog2() + 1);
        let point = self.points.entry(window / step * step).or_insert(delay);
        *point += POINT_GAIN * (delay - *point);
    }

    /// The window under the first one whose delay is more than `delay`; `None` without points.
    fn window_for(&self, delay: f64) -> Option<f64> {
        let mut below: Option<(f64, f64)> = None;
        for (&window, &d) in &self.points {
            let window = f64::from(window);
            if d > delay {
                return Some(below.map_or(window * delay / d, |(w, before)| {
                    w + (window - w) * (delay - before) / (d - before)
                }));
            }
            below = Some((window, d));
        }
        below.map(|(w, d)| w * (delay / d.max(1e-6)).clamp(1.0, BEYOND))
    }

    /// The delay that `window` makes.
    fn delay_of(&self, window: f64) -> Option<f64> {
        let window = window.clamp(1.0, MAX_CWND) as u32;
        let below = self.points.range(..=window).next_back();
        below.or_else(|| self.points.iter().next()).map(|(_, d)| *d)
    }
}

impl Verus {
    /// In slow start.
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        let limits = Limits::new(config);
        Verus {
            limits,
            departures: Departures::default(),
            profile: Profile::default(),
            cwnd: limits.segments(config.initial_window),
            phase: Phase::SlowStart,
            d_min: WindowedMin::new(D_MIN_WINDOW.as_nanos() as u64),
            d_max: None,
            d_est: 0.0,
            epoch: Epoch { ends: now + EPOCH, greatest: None },
        }
    }

    fn d_min_s(&self) -> Option<f64> {
        Some(self.d_min.get()?.as_secs_f64())
    }

    fn measure(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.rtt.filter(|rtt| !rtt.is_zero()) else { return };
        self.d_min.update((ack.now - Instant::ZERO).as_nanos() as u64, rtt);
        let delay = rtt.as_secs_f64();
        self.epoch.greatest = Some(self.epoch.greatest.map_or(delay, |d| d.max(delay)));
        if self.phase == Phase::Recovery {
            return;
        }
        if let Some(mark) = ack.newest_sent_at.and_then(|at| self.departures.at(at)) {
            self.profile.learn(self.limits.segments(mark.in_flight), delay);
        }
    }

    fn end_epoch(&mut self, now: Instant) {
        self.epoch.ends = now + EPOCH;
        let (Some(greatest), Some(d_min)) = (self.epoch.greatest.take(), self.d_min_s()) else {
            return;
        };
        let before = self.d_max.unwrap_or(greatest);
        let d_max = before + D_MAX_GAIN * (greatest - before);
        self.d_max = Some(d_max);
        match self.phase {
            Phase::SlowStart if d_max > SLOW_START_RATIO * d_min => self.begin_normal(),
            Phase::SlowStart | Phase::Recovery => {}
            Phase::Normal => {
                let change = if d_max > RATIO * d_min {
                    -DELTA_2
                } else if d_max - before > STEADY_S {
                    -DELTA_1
                } else {
                    DELTA_2
                };
                // What no delay has shown, no delay is chosen for.
                self.d_est = (self.d_est + change).clamp(d_min, SLOW_START_RATIO * d_min);
                if let Some(window) = self.profile.window_for(self.d_est) {
                    self.cwnd = window.clamp(MIN_CWND, MAX_CWND);
                }
            }
        }
    }

    /// The window in force is where the profile is entered.
    fn begin_normal(&mut self) {
        self.phase = Phase::Normal;
        let d_min = self.d_min_s().unwrap_or(0.0);
        self.d_est = self.profile.delay_of(self.cwnd).unwrap_or(d_min).max(d_min);
    }
}

impl Controller for Verus {
    fn on_sent(&mut self, bytes: u64, in_flight: u64, _app_limited: bool, now: Instant) {
        self.departures.on_sent(bytes, in_flight, 0, now);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        self.limits.on_ack(ack);
        self.measure(ack);
        if ack.now >= self.epoch.ends {
            self.end_epoch(ack.now);
        }
        let acked = self.limits.segments(ack.acked_bytes).min(self.cwnd);
        match self.phase {
            Phase::SlowStart if ack.cwnd_limited => self.cwnd += acked,
            Phase::Recovery if !ack.in_recovery => self.begin_normal(),
            Phase::Recovery => self.cwnd += acked / self.cwnd,
            Phase::SlowStart | Phase::Normal => {}
        }
        self.cwnd = self.cwnd.clamp(MIN_CWND, MAX_CWND);
    }

    fn on_loss(&mut self, loss: &LossSample) {
        match loss.kind {
            LossKind::Spurious => self.begin_normal(),
            LossKind::Timeout => {
                self.limits.on_timeout();
                // The path is not what the profile says.
                self.profile = Profile::default();
                (self.cwnd, self.phase) = (MIN_CWND, Phase::SlowStart);
            }
            LossKind::CongestionExperienced if self.phase == Phase::Recovery => {}
            // Another episode may begin with the acknowledgment that ends the one before.
            LossKind::Recovery | LossKind::CongestionExperienced => {
                let flight = loss.in_flight.saturating_add(loss.lost_bytes);
                let at_loss = self.limits.segments(flight).min(self.cwnd);
                self.cwnd = (M * at_loss).clamp(MIN_CWND, MAX_CWND);
                self.phase = Phase::Recovery;
            }
        }
    }

    fn window(&self) -> u64 {
        self.limits.window(self.limits.bytes(self.cwnd))
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let gain = if self.phase == Phase::SlowStart { 2.0 } else { PACING_GAIN };
        self.limits.pace(self.limits.bytes(self.cwnd), gain, None)
    }
}

impl Inspect for Verus {
    fn set_mss(&mut self, mss: u32) {
        let bytes = self.limits.bytes(self.cwnd);
        self.limits.set_mss(mss);
        self.cwnd = self.limits.segments(bytes).clamp(MIN_CWND, MAX_CWND);
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        let state = match self.phase {
            Phase::SlowStart => "slow_start",
            Phase::Normal => "normal",
            Phase::Recovery => "recovery",
        };
        Snapshot {
            startup: self.phase == Phase::SlowStart,
            bandwidth: self.limits.pace(self.window(), 1.0, None),
            rtt_min: self.d_min.get(),
            ..Snapshot::new(name, state, self.window(), self.pacing_rate())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of 10 ms without a queue and a segment per millisecond.
    fn profile() -> Profile {
        let mut profile = Profile::default();
        for _ in 0..50 {
            for window in 1..=60 {
                profile.learn(f64::from(window), f64::from(window.max(10)) / 1_000.0);
            }
        }
        profile
    }

    #[test]
    fn the_profile_gives_the_window_that_makes_a_delay() {
        let profile = profile();
        for window in [15.0, 20.5, 59.0] {
            let found = profile.window_for(window / 1_000.0);
            assert!(found.is_some_and(|w| (w - window).abs() < 0.1), "{window}: {found:?}");
        }
        assert!(profile.window_for(0.01).is_some_and(|w| (w - 10.0).abs() < 0.1));
        assert_eq!(profile.window_for(9.0), Some(75.0), "a quarter beyond what is known");
        assert_eq!(Profile::default().window_for(0.1), None);
    }

    #[test]
    fn each_episode_of_losses_halves_the_window_and_a_mark_within_one_does_not() {
        let mut verus = Verus::new(&Config::new(1_000), Instant::ZERO);
        let mut answer = |kind| {
            let (now, in_flight) = (Instant::from_secs(1), 1 << 20);
            let before = verus.cwnd;
            verus.on_loss(&LossSample { now, kind, lost_bytes: 1_000, in_flight });
            verus.cwnd / before
        };
        // No acknowledgment lies between one episode and the next.
        assert_eq!([LossKind::Recovery; 2].map(&mut answer), [M; 2]);
        assert_eq!(answer(LossKind::CongestionExperienced), 1.0);
    }

    #[test]
    fn a_slower_link_is_believed_at_the_first_window_that_is_too_large() {
        let mut profile = profile();
        // Now two milliseconds a segment, but only windows around 20 have been tried.
        (0..50).for_each(|_| profile.learn(20.0, 0.040));
        let found = profile.window_for(0.030);
        assert!(
            found.is_some_and(|w| w < 20.0),
            "the old points beyond are not reached: {found:?}"
        );
    }

    #[test]
    fn any_window_has_a_point_and_their_number_is_bounded() {
        let mut profile = Profile::default();
        for window in 0..200_000 {
            profile.learn(f64::from(window) * 7.0, 0.1);
        }
        assert!(profile.points.len() <= 64 * 16, "{}", profile.points.len());
    }
}
