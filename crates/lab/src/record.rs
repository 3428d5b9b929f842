//! What is written down of any run: a key, figures by name, and why they must not be used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::course;
use crate::draw::Words;
use crate::stats::standard_error;

/// What the name of a distribution's median has behind its own.
const MEDIAN: &str = "_p50_bytes";

/// One run of a plan, or several of them together.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Record {
    /// What a single run is known by: a hash of all that its figures depend on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// Which it is: names to values.
    pub key: Words,
    /// Figures by the names of [`crate::metric::METRICS`], `GROUP.NAME` where several kinds of
    /// flows ran: of the run, or means over several.
    pub metrics: BTreeMap<String, f64>,
    /// A figure's values where it has several: the quantiles 0, 5, … 100 % over a single run's
    /// time, or each run's in the order of their seeds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub samples: BTreeMap<String, Vec<f64>>,
    /// Figures over time, `[seconds, value]`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// What a single run ran: every key as meant, the seed included.
    #[serde(default, skip_serializing_if = "serde_json::Value::is_null")]
    pub scenario: serde_json::Value,
    /// Who ran, where that is a program of others: what it is, its version, its encryption.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub about: BTreeMap<String, String>,
    /// Why there are no figures: a flow stalled, the stack panicked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
}

impl Record {
    /// Adds a run's figures.
    pub fn add(&mut self, figures: &BTreeMap<String, f64>) {
        for (name, value) in figures {
            let samples = self.samples.entry(name.clone()).or_default();
            samples.push(*value);
            let mean = samples.iter().sum::<f64>() / samples.len() as f64;
            self.metrics.insert(name.clone(), mean);
        }
    }

    /// A figure; `None` where the run has none.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied()
    }

    /// The quantiles 0, 5, … 100 % of a distribution over a single run's time. Where it was nothing all the
    /// time the run keeps its median alone, and here are zeros; `None`: its flows have none.
    pub fn distribution(&self, name: &str) -> Option<Vec<f64>> {
        let zeros =
            || self.get(&format!("{name}{MEDIAN}")).map(|_| vec![0.0; course::STEPS as usize + 1]);
        self.samples.get(name).cloned().or_else(zeros)
    }

    /// Every distribution over a single run's time, by its name.
    pub fn distributions(&self) -> BTreeMap<&str, Vec<f64>> {
        let names = self.metrics.keys().filter_map(|name| name.strip_suffix(MEDIAN));
        let own = names.filter(|name| course::unit(name).is_some());
        own.filter_map(|name| Some((name, self.distribution(name)?))).collect()
    }

    /// Standard error of a figure's mean; 0 of a single run, which says nothing of it.
    pub fn error(&self, name: &str) -> f64 {
        self.samples.get(name).and_then(|s| standard_error(s)).unwrap_or(0.0)
    }
}
