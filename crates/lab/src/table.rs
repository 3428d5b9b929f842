//! A table for people, as text and Markdown.

use std::fmt::Write as _;

/// Cells with a header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Above.
    pub title: String,
    /// How many columns name what a row is of.
    pub keys: usize,
    /// Of the columns.
    pub header: Vec<String>,
    /// As many cells each.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    fn lines(&self) -> impl Iterator<Item = &Vec<String>> {
        core::iter::once(&self.header).chain(&self.rows)
    }

    /// For a person at a terminal: names to the left, numbers to the right.
    pub fn text(&self) -> String {
        let lines: Vec<Vec<String>> = self.lines().map(|row| one_line(row)).collect();
        let width = |i: usize| {
            let cells = lines.iter().filter_map(|row| row.get(i));
            cells.map(|c| c.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let mut out = String::new();
        if !self.title.is_empty() {
            let _ = writeln!(out, "{}", self.title);
        }
        for row in &lines {
            let cell = |(i, cell): (usize, &String)| {
                let w = widths.get(i).copied().unwrap_or(0);
                if i < self.keys { format!("{cell:<w$}") } else { format!("{cell:>w$}") }
            };
            let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
            let _ = writeln!(out, "{}", cells.join("  ").trim_end());
        }
        out
    }

    /// For a document.
    pub fn markdown(&self) -> String {
        let line = |row: &Vec<String>| {
            let cells = one_line(row).into_iter().map(|c| c.replace('|', "\\|"));
            let cells: Vec<String> = cells.collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let align = |i: usize| if i < self.keys { "---" } else { "--:" };
        let rule: Vec<&str> = (0..self.header.len()).map(align).collect();
        let rows: String = self.rows.iter().map(line).collect();
        format!("{}| {} |\n{rows}", line(&self.header), rule.join(" | "))
    }
}

/// Cells without what would begin another line, or move a terminal's cursor.
fn one_line(row: &[String]) -> Vec<String> {
    let plain = |cell: &String| cell.split(char::is_control).collect::<Vec<_>>().join(" ");
    row.iter().map(plain).collect()
}
