//! The few kinds of random numbers the model draws.

use rand::Rng;

/// A uniform integer in `0..n`; 0 for `n` = 0.
pub(crate) fn below(rng: &mut impl Rng, n: u32) -> u32 {
    // Multiply and shift: the bias of at most n / 2^32 is far below anything measured here.
    ((u64::from(rng.next_u32()) * u64::from(n)) >> 32) as u32
}

/// A uniform number in `[0, 1)`.
pub(crate) fn unit(rng: &mut impl Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Whether something of probability `p` happens. The certain cases draw nothing.
pub(crate) fn chance(rng: &mut impl Rng, p: f64) -> bool {
    p > 0.0 && (p >= 1.0 || unit(rng) < p)
}

/// An exponential with mean 1.
pub(crate) fn exponential(rng: &mut impl Rng) -> f64 {
    -(1.0 - unit(rng)).ln()
}
