//! What is written down: CSV, tables and pictures.

use tack_lab::output::write_csv;
use tack_lab::record::Record;
use tack_lab::svg::{Axis, Line, Plot, Style};
use tack_lab::table::Table;

use crate::plans::{SWEEP, invented, items, load};

/// A reader of RFC 4180 as its grammar says, to hold the writer against.
pub(crate) fn read_csv(text: &str) -> Vec<Vec<String>> {
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
    let items = items(SWEEP);
    let records: Vec<Record> = items.iter().map(invented).collect();
    let mut out = Vec::new();
    write_csv(records.iter(), &mut out).unwrap();
    let table = read_csv(&String::from_utf8(out).unwrap());
    assert_eq!(table.len(), 9);
    assert!(table.iter().all(|r| r.len() == table[0].len()), "{table:?}");
    let cell = |row: usize, name: &str| {
        let column = table[0].iter().position(|c| c == name);
        &table[row][column.unwrap_or_else(|| panic!("no column {name} in {:?}", table[0]))]
    };
    for (i, (item, record)) in items.iter().zip(&records).enumerate() {
        assert_eq!(cell(i + 1, "run"), &item.id);
        assert_eq!(cell(i + 1, "name"), "a, \"quoted\" name");
        assert_eq!(cell(i + 1, "seed"), &item.scenario.seed.to_string());
        assert_eq!(cell(i + 1, "flow.0.strategy"), &item.scenario.flow[0].strategy.to_string());
        assert_eq!(cell(i + 1, "wan.delay_ms"), "5.1");
        let goodput: f64 = cell(i + 1, "result.goodput_bps").parse().unwrap();
        assert_eq!(Some(goodput), record.get("goodput_bps"));
        assert_eq!(cell(i + 1, "result.rtt_p50_us").is_empty(), item.scenario.seed == 1);
    }
}

#[test]
fn records_read_back_are_the_records_that_were_written() {
    for item in items(SWEEP) {
        let record = invented(&item);
        let back: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(back, record);
    }
}

#[test]
fn the_summary_has_a_line_per_combination_and_kind_of_flow() {
    let loaded = load(SWEEP);
    let records = loaded.plan.items.iter().map(|i| (i.id.clone(), invented(i))).collect();
    let text = loaded.report(&records).unwrap().text();
    let lines: Vec<&str> = text.trim_end().lines().collect();
    assert_eq!(lines.len(), 1 + 4, "{text}");
    assert!(lines[1].starts_with("wifi.phy=g flow.0.strategy=tcp-l2 "), "{text}");
    assert!(lines[1].ends_with(" 2"), "two seeds: {text}");
    let two = SWEEP.replace("[sweep]", "[[flow]]\nstrategy = \"udp\"\n[sweep]");
    let loaded = load(&two);
    let records = loaded.plan.items.iter().map(|i| (i.id.clone(), invented(i))).collect();
    let text = loaded.report(&records).unwrap().text();
    assert_eq!(text.trim_end().lines().count(), 1 + 8, "unlike flows are not summed: {text}");
}

/// A legend names every line, marks and dashes tell them apart, and intervals are drawn.
#[test]
fn nothing_at_zero_hides_the_labels_of_a_logarithmic_picture() {
    let x = Axis { label: "loss".to_owned(), log: true, categories: None };
    let points = vec![(0.0, 18.6, None), (0.001, 18.5, None), (0.05, 17.0, None)];
    let lines = vec![Line { name: "one".to_owned(), points, style: Style::Line }];
    let svg = Plot { x, lines, ..Plot::default() }.svg();
    let line = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
    let places: Vec<f64> =
        line.split(' ').map(|p| p.split(',').next().unwrap().parse().unwrap()).collect();
    // The plot's own ground begins 66 from the left.
    assert!(
        places[0] > 70.0 && places[1] > places[0] + 20.0 && places[2] > places[1],
        "{places:?}"
    );
}

#[test]
fn a_picture_has_axes_marks_error_bars_and_a_legend() {
    let axis = |label: &str| Axis { label: label.to_owned(), ..Axis::default() };
    let line = |name: &str, style| Line {
        name: name.to_owned(),
        points: vec![(1.0, 2.0, Some(0.5)), (2.0, 3.0, None)],
        style,
    };
    let lines = vec![
        line("first", Style::Line),
        line("first (paper)", Style::Paper { of: 0 }),
        line("second <&>", Style::Line),
    ];
    let plot =
        Plot { title: "a title".to_owned(), x: axis("time, s"), y: axis("rate, 1/s"), lines };
    let svg = plot.svg();
    for text in ["a title", "time, s", "rate, 1/s", ">first<", "hollow", "second &lt;&amp;&gt;"] {
        assert!(svg.contains(text), "{text}: {svg}");
    }
    assert_eq!(svg.matches("<polyline").count(), 2);
    assert_eq!(svg.matches("stroke-dasharray=\"7 3\"").count(), 2, "line and legend");
    assert_eq!(
        svg.matches("fill=\"none\" stroke=\"#0072b2\" stroke-width=\"0").count(),
        2,
        "paper's points"
    );
    assert_eq!(svg.matches("h8M").count(), 2, "an error bar each");
    let bars = Plot { lines: vec![line("bar", Style::Bars)], ..plot };
    assert!(bars.svg().matches("url(#h").count() == 3, "two bars and a legend");
    assert_eq!(Plot::default().svg().matches("NaN").count(), 0);
}

#[test]
fn a_table_is_the_same_as_text_and_markdown() {
    let row = |cells: &[&str]| cells.iter().map(|c| (*c).to_owned()).collect::<Vec<_>>();
    let table = Table {
        title: String::new(),
        keys: 1,
        header: row(&["", "a, b"]),
        rows: vec![row(&["x|y", "1.5"]), row(&["z", "10"])],
    };
    assert_eq!(table.text(), "     a, b\nx|y   1.5\nz      10\n");
    assert_eq!(table.markdown().lines().nth(2), Some("| x\\|y | 1.5 |"));
}
