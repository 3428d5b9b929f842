//! The lab in Python: the extension module of the package `tack_lab`.
//!
//! A thin host of `tack-lab`, as the command and the page are. It plans, runs and keeps what files
//! say with the lab's own parts, and adds what only Python wants: exceptions, Arrow tables, pictures
//! in notebooks, controllers written in Python, the command as an entry point. What needs no Rust is
//! Python, in `python/tack_lab`: the driver of executors (`_sweep.py`), the bar, the exceptions.
//!
//! ```text
//! plan ── run ─────────── running ── tack_lab::recorder      Python's thread hears Ctrl-C meanwhile
//!   │                        └────── controller              back into Python, for a user's own
//!   ├── shard ── store ─┐
//!   └───────────────────┴ results ── table (Arrow), picture (SVG), text, JSON, HTML
//! ```

mod command;
mod controller;
mod failure;
mod kept;
mod picture;
mod plan;
mod results;
mod running;
mod store;
mod table;
mod value;

use pyo3::prelude::*;
use tack_lab::bundle;

/// Names of the repository's experiments, as `figure` takes them.
#[pyfunction]
fn figures() -> Vec<&'static str> {
    bundle::FILES.iter().map(|(path, _)| bundle::stem(path)).collect()
}

/// Path and text of one of the repository's experiments.
#[pyfunction]
fn bundled(name: &str) -> Option<(&'static str, &'static str)> {
    let stem = |path| bundle::stem(path).eq_ignore_ascii_case(name);
    bundle::FILES.iter().find(|(path, _)| stem(path)).copied()
}

/// Unit and meaning of a figure; `None`: there is no such figure.
#[pyfunction]
fn about_metric(name: &str) -> Option<(&'static str, &'static str)> {
    tack_lab::metric::about(name)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<results::Results>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<picture::Picture>()?;
    module.add_class::<controller::AckSample>()?;
    module.add_class::<controller::LossSample>()?;
    module.add_class::<controller::ControllerConfig>()?;
    module.add_function(wrap_pyfunction!(figures, module)?)?;
    module.add_function(wrap_pyfunction!(bundled, module)?)?;
    module.add_function(wrap_pyfunction!(about_metric, module)?)?;
    module.add_function(wrap_pyfunction!(command::main, module)?)
}
