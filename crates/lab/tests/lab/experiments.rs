//! Experiment files: what they may say, what is refused, how claims are judged, and the blessed
//! tables of the repository's own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

use tack_lab::claim::{Finding, Verdict};
use tack_lab::draw::Word;
use tack_lab::experiment::{Experiment, Extent};
use tack_lab::item::{Item, distinct};
use tack_lab::plan::plan;
use tack_lab::record::Record;
use tack_lab::reproduce::Loaded;
use tack_lab::view::Kind;
use tack_lab::{backend, bundle, html, results, runner};

use crate::plans::{load, records};

const FILE: &str = r#"
id = "test"
[base]
duration_s = 2.0
wan = { rate_mbps = 10.0, delay_ms = 10.0 }
flow = [{ strategy = "tack" }]
[sweep]
"wan.up.loss,wan.down.loss" = [0.0, [0.01, 0.02]]
[[case]]
name = "near"
set = {}
[[case]]
name = "far"
set = { "wan.delay_ms" = 50.0 }
[[variant]]
name = "tack"
set = { "flow.0.tack.rbb" = "poor:1" }
[[variant]]
name = "tcp"
set = { "flow.0.strategy" = "tcp-l2" }
[extent.short]
seeds = 2
[[claim]]
what = "goodput at {}"
paper = { near = "more", far = "more" }
metric = "goodput_bps"
at = { variant = "tack", "wan.up.loss" = 0.0 }
versus = { variant = "tcp" }
each = ["case"]
expect = { form = "at-least", value = 1.5 }
because = "they differ"
"#;

struct Collected(Mutex<BTreeMap<String, Record>>);

impl runner::Sink<Record> for Collected {
    fn take(&self, _position: usize, record: Record) -> std::io::Result<()> {
        self.0.lock().unwrap().insert(record.run.clone(), record);
        Ok(())
    }
}

/// Runs all of a plan.
pub(crate) fn run(loaded: &Loaded) -> BTreeMap<String, Record> {
    let records = Collected(Mutex::default());
    let items = distinct(&[&loaded.plan]);
    runner::run(&items, 0, &records, backend::run).unwrap();
    records.0.into_inner().unwrap()
}

fn text(item: &Item, axis: &str) -> String {
    item.key[axis].to_string()
}

#[test]
fn a_plan_is_every_combination_with_every_seed_and_variants_differ_in_their_keys_alone() {
    let loaded = load(FILE);
    let items = &loaded.plan.items;
    assert_eq!(items.len(), 2 * 2 * 2 * 2);
    let ids: BTreeSet<&String> = items.iter().map(|i| &i.id).collect();
    assert_eq!(ids.len(), items.len(), "every run has an identity of its own");
    for item in items {
        let wan = item.scenario.wan.as_ref().unwrap();
        let pair = (wan.up().loss, wan.down().loss);
        let lossy = text(item, "wan.up.loss") != "0";
        assert_eq!(pair, if lossy { (Some(0.01), Some(0.02)) } else { (Some(0.0), Some(0.0)) });
        let far = wan.delay_ms == Some(50.0);
        assert_eq!(far, text(item, "case") == "far");
        let strategy = item.scenario.flow[0].strategy.to_string();
        assert_eq!(strategy == "tack", text(item, "variant") == "tack");
        assert_eq!(item.scenario.runs, 1);
    }
}

#[test]
fn all_variants_meet_the_same_draws() {
    let drawn = FILE.replace(
        "[extent.short]",
        "[draw]\n\"wan.rate_mbps\" = { uniform = [1.0, 100.0] }\n[extent.short]\ndraws = 5",
    );
    let loaded = load(&drawn);
    let mut rates: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for item in &loaded.plan.items {
        let rate = item.scenario.wan.as_ref().unwrap().rate_mbps.unwrap();
        rates.entry(text(item, "draw")).or_default().insert(rate.to_string());
    }
    assert_eq!(rates.len(), 5);
    assert!(rates.values().all(|r| r.len() == 1), "{rates:?}");
    let all: BTreeSet<&BTreeSet<String>> = rates.values().collect();
    assert_eq!(all.len(), 5, "draws differ");
}

