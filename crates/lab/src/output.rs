//! Records as CSV: a row per run with every parameter and its seed.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::Value;

use crate::data::line;
use crate::record::Record;

/// A record with dotted column names; what has many values has none.
pub fn flat(record: &Record) -> BTreeMap<String, Value> {
    let mut out = BTreeMap::new();
    out.insert("run".to_owned(), Value::from(record.run.clone()));
    flatten("", &record.scenario, &mut out);
    for (name, value) in &record.metrics {
        out.insert(format!("result.{name}"), Value::from(*value));
    }
    out.extend(record.void.as_ref().map(|why| ("void".to_owned(), Value::from(why.clone()))));
    out
}

fn flatten(prefix: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    let join = |key: &str| {
        if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") }
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(k, v)| flatten(&join(k), v, out)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| flatten(&join(&i.to_string()), v, out));
        }
        plain => {
            out.insert(prefix.to_owned(), plain.clone());
        }
    }
}

/// Writes records as CSV: one header, every column any has, empty where one lacks it.
///
/// # Errors
/// Those of `out`.
pub fn write_csv<'a>(
    records: impl Iterator<Item = &'a Record>,
    out: &mut impl Write,
) -> io::Result<()> {
    let rows: Vec<_> = records.map(flat).collect();
    let mut columns: Vec<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
    columns.sort();
    columns.dedup();
    let header: Vec<String> = columns.iter().map(|c| (*c).clone()).collect();
    out.write_all(line(&header).as_bytes())?;
    for row in &rows {
        let cells: Vec<String> =
            columns.iter().map(|c| row.get(*c).map(cell).unwrap_or_default()).collect();
        out.write_all(line(&cells).as_bytes())?;
    }
    Ok(())
}

/// A plain value as a cell; nothing for null.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
