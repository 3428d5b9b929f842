//! Results as files: JSON lines and CSV, one row per run with every parameter and its seed.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::result::RunResult;
use crate::scenario::Run;

/// A finished run as it is written down.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Row {
    /// Position in the plan.
    pub index: usize,
    /// The scenario this run alone stands for, every key as meant, seed included.
    pub scenario: Value,
    /// What was measured.
    pub result: RunResult,
}

impl Row {
    /// The row of `run`.
    pub fn new(run: &Run, result: RunResult) -> Row {
        Row { index: run.index, scenario: scenario_value(run), result }
    }

    /// Whether this row is the result of `run` as it would run now: what an interrupted sweep may
    /// keep.
    pub fn answers(&self, run: &Run) -> bool {
        self.index == run.index && self.scenario == scenario_value(run)
    }

    /// The row with dotted column names.
    pub fn flat(&self) -> BTreeMap<String, Value> {
        let mut out = BTreeMap::new();
        out.insert("index".to_owned(), Value::from(self.index));
        flatten("", &self.scenario, &mut out);
        if let Ok(result) = serde_json::to_value(&self.result) {
            flatten("result", &result, &mut out);
        }
        out
    }
}

fn scenario_value(run: &Run) -> Value {
    // A scenario is numbers, texts, lists and tables: nothing JSON cannot say.
    serde_json::to_value(&run.scenario).unwrap_or(Value::Null)
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

/// Writes `rows` as CSV [RFC 4180]: one header, every column any row has, empty where one lacks it.
///
/// # Errors
/// Those of `out`.
pub fn write_csv(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    let flat: Vec<_> = rows.iter().map(Row::flat).collect();
    let mut columns: Vec<&String> = flat.iter().flat_map(BTreeMap::keys).collect();
    columns.sort();
    columns.dedup();
    let header: Vec<String> = columns.iter().map(|c| csv_cell(c)).collect();
    writeln!(out, "{}", header.join(","))?;
    for row in &flat {
        let cells: Vec<String> =
            columns.iter().map(|c| row.get(*c).map(cell).unwrap_or_default()).collect();
        writeln!(out, "{}", cells.join(","))?;
    }
    Ok(())
}

/// A plain value as a cell; nothing for null.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => csv_cell(text),
        other => other.to_string(),
    }
}

fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Reads what an interrupted sweep has written. A last line cut short by the interruption is left
/// out; `Err` names the line that is no row.
///
/// # Errors
/// The number of the first line that cannot be read and is not the last.
pub fn read_json_lines(text: &str) -> Result<Vec<Row>, String> {
    crate::lines::read(text)
}
