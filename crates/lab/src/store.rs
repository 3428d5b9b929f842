//! Where results are kept as JSON lines: found again by what was run, so that interrupted work goes
//! on, an edited file runs only what it changed, and parts from several machines make one whole.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::item::{Backend, Item};
use crate::lines::{Lines, LinesError, read};
use crate::record::Record;

/// A result that is found again.
pub trait Kept: Serialize + DeserializeOwned {
    /// What was run.
    type Run: Ord + Clone + Display;

    /// The run that it is of.
    fn run(&self) -> Self::Run;
}

impl Kept for Record {
    type Run = String;

    fn run(&self) -> String {
        self.run.clone()
    }
}

/// An open file of results.
#[derive(Debug)]
pub struct Store<T: Kept> {
    /// `None`: nothing is kept.
    lines: Option<Lines<T>>,
    kept: BTreeMap<T::Run, T>,
}

impl<T: Kept> Store<T> {
    /// Opens `path`. With `resume`, what it holds is kept; without, it is deleted.
    ///
    /// # Errors
    /// The file is out of reach or holds something else; it stays as it is then.
    pub fn open(path: &Path, resume: bool) -> Result<Store<T>, LinesError> {
        let (mut lines, kept) = Lines::open(path, resume)?;
        lines.mend().map_err(|e| LinesError::Io(path.to_owned(), e))?;
        Ok(Store { lines: Some(lines), kept: by_run(kept) })
    }

    /// One in memory.
    pub fn transient() -> Store<T> {
        Store { lines: None, kept: BTreeMap::new() }
    }

    /// Results so far, by run.
    pub fn kept(&self) -> &BTreeMap<T::Run, T> {
        &self.kept
    }

    /// Results by run, with the file let go.
    pub fn into_kept(self) -> BTreeMap<T::Run, T> {
        self.kept
    }

    /// Writes a result; it is in the file when this returns.
    ///
    /// # Errors
    /// Those of the file.
    pub fn append(&mut self, result: T) -> std::io::Result<()> {
        if let Some(lines) = &mut self.lines {
            lines.append(&result)?;
        }
        self.kept.insert(result.run(), result);
        Ok(())
    }
}

impl<T: Kept> Store<T> {
    /// Brings the file into the order of `runs`, after results of other runs: into that of a single
    /// machine, where several appended as they were done.
    ///
    /// # Errors
    /// Those of the file, which stays as it was then.
    pub fn arrange(&mut self, runs: &[T::Run]) -> std::io::Result<()> {
        let Some(lines) = &mut self.lines else { return Ok(()) };
        let own: BTreeSet<&T::Run> = runs.iter().collect();
        let others = self.kept.iter().filter(|(run, _)| !own.contains(run)).map(|(_, t)| t);
        lines.replace(others.chain(runs.iter().filter_map(|run| self.kept.get(run))))
    }
}

impl Store<Record> {
    /// Those of `items` that have no record yet, in order; nor one of a run in real time that the
    /// machine spoiled.
    pub fn missing(&self, items: &[Item]) -> Vec<Item> {
        let is_done = |item: &&Item| {
            let record = self.kept.get(&item.id);
            record.is_some_and(|r| r.void.is_none() || item.backend != Backend::Live)
        };
        items.iter().filter(|item| !is_done(item)).cloned().collect()
    }
}

fn by_run<T: Kept>(results: Vec<T>) -> BTreeMap<T::Run, T> {
    results.into_iter().map(|r| (r.run(), r)).collect()
}

/// The results of `texts` together, in the order of `runs`: what one machine would have written.
/// `describe` says which run one is.
///
/// # Errors
/// Which text holds something else, or how many runs have no result and the first of them.
pub fn merge<T: Kept>(
    texts: &[(String, String)],
    runs: &[T::Run],
    describe: impl Fn(&T::Run) -> String,
) -> Result<Vec<T>, String> {
    let mut all = BTreeMap::new();
    for (name, text) in texts {
        all.extend(by_run(read(text).map_err(|e| format!("{name}: {e}"))?));
    }
    let missing: Vec<&T::Run> = runs.iter().filter(|run| !all.contains_key(*run)).collect();
    if let Some(first) = missing.first() {
        let (have, want) = (runs.len() - missing.len(), runs.len());
        return Err(format!(
            "{have} of {want} runs are there; the first that is not: {}",
            describe(first)
        ));
    }
    Ok(runs.iter().filter_map(|run| all.remove(run)).collect())
}
