//! No sample, however absurd, makes a controller panic, stop, or leave its limits.

use core::time::Duration;

use rand_pcg::Pcg32;
use rand_pcg::rand_core::Rng;
use tack_cc::{
    AckSample, AfterRto, Algorithm, Config, CongestionControl, Controller, LossKind, LossSample,
    Pacing, RateSample, RateSource, WindowRules,
};
use tack_units::{Instant, Rate};

struct Dice(Pcg32);

impl Dice {
    fn below(&mut self, n: u32) -> u32 {
        self.0.next_u32() % n
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Zero, small, plausible, or enormous.
    fn number(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::from(self.below(3)),
            2 => u64::MAX - u64::from(self.below(3)),
            3 => self.0.next_u64(),
            _ => u64::from(self.below(1_000_000)),
        }
    }

    fn duration(&mut self) -> Duration {
        match self.below(8) {
            0 => Duration::MAX,
            _ => Duration::from_nanos(self.number()),
        }
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        self.flip().then_some(value)
    }

    /// Before `now`, after it, or unknown.
    fn departure(&mut self, now: Instant) -> Option<Instant> {
        let at = match self.below(3) {
            0 => now - Instant::ZERO,
            1 => (now - Instant::ZERO).saturating_sub(Duration::from_micros(self.number() >> 30)),
            _ => Duration::from_nanos(self.number()),
        };
        self.maybe(Instant::ZERO + at)
    }

    fn ack(&mut self, now: Instant) -> AckSample {
        let rate = RateSample {
            delivery_rate: Some(Rate::from_bps(self.number())).filter(|_| self.flip()),
            app_limited: self.flip(),
            source: if self.flip() { RateSource::Sender } else { RateSource::Receiver },
            prior_delivered: self.number(),
            interval: self.duration(),
        };
        let (rtt, srtt, rtt_min) = (self.duration(), self.duration(), self.duration());
        AckSample {
            now,
            acked_bytes: self.number(),
            lost_bytes: self.number(),
            delivered: self.number(),
            prior_in_flight: self.number(),
            in_flight: self.number(),
            rtt: self.maybe(rtt),
            srtt: self.maybe(srtt),
            queued: None,
            rtt_min: self.maybe(rtt_min),
            rate: self.maybe(rate),
            newest_sent_at: self.departure(now),
            lost_sent_at: self.departure(now),
            ack_interval: self.duration(),
            cwnd_limited: self.flip(),
            in_recovery: self.flip(),
            ece: self.flip(),
        }
    }

    fn loss(&mut self, now: Instant) -> LossSample {
        let kinds = [
            LossKind::Recovery,
            LossKind::Timeout,
            LossKind::CongestionExperienced,
            LossKind::Spurious,
        ];
        let kind = kinds[self.below(4) as usize];
        LossSample { now, kind, lost_bytes: self.number(), in_flight: self.number() }
    }
}

#[test]
fn absurd_samples_never_panic_and_never_break_the_limits() {
    for &algorithm in Algorithm::ALL {
        for seed in 0..150 {
            let mut dice = Dice(Pcg32::new(seed, 1));
            let config = Config {
                mss: dice.number() as u32,
                initial_window: dice.number(),
                max_window: dice.number(),
                rules: WindowRules {
                    abc_limit: dice.number() as u32,
                    abc_limit_after_rto: if dice.flip() { AfterRto::One } else { AfterRto::Window },
                    beta: dice.flip().then(|| f64::from_bits(dice.number())),
                },
                pacing: if dice.flip() { Pacing::Always } else { Pacing::OnlyIfRateBased },
                probe_rtt: dice.flip(),
                seed,
            };
            let max_window = config.sane().max_window;
            let mut now = Instant::ZERO;
            let mut cc = CongestionControl::new(algorithm, config, now);
            let mut mss = u64::from(config.sane().mss);
            for step in 0..300 {
                // Time may stand still, and even run backwards.
                now = if dice.below(20) == 0 {
                    Instant::from_nanos(dice.number())
                } else {
                    now + Duration::from_micros(u64::from(dice.below(100_000)))
                };
                match dice.below(10) {
                    0..=4 => cc.on_ack(&dice.ack(now)),
                    5 => cc.on_loss(&dice.loss(now)),
                    6 if dice.below(10) == 0 => {
                        let new = dice.number() as u32;
                        cc.set_mss(new);
                        mss = u64::from(new.max(1));
                    }
                    _ => cc.on_sent(dice.number(), dice.number(), dice.flip(), now),
                }
                let at = format!("{algorithm}, seed {seed}, step {step}");
                let window = cc.window();
                assert!(window >= mss, "{at}: window {window} under one MSS of {mss}");
                assert!(window <= max_window.max(mss), "{at}: window {window} over {max_window}");
                assert_ne!(cc.pacing_rate(), Some(Rate::ZERO), "{at}");
                assert!(cc.snapshot().pacing_gain.is_finite(), "{at}");
            }
        }
    }
}

