//! What is shown of results: names that tell rows apart, figures that are a row's own, pictures of anything.

use std::collections::BTreeMap;

use tack_lab::claim::Verdict;
use tack_lab::data::Data;
use tack_lab::experiment::Extent;
use tack_lab::plan::experiment_or_scenario;
use tack_lab::record::Record;
use tack_lab::reproduce::Loaded;
use tack_lab::svg::{Axis, Line, Plot, Style};
use tack_lab::table::Table;

use crate::plans::{load, records};

const PAIRS: &str = r#"
id = "pairs"
[base]
duration_s = 2.0
wan = { rate_mbps = 10.0, delay_ms = 10.0 }
flow = [{ strategy = "tack", group = "a" }, { strategy = "tcp-l2", group = "b" }]
[sweep]
"flow.0.cc" = ["bbr", "cubic"]
"flow.1.cc" = ["bbr", "cubic"]
"#;

#[test]
fn two_axes_whose_keys_end_alike_keep_their_whole_names() {
    let view = "[[view]]\nmetrics = [\"goodput_bps\"]\n";
    let loaded = load(&format!("{PAIRS}{view}"));
    let made = records(&loaded, "goodput_bps", |_| 1e6);
    let table = &loaded.report(&made).unwrap().shown[0].table;
    assert_eq!(table.header[..2], ["flow.0.cc", "flow.1.cc"]);
    let rows = loaded.rows(&made);
    let pairs: Vec<[&str; 2]> = rows
        .iter()
        .map(|row| ["flow.0.cc", "flow.1.cc"].map(|axis| row[axis].as_str().unwrap_or_default()))
        .collect();
    let expected = [["bbr", "bbr"], ["bbr", "cubic"], ["cubic", "bbr"], ["cubic", "cubic"]];
    assert_eq!(pairs, expected);
}

#[test]
fn a_kind_of_flows_that_lacks_a_figure_is_not_shown_that_of_the_others() {
    let loaded = load(PAIRS);
    let mut made = records(&loaded, "queue_drops", |_| 3.0);
    for record in made.values_mut() {
        record.metrics.insert("rtt_p50_us".to_owned(), 7e3);
        record.metrics.insert("b.rtt_p50_us".to_owned(), 7e3);
    }
    let table = &loaded.report(&made).unwrap().shown[0].table;
    let column = |name: &str| table.header.iter().position(|h| h.starts_with(name)).unwrap();
    for row in &table.rows {
        let rtt = if row[1] == "a" { "-" } else { "7.00" };
        assert_eq!((row[column("rtt p50")].as_str(), row[column("queue")].as_str()), (rtt, "3.00"));
    }
}

#[test]
fn a_claim_whose_figure_no_run_has_differs_and_says_so() {
    let claim = "[[claim]]\nwhat = \"x\"\npaper = \"y\"\nmetric = \"ack_airtime\"\n";
    for rest in ["", "along = \"flow.0.cc\"\n"] {
        let expect = "expect = { form = \"at-most\", value = 10 }\n";
        let loaded = load(&format!("{PAIRS}{claim}{rest}{expect}"));
        let made = records(&loaded, "goodput_bps", |_| 1e6);
        let findings = loaded.report(&made).unwrap().findings;
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(findings[0].verdict, Verdict::Differs);
        assert!(findings[0].ours.contains("no run has ack_airtime"), "{findings:?}");
    }
}

#[test]
fn a_distribution_is_of_the_group_that_is_asked_for_and_of_runs_that_have_it() {
    let view = "[[view]]\nkind = \"cdf\"\nmetric = \"b.blocked\"\n";
    let loaded = load(&format!("{PAIRS}{view}"));
    let mut made = records(&loaded, "goodput_bps", |_| 1e6);
    for record in made.values_mut() {
        record.samples = BTreeMap::from([
            ("blocked".to_owned(), vec![1.0; 21]),
            ("b.blocked".to_owned(), vec![5.0; 21]),
        ]);
    }
    let row = &loaded.report(&made).unwrap().shown[0].table.rows[0];
    assert_eq!(row[1..], ["5.00", "5.00", "5.00", "5.00"]);
    // In half of these runs there is no such flow: what is not there is not zero.
    let other = PAIRS.replace(", group = \"b\"", "").replace(
        "\"flow.1.cc\" = [\"bbr\", \"cubic\"]",
        "\"flow.1.strategy\" = [\"tcp-l2\", \"ae\"]",
    );
    let loaded = load(&format!("{other}{}", view.replace("b.blocked", "ae.blocked")));
    let mut made = records(&loaded, "goodput_bps", |_| 1e6);
    let has_it = |record: &&mut Record| record.key["flow.1.strategy"].to_string() == "ae";
    for record in made.values_mut().filter(has_it) {
        record.samples = BTreeMap::from([("ae.blocked".to_owned(), vec![5.0; 21])]);
    }
    let row = &loaded.report(&made).unwrap().shown[0].table.rows[0];
    assert_eq!(row[1..], ["5.00", "5.00", "5.00", "5.00"]);
}

