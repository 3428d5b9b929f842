//! Delivery rate over two TACK intervals [TON §VI-D], and rho [TON §VI-C].
//!
//! ```text
//! rate = (delivered now - delivered then)
//!        / max(last arrival now - last arrival then, its departure now - its departure then)
//! ```
//!
//! "Then" is the TACK before the last, and at least `2 * alpha` (RTTmin/2 at beta = 4) ago: in
//! Startup, when every packet is acknowledged, and behind a link that delivers in bursts (A-MPDU,
//! GRO), two intervals can be arbitrarily short and the quotient arbitrarily large. Time runs from
//! arrival to arrival, so that neither a late poll nor the phase of a burst counts.
//!
//! Where packets wait on the way, the window is longer by as much: a station among many sends in turns
//! that are far apart, and a part of them says nothing of its share. It does not reach back over a pause
//! of the sender, of which the path has no part, unless `2 * alpha` does; but where packets from before and after
//! the pause arrive closer together than half of it, the path was still at work on the former: what comes in
//! a rush after the path stood still, under a window that was full meanwhile, is not its rate. And what a medium held up and
//! then lets go at once came no faster than it left, by the sender's own clock: as the senders of TCP
//! take the longer of sending and acknowledging [draft-cheng-iccrg-delivery-rate-estimation].
//!
//! Deviation: the paper divides by the nominal two intervals, `f/2`; real elapsed time is the
//! same in steady state and right in the other cases. It knows no queue, and no departures here.

use core::time::Duration;
use std::collections::VecDeque;

use tack_units::{Instant, Rate};

/// Snapshots per measuring window: enough to find one that is at most 1/8 too old.
const PER_WINDOW: u32 = 8;
/// Snapshots kept. Two TACK intervals hold `PER_WINDOW`; the rest is for intervals that vary, and for
/// what packets wait.
const MAX_SNAPSHOTS: usize = 32;

#[derive(Clone, Copy, Debug)]
struct Snapshot {
    /// When its slot of the window began.
    opened: Instant,
    /// Last arrival before the TACK.
    arrived: Instant,
    /// When what arrived then had left, by the sender's clock.
    departed: Duration,
    /// Bytes delivered by then.
    delivered: u64,
    /// Number of the TACK.
    tack: u64,
}

/// Measures the delivery rate.
#[derive(Debug)]
pub(super) struct Delivery {
    delivered: u64,
    last_arrival: Option<Instant>,
    /// By the sender's clock.
    last_departure: Duration,
    tacks: u64,
    /// Two TACK intervals.
    window: Duration,
    /// The sender has not paused since.
    unbroken: Instant,
    snapshots: VecDeque<Snapshot>,
}

impl Delivery {
    pub(super) fn new() -> Self {
        Delivery {
            delivered: 0,
            last_arrival: None,
            last_departure: Duration::ZERO,
            tacks: 0,
            window: Duration::ZERO,
            unbroken: Instant::ZERO,
            snapshots: VecDeque::new(),
        }
    }

    /// `delivered` distinct bytes are here in all, the last of them since `now`. They had left by
    /// `departed` of the sender's clock.
    pub(super) fn on_arrival(&mut self, delivered: u64, departed: Duration, now: Instant) {
        let pause = departed - self.last_departure;
        let path_rested = self.last_arrival.is_none_or(|last| now - last >= pause / 2);
        if pause > self.window / 2 && path_rested {
            self.unbroken = now;
        }
        self.last_departure = departed;
        self.delivered = self.delivered.max(delivered);
        if self.last_arrival.replace(now).is_none() {
            self.snapshot(now);
        }
    }

    /// A TACK leaves: the rate over `window`, two TACK intervals, and the time for which packets are
    /// `queued` on the way; `None` before two intervals have passed or while they are unknown (zero).
    pub(super) fn on_tack(&mut self, window: Duration, queued: Duration) -> Option<Rate> {
        let arrived = self.last_arrival?;
        self.tacks += 1;
        self.window = window;
        // A driver that polls a little early or late must not turn two intervals into three.
        let enough = |window: Duration| window - window / 8;
        let old = |s: &Snapshot, window: Duration| {
            arrived - s.arrived >= enough(window) && self.tacks >= s.tack + 2
        };
        let unbroken = |s: &Snapshot| s.arrived >= self.unbroken;
        let all = &self.snapshots;
        let base = all
            .iter()
            .rposition(|s| unbroken(s) && old(s, window.saturating_add(queued)))
            .or_else(|| all.iter().position(|s| unbroken(s) && old(s, window)))
            .or_else(|| all.iter().rposition(|s| old(s, window)));
        let rate = base.filter(|_| !window.is_zero()).and_then(|i| {
            let s = self.snapshots[i];
            let elapsed = (arrived - s.arrived).max(self.last_departure - s.departed);
            Rate::from_bytes_over(self.delivered - s.delivered, elapsed)
        });
        // What lies before the base will not be needed again, unless alpha grows.
        if let Some(i) = base {
            self.snapshots.drain(..i);
        }
        // Within a slot the newest replaces the others: a burst is then counted from its end to
        // the end of another one, not from its first packet, which would count one burst too many.
        let slot = window / PER_WINDOW;
        match self.snapshots.back_mut() {
            Some(s) if arrived - s.opened < slot => {
                (s.arrived, s.departed) = (arrived, self.last_departure);
                (s.delivered, s.tack) = (self.delivered, self.tacks);
            }
            _ => self.snapshot(arrived),
        }
        rate
    }

