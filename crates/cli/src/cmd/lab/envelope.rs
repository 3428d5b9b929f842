//! `tack lab envelope`.

use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::ProgressBar;
use serde::Serialize;
use tack_lab::envelope::{Adversary, Case, Draw, Trial, View, file, property, shrink, trial, view};
use tack_lab::experiment::Experiment;
use tack_lab::results;
use tack_lab::runner::{Sink, run};
use tack_lab::store::merge;

use super::{
    Recorder, at, failed, interruptible, print_json, progress, recorder, texts, why_stopped,
};
use crate::args::lab::EnvelopeArgs;
use crate::exit::{ExitCode, Failure};
use crate::terminal::print;
use crate::terminal::say;

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
    if let Some(dir) = &args.bless {
        bless(args, dir, &view)?;
    }
    let cases = shrunk(args, &experiment, &view, &trials)?;
    if args.json { print_json(&Json { view, cases }) } else { Ok(ExitCode::Success) }
}

/// Writes the table of an envelope of the repository, and the document that has it.
fn bless(args: &EnvelopeArgs, dir: &Path, view: &View) -> Result<(), Failure> {
    let file = args.file.as_ref().map(|f| format!(" {}", f.display())).unwrap_or_default();
    let (draws, seed) = (args.draws, args.seed);
    let command = format!("tack lab envelope{file} --draws {draws} --seed {seed}");
    let path = dir.join("experiments/envelope").join(&view.id).with_extension("md");
    let text = results::blessed_envelope(view, &command);
    std::fs::write(&path, text).map_err(|e| at(&path, e))?;
    let document = results::document(&dir.join("experiments")).map_err(|e| at(dir, e))?;
    let path = dir.join("RESULTS.md");
    std::fs::write(&path, document).map_err(|e| at(&path, e))
}

/// Runs what is missing.
fn search(
    args: &EnvelopeArgs,
    experiment: &Experiment,
    names: &[&'static str],
) -> Result<BTreeMap<u64, Trial>, Failure> {
    let bar = progress(args.how.quiet);
    let done = recorder(args.out.as_deref(), !args.no_resume, bar)?;
    let mut work = Work { args, experiment, names, trials: BTreeMap::new(), done };
    let outcome = if args.adversarial { work.adversarial() } else { work.random() };
    work.done.progress().finish_and_clear();
    outcome.map(|()| work.trials)
}

/// A search under way.
struct Work<'a> {
    args: &'a EnvelopeArgs,
    experiment: &'a Experiment,
    names: &'a [&'static str],
    /// Of this search; the store may hold those of a longer one.
    trials: BTreeMap<u64, Trial>,
    done: Arc<Recorder<Trial>>,
}

impl Work<'_> {
    fn random(&mut self) -> Result<(), Failure> {
        let numbers = self.args.indices();
        self.done.progress().set_length(numbers.len() as u64);
        let draw = |i| Draw::new(self.experiment, i, self.args.seed);
        self.run(&numbers.into_iter().map(draw).collect::<Vec<_>>())
    }

    /// Generation after generation; those of an interrupted search come from its file.
    fn adversarial(&mut self) -> Result<(), Failure> {
        let mut adversary = Adversary::new(self.experiment, self.args.seed, self.names);
        self.done.progress().set_length(self.args.draws);
        let mut have = 0;
        while have < self.args.draws {
            let draws = adversary.generation();
            have += draws.len() as u64;
            self.run(&draws)?;
            let generation = draws.iter().filter_map(|d| self.trials.get(&d.index)).cloned();
            adversary.learn(&generation.collect::<Vec<Trial>>());
        }
        Ok(())
    }

    /// Runs those of `draws` that were not kept.
    fn run(&mut self, draws: &[Draw]) -> Result<(), Failure> {
        let kept = self.take(draws)?;
        let missing: Vec<Draw> =
            draws.iter().filter(|d| !self.trials.contains_key(&d.index)).cloned().collect();
        self.done.progress().inc(kept);
        self.done.progress().reset_eta();
        let (work, jobs) = (Arc::clone(&self.done), self.args.how.jobs);
        let (experiment, names) = (self.experiment.clone(), self.names.to_vec());
        let outcome = interruptible(
            move || run(&missing, jobs, &*work, |draw| trial(&experiment, draw, &names)),
            None,
        )?;
        let kept = self.args.out.as_deref().map(|p| format!("{} has what is done", p.display()));
        why_stopped(outcome, kept).map_or(Ok(()), Err)?;
        self.take(draws).map(drop)
    }

    /// What the store has of `draws`; how many that are.
    fn take(&mut self, draws: &[Draw]) -> Result<u64, Failure> {
        let store = self.done.store();
        let path = self.args.out.as_deref().unwrap_or_else(|| Path::new("--out"));
        let mut have = 0;
        for trial in draws.iter().filter_map(|d| store.kept().get(&d.index).map(|t| (d, t))) {
            self.trials.insert(trial.0.index, same(path, trial.0, trial.1)?.clone());
            have += 1;
        }
        Ok(have)
    }
}

/// `trial` if it is that of `draw`.
fn same<'a>(path: &Path, draw: &Draw, trial: &'a Trial) -> Result<&'a Trial, Failure> {
    if trial.draw == *draw {
        return Ok(trial);
    }
    let why = format!(
        "draw {} is that of another seed, --packets, --strategies or experiment; name another file, or \
         add --no-resume",
        draw.index
    );
    Err(at(path, why))
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
    let outcome = interruptible(
        move || run(&work, jobs, &*sink, |(name, draw)| shrink(&experiment, draw, name)),
        None,
    )?;
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
            self.bar.suspend(|| say(format_args!("tack lab run {}", path.display())));
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
    let numbers = args.indices();
    let trials: Vec<Trial> =
        merge(&texts(files)?, &numbers, |n| format!("draw {n}")).map_err(failed)?;
    for trial in &trials {
        let draw = Draw::new(experiment, trial.draw.index, args.seed);
        same(Path::new("--merge"), &draw, trial)?;
    }
    Ok(numbers.into_iter().zip(trials).collect())
}