#[test]
fn a_legend_says_what_numbers_are_of_and_which_of_two_flows_has_a_controller() {
    let views = "[[view]]\nkind = \"bars\"\nmetric = \"jain\"\nx = \"flow.0.cc\"\nlines = \"flow.1.cc\"\n\
                 [[view]]\nkind = \"bars\"\nmetric = \"jain\"\nx = \"flow.0.cc\"\nlines = \"wan.loss\"\n\
                 [[view]]\nkind = \"bars\"\nmetric = \"jain\"\nx = \"wan.loss\"\nlines = \"case\"\n";
    let axes = "\"wan.loss\" = [0.01, 0.1]\n[[case]]\nname = \"near\"\nset = {}\n";
    let loaded = load(&format!("{PAIRS}{axes}{views}"));
    let shown = loaded.report(&records(&loaded, "jain", |_| 0.5)).unwrap().shown;
    let names = |n: usize| {
        let lines = &shown[n].plots[0].lines;
        lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["flow.1.cc bbr", "flow.1.cc cubic"]);
    assert_eq!(names(1), ["loss 0.01", "loss 0.1"]);
    assert_eq!(names(2), ["near"]);
}

#[test]
fn a_distribution_over_few_runs_rises_at_each_and_nowhere_else() {
    let view = "[[view]]\nkind = \"cdf\"\nmetric = \"jain\"\n";
    let loaded = load(&format!("{PAIRS}{view}"));
    let of_pair = |record: &Record| {
        let is = |axis: &str| f64::from(u8::from(record.key[axis].to_string() == "cubic"));
        1.0 + is("flow.0.cc") + 2.0 * is("flow.1.cc")
    };
    let mut made = records(&loaded, "jain", |_| 0.0);
    for record in made.values_mut() {
        let jain = of_pair(record);
        record.metrics.insert("jain".to_owned(), jain);
    }
    let points = &loaded.report(&made).unwrap().shown[0].plots[0].lines[0].points;
    let steps = (0..4)
        .flat_map(|n| [n, n + 1].map(|below| (f64::from(n) + 1.0, f64::from(below) / 4.0, None)));
    assert_eq!(*points, steps.collect::<Vec<_>>());
}

#[test]
fn a_distribution_that_is_not_known_of_a_run_is_none_and_not_nothing() {
    let view = "[[view]]\nkind = \"cdf\"\nmetric = \"b.blocked\"\nlines = \"flow.0.cc\"\n";
    let claim = "[[claim]]\nwhat = \"x\"\npaper = \"y\"\nmetric = \"b.blocked\"\nat = { \"flow.0.cc\" = \"bbr\" }\n\
                 expect = { form = \"left-of\", than = { \"flow.0.cc\" = \"cubic\" }, times = { p50 = 2.0 } }\n";
    let loaded = load(&format!("{PAIRS}{view}{claim}"));
    let mut made = records(&loaded, "goodput_bps", |_| 1e6);
    let of = |record: &Record, cc: &str| record.key["flow.0.cc"].to_string() == cc;
    for record in made.values_mut().filter(|record| of(record, "cubic")) {
        record.samples = BTreeMap::from([("b.blocked".to_owned(), vec![5.0; 21])]);
    }
    let report = loaded.report(&made).unwrap();
    let rows = &report.shown[0].table.rows;
    assert_eq!(rows[0], ["bbr (0 of 2)", "-", "-", "-", "-"]);
    assert_eq!(rows[1], ["cubic", "5.00", "5.00", "5.00", "5.00"]);
    assert_eq!(report.findings[0].verdict, Verdict::Differs);
    assert!(report.findings[0].ours.contains("no run has b.blocked"), "{:?}", report.findings);
    // Flows that can have it and had nothing say so by their median.
    for record in made.values_mut().filter(|record| of(record, "bbr")) {
        record.metrics.insert("b.blocked_p50_bytes".to_owned(), 0.0);
    }
    let report = loaded.report(&made).unwrap();
    assert_eq!(report.shown[0].table.rows[0], ["bbr", "0", "0", "0", "0"]);
    assert_eq!(report.findings[0].verdict, Verdict::Agrees);
}

