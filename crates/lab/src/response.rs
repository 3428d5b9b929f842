//! Response functions: the mean window that a loss rate allows.
//!
//! A window-based controller under loss alone settles where growth and reductions balance. How
//! high that is depends on *when* losses come, not only on how many there are. There are two
//! premises, and a formula for one does not hold for the other:
//!
//! ```text
//! periodic: one loss per 1/p segments
//!   Reno   W = sqrt(3/2) / sqrt(p)                                         [Mathis 1997]
//!   CUBIC  W = (C (3 + beta) / (4 (1 - beta)))^(1/4) (RTT/p)^(3/4)         [RFC 9438 §5.1]
//!          or Reno's, whichever is larger (the Reno-friendly region, [RFC 9438 §4.3])
//! random: each segment is lost with probability p (Bernoulli)
//!   Reno   W = 1.31 / sqrt(p)                                    [Ott, Kemperman, Mathis 1996]
//!   CUBIC  no closed form: W by renewal, below
//! ```
//!
//! Random gaps between losses are geometric, exponential in the limit. The time to send a gap is
//! a concave function of its length, so by Jensen's inequality random losses cost less than
//! periodic ones of the same rate: 7 % more window for Reno, 14 to 31 % for CUBIC.
//!
//! The renewal: between two losses the window is a known function of time, so that a gap of `g`
//! segments takes the `t` with `integral of W(s)/RTT over 0..t = g`. The window at the end of a gap
//! begins the next. The mean of `g` over the mean of `t` is the rate; times RTT, the mean window.
//!
//! All of these take a reduction to come with its loss, and growth to go on at once. In TCP
//! neither does ([`Reaction`]):
//!
//! ```text
//! window            detected     repaired
//!   W  ____________/|
//!                   | one round trip of ssthresh: a window does not grow in recovery
//!  W/2              |____________/  growth
//!      loss ->  one round trip; what is lost in it is one event with the first
//! ```
//!
//! That costs a window of W segments a share of the order of 1/W. What no fluid knows costs another
//! segment or so: windows come in whole segments, and NewReno's grows at the end of each round
//! trip. So the comparison is meant for windows of about twenty segments and more.

use core::time::Duration;

use rand::Rng as _;
use tack_cc::Algorithm;
use tack_sim::Seed;
use tack_units::math;

use crate::scenario::Scenario;

/// When losses come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// Every `1/p`-th segment.
    Periodic,
    /// Each segment by itself, with probability `p`.
    Random,
}

/// How soon a reduction follows its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// With it, and growth goes on at once: the premise of the formulas.
    Immediate,
    /// A round trip later, and growth waits for a further one: TCP.
    RoundTrips,
}

/// Segments per s^3, and what a reduction leaves [RFC 9438 §4.6, §5].
const CUBIC_C: f64 = 0.4;
const CUBIC_BETA: f64 = 0.7;
/// Growth per round trip that, with `CUBIC_BETA`, is worth Reno's [RFC 9438 §4.3].
const CUBIC_ALPHA: f64 = 3.0 * (1.0 - CUBIC_BETA) / (1.0 + CUBIC_BETA);

/// Gaps that a mean is taken over: half a percent of standard error.
const GAPS: u32 = 40_000;
/// Gaps until the first window is forgotten.
const FORGET: u32 = 100;
const SEED: Seed = Seed(9_438);

/// The published formula for periodic losses, in segments. `None`: the controller does not go by
/// losses.
pub(crate) fn closed_form(algorithm: Algorithm, p: f64, rtt: Duration) -> Option<f64> {
    let reno = (1.5 / p).sqrt();
    match algorithm {
        Algorithm::NewReno => Some(reno),
        Algorithm::Cubic => {
            let constant = CUBIC_C * (3.0 + CUBIC_BETA) / (4.0 * (1.0 - CUBIC_BETA));
            Some((math::pow(constant, 0.25) * math::pow(rtt.as_secs_f64() / p, 0.75)).max(reno))
        }
        _ => None,
    }
}

