//! Python's values as a file has them, and a file's as Python has them.

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyList, PyMapping, PyString, PyTuple};
use tack_lab::draw::Word;
use toml::{Table, Value};

/// Deepest nesting of values that is read.
const MAX_DEPTH: usize = 32;

/// A table of a file; `key` is what messages call it, nothing at the top.
pub(crate) fn table(key: &str, value: &Bound<'_, PyMapping>) -> PyResult<Table> {
    match read(key, value.as_any(), 0)? {
        Value::Table(table) => Ok(table),
        _ => Err(PyTypeError::new_err(format!("`{key}` must be a mapping"))),
    }
}

/// What `value` is in a file.
fn read(key: &str, value: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if depth > MAX_DEPTH {
        return Err(PyValueError::new_err(format!("`{key}` is nested deeper than {MAX_DEPTH}")));
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(Value::String(text.extract()?));
    }
    // A bool is an int to Python.
    if let Ok(truth) = value.cast::<PyBool>() {
        return Ok(Value::Boolean(truth.is_true()));
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return finite(key, number.value());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.enumerate();
        let items = items.map(|(i, item)| read(&format!("{key}.{i}"), &item?, depth + 1));
        return Ok(Value::Array(items.collect::<PyResult<_>>()?));
    }
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let mut out = Table::new();
        for pair in mapping.items()?.iter() {
            let (name, item): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            let name: String = name.extract().map_err(|_| {
                let key = if key.is_empty() { "set" } else { key };
                PyTypeError::new_err(format!("`{key}` has a key that is no text: {name}"))
            })?;
            let within = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            out.insert(name, read(&within, &item, depth + 1)?);
        }
        return Ok(Value::Table(out));
    }
    // Whatever counts as a number, NumPy's too.
    if let Ok(whole) = value.extract::<i64>() {
        return Ok(Value::Integer(whole));
    }
    if let Ok(number) = value.extract::<f64>() {
        return finite(key, number);
    }
    let kind = value.get_type().name()?.to_string();
    let what =
        format!("`{key}` is of type {kind}: a file has texts, numbers, bools, lists, tables");
    Err(PyTypeError::new_err(what))
}

fn finite(key: &str, number: f64) -> PyResult<Value> {
    if number.is_finite() {
        return Ok(Value::Float(number));
    }
    Err(PyValueError::new_err(format!("`{key}` is {number}, but must be finite")))
}

/// A value of a plan's axis.
pub(crate) fn word(py: Python<'_>, word: &Word) -> PyResult<Py<PyAny>> {
    match word {
        Word::Number(v) => v.into_py_any(py),
        Word::Text(text) => text.into_py_any(py),
        Word::List(values) => values.into_py_any(py),
        Word::Other(Value::Boolean(truth)) => truth.into_py_any(py),
        Word::Other(Value::Integer(whole)) => whole.into_py_any(py),
        Word::Other(value) => value.to_string().into_py_any(py),
    }
}

/// A dictionary of a file's values as pairs, in its order.
pub(crate) fn pairs(key: &str, set: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, Value)>> {
    let Some(set) = set else { return Ok(Vec::new()) };
    let table = table(key, set.as_any().cast::<PyMapping>()?)?;
    Ok(table.into_iter().collect())
}
