//! What is written down: CSV and reports.

use tack_lab::output::{Row, write_csv};
use tack_lab::report;

use crate::plans::{SWEEP, invented, runs};

/// A reader of RFC 4180 as its grammar says, to hold the writer against.
fn read_csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            c => cell.push(c),
        }
    }
    records
}

#[test]
fn csv_has_a_row_per_run_with_every_parameter_and_the_seed() {
    let runs = runs(&SWEEP.replacen("\\\"quoted\\\" name", "\\\"quoted\\\"\\nname", 1));
    let rows: Vec<Row> = runs.iter().map(|r| Row::new(r, invented(r))).collect();
    let mut out = Vec::new();
    write_csv(&rows, &mut out).unwrap();
    let table = read_csv(&String::from_utf8(out).unwrap());
    assert_eq!(table.len(), 9);
    assert!(table.iter().all(|r| r.len() == table[0].len()), "{table:?}");
    let cell = |row: usize, name: &str| {
        let column = table[0].iter().position(|c| c == name);
        &table[row][column.unwrap_or_else(|| panic!("no column {name} in {:?}", table[0]))]
    };
    for (i, (run, row)) in runs.iter().zip(&rows).enumerate() {
        assert_eq!(cell(i + 1, "index"), &i.to_string());
        assert_eq!(cell(i + 1, "name"), "a, \"quoted\"\nname");
        assert_eq!(cell(i + 1, "seed"), &run.scenario.seed.to_string());
        assert_eq!(cell(i + 1, "flow.0.strategy"), &run.scenario.flow[0].strategy.to_string());
        assert_eq!(cell(i + 1, "wan.delay_ms"), "5.1");
        let goodput: f64 = cell(i + 1, "result.total.goodput_bps").parse().unwrap();
        assert_eq!(goodput, row.result.total.goodput_bps);
        assert_eq!(cell(i + 1, "result.total.rtt_p50_us").is_empty(), i % 3 == 0);
    }
}

#[test]
fn rows_read_back_are_the_rows_that_were_written() {
    for run in runs(SWEEP) {
        let row = Row::new(&run, invented(&run));
        let back: Row = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
        assert_eq!(back, row);
        assert!(back.answers(&run));
    }
}

#[test]
fn the_summary_has_a_line_per_combination() {
    let runs = runs(SWEEP);
    let rows: Vec<Row> = runs.iter().map(|r| Row::new(r, invented(r))).collect();
    let text = report::summary(&runs, &rows);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 4, "{text}");
    assert!(lines[1].starts_with("wifi.phy=g flow.0.strategy=tcp-l2 "), "{text}");
    assert!(lines.iter().all(|l| l.chars().count() == lines[0].chars().count()), "{text}");
    assert!(lines[1].ends_with(" 2"), "two seeds: {text}");
    // The first seven rows: the last combination has one seed, and no interval.
    let text = report::summary(&runs, &rows[..7]);
    assert!(text.lines().last().unwrap().ends_with(" 1") && text.matches('±').count() == 3);
}
