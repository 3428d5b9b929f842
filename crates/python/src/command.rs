//! The command `tack`, as the entry point of the package.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::exit;

use pyo3::prelude::*;
use tack_cli::args::Cli;
use tack_device::{Started, set_started};

/// The status of a program of Rust that panicked.
const PANICKED: i32 = 101;

/// Runs the command line and ends the process, as the binary does: with its status, and without a
/// word of Python's. `program` is what starts the command again.
#[pyfunction]
pub(crate) fn main(py: Python<'_>, line: Vec<OsString>, program: PathBuf) {
    set_started(Started { program, args: line.iter().skip(1).cloned().collect() });
    py.detach(|| {
        let run = || {
            let cli = Cli::read(line).unwrap_or_else(|e| e.exit());
            tack_cli::cmd::run(cli) as i32
        };
        exit(catch_unwind(AssertUnwindSafe(run)).unwrap_or(PANICKED))
    })
}
