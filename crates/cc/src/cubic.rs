//! CUBIC: a window that grows with time since the last loss, not with round trips [RFC 9438].
//!
//! ```text
//! W(t)   = C (t - K)^3 + W_max          K = cbrt((W_max - cwnd_epoch) / C)      [segments, s]
//! W_est += alpha * acked / cwnd         what Reno would have (Reno-friendly region)
//!
//! cwnd   = W_est                        where W(t) < W_est
//! cwnd  += (target - cwnd) / cwnd       per acknowledged segment otherwise,
//!                                       target = W(t + RTT) within [cwnd, 1.5 cwnd]
//! loss:    W_max = cwnd, or cwnd (1 + beta)/2 if that is less than the last W_max
//!          ssthresh = beta * cwnd
//! ```
//!
//! The curve is flat around `W_max`, where the last loss was, and steep away from it. Slow start
//! ends by HyStart++ ([`hystart`](super::hystart)). Time in which the window was not used does not
//! move the curve [RFC 9438 §4.2, §5.8].

use core::time::Duration;

use tack_units::{Instant, Rate, math};

use crate::config::Config;
use crate::controller::Controller;
use crate::hystart::{Growth, HyStart};
use crate::inspect::{Inspect, Snapshot};
use crate::sample::{AckSample, LossKind, LossSample};
use crate::window::{Answer, CongestionWindow};

/// CUBIC with HyStart++.
#[derive(Clone, Debug)]
pub struct Cubic {
    window: CongestionWindow,
    /// `None` once the first slow start is over: later ones know where to stop.
    hystart: Option<HyStart>,
    past: Past,
    /// As it was before the last reduction.
    past_before: Past,
    /// The congestion avoidance under way.
    epoch: Option<Epoch>,
    last_ack: Instant,
}

/// What past losses taught, in segments.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    w_max: f64,
    /// The window before the last reduction.
    cwnd_prior: f64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    curve: Curve,
    /// Reno's window, in segments.
    w_est: f64,
    /// Growth not yet a whole byte, in bytes.
    fraction: f64,
}

/// `W(t)`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Curve {
    /// Segments.
    w_max: f64,
    /// Seconds.
    k: f64,
}

/// Aggressiveness, segments per s^3 [RFC 9438 §5].
const C: f64 = 0.4;
/// What a reduction leaves of the window [RFC 9438 §4.6].
const BETA: f64 = 0.7;
/// Reno's additive increase that balances a reduction to `BETA` [RFC 9438 §4.3].
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// What one acknowledgment counts at most in HyStart++'s slow start where nothing is paced
/// [RFC 9406 §4.2].
const UNPACED_LIMIT_MSS: u64 = 8;
/// No round grows the window by more than half [RFC 9438 §4.2].
const MAX_GROWTH: f64 = 1.5;

impl Curve {
    /// From `cwnd` on, towards `w_max`; from a window beyond it, upwards at once.
    fn from(cwnd: f64, w_max: f64) -> Self {
        if cwnd >= w_max {
            return Self { w_max: cwnd, k: 0.0 };
        }
        Self { w_max, k: math::cbrt((w_max - cwnd) / C) }
    }

    /// Window, in segments, `t` after the epoch began.
    fn at(&self, t: Duration) -> f64 {
        C * (t.as_secs_f64() - self.k).powi(3) + self.w_max
    }
}

