//! An experiment is a file: what is drawn, which variants run on each draw, and what is expected.
//!
//! ```toml
//! id = "random"
//! [draw]                          # see `draw`
//! rtt_ms = { log_uniform = [0.2, 600.0] }
//! [limits]                        # of each run
//! packets = 100000
//! [[variant]]                     # each runs every draw, with the same seed
//! name = "tack"
//! set = { "flow.0.strategy" = "tack" }   # keys of the scenario, by their dotted names
//! [[property]]
//! name = "acks"                   # of the table in `envelope::PROPERTIES`
//! at_least = 0.9                  # the share of the sample's draws that must hold it
//! [sample]                        # what the tests run
//! draws = 40
//! seed = 7
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Table;

use crate::draw::Distribution;
use crate::scenario::{Scenario, ScenarioError, set};

/// An experiment, as in its file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// For reports, and part of every record's key.
    pub id: String,
    /// What is drawn.
    pub draw: BTreeMap<String, Distribution>,
    /// Of each run.
    pub limits: Limits,
    /// What runs on each draw: the one in question first, then the one it is held against.
    pub variant: Vec<Variant>,
    /// What is looked at, in the order of the table.
    pub property: Vec<Expected>,
    /// What the tests run.
    pub sample: Sample,
}

/// How large a run may be.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Packets that the bottleneck may carry; faster and longer paths are slowed down to it.
    pub packets: f64,
    /// Least round trips of a run, without queues.
    pub rtts: f64,
    /// Longest run of what has no end of its own, virtual seconds.
    pub seconds: f64,
    /// More pairs of runs, with other seeds and a slightly different path, for a draw that breaks
    /// a property: it is the mean that is judged.
    pub reruns: u32,
}

/// One way to run a draw.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// In records.
    pub name: String,
    /// Keys of the scenario and their values here.
    pub set: BTreeMap<String, toml::Value>,
}

/// A property that is looked at.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// Of the table.
    pub name: String,
    /// Share of the sample's judged draws that must hold it.
    pub at_least: f64,
}

/// The draws that tests run.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// How many.
    pub draws: u64,
    /// Their seed.
    pub seed: u64,
    /// Packets that the bottleneck may carry in each run.
    pub packets: f64,
}

impl Experiment {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong, with line, key and the remedy.
    pub fn parse(text: &str) -> Result<Experiment, ScenarioError> {
        let experiment: Experiment =
            toml::from_str(text).map_err(|e| ScenarioError::from_toml(text, &e))?;
        let wrong = |key: String, what: String| Err(ScenarioError::at(text, &key, what));
        for (name, from) in &experiment.draw {
            if let Err(what) = from.check() {
                return wrong(format!("draw.{name}"), what);
            }
        }
        if experiment.variant.len() != 2 {
            let what = "must name two: the one in question, then the one it is held against";
            return wrong("variant".to_owned(), what.to_owned());
        }
        if experiment.variant[0].name == experiment.variant[1].name {
            return wrong("variant.1.name".to_owned(), "is that of the first, too".to_owned());
        }
        let limits = experiment.limits;
        let sizes = [
            ("limits.packets", limits.packets, 1e3, 1e9),
            ("limits.rtts", limits.rtts, 1.0, 1e5),
            ("limits.seconds", limits.seconds, 0.1, 86_400.0),
            ("limits.reruns", f64::from(limits.reruns), 0.0, 100.0),
            ("sample.packets", experiment.sample.packets, 1e3, 1e9),
        ];
        for (key, value, least, most) in sizes {
            if !(least..=most).contains(&value) {
                let what = format!("is {value}, but must lie between {least} and {most}");
                return wrong(key.to_owned(), what);
            }
        }
        for (i, property) in experiment.property.iter().enumerate() {
            if !(0.0..=1.0).contains(&property.at_least) {
                let what = format!("is {}, but is a share: 0 to 1", property.at_least);
                return wrong(format!("property.{i}.at_least"), what);
            }
        }
        Ok(experiment)
    }
}

impl Variant {
    /// `scenario` as this variant has it.
    ///
    /// # Errors
    /// When a key or value is not one of a scenario's.
    pub fn of(&self, scenario: &Scenario) -> anyhow::Result<Scenario> {
        let mut table = Table::try_from(scenario)?;
        for (key, value) in &self.set {
            set(&mut table, key, value.clone())
                .map_err(|what| anyhow::anyhow!("variant {}: `{key}` {what}", self.name))?;
        }
        Scenario::parse(&toml::to_string(&table)?)
            .map_err(|e| anyhow::anyhow!("variant {}: {e}", self.name))
    }
}
