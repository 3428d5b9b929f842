//! What is shown of results: a table, and a picture of it.
//!
//! ```toml
//! [[view]]
//! kind = "lines"                # lines, bars, cdf, series, table
//! title = "Utilisation over the loss of acknowledgments"
//! metric = "utilisation"        # `metrics = [..]` are the columns of a table
//! panels = ["phy"]              # a picture for each combination
//! lines = "variant"             # a line, or a bar of each group, for each value
//! x = "wan.up.loss"
//! versus = { variant = "tcp" }  # as in claims, with `how`, `scale`, `unit`
//! paper = { rich = [[0.002, 92.7], [0.1, 90.8]] }   # points beside ours, by line (or panel line)
//! ```

mod heading;
mod usual;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::course::{DISTRIBUTIONS, SERIES};
use crate::draw::{Word, Words};
use crate::metric::{self, base};
use crate::pivot::{How, Quantity, Results, axis_names, known_axis, label, number};
use crate::scenario::Problem;
use crate::stats::{self, Estimate};
use crate::svg::{Axis, Line, Plot, Style};
use crate::table::Table;

pub(crate) use heading::{heading, short};
use heading::{headings, legend};
use usual::{USUAL, others};

/// How it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Figures as columns, keys as rows; no picture.
    #[default]
    Table,
    /// A line per value over an axis of numbers.
    Lines,
    /// Groups of bars over any axis.
    Bars,
    /// Distributions: the share of the runs, or of the time, that is no greater.
    Cdf,
    /// Over the time of the first seed's run.
    Series,
}

/// What is shown.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct View {
    /// How it looks.
    pub kind: Kind,
    /// Above it.
    pub title: String,
    /// Of the metric table, or of a distribution or series.
    pub metric: String,
    /// Columns of a table.
    pub metrics: Vec<String>,
    /// Which records.
    pub at: Words,
    /// Axes with a picture for each combination; of a table, its rows (all axes if left out).
    pub panels: Vec<String>,
    /// Axis with a line for each value.
    pub lines: Option<String>,
    /// Axis from left to right.
    pub x: String,
    /// What x is called.
    pub x_label: Option<String>,
    /// Logarithmic axes.
    pub log_x: bool,
    /// See `log_x`.
    pub log_y: bool,
    /// Keys of the other record of each pair.
    pub versus: Option<Words>,
    /// How the two are held against each other.
    pub how: How,
    /// What the figure is multiplied with.
    pub scale: Option<f64>,
    /// What it is called then.
    pub unit: Option<String>,
    /// Points of the paper by line; `PANEL LINE` where there are panels.
    pub paper: BTreeMap<String, Vec<(Word, f64)>>,
}

/// A view of results: a table, and a picture of it if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The numbers.
    pub table: Table,
    /// A picture for each panel.
    pub plots: Vec<Plot>,
}

