//! `tack lab fairness --live`.

use serde::Serialize;
use tack_lab::fairness::live::{LiveRow, rows, run_all, table};

use crate::args::lab::FairnessArgs;
use crate::cmd::lab::{at, failed, interruptible, progress, run_batch, show};
use crate::exit::{ExitCode, Failure};

/// `{"rows": […]}`.
#[derive(Serialize)]
struct Json {
    rows: Vec<LiveRow>,
}

/// Simulates, then runs in real time, and shows both.
pub(super) fn live(args: &FairnessArgs) -> Result<ExitCode, Failure> {
    let plan = args.resolve_live()?;
    if let Some(dir) = &args.pcap {
        std::fs::create_dir_all(dir).map_err(|e| at(dir, e))?;
    }
    // Before, not meanwhile: it takes whole cores.
    let simulated = plan.simulated(args.access);
    let results = run_batch(simulated.scenarios(), &args.how, args.out.as_deref())?;
    let simulated = simulated.summarise(&results);
    let runs = plan.runs();
    let bar = progress(args.how.quiet);
    bar.set_length(runs.len() as u64);
    let (jobs, captures, watched) = (args.jobs(), args.pcap.clone(), bar.clone());
    let done =
        interruptible(move || run_all(&runs, jobs, captures.as_deref(), &|| watched.inc(1)))?;
    bar.finish_and_clear();
    let results = done
        .ok_or_else(|| Failure::new(ExitCode::Interrupted, "stopped"))?
        .map_err(|e| failed(format!("{e:#}")))?;
    let rows = rows(&plan, &results, &simulated);
    let files = args.out.as_deref().map(|dir| (dir, "fairness-live"));
    show(&table(&rows), &Json { rows }, args.json, files)
}
