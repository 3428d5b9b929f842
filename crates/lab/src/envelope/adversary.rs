//! Worse and worse: the worst draws found are changed a little, and the worse of them kept.
//!
//! What a random draw meets by chance, such as a loss at the one moment that hurts, is found by
//! searching around what hurts already, as fuzzers of congestion control do. Everything that a draw
//! says can change: the path's figures, the levels of its rate over time, where and for how long it
//! is cut (short cuts are a trace of losses), the traffic. A generation is a fixed number of
//! children, all of them made before any is run: the search is the same on any number of cores.

use std::collections::BTreeMap;

use rand_pcg::Pcg64;
use serde::Serialize;
use tack_sim::Seed;
use tack_units::math;

use super::property::property;
use super::shape::{Range, range};
use super::trial::{Draw, Trial};
use crate::draw::{Word, draw, significant, three_digits, unit};
use crate::experiment::Experiment;

/// Parents that are kept for each property.
const KEPT: usize = 8;
/// Children of a generation.
const CHILDREN: u64 = 16;
/// Share of children that are random draws: a search that only climbs ends on the nearest hill.
const FRESH: f64 = 0.15;
/// Most values a trace grows to.
const MAX_TRACE: usize = 16;

/// A draw and how bad it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// What was run.
    pub draw: Draw,
    /// How far beyond the property's bar; negative: within it.
    pub excess: f64,
}

/// The search.
#[derive(Debug)]
pub struct Adversary {
    experiment: Experiment,
    seed: u64,
    /// The worst of each property, worst first.
    worst: BTreeMap<&'static str, Vec<Found>>,
    children: u64,
}

impl Adversary {
    /// One that wants to break the properties `names`.
    pub fn new(experiment: &Experiment, seed: u64, names: &[&'static str]) -> Adversary {
        let worst = names.iter().map(|name| (*name, Vec::new())).collect();
        Adversary { experiment: experiment.clone(), seed, worst, children: 0 }
    }

    /// What is to be run next.
    pub fn generation(&mut self) -> Vec<Draw> {
        (0..CHILDREN).map(|_| self.child()).collect()
    }

    /// Takes a generation's results, in its order.
    pub fn learn(&mut self, trials: &[Trial]) {
        for (name, worst) in &mut self.worst {
            for trial in trials {
                let excess = property(name).zip(trial.pair()).and_then(|(p, t)| (p.excess)(&t));
                let Some(excess) = excess else { continue };
                worst.push(Found { draw: trial.draw.clone(), excess });
            }
            worst.sort_by(|a, b| {
                b.excess.total_cmp(&a.excess).then(a.draw.index.cmp(&b.draw.index))
            });
            worst.truncate(KEPT);
        }
    }

    /// The worst of each property, worst first.
    pub fn worst(&self) -> &BTreeMap<&'static str, Vec<Found>> {
        &self.worst
    }

    fn child(&mut self) -> Draw {
        let index = self.children;
        self.children += 1;
        let mut rng = Seed(self.seed).stream(&format!("child {index}"));
        let fresh = Draw::new(&self.experiment, index, self.seed);
        let parents: Vec<&Found> = self.worst.values().flatten().collect();
        if parents.is_empty() || unit(&mut rng) < FRESH {
            return fresh;
        }
        let parent = parents[pick(&mut rng, parents.len())];
        let mut child = Draw { words: parent.draw.words.clone(), ..fresh };
        // A child with its parent's seed meets the same losses, but for what was changed.
        if unit(&mut rng) < 0.7 {
            child.seed = parent.draw.seed;
        }
        for _ in 0..=pick(&mut rng, 3) {
            self.mutate(&mut child, &mut rng);
        }
        child
    }

    /// Changes one word, brings one in or leaves one out.
    fn mutate(&self, child: &mut Draw, rng: &mut Pcg64) {
        let names: Vec<&String> = self.experiment.draw.keys().collect();
        let name = names[pick(rng, names.len())];
        let from = &self.experiment.draw[name];
        let present = child.words.get(name).cloned();
        let changed = match present {
            Some(Word::Number(v)) if unit(rng) < 0.8 => Word::Number(near(v, rng)),
            Some(Word::List(values)) if unit(rng) < 0.9 => Word::List(trace(values, name, rng)),
            Some(_) if unit(rng) < 0.2 && from.is_optional() => {
                child.words.remove(name);
                return;
            }
            _ => from.value(rng),
        };
        let fits = range(name).is_some_and(|range| range.check(&changed).is_ok());
        if fits {
            child.words.insert(name.clone(), changed);
        }
        // A trace of cuts needs their length.
        if name == "outages" && !child.words.contains_key("outage_rtts") {
            let fallback = draw(&self.experiment.draw, child.index, self.seed);
            if let Some(word) = fallback.get("outage_rtts") {
                child.words.insert("outage_rtts".to_owned(), word.clone());
            }
        }
    }
}

/// Up to a factor of two away, more often close; counts move by one at least.
fn near(value: f64, rng: &mut Pcg64) -> f64 {
    let away = 2.0 * unit(rng) - 1.0;
    let moved = value * math::pow(2.0, away * away.abs());
    if value.fract() == 0.0 && value >= 1.0 {
        let step = if away < 0.0 { -1.0 } else { 1.0 };
        let counted = moved.round();
        return if counted == value { (value + step).max(1.0) } else { counted.max(1.0) };
    }
    three_digits(moved)
}

/// A list with a value moved, brought in, left out or doubled.
fn trace(mut values: Vec<f64>, name: &str, rng: &mut Pcg64) -> Vec<f64> {
    let (least, most) = match range(name) {
        Some(Range::List(least, most)) => (least, most.min(1.0)),
        _ => (0.0, 1.0),
    };
    let anywhere = |rng: &mut Pcg64| three_digits(least + unit(rng) * (most - least));
    let at = pick(rng, values.len().max(1));
    match pick(rng, 4) {
        0 if values.len() > 1 => {
            values.remove(at);
        }
        1 if values.len() < MAX_TRACE => values.insert(at, anywhere(rng)),
        2 if !values.is_empty() => values[at] = anywhere(rng),
        _ if !values.is_empty() => {
            let moved = values[at] * (1.0 + 0.1 * (2.0 * unit(rng) - 1.0));
            values[at] = significant(moved, 4).clamp(least, most);
        }
        _ => values.push(anywhere(rng)),
    }
    values
}

fn pick(rng: &mut Pcg64, n: usize) -> usize {
    ((unit(rng) * n as f64) as usize).min(n.saturating_sub(1))
}
