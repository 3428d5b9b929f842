//! The numbers of a view, as programs read them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use tack_lab::draw::Words;
use tack_lab::item::Item;
use tack_lab::record::Record;
use tack_lab::reproduce::Loaded;
use tack_lab::svg::Style;
use tack_lab::view::Shown;

use crate::files::read_csv;
use crate::plans::{load, records};

const FILE: &str = r#"
id = "numbers"
[base]
duration_s = 2.0
wan = { rate_mbps = 10.0, delay_ms = 10.0 }
flow = [{ strategy = "tack", group = "a" }, { strategy = "tcp-l2", group = "b, too" }]
[sweep]
"wan.delay_ms" = [5.0, 10.5]
"wan.loss" = [0, 0.01]
[[variant]]
name = "one, quoted \"name\""
set = {}
[[variant]]
name = "two"
set = { "flow.0.cc" = "cubic" }
[extent]
short.seeds = 3
[[view]]
metrics = ["goodput_bps", "completion", "utilisation", "jain"]
[[view]]
kind = "lines"
metric = "goodput_bps"
panels = ["wan.delay_ms"]
x = "wan.loss"
lines = "variant"
paper = { two = [[0, 7.5], [0.5, 1.25]], "5 two" = [[0.01, 9]] }
[[view]]
kind = "bars"
metric = "completion"
x = "variant"
at = { "wan.delay_ms" = 5.0 }
lines = "wan.loss"
[[view]]
kind = "cdf"
metric = "completion"
lines = "variant"
paper = { two = [[3.5, 0.5]] }
[[view]]
kind = "cdf"
metric = "a.blocked"
scale = 1e-3
unit = "kB"
lines = "wan.loss"
[[view]]
kind = "series"
metric = "cwnd_bytes"
at = { "wan.delay_ms" = 5.0, "wan.loss" = 0 }
lines = "variant"
paper = { elsewhere = [[1.0, 2e4]] }
[[view]]
kind = "lines"
metric = "goodput_bps"
how = "change"
versus = { variant = "two" }
x = "wan.delay_ms"
"#;

/// A figure with all of its digits, one that some runs lack, quantiles and a course.
fn made(loaded: &Loaded) -> BTreeMap<String, Record> {
    let is_two = |key: &Words| key["variant"].to_string() == "two";
    let more = |item: &Item| f64::from(u8::from(is_two(&item.key))) * 1e5;
    let rate = |item: &Item| 1e7 / (3.0 + item.scenario.seed as f64) + more(item);
    let mut all = records(loaded, "goodput_bps", rate);
    for (n, record) in all.values_mut().enumerate() {
        if !is_two(&record.key) || record.key["seed"].to_string() != "2" {
            record.metrics.insert("completion".to_owned(), 1.0 / (n as f64 + 7.0));
        }
        record.metrics.insert("utilisation".to_owned(), 1.0 / 3.0);
        let quantiles = (0..=20).map(|q| f64::from(q) * 1e3 / 7.0).collect();
        record.samples.insert("a.blocked".to_owned(), quantiles);
        for group in ["a", "b, too"] {
            let course = (0..30).map(|t| (f64::from(t) / 3.0, 1e6 / f64::from(t + 1)));
            record.series.insert(format!("{group}.cwnd_bytes"), course.collect());
        }
    }
    all
}

/// Views and their files as a reader has them: columns by name, and rows.
fn views() -> Vec<(Shown, Vec<String>, Vec<Vec<String>>)> {
    let loaded = load(FILE);
    let shown = loaded.report(&made(&loaded)).unwrap().shown;
    let read = |shown: Shown| {
        let mut rows = read_csv(&shown.data.csv());
        let header = rows.remove(0);
        assert!(rows.iter().all(|row| row.len() == header.len()), "{header:?}");
        (shown, header, rows)
    };
    shown.into_iter().map(read).collect()
}

/// Whether a column says what a row is of, by a name.
fn is_name(column: &str) -> bool {
    ["variant", "group"].contains(&column)
}

