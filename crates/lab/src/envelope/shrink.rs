//! From a draw that breaks a property to a small one that still does, greedily.
//!
//! ```text
//! 1. leave out an impairment, the Wi-Fi, the company, all flows but one, the odd application
//! 2. a quarter, then a half: flows, stations, list lengths, sizes, the run's length, packets
//! 3. numbers of one significant digit, else of two
//! ```
//!
//! over and over until nothing more goes. What is kept breaks the property on the mean of its runs,
//! so a small case is no lucky seed.

use std::fmt::Write as _;

use anyhow::Result;
use serde::Serialize;
use toml::{Table, Value};

use super::property::property;
use super::shape::range;
use super::trial::{Draw, Trial, trial};
use super::view::is_used;
use crate::draw::{Word, significant};
use crate::experiment::Experiment;

/// Most trials of one shrinking.
const MAX_TRIALS: u32 = 150;
/// Least packets of a run that is made smaller.
const LEAST_PACKETS: f64 = 1_000.0;

/// What is left in the end.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// The property that breaks.
    pub property: &'static str,
    /// How far beyond its bar, relative to it.
    pub excess: f64,
    /// Of the draw it came from.
    pub draw: u64,
    /// The smallest draw that was found.
    pub smallest: Draw,
    /// Packets that the bottleneck may carry in its runs.
    pub packets: f64,
    /// How many trials it took.
    pub trials: u32,
    /// The scenario of its first run, sweeping over both variants: a file for `tack lab run`.
    pub toml: String,
}

/// Shrinks `draw`, which breaks `property` in `experiment`. `None` if it does not.
///
/// # Errors
/// As [`trial`], for the draw itself.
pub fn shrink(experiment: &Experiment, draw: &Draw, name: &'static str) -> Result<Option<Case>> {
    let mut search = Search { experiment: experiment.clone(), name, trials: 0 };
    let Some(excess) = search.excess(draw)? else { return Ok(None) };
    let (mut best, mut excess) = (draw.clone(), excess);
    best.words.retain(|name, _| is_used(name, &draw.words));
    loop {
        let before = (best.words.clone(), search.experiment.limits.packets);
        // First what makes every later trial cheaper.
        search.smaller(&best, &mut excess);
        for words in [leave_out, lessen, round] {
            search.greedy(&mut best, &mut excess, words);
        }
        if before == (best.words.clone(), search.experiment.limits.packets)
            || search.trials >= MAX_TRIALS
        {
            break;
        }
    }
    Ok(Some(Case {
        property: name,
        excess,
        draw: draw.index,
        packets: search.experiment.limits.packets,
        trials: search.trials,
        toml: case_file(&search.experiment, &best, name, excess)?,
        smallest: best,
    }))
}

struct Search {
    experiment: Experiment,
    name: &'static str,
    trials: u32,
}

/// A word and what it might become; `None` leaves it out.
type Change = (String, Option<Word>);

impl Search {
    /// How far `draw` is beyond the bar; `None` if it holds.
    fn excess(&mut self, draw: &Draw) -> Result<Option<f64>> {
        self.trials += 1;
        let trial: Trial = trial(&self.experiment, draw, &[self.name])?;
        let excess = property(self.name).zip(trial.pair()).and_then(|(p, pair)| (p.excess)(&pair));
        Ok(excess.filter(|excess| *excess > 0.0))
    }

    /// Takes every change of `changes` that leaves the property broken.
    fn greedy(&mut self, best: &mut Draw, excess: &mut f64, changes: fn(&Draw) -> Vec<Change>) {
        for (name, word) in changes(best) {
            if self.trials >= MAX_TRIALS {
                return;
            }
            let mut candidate = best.clone();
            match word {
                Some(word) => candidate.words.insert(name, word),
                None => candidate.words.remove(&name),
            };
            let words = candidate.words.clone();
            candidate.words.retain(|name, _| is_used(name, &words));
            if candidate.words == best.words {
                continue;
            }
            // What cannot run is no smaller case.
            if let Ok(Some(found)) = self.excess(&candidate) {
                (*best, *excess) = (candidate, found);
            }
        }
    }

    /// Fewer packets, if it is as bad then.
    fn smaller(&mut self, best: &Draw, excess: &mut f64) {
        let packets = self.experiment.limits.packets;
        for part in [0.1, 0.5] {
            let fewer = significant(packets * part, 1);
            if fewer < LEAST_PACKETS || self.trials >= MAX_TRIALS {
                continue;
            }
            self.experiment.limits.packets = fewer;
            if let Ok(Some(found)) = self.excess(best) {
                *excess = found;
                return;
            }
            self.experiment.limits.packets = packets;
        }
    }
}

