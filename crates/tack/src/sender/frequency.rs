//! When to tell the receiver another ACK frequency [TON §VI-C].
//!
//! TACKs echo the interval and the regime in force. What they show differs from what Eq. 4 asks for,
//! and that is told
//!
//! - when the regime changes (bandwidth is probed, or no longer), or, a round trip after the last
//!   time, the interval by a factor of two;
//! - when the interval drifted by more than 2 %, so that the frequency stays close to Eq. 4 (both only
//!   as far as the interval is longer than `L` segments take: else counting rules, whatever it is);
//! - in steady state, when what Eq. 5 is asked with changed while acknowledgments are lost: bdp by a
//!   factor of two, rho' by 0.2 points and a half of itself;
//! - when TACKs still echo something else a while after it was told: it was lost.
//!
//! The last three at most once per `max(4 RTTmin, 200 ms)`: each costs a packet. A flow that is over
//! before anything of this happens costs none, since both ends know the handshake's round trip.
//!
//! Deviation: [TON §VI-C] names doubling and halving only. By that alone a receiver could be 2x off
//! for ever, with an alpha from the first, inflated RTT sample.
//!
//! # The regime
//!
//! Bandwidth is probed while the controller says so **and** what arrives grows: by a quarter within
//! the last three round trips. An application, a receive window or a pacer that holds the flow down
//! lets nothing grow, and then nothing is gained by hearing of it more often; when growth comes
//! back, so does the regime. Where a round trip is longer than 3/2 RTTmin, as long as that is waited for
//! growth: what makes it longer is a queue, and there is little more bandwidth to find.

use core::time::Duration;

use tack_units::{Instant, Rate};

use crate::feedback::{Frequency, Regime};
use crate::{Params, equations};

use super::stretch::{Stretch, WayBack};

/// Relative drift of the interval that is told.
const DRIFT: f64 = 0.02;
/// Change of rho' that is told: this much, and half of what it was.
const RHO_PRIME_STEP: f64 = 0.002;
/// Least time between two corrections, and in RTTmin.
const MIN_SPACING: Duration = Duration::from_millis(200);
const SPACING_RTTS: u32 = 4;
/// Growth that counts as growth, and the round trips it may take without a queue.
const GROWTH: f64 = 1.25;
const GROWTH_RTTS: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Told {
    frequency: Frequency,
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
    /// Of the newest TACK that had one.
    pub(super) delivery_rate: Option<Rate>,
    pub(super) rtt_min: Duration,
    pub(super) srtt: Duration,
    /// Smoothed round trip without what data waits for.
    pub(super) without_queue: Duration,
    pub(super) rho_prime: f64,
    pub(super) startup: bool,
}

/// Keeps the receiver's frequency in step.
#[derive(Debug, Default)]
pub(super) struct FrequencySync {
    told: Option<Told>,
    echo: Option<Echo>,
    probing: Probing,
    stretch: Stretch,
}

/// Whether bandwidth is being probed.
#[derive(Debug, Default)]
struct Probing {
    /// The estimate when it last grew, and when that was; `None` while nothing is probed.
    grew: Option<(Rate, Instant)>,
}

impl Probing {
    /// What arrives is `bw`, `startup` what the controller says of itself, and growth must come within
    /// `patience`.
    fn update(&mut self, bw: Rate, startup: bool, patience: Duration, now: Instant) -> bool {
        // What an earlier search found is no measure for one that begins after a timeout, on a path that
        // carries less now.
        self.grew = self.grew.filter(|_| startup);
        if startup && self.grew.is_none_or(|(baseline, _)| bw >= baseline.mul_f64(GROWTH)) {
            self.grew = Some((bw, now));
        }
        self.grew.is_some_and(|(_, grew)| now - grew <= patience)
    }
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

    /// The bdp that the receiver knows, bytes; zero before it was told one.
    pub(super) fn told_bdp(&self) -> u64 {
        self.told.map_or(0, |told| told.frequency.bdp)
    }

    /// The path is another one: what was found on the old one is no measure. The receiver still does as told.
    pub(super) fn on_path_change(&mut self) {
        (self.probing, self.stretch) = (Probing::default(), Stretch::default());
    }

