//! Functions that IEEE 754 does not fix to the last bit.
//!
//! The standard library's come from the platform's C library, and two of those round differently.
//! One bit is enough for another packet to be lost, so logic takes these: a seed then gives the same
//! run on every machine, in a browser too. Sums, products, quotients and square roots are the same
//! everywhere.

/// The cube root.
pub fn cbrt(x: f64) -> f64 {
    libm::cbrt(x)
}

/// The cosine of `x` radians.
pub fn cos(x: f64) -> f64 {
    libm::cos(x)
}

/// e to the `x`-th.
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// The natural logarithm; NaN below zero.
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// The logarithm to base 2; NaN below zero.
pub fn log2(x: f64) -> f64 {
    libm::log2(x)
}

/// The logarithm to base 10; NaN below zero.
pub fn log10(x: f64) -> f64 {
    libm::log10(x)
}

/// `x` to the `y`-th; NaN of a negative `x` unless `y` is whole.
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What another machine gives, too: a change here changes runs.
    #[test]
    fn every_bit_is_known() {
        let seen = [cbrt(0.3), cos(0.3), exp(0.3), ln(0.3), log2(0.3), log10(0.3), pow(0.3, 0.9)];
        let known = [
            0x3fe5_6bfe_a66e_f78d,
            0x3fee_921d_d42f_09ba,
            0x3ff5_9905_8c8c_1a96,
            0xbff3_4378_fcbd_a721,
            0xbffb_ca9c_6f53_897b,
            0xbfe0_bb6c_34d8_1502,
            0x3fd5_a813_1b97_fd82,
        ];
        assert_eq!(seen.map(f64::to_bits), known);
    }

    #[test]
    fn they_are_what_they_are_called() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        near(cbrt(27.0), 3.0);
        near(cos(core::f64::consts::PI), -1.0);
        near(exp(1.0), core::f64::consts::E);
        near(ln(core::f64::consts::E), 1.0);
        near(log2(8.0), 3.0);
        near(log10(1e3), 3.0);
        near(pow(2.0, 0.5), core::f64::consts::SQRT_2);
    }
}
