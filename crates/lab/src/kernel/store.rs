//! Rows as JSON lines, and what is still to be run.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::run::{KernelRow, KernelRun};

/// Rows so far, and a file they are appended to as they come, if there is one.
#[derive(Debug, Default)]
pub struct KernelStore {
    file: Option<File>,
    rows: Vec<KernelRow>,
}

impl KernelStore {
    /// Without a file.
    pub fn new() -> KernelStore {
        KernelStore::default()
    }

    /// With the file `path`; what it holds already is kept with `resume` and deleted without.
    ///
    /// # Errors
    /// It cannot be opened, or holds something else than rows; a torn last line does not matter.
    pub fn open(path: &Path, resume: bool) -> Result<KernelStore> {
        let name = || path.display().to_string();
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).append(true).create(true).open(path).with_context(name)?;
        if !resume {
            file.set_len(0).with_context(name)?;
        }
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(name)?;
        let (rows, whole) = read_rows(&text).with_context(name)?;
        if whole < text.len() {
            file.set_len(whole as u64).with_context(name)?;
        }
        Ok(KernelStore { file: Some(file), rows })
    }

    /// Rows so far.
    pub fn rows(&self) -> &[KernelRow] {
        &self.rows
    }

    /// Those of `runs` without a sound row, in their order.
    pub fn missing(&self, runs: &[KernelRun]) -> Vec<KernelRun> {
        let done = |run: &&KernelRun| {
            self.rows.iter().any(|row| row.run == **run && row.figures.void.is_none())
        };
        runs.iter().filter(|run| !done(run)).copied().collect()
    }

    /// Adds a row, in the place of an earlier one of the same run; it is in the file when this
    /// returns.
    ///
    /// # Errors
    /// Those of the file.
    pub fn add(&mut self, row: KernelRow) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            let mut line = serde_json::to_vec(&row).map_err(io::Error::other)?;
            line.push(b'\n');
            file.write_all(&line)?;
        }
        self.rows.retain(|old| old.run != row.run);
        self.rows.push(row);
        Ok(())
    }
}

/// The rows of whole lines, the last of each run, and how many bytes those lines have.
fn read_rows(text: &str) -> Result<(Vec<KernelRow>, usize)> {
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let mut store = KernelStore::new();
    for (number, line) in text[..whole].lines().enumerate() {
        let row = serde_json::from_str(line)
            .with_context(|| format!("line {} is no row of this table", number + 1))?;
        store.add(row)?;
    }
    Ok((store.rows, whole))
}
