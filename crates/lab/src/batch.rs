//! Many scenarios at once: their results in their order, on all cores.

use std::sync::{Mutex, PoisonError};

use crate::output::Row;
use crate::result::RunResult;
use crate::scenario::{Run, Scenario};
use crate::simulate;
use crate::sweep::{Observer, SweepError, sweep};

/// Runs each of `scenarios` with its own seed, `jobs` at a time (0: one per core), and returns
/// their results in the same order. `done` hears of each.
///
/// # Errors
/// The first run that cannot be built or loses packets unaccounted for.
pub fn run_all(
    scenarios: Vec<Scenario>,
    jobs: usize,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<RunResult>, SweepError> {
    let runs: Vec<Run> = scenarios
        .into_iter()
        .enumerate()
        .map(|(index, scenario)| Run { index, swept: Vec::new(), scenario })
        .collect();
    let results = Results { results: Mutex::new(Vec::with_capacity(runs.len())), done };
    sweep(&runs, jobs, &results, |run| simulate(&run.scenario))?;
    Ok(results.results.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Results<'a> {
    results: Mutex<Vec<RunResult>>,
    done: &'a (dyn Fn() + Sync),
}

impl Observer for Results<'_> {
    fn row(&self, row: &Row) -> std::io::Result<()> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.push(row.result.clone());
        Ok(())
    }

    fn progressed(&self) {
        (self.done)();
    }
}