#[test]
fn a_wrong_value_is_named_where_it_was_said_last() {
    let line_of =
        |text: &str, words: &str| text.lines().position(|l| l.contains(words)).unwrap() + 1;
    for (from, to, key) in [
        // A variant, a case, a sweep, one of a pair, a draw, an extent; each over a base that is right.
        ("\"poor:1\"", "\"poor:x\"", "flow.0.tack.rbb"),
        ("\"tcp-l2\" }", "\"tcp-l9000\" }", "flow.0.strategy"),
        ("\"wan.delay_ms\" = 50.0", "\"wan.delay_ms\" = -50.0", "wan.delay_ms"),
        ("[0.01, 0.02]]", "\n  [0.01, 7.0],\n]", "wan.down.loss"),
        (
            "[extent.short]",
            "[draw]\n\"wan.rate_mbps\" = { choice = [-1.0] }\n[extent.short]",
            "wan.rate_mbps",
        ),
        ("seeds = 2", "seeds = 2\nset = { duration_s = -1.0 }", "duration_s"),
    ] {
        let text = FILE.replacen(from, to, 1);
        let experiment = Experiment::parse(&text).unwrap();
        let refused = plan(&experiment, Extent::Short, &text).unwrap_err();
        let words = to.trim_start_matches("[draw]").trim().lines().next().unwrap();
        let words = if words.contains("seeds") { "set = { duration_s" } else { words };
        assert_eq!(refused.line, Some(line_of(&text, words)), "{refused}\n{text}");
        assert!(refused.to_string().contains(key), "{refused}");
    }
}

#[test]
fn what_is_wrong_in_a_flow_names_that_flow() {
    let text = FILE.replace(
        "[{ strategy = \"tack\" }]",
        "[\n{ strategy = \"tack\", station = 0 },\n{ strategy = \"tack\", station = \"x\" },\n]",
    );
    let experiment = Experiment::parse(&text).unwrap();
    let refused = plan(&experiment, Extent::Short, &text).unwrap_err();
    assert_eq!(refused.key, "base.flow.1.station", "{refused}");
    let line = text.lines().position(|l| l.contains("\"x\"")).unwrap() + 1;
    assert_eq!(refused.line, Some(line), "{refused}");
}

#[test]
fn a_transfer_is_timed_from_its_own_start() {
    let text = r#"
id = "late"
[base]
duration_s = 6.0
wan = { rate_mbps = 10.0, delay_ms = 10.0 }
flow = [{ strategy = "tack", app = { kind = "file", bytes = 100_000 } }]
[sweep]
"flow.0.start_s" = [0.0, 3.0]
"#;
    let records: Vec<Record> = run(&load(text)).into_values().collect();
    let times: Vec<f64> = records.iter().map(|r| r.metrics["transfer_s"]).collect();
    assert!(times.iter().all(|t| *t < 1.0), "{times:?}");
    assert!((times[0] - times[1]).abs() < 0.05, "as long whenever it begins: {times:?}");
    let rates: Vec<f64> = records.iter().map(|r| r.metrics["throughput_bps"]).collect();
    assert!(rates.iter().all(|r| *r > 1e6), "{rates:?}");
}

#[test]
fn each_kind_of_flows_has_latencies_of_its_own() {
    let text = r#"
id = "kinds"
[base]
duration_s = 5.0
wan = { rate_mbps = 10.0, delay_ms = 10.0 }
[[base.flow]]
strategy = "tack"
group = "near"
app = { kind = "request-response", request_bytes = 100, response_bytes = 1000, think_ms = 50.0 }
[[base.flow]]
strategy = "tack"
group = "far"
delay_ms = 40.0
app = { kind = "request-response", request_bytes = 100, response_bytes = 1000, think_ms = 50.0 }
"#;
    let records = run(&load(text));
    let metrics = &records.first_key_value().unwrap().1.metrics;
    let ms = |name: &str| metrics[name] / 1e3;
    assert!((20.0..30.0).contains(&ms("near.latency_p50_us")), "{metrics:?}");
    assert!((100.0..110.0).contains(&ms("far.latency_p50_us")), "{metrics:?}");
    // The first request waits for the handshake, too.
    assert!((200.0..220.0).contains(&ms("far.latency_p99_us")), "{metrics:?}");
    assert!(metrics.contains_key("far.rtt_min_mean_us"), "{metrics:?}");
}

