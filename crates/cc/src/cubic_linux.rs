//! CUBIC as Linux has it: the curve of [RFC 9438], grown by a count of acknowledged segments.
//!
//! ```text
//! delta  = C (t - K)^3            K = cbrt((W_last_max - cwnd) / C)     t: since the epoch + RTTmin
//! count  = cwnd / (W_last_max + delta - cwnd)       segments to acknowledge per segment of growth
//! count <= cwnd / (W_est - cwnd)                    where Reno would be ahead (W_est > cwnd)
//! W_est += 1 per cwnd/0.53 acknowledged segments    never faster, whatever the last maximum
//! ```
//!
//! Where it differs from [`cubic`](super::cubic), which follows the RFC to the letter: windows are
//! whole segments; the count is computed anew when the window changed, and otherwise every 31 ms;
//! Reno's estimate keeps its slope of 0.53 beyond the last maximum, where the RFC says 1
//! [RFC 9438 §4.3]; and slow start ends by the first HyStart, by the length of a train of
//! acknowledgments too [Ha & Rhee 2008], at once instead of gradually.
//!
//! Under random loss it is a fifth slower than the RFC's. It is here because a comparison with the
//! kernel's TCP should compare TCPs, not editions of CUBIC. Facts as of Linux 6.18.

use core::time::Duration;

use tack_units::{Instant, Rate, math};

use crate::config::{Config, Pacing};
use crate::controller::Controller;
use crate::inspect::{Inspect, Snapshot};
use crate::sample::{AckSample, LossKind, LossSample};
use crate::train::Train;
use crate::window::{Answer, CongestionWindow};

/// Linux's CUBIC with its HyStart.
#[derive(Clone, Debug)]
pub struct CubicLinux {
    window: CongestionWindow,
    hystart: Train,
    /// The window before the last reduction, in segments; zero before the first one and after a
    /// timeout.
    last_max: u64,
    /// The congestion avoidance under way.
    epoch: Option<Epoch>,
    /// Least RTT since the last timeout.
    delay_min: Option<Duration>,
    /// Acknowledged segments not yet turned into growth.
    credit: f64,
    last_sent: Instant,
}

#[derive(Clone, Debug)]
struct Epoch {
    began: Instant,
    /// The plateau, in segments.
    origin: f64,
    /// Seconds until it is reached.
    k: f64,
    /// What Reno would have, in segments.
    w_est: u64,
    /// Acknowledged segments it has not grown by yet.
    w_est_credit: f64,
    /// Segments to acknowledge per segment of growth.
    count: u64,
    computed_at: Instant,
    computed_for: u64,
}

/// Aggressiveness, segments per s^3, and what a reduction leaves, as Linux rounds them.
const C: f64 = 410.0 / 1024.0;
const BETA: f64 = 717.0 / 1024.0;
/// Acknowledged windows per segment that Reno's estimate grows by: 15/8.
const WINDOWS_PER_SEGMENT: f64 = 1.875;
/// The timer's tick of most distributions: nothing is computed twice within one.
const TICK: Duration = Duration::from_millis(4);
/// While the window stays the same, the count is computed this often.
const RECOMPUTE: Duration = Duration::from_micros(31_250);
/// Before any loss the window grows by 5 % per round at least.
const COUNT_UNTIL_LOSS: u64 = 20;
/// The plateau: one segment in a hundred rounds.
const PLATEAU_ROUNDS: u64 = 100;

/// HyStart stays out of smaller windows, in segments.
const LOW_WINDOW: u64 = 16;
/// RTT samples right after a reduction tell of the queue before it.
const SETTLING: Duration = Duration::from_secs(1);

impl Epoch {
    fn new(cwnd: u64, last_max: u64, now: Instant) -> Self {
        let below = last_max.saturating_sub(cwnd) as f64;
        Self {
            began: now,
            origin: last_max.max(cwnd) as f64,
            k: math::cbrt(below / C),
            w_est: cwnd,
            w_est_credit: 0.0,
            count: cwnd.saturating_mul(PLATEAU_ROUNDS),
            computed_at: now,
            computed_for: 0,
        }
    }

