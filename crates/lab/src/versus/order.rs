//! Who goes first: rounds in which every variant runs once, every other round backwards.

use std::collections::BTreeMap;

use crate::draw::Words;
use crate::item::Item;
use crate::scenario::Stack;

/// `items` as they are to run: where rivals are among them, in turns.
#[must_use]
pub fn in_turns(items: Vec<Item>) -> Vec<Item> {
    let is_rival = |item: &Item| matches!(item.scenario.stack, Some(Stack::Rival(_)));
    if items.iter().any(is_rival) { alternating(&items) } else { items }
}

/// `items` so that a machine that grows busier or slower meets all variants alike: for each path
/// and workload a round per seed, and within it the variants in turn, backwards in every second.
fn alternating(items: &[Item]) -> Vec<Item> {
    let without = |item: &Item, axes: &[&str]| -> Words {
        let kept = item.key.iter().filter(|(axis, _)| !axes.contains(&axis.as_str()));
        kept.map(|(axis, word)| (axis.clone(), word.clone())).collect()
    };
    let mut points: Vec<Words> = Vec::new();
    let mut rounds: BTreeMap<(usize, u64), Vec<&Item>> = BTreeMap::new();
    for item in items {
        let point = without(item, &["seed", "variant"]);
        let number = points.iter().position(|p| *p == point).unwrap_or_else(|| {
            points.push(point);
            points.len() - 1
        });
        rounds.entry((number, item.scenario.seed)).or_default().push(item);
    }
    let turned = rounds.into_iter().flat_map(|((_, seed), mut round)| {
        if seed % 2 == 0 {
            round.reverse();
        }
        round
    });
    turned.cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Extent;
    use crate::plan::{experiment_or_scenario, plan};

    #[test]
    fn every_second_round_runs_backwards() {
        let text = r#"
id = "x"
[base]
runs = 3
wan.rate_mbps = 10.0
flow = [{ strategy = "tack" }]
[[case]]
name = "near"
set = { "wan.delay_ms" = 1.0 }
[[case]]
name = "far"
set = { "wan.delay_ms" = 9.0 }
[[variant]]
name = "a"
set = { "flow.0.strategy" = "tack" }
[[variant]]
name = "b"
set = { "flow.0.strategy" = "ae" }
"#;
        let experiment = experiment_or_scenario(text, "x").unwrap();
        let items = plan(&experiment, Extent::Usual, text).unwrap().items;
        let names = |item: &Item| {
            format!("{} {} {}", item.key["case"], item.scenario.seed, item.key["variant"])
        };
        let order: Vec<String> = alternating(&items).iter().map(names).collect();
        assert_eq!(
            order,
            [
                "near 1 a", "near 1 b", "near 2 b", "near 2 a", "near 3 a", "near 3 b", "far 1 a",
                "far 1 b", "far 2 b", "far 2 a", "far 3 a", "far 3 b",
            ]
        );
    }
}
