//! `tack lab kernel`: runs, progress and a table.

use std::sync::{Arc, Mutex, PoisonError};

use tack_lab::kernel::{KernelStore, Report, report, table};

use super::{at, failed, interruptible, print_json, progress};
use crate::args::lab::KernelArgs;
use crate::cmd::extras::print;
use crate::exit::{ExitCode, Failure};

/// Makes the runs that are missing and prints the table.
pub(super) fn kernel(args: &KernelArgs) -> Result<ExitCode, Failure> {
    let plan = args.plan()?;
    let runs = plan.runs();
    let store = match &args.out {
        None => KernelStore::new(),
        Some(path) => {
            KernelStore::open(path, !args.no_resume).map_err(|e| failed(format!("{e:#}")))?
        }
    };
    if let Some(dir) = &args.pcap {
        std::fs::create_dir_all(dir).map_err(|e| at(dir, e))?;
    }
    let missing = if args.show { Vec::new() } else { store.missing(&runs) };
    let bar = progress(args.quiet);
    bar.set_length(runs.len() as u64);
    bar.set_position((runs.len() - store.missing(&runs).len()) as u64);
    bar.reset_eta();
    let store = Arc::new(Mutex::new(store));
    let (rows, runner, counted) = (Arc::clone(&store), args.runner(), bar.clone());
    let done = interruptible(move || {
        runner.run_all(&missing, &|row| {
            counted.inc(1);
            rows.lock().unwrap_or_else(PoisonError::into_inner).add(row)
        })
    })?;
    bar.finish_and_clear();
    // Held to the end: after an interruption no row comes later than the table.
    let store = store.lock().unwrap_or_else(PoisonError::into_inner);
    let report = report(&plan.cells, store.rows());
    if args.json {
        print_json(&report)?;
    } else if !report.rows.is_empty() {
        print(table(&report).as_bytes())?;
    }
    match done {
        Some(Ok(())) if report.rows.is_empty() => Err(failed(nothing(&report))),
        Some(Ok(())) => Ok(ExitCode::Success),
        Some(Err(e)) => Err(failed(format!("{e:#}"))),
        None => Err(Failure::new(ExitCode::Interrupted, "stopped")),
    }
}

/// Why there is no table.
fn nothing(report: &Report) -> String {
    let mut message = "no cell has a sound run of both stacks".to_owned();
    match report.voided.as_slice() {
        [] => message += ": nothing ran",
        voided => {
            message += ": leave the machine alone, or make the runs with `chrt -r 1`";
            for run in voided {
                message += &format!("\n  left out: {}: {}", run.run, run.why);
            }
        }
    }
    message
}