/// Samples as a transport makes them, of a path that does what it likes: any loss, any round trip,
/// any feedback, silences and timeouts.
#[test]
fn plausible_samples_in_any_order_leave_every_controller_a_window_and_a_finite_rate() {
    for &algorithm in Algorithm::ALL {
        for seed in 0..60 {
            let mut dice = Dice(Pcg32::new(seed, 2));
            let mss = 1_000;
            let config = Config { seed, ..Config::new(mss) };
            let mut cc = CongestionControl::new(algorithm, config, Instant::ZERO);
            let mss = u64::from(mss);
            let tack = dice.flip();
            let (mut now, mut delivered, mut in_flight) = (Instant::ZERO, 0u64, 0u64);
            let mut least = Duration::MAX;
            for step in 0..2_000 {
                now += Duration::from_micros(u64::from(dice.below(20_000)));
                while in_flight + mss <= cc.window().min(2_000 * mss) && dice.below(50) > 0 {
                    in_flight += mss;
                    cc.on_sent(mss, in_flight, dice.below(100) == 0, now);
                }
                let prior_in_flight = in_flight;
                let part = |dice: &mut Dice, of: u64| u64::from(dice.below((of / mss) as u32 + 1));
                let acked_bytes = part(&mut dice, in_flight) * mss;
                in_flight -= acked_bytes;
                let lossy = dice.below(4) == 0;
                let lost_bytes = if lossy { part(&mut dice, in_flight) * mss } else { 0 };
                in_flight -= lost_bytes;
                let rtt = Duration::from_micros(1 + u64::from(dice.below(300_000)));
                least = least.min(rtt);
                let prior_delivered = delivered.saturating_sub(u64::from(dice.below(100)) * mss);
                delivered += acked_bytes;
                let kind = [LossKind::Timeout, LossKind::Spurious, LossKind::Recovery]
                    [dice.below(3) as usize];
                if lost_bytes > 0 || dice.below(200) == 0 {
                    cc.on_loss(&LossSample { now, kind, lost_bytes, in_flight });
                }
                let sent_at = Instant::ZERO + (now - Instant::ZERO).saturating_sub(rtt);
                let source = if tack { RateSource::Receiver } else { RateSource::Sender };
                let delivery_rate = Rate::from_bytes_over(acked_bytes.max(1), rtt);
                let (app_limited, interval) = (dice.below(10) == 0, rtt);
                cc.on_ack(&AckSample {
                    now,
                    acked_bytes,
                    lost_bytes,
                    delivered,
                    prior_in_flight,
                    in_flight,
                    rtt: dice.maybe(rtt),
                    srtt: Some(rtt),
                    queued: None,
                    rtt_min: Some(least),
                    rate: dice.maybe(RateSample {
                        delivery_rate,
                        app_limited,
                        source,
                        prior_delivered,
                        interval,
                    }),
                    newest_sent_at: (acked_bytes > 0).then_some(sent_at),
                    lost_sent_at: (lost_bytes > 0).then_some(sent_at),
                    ack_interval: if tack { rtt / 4 } else { Duration::ZERO },
                    cwnd_limited: dice.flip(),
                    in_recovery: lossy,
                    ece: false,
                });
                let at = format!("{algorithm}, seed {seed}, step {step}");
                assert!(cc.window() >= mss, "{at}: {}", cc.window());
                let rate = cc.pacing_rate();
                assert!(rate.is_none_or(|r| r > Rate::ZERO && r < Rate::MAX), "{at}: {rate:?}");
                assert!(rate.is_some(), "{at}: no rate after a round trip");
                let snapshot = cc.snapshot();
                assert!(snapshot.pacing_gain.is_finite() && snapshot.cwnd > 0, "{at}");
            }
        }
    }
}
