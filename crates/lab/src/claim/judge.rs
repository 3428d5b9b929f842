//! Judgments that no form of claim can say, by name.

use super::{Claim, Expect};
use crate::draw::{Word, Words};
use crate::pivot::{Results, number};
use crate::ranks::ks_p_value;
use crate::scenario::Problem;
use crate::stats::quantile;

/// What our runs say at a key, and whether that agrees; `None` where nothing ran.
pub(crate) type Judge = fn(&Claim, &Results<'_>, &Words) -> Option<(String, bool)>;

/// Names, functions, and the words of a claim that each goes by.
const FUNCTIONS: &[(&str, Judge, &[&str])] = &[
    ("buffer-beyond", buffer_beyond, &["along", "versus"]),
    ("turns-first", turns_first, &["along", "versus"]),
    ("eq4-cut", eq4_cut, &["versus"]),
    ("same-distribution", same_distribution, &["versus"]),
    ("ranks", ranks, &["along"]),
];

/// The function of that name.
pub(crate) fn function(name: &str) -> Option<Judge> {
    FUNCTIONS.iter().find(|(n, ..)| *n == name).map(|(_, f, _)| *f)
}

/// Refuses a name of no function, and a claim that lacks a word of its function's.
pub(super) fn check(name: &str, claim: &Claim) -> Result<(), Problem> {
    let Some((_, _, words)) = FUNCTIONS.iter().find(|(n, ..)| *n == name) else {
        let there: Vec<&str> = FUNCTIONS.iter().map(|(name, ..)| *name).collect();
        let what = format!("names `{name}`, there are {}", there.join(", "));
        return Err(Problem::new("expect.name", what));
    };
    let lacks = |word: &&&str| match **word {
        "along" => claim.along.is_none(),
        _ => claim.versus.is_none(),
    };
    match words.iter().find(lacks) {
        None => Ok(()),
        Some(word) => Err(Problem::new(*word, format!("is missing: {name} goes by it"))),
    }
}

/// A line of the quantity over the numbers of an axis.
fn line(claim: &Claim, results: &Results<'_>, at: &Words) -> Vec<(f64, f64)> {
    let along = claim.along.as_deref().unwrap_or_default();
    let point = |word: Word| {
        let mut at = at.clone();
        at.insert(along.to_owned(), word.clone());
        let Word::Number(x) = word else { return None };
        Some((x, results.estimate(&claim.quantity(), &at)?.mean))
    };
    results.values(along, at).into_iter().filter_map(point).collect()
}

/// `at` with the keys of `versus` instead.
fn other(claim: &Claim, at: &Words) -> Words {
    let mut other = at.clone();
    other.extend(claim.versus.clone().unwrap_or_default());
    other
}

/// How much more of the axis a line needs to reach 97 % for good than that of `versus`: within a
/// third of 1/(n-1), where a strategy acknowledges n times per window [Landström & Larzon Eq. 1].
fn buffer_beyond(claim: &Claim, results: &Results<'_>, at: &Words) -> Option<(String, bool)> {
    const FULL: f64 = 97.0;
    let reaches = |line: &[(f64, f64)]| match line.iter().rposition(|p| p.1 < FULL) {
        None => line.first().map(|p| p.0),
        Some(i) => {
            let ((x0, y0), (x1, y1)) = (line[i], *line.get(i + 1)?);
            Some(x0 + (x1 - x0) * (FULL - y0) / (y1 - y0).max(1e-9))
        }
    };
    let plain = Claim { versus: None, ..claim.clone() };
    let own = reaches(&line(&plain, results, at));
    let others = line(&plain, results, &other(claim, at));
    let most = others.last()?.0;
    let per_window = match at.get("variant") {
        Some(Word::Text(name)) if name.starts_with('4') => 4.0,
        _ => 2.0,
    };
    let goal = 1.0 / (per_window - 1.0);
    Some(match own.zip(reaches(&others)) {
        Some((own, others)) => {
            let beyond = own - others;
            (format!("{} bdp", number(beyond)), (beyond - goal).abs() <= goal / 3.0)
        }
        None => (format!("more than {most:.1} bdp in all"), false),
    })
}

/// The axis value at which the quantity is least, before that of `versus`.
fn turns_first(claim: &Claim, results: &Results<'_>, at: &Words) -> Option<(String, bool)> {
    let plain = Claim { versus: None, ..claim.clone() };
    let turn = |at: &Words| {
        let line = line(&plain, results, at);
        line.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).map(|p| p.0)
    };
    let (own, others) = (turn(at)?, turn(&other(claim, at))?);
    Some((format!("least at {own} and {others}"), own < others))
}