#[test]
fn keys_without_quotes_set_what_they_name_and_no_more() {
    let quoted = FILE
        .replace("\"wan.delay_ms\" = 50.0", "\"wan.delay_ms\" = 50.0, \"wan.up.delay_ms\" = 7.0");
    let plain =
        FILE.replace("\"wan.delay_ms\" = 50.0", "wan.delay_ms = 50.0, wan.up.delay_ms = 7.0");
    let ids = |text: &str| load(text).plan.items.into_iter().map(|i| i.id).collect::<Vec<_>>();
    assert_eq!(ids(&quoted), ids(&plain));
    // A value that is a table is one value.
    let app = FILE
        .replace(
            "[{ strategy = \"tack\" }]",
            "[{ strategy = \"tack\", app = { kind = \"cbr\", mbps = 1.0 } }]",
        )
        .replace("\"wan.delay_ms\" = 50.0", "\"flow.0.app\" = { kind = \"bulk\" }");
    assert_eq!(ids(&app).len(), 16);
}

#[test]
fn a_distribution_over_runs_is_drawn_and_rows_of_a_claim_are_told_apart() {
    let view = "[[view]]\nkind = \"cdf\"\nmetric = \"goodput_bps\"\nlines = \"variant\"\n[[claim]]";
    let text = FILE.replace("[[claim]]", view).replace("goodput at {}", "goodput");
    let loaded = load(&text);
    let made = records(&loaded, "goodput_bps", |item| item.scenario.seed as f64 * 1e6);
    let report = loaded.report(&made).unwrap();
    let shown = &report.shown[0];
    assert_eq!(shown.plots[0].y.label, "share of the runs");
    assert_eq!(shown.plots[0].title, "goodput", "without a title it says what is shown");
    let row = shown.table.rows.iter().find(|row| row[0] == "tack").unwrap();
    assert_eq!((row[2].as_str(), row[4].as_str()), ("1.00", "2.00"), "{row:?}");
    let said: Vec<&str> = report.findings.iter().map(|f| f.what.as_str()).collect();
    assert_eq!(said, ["goodput: near", "goodput: far"]);
}

#[test]
fn mistakes_are_named_with_line_key_and_remedy() {
    for (from, to, words) in [
        ("duration_s = 2.0", "duration_s = -2.0", vec!["duration_s", "above 0"]),
        ("delay_ms = 10.0", "delya_ms = 10.0", vec!["delya_ms", "delay_ms"]),
        ("\"poor:1\"", "\"poor:x\"", vec!["flow.0.tack.rbb", "on-demand"]),
        ("[0.0, [0.01", "[0.0, [7.0", vec!["between 0 and 1", "wan.up.loss = 7"]),
        ("[0.0, [0.01, 0.02]]", "[]", vec!["sweep", "at least one value"]),
        ("[0.0, [0.01, 0.02]]", "0.1", vec!["list of values"]),
        ("goodput_bps", "goodput_bsp", vec!["claim.0.metric", "goodput_bsp"]),
        ("each = [\"case\"]", "each = [\"kase\"]", vec!["claim.0.each", "kase", "case, variant"]),
        ("at-least", "at-lest", vec!["at-least"]),
        ("seeds = 2", "seeds = 0", vec!["seeds", "at least one"]),
        ("seeds = 2", "sweep = { x = [1] }", vec!["extent.short.sweep.x", "no key of [sweep]"]),
        ("[[claim]]", "[[view]]\nkind = \"lines\"\nx = \"y\"\n[[claim]]", vec!["view.0.x", "`y`"]),
        ("[base]", "[bass]", vec!["bass"]),
    ] {
        let file = FILE.replace(from, to);
        assert_ne!(file, FILE, "{from}");
        let error = Loaded::parse(&file, Extent::Short).map(|_| ()).unwrap_err();
        let message = error.to_string();
        for word in words {
            assert!(message.contains(word), "{to}: `{message}` lacks {word}");
        }
    }
    let error = Loaded::parse(&FILE.replace("10.0, delay", "0.0, delay"), Extent::Short);
    let error = error.map(|_| ()).unwrap_err();
    assert_eq!((error.line, error.key.as_str()), (Some(5), "base.wan.rate_mbps"), "{error}");
}

/// The findings of claims `text` on figures as `value` has them.
fn findings(claim: &str, value: impl Fn(&Item) -> f64) -> Vec<Finding> {
    let start = FILE.find("[[claim]]").unwrap();
    let loaded = load(&format!("{}{claim}", &FILE[..start]));
    let records = records(&loaded, "goodput_bps", value);
    loaded.report(&records).unwrap().findings
}

