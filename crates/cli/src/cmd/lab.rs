//! `tack lab`: plans, progress bars and files around `tack-lab`.

#[cfg(target_os = "linux")]
mod emulate;
mod envelope;
mod experiment;
#[cfg(target_os = "linux")]
mod versus;

use std::io::{IsTerminal, stderr};
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::extras::print;
use crate::args::lab::{AirtimeArgs, LabArgs, LabCommand};
use crate::exit::{ExitCode, Failure};

/// Runs an experiment.
pub fn run(args: LabArgs) -> Result<ExitCode, Failure> {
    match args.command {
        LabCommand::Compare(args) => experiment::compare(&args),
        LabCommand::Run(args) => experiment::run_file(&args),
        LabCommand::Airtime(args) => airtime(&args),
        LabCommand::Acks(args) => experiment::acks(&args),
        LabCommand::Envelope(args) => envelope::envelope(&args),
        LabCommand::Fairness(args) => experiment::figures(&["fairness"], &args),
        LabCommand::Reproduce(args) => experiment::reproduce(&args),
        LabCommand::Controllers(args) => {
            experiment::figures(&["controllers", "pairs", "response"], &args)
        }
        #[cfg(target_os = "linux")]
        LabCommand::Emulate(args) => emulate::emulate(&args),
        #[cfg(target_os = "linux")]
        LabCommand::Kernel(args) => experiment::figures(&["kernel"], &args),
        #[cfg(target_os = "linux")]
        LabCommand::Versus(args) => versus::versus(&args),
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

fn print_json(value: &impl Serialize) -> Result<ExitCode, Failure> {
    let mut text = serde_json::to_vec_pretty(value).map_err(failed)?;
    text.push(b'\n');
    print(&text)
}