    /// Segments to acknowledge per segment of growth, `acked` more having been acknowledged.
    fn count(
        &mut self,
        cwnd: u64,
        acked: f64,
        rtt_min: Duration,
        lossless: bool,
        now: Instant,
    ) -> u64 {
        self.w_est_credit += acked;
        let since = now - self.computed_at;
        if self.computed_for == cwnd && since <= RECOMPUTE {
            return self.count;
        }
        if self.computed_for == 0 || since >= TICK {
            (self.computed_for, self.computed_at) = (cwnd, now);
            self.count = self.by_curve(cwnd, rtt_min, now);
            if lossless {
                self.count = self.count.min(COUNT_UNTIL_LOSS);
            }
        }
        let per_segment = (cwnd as f64 * WINDOWS_PER_SEGMENT).floor().max(1.0);
        let steps = (self.w_est_credit / per_segment).floor();
        self.w_est_credit -= steps * per_segment;
        self.w_est = self.w_est.saturating_add(steps as u64);
        if self.w_est > cwnd {
            self.count = self.count.min(cwnd / (self.w_est - cwnd));
        }
        // No more than half a window per round.
        self.count = self.count.max(2);
        self.count
    }

    fn by_curve(&self, cwnd: u64, rtt_min: Duration, now: Instant) -> u64 {
        let t = (now - self.began).saturating_add(rtt_min).as_secs_f64();
        let target = (self.origin + C * (t - self.k).powi(3)).floor();
        let above = target - cwnd as f64;
        // `as` saturates; above is at least one segment where it divides.
        if above >= 1.0 {
            (cwnd as f64 / above) as u64
        } else {
            cwnd.saturating_mul(PLATEAU_ROUNDS)
        }
    }
}

impl CubicLinux {
    /// In slow start, without a threshold.
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            window: CongestionWindow::new(config),
            hystart: Train::new(config.pacing == Pacing::Always),
            last_max: 0,
            epoch: None,
            delay_min: None,
            credit: 0.0,
            last_sent: Instant::ZERO,
        }
    }

    fn segments(&self, bytes: u64) -> u64 {
        (bytes / self.window.mss()).max(1)
    }

    fn avoid_congestion(&mut self, acked: u64, now: Instant) {
        let mss = self.window.mss();
        let cwnd = self.segments(self.window.cwnd());
        let acked = acked as f64 / mss as f64;
        let rtt_min = self.delay_min.unwrap_or(Duration::ZERO);
        let last_max = self.last_max;
        let epoch = self.epoch.get_or_insert_with(|| Epoch::new(cwnd, last_max, now));
        let count = epoch.count(cwnd, acked, rtt_min, last_max == 0, now) as f64;
        let mut grown = 0;
        if self.credit >= count {
            // A count that shrank meanwhile does not turn its credit into a burst.
            self.credit = 0.0;
            grown += 1;
        }
        self.credit += acked;
        if self.credit >= count {
            let steps = (self.credit / count).floor();
            self.credit -= steps * count;
            grown += steps as u64;
        }
        let bytes = grown.saturating_mul(mss);
        self.window.set_cwnd(self.window.cwnd().saturating_add(bytes));
    }

    fn watch_delay(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        if self.epoch.as_ref().is_some_and(|epoch| ack.now - epoch.began < SETTLING) {
            return;
        }
        let delay_min = self.delay_min.map_or(rtt, |least| least.min(rtt));
        self.delay_min = Some(delay_min);
        if self.hystart.has_found() || !self.window.in_slow_start() {
            return;
        }
        self.hystart.count_rounds(ack);
        let watch = self.segments(self.window.cwnd()) >= LOW_WINDOW;
        if watch && self.hystart.on_ack(ack, self.window.mss(), rtt, delay_min) {
            self.window.leave_slow_start();
        }
    }

    fn reduce(&mut self, loss: &LossSample) {
        let flight = self.window.flight_at(loss);
        let segments = self.segments(flight);
        // Fast convergence: a window that did not reach the last maximum makes room for others.
        let less = segments < self.last_max;
        self.last_max = if less { (segments as f64 * (1.0 + BETA) / 2.0) as u64 } else { segments };
        (self.epoch, self.credit) = (None, 0.0);
        if loss.kind == LossKind::Timeout {
            self.forget();
        }
        let left = self.segments(self.window.left_of(flight, BETA, loss.kind));
        self.window.reduce(left.saturating_mul(self.window.mss()), loss);
    }

    /// After a timeout the path is taken to be another.
    fn forget(&mut self) {
        (self.last_max, self.delay_min) = (0, None);
        self.hystart = self.hystart.restarted();
    }
}

