//! Where a sweep's rows are kept as JSON lines, in the plan's order, so that an interrupted one
//! goes on where it stopped.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::lines::{Lines, LinesError};
use crate::output::Row;
use crate::scenario::Run;

/// An open results file.
#[derive(Debug)]
pub struct Store {
    lines: Lines<Row>,
    rows: Vec<Row>,
}

/// Why results cannot be kept there.
#[derive(Debug)]
pub enum StoreError {
    /// The file cannot be opened, read or written.
    Io(PathBuf, std::io::Error),
    /// It holds something else than rows.
    NoRows(PathBuf, String),
    /// It holds rows of another plan: the number of the first such line.
    OtherPlan(PathBuf, usize),
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StoreError::Io(path, e) => write!(f, "{}: {e}", path.display()),
            StoreError::NoRows(path, e) => {
                write!(f, "{} holds no results of a sweep, {e}", path.display())
            }
            StoreError::OtherPlan(path, line) => write!(
                f,
                "{}, line {line}: the result of another plan, not of this one",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StoreError {}

impl Store {
    /// Opens `path` for the results of `runs`. With `resume`, rows it holds already are kept;
    /// without, they are deleted.
    ///
    /// # Errors
    /// When the file is out of reach, or is not what an interrupted sweep of `runs` left behind:
    /// it stays as it is then.
    pub fn open(path: &Path, runs: &[Run], resume: bool) -> Result<Store, StoreError> {
        let (mut lines, rows) = Lines::<Row>::open(path, resume).map_err(|e| match e {
            LinesError::Io(path, e) => StoreError::Io(path, e),
            LinesError::Foreign(path, e) => StoreError::NoRows(path, e),
        })?;
        let planned: BTreeMap<usize, &Run> = runs.iter().map(|r| (r.index, r)).collect();
        let stranger =
            rows.iter().position(|row| !planned.get(&row.index).is_some_and(|r| row.answers(r)));
        if let Some(i) = stranger {
            return Err(StoreError::OtherPlan(path.to_owned(), i + 1));
        }
        // Only now: another plan's file stays as it is.
        lines.mend().map_err(|e| StoreError::Io(path.to_owned(), e))?;
        Ok(Store { lines, rows })
    }

    /// Rows so far, those kept included.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Those of `runs` that have no row yet, in order.
    pub fn missing(&self, runs: &[Run]) -> Vec<Run> {
        let done: std::collections::BTreeSet<usize> = self.rows.iter().map(|r| r.index).collect();
        runs.iter().filter(|r| !done.contains(&r.index)).cloned().collect()
    }

    /// Writes a row; it is in the file when this returns.
    ///
    /// # Errors
    /// Those of the file.
    pub fn append(&mut self, row: &Row) -> std::io::Result<()> {
        self.lines.append(row)?;
        self.rows.push(row.clone());
        Ok(())
    }
}