/// The cut of acknowledgments against `versus`, within a percentage point of what [TON Eq. 4]
/// makes of the round trip and goodput at hand, IACKs aside.
fn eq4_cut(claim: &Claim, results: &Results<'_>, at: &Words) -> Option<(String, bool)> {
    let mean = |metric: &str, at: &Words| {
        let claim = Claim { metric: metric.to_owned(), versus: None, ..claim.clone() };
        results.estimate(&claim.quantity(), at).map(|e| e.mean)
    };
    let others = mean("ack_packets_per_s", &other(claim, at))?;
    let cut = |acks: f64| (1.0 - acks / others.max(1e-9)) * 100.0;
    let (own, by_formula) = (cut(mean("ack_packets_per_s", at)?), cut(mean("eq4_rate", at)?));
    let text = format!("-{own:.1} %, Eq. 4: -{by_formula:.1} %");
    Some((text, (own - by_formula).abs() <= 1.0))
}

/// Whether two samples, paired or not, can be of one distribution: where runs scatter over several
/// modes their mean says nothing. Less likely than 5 % by Kolmogorov and Smirnov is no accident.
fn same_distribution(claim: &Claim, results: &Results<'_>, at: &Words) -> Option<(String, bool)> {
    const SIGNIFICANT: f64 = 0.05;
    let plain = Claim { versus: None, ..claim.clone() };
    let samples = |at: &Words| results.samples(&plain.quantity(), at);
    let (own, others) = (samples(at), samples(&other(claim, at)));
    let p = ks_p_value(&own, &others);
    let median = |mut v: Vec<f64>| quantile(&mut v, 0.5).map(number);
    let text = format!("medians {} and {}, p = {p:.3}", median(own)?, median(others)?);
    Some((text, p >= SIGNIFICANT))
}

/// Ranks along an axis, run by run (the greatest is 1), and their medians beside the paper's
/// `values`: alike where Spearman's correlation of the two is 0.5 and more.
fn ranks(claim: &Claim, results: &Results<'_>, at: &Words) -> Option<(String, bool)> {
    const ALIKE: f64 = 0.5;
    let Expect::Rust { values, .. } = &claim.expect else { return None };
    let along = claim.along.as_deref()?;
    let names = results.values(along, at);
    let samples = |name: &Word| {
        let mut at = at.clone();
        at.insert(along.to_owned(), name.clone());
        results.samples(&claim.quantity(), &at)
    };
    let all: Vec<Vec<f64>> = names.iter().map(samples).collect();
    let runs = all.iter().map(Vec::len).min().filter(|n| *n > 0)?;
    let median = |own: &Vec<f64>| {
        let above = |run: usize| all.iter().filter(|other| other[run] > own[run]).count();
        quantile(&mut (0..runs).map(|run| above(run) as f64 + 1.0).collect::<Vec<_>>(), 0.5)
    };
    let medians: Vec<f64> = all.iter().filter_map(median).collect();
    let named = names.iter().map(Word::to_string).zip(&medians);
    let pairs: Vec<(f64, f64)> =
        named.clone().filter_map(|(name, own)| Some((*values.get(&name)?, *own))).collect();
    let correlation = spearman(&pairs);
    let mut sorted: Vec<(String, &f64)> = named.collect();
    sorted.sort_by(|a, b| a.1.total_cmp(b.1));
    let list: Vec<String> = sorted.iter().map(|(name, rank)| format!("{name} {rank}")).collect();
    let text = format!("{}; correlation {correlation:.2}", list.join(", "));
    Some((text, correlation >= ALIKE))
}

/// Correlation of ranks, those of equal values their mean; 0 of fewer than three pairs.
fn spearman(pairs: &[(f64, f64)]) -> f64 {
    let rank = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let below = |v: f64| pairs.iter().filter(|p| of(p) < v).count() as f64;
        let same = |v: f64| pairs.iter().filter(|p| of(p) == v).count() as f64;
        pairs.iter().map(|p| below(of(p)) + (same(of(p)) + 1.0) / 2.0).collect()
    };
    let (x, y) = (rank(|p| p.0), rank(|p| p.1));
    let middle = (pairs.len() as f64 + 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - middle) * (b - middle)).sum()
    };
    let spread = (product(&x, &x) * product(&y, &y)).sqrt();
    if pairs.len() < 3 || spread == 0.0 { 0.0 } else { product(&x, &y) / spread }
}

#[cfg(test)]
mod tests {
    use super::spearman;

    #[test]
    fn correlation_is_one_for_one_order_and_minus_one_for_its_reverse() {
        let pairs = |y: [f64; 4]| [1.0, 2.0, 3.0, 4.0].into_iter().zip(y).collect::<Vec<_>>();
        assert_eq!(spearman(&pairs([10.0, 20.0, 30.0, 99.0])), 1.0);
        assert_eq!(spearman(&pairs([4.0, 3.0, 2.0, 1.0])), -1.0);
        // Two that share a rank: 1 - 6 * 0.5 / 60 by the mean of their ranks, nearly.
        assert!((spearman(&pairs([1.0, 2.0, 2.0, 3.0])) - 0.9487).abs() < 1e-3);
        assert_eq!(spearman(&pairs([1.0; 4])), 0.0);
    }
}
