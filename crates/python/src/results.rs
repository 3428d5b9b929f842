//! What came of a plan: tables, pictures, judgments, and the words of `tack lab run`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping};
use serde::Deserialize;
use tack_lab::claim::Finding;
use tack_lab::data::{count_name, interval_name};
use tack_lab::html;
use tack_lab::item::Item;
use tack_lab::record::Record;
use tack_lab::reproduce::{Loaded, Means, Report};
use tack_lab::view::View;

use crate::failure;
use crate::kept::lines;
use crate::picture::Picture;

use crate::table::{Columns, Table};
use crate::value;

/// What came of every run of a plan.
#[pyclass(frozen, module = "tack_lab")]
pub(crate) struct Results {
    loaded: Arc<Loaded>,
    items: Arc<Vec<Item>>,
    records: BTreeMap<String, Record>,
    report: Report,
}

impl Results {
    /// Of a plan, each of whose runs has a record.
    pub(crate) fn of(
        py: Python<'_>,
        (loaded, items): (&Arc<Loaded>, &Arc<Vec<Item>>),
        records: BTreeMap<String, Record>,
    ) -> PyResult<Results> {
        let report = py.detach(|| loaded.report(&records)).ok_or_else(|| {
            let lacks = |item: &&Item| !records.contains_key(&item.id);
            let first = items.iter().find(lacks).map(Item::describe).unwrap_or_default();
            failure::run_error(py, format!("runs are missing; the first: {first}"))
        })?;
        Ok(Results { loaded: Arc::clone(loaded), items: Arc::clone(items), records, report })
    }

    /// Items of the plan with their records.
    fn each(&self) -> impl Iterator<Item = (&Item, &Record)> {
        let all = self.loaded.plan.items.iter();
        all.filter_map(|item| Some((item, self.records.get(&item.id)?)))
    }

    /// Columns that say which run a row is of.
    fn keys<'a>(&self, rows: impl Iterator<Item = &'a Item> + Clone) -> Columns {
        let mut columns = Columns::default();
        columns.text("run", rows.clone().map(|item| Some(item.id.clone())));
        // A swept seed is a column of every run's already.
        for axis in self.loaded.plan.axes.iter().filter(|(name, _)| name != "seed") {
            columns.words(axis, rows.clone().map(|item| item.key.get(&axis.0).cloned()).collect());
        }
        columns.whole("seed", rows.map(|item| item.scenario.seed));
        columns
    }
}

#[pymethods]
impl Results {
    /// The plan's id.
    #[getter]
    fn id(&self) -> &str {
        &self.loaded.experiment.id
    }

    /// A row per run: its key, its seed and every figure.
    fn runs(&self, py: Python<'_>) -> PyResult<Table> {
        let rows = self.each().map(|(item, _)| item);
        let mut columns = self.keys(rows.collect::<Vec<_>>().into_iter());
        let names: BTreeSet<&String> = self.each().flat_map(|(_, r)| r.metrics.keys()).collect();
        for name in names {
            columns.figure(name, name, self.each().map(|(_, record)| record.get(name)));
        }
        columns.text("void", self.each().map(|(_, record)| record.void.clone()));
        columns.table(py)
    }

    /// A row per point of the plan: means over its runs, and halves of their 95 % intervals.
    fn means(&self, py: Python<'_>) -> PyResult<Table> {
        let means = self.loaded.means(&self.records);
        let mut columns = Columns::default();
        for axis in &self.loaded.plan.axes {
            columns.words(axis, means.iter().map(|m| m.key.get(&axis.0).cloned()).collect());
        }
        columns.whole("runs", means.iter().map(|m| m.runs as u64));
        let names: BTreeSet<&String> = means.iter().flat_map(|m| m.figures.keys()).collect();
        for name in names {
            let of = |m: &Means| m.figures.get(name).copied();
            columns.figure(name, name, means.iter().map(|m| Some(of(m)?.estimate.mean)));
            let interval = interval_name(name);
            columns.figure(&interval, name, means.iter().map(|m| of(m)?.estimate.ci95));
            let have = |m: &Means| of(m).map_or(0, |figure| figure.runs);
            if means.iter().any(|m| have(m) < m.runs) {
                columns.whole(&count_name(name), means.iter().map(|m| have(m) as u64));
            }
        }
        columns.table(py)
    }

    /// A row per moment of each figure of each run, of plans that keep series.
    fn series(&self, py: Python<'_>) -> PyResult<Table> {
        let rows = self.each().flat_map(|(item, record)| {
            record.series.iter().flat_map(move |(name, points)| {
                points.iter().map(move |(at, value)| (item, name, *at, *value))
            })
        });
        let rows: Vec<_> = rows.collect();
        let mut columns = self.keys(rows.iter().map(|row| row.0));
        columns.text("figure", rows.iter().map(|row| Some(row.1.clone())));
        columns.figure("time_s", "", rows.iter().map(|row| Some(row.2)));
        columns.figure("value", "", rows.iter().map(|row| Some(row.3)));
        columns.table(py)
    }

