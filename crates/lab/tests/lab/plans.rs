//! Plans and records made up for tests of what handles them.

use std::collections::BTreeMap;

use tack_lab::backend::record_of;
use tack_lab::experiment::Extent;
use tack_lab::item::Item;
use tack_lab::plan::experiment_or_scenario;
use tack_lab::record::Record;
use tack_lab::reproduce::Loaded;
use tack_lab::result::{FlowResult, RunResult};

/// Two PHYs, two strategies, two seeds.
pub(crate) const SWEEP: &str = r#"
name = "a, \"quoted\" name"
duration_s = 0.4
warmup_s = 0.1
runs = 2

[wifi]
phy = "n"

[wan]
delay_ms = 5.1

[[flow]]
strategy = "tack"

[sweep]
"wifi.phy" = ["g", "n"]
"flow.0.strategy" = ["tcp-l2", "tack"]
"#;

pub(crate) fn load(text: &str) -> Loaded {
    let experiment = experiment_or_scenario(text, "test").unwrap_or_else(|e| panic!("{e}"));
    Loaded::of(experiment, text, Extent::Short).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn items(text: &str) -> Vec<Item> {
    load(text).plan.items
}

/// A record that depends on the run alone and has numbers that are hard to print.
pub(crate) fn invented(item: &Item) -> Record {
    let x = (item.id.bytes().map(f64::from).sum::<f64>() + 0.1).sqrt() / 3.0;
    let flow = FlowResult {
        goodput_bps: x * 1e8,
        ack_packets_per_s: 1e-7 / x,
        retransmissions: 1000 - item.scenario.seed,
        rtt_p50_us: item.scenario.seed.is_multiple_of(2).then_some(x),
        ..FlowResult::default()
    };
    let result = RunResult { flows: vec![flow], ..RunResult::default() };
    record_of(item, &result).unwrap()
}

/// Records of all of a plan's runs, with one figure as `value` has it.
pub(crate) fn records(
    loaded: &Loaded,
    metric: &str,
    value: impl Fn(&Item) -> f64,
) -> BTreeMap<String, Record> {
    let record = |(n, item): (usize, &Item)| {
        // No two are the same run.
        let own = ("position".to_owned(), n as f64);
        let metrics = BTreeMap::from([(metric.to_owned(), value(item)), own]);
        let (run, key) = (item.id.clone(), item.key.clone());
        (item.id.clone(), Record { run, key, metrics, ..Record::default() })
    };
    loaded.plan.items.iter().enumerate().map(record).collect()
}
