//! Exceptions. Their classes are Python's (`_errors.py`), which can be pickled and have types.

use std::fmt::Display;
use std::path::Path;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use tack_lab::runner::Stopped;
use tack_lab::scenario::ScenarioError;

static FILE_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static RUN_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static STORE_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();

const MODULE: &str = "tack_lab._errors";

/// What is wrong with the file called `name`, with line and key.
pub(crate) fn file_error(py: Python<'_>, name: &str, e: &ScenarioError) -> PyErr {
    let args = (format!("{name}, {e}"), name.to_owned(), e.line, e.key.clone());
    match FILE_ERROR.import(py, MODULE, "FileError") {
        Ok(class) => PyErr::from_type(class.clone(), args),
        Err(failed) => failed,
    }
}

/// A run that could not be made.
pub(crate) fn run_error(py: Python<'_>, what: impl Display) -> PyErr {
    match RUN_ERROR.import(py, MODULE, "RunError") {
        Ok(class) => PyErr::from_type(class.clone(), (what.to_string(),)),
        Err(failed) => failed,
    }
}

/// A file of results that cannot be used.
pub(crate) fn store_error(py: Python<'_>, what: impl Display) -> PyErr {
    match STORE_ERROR.import(py, MODULE, "StoreError") {
        Ok(class) => PyErr::from_type(class.clone(), (what.to_string(),)),
        Err(failed) => failed,
    }
}

/// A file that cannot be written: Python's own exception for that, with the path.
pub(crate) fn at_file(py: Python<'_>, path: &Path, e: &std::io::Error) -> PyErr {
    let what = e.to_string();
    match e.raw_os_error() {
        Some(number) => {
            let strerror = py.import("os").and_then(|os| os.call_method1("strerror", (number,)));
            let what = strerror.and_then(|text| text.extract::<String>()).unwrap_or(what);
            PyOSError::new_err((number, what, path.to_owned()))
        }
        None => PyOSError::new_err(format!("{}: {what}", path.display())),
    }
}

/// Why work ended early.
pub(crate) fn stopped(py: Python<'_>, stopped: Stopped) -> PyErr {
    match stopped {
        Stopped::Item { error, .. } => run_error(py, format!("{error:#}")),
        Stopped::Output(e) => store_error(py, format!("results cannot be written: {e}")),
        Stopped::Cancelled => run_error(py, "interrupted"),
    }
}
