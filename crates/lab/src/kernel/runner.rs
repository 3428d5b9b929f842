//! Runs side by side, as many as the machine bears.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use super::run::{KernelRow, KernelRun, run};

/// A run that carries this much takes a place of its own.
const HEAVY_MBPS: u32 = 50;
/// How many light runs cost as much as a heavy one.
const LIGHT_PER_HEAVY: usize = 4;

/// How runs are made.
#[derive(Clone, Debug)]
pub struct Runner {
    /// Light runs at a time; heavy ones, of 50 Mbit/s and more, are a quarter of that.
    pub jobs: usize,
    /// How often a run is tried on a machine that is busy with something else.
    pub tries: u32,
    /// A directory for each run's packets.
    pub captures: Option<PathBuf>,
}

impl Default for Runner {
    fn default() -> Self {
        Runner { jobs: LIGHT_PER_HEAVY, tries: 3, captures: None }
    }
}

/// Takes rows as they come.
pub type Sink<'a> = dyn Fn(KernelRow) -> io::Result<()> + Sync + 'a;

impl Runner {
    /// Makes `runs`, light ones first, and hands every row to `done`.
    ///
    /// # Errors
    /// The first run that cannot be made, or a row that `done` could not take; runs under way are
    /// finished.
    pub fn run_all(&self, runs: &[KernelRun], done: &Sink<'_>) -> Result<()> {
        let is_heavy = |run: &&KernelRun| run.cell.mbps >= HEAVY_MBPS;
        let (heavy, light): (Vec<&KernelRun>, Vec<&KernelRun>) = runs.iter().partition(is_heavy);
        let jobs = self.jobs.max(1);
        self.run_some(&light, jobs, done)?;
        self.run_some(&heavy, (jobs / LIGHT_PER_HEAVY).max(1), done)
    }

    fn run_some(&self, runs: &[&KernelRun], jobs: usize, done: &Sink<'_>) -> Result<()> {
        let queue = Mutex::new(runs.iter());
        let failed = Mutex::new(None);
        let next = || {
            let stopped = failed.lock().unwrap_or_else(PoisonError::into_inner).is_some();
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            if stopped { None } else { queue.next() }
        };
        let work = || {
            while let Some(run) = next() {
                if let Err(e) = self.run(run).and_then(|row| Ok(done(row)?)) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs.min(runs.len()) {
                scope.spawn(work);
            }
        });
        match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(e) => Err(e),
        }
    }

    /// Makes one run, again until the machine was quiet enough or it was tried often enough.
    ///
    /// # Errors
    /// As [`run`], and the capture's.
    pub fn run(&self, one: &KernelRun) -> Result<KernelRow> {
        let mut left = self.tries.max(1);
        loop {
            left -= 1;
            let row = run(one, self.capture(one)?).with_context(|| one.describe())?;
            if row.figures.void.is_none() || left == 0 {
                return Ok(row);
            }
        }
    }

    fn capture(&self, one: &KernelRun) -> Result<Option<Box<dyn Write + Send>>> {
        let Some(dir) = &self.captures else { return Ok(None) };
        let path = dir.join(one.file_name());
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        Ok(Some(Box::new(BufWriter::new(file))))
    }
}