impl Cubic {
    /// In slow start, without a threshold.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            window: CongestionWindow::new(config),
            hystart: Some(HyStart::default()),
            past: Past::default(),
            past_before: Past::default(),
            epoch: None,
            last_ack: Instant::ZERO,
        }
    }

    fn cwnd_segments(&self) -> f64 {
        self.window.cwnd() as f64 / self.window.mss() as f64
    }

    fn slow_start(&mut self, acked: u64, ack: &AckSample) -> u64 {
        let limit = match &self.hystart {
            Some(_) if !self.window.is_paced() => UNPACED_LIMIT_MSS * self.window.mss(),
            _ => u64::MAX,
        };
        let acked = acked.min(limit);
        let mss = self.window.mss();
        let hystart = self.hystart.as_mut();
        let growth = hystart.map_or(Growth::Full, |hystart| hystart.on_ack(ack, mss));
        match growth {
            Growth::Full => self.window.slow_start(acked),
            Growth::Quarter => self.window.slow_start(acked / 4),
            Growth::Over => {
                self.hystart = None;
                self.window.leave_slow_start();
                acked
            }
        }
    }

    fn avoid_congestion(&mut self, acked: u64, ack: &AckSample) {
        let (cwnd, w_max) = (self.cwnd_segments(), self.past.w_max);
        let mss = self.window.mss() as f64;
        let epoch = self.epoch.get_or_insert_with(|| Epoch {
            began: ack.now,
            curve: Curve::from(cwnd, w_max),
            w_est: cwnd,
            fraction: 0.0,
        });
        let acked = acked as f64 / mss;
        // Past the window of the last loss, Reno itself grows by one segment per round.
        let alpha = if epoch.w_est >= self.past.cwnd_prior { 1.0 } else { ALPHA };
        epoch.w_est += alpha * acked / cwnd;
        let t = ack.now - epoch.began;
        let wanted = if epoch.curve.at(t) < epoch.w_est {
            epoch.w_est.max(cwnd)
        } else {
            let rtt = ack.srtt.unwrap_or(Duration::ZERO);
            let target = epoch.curve.at(t.saturating_add(rtt)).max(cwnd).min(cwnd * MAX_GROWTH);
            cwnd + (target - cwnd) * acked.min(cwnd) / cwnd
        };
        let bytes = (wanted - cwnd).min(cwnd) * mss + epoch.fraction;
        epoch.fraction = bytes.fract();
        self.window.set_cwnd(self.window.cwnd().saturating_add(bytes as u64));
    }

    fn reduce(&mut self, loss: &LossSample) {
        let flight = self.window.flight_at(loss);
        let segments = flight as f64 / self.window.mss() as f64;
        if self.window.begins_episode(loss.kind) {
            self.past_before = self.past;
        }
        // Fast convergence: a window that did not reach the last maximum makes room for others. In
        // whole segments: a lone flow's maxima differ by fractions of one.
        let less = segments + 1.0 <= self.past.w_max;
        self.past.w_max = if less { segments * (1.0 + BETA) / 2.0 } else { segments };
        self.past.cwnd_prior = segments;
        if loss.kind == LossKind::Timeout {
            // The window at which congestion avoidance resumes is the new maximum [RFC 9438 §4.8].
            self.past.w_max = 0.0;
        }
        self.epoch = None;
        self.hystart = None;
        // Not whole segments, unlike NewReno's: the curve grows by fractions of one, too.
        self.window.reduce((flight as f64 * BETA) as u64, loss);
    }
}