impl Controller for CubicLinux {
    fn on_sent(&mut self, bytes: u64, in_flight: u64, _app_limited: bool, now: Instant) {
        // Time without anything in flight does not move the curve [RFC 9438 §5.8].
        if let (true, Some(epoch)) = (in_flight <= bytes, &mut self.epoch) {
            epoch.began += now - self.last_sent;
        }
        self.last_sent = now;
        self.window.on_sent(bytes);
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let mut acked = self.window.on_ack(ack);
        if acked > 0 && self.window.in_slow_start() {
            acked = self.window.slow_start(acked);
        }
        if acked > 0 && !self.window.in_slow_start() {
            self.avoid_congestion(acked, ack.now);
        }
        self.watch_delay(ack);
    }

    fn on_loss(&mut self, loss: &LossSample) {
        if self.window.on_loss(loss) == Answer::Reduce {
            self.reduce(loss);
        }
    }

    fn window(&self) -> u64 {
        self.window.window()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.window.pacing_rate()
    }
}

impl Inspect for CubicLinux {
    fn set_mss(&mut self, mss: u32) {
        // Windows are counted in segments, so that the curve goes on where it was in bytes.
        let before = self.window.mss();
        self.window.set_mss(mss);
        self.last_max = self.last_max.saturating_mul(before) / self.window.mss();
        self.epoch = None;
    }

