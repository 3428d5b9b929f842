//! `tack lab`: plans, progress bars and files around `tack-lab`.

mod acks;
mod controllers;
#[cfg(target_os = "linux")]
mod emulate;
mod envelope;
mod fairness;
#[cfg(target_os = "linux")]
mod kernel;
mod reproduce;

use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tack_lab::batch::run_all;
use tack_lab::compare::{CompareRow, Comparison, table};
use tack_lab::output::{Row, write_csv};
use tack_lab::result::RunResult;
use tack_lab::scenario::{Plan, Run, Scenario};
use tack_lab::store::Store;
use tack_lab::sweep::{Observer, SweepError, sweep};
use tack_lab::{Recordings, plot, report, simulate, simulate_recorded};

use super::extras::print;
use crate::args::lab::{AirtimeArgs, CompareArgs, HowArgs, LabArgs, LabCommand, RunArgs};
use crate::exit::{ExitCode, Failure};

/// Runs an experiment.
pub fn run(args: LabArgs) -> Result<ExitCode, Failure> {
    match args.command {
        LabCommand::Compare(args) => compare(&args),
        LabCommand::Run(args) => run_file(args),
        LabCommand::Airtime(args) => airtime(&args),
        LabCommand::Acks(args) => acks::acks(&args),
        LabCommand::Envelope(args) => envelope::envelope(&args),
        LabCommand::Fairness(args) => fairness::fairness(&args),
        LabCommand::Reproduce(args) => reproduce::reproduce(&args),
        LabCommand::Controllers(args) => controllers::controllers(&args),
        #[cfg(target_os = "linux")]
        LabCommand::Emulate(args) => emulate::emulate(&args),
        #[cfg(target_os = "linux")]
        LabCommand::Kernel(args) => kernel::kernel(&args),
    }
}

fn failed(e: impl std::fmt::Display) -> Failure {
    Failure::new(ExitCode::Failed, e.to_string())
}

fn at(path: &Path, e: impl std::fmt::Display) -> Failure {
    failed(format!("{}: {e}", path.display()))
}

fn airtime(args: &AirtimeArgs) -> Result<ExitCode, Failure> {
    let settings = args.resolve();
    // What cannot run is a mistake on the command line: the model itself has no way to fail.
    let report = settings.run().map_err(|e| Failure::usage(format!("{e:#}")))?;
    if args.json {
        return print_json(&report);
    }
    let mut text = format!(
        "{:.2} Mbit/s at the IP level, {:.2} Mbit/s of UDP payload\n{} data packets, {} ACKs sent, \
         {} arrived\n",
        report.l3_mbps, report.goodput_mbps, report.data_packets, report.acks, report.acks_received,
    );
    for (name, node) in [("access point", &report.ap), ("stations", &report.stations)] {
        text += &format!(
            "{name:<13} {:>8} accesses, {:>5.1} % collided, {:>5.1} MPDUs per PPDU, {} drops\n",
            node.accesses,
            node.collision_probability * 100.0,
            node.mpdus_per_ppdu,
            node.queue_drops + node.retry_drops,
        );
    }
    for (name, share) in report.airtime.iter().filter(|(_, share)| **share > 0.0) {
        text += &format!("{name:<13} {:>7.2} % of the airtime\n", share * 100.0);
    }
    print(text.as_bytes())
}

/// `{"rows": […]}`.
#[derive(Serialize)]
struct CompareJson<'a> {
    rows: &'a [CompareRow],
}

fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let comparison = args.resolve()?;
    if let Some(path) = &args.plot {
        // Not after minutes of work.
        File::create(path).map_err(|e| at(path, e))?;
    }
    let bar = progress(args.how.quiet);
    let jobs = args.how.jobs;
    let rows = match interruptible(move || compare_rows(&comparison, jobs, &bar))? {
        Some(rows) => rows?,
        None => return Err(Failure::new(ExitCode::Interrupted, "stopped")),
    };
    if let Some(path) = &args.plot {
        plot::compare(&rows, path).map_err(|e| at(path, format!("{e:#}")))?;
    }
    match (args.json, args.csv) {
        (true, _) => print_json(&CompareJson { rows: &rows }),
        (false, true) => print(tack_lab::compare::csv(&rows).as_bytes()),
        (false, false) => print(table(&rows).as_bytes()),
    }
}