impl Controller for Cubic {
    fn on_sent(&mut self, bytes: u64, in_flight: u64, _app_limited: bool, now: Instant) {
        // What leaves after a rest may fill the window before anything is acknowledged.
        if let (true, Some(epoch)) = (in_flight <= bytes, &mut self.epoch) {
            epoch.began += now - self.last_ack;
            self.last_ack = self.last_ack.max(now);
        }
        self.window.on_sent(bytes);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let mut acked = self.window.on_ack(ack);
        if let (false, Some(epoch)) = (ack.cwnd_limited, &mut self.epoch) {
            epoch.began += ack.now - self.last_ack;
        }
        self.last_ack = ack.now;
        if acked > 0 && self.window.in_slow_start() {
            acked = self.slow_start(acked, ack);
        }
        if acked > 0 && !self.window.in_slow_start() {
            self.avoid_congestion(acked, ack);
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        match self.window.on_loss(loss) {
            Answer::Undone => {
                self.past = self.past_before;
                self.epoch = None;
            }
            Answer::Reduce => self.reduce(loss),
            Answer::Done => {}
        }
    }

    fn window(&self) -> u64 {
        self.window.window()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.window.pacing_rate()
    }
}

impl Inspect for Cubic {
    fn set_mss(&mut self, mss: u32) {
        // Windows are counted in segments, so that the curve goes on where it was in bytes.
        let ratio = self.window.mss() as f64 / f64::from(mss.max(1));
        self.window.set_mss(mss);
        self.past.w_max *= ratio;
        self.past.cwnd_prior *= ratio;
        self.epoch = None;
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        self.window.snapshot(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;
    use crate::window::tests::loss;

    #[test]
    fn the_curve_starts_at_the_reduced_window_and_is_flat_at_the_maximum() {
        // [RFC 9438 §4.2]: W(0) = cwnd_epoch, W(K) = W_max, K = cbrt(W_max (1 - beta)/C).
        let curve = Curve::from(70.0, 100.0);
        assert!((curve.k - math::cbrt(75.0)).abs() < 1e-9);
        assert!((curve.at(Duration::ZERO) - 70.0).abs() < 1e-9);
        let k = Duration::from_secs_f64(curve.k);
        assert!((curve.at(k) - 100.0).abs() < 1e-6);
        let second = Duration::from_secs(1);
        assert!((curve.at(k + second) - 100.4).abs() < 1e-6);
        assert!((curve.at(k - second) - 99.6).abs() < 1e-6);
    }

    #[test]
    fn beyond_the_maximum_the_curve_rises_at_once() {
        assert_eq!(Curve::from(100.0, 80.0), Curve { w_max: 100.0, k: 0.0 });
    }

    /// After a loss at 1000 segments, a window per 100 ms is acknowledged by 20 ACKs.
    #[test]
    fn the_window_follows_the_closed_form_and_passes_the_maximum_at_k() {
        let (mss, rtt) = (1_000, Duration::from_millis(100));
        let mut cubic = Cubic::new(&Config::new(1_000));
        cubic.window.set_cwnd(1_000 * mss);
        cubic.on_loss(&loss(LossKind::CongestionExperienced, 0, 1_000 * mss));
        assert_eq!(cubic.window(), 700 * mss);
        let curve = Curve { w_max: 1_000.0, k: math::cbrt(1_000.0 * 0.3 / 0.4) };
        let mut now = Instant::from_secs(1);
        for step in 0..150 {
            let acked_bytes = cubic.window() / 20;
            for _ in 0..20 {
                now += rtt / 20;
                cubic.on_ack(&AckSample { now, acked_bytes, srtt: Some(rtt), ..ack() });
            }
            let t = now - Instant::from_secs(1);
            let (got, expected) = (cubic.cwnd_segments(), curve.at(t));
            let error = (got / expected - 1.0).abs();
            assert!(error < 0.02, "round {step}, {t:?}: {got} of {expected} segments");
        }
        assert!(cubic.cwnd_segments() > 1_000.0, "probes beyond the old maximum");
    }

    #[test]
    fn a_smaller_maximum_makes_room_by_fast_convergence() {
        // [RFC 9438 §4.7].
        let mut cubic = Cubic::new(&Config::new(1_000));
        cubic.window.set_cwnd(100_000);
        cubic.on_loss(&loss(LossKind::CongestionExperienced, 0, 100_000));
        assert_eq!(cubic.past.w_max, 100.0);
        cubic.on_loss(&loss(LossKind::CongestionExperienced, 0, 70_000));
        assert!((cubic.past.w_max - 70.0 * 0.85).abs() < 1e-9);
    }

    #[test]
    fn a_needless_reduction_restores_window_and_memory() {
        let mut cubic = Cubic::new(&Config::new(1_000));
        cubic.window.set_cwnd(100_000);
        cubic.window.leave_slow_start();
        cubic.past.w_max = 120.0;
        cubic.on_loss(&loss(LossKind::Recovery, 1_000, 99_000));
        assert_eq!(cubic.window.ssthresh(), Some(70_000));
        cubic.on_loss(&loss(LossKind::Spurious, 0, 99_000));
        assert_eq!((cubic.window(), cubic.past.w_max), (100_000, 120.0));
    }

    #[test]
    fn a_rest_does_not_move_the_curve_though_the_window_is_full_right_after_it() {
        let run = |rest: Duration| {
            let mut cubic = Cubic::new(&Config::new(1_000));
            cubic.window.set_cwnd(1_000_000);
            cubic.on_loss(&loss(LossKind::CongestionExperienced, 0, 1_000_000));
            let mut now = Instant::from_secs(1);
            let rounds = |cubic: &mut Cubic, now: &mut Instant| {
                for _ in 0..100 {
                    *now += Duration::from_millis(10);
                    cubic.on_ack(&AckSample { now: *now, acked_bytes: 70_000, ..ack() });
                }
            };
            rounds(&mut cubic, &mut now);
            now += rest;
            for sent in 1..=700 {
                cubic.on_sent(1_000, sent * 1_000, false, now);
            }
            rounds(&mut cubic, &mut now);
            cubic.window()
        };
        assert_eq!(run(Duration::ZERO), run(Duration::from_secs(60)));
    }

    #[test]
    fn time_without_use_of_the_window_does_not_move_the_curve() {
        let run = |pause: Duration| {
            let mut cubic = Cubic::new(&Config::new(1_000));
            cubic.window.set_cwnd(1_000_000);
            cubic.on_loss(&loss(LossKind::CongestionExperienced, 0, 1_000_000));
            let used = |now| AckSample { now, acked_bytes: 1_000, ..ack() };
            cubic.on_ack(&used(Instant::from_secs(1)));
            let resumed = Instant::from_secs(1) + pause;
            cubic.on_ack(&AckSample { cwnd_limited: false, ..used(resumed) });
            (0..700).for_each(|_| cubic.on_ack(&used(resumed + Duration::from_millis(100))));
            cubic.window()
        };
        assert_eq!(run(Duration::ZERO), run(Duration::from_secs(60)));
    }
}
