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
mod picture;
mod rows;
mod usual;

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::course::{DISTRIBUTIONS, SERIES};
use crate::data::Data;
use crate::draw::{Word, Words};
use crate::metric::{self, base};
use crate::pivot::{How, Quantity, Results, axis_names, known_axis};
use crate::scenario::Problem;
use crate::svg::Plot;
use crate::table::Table;

pub(crate) use heading::{heading, short};
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

/// A view of results: a table, the same for programs, and a picture of it if it has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The numbers, for people.
    pub table: Table,
    /// All that table and pictures have, for programs.
    pub data: Data,
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
                match names.is_empty() {
                    true => self.rows(results),
                    false => View { metrics: names, ..self.clone() }.rows(results),
                }
            }
            _ => self.picture(results),
        }
    }
}