#[test]
fn a_table_that_names_no_columns_has_those_that_runs_have() {
    let loaded = load(PAIRS);
    let mut made = records(&loaded, "completion", |_| 2.0);
    for record in made.values_mut() {
        record.metrics.insert("goodput".to_owned(), 3e6);
    }
    let table = &loaded.report(&made).unwrap().shown[0].table;
    let kept = table.header[table.header.len() - 3..].join("|");
    assert_eq!(kept, "goodput, Mbit/s|completion, s|runs");
    assert_eq!(table.rows[0][table.header.len() - 3..], ["3.00", "2.00", "1"]);
    // Where nothing came of any run, the usual ones say that it lacks them.
    let made = records(&load(PAIRS), "flows", |_| 1.0);
    let none = made.into_iter().map(|(run, it)| (run, Record { metrics: BTreeMap::new(), ..it }));
    let table = &loaded.report(&none.collect()).unwrap().shown[0].table;
    assert!(table.header.iter().any(|name| name == "goodput, Mbit/s"), "{:?}", table.header);
}

#[test]
fn a_mean_says_how_many_runs_have_it_where_not_all_do() {
    let loaded = load(&format!("{PAIRS}[extent]\nshort.seeds = 3\n"));
    let mut made = records(&loaded, "goodput_bps", |_| 1e6);
    for record in made.values_mut().filter(|record| record.key["seed"].to_string() != "2") {
        record.metrics.insert("completion".to_owned(), 4.0);
    }
    for row in loaded.rows(&made) {
        let counts = ["seeds", "completion_runs", "goodput_bps_runs"].map(|key| row.get(key));
        assert_eq!(counts, [Some(&3.into()), Some(&2.into()), None], "{row}");
    }
}

fn plot(points: &[(f64, f64)], log: bool) -> Plot {
    let points = points.iter().map(|(x, y)| (*x, *y, None)).collect();
    let axis = || Axis { label: "a".to_owned(), log, categories: None };
    let lines = vec![Line { name: "l".to_owned(), points, style: Style::Line }];
    Plot { title: "t".to_owned(), x: axis(), y: axis(), lines }
}

#[test]
fn a_picture_of_zeros_of_one_point_or_of_none_is_a_picture_on_any_axes() {
    for points in [
        &[][..],
        &[(0.0, 0.0)],
        &[(0.0, 0.0), (1.0, 0.0), (2.0, 0.0)],
        &[(5.0, 7.0)],
        &[(-1.0, -5.0), (0.0, 0.0)],
        &[(1e-300, 1e300), (1e300, 1e-300)],
        &[(1e17, 1e17)],
    ] {
        for log in [false, true] {
            let svg = plot(points, log).svg();
            assert!(svg.ends_with("</svg>\n") && svg.len() < 200_000, "{points:?}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{points:?} {log}: {svg}");
        }
    }
    let zeros = |points: &[(f64, f64)]| plot(points, true).svg().matches(">0<").count();
    assert_eq!(zeros(&[(1.0, 1300.0), (2.0, 0.0), (3.0, 2e5)]), 1, "what is nothing is told so");
    assert_eq!(zeros(&[(1.0, 1300.0), (2.0, 2e5)]), 0);
    let flat = plot(&[(1.0, 0.0), (2.0, 0.0)], false).svg();
    assert!(flat.contains(">0.25<") && !flat.contains("e-9"), "zeros have an axis of ones: {flat}");
}

#[test]
fn numbers_beside_an_axis_are_exact_and_its_name_stands_clear_of_them() {
    let millions = plot(&[(1.0, 0.0), (2.0, 7.4e6)], false).svg();
    assert!(millions.contains(">2e6<"), "{millions}");
    let halves = plot(&[(1.0, 0.0), (2.0, 1e7)], false).svg();
    assert!(halves.contains(">2.5e6<") && halves.contains(">7.5e6<"), "{halves}");
    let small = plot(&[(1.0, 0.0), (2.0, 1e-3)], false).svg();
    assert!(small.contains(">2.5e-4<"), "{small}");
    // A letter is 7 wide, and the name's line 16 from the edge.
    let long = plot(&[(1.0, 0.0), (2.0, 170_000.0)], false).svg();
    let end = |line: &str| line.split("x=\"").nth(1)?.split('"').next()?.parse::<f64>().ok();
    let place = long.lines().flat_map(|line| line.split("<text")).find(|t| t.contains(">150000<"));
    assert!(place.and_then(end).unwrap() - 6.0 * 7.0 > 22.0, "{long}");
}

