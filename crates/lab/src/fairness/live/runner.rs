//! Runs side by side.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};

use super::run::{LiveResult, run};
use super::{LiveCell, LiveRun};

/// Makes `runs`, `jobs` at a time, with each one's packets in a file in `captures`, and returns
/// their results in the same order. `done` hears of each.
///
/// # Errors
/// The first run that cannot be made; runs under way are finished.
pub fn run_all(
    runs: &[LiveRun],
    jobs: usize,
    captures: Option<&Path>,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<LiveResult>> {
    let queue = Mutex::new(runs.iter().enumerate());
    let results = Mutex::new(Ok(Vec::with_capacity(runs.len())));
    let next = || {
        let failed = results.lock().unwrap_or_else(PoisonError::into_inner).is_err();
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        if failed { None } else { queue.next() }
    };
    let work = || {
        while let Some((number, one)) = next() {
            let result = capture(one, captures)
                .and_then(|capture| run(one, capture))
                .with_context(|| one.describe());
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            match (result, results.as_mut()) {
                (Ok(result), Ok(all)) => all.push((number, result)),
                (Err(e), Ok(_)) => *results = Err(e),
                (_, Err(_)) => {}
            }
            done();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1).min(runs.len()) {
            scope.spawn(work);
        }
    });
    let mut all = results.into_inner().unwrap_or_else(PoisonError::into_inner)?;
    all.sort_by_key(|(number, _)| *number);
    Ok(all.into_iter().map(|(_, result)| result).collect())
}

fn capture(run: &LiveRun, dir: Option<&Path>) -> Result<Option<Box<dyn Write + Send>>> {
    let Some(dir) = dir else { return Ok(None) };
    let LiveCell { stack, rate_mbps, queue, flows, strategy, .. } = run.cell;
    let seed = run.seed;
    let name = format!("{stack}-{strategy}-{flows}-{rate_mbps}-{queue}-{seed}.pcapng");
    // Queues and strategies have parameters with colons.
    let path = dir.join(name.replace(':', "_"));
    let file = File::create(&path).with_context(|| path.display().to_string())?;
    Ok(Some(Box::new(BufWriter::new(file))))
}
