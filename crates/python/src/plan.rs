//! A file with what is changed of it, as runs.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::{Deserialize, Serialize};
use tack_lab::experiment::Extent;
use tack_lab::item::{Item, distinct};
use tack_lab::plan::experiment_or_scenario;
use tack_lab::record::Record;
use tack_lab::reproduce::Loaded;
use tack_lab::store::Store as Kept;

use crate::controller::Brought;
use crate::failure;
use crate::kept::{lines, open};
use crate::results::Results;
use crate::running::{Running, Work};
use crate::value;

/// What a plan is made of, and made of again in another process.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Source {
    text: String,
    /// What messages call the text: a path.
    name: String,
    extent: String,
    set: Vec<(String, toml::Value)>,
    only: Vec<String>,
    series: bool,
    /// The first run. Another version of the lab knows runs by other names.
    first: String,
}

/// Every run of a scenario or experiment file.
#[pyclass(frozen, module = "tack_lab")]
pub(crate) struct Plan {
    source: Source,
    pub(crate) loaded: Arc<Loaded>,
    /// Each run once.
    pub(crate) items: Arc<Vec<Item>>,
}

fn extent(name: &str) -> PyResult<Extent> {
    let all = [Extent::Short, Extent::Usual, Extent::Full];
    all.into_iter().find(|extent| extent.name() == name).ok_or_else(|| {
        PyValueError::new_err(format!("`extent` is \"{name}\": short, usual or full"))
    })
}

impl Plan {
    fn of(py: Python<'_>, mut source: Source) -> PyResult<Plan> {
        let wrong = |e| failure::file_error(py, &source.name, &e);
        let extent = extent(&source.extent)?;
        let stem = tack_lab::bundle::stem(&source.name);
        let mut experiment = experiment_or_scenario(&source.text, stem).map_err(wrong)?;
        for (key, value) in &source.set {
            experiment.change(extent, key, value.clone()).map_err(|what| {
                PyValueError::new_err(format!("{}, set[\"{key}\"]: `{key}` {what}", source.name))
            })?;
        }
        if !source.only.is_empty() {
            experiment
                .keep_only(extent, &source.only)
                .map_err(|what| PyValueError::new_err(format!("{}, only: {what}", source.name)))?;
        }
        experiment.series |= source.series;
        let loaded = Loaded::of(experiment, &source.text, extent).map_err(wrong)?;
        let items = distinct(&[&loaded.plan]);
        source.first = items.first().map(|item| item.id.clone()).unwrap_or_default();
        Ok(Plan { source, loaded: Arc::new(loaded), items: Arc::new(items) })
    }

    /// The items with these ids, in their order.
    fn chosen(&self, py: Python<'_>, runs: &[String]) -> PyResult<Vec<Item>> {
        let find = |run: &String| self.items.iter().find(|item| item.id == *run).cloned();
        let found = runs.iter().map(|run| {
            find(run).ok_or_else(|| failure::run_error(py, format!("the plan has no run {run}")))
        });
        found.collect()
    }

    fn brought(&self, py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<Brought> {
        let brought = Brought::new(py, given)?;
        let lacks = |name: &&str| !brought.factories().contains_key(*name);
        if let Some(name) = self.loaded.plan.controllers().into_iter().find(lacks) {
            let have: Vec<&str> = brought.factories().keys().map(String::as_str).collect();
            let have = if have.is_empty() { "none".to_owned() } else { have.join(", ") };
            let what = format!(
                "{}: `controller` is \"{name}\", and `controllers` has {have}",
                self.source.name
            );
            return Err(PyValueError::new_err(what));
        }
        Ok(brought)
    }

    /// Whether results of these runs may be kept: a run is known by the name of a controller alone.
    pub(crate) fn check_kept(&self) -> PyResult<()> {
        match self.loaded.plan.controllers().first() {
            None => Ok(()),
            Some(name) => Err(PyValueError::new_err(format!(
                "{}: results with `controller = \"{name}\"` are not kept in a store, which could not tell \
                 them from those of the same name after the next change: leave `store` out",
                self.source.name
            ))),
        }
    }
}

#[pymethods]
impl Plan {
    /// From a text; `name` is what messages call it.
    #[staticmethod]
    #[pyo3(signature = (text, name, *, extent, set, only, series))]
    fn _parse(
        py: Python<'_>,
        text: String,
        name: String,
        extent: String,
        set: Option<&Bound<'_, PyDict>>,
        only: Vec<String>,
        series: bool,
    ) -> PyResult<Plan> {
        let set = value::pairs("", set)?;
        Plan::of(py, Source { text, name, extent, set, only, series, first: String::new() })
    }

