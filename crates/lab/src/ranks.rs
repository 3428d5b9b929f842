//! Two small samples, told apart without a law of their distribution.

/// Probability that two samples of one distribution differ at least as much as these, by the test
/// of Kolmogorov and Smirnov: it sees a second mode as well as a shift. Exact for any size where no
/// value occurs twice; below 0.05 needs four of each at least.
pub(crate) fn ks_p_value(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len(), b.len());
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|v| (*v, true)).chain(b.iter().map(|v| (*v, false))).collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let apart = |i: usize, j: usize| (i * m).abs_diff(j * n);
    let (mut i, mut j, mut most) = (0, 0, 0);
    for (at, (value, of_a)) in all.iter().enumerate() {
        if *of_a {
            i += 1
        } else {
            j += 1
        }
        // Equal values are one step.
        if all.get(at + 1).is_none_or(|next| next.0 > *value) {
            most = most.max(apart(i, j));
        }
    }
    if most == 0 {
        return 1.0;
    }
    // Every order of the values is as likely as any: the walk over them that stays closer.
    let mut closer = vec![0.0; m + 1];
    for i in 0..=n {
        for j in 0..=m {
            let left = (n + m + 1 - i - j) as f64;
            let from_a = if i > 0 { closer[j] * (n + 1 - i) as f64 / left } else { 0.0 };
            let from_b = if j > 0 { closer[j - 1] * (m + 1 - j) as f64 / left } else { 0.0 };
            let here = if i + j == 0 { 1.0 } else { from_a + from_b };
            closer[j] = if apart(i, j) < most { here } else { 0.0 };
        }
    }
    (1.0 - closer[m]).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disjoint_samples_are_as_unlikely_as_their_order() {
        // 2 of C(6, 3) = 20 orders, and 2 of C(8, 4) = 70.
        let p = ks_p_value(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]);
        assert!((p - 0.1).abs() < 1e-12, "{p}");
        let p = ks_p_value(&[5.0, 6.0, 7.0, 8.0], &[1.0, 2.0, 3.0, 4.0]);
        assert!((p - 2.0 / 70.0).abs() < 1e-12, "{p}");
        assert_eq!(ks_p_value(&[1.0, 2.0], &[1.0, 2.0]), 1.0);
    }

    #[test]
    fn the_test_agrees_with_counting_every_order() {
        let (n, m) = (4, 5);
        let split = |mask: u32| -> (Vec<f64>, Vec<f64>) {
            let part = |of: bool| {
                (0..n + m).filter(|k| (mask >> k & 1 == 1) == of).map(f64::from).collect()
            };
            (part(true), part(false))
        };
        let distance = |a: &[f64], b: &[f64]| {
            let below = |s: &[f64], v: f64| s.iter().filter(|x| **x <= v).count() as f64;
            (0..n + m)
                .map(f64::from)
                .map(|v| (below(a, v) / f64::from(n) - below(b, v) / f64::from(m)).abs())
                .fold(0.0, f64::max)
        };
        let masks: Vec<u32> = (0..1 << (n + m)).filter(|k: &u32| k.count_ones() == n).collect();
        let all: Vec<f64> =
            masks.iter().map(|k| split(*k)).map(|(a, b)| distance(&a, &b)).collect();
        for mask in masks.iter().step_by(7) {
            let (a, b) = split(*mask);
            let far = all.iter().filter(|d| **d >= distance(&a, &b) - 1e-9).count();
            let exact = far as f64 / all.len() as f64;
            assert!((ks_p_value(&a, &b) - exact).abs() < 1e-9, "{a:?} {b:?}");
        }
    }

    #[test]
    fn many_values_do_not_overflow() {
        let a: Vec<f64> = (0..1_000).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|v| v + 0.5).collect();
        assert!(ks_p_value(&a, &b) > 0.99);
        let far: Vec<f64> = a.iter().map(|v| v + 300.0).collect();
        assert!(ks_p_value(&a, &far) < 1e-9);
    }
}