/// The verdict of a claim of goodput with these words, on figures as `value` has them.
fn verdict(rest: &str, value: impl Fn(&Item) -> f64) -> Verdict {
    let claim = "[[claim]]\nwhat = \"x\"\npaper = \"y\"\nmetric = \"goodput_bps\"\n";
    let findings = findings(&format!("{claim}{rest}\n"), value);
    assert_eq!(findings.len(), 1, "{rest}");
    findings[0].verdict
}

/// Each form holds for figures that are as it says, and fails for the same with one value changed.
#[test]
fn a_claim_that_must_fail_does_fail() {
    let by = |near: f64, far: f64| {
        move |item: &Item| if text(item, "case") == "near" { near * 1e6 } else { far * 1e6 }
    };
    let along = "along = \"case\"\n";
    for (rest, good, bad) in [
        (
            "at = { case = \"near\" }\nexpect = { form = \"within\", value = 5, relative = 0.1 }",
            (5.4, 0.0),
            (5.6, 0.0),
        ),
        (
            "at = { case = \"near\" }\nexpect = { form = \"within\", value = 5, absolute = 1 }",
            (4.1, 0.0),
            (3.9, 0.0),
        ),
        (
            "at = { case = \"near\" }\nexpect = { form = \"at-least\", value = 5 }",
            (5.0, 0.0),
            (4.9, 0.0),
        ),
        (
            "at = { case = \"near\" }\nexpect = { form = \"at-most\", value = 5 }",
            (5.0, 0.0),
            (5.1, 0.0),
        ),
        (&format!("{along}expect = {{ form = \"rising\" }}"), (1.0, 2.0), (2.0, 1.0)),
        (&format!("{along}expect = {{ form = \"falling\", slack = 0.1 }}"), (2.0, 2.1), (2.0, 2.3)),
        (
            &format!("{along}expect = {{ form = \"drop-at-most\", value = 1 }}"),
            (2.0, 3.0),
            (2.0, 3.1),
        ),
        (
            &format!("{along}expect = {{ form = \"order\", groups = [[\"far\"], [\"near\"]] }}"),
            (2.0, 1.0),
            (1.0, 2.0),
        ),
        (
            // Level is not in order.
            &format!("{along}expect = {{ form = \"order\", groups = [[\"far\"], [\"near\"]] }}"),
            (1.1, 1.0),
            (1.0, 1.0),
        ),
        (
            &format!(
                "{along}expect = {{ form = \"order\", slack = 1, groups = [[\"far\"], [\"near\"]] }}"
            ),
            (1.0, 2.0),
            (1.0, 2.1),
        ),
        (
            "at = { case = \"near\" }\nversus = { case = \"far\" }\nexpect = { form = \"at-least\", value = 2 }",
            (4.0, 2.0),
            (3.9, 2.0),
        ),
        (
            "at = { case = \"near\" }\nversus = { case = \"far\" }\nhow = \"change\"\nexpect = { form = \"within\", value = 50, absolute = 1 }",
            (3.0, 2.0),
            (3.1, 2.0),
        ),
        (
            "at = { case = \"near\" }\nversus = { case = \"far\" }\nhow = \"difference\"\nexpect = { form = \"at-most\", value = 1 }",
            (3.0, 2.0),
            (3.1, 2.0),
        ),
    ] {
        assert_eq!(verdict(rest, by(good.0, good.1)), Verdict::Agrees, "{rest}");
        assert_eq!(verdict(rest, by(bad.0, bad.1)), Verdict::Differs, "{rest}");
    }
}