fn compare_rows(
    comparison: &Comparison,
    jobs: usize,
    bar: &ProgressBar,
) -> Result<Vec<CompareRow>, Failure> {
    let runs = comparison.runs();
    bar.set_length((runs.len() + comparison.cells()) as u64);
    let ideals = comparison.ideals(&|| bar.inc(1)).map_err(|e| failed(format!("{e:#}")))?;
    let collected = Collected { rows: Mutex::new(Vec::with_capacity(runs.len())), bar };
    sweep(&runs, jobs, &collected, |run| simulate(&run.scenario)).map_err(failed)?;
    bar.finish_and_clear();
    let rows = collected.rows.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(comparison.summarise(&rows, &ideals))
}

struct Collected<'a> {
    rows: Mutex<Vec<Row>>,
    bar: &'a ProgressBar,
}

impl Observer for Collected<'_> {
    fn row(&self, row: &Row) -> std::io::Result<()> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).push(row.clone());
        Ok(())
    }

    fn progressed(&self) {
        self.bar.inc(1);
    }
}

/// Rows on their way into the results file.
struct Recorder {
    store: Mutex<Store>,
    bar: ProgressBar,
}

impl Observer for Recorder {
    fn row(&self, row: &Row) -> std::io::Result<()> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).append(row)
    }

    fn progressed(&self) {
        self.bar.inc(1);
    }
}

fn run_file(args: RunArgs) -> Result<ExitCode, Failure> {
    let text = std::fs::read_to_string(&args.file).map_err(|e| at(&args.file, e))?;
    let wrong = |e| Failure::usage(format!("{}, {e}", args.file.display()));
    let runs = Plan::parse(&text).map_err(wrong)?.runs();
    if args.pcap.is_some() || args.series.is_some() {
        return record(&args, &runs);
    }
    let path = args.results();
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|e| at(dir, e))?;
    }
    let store = Store::open(&path, &runs, !args.no_resume).map_err(|e| {
        failed(format!("{e}; name another file with --out, or delete it with --no-resume"))
    })?;
    let missing = store.missing(&runs);
    let bar = progress(args.how.quiet);
    bar.set_length(runs.len() as u64);
    bar.set_position((runs.len() - missing.len()) as u64);
    bar.reset_eta();
    let recorder = Arc::new(Recorder { store: Mutex::new(store), bar });
    let (work, jobs) = (Arc::clone(&recorder), args.how.jobs);
    let done = interruptible(move || sweep(&missing, jobs, &*work, |run| simulate(&run.scenario)))?;
    // Held to the end: after an interruption no row comes later than the CSV file.
    let store = recorder.store.lock().unwrap_or_else(PoisonError::into_inner);
    recorder.bar.finish_and_clear();
    if args.csv {
        let csv = path.with_extension("csv");
        let file = File::create(&csv).map_err(|e| at(&csv, e))?;
        let mut out = BufWriter::new(file);
        write_csv(store.rows(), &mut out).and_then(|()| out.flush()).map_err(|e| at(&csv, e))?;
    }
    print(report::summary(&runs, store.rows()).as_bytes())?;
    let (have, all) = (store.rows().len(), runs.len());
    match done {
        Some(Ok(())) => {
            eprintln!("{all} runs in {}", path.display());
            Ok(ExitCode::Success)
        }
        Some(Err(e @ SweepError::Run { .. })) => Err(at(&args.file, e)),
        Some(Err(e)) => Err(at(&path, e)),
        None => {
            let why = format!(
                "stopped; {have} of {all} runs are in {}, the same command goes on",
                path.display()
            );
            Err(Failure::new(ExitCode::Interrupted, why))
        }
    }
}

