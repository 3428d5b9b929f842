//! `tack lab`: plans, progress bars and files around `tack-lab`.

mod airtime;
#[cfg(target_os = "linux")]
mod emulate;
mod envelope;
mod experiment;
#[cfg(target_os = "linux")]
mod versus;

use std::io::{IsTerminal, stderr};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tack_lab::recorder::{self, Progress};
use tack_lab::runner::Stopped;
use tack_lab::store::{Kept, Store, StoreError};

use crate::args::lab::{LabArgs, LabCommand};
use crate::exit::{ExitCode, Failure};
use crate::stop::{self, StopSignals};
use crate::terminal::print;

/// Runs an experiment.
pub fn run(args: LabArgs) -> Result<ExitCode, Failure> {
    match args.command {
        LabCommand::Compare(args) => experiment::compare(&args),
        LabCommand::Run(args) => experiment::run_file(&args),
        LabCommand::Airtime(args) => airtime::airtime(&args),
        LabCommand::Acks(args) => experiment::figures(&["acks"], &args),
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

/// A bar that is told how far the work is.
struct Bar(ProgressBar);

impl Progress for Bar {
    fn progressed(&self) {
        self.0.inc(1);
    }
}

impl Deref for Bar {
    type Target = ProgressBar;

    fn deref(&self) -> &ProgressBar {
        &self.0
    }
}

/// Results on their way into a store, with a bar.
type Recorder<T> = recorder::Recorder<T, Bar>;

/// A recorder into `path`, or nowhere; `bar` says how far the work is.
fn recorder<T: Kept>(
    path: Option<&Path>,
    resume: bool,
    bar: ProgressBar,
) -> Result<Arc<Recorder<T>>, Failure> {
    let store = match path {
        None => Store::transient(),
        Some(path) => {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir).map_err(|e| at(dir, e))?;
            }
            Store::open(path, resume).map_err(|e| match &e {
                StoreError::Io(..) => failed(e),
                StoreError::Taken(_) => failed(format!("{e}; name another file with --out")),
                StoreError::Foreign(..) => {
                    let remedy = "name another file with --out, or delete it with --no-resume";
                    failed(format!("{e}; {remedy}"))
                }
            })?
        }
    };
    Ok(Arc::new(Recorder::new(store, Bar(bar))))
}

/// Why work ended before its end; `done` is `None` where the user ended it.
fn why_stopped(done: Option<Result<(), Stopped>>, kept: Option<String>) -> Option<Failure> {
    match done {
        Some(Ok(())) => None,
        Some(Err(Stopped::Item { error, .. })) => Some(failed(format!("{error:#}"))),
        Some(Err(e)) => {
            let kept = kept.map(|kept| format!("; {kept}")).unwrap_or_default();
            Some(failed(format!("{e}{kept}")))
        }
        None => {
            let kept = match kept {
                Some(kept) => format!("{kept}, the same command goes on"),
                None => "nothing is kept without --out".to_owned(),
            };
            Some(Failure::new(ExitCode::Interrupted, format!("stopped; {kept}")))
        }
    }
}

/// Files of results with their names.
fn texts(files: &[PathBuf]) -> Result<Vec<(String, String)>, Failure> {
    let read = |file: &PathBuf| {
        let text = std::fs::read_to_string(file).map_err(|e| at(file, e))?;
        Ok((file.display().to_string(), text))
    };
    files.iter().map(read).collect()
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

/// How long work may take to put away what would outlive the process: programs in their namespaces, files.
const PUT_AWAY: std::time::Duration = std::time::Duration::from_secs(5);

/// Does `work` on a thread; `None` as soon as the user, or who runs jobs for one, has it stop. What is under
/// way then ends with the process, unless work asks whether to go on: it is given a moment to end.
fn interruptible<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    stops: Option<&AtomicBool>,
) -> Result<Option<T>, Failure> {
    let runtime = stop::runtime().map_err(|e| failed(format!("cannot start: {e}")))?;
    let done = runtime.block_on(async {
        let mut signals = StopSignals::new()?;
        let mut work = tokio::task::spawn_blocking(work);
        tokio::select! {
            done = &mut work => return std::io::Result::Ok(Some(done)),
            () = signals.recv() => {}
        }
        if let Some(stops) = stops {
            stops.store(true, Ordering::Relaxed);
            let _ = tokio::time::timeout(PUT_AWAY, work).await;
        }
        Ok(None)
    });
    let done = done.map_err(|e| failed(format!("cannot start: {e}")))?;
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

/// The command as a shell takes it. Where results were put is nobody else's business.
fn typed() -> String {
    let args = tack_device::started().map(|started| started.args).unwrap_or_default();
    retyped(args.into_iter().map(|arg| arg.to_string_lossy().into_owned()))
}

fn retyped(mut args: impl Iterator<Item = String>) -> String {
    let mut kept = Vec::new();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-o" | "--out" | "--report" | "--document" => drop(args.next()),
            it if ["--out=", "--report=", "--document="].iter().any(|own| it.starts_with(own)) => {}
            _ => kept.push(arg),
        }
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,=:+".contains(c);
    let word = |arg: String| match !arg.is_empty() && arg.chars().all(plain) {
        true => arg,
        false => format!("'{}'", arg.replace('\'', "'\\''")),
    };
    let words: Vec<String> = kept.into_iter().map(word).collect();
    format!("tack {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::retyped;

    #[test]
    fn the_command_that_is_told_can_be_typed_again() {
        let args = ["lab", "versus", "--out", "x", "bulk", "--set", "stack = { rival = 'x' }", ""];
        let told = retyped(args.map(str::to_owned).into_iter());
        assert_eq!(told, r"tack lab versus bulk --set 'stack = { rival = '\''x'\'' }' ''");
    }
}