#[test]
fn two_figures_beside_each_other_have_two_names_and_a_distribution_its_unit() {
    let views = "[[view]]\nmetrics = [\"goodput\", \"goodput_bps\", \"utilisation\"]\n\
                 [[view]]\nkind = \"cdf\"\nmetric = \"b.blocked\"\n";
    let loaded = load(&format!("{PAIRS}{views}"));
    let mut made = records(&loaded, "goodput_bps", |_| 1e6);
    for record in made.values_mut() {
        record.samples = BTreeMap::from([("b.blocked".to_owned(), vec![5.0; 21])]);
    }
    let shown = loaded.report(&made).unwrap().shown;
    let header = shown[0].table.header.join("|");
    assert!(header.contains("goodput, Mbit/s|goodput_bps, Mbit/s|utilisation, %"), "{header}");
    assert_eq!(shown[1].plots[0].x.label, "b.blocked, bytes");
}

#[test]
fn a_seed_that_no_run_has_is_refused_and_one_that_some_has_is_shown() {
    let at = |seed: u32| {
        let view = format!("[[view]]\nmetrics = [\"goodput_bps\"]\nat = {{ seed = {seed} }}\n");
        let text = format!("{PAIRS}[extent.usual]\nseeds = 2\n{view}");
        let experiment = experiment_or_scenario(&text, "test").unwrap();
        Loaded::of(experiment, &text, Extent::Usual).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(at(2), Ok(()));
    let refused = at(7).unwrap_err();
    assert!(refused.contains("`view.0.at` has seed = 7, which never runs: 1; 2"), "{refused}");
}

#[test]
fn there_is_no_picture_of_what_no_run_has() {
    let view = "[[view]]\nkind = \"lines\"\nmetric = \"latency_p50_us\"\nx = \"flow.0.cc\"\n";
    let loaded = load(&format!("{PAIRS}{view}"));
    let shown = loaded.report(&records(&loaded, "goodput_bps", |_| 1e6)).unwrap().shown;
    assert!(shown[0].plots.is_empty() && shown[0].table.rows[0][1] == "-");
}

#[test]
fn many_bars_have_fills_of_their_own_and_long_names_the_room_there_is() {
    let names: Vec<String> =
        (0..12).map(|n| format!("{n} {}", "a rather long name ".repeat(5))).collect();
    let bars = |name: &String| Line {
        name: name.clone(),
        points: vec![(0.0, 1.0, None), (11.0, 2.0, None)],
        style: Style::Bars,
    };
    let x = Axis { label: String::new(), log: false, categories: Some(names.clone()) };
    let (lines, y) = (names.iter().map(bars).collect(), Axis::default());
    let svg = Plot { title: "long ".repeat(40), x, y, lines }.svg();
    let fills: std::collections::BTreeSet<&str> = svg
        .lines()
        .filter_map(|line| line.split_once("fill=\"url(#")?.1.split(')').next())
        .collect();
    assert_eq!(fills.len(), 12, "{fills:?}");
    for fill in fills {
        assert!(svg.contains(&format!("<pattern id=\"{fill}\"")), "{fill}");
    }
    let shown = |line: &str| {
        Some(line.split_once("<text ")?.1.split_once('>')?.1.split('<').next()?.chars().count())
    };
    let longest = svg.lines().filter_map(shown).max().unwrap();
    assert!((40..=115).contains(&longest), "{longest} letters in one line");
    assert!(svg.contains("<title>long long") && svg.contains('\u{2026}'));
}

#[test]
fn letters_that_no_xml_and_no_row_has_stay_out_of_pictures_and_tables() {
    let odd = "a\u{1}b\u{1b}[2J\u{ffff}<&>\"";
    let svg = Plot { title: odd.to_owned(), ..plot(&[(1.0, 1.0)], false) }.svg();
    assert!(svg.contains("ab[2J&lt;&amp;&gt;&quot;"), "{svg}");
    let table = Table {
        title: String::new(),
        keys: 1,
        header: vec!["who".to_owned(), "n".to_owned()],
        rows: vec![vec!["two\nlines\u{1b}".to_owned(), "1".to_owned()]],
    };
    assert_eq!(table.text().lines().count(), 2, "{}", table.text());
    assert_eq!(table.markdown().lines().count(), 3, "{}", table.markdown());
    assert!(!table.text().contains('\u{1b}'));
    let data = Data { header: table.header, rows: table.rows };
    assert!(data.csv().contains("\"two\nlines"), "a quoted cell may have lines");
}