    /// What to tell now, if anything; it counts as told.
    pub(super) fn poll(
        &mut self,
        params: &Params,
        estimates: Estimates,
        now: Instant,
    ) -> Option<Frequency> {
        let Estimates { bw, rtt_min, srtt, without_queue, startup, rho_prime, .. } = estimates;
        // A window may grow for long into a queue, and a controller's estimate with it.
        let found = estimates.delivery_rate.map_or(bw, |delivered| delivered.min(bw));
        let probing = self.probing.update(found, startup, growth_time(srtt, rtt_min), now);
        let (regime, interval) = if probing {
            (Regime::Startup, equations::startup_interval(rtt_min, params.startup))
        } else {
            (Regime::Steady, equations::alpha(rtt_min, params.beta))
        };
        let way_back = WayBack { rtt_min, srtt, without_queue, rho_prime };
        let interval = self.stretch.update(interval, &way_back, now);
        let frequency = Frequency {
            regime,
            interval,
            rtt_min,
            segments_per_ack: params.segments_per_ack,
            rho_prime,
            bdp: equations::bdp(bw, rtt_min),
        };
        if !self.due(params, &frequency, estimates, now) {
            return None;
        }
        self.told = Some(Told { frequency, at: now });
        Some(frequency)
    }

    fn due(&self, params: &Params, new: &Frequency, estimates: Estimates, now: Instant) -> bool {
        // `L` segments take as long: a shorter interval is none.
        let counting = equations::counting_interval(estimates.bw, new.segments_per_ack, params.mss);
        let effective = |interval: Duration| interval.max(counting);
        let Some(told) = &self.told else {
            // What the receiver took from the handshake may do.
            let Some(echo) = self.echo else { return false };
            let (echoed, wanted) = (effective(echo.interval), effective(new.interval));
            let near = echoed.abs_diff(wanted) <= wanted / 8;
            return echo.regime != new.regime || !near;
        };
        let old = &told.frequency;
        // Where counting rules, more TACKs are not to be had: probing changes nothing.
        let (beta, l) = (params.beta, params.segments_per_ack);
        let probing_helps = equations::period_rules(new.bdp, beta, l, params.mss);
        if old.regime != new.regime && (new.regime == Regime::Steady || probing_helps) {
            return true;
        }
        let interval = effective(new.interval).as_secs_f64();
        let old_interval = effective(old.interval).as_secs_f64();
        if by_a_factor_of_two(old_interval, interval) && now - told.at >= estimates.srtt {
            return true;
        }
        if now - told.at < (estimates.rtt_min * SPACING_RTTS).max(MIN_SPACING) {
            return false;
        }
        let drifted = (interval - old_interval).abs() > DRIFT * old_interval;
        drifted
            || self.was_lost(told, effective, estimates.srtt)
            || matters_for_equation_5(old, new)
    }

    /// A TACK that left well after the frequency must have arrived shows another one.
    fn was_lost(
        &self,
        told: &Told,
        effective: impl Fn(Duration) -> Duration,
        srtt: Duration,
    ) -> bool {
        let Some(echo) = self.echo else { return false };
        // The host's wire format may round the interval.
        let rounding = told.frequency.interval / 100 + Duration::from_micros(2);
        let differs = echo.regime != told.frequency.regime
            || effective(echo.interval).abs_diff(effective(told.frequency.interval)) > rounding;
        differs && echo.at - told.at >= srtt * 3 / 2
    }
}

/// How long growth of the bandwidth may take.
fn growth_time(srtt: Duration, rtt_min: Duration) -> Duration {
    let unqueued = rtt_min * 3 / 2;
    if srtt > unqueued { unqueued } else { srtt * GROWTH_RTTS }
}

/// Whether one is at least twice the other; never when either is not positive.
fn by_a_factor_of_two(a: f64, b: f64) -> bool {
    a > 0.0 && b > 0.0 && (b >= 2.0 * a || a >= 2.0 * b)
}

fn matters_for_equation_5(old: &Frequency, new: &Frequency) -> bool {
    if new.regime == Regime::Startup || new.rho_prime == 0.0 {
        return false;
    }
    let step = (new.rho_prime - old.rho_prime).abs();
    let rho_prime = step > RHO_PRIME_STEP && step > old.rho_prime / 2.0;
    rho_prime || (old.bdp == 0 && new.bdp > 0) || by_a_factor_of_two(old.bdp as f64, new.bdp as f64)
}

#[cfg(test)]
#[path = "frequency_tests.rs"]
mod tests;
