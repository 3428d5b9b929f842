//! All runs of a plan, on all cores, in an order that does not depend on them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::output::Row;
use crate::result::RunResult;
use crate::scenario::Run;

/// Most threads a sweep uses.
pub const MAX_JOBS: usize = 1_024;

/// What a sweep reports while it goes on.
pub trait Observer: Sync {
    /// A row is final; rows come in the plan's order, whatever order they were computed in.
    ///
    /// # Errors
    /// Any error ends the sweep.
    fn row(&self, row: &Row) -> std::io::Result<()>;

    /// One more run is computed (rows follow in order).
    fn progressed(&self) {}

    /// Whether to stop; rows so far stay.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Why a sweep ended early.
#[derive(Debug)]
pub enum SweepError {
    /// A run could not be built or its packets were not conserved.
    Run {
        /// Its position in the plan.
        index: usize,
        /// What was wrong.
        error: anyhow::Error,
    },
    /// The observer could not take a row.
    Output(std::io::Error),
    /// The observer asked to stop.
    Cancelled,
}

impl std::fmt::Display for SweepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SweepError::Run { index, error } => write!(f, "run {index}: {error:#}"),
            SweepError::Output(e) => write!(f, "results cannot be written: {e}"),
            SweepError::Cancelled => f.write_str("interrupted; what is done is kept"),
        }
    }
}

impl std::error::Error for SweepError {}

/// Rows that wait for an earlier one.
struct InOrder<'a> {
    next: usize,
    waiting: BTreeMap<usize, Row>,
    observer: &'a dyn Observer,
    failed: Option<SweepError>,
}

impl InOrder<'_> {
    fn push(&mut self, position: usize, row: Row) {
        self.waiting.insert(position, row);
        while let Some(row) = self.waiting.remove(&self.next) {
            if let Err(e) = self.observer.row(&row) {
                // A row after one that could not be written would hide the gap.
                self.failed.get_or_insert(SweepError::Output(e));
                return;
            }
            self.next += 1;
        }
    }
}

/// Runs `runs` with `simulate`, `jobs` at a time; 0 is one per core.
///
/// Runs are begun in order, so that rows become final soon after they are computed, and an
/// interruption costs no more than the runs under way.
///
/// # Errors
/// The first that came up; the rows before it have been handed to the observer.
pub fn sweep<F>(
    runs: &[Run],
    jobs: usize,
    observer: &dyn Observer,
    simulate: F,
) -> Result<(), SweepError>
where
    F: Fn(&Run) -> anyhow::Result<RunResult> + Sync,
{
    let order = Mutex::new(InOrder { next: 0, waiting: BTreeMap::new(), observer, failed: None });
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((position, run)) = take(&next, runs) {
            if observer.cancelled() {
                lock(&order).failed.get_or_insert(SweepError::Cancelled);
            }
            if lock(&order).failed.is_some() {
                return;
            }
            let result = simulate(run);
            observer.progressed();
            let mut order = lock(&order);
            match result {
                Ok(result) => order.push(position, Row::new(run, result)),
                Err(error) => {
                    order.failed.get_or_insert(SweepError::Run { index: run.index, error });
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers(jobs, runs.len()) {
            scope.spawn(work);
        }
        work();
    });
    let order = order.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    order.failed.map_or(Ok(()), Err)
}

/// The next run nobody has begun, with its position.
fn take<'a>(next: &AtomicUsize, runs: &'a [Run]) -> Option<(usize, &'a Run)> {
    let position = next.fetch_add(1, Ordering::Relaxed);
    runs.get(position).map(|run| (position, run))
}

/// How many threads: what was asked for, but never more than runs or [`MAX_JOBS`].
fn workers(jobs: usize, runs: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = if jobs == 0 { cores() } else { jobs };
    wanted.min(runs).min(MAX_JOBS)
}

/// A panic in another run must not hide behind a poisoned lock: the scope propagates it.
fn lock<'a, 'b>(order: &'b Mutex<InOrder<'a>>) -> std::sync::MutexGuard<'b, InOrder<'a>> {
    order.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