/// Mean window in segments at a loss rate of `p`, by renewal. `None`: the controller does not go
/// by losses.
pub(crate) fn mean_window(
    algorithm: Algorithm,
    (p, pattern): (f64, Pattern),
    rtt: Duration,
    reaction: Reaction,
) -> Option<f64> {
    let mut law = law(algorithm)?;
    let rtt = rtt.as_secs_f64();
    let mut random = SEED.stream("gaps");
    let mut gap = || match pattern {
        Pattern::Periodic => 1.0 / p,
        Pattern::Random => {
            // Uniform in (0, 1].
            let uniform = (random.next_u64() >> 11) as f64 + 1.0;
            -math::ln(uniform / (1u64 << 53) as f64) / p
        }
    };
    let mut window = closed_form(algorithm, p, Duration::from_secs_f64(rtt))?;
    let mut total = Leg::default();
    let mut ahead = 0.0;
    for n in 0..GAPS {
        law.reduce(window);
        // Periodic losses are counted from the loss, random ones forget when it was.
        let gap = gap() - if pattern == Pattern::Periodic { ahead } else { 0.0 };
        let mut leg = travel(&law, gap.max(0.0), rtt, reaction);
        window = law.at(leg.grew, rtt);
        if reaction == Reaction::RoundTrips {
            let later = law.at(leg.grew + rtt, rtt);
            ahead = (window + later) / 2.0;
            leg = Leg { sent: leg.sent + ahead, took: leg.took + rtt, ..leg };
            window = later;
        }
        if n >= FORGET {
            total.sent += leg.sent;
            total.took += leg.took;
        }
    }
    Some(total.sent / total.took * rtt)
}

/// The losses that a scenario deals data, where they are such as theory knows.
pub(crate) fn losses(scenario: &Scenario) -> Option<(f64, Pattern)> {
    let down = scenario.wan.as_ref()?.down();
    match (down.loss_every, down.loss) {
        (Some(every), _) => Some((1.0 / every, Pattern::Periodic)),
        (None, Some(p)) if p > 0.0 && p < 0.5 => Some((p, Pattern::Random)),
        _ => None,
    }
}

/// What theory says of the mean window; nothing of a controller that does not go by losses.
pub(crate) fn figures(
    algorithm: Algorithm,
    losses: (f64, Pattern),
    rtt: Duration,
) -> Vec<(String, f64)> {
    let window = |reaction| mean_window(algorithm, losses, rtt, reaction);
    let all = [
        ("window_formula", closed_form(algorithm, losses.0, rtt)),
        ("window_ideal", window(Reaction::Immediate)),
        ("window_expected", window(Reaction::RoundTrips)),
    ];
    all.into_iter().filter_map(|(name, v)| Some((name.to_owned(), v?))).collect()
}

/// From a reduction to the next loss.
#[derive(Clone, Copy, Default)]
struct Leg {
    /// Segments.
    sent: f64,
    /// Seconds, and those of them in which the window grew.
    took: f64,
    grew: f64,
}

/// Sends `gap` segments after a reduction, by trapezoids of a tenth of a round trip, or of one
/// segment if that is longer.
fn travel(law: &Law, gap: f64, rtt: f64, reaction: Reaction) -> Leg {
    let start = law.at(0.0, rtt);
    let recovery = if reaction == Reaction::RoundTrips { gap.min(start) } else { 0.0 };
    let waited = recovery / start * rtt;
    let (mut grew, mut left, mut window) = (0.0, gap - recovery, start);
    while left > 0.0 {
        let step = (rtt / 10.0).max(rtt / window);
        let next = law.at(grew + step, rtt);
        let sent = (window + next) / 2.0 * step / rtt;
        grew += step * (left / sent).min(1.0);
        (left, window) = (left - sent, next);
    }
    Leg { sent: gap, took: waited + grew, grew }
}

/// A window as a function of time since the last reduction, in segments and seconds.
#[derive(Clone, Copy, Debug)]
enum Law {
    Reno { start: f64 },
    Cubic { start: f64, before: f64, w_max: f64 },
}

fn law(algorithm: Algorithm) -> Option<Law> {
    match algorithm {
        Algorithm::NewReno => Some(Law::Reno { start: 0.0 }),
        Algorithm::Cubic => Some(Law::Cubic { start: 0.0, before: 0.0, w_max: 0.0 }),
        _ => None,
    }
}

