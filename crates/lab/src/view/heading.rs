//! What axes and figures are called above columns and beside pictures.

use crate::draw::Word;
use crate::pivot::{Quantity, Results};

/// What an axis is called beside others: the last part of its dotted key, or all of it where two would be
/// called the same, as `flow.0.cc` and `flow.1.cc`.
pub(crate) fn short<'a>(axis: &'a str, axes: &[(String, Vec<Word>)]) -> &'a str {
    let last = |axis: &'a str| axis.rsplit_once('.').map_or(axis, |parts| parts.1);
    let is_twin = |other: &str| other != axis && other.rsplit('.').next() == Some(last(axis));
    if axes.iter().any(|(other, _)| is_twin(other)) { axis } else { last(axis) }
}

/// What stands before the values of an axis in a legend: names speak for themselves, numbers do not, nor does `bbr` where
/// each of two flows has it.
pub(super) fn legend(axis: &str, results: &Results<'_>) -> String {
    let axes = &results.plan.axes;
    let values = axes.iter().find(|(name, _)| name == axis).map_or(&[][..], |(_, words)| words);
    let named = short(axis, axes);
    let is_clear = values.iter().all(|word| matches!(word, Word::Text(_)));
    if is_clear && (named != axis || !axis.contains('.')) {
        String::new()
    } else {
        format!("{named} ")
    }
}

/// Figures as headings.
pub(super) fn headings(shown: &[Quantity<'_>]) -> Vec<String> {
    named(shown).into_iter().map(|(name, unit)| with_unit(name, &unit)).collect()
}

/// Names and units of figures; of `goodput` and `goodput_bps` beside each other, their whole names.
pub(super) fn named(shown: &[Quantity<'_>]) -> Vec<(String, String)> {
    let short = |of: &Quantity<'_>| (heading(of.metric, ""), of.shown().1);
    let all: Vec<(String, String)> = shown.iter().map(short).collect();
    let is_twin = |it: &(String, String)| all.iter().filter(|other| *other == it).count() > 1;
    let whole = |(of, it): (&Quantity<'_>, &(String, String))| match is_twin(it) {
        false => it.clone(),
        true => (of.metric.to_owned(), it.1.clone()),
    };
    shown.iter().zip(&all).map(whole).collect()
}

/// A figure as a heading: its name in words, and its unit.
pub(crate) fn heading(metric: &str, unit: &str) -> String {
    let name =
        metric.rsplit_once('_').filter(|(_, u)| ["bps", "us", "s", "bytes", "bdp"].contains(u));
    let name = name.map_or(metric, |parts| parts.0).replace('_', " ");
    let name = name.strip_suffix(" per").unwrap_or(&name).to_owned();
    with_unit(name, unit)
}

fn with_unit(name: String, unit: &str) -> String {
    if unit.is_empty() { name } else { format!("{name}, {unit}") }
}
