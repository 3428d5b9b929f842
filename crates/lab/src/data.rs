//! What programs read: columns of plain numbers and names, as CSV [RFC 4180].
//!
//! A figure is in a column of its own, not rounded, its unit in the name (`goodput_mbps`); half of its 95 %
//! interval is in another (`goodput_ci95_mbps`), and in how many of the runs it is in a third, where that are not all
//! (`goodput_mbps_runs`). What is not known is an empty cell.

use crate::scenario::plain;

/// Columns by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// Their names.
    pub header: Vec<String>,
    /// As many cells each.
    pub rows: Vec<Vec<String>>,
}

impl Data {
    /// Rows of `columns`: each has a name, and whether it stays where it is empty.
    pub(crate) fn of(columns: Vec<(String, bool)>, rows: Vec<Vec<String>>) -> Data {
        let is_kept = |(i, column): (usize, &(String, bool))| {
            column.1 || rows.iter().any(|row| row.get(i).is_some_and(|cell| !cell.is_empty()))
        };
        let kept: Vec<bool> = columns.iter().enumerate().map(is_kept).collect();
        let lean = |row: Vec<String>| {
            row.into_iter().zip(&kept).filter(|(_, kept)| **kept).map(|(cell, _)| cell).collect()
        };
        let header = lean(columns.into_iter().map(|(name, _)| name).collect());
        Data { header, rows: rows.into_iter().map(lean).collect() }
    }

    /// The file.
    pub fn csv(&self) -> String {
        core::iter::once(&self.header).chain(&self.rows).map(|row| line(row)).collect()
    }
}

/// A row of a CSV file.
pub(crate) fn line(cells: &[String]) -> String {
    let quoted = |cell: &String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.clone(),
    };
    cells.iter().map(quoted).collect::<Vec<_>>().join(",") + "\n"
}

/// A figure as a cell.
pub(crate) fn cell(figure: Option<f64>) -> String {
    figure.filter(|v| v.is_finite()).map(plain).unwrap_or_default()
}

/// A column's name of words, the unit the last: without what a program's names cannot have.
pub(crate) fn column(words: &[&str]) -> String {
    let spelled = words.join(" ").replace("Mbit/s", "mbps").replace("1/", "per ");
    let spelled = spelled.replace('/', " per ").replace('%', " percent ");
    let parts = spelled.split(|c: char| !c.is_alphanumeric() && !"._".contains(c));
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_")
}

/// What is called in how many runs a figure is, where it is not in all: `completion_runs`.
pub fn count_name(figure: &str) -> String {
    format!("{figure}_runs")
}

/// What half of a figure's 95 % interval is called, its unit the last: `goodput_ci95_bps`.
pub fn interval_name(figure: &str) -> String {
    let (stem, unit) = figure.rsplit_once('_').unwrap_or((figure, ""));
    let is_unit = ["bps", "us", "s", "bytes"].contains(&unit);
    if is_unit { format!("{stem}_ci95_{unit}") } else { format!("{figure}_ci95") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_columns_name_is_one_word_with_its_unit() {
        assert_eq!(column(&["goodput", "ci95", "Mbit/s"]), "goodput_ci95_mbps");
        assert_eq!(column(&["data packets", "", "1/s"]), "data_packets_per_s");
        assert_eq!(column(&["web.rate", "kB/s"]), "web.rate_kB_per_s");
        assert_eq!(column(&["ack airtime", "%"]), "ack_airtime_percent");
        assert_eq!(column(&["jain", ""]), "jain");
        assert_eq!(column(&["rate", "times, L = 2's"]), "rate_times_L_2_s");
    }
}
