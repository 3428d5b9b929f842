//! Pictures of a view, the numbers behind them, and a table of the most telling ones.

use crate::data::{Data, cell, column};
use crate::draw::{Word, Words};
use crate::pivot::{Found, Results, label, number, runs_of, said};
use crate::stats;
use crate::svg::{Axis, Line, Plot, Style};
use crate::table::Table;

use super::heading::{heading, legend};
use super::rows::of_figure;
use super::{Kind, Shown, View, short};

/// A panel: its picture, its rows for people, and its rows for programs as [`point`] has them.
type Panel = (Plot, Table, Vec<Vec<String>>);

impl View {
    pub(super) fn picture(&self, results: &Results<'_>) -> Shown {
        let (mut plots, above) = (Vec::new(), self.heading());
        let legend = self.lines.as_ref().map_or(String::new(), |axis| legend(axis, results));
        let mut table: Option<Table> = None;
        let mut points: Vec<Vec<String>> = Vec::new();
        for panel in results.combinations(&self.panels, &self.at) {
            let name = label(&panel, &self.panels);
            let key = |axis: &String| panel.get(axis).map(Word::to_string).unwrap_or_default();
            let keys: Vec<String> = self.panels.iter().map(key).collect();
            let mut at = self.at.clone();
            at.extend(panel);
            let (mut plot, mut rows, own) = match self.kind {
                Kind::Cdf => self.cdf(results, &at),
                Kind::Series => self.series(results, &at),
                _ => self.curves(results, &at, &name),
            };
            for line in plot.lines.iter_mut().filter(|l| !matches!(l.style, Style::Paper { .. })) {
                line.name.insert_str(0, &legend);
            }
            let parts = [above.as_str(), name.as_str()].into_iter().filter(|part| !part.is_empty());
            let title = parts.collect::<Vec<_>>().join(": ");
            plots.push(Plot { title, ..plot });
            points.extend(own.into_iter().map(|point| [keys.clone(), point].concat()));
            rows.rows.iter_mut().for_each(|row| prefix(row, &name));
            match &mut table {
                None => table = Some(Table { title: above.clone(), ..rows }),
                Some(table) => table.rows.extend(rows.rows),
            }
        }
        // Axes around nothing, and a legend of what is not there, say that there is something.
        plots.retain(|p| p.lines.iter().any(|line| !line.points.is_empty()));
        let data = Data::of(self.columns(results), points);
        Shown { table: table.unwrap_or_default(), data, plots }
    }

    /// Columns for programs, and which of them stay where they are empty.
    fn columns(&self, results: &Results<'_>) -> Vec<(String, bool)> {
        let named = |axis: &str| short(axis, &results.plan.axes).to_owned();
        let of = heading(&self.metric, "");
        let unit = self.quantity().shown().1;
        let (x, name, unit) = match self.kind {
            Kind::Cdf => (column(&[&of, &unit]), "share".to_owned(), String::new()),
            Kind::Series => ("time_s".to_owned(), of, unit),
            _ => (named(&self.x), of, unit),
        };
        let mut out: Vec<_> = self.panels.iter().map(|axis| (named(axis), true)).collect();
        let line = self.lines.as_ref();
        out.push((line.map_or("line".to_owned(), |axis| named(axis)), line.is_some()));
        out.extend([("group".to_owned(), false), (x, true)]);
        out.extend(of_figure(&name, &unit));
        out.extend([(column(&[&name, "paper", &unit]), false), ("runs".to_owned(), false)]);
        out
    }

    /// Values of the axis of lines at `at`; one nameless line without.
    fn each_line(&self, results: &Results<'_>, at: &Words) -> Vec<(String, Words)> {
        let Some(axis) = &self.lines else { return vec![(String::new(), at.clone())] };
        let with = |word: Word| {
            let mut at = at.clone();
            at.insert(axis.clone(), word.clone());
            (word.to_string(), at)
        };
        results.values(axis, at).into_iter().map(with).collect()
    }

