//! An experiment is a file: what runs, what is shown of it, and what a paper says of that.
//!
//! ```toml
//! id = "T-6b"
//! title = "Utilisation under loss on both paths"
//! source = "[TON Fig. 6b]"
//! [base]                          # a scenario, see `scenario`
//! duration_s = 60.0
//! wan = { rate_mbps = 100.0, delay_ms = 100.0, down.loss = 0.01 }
//! flow = [{ strategy = "tack" }]
//! [sweep]                         # every combination runs; "a,b" = [..] sets both keys at once
//! "wan.up.loss" = [0.002, 0.01, 0.05, 0.1]
//! [draw]                          # keys with random values, see `draw`; `draws` of them
//! "wan.delay_ms" = { uniform = [0.5, 100.0] }
//! [[case]]                        # sets of keys that go together: another axis of the plan
//! name = "slow"
//! set = { "wan.rate_mbps" = 10.0 }
//! [[variant]]                     # one more axis; all of them meet the same draws and seeds
//! name = "rich"
//! set = { "flow.0.tack.rbb" = "rich" }
//! [extent.short]                  # of short, usual and full: how much of it runs
//! seeds = 1
//! draws = 10
//! set = { duration_s = 10.0 }
//! sweep = { "wan.up.loss" = [0.002, 0.1] }
//! [[view]]                        # a picture and its table, see `view`
//! [[claim]]                       # what the paper says, and how ours is judged, see `claim`
//! ```
//!
//! A file without `[base]` draws paths by the words of the envelope, and has of it
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
use toml::{Table, Value};

use crate::claim::Claim;
use crate::draw::Distribution;
use crate::item::Backend;
use crate::scenario::{Problem, Scenario, ScenarioError, set, within};
use crate::view::View;

mod check;
mod once;
mod only;

pub use only::keep_only;

/// An experiment, as in its file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Experiment {
    /// For reports and on the command line.
    pub id: String,
    /// In a few words.
    pub title: String,
    /// Where the paper has it, e.g. `[TON Fig. 6b]`.
    pub source: String,
    /// What a reader must know: what is ours, and what cannot be had.
    pub note: String,
    /// What makes figures of a scenario.
    pub backend: Backend,
    /// Series over time are kept, though no view shows them.
    pub series: bool,
    /// A scenario, before sweeps, cases and variants change keys of it.
    pub base: Option<Table>,
    /// Keys and their values.
    pub sweep: Table,
    /// What is drawn.
    pub draw: BTreeMap<String, Distribution>,
    /// Seed of what is drawn.
    pub draw_seed: u64,
    /// Sets of keys that go together.
    pub case: Vec<Variant>,
    /// What runs on each path. In an envelope: the one in question first, then the one it is held
    /// against.
    pub variant: Vec<Variant>,
    /// How much of it runs.
    pub extent: Extents,
    /// What is shown.
    pub view: Vec<View>,
    /// What a paper says.
    pub claim: Vec<Claim>,
    /// Of each run of an envelope.
    pub limits: Limits,
    /// What an envelope looks at, in the order of the table.
    pub property: Vec<Expected>,
    /// What the tests run of an envelope.
    pub sample: Sample,
    /// The file is a plain scenario: its keys are those of the base.
    #[serde(skip)]
    pub(crate) is_scenario: bool,
}

/// How much to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// For tests: a few short runs of each.
    Short,
    /// Minutes.
    #[default]
    Usual,
    /// The paper's settings, and more seeds.
    Full,
}

impl Extent {
    /// As in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Extent::Short => "short",
            Extent::Usual => "usual",
            Extent::Full => "full",
        }
    }
}

/// What the extents change of the file; nothing where one is left out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Extents {
    /// See [`Extent::Short`].
    pub short: Changes,
    /// See [`Extent::Usual`].
    pub usual: Changes,
    /// See [`Extent::Full`].
    pub full: Changes,
}

/// What one extent changes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Changes {
    /// Seeds of each scenario; the base's `runs` if left out.
    pub seeds: Option<u64>,
    /// Draws, where something is drawn (1).
    pub draws: Option<u64>,
    /// Keys of the base.
    pub set: BTreeMap<String, toml::Value>,
    /// Lists instead of those of `[sweep]`.
    pub sweep: BTreeMap<String, toml::Value>,
    /// Only these cases and variants, by name; all if left out.
    pub only: Vec<String>,
}

impl Extents {
    fn of_mut(&mut self, extent: Extent) -> &mut Changes {
        match extent {
            Extent::Short => &mut self.short,
            Extent::Usual => &mut self.usual,
            Extent::Full => &mut self.full,
        }
    }