    fn snapshot(&self, name: &'static str) -> Snapshot {
        Snapshot { rtt_min: self.delay_min, ..self.window.snapshot(name) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::ack;
    use crate::window::tests::loss;

    const MSS: u64 = 1_000;
    const RTT: Duration = Duration::from_millis(100);

    fn unpaced() -> CubicLinux {
        let config = Config { pacing: Pacing::OnlyIfRateBased, ..Config::new(1_000) };
        CubicLinux::new(&config)
    }

    /// A round trip of `RTT` in which the window is acknowledged by `acks` at even distances.
    fn round(cubic: &mut CubicLinux, now: &mut Instant, delivered: &mut u64, acks: u32) {
        let window = cubic.window();
        for _ in 0..acks {
            *now += RTT / acks;
            let acked_bytes = window / u64::from(acks);
            *delivered += acked_bytes;
            let (delivered, now) = (*delivered, *now);
            let rtt = Some(RTT);
            let in_flight = window - acked_bytes;
            cubic.on_ack(&AckSample { now, acked_bytes, delivered, in_flight, rtt, ..ack() });
        }
    }

    #[test]
    fn the_window_follows_the_curve_to_the_last_maximum_and_beyond() {
        let mut cubic = unpaced();
        cubic.window.set_cwnd(1_000 * MSS);
        cubic.on_loss(&loss(LossKind::CongestionExperienced, 0, 1_000 * MSS));
        assert_eq!(cubic.window(), 700 * MSS);
        let (mut now, mut delivered) = (Instant::from_secs(1), 0);
        let k = math::cbrt(300.0 / C);
        for step in 0..150 {
            round(&mut cubic, &mut now, &mut delivered, 20);
            let t = (now - Instant::from_secs(1)).as_secs_f64();
            let expected = 1_000.0 + C * (t - k).powi(3);
            let got = cubic.window() as f64 / MSS as f64;
            assert!((got / expected - 1.0).abs() < 0.02, "round {step}: {got} of {expected}");
        }
        assert!(cubic.window() > 1_000 * MSS);
    }

    #[test]
    fn reno_s_estimate_keeps_its_slope_beyond_the_last_maximum() {
        // A small window on a short path is Reno's affair: 0.53 segments per round, for ever.
        let mut cubic = unpaced();
        cubic.window.set_cwnd(20 * MSS);
        cubic.on_loss(&loss(LossKind::CongestionExperienced, 0, 20 * MSS));
        let rtt = Duration::from_millis(2);
        let mut now = Instant::from_secs(1);
        for _ in 0..60 {
            let window = cubic.window();
            for _ in 0..10 {
                now += rtt / 10;
                cubic.on_ack(&AckSample { now, acked_bytes: window / 10, ..ack() });
            }
        }
        let got = cubic.window() / MSS;
        // 14 + 60 * 0.53 = 46, in whole segments; with a slope of 1 from 20 on it would be 69.
        assert!((42..=48).contains(&got), "{got} segments");
    }

    #[test]
    fn rounds_begin_with_the_first_acknowledgment_however_small_the_window() {
        // Ten segments, acknowledged 1 ms apart; then twenty, forty, each train a round of its own.
        // Rounds that began in the middle of a train would see its queue as the whole round's.
        let mut cubic = unpaced();
        let (mut start, mut delivered) = (Instant::from_secs(1), 0);
        for train in [10, 20, 40] {
            for n in 0..train {
                delivered += MSS;
                let now = start + Duration::from_millis(n);
                let rtt = Some(RTT + Duration::from_micros(700 * n));
                let in_flight = cubic.window() - MSS;
                cubic.on_ack(&AckSample {
                    now,
                    acked_bytes: MSS,
                    delivered,
                    in_flight,
                    rtt,
                    ..ack()
                });
            }
            start += RTT;
        }
        assert!(cubic.window.in_slow_start(), "40 ms of acknowledgments are no half of 100 ms");
        assert_eq!(cubic.window(), 80 * MSS);
    }

    #[test]
    fn a_train_of_acknowledgments_as_long_as_half_the_rtt_ends_slow_start() {
        let end = |spacing: Duration, paced: Pacing| {
            let mut cubic = CubicLinux::new(&Config { pacing: paced, ..Config::new(1_000) });
            cubic.window.set_cwnd(32 * MSS);
            let (mut now, mut delivered) = (Instant::from_secs(1), 0);
            for n in 1..=90 {
                now += spacing;
                delivered += MSS;
                let (rtt, in_flight) = (Some(RTT), 100 * MSS);
                let one = AckSample { now, acked_bytes: MSS, delivered, in_flight, rtt, ..ack() };
                cubic.on_ack(&one);
                if !cubic.window.in_slow_start() {
                    return Some(n);
                }
            }
            None
        };
        // Half of 101 ms is 50.5: the 52nd acknowledgment, the first of the round being its start.
        let ms = Duration::from_millis(1);
        assert_eq!(end(ms, Pacing::OnlyIfRateBased), Some(52));
        assert_eq!(end(ms, Pacing::Always), None, "90 ms are no round trip");
        assert_eq!(end(ms * 3, Pacing::OnlyIfRateBased), None, "no train");
    }

    #[test]
    fn a_round_later_than_the_least_rtt_by_an_eighth_ends_slow_start() {
        let mut cubic = unpaced();
        cubic.window.set_cwnd(32 * MSS);
        let mut now = Instant::from_secs(1);
        let mut feed = |cubic: &mut CubicLinux, rtt: Duration, round: u64| {
            for n in 0..12 {
                now += Duration::from_millis(5);
                let delivered = round * 1_000 * MSS + n * MSS;
                let in_flight = 500 * MSS;
                let rtt = Some(rtt);
                cubic.on_ack(&AckSample { now, delivered, in_flight, rtt, ..ack() });
            }
        };
        feed(&mut cubic, RTT, 1);
        feed(&mut cubic, RTT + Duration::from_millis(12), 2);
        assert!(cubic.window.in_slow_start(), "12 ms of 100 are under an eighth");
        feed(&mut cubic, RTT + Duration::from_millis(13), 3);
        assert!(!cubic.window.in_slow_start());
        cubic.on_loss(&loss(LossKind::Timeout, MSS, 0));
        assert!(!cubic.hystart.has_found(), "a timeout starts all over");
        assert_eq!(cubic.last_max, 0);
    }

    #[test]
    fn a_smaller_maximum_makes_room_by_fast_convergence() {
        let mut cubic = unpaced();
        cubic.window.set_cwnd(100 * MSS);
        cubic.on_loss(&loss(LossKind::CongestionExperienced, 0, 100 * MSS));
        assert_eq!((cubic.last_max, cubic.window()), (100, 70 * MSS));
        cubic.on_loss(&loss(LossKind::CongestionExperienced, 0, 70 * MSS));
        assert_eq!(cubic.last_max, 59);
    }

    #[test]
    fn time_without_anything_in_flight_does_not_move_the_curve() {
        let run = |pause: Duration| {
            let mut cubic = unpaced();
            cubic.window.set_cwnd(1_000 * MSS);
            cubic.on_loss(&loss(LossKind::CongestionExperienced, 0, 1_000 * MSS));
            let mut now = Instant::from_secs(1);
            cubic.on_sent(MSS, 700 * MSS, false, now);
            cubic.on_ack(&AckSample { now, acked_bytes: MSS, ..ack() });
            now += pause;
            cubic.on_sent(MSS, MSS, false, now);
            let mut delivered = 0;
            for _ in 0..20 {
                round(&mut cubic, &mut now, &mut delivered, 20);
            }
            cubic.window()
        };
        assert_eq!(run(Duration::ZERO), run(Duration::from_secs(60)));
    }
}