    /// From what `__reduce__` gave.
    #[staticmethod]
    fn _restore(py: Python<'_>, state: &str) -> PyResult<Plan> {
        let source: Source =
            serde_json::from_str(state).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let first = source.first.clone();
        let plan = Plan::of(py, source)?;
        if plan.source.first != first {
            let what = format!(
                "the plan was made by another version of tack_lab than this one, {}: install the same \
                 on every machine",
                env!("CARGO_PKG_VERSION")
            );
            return Err(failure::run_error(py, what));
        }
        Ok(plan)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let state = serde_json::to_string(&slf.get().source)
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok((slf.get_type().getattr("_restore")?, (state,)))
    }

    /// Of the experiment; of a scenario, its name.
    #[getter]
    fn id(&self) -> &str {
        &self.loaded.experiment.id
    }

    /// In a few words; empty of a scenario.
    #[getter]
    fn title(&self) -> &str {
        &self.loaded.experiment.title
    }

    /// The file.
    #[getter]
    fn text(&self) -> &str {
        &self.loaded.text
    }

    /// What varies, and its values, the last fastest.
    #[getter]
    fn axes(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<Py<PyAny>>)>> {
        let axes = self.loaded.plan.axes.iter().map(|(name, words)| {
            let words = words.iter().map(|word| value::word(py, word));
            Ok((name.clone(), words.collect::<PyResult<_>>()?))
        });
        axes.collect()
    }

    /// What each run is known by.
    #[getter]
    fn runs(&self) -> Vec<&str> {
        self.items.iter().map(|item| item.id.as_str()).collect()
    }

    /// Which run it is, in words.
    fn describe(&self, py: Python<'_>, run: String) -> PyResult<String> {
        Ok(self.chosen(py, &[run])?.iter().map(Item::describe).collect())
    }

    fn __len__(&self) -> usize {
        self.items.len()
    }

    fn __repr__(&self) -> String {
        format!("<tack_lab.Plan {}: {} runs>", self.loaded.experiment.id, self.items.len())
    }

    /// Whether it can run with these controllers, and its results be kept.
    fn _check(
        &self,
        py: Python<'_>,
        is_kept: bool,
        controllers: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        if is_kept {
            self.check_kept()?;
        }
        self.brought(py, controllers).map(drop)
    }

    /// Runs what `store` has not, on this machine.
    #[pyo3(signature = (*, jobs=0, store=None, resume=true, progress=None, controllers=None))]
    fn run(
        &self,
        py: Python<'_>,
        jobs: isize,
        store: Option<PathBuf>,
        resume: bool,
        progress: Option<Py<PyAny>>,
        controllers: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Results> {
        let jobs = usize::try_from(jobs).map_err(|_| {
            PyValueError::new_err(format!("jobs is {jobs}, but must be at least 0"))
        })?;
        if store.is_some() {
            self.check_kept()?;
        }
        let bar = py.import("tack_lab._progress")?.call_method1("told", (progress,))?.unbind();
        let brought = self.brought(py, controllers)?;
        let kept = open(py, store.as_deref(), resume)?;
        let missing = kept.missing(&self.items);
        let done = self.items.len() - missing.len();
        let running = Running::new(&brought, Some(&bar), (done, self.items.len()), None);
        let records = running.run(py, Work { items: missing, jobs, store: kept })?;
        Results::of(py, (&self.loaded, &self.items), records)
    }

    /// Runs these, and gives the records of what was done within `seconds`, at least one, as lines of
    /// a store.
    #[pyo3(signature = (runs, *, jobs, seconds, controllers))]
    fn _shard<'py>(
        &self,
        py: Python<'py>,
        runs: Vec<String>,
        jobs: usize,
        seconds: Option<f64>,
        controllers: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let brought = self.brought(py, controllers)?;
        let items = self.chosen(py, &runs)?;
        let running = Running::new(&brought, None, (0, items.len()), seconds);
        let store = Kept::transient();
        let mut records = running.run(py, Work { items, jobs, store })?;
        let own: Vec<Record> = runs.iter().filter_map(|run| records.remove(run)).collect();
        Ok(PyBytes::new(py, &lines(py, own.iter())?))
    }
}