    fn snapshot(&mut self, arrived: Instant) {
        if self.snapshots.len() == MAX_SNAPSHOTS {
            // A queue grew, or alpha shrank: every other snapshot still spans the window.
            let mut keep = false;
            self.snapshots.retain(|_| {
                keep = !keep;
                keep
            });
        }
        let (delivered, tack) = (self.delivered, self.tacks);
        let departed = self.last_departure;
        self.snapshots.push_back(Snapshot { opened: arrived, arrived, departed, delivered, tack });
    }
}

/// Loss rates on the data path: of the last interval, and over the long run.
#[derive(Debug, Default)]
pub(super) struct DataLoss {
    lost: u64,
    expected: u64,
    long_lost: f64,
    long_expected: f64,
}

/// Packets over which the long-run rate averages: enough to see 0.1 %, few enough to follow.
const LONG_RUN: f64 = 4_096.0;

impl DataLoss {
    /// `n` more packets should have arrived.
    pub(super) fn on_expected(&mut self, n: u64) {
        self.expected = self.expected.saturating_add(n);
    }

    /// `n` packets are declared lost.
    pub(super) fn on_lost(&mut self, n: u64) {
        self.lost = self.lost.saturating_add(n);
    }

    /// A TACK leaves: rho of the interval that ends, in [0, 1].
    ///
    /// Losses are counted when they are declared, which is a settling time after the packets
    /// around them: in an interval that expected fewer than it declared lost, rho is 1.
    pub(super) fn on_tack(&mut self) -> f64 {
        let (lost, expected) = (self.lost as f64, self.expected.max(self.lost) as f64);
        (self.lost, self.expected) = (0, 0);
        self.long_lost += lost;
        self.long_expected += expected;
        if self.long_expected > LONG_RUN {
            let factor = LONG_RUN / 2.0 / self.long_expected;
            self.long_lost *= factor;
            self.long_expected *= factor;
        }
        if expected > 0.0 { lost / expected } else { 0.0 }
    }

