//! The same search between other strategies than the file's.

use toml::Value;

use crate::draw::Word;
use crate::experiment::{Experiment, Variant};
use crate::scenario::Strategy;

/// By how much the first starts later where a strategy is held against itself, seconds: no multiple of
/// anything that a draw has.
const LATER_S: f64 = 0.0013;

/// What QUIC's stacks have their own way of.
const OF_TCP: [&str; 3] = ["segment_bytes", "initial_window", "paced"];

/// Holds the first of `strategies` against the second in place of what the file names. What either cannot be
/// asked for is not drawn: some controllers, of QUIC, and the like.
///
/// A strategy against itself starts a moment later, or nothing would differ: what is broken then, chance
/// breaks, and no strategy can be asked to break less.
pub fn contest(experiment: &mut Experiment, strategies: [Strategy; 2]) {
    let variant = |strategy: Strategy| Variant {
        name: strategy.to_string(),
        set: [("flow.0.strategy".to_owned(), Value::String(strategy.to_string()))].into(),
    };
    let [mut tested, against] = strategies.map(variant);
    if tested.name == against.name {
        tested.name.push_str(", later");
        tested.set.insert("flow.0.start_s".to_owned(), Value::Float(LATER_S));
    }
    experiment.variant = vec![tested, against];
    for strategy in strategies {
        let Strategy::Quic(stock) = strategy else { continue };
        OF_TCP.iter().for_each(|word| drop(experiment.draw.remove(*word)));
        let has = |word: &Word| matches!(word, Word::Text(cc) if stock.controllers().iter().any(|c| c.name() == cc));
        if let Some(cc) = experiment.draw.get_mut("cc") {
            cc.restrict(has);
        }
    }
}