/// Every word less, and the plainest values of those that must be there.
fn leave_out(draw: &Draw) -> Vec<Change> {
    let text = |text: &str| Some(Word::Text(text.to_owned()));
    let mut changes = vec![
        ("wifi".to_owned(), text("none")),
        ("app".to_owned(), text("bulk")),
        ("flows".to_owned(), None),
    ];
    let needed = ["rtt_ms", "rate_mbps", "cc", "app", "wifi", "file_bytes", "load", "think_ms"];
    let optional = draw.words.keys().filter(|name| !needed.contains(&name.as_str()));
    changes.extend(optional.map(|name| (name.clone(), None)));
    changes.retain(|(name, word)| draw.words.get(name) != word.as_ref());
    changes
}

/// Counts and lengths at a quarter, then at half.
fn lessen(draw: &Draw) -> Vec<Change> {
    let lessened =
        ["flows", "company", "stations", "file_bytes", "request_bytes", "response_bytes"];
    let mut changes = Vec::new();
    for part in [0.25, 0.5] {
        for (name, word) in &draw.words {
            match word {
                Word::Number(v) if lessened.contains(&name.as_str()) && *v >= 2.0 => {
                    let less = (v * part).round().max(1.0);
                    changes.push((name.clone(), Some(Word::Number(less))));
                }
                Word::List(values) if values.len() > 1 => {
                    let keep = ((values.len() as f64 * part).ceil() as usize).max(1);
                    changes.push((name.clone(), Some(Word::List(values[..keep].to_vec()))));
                    changes.push((name.clone(), Some(Word::List(values[keep..].to_vec()))));
                }
                _ => {}
            }
        }
        let share = match draw.words.get("run_share") {
            Some(Word::Number(v)) => *v,
            _ => 1.0,
        };
        let shorter = significant(share * part, 2).max(0.05);
        changes.push(("run_share".to_owned(), Some(Word::Number(shorter))));
    }
    changes
}

/// Numbers of one digit, then of two.
fn round(draw: &Draw) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, word) in &draw.words {
        for digits in [1, 2] {
            let round = |v: f64| significant(v, digits);
            let rounded = match word {
                Word::Number(v) => Word::Number(round(*v)),
                Word::List(values) => Word::List(values.iter().map(|v| round(*v)).collect()),
                Word::Text(_) | Word::Other(_) => continue,
            };
            let fits = range(name).is_some_and(|range| range.check(&rounded).is_ok());
            if rounded != *word && fits {
                changes.push((name.clone(), Some(rounded)));
            }
        }
    }
    changes
}

/// A scenario file that runs all variants of a draw.
///
/// # Errors
/// As [`Draw::scenario`].
pub fn file(experiment: &Experiment, draw: &Draw) -> Result<String> {
    let scenario = draw.scenario(&experiment.limits, 0)?;
    let mut table = Table::try_from(&scenario)?;
    table.insert("name".to_owned(), Value::String(format!("envelope-{}", draw.index)));
    let keys = experiment.variant.iter().flat_map(|v| v.set.keys());
    let mut sweep = Table::new();
    for key in keys {
        let values = experiment.variant.iter().filter_map(|v| v.set.get(key).cloned());
        sweep.insert(key.clone(), Value::Array(values.collect()));
    }
    table.insert("sweep".to_owned(), Value::Table(sweep));
    let mut text = "# Repeat with: tack lab run THIS-FILE.toml\n".to_owned();
    let runs = 1 + u64::from(experiment.limits.reruns);
    let _ = writeln!(
        text,
        "# Judged on the mean of {runs} runs: this, and seeds {} to {} with rate and round trip 1 \
         to 2 % off.",
        draw.seed + 1,
        draw.seed + runs - 1
    );
    text += &toml::to_string(&table)?;
    Ok(text)
}

fn case_file(experiment: &Experiment, draw: &Draw, name: &str, excess: f64) -> Result<String> {
    let what = property(name).map_or("", |p| p.what);
    let breaks = format!("# Breaks `{name}` by {:.0} %: {what}.\n", excess * 100.0);
    Ok(breaks + &file(experiment, draw)?)
}
