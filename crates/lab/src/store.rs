//! Where records are kept as JSON lines: found again by what was run, so that interrupted work goes
//! on, an edited file runs only what it changed, and parts from several machines make one whole.

use std::collections::BTreeMap;
use std::path::Path;

use crate::backend::Backend;
use crate::lines::{Lines, LinesError, read};
use crate::plan::Item;
use crate::record::Record;

/// An open file of records.
#[derive(Debug)]
pub struct Store {
    /// `None`: nothing is kept.
    lines: Option<Lines<Record>>,
    records: BTreeMap<String, Record>,
}

impl Store {
    /// Opens `path`. With `resume`, its records are kept; without, they are deleted.
    ///
    /// # Errors
    /// The file is out of reach or holds something else; it stays as it is then.
    pub fn open(path: &Path, resume: bool) -> Result<Store, LinesError> {
        let (mut lines, kept) = Lines::<Record>::open(path, resume)?;
        lines.mend().map_err(|e| LinesError::Io(path.to_owned(), e))?;
        Ok(Store { lines: Some(lines), records: by_run(kept) })
    }

    /// One in memory.
    pub fn transient() -> Store {
        Store { lines: None, records: BTreeMap::new() }
    }

    /// Records so far, by run.
    pub fn records(&self) -> &BTreeMap<String, Record> {
        &self.records
    }

    /// Those of `items` that have no record yet, in order; nor one of a run in real time that the
    /// machine spoiled.
    pub fn missing(&self, items: &[Item]) -> Vec<Item> {
        let is_done = |item: &&Item| {
            let record = self.records.get(&item.id);
            record.is_some_and(|r| r.void.is_none() || item.backend != Backend::Live)
        };
        items.iter().filter(|item| !is_done(item)).cloned().collect()
    }

    /// Writes a record; it is in the file when this returns.
    ///
    /// # Errors
    /// Those of the file.
    pub fn append(&mut self, record: Record) -> std::io::Result<()> {
        if let Some(lines) = &mut self.lines {
            lines.append(&record)?;
        }
        self.records.insert(record.run.clone(), record);
        Ok(())
    }
}

fn by_run(records: Vec<Record>) -> BTreeMap<String, Record> {
    records.into_iter().map(|r| (r.run.clone(), r)).collect()
}

/// The records of `texts` together, in the order of `items`: what one machine would have written.
///
/// # Errors
/// Which text holds something else, or how many runs have no record and the first of them.
pub fn merge(texts: &[(String, String)], items: &[Item]) -> Result<Vec<Record>, String> {
    let mut all = BTreeMap::new();
    for (name, text) in texts {
        let records: Vec<Record> = read(text).map_err(|e| format!("{name}: {e}"))?;
        all.extend(by_run(records));
    }
    let missing: Vec<&Item> = items.iter().filter(|i| !all.contains_key(&i.id)).collect();
    if let Some(first) = missing.first() {
        let words: Vec<String> = first.key.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        return Err(format!(
            "{} of {} runs are there; the first that is not: {} ({})",
            items.len() - missing.len(),
            items.len(),
            first.id,
            words.join(", ")
        ));
    }
    Ok(items.iter().filter_map(|i| all.get(&i.id).cloned()).collect())
}
