//! Random draws of the wired impairments.
//!
//! Every impairment owns a stream of its own, so that switching one on leaves the luck of the
//! others as it was: a difference between two runs is then the impairment's doing.

use core::time::Duration;

use rand::Rng as _;
use rand_pcg::Pcg64;
use tack_units::math;

/// The stream numbered `label` of `seed`.
///
/// Both pass through a mixer (Vigna's splitmix64): neighbouring seeds must not give neighbouring
/// states, which a linear congruential generator would show in its first draws.
pub(crate) fn stream(seed: u64, label: u64) -> Pcg64 {
    let mut x = seed ^ label.wrapping_mul(0xd1b5_4a32_d192_ed03);
    let mut word = || {
        x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = x;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(z ^ (z >> 31))
    };
    let state = word() << 64 | word();
    let increment = word() << 64 | word();
    Pcg64::new(state, increment)
}

/// Uniform in `[0, 1)`, with the 53 bits an `f64` can hold.
pub(crate) fn unit(rng: &mut Pcg64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// True with probability `p`. The certain cases cost no draw.
pub(crate) fn chance(rng: &mut Pcg64, p: f64) -> bool {
    p > 0.0 && (p >= 1.0 || unit(rng) < p)
}

/// Uniform in `0..n`, for `n > 0`. The bias of the multiplication is below `n / 2^64`.
pub(crate) fn below(rng: &mut Pcg64, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

/// Uniform in `[min, max]`, to the nanosecond.
pub(crate) fn between(rng: &mut Pcg64, min: Duration, max: Duration) -> Duration {
    let span = nanos(max.saturating_sub(min)).saturating_add(1);
    min + Duration::from_nanos(below(rng, span))
}

/// Exponential of the given mean.
pub(crate) fn exponential(rng: &mut Pcg64, mean: Duration) -> Duration {
    // 1 - u is in (0, 1], so the logarithm is finite and not positive.
    scale(mean, -math::ln(1.0 - unit(rng)))
}

/// Absolute value of a normal draw of zero mean (Box and Muller).
pub(crate) fn half_normal(rng: &mut Pcg64, deviation: Duration) -> Duration {
    let radius = (-2.0 * math::ln(1.0 - unit(rng))).sqrt();
    scale(deviation, (radius * math::cos(core::f64::consts::TAU * unit(rng))).abs())
}

/// `d` times a factor that is neither negative nor infinite.
fn scale(d: Duration, factor: f64) -> Duration {
    Duration::from_nanos((nanos(d) as f64 * factor) as u64)
}

/// `d` in whole nanoseconds, saturating after 584 years.
pub(crate) fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let first = |seed, label| stream(seed, label).next_u64();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
    }

    #[test]
    fn draws_have_the_means_of_their_distributions() {
        let mut rng = stream(7, 0);
        let n = 100_000u32;
        let ms = Duration::from_millis(1);
        let mut mean = |f: fn(&mut Pcg64, Duration) -> Duration| {
            (0..n).map(|_| f(&mut rng, ms).as_secs_f64()).sum::<f64>() / f64::from(n) / 1e-3
        };
        assert!((mean(exponential) - 1.0).abs() < 0.02);
        assert!((mean(half_normal) - (2.0 / core::f64::consts::PI).sqrt()).abs() < 0.02);
        assert!((mean(|r, d| between(r, Duration::ZERO, d)) - 0.5).abs() < 0.01);
    }

    #[test]
    fn certain_and_impossible_events_are_so() {
        let mut rng = stream(1, 1);
        assert!((0..1_000).all(|_| chance(&mut rng, 1.0)));
        assert!((0..1_000).all(|_| !chance(&mut rng, 0.0)));
        assert!((0..1_000).all(|_| below(&mut rng, 1) == 0));
    }
}
