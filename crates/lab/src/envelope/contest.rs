//! The same search between other strategies than the file's.

use toml::Value;

use crate::draw::Word;
use crate::experiment::{Experiment, Variant};
use crate::scenario::Strategy;

/// Holds the first of `strategies` against the second in place of what the file names. What either cannot be
/// asked for is not drawn: receive windows and some controllers, of QUIC.
pub fn contest(experiment: &mut Experiment, strategies: [Strategy; 2]) {
    let variant = |strategy: Strategy| Variant {
        name: strategy.to_string(),
        set: [("flow.0.strategy".to_owned(), Value::String(strategy.to_string()))].into(),
    };
    experiment.variant = strategies.map(variant).into();
    for strategy in strategies {
        let Strategy::Quic(stock) = strategy else { continue };
        experiment.draw.remove("rwnd_segments");
        let has = |word: &Word| matches!(word, Word::Text(cc) if stock.controllers().iter().any(|c| c.name() == cc));
        if let Some(cc) = experiment.draw.get_mut("cc") {
            cc.restrict(has);
        }
    }
}
