//! The table of a view that is one.

use crate::data::{Data, column, count_name};
use crate::pivot::{Found, Quantity, Results};
use crate::table::Table;

use super::heading::{headings, named};
use super::{Shown, View, short};

impl View {
    /// Rows by keys, figures as columns; where several kinds of flows ran, a row for each.
    pub(super) fn rows(&self, results: &Results<'_>) -> Shown {
        let own = results.plan.axes.iter().map(|(name, _)| name.clone());
        let axes: Vec<String> =
            if self.panels.is_empty() { own.collect() } else { self.panels.clone() };
        let shown: Vec<Quantity<'_>> = self.quantities().collect();
        let plain = self.panels.is_empty() && self.metrics.is_empty();
        let (mut rows, mut exact, mut grouped) = (Vec::new(), Vec::new(), false);
        for own in results.combinations(&axes, &self.at) {
            let mut at = self.at.clone();
            at.extend(own.clone());
            let runs = results.select(&at);
            let groups = runs.first().map(|(i, _)| results.plan.items[*i].scenario.groups());
            let groups = groups.filter(|g| g.len() > 1 && self.metrics.is_empty());
            let names: Vec<String> =
                groups.map_or(vec![String::new()], |g| g.into_iter().map(|x| x.0).collect());
            let metric = |group: &String, of: &Quantity<'_>| format!("{group}.{}", of.metric);
            let has = |group: &String, of: &Quantity<'_>| {
                let metric = &metric(group, of);
                results.estimate(&Quantity { metric, ..of.clone() }, &at).is_some()
            };
            for group in &names {
                grouped |= !group.is_empty();
                let words: Vec<_> = axes.iter().filter_map(|a| Some((a, own.get(a)?))).collect();
                let mut cells: Vec<String> = words.iter().map(|(_, w)| w.to_string()).collect();
                let mut row = if plain {
                    // Whole keys: they are the file's own.
                    let all: Vec<String> = words.iter().map(|(a, w)| format!("{a}={w}")).collect();
                    vec![if all.is_empty() { plan_name(results) } else { all.join(" ") }]
                } else {
                    cells.clone()
                };
                row.push(group.clone());
                cells.push(group.clone());
                for of in &shown {
                    // What is of the whole path is the same for every kind of flow.
                    let is_whole = !names.iter().any(|group| has(group, of));
                    let own = if is_whole { of.metric.to_owned() } else { metric(group, of) };
                    let of = Quantity { metric: &own, ..of.clone() };
                    let found = results.found(&of, &at);
                    row.push(Found::text(found.as_ref()));
                    cells.extend(Found::cells(found.as_ref()));
                }
                row.push(runs.len().to_string());
                cells.push(runs.len().to_string());
                rows.push(row);
                exact.push(cells);
            }
        }
        let keys: Vec<String> =
            axes.iter().map(|axis| short(axis, &results.plan.axes).to_owned()).collect();
        let data = Data::of(columns(&keys, &shown), exact);
        let mut header = if plain { vec![String::new()] } else { keys };
        let keys = header.len();
        header.push("flows".to_owned());
        header.extend(headings(&shown));
        header.push("runs".to_owned());
        if !grouped {
            header.remove(keys);
            rows.iter_mut().for_each(|row| drop(row.remove(keys)));
        }
        let keys = keys + usize::from(grouped);
        let table = Table { title: self.title.clone(), keys, header, rows };
        Shown { table, data, plots: Vec::new() }
    }
}

/// Columns for programs, and which of them stay where they are empty.
fn columns(keys: &[String], shown: &[Quantity<'_>]) -> Vec<(String, bool)> {
    let mut out: Vec<(String, bool)> = keys.iter().map(|key| (key.clone(), true)).collect();
    out.push(("group".to_owned(), false));
    for (name, unit) in named(shown) {
        out.extend(of_figure(&name, &unit));
    }
    out.push(("runs".to_owned(), true));
    out
}

/// A figure, half of its interval, and how many of the runs have it.
pub(super) fn of_figure(name: &str, unit: &str) -> [(String, bool); 3] {
    let whole = column(&[name, unit]);
    let (half, runs) = (column(&[name, "ci95", unit]), count_name(&whole));
    [(whole, true), (half, false), (runs, false)]
}

fn plan_name(results: &Results<'_>) -> String {
    results.plan.items.first().map(|i| i.scenario.name.clone()).unwrap_or_default()
}
