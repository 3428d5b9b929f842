//! Where a sweep's rows are kept as JSON lines, so that an interrupted one goes on where it
//! stopped.
//!
//! Rows are written in the plan's order and each at once: whatever ends the process, the file holds
//! the first rows of the plan and at most one torn line, which is cut off on the next start.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::output::{Row, read_json_lines};
use crate::scenario::Run;

/// An open results file.
#[derive(Debug)]
pub struct Store {
    file: File,
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
        let io = |e| StoreError::Io(path.to_owned(), e);
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(!resume).open(path).map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        // An interruption may have torn the last line, even within a character.
        let rows = read_json_lines(&String::from_utf8_lossy(&bytes))
            .map_err(|e| StoreError::NoRows(path.to_owned(), e))?;
        let planned: BTreeMap<usize, &Run> = runs.iter().map(|r| (r.index, r)).collect();
        let stranger =
            rows.iter().position(|row| !planned.get(&row.index).is_some_and(|r| row.answers(r)));
        if let Some(i) = stranger {
            return Err(StoreError::OtherPlan(path.to_owned(), i + 1));
        }
        let whole = whole_lines(&bytes, rows.len());
        file.set_len(whole as u64).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        if whole > 0 && bytes[whole - 1] != b'\n' {
            file.write_all(b"\n").map_err(io)?;
        }
        Ok(Store { file, rows })
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
        let mut line = serde_json::to_vec(row).map_err(std::io::Error::other)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.rows.push(row.clone());
        Ok(())
    }
}

/// Length of the first `lines` lines, with the newline of the last if it is there.
fn whole_lines(bytes: &[u8], lines: usize) -> usize {
    bytes.split_inclusive(|b| *b == b'\n').take(lines).map(<[u8]>::len).sum()
}
