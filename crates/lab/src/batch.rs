//! Many scenarios at once: their results in their order, on all cores.

use std::sync::{Mutex, PoisonError};

use crate::result::RunResult;
use crate::runner::{Sink, Stopped, run};
use crate::scenario::Scenario;
use crate::simulate;

/// Runs each of `scenarios` with its own seed, `jobs` at a time (0: one per core), and returns
/// their results in the same order. `done` hears of each.
///
/// # Errors
/// The first run that cannot be built or loses packets unaccounted for.
pub fn run_all(
    scenarios: &[Scenario],
    jobs: usize,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<RunResult>, Stopped> {
    let results = Results { results: Mutex::new(Vec::with_capacity(scenarios.len())), done };
    run(scenarios, jobs, &results, simulate)?;
    Ok(results.results.into_inner().unwrap_or_else(PoisonError::into_inner))
}

struct Results<'a> {
    results: Mutex<Vec<RunResult>>,
    done: &'a (dyn Fn() + Sync),
}

impl Sink<RunResult> for Results<'_> {
    fn take(&self, _position: usize, result: RunResult) -> std::io::Result<()> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).push(result);
        Ok(())
    }

    fn progressed(&self) {
        (self.done)();
    }
}