fn record(args: &RunArgs, runs: &[Run]) -> Result<ExitCode, Failure> {
    let [run] = runs else {
        let why = format!(
            "--pcap and --series record one run, but {} asks for {}: set runs = 1 and sweep nothing",
            args.file.display(),
            runs.len()
        );
        return Err(Failure::usage(why));
    };
    let open = |path: &Option<PathBuf>| -> Result<Option<Box<dyn Write + Send>>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let file = File::create(path).map_err(|e| at(path, e))?;
        Ok(Some(Box::new(BufWriter::new(file))))
    };
    let recordings = Recordings { packets: open(&args.pcap)?, series: open(&args.series)? };
    let scenario = run.scenario.clone();
    let done = interruptible(move || simulate_recorded(&scenario, recordings))?;
    let Some(result) = done else {
        return Err(Failure::new(ExitCode::Interrupted, "stopped; recordings are incomplete"));
    };
    let result = result.map_err(|e| at(&args.file, format!("{e:#}")))?;
    print(report::summary(runs, &[Row::new(run, result)]).as_bytes())
}

/// A bar on standard error, shown if a person is looking.
fn progress(quiet: bool) -> ProgressBar {
    if quiet || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0);
    let template = "{bar:30} {pos}/{len} runs  {elapsed}, {eta} left";
    bar.set_style(
        ProgressStyle::with_template(template).expect("the template is a constant that parses"),
    );
    bar.enable_steady_tick(std::time::Duration::from_millis(200));
    bar
}

/// Does `work` on a thread; `None` as soon as the user presses ctrl-C. What is under way then ends
/// with the process.
fn interruptible<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<Option<T>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| failed(format!("cannot start: {e}")))?;
    let done = runtime.block_on(async {
        let work = tokio::task::spawn_blocking(work);
        tokio::select! {
            done = work => Some(done),
            _ = tokio::signal::ctrl_c() => None,
        }
    });
    runtime.shutdown_background();
    match done {
        None => Ok(None),
        Some(Ok(done)) => Ok(Some(done)),
        Some(Err(e)) => std::panic::resume_unwind(e.into_panic()),
    }
}

/// Runs `scenarios` with a bar, after making sure that there is a directory for what comes of it.
fn run_batch(
    scenarios: Vec<Scenario>,
    how: &HowArgs,
    out: Option<&Path>,
) -> Result<Vec<RunResult>, Failure> {
    if let Some(dir) = out {
        // Not after minutes of work.
        std::fs::create_dir_all(dir).map_err(|e| at(dir, e))?;
    }
    let bar = progress(how.quiet);
    bar.set_length(scenarios.len() as u64);
    let (jobs, watched) = (how.jobs, bar.clone());
    let done = interruptible(move || run_all(scenarios, jobs, &|| watched.inc(1)))?;
    let done = done.ok_or_else(|| Failure::new(ExitCode::Interrupted, "stopped"))?;
    bar.finish_and_clear();
    done.map_err(failed)
}

/// Prints the table or the JSON, and writes both to files of that name in a directory.
fn show(
    text: &str,
    json: &impl Serialize,
    as_json: bool,
    files: Option<(&Path, &str)>,
) -> Result<ExitCode, Failure> {
    if let Some((dir, name)) = files {
        let mut pretty = serde_json::to_vec_pretty(json).map_err(failed)?;
        pretty.push(b'\n');
        for (extension, bytes) in [("txt", text.as_bytes()), ("json", &pretty)] {
            let path = dir.join(name).with_extension(extension);
            std::fs::write(&path, bytes).map_err(|e| at(&path, e))?;
        }
    }
    if as_json { print_json(json) } else { print(text.as_bytes()) }
}

fn print_json(value: &impl Serialize) -> Result<ExitCode, Failure> {
    let mut text = serde_json::to_vec_pretty(value).map_err(failed)?;
    text.push(b'\n');
    print(&text)
}