/// Two seeds, half a unit to either side of the mean: an interval of 6.35 either way.
#[test]
fn a_claim_whose_interval_holds_the_bar_is_open_and_one_whose_interval_does_not_is_none() {
    let spread = |mean: f64| {
        move |item: &Item| {
            let side = if item.scenario.seed.is_multiple_of(2) { 0.5 } else { -0.5 };
            let near = text(item, "case") == "near";
            if near { (mean + side) * 1e6 } else { 1e6 }
        }
    };
    let near = "at = { case = \"near\" }\n";
    for (rest, agrees, open, differs) in [
        (format!("{near}expect = {{ form = \"at-least\", value = 20 }}"), 27.0, [14.0, 26.0], 13.0),
        (format!("{near}expect = {{ form = \"at-most\", value = 20 }}"), 13.0, [14.0, 26.0], 27.0),
        (
            format!("{near}expect = {{ form = \"within\", value = 20, absolute = 7 }}"),
            20.0,
            [21.0, 33.0],
            34.0,
        ),
        (
            // The goal lies in the interval, no end of the interval within reach of the goal.
            format!("{near}expect = {{ form = \"within\", value = 20, relative = 0.5 }}"),
            20.0,
            [5.0, 35.0],
            37.0,
        ),
        ("along = \"case\"\nexpect = { form = \"rising\" }".to_owned(), -6.0, [-5.0, 7.0], 8.0),
        (
            "along = \"case\"\nexpect = { form = \"order\", groups = [[\"far\"], [\"near\"]] }"
                .to_owned(),
            8.0,
            [7.0, -5.0],
            -6.0,
        ),
        (
            "along = \"case\"\nexpect = { form = \"drop-at-most\", value = 10 }".to_owned(),
            4.0,
            [5.0, 17.0],
            18.0,
        ),
    ] {
        assert_eq!(verdict(&rest, spread(agrees)), Verdict::Agrees, "{rest}");
        assert_eq!(verdict(&rest, spread(differs)), Verdict::Differs, "{rest}");
        for mean in open {
            assert_eq!(verdict(&rest, spread(mean)), Verdict::Open, "{rest}: {mean}");
        }
    }
}

#[test]
fn an_order_is_judged_seed_by_seed() {
    let order = "along = \"case\"\nexpect = { form = \"order\", groups = [[\"near\"], [\"far\"]] }";
    // Seeds differ by far more than cases do, which no interval of either shows.
    let value = |item: &Item| {
        let more = if text(item, "case") == "far" { 0.1 } else { 0.0 };
        (item.scenario.seed as f64 + more) * 1e6
    };
    assert_eq!(verdict(order, value), Verdict::Agrees);
}

#[test]
fn intervals_are_of_seeds_and_not_of_what_a_plan_varies() {
    let claim = "[[claim]]\nwhat = \"x\"\npaper = \"y\"\nmetric = \"goodput_bps\"\n\
                 expect = { form = \"at-least\", value = 1 }\n";
    let value = |item: &Item| if text(item, "case") == "near" { 1e6 } else { 9e6 };
    assert_eq!(findings(claim, value)[0].ours, "5.00 Mbit/s");
}

#[test]
fn one_run_is_judged_by_itself_and_said_to_be_one() {
    let one = FILE.replace("seeds = 2", "seeds = 1");
    let loaded = load(&one);
    let value = |item: &Item| if text(item, "variant") == "tack" { 1.6 } else { 1.0 };
    let report = loaded.report(&records(&loaded, "goodput_bps", value)).unwrap();
    assert!(report.findings.iter().all(|f| f.verdict == Verdict::Agrees && f.is_single()));
    assert_eq!(report.findings[0].ours, "1.60 times, 1 run");
    assert!(report.text().contains("2 of 2 agree, 0 open, 0 differ; 2 stand on one run"));
    let page = html::page(&[(loaded, report)], "x");
    assert!(page.contains("2 of 2 agree, 0 open, 0 differ; 2 stand on one run"));
}

#[test]
fn what_is_open_is_counted_apart_and_says_why_it_is_unsure() {
    let loaded = load(FILE);
    let value = |item: &Item| {
        let side = if item.scenario.seed.is_multiple_of(2) { 0.1 } else { -0.1 };
        if text(item, "variant") == "tack" { 1.4 + side } else { 1.0 }
    };
    let report = loaded.report(&records(&loaded, "goodput_bps", value)).unwrap();
    assert!(report.text().contains("0 of 2 agree, 2 open, 0 differ; 0 stand on one run"));
    assert_eq!(report.reasons(), ["test is open: they differ"]);
    assert!(html::page(&[(loaded, report)], "x").contains("<td class=\"open\">open</td>"));
}

