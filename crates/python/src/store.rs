//! The lab's store, for the driver of a sweep: what came back from other machines, kept here.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tack_lab::record::Record;
use tack_lab::store::{Store as Kept, read};

use crate::failure;
use crate::kept::open;
use crate::plan::Plan;
use crate::results::Results;

/// An open store of records.
#[pyclass(frozen, module = "tack_lab._native")]
pub(crate) struct Store {
    /// `None`: it is closed.
    kept: Mutex<Option<Kept<Record>>>,
}

impl Store {
    fn with<T>(&self, work: impl FnOnce(&mut Kept<Record>) -> PyResult<T>) -> PyResult<T> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        work(kept.as_mut().ok_or_else(|| PyValueError::new_err("the store is closed"))?)
    }
}

#[pymethods]
impl Store {
    #[new]
    fn new(py: Python<'_>, path: Option<PathBuf>, resume: bool) -> PyResult<Store> {
        Ok(Store { kept: Mutex::new(Some(open(py, path.as_deref(), resume)?)) })
    }

    /// The runs of a plan that have no record yet, in order.
    fn missing(&self, plan: &Plan) -> PyResult<Vec<String>> {
        self.with(|kept| Ok(kept.missing(&plan.items).into_iter().map(|item| item.id).collect()))
    }

    /// Keeps the records of these lines; which runs they are of.
    fn append(&self, py: Python<'_>, lines: &[u8]) -> PyResult<Vec<String>> {
        let text = str::from_utf8(lines).map_err(|e| failure::store_error(py, e))?;
        let records: Vec<Record> = read(text).map_err(|e| failure::store_error(py, e))?;
        self.with(|kept| {
            let mut runs = Vec::new();
            for record in records {
                runs.push(record.run.clone());
                kept.append(record).map_err(|e| failure::store_error(py, e))?;
            }
            Ok(runs)
        })
    }

    /// Puts the file into the order of the plan, and closes it; what came of the plan.
    fn finish(&self, py: Python<'_>, plan: &Plan) -> PyResult<Results> {
        let runs: Vec<String> = plan.items.iter().map(|item| item.id.clone()).collect();
        self.with(|kept| kept.arrange(&runs).map_err(|e| failure::store_error(py, e)))?;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        Results::of(py, (&plan.loaded, &plan.items), kept.map(Kept::into_kept).unwrap_or_default())
    }

    /// Lets go of the file.
    fn close(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