    /// A row per quantile of each distribution over the time of each run.
    fn quantiles(&self, py: Python<'_>) -> PyResult<Table> {
        let rows = self.each().flat_map(|(item, record)| {
            record.distributions().into_iter().flat_map(move |(name, values)| {
                let last = values.len().saturating_sub(1).max(1) as f64;
                let points = values.into_iter().enumerate();
                points.map(move |(i, value)| (item, name, i as f64 / last, value))
            })
        });
        let rows: Vec<_> = rows.collect();
        let mut columns = self.keys(rows.iter().map(|row| row.0));
        columns.text("figure", rows.iter().map(|row| Some(row.1.to_owned())));
        columns.figure("quantile", "", rows.iter().map(|row| Some(row.2)));
        columns.figure("value", "", rows.iter().map(|row| Some(row.3)));
        columns.table(py)
    }

    /// A row per claim: what a paper says, what ours says, the verdict (agrees, open, differs), and why.
    fn findings(&self, py: Python<'_>) -> PyResult<Table> {
        let all = &self.report.findings;
        let mut columns = Columns::default();
        columns.text("row", all.iter().map(|f| Some(f.row.clone())));
        columns.text("what", all.iter().map(|f| Some(f.what.clone())));
        columns.text("paper", all.iter().map(|f| Some(f.paper.clone())));
        columns.text("ours", all.iter().map(|f| Some(f.ours.clone())));
        let verdict = |f: &Finding| Some(f.verdict.word().to_lowercase());
        columns.text("verdict", all.iter().map(verdict));
        columns.text("why", all.iter().map(|f| f.why.clone()));
        columns.table(py)
    }

    /// Runs without figures: their key, and why.
    #[getter]
    fn void(&self) -> Vec<String> {
        self.report.void.clone()
    }

    /// The pictures of the file's views.
    #[getter]
    fn pictures(&self) -> Vec<Picture> {
        let shown = self.report.shown.iter().filter(|shown| !shown.plots.is_empty());
        shown.map(|shown| Picture::new(shown.plots.clone())).collect()
    }

    /// Draws one more view; its words are those of `[[view]]` in a file.
    #[pyo3(signature = (metric, *, kind="lines", **view))]
    fn plot(
        &self,
        metric: &str,
        kind: &str,
        view: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Picture> {
        let wrong = |what: String| PyValueError::new_err(format!("plot: {what}"));
        let mut words = match view {
            Some(view) => value::table("", view.as_any().cast::<PyMapping>()?)?,
            None => toml::Table::new(),
        };
        if kind == "table" {
            return Err(wrong("`kind` is \"table\", which has no picture: see means()".to_owned()));
        }
        words.insert("metric".to_owned(), metric.into());
        words.insert("kind".to_owned(), kind.into());
        let view = View::deserialize(toml::Value::Table(words))
            // With the key of a value that is wrong, which stands on a line of its own.
            .map_err(|e| wrong(e.to_string().trim_end().replace('\n', " ")))?;
        let shown = self.loaded.show(&view, &self.records).map_err(wrong)?;
        if shown.plots.is_empty() {
            return Err(wrong(format!("no run has `{metric}` there")));
        }
        Ok(Picture::new(shown.plots))
    }

    /// What `tack lab run` prints.
    fn text(&self) -> String {
        self.report.text()
    }

    /// The same for a document.
    fn markdown(&self) -> String {
        self.report.markdown()
    }

    /// What `tack lab run --json` prints, to the byte.
    fn json(&self) -> PyResult<String> {
        let json = self.loaded.json(&self.report, &self.records);
        let text = serde_json::to_string_pretty(&json);
        Ok(text.map_err(|e| PyValueError::new_err(e.to_string()))? + "\n")
    }

    /// What `tack lab run` keeps, to the byte: a line per run.
    fn jsonl<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let own = self.items.iter().filter_map(|item| self.records.get(&item.id));
        Ok(PyBytes::new(py, &lines(py, own)?))
    }

    /// One page with pictures, tables, judgments and the file.
    fn html(&self) -> String {
        let whole = [((*self.loaded).clone(), self.report.clone())];
        html::page(&whole, &format!("tack_lab: {}", self.loaded.experiment.id))
    }

    fn _repr_html_(&self) -> String {
        html::fragment(&self.loaded, &self.report)
    }

    fn __len__(&self) -> usize {
        self.items.len()
    }

    fn __repr__(&self) -> String {
        let void = match self.report.void.len() {
            0 => String::new(),
            n => format!(", {n} void"),
        };
        format!("<tack_lab.Results {}: {} runs{void}>", self.loaded.experiment.id, self.items.len())
    }
}