/// Of figures without an interval: where the least is found.
#[test]
fn a_judgment_by_a_function_is_open_if_one_seed_less_turns_it() {
    let turn = "at = { case = \"near\" }\nversus = { case = \"far\" }\nalong = \"wan.up.loss\"\n\
                expect = { form = \"rust\", name = \"turns-first\" }";
    let least = |near: [f64; 2]| {
        move |item: &Item| {
            let first = text(item, "wan.up.loss") == "0";
            let second = item.scenario.seed.is_multiple_of(2);
            match text(item, "case").as_str() {
                // Least with more loss, always.
                "far" => {
                    if first {
                        5e6
                    } else {
                        1e6
                    }
                }
                _ if first => 2e6,
                _ => near[usize::from(second)] * 1e6,
            }
        }
    };
    assert_eq!(verdict(turn, least([3.0, 3.0])), Verdict::Agrees);
    assert_eq!(verdict(turn, least([1.0, 1.0])), Verdict::Differs, "both at the same place");
    assert_eq!(verdict(turn, least([1.0, 4.0])), Verdict::Open);
}

#[test]
fn pairs_share_a_seed_and_every_value_of_each_has_its_row_and_reason() {
    let loaded = load(FILE);
    // Seeds differ by far more than variants do: only pairs show that.
    let value = |item: &Item| {
        let seed = item.scenario.seed as f64 * 1e6;
        if text(item, "variant") == "tack" { 2.0 * seed } else { seed }
    };
    let report = loaded.report(&records(&loaded, "goodput_bps", value)).unwrap();
    let ours: Vec<&str> = report.findings.iter().map(|f| f.ours.as_str()).collect();
    assert_eq!(ours, ["2.00 times", "2.00 times"]);
    assert_eq!(report.findings[1].what, "goodput at far");
    assert!(report.findings.iter().all(|f| f.verdict == Verdict::Agrees && f.why.is_none()));
    let report = loaded.report(&records(&loaded, "goodput_bps", |_| 1.0)).unwrap();
    assert!(report.findings.iter().all(|f| f.verdict == Verdict::Differs && f.why.is_some()));
    assert_eq!(report.reasons().len(), 1, "a reason is told once");
}

#[test]
fn a_run_without_figures_is_no_agreement() {
    let loaded = load(FILE);
    let mut records = records(&loaded, "goodput_bps", |_| 1.0);
    for record in records.values_mut() {
        record.metrics.clear();
        record.void = Some("a flow stalled".to_owned());
    }
    let report = loaded.report(&records).unwrap();
    assert!(
        report.findings.iter().all(|f| f.verdict == Verdict::Differs && f.ours.contains("stalled"))
    );
    assert_eq!(report.void.len(), 16);
    records.clear();
    assert!(loaded.report(&records).is_none(), "a part is no whole");
}

/// Flows that join and leave, with unlike round trips and controllers, as their groups' figures.
#[test]
fn flows_join_and_leave_with_round_trips_of_their_own() {
    let loaded = load(
        r#"
id = "join"
[base]
duration_s = 6.0
warmup_s = 1.0
wan = { rate_mbps = 20.0, delay_ms = 10.0, buffer_bdp = 2.0 }
flow = [
    { strategy = "tack", group = "near" },
    { strategy = "tcp-l2", cc = "cubic", group = "far", delay_ms = 40.0, start_s = 2.0, stop_s = 4.0 },
    { strategy = "tcp-l2", group = "steps", count = 2, start_s = 1.0, stagger_s = 3.0 },
]
"#,
    );
    let records = run(&loaded);
    let record = records.values().next().unwrap();
    let get = |name: &str| record.get(name).unwrap_or_else(|| panic!("no {name}: {record:?}"));
    let near = get("near.rtt_min_us");
    assert!((20e3..32e3).contains(&near), "{near}");
    // It joins where others fill the queue: the path's 100 ms and up to 40 ms of buffer.
    assert!((99e3..141e3).contains(&get("far.rtt_min_us")), "{record:?}");
    assert!(get("far.goodput_bps") > 1e4 && get("steps.goodput_bps") > 1e5, "{record:?}");
    let shares = [get("near.share"), get("far.share"), 2.0 * get("steps.share")];
    assert!((shares.iter().sum::<f64>() - 4.0).abs() < 1e-9, "{shares:?}");
    assert_eq!(get("steps.flows"), 2.0);
}