    /// What `extent` changes.
    pub fn of(&self, extent: Extent) -> &Changes {
        match extent {
            Extent::Short => &self.short,
            Extent::Usual => &self.usual,
            Extent::Full => &self.full,
        }
    }
}

/// How large a run may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
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
    /// Reads one. What its runs are is checked by [`crate::plan::plan`].
    ///
    /// # Errors
    /// What is wrong, with line, key and the remedy.
    pub fn parse(text: &str) -> Result<Experiment, ScenarioError> {
        let experiment: Experiment =
            toml::from_str(text).map_err(|e| ScenarioError::from_toml(text, &e))?;
        experiment.check_all().map_err(|p| ScenarioError::of(text, p))?;
        Ok(experiment)
    }

    fn check_all(&self) -> Result<(), Problem> {
        if self.id.is_empty() {
            return Err(Problem::new("id", "is missing: what the experiment is called"));
        }
        for (name, from) in &self.draw {
            from.check().map_err(|what| Problem::new(format!("draw.{name}"), what))?;
        }
        if self.base.is_some() {
            return self.check();
        }
        if self.variant.len() != 2 {
            let what = "must name two: the one in question, then the one it is held against";
            return Err(Problem::new("variant", what));
        }
        if self.variant[0].name == self.variant[1].name {
            return Err(Problem::new("variant.1.name", "is that of the first, too"));
        }
        within("limits.packets", self.limits.packets, 1e3, 1e9)?;
        within("limits.rtts", self.limits.rtts, 1.0, 1e5)?;
        within("limits.seconds", self.limits.seconds, 0.1, 86_400.0)?;
        within("limits.reruns", f64::from(self.limits.reruns), 0.0, 100.0)?;
        within("sample.packets", self.sample.packets, 1e3, 1e9)?;
        for (i, property) in self.property.iter().enumerate() {
            within(&format!("property.{i}.at_least"), property.at_least, 0.0, 1.0)?;
        }
        Ok(())
    }
}

impl Experiment {
    /// Whose figures these are. What is no citation in brackets stands in parentheses.
    pub fn heading(&self) -> String {
        let source = match self.source.as_str() {
            "" => String::new(),
            cited if cited.starts_with('[') => cited.to_owned(),
            said => format!("({said})"),
        };
        let parts = [self.id.as_str(), self.title.as_str(), source.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// What files of it are called: its id, but a plain scenario's name may have letters that no file has.
    pub fn file_name(&self) -> String {
        let plain = |c: char| if check::is_plain(c) { c } else { '-' };
        self.id.chars().take(check::MAX_ID).map(plain).collect()
    }

    /// Changes one word of the file, as `--set` does: `seeds` and `draws` of `extent`, the list of a
    /// swept key, or a key of the base, which is no longer drawn then. Of a plain scenario, a list for a key that takes
    /// none is swept.
    ///
    /// # Errors
    /// What is wrong with the key or its value.
    pub fn change(&mut self, extent: Extent, key: &str, value: toml::Value) -> Result<(), String> {
        let changes = self.extent.of_mut(extent);
        if let Some(count) = match key {
            "seeds" => Some(&mut changes.seeds),
            "draws" => Some(&mut changes.draws),
            _ => None,
        } {
            let n = value.as_integer().and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
            *count = Some(n.ok_or("must be a number from 1 on")?);
            return if key == "draws" && self.draw.is_empty() {
                Err("has nothing to draw: there is no [draw]".to_owned())
            } else {
                Ok(())
            };
        }
        changes.set.remove(key);
        if self.sweep.contains_key(key) {
            changes.sweep.remove(key);
            let list = if value.is_array() { value } else { vec![value].into() };
            self.sweep.insert(key.to_owned(), list);
            return Ok(());
        }
        let is_part = |keys: &&String| keys.split(',').any(|part| part.trim() == key);
        if let Some(keys) = self.sweep.keys().find(is_part) {
            return Err(format!("is swept as one of \"{keys}\": change it in a copy of the file"));
        }
        self.draw.remove(key);
        let base = self.base.get_or_insert_default();
        let before = base.clone();
        set(base, key, value.clone())?;
        let refused =
            |base: &Table| Scenario::from_table(base.clone()).is_err_and(|p| p.key == key);
        if self.is_scenario && value.is_array() && refused(base) {
            *base = before;
            self.sweep.insert(key.to_owned(), value);
        }
        Ok(())
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

/// What each of `names` keys of a sweep is set to: `value`, or one of its list each.
pub(crate) fn each_of(names: usize, value: &Value) -> Vec<Value> {
    match value {
        Value::Array(list) if names > 1 && list.len() == names => list.clone(),
        plain => vec![plain.clone(); names],
    }
}
