//! What a store keeps, opened and written as its file has it.

use std::path::Path;

use pyo3::prelude::*;
use tack_lab::record::Record;
use tack_lab::store::{Store, StoreError};

use crate::failure;

/// Opens the store of a path, or one in memory.
pub(crate) fn open(py: Python<'_>, path: Option<&Path>, resume: bool) -> PyResult<Store<Record>> {
    let Some(path) = path else { return Ok(Store::transient()) };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)
            .map_err(|e| failure::store_error(py, format!("{}: {e}", dir.display())))?;
    }
    Store::open(path, resume).map_err(|e| match &e {
        StoreError::Io(..) => failure::store_error(py, e),
        StoreError::Taken(_) => failure::store_error(py, format!("{e}; name another file")),
        StoreError::Foreign(..) => {
            let remedy = "name another file, or delete it with resume=False";
            failure::store_error(py, format!("{e}; {remedy}"))
        }
    })
}

/// Records as a store's file has them.
pub(crate) fn lines<'a>(
    py: Python<'_>,
    records: impl Iterator<Item = &'a Record>,
) -> PyResult<Vec<u8>> {
    let mut out = Vec::new();
    for record in records {
        serde_json::to_writer(&mut out, record).map_err(|e| failure::store_error(py, e))?;
        out.push(b'\n');
    }
    Ok(out)
}