impl Law {
    /// A loss at `window`.
    fn reduce(&mut self, window: f64) {
        match self {
            Law::Reno { start } => *start = window / 2.0,
            Law::Cubic { start, before, w_max } => {
                // Fast convergence [RFC 9438 §4.7]. A maximum met to the segment was met.
                let fell_short = window < *w_max - 1.0;
                *w_max = if fell_short { window * (1.0 + CUBIC_BETA) / 2.0 } else { window };
                (*start, *before) = (window * CUBIC_BETA, window);
            }
        }
    }

    fn at(&self, t: f64, rtt: f64) -> f64 {
        match *self {
            Law::Reno { start } => start + t / rtt,
            Law::Cubic { start, before, w_max } => {
                let top = w_max.max(start);
                let k = math::cbrt((top - start) / CUBIC_C);
                let curve = CUBIC_C * (t - k).powi(3) + top;
                let rounds = t / rtt;
                let until_before = (before - start) / CUBIC_ALPHA;
                let friendly = start
                    + CUBIC_ALPHA * rounds.min(until_before)
                    + (rounds - until_before).max(0.0);
                curve.max(friendly)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(200);

    fn ideal(algorithm: Algorithm, p: f64, rtt: Duration, pattern: Pattern) -> f64 {
        mean_window(algorithm, (p, pattern), rtt, Reaction::Immediate).expect("it goes by losses")
    }

    #[test]
    fn reno_has_the_constants_of_mathis_and_of_ott() {
        for p in [1e-2, 1e-3, 1e-4] {
            let constant = |pattern| ideal(Algorithm::NewReno, p, RTT, pattern) * p.sqrt();
            let periodic = constant(Pattern::Periodic);
            assert!((periodic - 1.5f64.sqrt()).abs() < 0.002, "{periodic}");
            let random = constant(Pattern::Random);
            assert!((random - 1.31).abs() < 0.015, "{random}");
        }
    }

    #[test]
    fn periodic_loss_gives_what_the_rfc_says_on_either_side_of_the_friendly_region() {
        // [RFC 9438 §5.1], the table for 0.1 s.
        let rtt = Duration::from_millis(100);
        for (p, segments) in [(1e-4, 187.0), (1e-5, 1_054.0), (1e-6, 5_926.0)] {
            let got = closed_form(Algorithm::Cubic, p, rtt).unwrap();
            assert!((got - segments).abs() < 1.0, "{p}: {got}");
        }
        for (p, rtt_ms) in [(1e-3, 20), (1e-3, 200), (1e-4, 200)] {
            let rtt = Duration::from_millis(rtt_ms);
            let formula = closed_form(Algorithm::Cubic, p, rtt).unwrap();
            let got = ideal(Algorithm::Cubic, p, rtt, Pattern::Periodic);
            assert!((got / formula - 1.0).abs() < 0.04, "{p} {rtt_ms}: {got} of {formula}");
        }
    }

    #[test]
    fn random_loss_leaves_cubic_a_larger_window_than_periodic_loss() {
        for (p, rtt_ms, least, most) in [(1e-3, 20, 1.14, 1.20), (1e-4, 200, 1.11, 1.20)] {
            let rtt = Duration::from_millis(rtt_ms);
            let [periodic, random] = [Pattern::Periodic, Pattern::Random]
                .map(|pattern| ideal(Algorithm::Cubic, p, rtt, pattern));
            let ratio = random / periodic;
            assert!((least..most).contains(&ratio), "{p} {rtt_ms} ms: {ratio}");
        }
    }

    #[test]
    fn reacting_a_round_trip_late_costs_small_windows_more() {
        let cost = |p| {
            let tcp =
                mean_window(Algorithm::NewReno, (p, Pattern::Periodic), RTT, Reaction::RoundTrips);
            1.0 - tcp.unwrap() / ideal(Algorithm::NewReno, p, RTT, Pattern::Periodic)
        };
        let (small, large) = (cost(1e-2), cost(1e-4));
        assert!((0.06..0.10).contains(&small), "{small}");
        assert!((0.003..0.02).contains(&large), "{large}");
    }

    #[test]
    fn what_does_not_go_by_losses_has_no_response_function() {
        let random = (0.01, Pattern::Random);
        assert_eq!(closed_form(Algorithm::Bbr, 0.01, RTT), None);
        assert_eq!(mean_window(Algorithm::Bbr, random, RTT, Reaction::Immediate), None);
    }
}
