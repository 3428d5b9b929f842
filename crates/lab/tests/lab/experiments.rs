//! Experiment files: what they may say, and what is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tack_lab::draw::Word;
use tack_lab::experiment::{Experiment, Extent};
use tack_lab::item::{Item, distinct};
use tack_lab::plan::{experiment_or_scenario, plan};
use tack_lab::record::Record;
use tack_lab::reproduce::Loaded;
use tack_lab::{backend, runner};

use crate::plans::{load, records};

pub(crate) const FILE: &str = r#"
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

/// The file with `to` instead of `from` is refused in these words.
pub(crate) fn refused(from: &str, to: &str, words: &[&str]) {
    let file = FILE.replace(from, to);
    assert_ne!(file, FILE, "{from}");
    let error = Loaded::parse(&file, Extent::Short).map(|_| ()).unwrap_err();
    let message = error.to_string();
    for word in words {
        assert!(message.contains(word), "{to}: `{message}` lacks {word}");
    }
}

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

pub(crate) fn text(item: &Item, axis: &str) -> String {
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
    let other = app.replace("{ kind = \"bulk\" }", "{ kind = \"file\", bytes = 5 }");
    assert_eq!(ids(&other).len(), 16, "nothing of one kind is left for another");
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
        // What would be run, shown or judged, and not as it was meant.
        (
            "[0.0, [0.01, 0.02]]",
            "[[0.0, 0.1], [0.0, 0.2]]",
            vec!["loss.1", "has 0 again", "variant"],
        ),
        ("[sweep]", "[sweep]\nseed = [1, 2]", vec!["extent.short.seeds", "[sweep] has the seeds"]),
        (
            "[sweep]",
            "[sweep]\nname = [\"a\", \"b\"]",
            vec!["sweep.name", "[[variant]]s have names"],
        ),
        (
            "[sweep]",
            "[sweep]\n\"wan.down.loss\" = [0.1]",
            vec!["loss", "`wan.down.loss`, which [sweep] has twice"],
        ),
        (
            "seeds = 2",
            "seeds = 2\nset = { \"wan.up.loss\" = 0.1 }",
            vec!["extent.short.set.wan.up.loss", "no effect", "[sweep]"],
        ),
        ("value = 1.5", "value = nan", vec!["claim.0.expect.value", "finite"]),
        (
            "at-least\", value = 1.5",
            "within\", value = 1.5, relative = -0.1",
            vec!["claim.0.expect.relative", "is -0.1", "0 or more"],
        ),
        ("[[claim]]", "[[view]]\nat = { kase = \"near\" }\n[[claim]]", vec!["view.0.at", "`kase`"]),
        (
            "[[claim]]",
            "[[view]]\nversus = { kase = \"near\" }\n[[claim]]",
            vec!["view.0.versus", "`kase`", "case, variant"],
        ),
        (
            "[[claim]]",
            "[[view]]\nversus = { metric = \"goodputs\" }\n[[claim]]",
            vec!["view.0.versus", "`goodputs`", "goodput, perhaps"],
        ),
        ("[[claim]]", "[[view]]\nhow = \"change\"\n[[claim]]", vec!["view.0.how", "versus"]),
        ("[[claim]]", "[[view]]\nscale = inf\n[[claim]]", vec!["view.0.scale", "inf", "finite"]),
        (
            "[[claim]]",
            "[[view]]\nmetric = \"goodput_bps\"\n[[claim]]",
            vec!["view.0.metric", "for pictures", "`metrics`"],
        ),
        (
            "[[claim]]",
            "[[view]]\nkind = \"bars\"\nx = \"case\"\nmetrics = [\"goodput_bps\"]\n[[claim]]",
            vec!["view.0.metrics", "for tables", "`metric`"],
        ),
        (
            "[[claim]]",
            "[[view]]\nkind = \"bars\"\nx = \"case\"\nlines = \"variant\"\nmetric = \"goodput_bps\"\n\
             paper = { tak = [[\"near\", 1]] }\n[[claim]]",
            vec!["view.0.paper", "`tak`", "tack; tcp"],
        ),
        (
            "\"goodput_bps\"",
            "\"cwnd_bytes\"",
            vec!["claim.0.metric", "known over time", "kind = \"series\""],
        ),
        (
            "form = \"at-least\", value = 1.5",
            "form = \"rust\", name = \"ranks\"",
            vec!["claim.0.along", "is missing", "ranks"],
        ),
        ("[base]", "backend = \"open-loop\"\n[base]", vec!["wifi", "is missing"]),
        ("[base]", "backend = \"sim-and-ideal\"\n[base]", vec!["wifi", "is missing"]),
    ] {
        refused(from, to, &words);
    }
    let error = Loaded::parse(&FILE.replace("10.0, delay", "0.0, delay"), Extent::Short);
    let error = error.map(|_| ()).unwrap_err();
    assert_eq!((error.line, error.key.as_str()), (Some(5), "base.wan.rate_mbps"), "{error}");
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
fn words_of_experiments_and_envelopes_are_one_vocabulary() {
    let envelope = Experiment::parse(tack_lab::envelope::RANDOM).unwrap();
    assert!(envelope.base.is_none() && !envelope.draw.is_empty() && envelope.variant.len() == 2);
    let error = Loaded::parse(tack_lab::envelope::RANDOM, Extent::Short).map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("lab envelope"), "{error}");
    assert_eq!(Word::Number(1.0).to_string(), "1");
}

