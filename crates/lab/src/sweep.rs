//! All runs of a plan, as rows in the plan's order.

use crate::output::Row;
use crate::result::RunResult;
use crate::runner::{Sink, Stopped, run};
use crate::scenario::Run;

pub use crate::runner::MAX_JOBS;

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
    /// A run could not be built, its packets were not conserved, or a flow stalled.
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

struct Rows<'a>(&'a dyn Observer);

impl Sink<Row> for Rows<'_> {
    fn take(&self, _position: usize, row: Row) -> std::io::Result<()> {
        self.0.row(&row)
    }

    fn progressed(&self) {
        self.0.progressed();
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

/// Runs `runs` with `simulate`, `jobs` at a time; 0 is one per core.
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
    run(runs, jobs, &Rows(observer), |run| Ok(Row::new(run, simulate(run)?))).map_err(|stopped| {
        match stopped {
            Stopped::Item { position, error } => {
                let index = runs.get(position).map_or(position, |run| run.index);
                SweepError::Run { index, error }
            }
            Stopped::Output(e) => SweepError::Output(e),
            Stopped::Cancelled => SweepError::Cancelled,
        }
    })
}