#[test]
fn a_figure_its_interval_and_the_runs_that_have_it_are_columns_of_their_own_with_their_unit() {
    let views = views();
    let header: Vec<String> = views.iter().map(|(_, header, _)| header.join("|")).collect();
    let expected = [
        "delay_ms|loss|variant|goodput_mbps|goodput_ci95_mbps|completion_s|completion_ci95_s|completion_s_runs\
         |utilisation_percent|jain|runs",
        "delay_ms|variant|loss|goodput_mbps|goodput_ci95_mbps|goodput_paper_mbps|runs",
        "loss|variant|completion_s|completion_ci95_s|completion_s_runs|runs",
        "variant|completion_s|share|share_runs|share_paper|runs",
        "loss|a.blocked_kB|share|runs",
        "variant|group|time_s|cwnd_bytes|cwnd_paper_bytes",
        "delay_ms|goodput_percent|goodput_ci95_percent|runs",
    ];
    assert_eq!(header, expected);
    // The mean of 10 Mbit/s over 4, 5 and 6 with all its digits; what no run has is nothing.
    let row = &views[0].2[0];
    let mean = (1e7 / 4.0 + 1e7 / 5.0 + 1e7 / 6.0) / 3.0 * 1e-6;
    assert_eq!(row[..3], ["5", "0", "one, quoted \"name\""]);
    assert!((row[3].parse::<f64>().unwrap() - mean).abs() < 1e-14 && row[9].is_empty(), "{row:?}");
    let half: f64 = row[4].parse().unwrap();
    assert!(views[0].0.table.rows[0][3].ends_with(&format!("± {half:.2}")), "{half}");
}

#[test]
fn the_file_of_a_picture_has_every_point_that_is_drawn() {
    let mut drawn = 0;
    for (shown, header, rows) in views() {
        let column = |name: &str| header.iter().position(|h| h == name);
        let paper = header.iter().position(|h| h.contains("_paper"));
        // The figure is before its interval and its paper's; where it is drawn is before it.
        let y = header.iter().position(|h| h.contains("_ci95") || h == "share_runs");
        let y = y.or(column("runs")).or(paper).unwrap() - 1;
        let number = |row: &Vec<String>, i: usize| row[i].parse::<f64>().unwrap_or(f64::NAN);
        for line in shown.plots.iter().flat_map(|plot| &plot.lines) {
            for (x, value, half) in &line.points {
                let is_paper = matches!(line.style, Style::Paper { .. });
                let of = if is_paper { paper.unwrap() } else { y };
                let is_bar = line.style == Style::Bars;
                let is_it = |row: &&Vec<String>| {
                    let there = is_bar || number(row, y - 1) == *x;
                    let half = half.filter(|half| *half > 1e-9 * value.abs() && !is_paper);
                    let told = half.is_none_or(|half| number(row, y + 1) == half);
                    there && told && number(row, of) == *value
                };
                assert!(rows.iter().any(|row| is_it(&row)), "{header:?} {} {x} {value}", line.name);
                drawn += 1;
            }
        }
        let lines = shown.plots.iter().flat_map(|plot| &plot.lines);
        let most = lines.map(|line| line.points.len()).sum();
        assert!(shown.plots.is_empty() || rows.len() <= most, "{header:?}: {} rows", rows.len());
    }
    assert!(drawn > 200, "{drawn} points");
}

#[test]
fn every_cell_of_a_column_of_numbers_is_a_number_to_python_or_empty() {
    let program = "import csv, sys\n\
        rows = list(csv.reader(sys.stdin))\n\
        names = [n for n, column in enumerate(rows[0]) if column in ('variant', 'group')]\n\
        cells = [c for row in rows[1:] for n, c in enumerate(row) if n not in names]\n\
        assert all(len(row) == len(rows[0]) for row in rows) and rows[1:]\n\
        print(sum(map(float, filter(None, cells))))";
    for (shown, header, rows) in views() {
        let cells = rows.iter().flat_map(|row| header.iter().zip(row));
        let cells = cells.filter(|(column, cell)| !is_name(column) && !cell.is_empty());
        let sum: f64 = cells.map(|(_, cell)| cell.parse::<f64>().unwrap()).sum();
        let mut python = Command::new("python3");
        python.args(["-c", program]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut python) = python.spawn() else {
            assert!(std::env::var_os("CI").is_none(), "no python3");
            return println!("skipped: no python3");
        };
        python.stdin.take().unwrap().write_all(shown.data.csv().as_bytes()).unwrap();
        let out = python.wait_with_output().unwrap();
        let read: f64 = String::from_utf8(out.stdout).unwrap().trim().parse().unwrap();
        assert!((read / sum - 1.0).abs() < 1e-9, "{header:?}: {read}, {sum}");
    }
}
