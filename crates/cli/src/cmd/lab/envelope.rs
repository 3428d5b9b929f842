//! `tack lab envelope`.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indicatif::ProgressBar;
use serde::Serialize;
use tack_lab::envelope::{Adversary, Case, Draw, Trial, View, file, property, shrink, trial, view};
use tack_lab::experiment::Experiment;
use tack_lab::lines::{Lines, read};
use tack_lab::runner::{Sink, Stopped, run};

use super::{at, failed, interruptible, print_json, progress};
use crate::args::lab::EnvelopeArgs;
use crate::cmd::extras::print;
use crate::exit::{ExitCode, Failure};

/// Draws that are done, in memory and on disk.
struct Done {
    held: Mutex<Held>,
    bar: ProgressBar,
}

struct Held {
    trials: BTreeMap<u64, Trial>,
    lines: Option<Lines<Trial>>,
}

impl Done {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink<Trial> for Done {
    fn take(&self, _position: usize, trial: Trial) -> std::io::Result<()> {
        let mut held = self.held();
        if let Some(lines) = &mut held.lines {
            lines.append(&trial)?;
        }
        held.trials.insert(trial.draw.index, trial);
        Ok(())
    }

    fn progressed(&self) {
        self.bar.inc(1);
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Json {
    #[serde(flatten)]
    view: View,
    cases: Vec<Case>,
}

/// Runs and shows them.
pub(super) fn envelope(args: &EnvelopeArgs) -> Result<ExitCode, Failure> {
    let (experiment, names) = args.resolve()?;
    if let Some(index) = args.print {
        let draw = Draw::new(&experiment, index, args.seed);
        let file = file(&experiment, &draw).map_err(|e| failed(format!("{e:#}")))?;
        print(file.as_bytes())?;
        return Ok(ExitCode::Success);
    }
    if let Some(dir) = &args.cases {
        // Not after minutes of work.
        std::fs::create_dir_all(dir).map_err(|e| at(dir, e))?;
    }
    let trials = match args.merge.as_slice() {
        [] => search(args, &experiment, &names)?,
        files => merged(args, &experiment, files)?,
    };
    let view = view(&experiment, &trials.values().cloned().collect::<Vec<_>>(), &names);
    if !args.json {
        print(view.table().as_bytes())?;
    }
    let cases = shrunk(args, &experiment, &view, &trials)?;
    if args.json { print_json(&Json { view, cases }) } else { Ok(ExitCode::Success) }
}

/// Runs what is missing.
fn search(
    args: &EnvelopeArgs,
    experiment: &Experiment,
    names: &[&'static str],
) -> Result<BTreeMap<u64, Trial>, Failure> {
    let (lines, kept) = match &args.out {
        None => (None, Vec::new()),
        Some(path) => {
            let (lines, trials) = Lines::open(path, !args.no_resume).map_err(|e| {
                failed(format!("{e}; name another file with --out, or add --no-resume"))
            })?;
            (Some(lines), trials)
        }
    };
    let held = Mutex::new(Held { trials: BTreeMap::new(), lines });
    let done = Arc::new(Done { held, bar: progress(args.how.quiet) });
    let mut work = Work { args, experiment, names, kept: by_number(kept), done: Arc::clone(&done) };
    let outcome = if args.adversarial { work.adversarial() } else { work.random() };
    done.bar.finish_and_clear();
    outcome?;
    Ok(std::mem::take(&mut done.held().trials))
}

/// A search under way.
struct Work<'a> {
    args: &'a EnvelopeArgs,
    experiment: &'a Experiment,
    names: &'a [&'static str],
    /// Of earlier runs of the same search.
    kept: BTreeMap<u64, Trial>,
    done: Arc<Done>,
}

impl Work<'_> {
    fn random(&mut self) -> Result<(), Failure> {
        let numbers = self.args.indices();
        self.done.bar.set_length(numbers.len() as u64);
        let draw = |i| Draw::new(self.experiment, i, self.args.seed);
        self.run(numbers.into_iter().map(draw).collect())
    }

    /// Generation after generation; those of an interrupted search come from its file.
    fn adversarial(&mut self) -> Result<(), Failure> {
        let mut adversary = Adversary::new(self.experiment, self.args.seed, self.names);
        self.done.bar.set_length(self.args.draws);
        let mut have = 0;
        while have < self.args.draws {
            let draws = adversary.generation();
            have += draws.len() as u64;
            self.run(draws.clone())?;
            let held = self.done.held();
            let generation = draws.iter().filter_map(|d| held.trials.get(&d.index)).cloned();
            adversary.learn(&generation.collect::<Vec<Trial>>());
        }
        Ok(())
    }

