//! All runs of a plan, on all cores, in an order that does not depend on them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::output::Row;
use crate::result::RunResult;
use crate::scenario::Run;

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
                self.failed.get_or_insert(SweepError::Output(e));
            }
            self.next += 1;
        }
    }
}

/// Runs `runs` with `simulate` on the current rayon pool.
///
/// # Errors
/// The first that came up; the rows before it have been handed to the observer.
pub fn sweep<F>(runs: &[Run], observer: &dyn Observer, simulate: F) -> Result<(), SweepError>
where
    F: Fn(&Run) -> anyhow::Result<RunResult> + Sync,
{
    let order = Mutex::new(InOrder { next: 0, waiting: BTreeMap::new(), observer, failed: None });
    let stop = AtomicBool::new(false);
    // One at a time from the front: rows can be written soon after they are computed.
    runs.par_iter().enumerate().with_max_len(1).for_each(|(position, run)| {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        if observer.cancelled() {
            stop.store(true, Ordering::Relaxed);
            lock(&order).failed.get_or_insert(SweepError::Cancelled);
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
        if order.failed.is_some() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    let order = order.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    order.failed.map_or(Ok(()), Err)
}

/// A panic in another run must not hide behind a poisoned lock: it is propagated by rayon itself.
fn lock<'a, 'b>(order: &'b Mutex<InOrder<'a>>) -> std::sync::MutexGuard<'b, InOrder<'a>> {
    order.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
