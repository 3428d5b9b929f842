//! Columns in Arrow's memory, handed out without a copy through the PyCapsule interface.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use tack_lab::draw::Word;
use tack_lab::metric;
use tack_lab::table::Table as Shown;

/// Most rows that a notebook shows.
const SHOWN_ROWS: usize = 20;

fn wrong(e: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(format!("Arrow: {e}"))
}

/// Columns on their way into a table.
#[derive(Default)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn push(&mut self, name: &str, array: ArrayRef) {
        self.fields.push(Field::new(name, array.data_type().clone(), true));
        self.arrays.push(array);
    }

    pub(crate) fn text(&mut self, name: &str, values: impl Iterator<Item = Option<String>>) {
        self.push(name, Arc::new(values.collect::<StringArray>()));
    }

    pub(crate) fn whole(&mut self, name: &str, values: impl Iterator<Item = u64>) {
        self.push(name, Arc::new(values.map(Some).collect::<UInt64Array>()));
    }

    /// Values of `metric`, of which its unit and meaning stand with the column.
    pub(crate) fn figure(
        &mut self,
        name: &str,
        metric: &str,
        values: impl Iterator<Item = Option<f64>>,
    ) {
        self.push(name, Arc::new(values.collect::<Float64Array>()));
        let about = metric::about(metric).map(|(unit, what)| {
            HashMap::from([("unit", unit), ("what", what)].map(|(k, v)| (k.into(), v.into())))
        });
        if let (Some(field), Some(about)) = (self.fields.last_mut(), about) {
            field.set_metadata(about);
        }
    }

    /// Values of an axis: numbers, if all of the plan are. A table without rows has the types of others.
    pub(crate) fn words(&mut self, (name, all): &(String, Vec<Word>), words: Vec<Option<Word>>) {
        if all.iter().all(|word| matches!(word, Word::Number(_))) {
            let number = |word: &Option<Word>| match word {
                Some(Word::Number(v)) => Some(*v),
                _ => None,
            };
            self.push(name, Arc::new(words.iter().map(number).collect::<Float64Array>()));
        } else {
            self.text(name, words.into_iter().map(|word| word.map(|w| w.to_string())));
        }
    }

    pub(crate) fn table(self, _py: Python<'_>) -> PyResult<Table> {
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(schema, self.arrays).map_err(|e| wrong(&e))?;
        Ok(Table { batch })
    }
}

/// An Arrow table.
#[pyclass(frozen, module = "tack_lab")]
pub(crate) struct Table {
    batch: RecordBatch,
}

impl Table {
    fn cell<'py>(&self, py: Python<'py>, column: usize, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let array = self.batch.column(column);
        if array.is_null(row) {
            return Ok(py.None().into_bound(py));
        }
        match array.data_type() {
            DataType::Float64 => {
                array.as_primitive::<Float64Type>().value(row).into_bound_py_any(py)
            }
            DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into_bound_py_any(py),
            _ => array.as_string::<i32>().value(row).into_bound_py_any(py),
        }
    }

    /// Its first rows as the lab shows tables.
    fn shown(&self) -> Shown {
        let number = tack_lab::pivot::number;
        let cell = |array: &ArrayRef, row: usize| match array.data_type() {
            _ if array.is_null(row) => "-".to_owned(),
            DataType::Float64 => number(array.as_primitive::<Float64Type>().value(row)),
            DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).to_string(),
            _ => array.as_string::<i32>().value(row).to_owned(),
        };
        let rows = (0..self.batch.num_rows().min(SHOWN_ROWS))
            .map(|row| self.batch.columns().iter().map(|array| cell(array, row)).collect());
        let is_text = |field: &&Arc<Field>| *field.data_type() == DataType::Utf8;
        let fields = self.batch.schema_ref().fields();
        Shown {
            title: self.size(),
            keys: fields.iter().take_while(is_text).count(),
            header: fields.iter().map(|field| field.name().clone()).collect(),
            rows: rows.collect(),
        }
    }

    fn size(&self) -> String {
        format!("{} rows, {} columns", self.batch.num_rows(), self.batch.num_columns())
    }
}

#[pymethods]
impl Table {
    /// Arrow's stream of record batches; a wish for another schema is not granted, as the protocol
    /// allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = [Ok(self.batch.clone())];
        let reader = RecordBatchIterator::new(batches, self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Arrow's schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema_ref().as_ref());
        PyCapsule::new_with_value(py, schema.map_err(|e| wrong(&e))?, c"arrow_schema")
    }

    /// Names of its columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect()
    }

    /// The values of a column, for who has no library for tables.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let column = self.batch.schema_ref().index_of(name).map_err(|_| {
            let there = self.column_names().join(", ");
            PyKeyError::new_err(format!("there is no column `{name}`: {there}"))
        })?;
        (0..self.batch.num_rows()).map(|row| self.cell(py, column, row)).collect()
    }

    /// Its rows as dictionaries.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let names = self.column_names();
        let row = |row: usize| {
            let out = PyDict::new(py);
            for (column, name) in names.iter().enumerate() {
                out.set_item(*name, self.cell(py, column, row)?)?;
            }
            Ok(out)
        };
        (0..self.batch.num_rows()).map(row).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<tack_lab.Table: {}>", self.size())
    }

    fn _repr_html_(&self) -> String {
        tack_lab::html::titled(&self.shown())
    }
}
