//! Eq. 4 in time, against a model that looks at every arrival again at every step.

use super::*;
use core::time::Duration;

const MSS: u32 = 1_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

fn frequency(regime: Regime, interval: Duration, segments_per_ack: u32) -> Frequency {
    Frequency { regime, interval, segments_per_ack, rho_prime: 0.0, bdp: 0 }
}

fn steady(alpha: Duration, l: u32) -> Schedule {
    let mut s = Schedule::new(l, MSS, ms(25));
    s.on_frequency(&frequency(Regime::Steady, alpha, l));
    s
}

#[test]
fn startup_acknowledges_every_packet_and_a_burst_of_one_instant_once() {
    let mut s = Schedule::new(2, MSS, ms(25));
    assert_eq!(s.due(), None);
    for t in 1..10 {
        s.on_arrival(1_000, false, at(t));
        s.on_arrival(1_000, false, at(t));
        assert_eq!(s.due(), Some(at(t)));
        s.on_tack(at(t));
        assert_eq!(s.due(), None);
    }
}

#[test]
fn counting_waits_for_l_full_sized_segments() {
    let mut s = steady(ms(1), 2);
    s.on_arrival(999, false, at(10));
    s.on_arrival(1_000, false, at(20));
    assert_eq!(s.due(), Some(at(35)), "one byte short: only the flush timer");
    s.on_arrival(1, false, at(21));
    assert_eq!(s.due(), Some(at(21)));
}

#[test]
fn bytes_beyond_l_segments_carry_over() {
    // Bursts of three with L = 2: every second burst would otherwise lose half a TACK.
    let mut s = steady(ms(1), 2);
    let mut tacks = 0;
    for t in (0..3_000).step_by(10) {
        s.on_arrival(3_000, false, at(t));
        while s.due().is_some_and(|d| d <= at(t)) {
            s.on_tack(at(t));
            tacks += 1;
        }
    }
    assert_eq!(tacks, 300, "one per burst: there is nothing to say twice");
    let mut s = steady(ms(1), 4);
    let mut tacks = 0;
    for t in (0..3_000).step_by(10) {
        s.on_arrival(3_000, false, at(t));
        if s.due().is_some_and(|d| d <= at(t)) {
            s.on_tack(at(t));
            tacks += 1;
        }
    }
    assert_eq!(tacks, 225, "900 segments, L = 4");
}

#[test]
fn the_period_counts_from_the_due_time_however_late_the_poll() {
    let mut s = steady(ms(10), 2);
    let mut tacks = 0;
    for t in 0..10_000 {
        s.on_arrival(2_000, false, at(t));
        // A driver that wakes up every 7 ms.
        if t % 7 == 0 && s.due().is_some_and(|d| d <= at(t)) {
            s.on_tack(at(t));
            tacks += 1;
        }
    }
    assert!((998..=1_001).contains(&tacks), "{tacks}");
}

#[test]
fn a_lone_packet_is_flushed_and_never_waits_half_a_second() {
    for alpha in [0, 1, 25, 100, 400, 10_000] {
        let mut s = steady(ms(alpha), 2);
        s.on_arrival(1, false, at(1_000));
        let wait = s.due().unwrap() - at(1_000);
        assert!(wait <= ms(alpha.max(25)) && wait < ms(500), "alpha {alpha} ms: {wait:?}");
    }
    let mut s = Schedule::new(2, MSS, Duration::MAX);
    s.on_frequency(&frequency(Regime::Steady, Duration::MAX, u32::MAX));
    s.on_arrival(u64::MAX, false, at(1_000));
    s.on_arrival(u64::MAX, false, at(1_000));
    assert!(s.due().unwrap() - at(1_000) < ms(500));
}

#[test]
fn what_must_be_told_at_once_is() {
    let mut s = steady(ms(100), 2);
    s.on_arrival(1, true, at(5));
    assert_eq!(s.due(), Some(at(5)));
    s.on_tack(at(5));
    s.demand(at(9));
    assert_eq!(s.due(), Some(at(9)), "even if nothing arrived");
    s.on_tack(at(9));
    assert_eq!(s.due(), None);
}

#[test]
fn a_regime_change_applies_to_what_waits_already() {
    let mut s = steady(ms(100), 4);
    s.on_tack(at(0));
    s.on_arrival(2_000, false, at(1));
    assert_eq!(s.due(), Some(at(101)));
    s.on_frequency(&frequency(Regime::Steady, ms(10), 2));
    assert_eq!(s.due(), Some(at(10)));
    s.on_frequency(&frequency(Regime::Startup, ms(10), 2));
    assert_eq!(s.due(), Some(at(1)));
}

/// The model keeps every arrival since the last TACK and evaluates the definition.
struct Model {
    alpha: Duration,
    l: u64,
    carried: u64,
    arrivals: Vec<(Instant, u64)>,
    last_due: Option<Instant>,
}

impl Model {
    fn due(&self) -> Option<Instant> {
        let (oldest, _) = *self.arrivals.first()?;
        let flush = oldest + self.alpha.max(ms(25)).min(MAX_DELAY);
        let mut sum = self.carried;
        let full = self.arrivals.iter().find(|(_, bytes)| {
            sum += bytes;
            sum >= self.l * u64::from(MSS)
        });
        let by_rule = full.map(|(t, _)| match self.last_due {
            Some(last) if last + self.alpha > *t => last + self.alpha,
            _ => *t,
        });
        Some(by_rule.map_or(flush, |rule| rule.min(flush)))
    }

    fn on_tack(&mut self, now: Instant) {
        self.last_due = Some(self.due().unwrap().min(now));
        let sum = self.carried + self.arrivals.iter().map(|(_, b)| b).sum::<u64>();
        let quota = self.l * u64::from(MSS);
        self.carried = if sum >= quota { sum % quota } else { 0 };
        self.arrivals.clear();
    }
}

#[test]
fn random_arrivals_and_polls_agree_with_the_model() {
    for seed in 1..=300u64 {
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % n
        };
        let (alpha, l) = (Duration::from_micros(next(120_000)), 1 + next(5));
        let mut s = steady(alpha, l as u32);
        let mut m = Model { alpha, l, carried: 0, arrivals: Vec::new(), last_due: None };
        let mut now = Instant::ZERO;
        for _ in 0..400 {
            now += Duration::from_micros(next(20_000));
            if next(3) > 0 {
                let bytes = if next(2) == 0 { 1_000 } else { next(3_000) };
                s.on_arrival(bytes, false, now);
                m.arrivals.push((now, bytes));
            }
            assert_eq!(s.due(), m.due(), "seed {seed}");
            if next(2) == 0 && s.due().is_some_and(|due| due <= now) {
                s.on_tack(now);
                m.on_tack(now);
            }
        }
    }
}
