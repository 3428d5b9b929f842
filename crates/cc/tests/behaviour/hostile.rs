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
