//! When to tell the receiver another ACK frequency [TON §VI-C].
//!
//! - first of all, as soon as RTTmin is known; before that the receiver acknowledges every packet;
//! - when the regime changes (the end of Startup, or its return);
//! - when alpha doubled or halved;
//! - when f did because of bw (counting rules, and the receiver counts by itself: it only needs to
//!   know for Eq. 5);
//! - when alpha drifted by more than 1.5 %, so that the frequency stays within 3 % of Eq. 4;
//! - in steady state, when what Eq. 5 is asked with changed: bdp by a factor of two, rho' by 0.2
//!   points and a half of itself;
//! - when TACKs still echo something else a while after it was told: it was lost.
//!
//! The last four at most once per `max(RTTmin, 50 ms)`.
//!
//! Deviation: [TON §VI-C] names doubling and halving only. By that alone a receiver could be 2x off
//! for ever, with an alpha from the first, inflated RTT sample.

use core::time::Duration;

use tack_units::{Instant, Rate};

use crate::feedback::{Frequency, Regime};
use crate::{Params, equations};

/// Relative drift of alpha that is told.
const DRIFT: f64 = 0.015;
/// Change of rho' that is told: this much, and half of what it was.
const RHO_PRIME_STEP: f64 = 0.002;
/// Least time between two corrections.
const MIN_SPACING: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug)]
struct Told {
    frequency: Frequency,
    /// f by Eq. 4, Hz.
    hz: f64,
    at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Echo {
    interval: Duration,
    regime: Regime,
    at: Instant,
}

/// What the frequency depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimates {
    pub(super) bw: Rate,
    pub(super) rtt_min: Duration,
    pub(super) srtt: Duration,
    pub(super) rho_prime: f64,
    pub(super) startup: bool,
}

/// Keeps the receiver's frequency in step.
#[derive(Debug, Default)]
pub(super) struct FrequencySync {
    told: Option<Told>,
    echo: Option<Echo>,
}

impl FrequencySync {
    /// A new TACK shows what is in force at the receiver.
    pub(super) fn on_echo(&mut self, interval: Duration, regime: Regime, now: Instant) {
        self.echo = Some(Echo { interval, regime, at: now });
    }

    /// `alpha` in force at the receiver as far as known.
    pub(super) fn alpha_in_force(&self) -> Duration {
        let told = self.told.map_or(Duration::ZERO, |t| t.frequency.interval);
        self.echo.map_or(told, |e| e.interval.max(told))
    }

    /// What to tell now, if anything; it counts as told.
    pub(super) fn poll(
        &mut self,
        params: &Params,
        estimates: Estimates,
        now: Instant,
    ) -> Option<Frequency> {
        let Estimates { bw, rtt_min, startup, rho_prime, .. } = estimates;
        let frequency = Frequency {
            regime: if startup { Regime::Startup } else { Regime::Steady },
            interval: equations::alpha(rtt_min, params.beta),
            segments_per_ack: params.segments_per_ack,
            rho_prime,
            bdp: equations::bdp(bw, rtt_min),
        };
        let l = params.segments_per_ack;
        let hz = equations::tack_frequency(bw, rtt_min, params.beta, l, params.mss);
        if !self.due(&frequency, hz, estimates, now) {
            return None;
        }
        self.told = Some(Told { frequency, hz, at: now });
        Some(frequency)
    }

    fn due(&self, new: &Frequency, hz: f64, estimates: Estimates, now: Instant) -> bool {
        let Some(told) = &self.told else { return true };
        let old = &told.frequency;
        let (alpha, told_alpha) = (new.interval.as_secs_f64(), old.interval.as_secs_f64());
        if old.regime != new.regime || by_a_factor_of_two(told_alpha, alpha) {
            return true;
        }
        if now - told.at < estimates.rtt_min.max(MIN_SPACING) {
            return false;
        }
        let drifted = (alpha - told_alpha).abs() > DRIFT * told_alpha;
        drifted
            || by_a_factor_of_two(told.hz, hz)
            || self.was_lost(told, estimates.srtt)
            || matters_for_equation_5(old, new)
    }

    /// A TACK that left well after the frequency must have arrived shows another one.
    fn was_lost(&self, told: &Told, srtt: Duration) -> bool {
        let Some(echo) = self.echo else { return false };
        // The host's wire format may round the interval.
        let rounding = told.frequency.interval / 100 + Duration::from_micros(2);
        let differs = echo.regime != told.frequency.regime
            || echo.interval.abs_diff(told.frequency.interval) > rounding;
        differs && echo.at - told.at >= srtt * 3 / 2
    }
}

/// Whether one is at least twice the other; never when either is not positive.
fn by_a_factor_of_two(a: f64, b: f64) -> bool {
    a > 0.0 && b > 0.0 && (b >= 2.0 * a || a >= 2.0 * b)
}

fn matters_for_equation_5(old: &Frequency, new: &Frequency) -> bool {
    if new.regime == Regime::Startup {
        return false;
    }
    let step = (new.rho_prime - old.rho_prime).abs();
    let rho_prime = step > RHO_PRIME_STEP && step > old.rho_prime / 2.0;
    rho_prime || (old.bdp == 0 && new.bdp > 0) || by_a_factor_of_two(old.bdp as f64, new.bdp as f64)
}

#[cfg(test)]
#[path = "frequency_tests.rs"]
mod tests;