impl View {
    fn quantity(&self) -> Quantity<'_> {
        Quantity {
            metric: &self.metric,
            versus: self.versus.as_ref(),
            how: self.how,
            scale: self.scale,
            unit: self.unit.as_deref(),
        }
    }

    /// Everything that is shown, one by one.
    fn quantities(&self) -> impl Iterator<Item = Quantity<'_>> {
        let metrics: Vec<&str> = match (self.kind, self.metrics.as_slice()) {
            (Kind::Table, []) => USUAL.to_vec(),
            (Kind::Table, some) => some.iter().map(String::as_str).collect(),
            _ => vec![&self.metric],
        };
        metrics.into_iter().map(|metric| Quantity { metric, ..self.quantity() })
    }

    /// Every figure that is shown.
    pub(crate) fn all_metrics(&self) -> Vec<String> {
        self.quantities().flat_map(|of| of.metrics()).collect()
    }

    /// Whether it can be shown at all; else what is wrong, and under which key.
    pub(crate) fn check(&self, axes: &[(String, Vec<Word>)]) -> Result<(), Problem> {
        let named = |key, name: &str| known_axis(axes, key, name);
        self.check_kind()?;
        self.quantities().try_for_each(|of| of.check(axes))?;
        // A seed is of every plan, and an axis of none.
        let at = self.at.keys().filter(|axis| *axis != "seed");
        at.into_iter().try_for_each(|axis| named("at", axis))?;
        self.panels.iter().try_for_each(|p| named("panels", p))?;
        self.lines.iter().try_for_each(|l| named("lines", l))?;
        if matches!(self.kind, Kind::Lines | Kind::Bars) {
            if self.x.is_empty() {
                let what = match axes {
                    [] => "is missing, and so are axes: sweep, draw or vary something".to_owned(),
                    some => format!("is missing: one of {}", axis_names(some)),
                };
                return Err(Problem::new("x", what));
            }
            named("x", &self.x)?;
        }
        let simple = matches!(self.kind, Kind::Lines | Kind::Bars) || self.is_over_runs();
        let simple = simple.then_some(&self.metric);
        let simple =
            self.metrics.iter().map(|m| ("metrics", m)).chain(simple.map(|m| ("metric", m)));
        for (key, name) in simple {
            metric::check(name).map_err(|what| Problem::new(key, what))?;
        }
        self.check_course(axes)?;
        if self.kind == Kind::Series && !SERIES.contains(&base(&self.metric)) {
            let there = SERIES.join(", ");
            return Err(Problem::new(
                "metric",
                format!("is `{}`; over time there are {there}", self.metric),
            ));
        }
        Ok(())
    }

    /// Refuses what cannot be said of a run's course, and a series that would be of one run of many.
    fn check_course(&self, axes: &[(String, Vec<Word>)]) -> Result<(), Problem> {
        let is_course = self.kind == Kind::Series || self.kind == Kind::Cdf && !self.is_over_runs();
        if is_course && self.versus.is_some() {
            let what = "is for figures of which a run has one, not for what is known over time";
            return Err(Problem::new("versus", what));
        }
        if matches!(self.kind, Kind::Series | Kind::Cdf) && !self.x.is_empty() {
            return Err(Problem::new(
                "x",
                "is for kind = \"lines\" or \"bars\": this kind has its own",
            ));
        }
        let told = |axis: &String| {
            let named = self.panels.iter().chain(&self.lines).any(|name| name == axis);
            // Of draws and seeds it is the first.
            named || self.at.contains_key(axis) || ["draw", "seed"].contains(&axis.as_str())
        };
        let mut open = axes.iter().filter(|(axis, words)| words.len() > 1 && !told(axis));
        let Some((axis, words)) = open.next().filter(|_| self.kind == Kind::Series) else {
            return Ok(());
        };
        let n = words.len();
        let what = format!("lacks `{axis}`, which has {n} values, and a series is of one run");
        Err(Problem::new("lines", what))
    }

    /// Refuses words that only views of another kind have.
    fn check_kind(&self) -> Result<(), Problem> {
        let is_table = self.kind == Kind::Table;
        let of_pictures = [
            ("metric", !self.metric.is_empty(), "a table has `metrics`, a list"),
            ("x", !self.x.is_empty(), "say kind = \"lines\" or \"bars\""),
            ("lines", self.lines.is_some(), "say which `kind`"),
            ("paper", !self.paper.is_empty(), "say which `kind`"),
        ];
        if let Some((key, _, remedy)) = of_pictures.iter().find(|word| is_table && word.1) {
            return Err(Problem::new(*key, format!("is for pictures: {remedy}")));
        }
        if !is_table && !self.metrics.is_empty() {
            return Err(Problem::new("metrics", "is for tables: a picture has one `metric`"));
        }
        Ok(())
    }

    /// A distribution of a figure that each run has one of.
    fn is_over_runs(&self) -> bool {
        self.kind == Kind::Cdf && !DISTRIBUTIONS.contains(&base(&self.metric))
    }

    /// What is above it: where the file says nothing, what is shown.
    fn heading(&self) -> String {
        if self.title.is_empty() { heading(&self.metric, "") } else { self.title.clone() }
    }

    /// What it shows of `results`.
    pub fn show(&self, results: &Results<'_>) -> Shown {
        match self.kind {
            Kind::Table => {
                let names = if self.metrics.is_empty() { others(results) } else { Vec::new() };
                let table = match names.is_empty() {
                    true => self.rows(results),
                    false => View { metrics: names, ..self.clone() }.rows(results),
                };
                Shown { table, plots: Vec::new() }
            }
            _ => self.picture(results),
        }
    }

    /// Rows by keys, figures as columns; where several kinds of flows ran, a row for each.
    fn rows(&self, results: &Results<'_>) -> Table {
        let own = results.plan.axes.iter().map(|(name, _)| name.clone());
        let axes: Vec<String> =
            if self.panels.is_empty() { own.collect() } else { self.panels.clone() };
        let shown: Vec<Quantity<'_>> = self.quantities().collect();
        let plain = self.panels.is_empty() && self.metrics.is_empty();
        let named = |axis: &String| short(axis, &results.plan.axes).to_owned();
        let mut header: Vec<String> = axes.iter().map(named).collect();
        if plain {
            header = vec![String::new()];
        }
        let keys = header.len();
        let mut rows = Vec::new();
        let mut grouped = false;
        for own in results.combinations(&axes, &self.at) {
            let mut at = self.at.clone();
            at.extend(own.clone());
            let runs = results.select(&at);
            let groups = runs.first().map(|(i, _)| results.plan.items[*i].scenario.groups());
            let groups = groups.filter(|g| g.len() > 1 && self.metrics.is_empty());
            let names: Vec<String> =
                groups.map_or(vec![String::new()], |g| g.into_iter().map(|x| x.0).collect());
            let of = |group: &String, quantity: &Quantity<'_>| {
                let own = format!("{group}.{}", quantity.metric);
                results.cell(&Quantity { metric: &own, ..quantity.clone() }, &at)
            };
            for group in &names {
                grouped |= !group.is_empty();
                let named = axes.iter().filter_map(|a| Some((a, own.get(a)?)));
                let mut row: Vec<String> = if plain {
                    // Whole keys: they are the file's own.
                    let all: Vec<String> = named.map(|(a, word)| format!("{a}={word}")).collect();
                    vec![if all.is_empty() { plan_name(results) } else { all.join(" ") }]
                } else {
                    named.map(|(_, word)| word.to_string()).collect()
                };
                row.push(group.clone());
                for quantity in &shown {
                    // What is of the whole path is the same for every kind of flow.
                    let is_whole = !names.iter().any(|group| of(group, quantity).is_some());
                    let shown = match is_whole {
                        true => results.cell(quantity, &at),
                        false => of(group, quantity),
                    };
                    row.push(shown.unwrap_or_else(|| "-".to_owned()));
                }
                row.push(runs.len().to_string());
                rows.push(row);
            }
        }
        header.push("flows".to_owned());
        header.extend(headings(&shown));
        header.push("runs".to_owned());
        if !grouped {
            header.remove(keys);
            rows.iter_mut().for_each(|row| drop(row.remove(keys)));
        }
        Table { title: self.title.clone(), keys: keys + usize::from(grouped), header, rows }
    }

    fn picture(&self, results: &Results<'_>) -> Shown {
        let (mut plots, above) = (Vec::new(), self.heading());
        let legend = self.lines.as_ref().map_or(String::new(), |axis| legend(axis, results));
        let mut table: Option<Table> = None;
        for panel in results.combinations(&self.panels, &self.at) {
            let name = label(&panel, &self.panels);
            let mut at = self.at.clone();
            at.extend(panel);
            let (mut plot, mut rows) = match self.kind {
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
            rows.rows.iter_mut().for_each(|row| prefix(row, &name));
            match &mut table {
                None => table = Some(Table { title: above.clone(), ..rows }),
                Some(table) => table.rows.extend(rows.rows),
            }
        }
        // Axes around nothing, and a legend of what is not there, say that there is something.
        plots.retain(|p| p.lines.iter().any(|line| !line.points.is_empty()));
        Shown { table: table.unwrap_or_default(), plots }
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

    fn curves(&self, results: &Results<'_>, at: &Words, panel: &str) -> (Plot, Table) {
        let of = self.quantity();
        let xs = results.values(&self.x, at);
        let bars = self.kind == Kind::Bars || xs.iter().any(|x| !matches!(x, Word::Number(_)));
        let place = |x: &Word| match (x, bars) {
            (Word::Number(v), false) => Some(*v),
            _ => xs.iter().position(|w| w == x).map(|i| i as f64),
        };
        let mut lines = Vec::new();
        let mut rows = Vec::new();
        for (name, at) in self.each_line(results, at) {
            let with = |x: &Word| {
                let mut at = at.clone();
                at.insert(self.x.clone(), x.clone());
                at
            };
            let places: Vec<Words> = xs.iter().map(with).collect();
            let cells: Vec<Option<Estimate>> =
                places.iter().map(|at| results.estimate(&of, at)).collect();
            let points = xs.iter().zip(&cells);
            let points = points
                .filter_map(|(x, e)| e.as_ref().and_then(|e| Some((place(x)?, e.mean, e.ci95))))
                .collect();
            let style = if bars { Style::Bars } else { Style::Line };
            let shown = places.iter().map(|at| results.cell(&of, at).unwrap_or("-".to_owned()));
            rows.push(core::iter::once(name.clone()).chain(shown).collect::<Vec<_>>());
            lines.push(Line { name: name.clone(), points, style });
            let key = format!("{panel} {name}");
            if let Some(paper) = self.paper.get(key.trim()).or_else(|| self.paper.get(&name)) {
                let at = |x: &Word| paper.iter().find(|(w, _)| w == x).map(|p| p.1);
                let cells = xs.iter().map(|x| at(x).map_or("-".to_owned(), number));
                let title = format!("{name} (paper)").trim().to_owned();
                rows.push(core::iter::once(title.clone()).chain(cells).collect());
                let points = paper.iter().filter_map(|(x, y)| Some((place(x)?, *y, None)));
                let line = lines.len() - 1;
                let style = Style::Paper { of: line };
                lines.push(Line { name: title, points: points.collect(), style });
            }
        }
        let own = || short(&self.x, &results.plan.axes).to_owned();
        let x_label = self.x_label.clone().unwrap_or_else(own);
        let categories = bars.then(|| xs.iter().map(Word::to_string).collect());
        let header = core::iter::once(x_label.clone()).chain(xs.iter().map(Word::to_string));
        let y = heading(&self.metric, &of.shown().1);
        let plot = Plot {
            title: String::new(),
            x: Axis { label: x_label, log: self.log_x, categories },
            y: Axis { label: y, log: self.log_y, categories: None },
            lines,
        };
        (plot, Table { title: String::new(), keys: 1, header: header.collect(), rows })
    }

    fn cdf(&self, results: &Results<'_>, at: &Words) -> (Plot, Table) {
        let (mut lines, mut rows, mut lacking) = (Vec::new(), Vec::new(), Vec::new());
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
            lines.push(Line { name, points, style: Style::Plain });
            lacking.push(match self.is_over_runs() {
                true => results.lacking(&of, &at),
                false => results.lacking_pooled(&self.metric, &at),
            });
        }
        let own = lines.len();
        self.add_papers(&mut lines, own);
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
        (plot, Table { title: String::new(), keys: 1, header, rows })
    }

    /// A paper's points, in the colour of the line of their name, or else of number `unnamed`.
    fn add_papers(&self, lines: &mut Vec<Line>, unnamed: usize) {
        for (name, points) in &self.paper {
            let of = lines.iter().position(|l| l.name == *name).unwrap_or(unnamed);
            let points = points.iter().filter_map(|(x, y)| match x {
                Word::Number(x) => Some((*x, *y, None)),
                _ => None,
            });
            let (name, points) = (format!("{name} (paper)"), points.collect());
            lines.push(Line { name, points, style: Style::Paper { of } });
        }
    }

    /// The first run's course, each line's.
    fn series(&self, results: &Results<'_>, at: &Words) -> (Plot, Table) {
        let (factor, unit) = self.quantity().shown();
        let mut lines = Vec::new();
        let mut rows = Vec::new();
        for (name, at) in self.each_line(results, at) {
            let Some((_, record)) = results.select(&at).first().copied() else { continue };
            let suffix = format!(".{}", self.metric);
            for (series, points) in &record.series {
                let group = match series.strip_suffix(&suffix) {
                    Some(group) => group,
                    None if *series == self.metric => "",
                    None => continue,
                };
                let name = format!("{name} {group}").trim().to_owned();
                let points: Vec<(f64, f64, Option<f64>)> =
                    points.iter().map(|(x, y)| (*x, y * factor, None)).collect();
                let mean = points.iter().map(|p| p.1).sum::<f64>() / (points.len() as f64).max(1.0);
                let last = points.last().map_or(0.0, |p| p.1);
                rows.push(vec![name.clone(), number(mean), number(last)]);
                lines.push(Line { name, points, style: Style::Plain });
            }
        }
        self.add_papers(&mut lines, 0);
        let y = heading(&self.metric, &unit);
        let header = [y.as_str(), "mean over time", "at the end"].map(str::to_owned).to_vec();
        let plot = Plot {
            title: String::new(),
            x: Axis { label: "time, s".to_owned(), log: false, categories: None },
            y: Axis { label: y, log: self.log_y, categories: None },
            lines,
        };
        (plot, Table { title: String::new(), keys: 1, header, rows })
    }
}

/// The share of the samples that is no greater, which rises at each.
fn steps(samples: &mut [f64]) -> Vec<(f64, f64, Option<f64>)> {
    samples.sort_by(f64::total_cmp);
    let share = |n: usize| n as f64 / samples.len() as f64;
    let at = |(n, x): (usize, &f64)| [(*x, share(n), None), (*x, share(n + 1), None)];
    samples.iter().enumerate().flat_map(at).collect()
}

fn plan_name(results: &Results<'_>) -> String {
    results.plan.items.first().map(|i| i.scenario.name.clone()).unwrap_or_default()
}

fn prefix(row: &mut [String], panel: &str) {
    if let Some(first) = row.first_mut().filter(|_| !panel.is_empty()) {
        *first = format!("{panel} {first}").trim().to_owned();
    }
}