    /// rho over the last few thousand packets, in [0, 1]: what Eq. 5 is asked with.
    pub(super) fn rho(&self) -> f64 {
        if self.long_expected > 0.0 { self.long_lost / self.long_expected } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_steady_stream_is_measured_exactly() {
        // 1000 bytes per millisecond, a TACK every 5 ms (alpha 5 ms), polled up to 0.4 ms late.
        let mut d = Delivery::new();
        for t in 1..=1_000u64 {
            d.on_arrival(t * 1_000, ms(t), Instant::from_millis(t));
            if t % 5 == 0 {
                let rate = d.on_tack(ms(5), Duration::ZERO);
                assert_eq!(rate, (t >= 10).then_some(Rate::from_mbps(8)), "at {t} ms");
            }
        }
    }

    #[test]
    fn two_tack_intervals_are_measured_even_if_one_is_longer_than_the_window() {
        // Counting rules: TACKs 20 ms apart, alpha 1 ms; 1000 and 3000 bytes in turn.
        let mut d = Delivery::new();
        let mut delivered = 0;
        for i in 0..50u64 {
            delivered += if i % 2 == 0 { 1_000 } else { 3_000 };
            d.on_arrival(delivered, ms(20 * i), Instant::from_millis(20 * i));
            let rate = d.on_tack(ms(1), Duration::ZERO);
            assert_eq!(rate, (i >= 2).then_some(Rate::from_kbps(800)), "TACK {i}");
        }
    }

    #[test]
    fn startup_with_a_tack_per_packet_is_not_inflated_by_bursts() {
        // Bursts of 20 packets, 10 us apart, every 10 ms; RTTmin 40 ms, alpha 10 ms.
        let mut d = Delivery::new();
        let mut delivered = 0;
        let mut rates = Vec::new();
        for burst in 0..50u64 {
            for i in 0..20 {
                delivered += 1_000;
                let t = burst * 10_000 + i * 10;
                d.on_arrival(delivered, Duration::from_micros(t), Instant::from_micros(t));
                rates.extend(d.on_tack(ms(10), Duration::ZERO));
            }
            assert!(d.snapshots.len() <= MAX_SNAPSHOTS);
        }
        let truth = 16e6;
        assert!(rates.len() > 900);
        let worst = rates.iter().map(|r| r.as_bps() as f64 / truth).fold(0.0, f64::max);
        assert!(worst < 1.05, "{worst}");
    }

    #[test]
    fn what_a_medium_held_up_and_let_go_at_once_came_no_faster_than_it_left() {
        // A packet leaves each millisecond; the medium takes 100 of them at once, each 100 ms.
        let mut d = Delivery::new();
        let mut rates = Vec::new();
        for burst in 1..=50u64 {
            for i in 1..=100u64 {
                let now = Instant::from_micros(burst * 100_000 + i * 100);
                let sent = (burst - 1) * 100 + i;
                d.on_arrival(sent * 1_000, ms(sent), now);
                if i % 50 == 0 {
                    rates.extend(d.on_tack(ms(10), Duration::ZERO));
                }
            }
        }
        assert!(rates.len() > 90);
        assert!(rates.iter().all(|r| *r <= Rate::from_mbps(8)), "{rates:?}");
    }

    /// Two packets a millisecond leave in turns of 20 ms, which the path delivers at their pace; 60 ms
    /// apart. Rates that are told, of packets that waited 160 ms.
    fn of_turns(departed: impl Fn(u64, u64) -> Duration) -> Vec<Rate> {
        let mut d = Delivery::new();
        let mut rates = Vec::new();
        for turn in 0..50u64 {
            for i in 1..=20u64 {
                let delivered = (turn * 20 + i) * 2_000;
                d.on_arrival(delivered, departed(turn, i), Instant::from_millis(turn * 80 + i));
                if i % 5 == 0 {
                    rates.extend(d.on_tack(ms(10), ms(160)));
                }
            }
        }
        rates.split_off(20)
    }

    #[test]
    fn turns_of_a_shared_medium_are_averaged_over_what_packets_wait() {
        // The sender paces: 40 KB leave evenly over 80 ms.
        let rates = of_turns(|turn, i| ms(turn * 80 + i * 4));
        let (least, most) = (rates.iter().min().unwrap(), rates.iter().max().unwrap());
        assert!(
            *least > Rate::from_kbps(3_000) && *most < Rate::from_kbps(5_000),
            "{least} {most}"
        );
    }

    #[test]
    fn a_pause_of_the_sender_is_not_the_paths() {
        // It sends 40 KB in 20 ms, then nothing for 60 ms; the path adds nothing.
        let rates = of_turns(|turn, i| ms(turn * 80 + i));
        assert_eq!(rates.iter().max(), Some(&Rate::from_mbps(16)));
    }

    #[test]
    fn a_pause_of_a_full_window_is_no_reason_to_measure_the_rush_after_a_standstill_alone() {
        // Each second the path stands still for 500 ms: 40 packets wait, and are let go in 40 ms, the others
        // pass as they come, one per 10 ms. The sender's window is full from 200 ms on.
        let mut d = Delivery::new();
        let mut rates = Vec::new();
        for second in 0..20u64 {
            for i in 0..50u64 {
                let (departed, arrived) = match i {
                    0..20 => (i * 10, 500_000 + i * 1_000),
                    20..40 => (i + 480, 500_000 + i * 1_000),
                    _ => (i * 10 + 150, i * 10_000 + 150_000),
                };
                d.on_arrival(
                    (second * 50 + i + 1) * 1_000,
                    ms(second * 1_000 + departed),
                    Instant::from_micros(second * 1_000_000 + arrived),
                );
                if i % 5 == 4 {
                    rates.extend(d.on_tack(ms(10), ms(500)));
                }
            }
        }
        assert!(rates.iter().all(|rate| *rate < Rate::from_mbps(2)), "{rates:?}");
    }

    #[test]
    fn nothing_is_measured_before_alpha_is_known() {
        let mut d = Delivery::new();
        for t in 1..100u64 {
            d.on_arrival(t * 1_000, Duration::from_micros(t), Instant::from_micros(t));
            assert_eq!(d.on_tack(Duration::ZERO, Duration::ZERO), None);
        }
    }

    #[test]
    fn snapshots_stay_bounded_when_alpha_changes_wildly() {
        let mut d = Delivery::new();
        for t in 1..10_000u64 {
            d.on_arrival(t, Duration::from_micros(t), Instant::from_micros(t * 7));
            let queued = Duration::from_micros(t * 104_729 % 3_000_000);
            d.on_tack(Duration::from_micros(t * 7_919 % 100_000), queued);
            assert!(d.snapshots.len() <= MAX_SNAPSHOTS);
        }
    }

    #[test]
    fn rho_is_a_share_whatever_is_counted() {
        let mut loss = DataLoss::default();
        assert_eq!(loss.on_tack(), 0.0);
        loss.on_expected(100);
        loss.on_lost(2);
        assert_eq!(loss.on_tack(), 0.02);
        loss.on_lost(u64::MAX);
        loss.on_lost(u64::MAX);
        assert_eq!(loss.on_tack(), 1.0);
        assert!((0.0..=1.0).contains(&loss.rho()));
    }

    #[test]
    fn long_run_rho_converges_and_follows() {
        let mut loss = DataLoss::default();
        for rho_percent in [1u64, 5] {
            for _ in 0..400 {
                loss.on_expected(100);
                loss.on_lost(rho_percent);
                loss.on_tack();
            }
            let got = loss.rho();
            assert!((got - rho_percent as f64 / 100.0).abs() < 0.002, "{got}");
        }
    }
}