#[test]
fn truths_tables_and_lists_are_drawn_swept_and_named_like_numbers() {
    let text = r#"
id = "words"
[base]
duration_s = 2.0
wan = { rate_mbps = 10.0, delay_ms = 10.0 }
flow = [{ strategy = "tack" }]
[sweep]
"flow.0.ecn" = [true, false]
[draw]
"flow.0.paced" = { choice = [true, false] }
"flow.0.app" = { choice = [{ kind = "bulk" }, { kind = "file", bytes = 1000 }] }
"wan.outages" = { choice = [[[0.1, 0.2]], [], [[0.3, 0.4], [0.5, 0.6]]] }
"wan.down.loss_at" = { uniform = [5, 5], list = [1, 1], whole = true }
[extent.short]
draws = 20
[[view]]
metrics = ["goodput_bps"]
at = { "flow.0.ecn" = true }
"#;
    let loaded = load(text);
    let seen = |of: &dyn Fn(&Item) -> String| -> BTreeSet<String> {
        loaded.plan.items.iter().map(of).collect()
    };
    assert_eq!(seen(&|item| item.scenario.flow[0].paced.to_string()).len(), 2);
    assert_eq!(seen(&|item| format!("{:?}", item.scenario.flow[0].app)).len(), 2);
    let wan = |item: &Item| item.scenario.wan.clone().unwrap();
    assert_eq!(seen(&|item| format!("{:?}", wan(item).outages)).len(), 3);
    assert_eq!(wan(&loaded.plan.items[0]).down().loss_at, Some(vec![5]));
    let made =
        records(&loaded, "goodput_bps", |item| if item.scenario.flow[0].ecn { 1e6 } else { 2e6 });
    let rows = &loaded.report(&made).unwrap().shown[0].table.rows;
    assert_eq!(rows.len(), 20, "{rows:?}");
    assert!(rows.iter().all(|row| row[0] == "true" && row[2] == "1.00"), "{rows:?}");
}

/// Beyond 2^53 an `f64` has every other whole number.
#[test]
fn neighbouring_seeds_are_two_runs_however_large_they_are() {
    for seed in ["9007199254740992", "9223372036854775806"] {
        let text = FILE.replace("duration_s = 2.0", &format!("duration_s = 2.0\nseed = {seed}"));
        let loaded = load(&text);
        let keys: BTreeSet<String> =
            loaded.plan.items.iter().map(|item| format!("{:?}", item.key)).collect();
        assert_eq!(keys.len(), 16, "{keys:?}");
        let made = records(&loaded, "goodput_bps", |item| (item.scenario.seed % 2) as f64 * 1e6);
        let finding = &loaded.report(&made).unwrap().findings[0];
        assert_eq!(finding.runs, 2, "{finding:?}");
    }
    let swept = FILE.replace("[sweep]", "[sweep]\nseed = [3, 9]").replace("seeds = 2", "seeds = 1");
    let seeds: BTreeSet<u64> = load(&swept).plan.items.iter().map(|i| i.scenario.seed).collect();
    assert_eq!(seeds, BTreeSet::from([3, 9]));
}

/// As a value of the command line is put in its place.
#[test]
fn a_word_that_is_drawn_or_swept_with_another_is_changed_or_refused_but_never_passed_over() {
    let text = FILE.replace(
        "[extent.short]",
        "[draw]\n\"wan.rate_mbps\" = { uniform = [1.0, 100.0] }\n[extent.short]\ndraws = 5",
    );
    let value = toml::Value::Float(7.0);
    let mut experiment = Experiment::parse(&text).unwrap();
    experiment.change(Extent::Short, "wan.rate_mbps", value.clone()).unwrap();
    let items = plan(&experiment, Extent::Short, &text).unwrap().items;
    let rates = items.iter().map(|item| item.scenario.wan.as_ref().unwrap().rate_mbps);
    assert!(rates.clone().all(|rate| rate == Some(7.0)), "{:?}", rates.collect::<Vec<_>>());
    let refused = experiment.change(Extent::Short, "wan.down.loss", value).unwrap_err();
    assert!(refused.contains("\"wan.up.loss,wan.down.loss\""), "{refused}");
    let refused = Experiment::parse(FILE).unwrap().change(Extent::Short, "draws", 5.into());
    assert!(refused.unwrap_err().contains("no [draw]"));
}

#[test]
fn a_list_for_a_word_of_a_plain_scenario_that_takes_one_value_is_swept() {
    let text = "duration_s = 1\nwan = { rate_mbps = 10, delay_ms = 5 }\nflow = [{ strategy = \"tack\" }]\n";
    let list = toml::Value::Array(vec![10.into(), 40.into()]);
    let mut scenario = experiment_or_scenario(text, "s").unwrap();
    scenario.change(Extent::Usual, "wan.rate_mbps", list.clone()).unwrap();
    scenario.change(Extent::Usual, "flow.0.cc", vec!["bbr", "cubic"].into()).unwrap();
    let items = plan(&scenario, Extent::Usual, text).unwrap().items;
    let runs: BTreeSet<String> = items
        .iter()
        .map(|item| format!("{:?} {:?}", item.scenario.wan, item.scenario.flow[0].cc))
        .collect();
    assert_eq!(runs.len(), 4, "{runs:?}");
    // A word that takes a list has it as its value.
    let mut scenario = experiment_or_scenario(text, "s").unwrap();
    scenario.change(Extent::Usual, "wan.loss_at", vec![3, 9].into()).unwrap();
    assert_eq!(plan(&scenario, Extent::Usual, text).unwrap().items.len(), 1);
}