#[test]
fn every_file_of_the_repository_is_in_the_binary_and_can_be_planned() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut found = BTreeSet::new();
    for paper in std::fs::read_dir(&dir).unwrap() {
        let paper = paper.unwrap().path();
        for file in std::fs::read_dir(&paper).unwrap() {
            let file = file.unwrap().path();
            let of_others = ["envelope", "rivals"].iter().any(|dir| paper.ends_with(dir));
            if file.extension().is_some_and(|e| e == "toml") && !of_others {
                let path = file.strip_prefix(&dir).unwrap().to_string_lossy().into_owned();
                found.insert(path);
            }
        }
    }
    let bundled: BTreeSet<String> = bundle::FILES.iter().map(|f| f.0.to_owned()).collect();
    assert_eq!(found, bundled);
    for (path, text) in bundle::FILES {
        for extent in [Extent::Short, Extent::Usual, Extent::Full] {
            let loaded = Loaded::parse(text, extent);
            let loaded = loaded.unwrap_or_else(|e| panic!("{path}, {}: {e}", extent.name()));
            assert_eq!(loaded.experiment.id, bundle::stem(path));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn every_rival_of_the_repository_is_in_the_binary() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/rivals");
    let files = std::fs::read_dir(&dir).unwrap().map(|file| file.unwrap().path());
    let found: BTreeSet<String> =
        files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let all = tack_lab::versus::rival::RIVALS.iter();
    assert_eq!(found, all.map(|(name, _)| (*name).to_owned()).collect());
}

/// The short extent of every figure gives what lies beside its file: a change is a diff. Bless it
/// with `tack lab reproduce --short --bless .`.
fn hold(paper: &str) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    for (path, text) in bundle::find(paper) {
        let loaded = Loaded::parse(text, Extent::Short).unwrap();
        let report = loaded.report(&run(&loaded)).unwrap();
        assert!(report.void.is_empty(), "{path}: {:?}", report.void);
        let blessed = std::fs::read_to_string(dir.join(path).with_extension("md"));
        let blessed = blessed.unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(results::blessed(&report), blessed, "{path}");
        let differ = report.findings.iter().filter(|f| f.verdict == Verdict::Differs);
        let without: Vec<_> = differ.filter(|f| f.why.is_none()).map(|f| &f.what).collect();
        assert!(without.is_empty(), "{path}: rows differ and no cause stands there: {without:?}");
        let page = html::page(&[(loaded.clone(), report.clone())], "x");
        let plots: usize = report.shown.iter().map(|s| s.plots.len()).sum();
        assert_eq!(page.matches("<figure>").count(), plots, "{path}");
        let drawn = loaded.experiment.view.iter().any(|v| v.kind != Kind::Table);
        assert_eq!(plots > 0, drawn, "{path}: a figure has a picture");
        // No network: a page that names nothing to fetch.
        assert!(!page.contains("src=") && !page.contains("href=\"http"), "{path}");
    }
}

#[test]
fn the_figures_of_tack_are_as_blessed() {
    hold("tack");
}

#[test]
fn the_figures_of_landstrom_and_larzon_are_as_blessed() {
    hold("landstrom");
}

#[test]
fn the_figures_of_custura_and_others_are_as_blessed() {
    hold("custura");
}

#[test]
fn the_measures_are_as_blessed() {
    hold("measures");
}

#[test]
fn results_md_is_the_blessed_tables() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = results::document(&root.join("experiments")).unwrap();
    let text = std::fs::read_to_string(root.join("RESULTS.md")).unwrap();
    assert_eq!(text, document, "tack lab reproduce --short --bless .");
}

#[test]
fn the_page_of_the_lab_names_the_command_of_the_blessed_envelope() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let blessed = std::fs::read_to_string(root.join("experiments/envelope/random.md")).unwrap();
    let command = blessed.lines().next().unwrap().trim_matches('`');
    assert!(command.starts_with("tack lab envelope"), "{command}");
    let page = std::fs::read_to_string(root.join("docs/lab.md")).unwrap();
    assert!(page.contains(&format!("{command} --bless")), "docs/lab.md does not say `{command}`");
}

#[test]
fn words_of_experiments_and_envelopes_are_one_vocabulary() {
    let envelope = Experiment::parse(tack_lab::envelope::RANDOM).unwrap();
    assert!(envelope.base.is_none() && !envelope.draw.is_empty() && envelope.variant.len() == 2);
    let error = Loaded::parse(tack_lab::envelope::RANDOM, Extent::Short).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("lab envelope"), "{error}");
    assert_eq!(Word::Number(1.0).to_string(), "1");
}