    fn curves(&self, results: &Results<'_>, at: &Words, panel: &str) -> Panel {
        let of = self.quantity();
        let xs = results.values(&self.x, at);
        let bars = self.kind == Kind::Bars || xs.iter().any(|x| !matches!(x, Word::Number(_)));
        let place = |x: &Word| match (x, bars) {
            (Word::Number(v), false) => Some(*v),
            _ => xs.iter().position(|w| w == x).map(|i| i as f64),
        };
        let (mut lines, mut rows, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for (name, at) in self.each_line(results, at) {
            let key = format!("{panel} {name}");
            let paper = self.paper.get(key.trim()).or_else(|| self.paper.get(&name));
            let of_paper = |x: &Word| paper?.iter().find(|(w, _)| w == x).map(|p| p.1);
            let (mut points, mut row) = (Vec::new(), vec![name.clone()]);
            for x in &xs {
                let mut at = at.clone();
                at.insert(self.x.clone(), x.clone());
                let found = results.found(&of, &at);
                let drawn = found.as_ref().map(|found| found.estimate);
                points.extend(drawn.and_then(|e| Some((place(x)?, e.mean, e.ci95))));
                row.push(Found::text(found.as_ref()));
                let runs = results.select(&at).len().to_string();
                let y = Found::cells(found.as_ref());
                own.push(point([&name, ""], x.to_string(), y, of_paper(x), runs));
            }
            rows.push(row);
            let style = if bars { Style::Bars } else { Style::Line };
            lines.push(Line { name: name.clone(), points, style });
            let Some(paper) = paper else { continue };
            let cells = xs.iter().map(|x| of_paper(x).map_or("-".to_owned(), number));
            let title = format!("{name} (paper)").trim().to_owned();
            rows.push(core::iter::once(title.clone()).chain(cells).collect());
            let points = paper.iter().filter_map(|(x, y)| Some((place(x)?, *y, None)));
            let style = Style::Paper { of: lines.len() - 1 };
            lines.push(Line { name: title, points: points.collect(), style });
            for (x, y) in paper.iter().filter(|(x, _)| !xs.contains(x) && place(x).is_some()) {
                own.push(point([&name, ""], x.to_string(), NONE, Some(*y), String::new()));
            }
        }
        let label = || short(&self.x, &results.plan.axes).to_owned();
        let x_label = self.x_label.clone().unwrap_or_else(label);
        let categories = bars.then(|| xs.iter().map(Word::to_string).collect());
        let header = core::iter::once(x_label.clone()).chain(xs.iter().map(Word::to_string));
        let y = heading(&self.metric, &of.shown().1);
        let plot = Plot {
            title: String::new(),
            x: Axis { label: x_label, log: self.log_x, categories },
            y: Axis { label: y, log: self.log_y, categories: None },
            lines,
        };
        (plot, Table { title: String::new(), keys: 1, header: header.collect(), rows }, own)
    }

    fn cdf(&self, results: &Results<'_>, at: &Words) -> Panel {
        let (mut lines, mut rows, mut lacking) = (Vec::new(), Vec::new(), Vec::new());
        let mut own = Vec::new();
        let factor = self.scale.unwrap_or(1.0);
        let of = self.quantity();
        for (name, at) in self.each_line(results, at) {
            let mut runs = if self.is_over_runs() { results.samples(&of, &at) } else { Vec::new() };
            // Between two of a few runs there is nothing.
            let few = (1..=50).contains(&runs.len()).then(|| steps(&mut runs));
            let mut quantile = |q: f64| match self.is_over_runs() {
                true => stats::quantile(&mut runs, q),
                false => results.pooled(&self.metric, &at, q).map(|v| v * factor),
            };
            let points = (0..=50).map(|n| f64::from(n) / 50.0);
            let points = points.filter_map(|q| Some((quantile(q)?, q, None)));
            let mut points: Vec<(f64, f64, Option<f64>)> = few.unwrap_or_else(|| points.collect());
            points.retain(|p| !self.log_x || p.0 > 0.0);
            let cells = [0.1, 0.5, 0.9, 1.0].map(|q| quantile(q).map_or("-".to_owned(), number));
            rows.push(core::iter::once(name.clone()).chain(cells).collect::<Vec<_>>());
            let lack = match self.is_over_runs() {
                true => results.lacking(&of, &at),
                false => results.lacking_pooled(&self.metric, &at),
            };
            let count = results.select(&at).len().to_string();
            for (x, share, _) in &points {
                let y = [cell(Some(*share)), String::new(), runs_of(lack)];
                own.push(point([&name, ""], cell(Some(*x)), y, None, count.clone()));
            }
            lines.push(Line { name, points, style: Style::Plain });
            lacking.push(said(lack));
        }
        let ours = lines.len();
        own.extend(self.add_papers(&mut lines, ours));
        for ((line, row), lacking) in lines.iter_mut().zip(&mut rows).zip(&lacking) {
            line.name = format!("{}{lacking}", line.name).trim().to_owned();
            row[0].clone_from(&line.name);
        }
        let over_runs = self.is_over_runs();
        let unit = of.shown().1;
        let whole = if over_runs { "share of the runs" } else { "share of the time" };
        let x_label = self.x_label.clone().unwrap_or_else(|| heading(&self.metric, &unit));
        let header = [&x_label, "p10", "p50", "p90", "max"].map(str::to_owned).to_vec();
        let plot = Plot {
            title: String::new(),
            x: Axis { label: x_label, log: self.log_x, categories: None },
            y: Axis { label: whole.to_owned(), log: false, categories: None },
            lines,
        };
        (plot, Table { title: String::new(), keys: 1, header, rows }, own)
    }

    /// A paper's points, in the colour of the line of their name, or else of number `unnamed`; the same for programs.
    fn add_papers(&self, lines: &mut Vec<Line>, unnamed: usize) -> Vec<Vec<String>> {
        let mut own = Vec::new();
        for (name, points) in &self.paper {
            let of = lines.iter().position(|l| l.name == *name).unwrap_or(unnamed);
            let points = points.iter().filter_map(|(x, y)| match x {
                Word::Number(x) => Some((*x, *y, None)),
                _ => None,
            });
            let points: Vec<(f64, f64, Option<f64>)> = points.collect();
            for (x, y, _) in &points {
                own.push(point([name, ""], cell(Some(*x)), NONE, Some(*y), String::new()));
            }
            let name = format!("{name} (paper)");
            lines.push(Line { name, points, style: Style::Paper { of } });
        }
        own
    }

    /// The first run's course, each line's.
    fn series(&self, results: &Results<'_>, at: &Words) -> Panel {
        let (factor, unit) = self.quantity().shown();
        let (mut lines, mut rows, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for (name, at) in self.each_line(results, at) {
            let Some((_, record)) = results.select(&at).first().copied() else { continue };
            let suffix = format!(".{}", self.metric);
            for (series, points) in &record.series {
                let group = match series.strip_suffix(&suffix) {
                    Some(group) => group,
                    None if *series == self.metric => "",
                    None => continue,
                };
                let points: Vec<(f64, f64, Option<f64>)> =
                    points.iter().map(|(x, y)| (*x, y * factor, None)).collect();
                for (x, y, _) in &points {
                    let y = [cell(Some(*y)), String::new(), String::new()];
                    own.push(point([&name, group], cell(Some(*x)), y, None, String::new()));
                }
                let name = format!("{name} {group}").trim().to_owned();
                let mean = points.iter().map(|p| p.1).sum::<f64>() / (points.len() as f64).max(1.0);
                let last = points.last().map_or(0.0, |p| p.1);
                rows.push(vec![name.clone(), number(mean), number(last)]);
                lines.push(Line { name, points, style: Style::Plain });
            }
        }
        own.extend(self.add_papers(&mut lines, 0));
        let y = heading(&self.metric, &unit);
        let header = [y.as_str(), "mean over time", "at the end"].map(str::to_owned).to_vec();
        let plot = Plot {
            title: String::new(),
            x: Axis { label: "time, s".to_owned(), log: false, categories: None },
            y: Axis { label: y, log: self.log_y, categories: None },
            lines,
        };
        (plot, Table { title: String::new(), keys: 1, header, rows }, own)
    }
}

/// No figure, interval or number of runs.
const NONE: [String; 3] = [String::new(), String::new(), String::new()];

/// A row for programs: of which line and kind of flows, where it is from left to right, the figure with its interval
/// and in how many of the runs it is, a paper's, and how many runs there are.
fn point(
    of: [&str; 2],
    x: String,
    figure: [String; 3],
    paper: Option<f64>,
    runs: String,
) -> Vec<String> {
    let mut row = of.map(str::to_owned).to_vec();
    row.push(x);
    row.extend(figure);
    row.extend([cell(paper), runs]);
    row
}

/// The share of the samples that is no greater, which rises at each.
fn steps(samples: &mut [f64]) -> Vec<(f64, f64, Option<f64>)> {
    samples.sort_by(f64::total_cmp);
    let share = |n: usize| n as f64 / samples.len() as f64;
    let at = |(n, x): (usize, &f64)| [(*x, share(n), None), (*x, share(n + 1), None)];
    samples.iter().enumerate().flat_map(at).collect()
}

fn prefix(row: &mut [String], panel: &str) {
    if let Some(first) = row.first_mut().filter(|_| !panel.is_empty()) {
        *first = format!("{panel} {first}").trim().to_owned();
    }
}