    /// Runs those of `draws` that were not kept.
    fn run(&mut self, draws: Vec<Draw>) -> Result<(), Failure> {
        let mut missing = Vec::new();
        for draw in draws {
            match self.kept.remove(&draw.index) {
                None => missing.push(draw),
                Some(trial) if trial.draw == draw => {
                    self.done.held().trials.insert(draw.index, trial);
                    self.done.bar.inc(1);
                }
                Some(_) => {
                    let path = self.args.out.as_deref().unwrap_or_else(|| Path::new("--out"));
                    return Err(other(path, draw.index));
                }
            }
        }
        self.done.bar.reset_eta();
        let (work, jobs) = (Arc::clone(&self.done), self.args.how.jobs);
        let (experiment, names) = (self.experiment.clone(), self.names.to_vec());
        let outcome = interruptible(move || {
            run(&missing, jobs, &*work, |draw| trial(&experiment, draw, &names))
        })?;
        match outcome {
            Some(Ok(())) => Ok(()),
            Some(Err(Stopped::Item { error, .. })) => Err(failed(format!("{error:#}"))),
            Some(Err(e)) => Err(failed(e)),
            None => {
                let why = match &self.args.out {
                    Some(path) => {
                        format!(
                            "stopped; {} has what is done, the same command goes on",
                            path.display()
                        )
                    }
                    None => "stopped; nothing is kept without --out".to_owned(),
                };
                Err(Failure::new(ExitCode::Interrupted, why))
            }
        }
    }
}

fn by_number(trials: Vec<Trial>) -> BTreeMap<u64, Trial> {
    trials.into_iter().map(|t| (t.draw.index, t)).collect()
}

fn other(path: &Path, index: u64) -> Failure {
    let why = format!(
        "draw {index} is that of another seed or experiment; name another file, or add --no-resume"
    );
    at(path, why)
}

/// Makes the worst draws small, and shows or writes what is left.
fn shrunk(
    args: &EnvelopeArgs,
    experiment: &Experiment,
    view: &View,
    trials: &BTreeMap<u64, Trial>,
) -> Result<Vec<Case>, Failure> {
    let broken = view.properties.iter().flat_map(|p| {
        let name = property(&p.name).map(|p| p.name);
        p.worst.iter().take(args.shrink).filter_map(move |b| Some((name?, b.draw)))
    });
    let work: Vec<(&'static str, Draw)> =
        broken.filter_map(|(name, index)| Some((name, trials.get(&index)?.draw.clone()))).collect();
    let bar = progress(args.how.quiet);
    bar.set_length(work.len() as u64);
    let (dir, prints) = (args.cases.clone(), !args.json);
    let done = Arc::new(Cases { cases: Mutex::default(), dir, prints, bar });
    let (sink, jobs, experiment) = (Arc::clone(&done), args.how.jobs, experiment.clone());
    let outcome = interruptible(move || {
        run(&work, jobs, &*sink, |(name, draw)| shrink(&experiment, draw, name))
    })?;
    done.bar.finish_and_clear();
    outcome.ok_or_else(|| Failure::new(ExitCode::Interrupted, "stopped"))?.map_err(failed)?;
    let cases = std::mem::take(&mut *done.cases.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(cases)
}

/// Small cases, shown or written as each is found: the search for the next may take long.
struct Cases {
    cases: Mutex<Vec<Case>>,
    dir: Option<PathBuf>,
    prints: bool,
    bar: ProgressBar,
}

impl Sink<Option<Case>> for Cases {
    fn take(&self, _position: usize, case: Option<Case>) -> std::io::Result<()> {
        let Some(case) = case else { return Ok(()) };
        if let Some(dir) = &self.dir {
            let path = dir.join(format!("{}-{}.toml", case.property, case.draw));
            std::fs::write(&path, &case.toml)?;
            self.bar.suspend(|| eprintln!("tack lab run {}", path.display()));
        } else if self.prints {
            writeln!(stdout().lock(), "\n{}", case.toml)?;
        }
        self.cases.lock().unwrap_or_else(PoisonError::into_inner).push(case);
        Ok(())
    }

    fn progressed(&self) {
        self.bar.inc(1);
    }
}

/// What several files hold together, which must be every draw.
fn merged(
    args: &EnvelopeArgs,
    experiment: &Experiment,
    files: &[PathBuf],
) -> Result<BTreeMap<u64, Trial>, Failure> {
    let numbers = args.indices().into_iter();
    let draws: BTreeMap<u64, Draw> =
        numbers.map(|i| (i, Draw::new(experiment, i, args.seed))).collect();
    let mut all = BTreeMap::new();
    for path in files {
        let text = std::fs::read_to_string(path).map_err(|e| at(path, e))?;
        let trials: Vec<Trial> = read(&text).map_err(|e| at(path, e))?;
        for trial in trials {
            let own = draws.get(&trial.draw.index);
            if own.is_some_and(|draw| *draw != trial.draw) {
                return Err(other(path, trial.draw.index));
            }
            if own.is_some() {
                all.insert(trial.draw.index, trial);
            }
        }
    }
    match draws.keys().find(|index| !all.contains_key(index)) {
        None => Ok(all),
        Some(first) => {
            let (have, want) = (all.len(), draws.len());
            Err(failed(format!("{have} of {want} draws are there; the first that is not: {first}")))
        }
    }
}
