//! `tack lab controllers`.

use serde::Serialize;
use tack_lab::controllers::{Done, Experiment, Row, plot, rows, run, table};
use tack_lab::svg::stacked;

use super::{at, failed, interruptible, print_json, progress};
use crate::args::lab::ControllersArgs;
use crate::cmd::extras::print;
use crate::exit::{ExitCode, Failure};

/// `{"rows": […]}`.
#[derive(Serialize)]
struct Json {
    rows: Vec<Row>,
}

/// Runs and shows them.
pub(super) fn controllers(args: &ControllersArgs) -> Result<ExitCode, Failure> {
    let settings = args.resolve()?;
    if let Some(dir) = &args.out {
        // Not after minutes of work.
        std::fs::create_dir_all(dir).map_err(|e| at(dir, e))?;
    }
    let trials = settings.trials();
    let bar = progress(args.how.quiet);
    bar.set_length(trials.len() as u64);
    let (jobs, watched) = (args.how.jobs, bar.clone());
    let done = interruptible(move || run(&trials, jobs, &|| watched.inc(1)))?;
    let done = done.ok_or_else(|| Failure::new(ExitCode::Interrupted, "stopped"))?;
    let done = done.map_err(|e| failed(format!("{e:#}")))?;
    bar.finish_and_clear();
    draw(args, &done)?;
    let rows = rows(&done);
    if args.json { print_json(&Json { rows }) } else { print(table(&rows).as_bytes()) }
}

fn draw(args: &ControllersArgs, done: &[Done]) -> Result<(), Failure> {
    let Some(dir) = &args.out else { return Ok(()) };
    for (experiment, name) in [
        (Experiment::Clean, "clean.svg"),
        (Experiment::Loss, "loss.svg"),
        (Experiment::Marked, "marked.svg"),
        (Experiment::Pair, "pairs.svg"),
    ] {
        let path = dir.join(name);
        let picture = stacked(&plot::plots(done, experiment));
        std::fs::write(&path, picture).map_err(|e| at(&path, e))?;
    }
    Ok(())
}
