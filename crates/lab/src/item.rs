//! What runs: a plan's items, each with a key, a scenario, a seed, and what makes figures of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::draw::{Word, Words};
#[cfg(target_os = "linux")]
use crate::scenario::Stack;
use crate::scenario::{Problem, Scenario, Strategy};
#[cfg(target_os = "linux")]
use crate::versus::rival::Rival;

/// What makes figures of a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// The real stack in virtual time.
    #[default]
    Sim,
    /// The same, and what open-loop traffic with as many ACKs reaches on the same air.
    SimAndIdeal,
    /// The same, and the mean window that its losses allow by theory: see `response.rs`.
    SimAndResponse,
    /// Open-loop traffic over the first hop, acknowledged as the strategy's formula says.
    OpenLoop,
    /// The same from the first station to the second through the access point.
    OpenLoopRelay,
    /// The strategy's formula of frequency at the scenario's rate and round trip.
    Formula,
    /// Real packets over an emulated path, of the scenario's `stack`. Needs namespaces.
    Live,
}

/// Raised when the same scenario gives other figures than before: stores of older ones are not
/// resumed then.
pub(crate) const EPOCH: u32 = 6;

impl Backend {
    /// Whether it can run `scenario`; else the key in the way, and what is wrong with it.
    ///
    /// # Errors
    /// That.
    pub(crate) fn check(self, scenario: &Scenario) -> Result<(), Problem> {
        let is_live = self == Backend::Live;
        if is_live && cfg!(not(target_os = "linux")) {
            return Err(Problem::new("backend", "live needs Linux"));
        }
        for (key, is_there) in [("stack", scenario.stack.is_some()), ("veth", scenario.veth)] {
            if !is_live && is_there {
                let what = "is for real time: say backend = \"live\" at the top of an experiment, \
                            a file with an id whose [base] has this";
                return Err(Problem::new(key, what));
            }
        }
        self.check_needs(scenario)?;
        // Theory has no word on it, and real time does not wait for it.
        let takes_own = matches!(self, Backend::Sim | Backend::SimAndIdeal);
        let own = scenario.flow.iter().position(|flow| flow.controller.is_some());
        if let Some(i) = own.filter(|_| !takes_own) {
            let what = "is for backend = \"sim\" and \"sim-and-ideal\"";
            return Err(Problem::new(format!("flow.{i}.controller"), what));
        }
        if is_live { scenario.check_live() } else { Ok(()) }
    }
}

impl Backend {
    /// Refuses a scenario that lacks what its figures are made from.
    fn check_needs(self, scenario: &Scenario) -> Result<(), Problem> {
        let missing = |key, what: &str| Err(Problem::new(key, format!("is missing: {what}")));
        match self {
            Backend::Formula => {
                let rate = scenario.wan.as_ref().and_then(|wan| wan.down().rate_mbps);
                if rate.is_none() {
                    return missing("wan.rate_mbps", "a formula counts with it");
                }
                match scenario.flow.first().map(|flow| flow.strategy) {
                    Some(other) if !matches!(other, Strategy::Tcp(_)) => {
                        let what = format!("is {other}, which has no formula of ours");
                        Err(Problem::new("flow.0.strategy", what))
                    }
                    _ => Ok(()),
                }
            }
            Backend::OpenLoop | Backend::OpenLoopRelay | Backend::SimAndIdeal
                if scenario.wifi.is_none() =>
            {
                missing("wifi", "open-loop traffic goes over its air")
            }
            Backend::OpenLoopRelay if scenario.stations() < 2 => {
                let what = "is 1, but a relay goes from the first station to the second";
                Err(Problem::new("wifi.stations", what))
            }
            _ => Ok(()),
        }
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Names of the plan's axes and this run's values.
    pub key: Words,
    /// What runs; `seed` is this run's alone.
    pub scenario: Scenario,
    /// What makes figures of it.
    pub backend: Backend,
    /// What the run is known by.
    pub id: String,
    /// Series over time are kept, too.
    pub series: bool,
}

impl Item {
    /// Which run it is, in words.
    pub fn describe(&self) -> String {
        let words: Vec<String> = self.key.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        format!("{} ({})", self.id, words.join(", "))
    }
}

/// Every run of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Axes and their values, in the order in which they vary, the last fastest.
    pub axes: Vec<(String, Vec<Word>)>,
    /// In order.
    pub items: Vec<Item>,
}

impl Plan {
    /// The names of controllers that a program must bring to run it, in order.
    pub fn controllers(&self) -> BTreeSet<&str> {
        self.items.iter().flat_map(|item| item.scenario.controllers()).collect()
    }
}

/// The runs of several plans, each once.
pub fn distinct(plans: &[&Plan]) -> Vec<Item> {
    let mut seen = BTreeMap::new();
    let all = plans.iter().flat_map(|plan| &plan.items);
    all.filter(|item| seen.insert(item.id.clone(), ()).is_none()).cloned().collect()
}

/// What a run is known by: everything its figures depend on.
///
/// # Errors
/// When the scenario cannot be written down.
pub(crate) fn identity(
    scenario: &Scenario,
    backend: Backend,
    series: bool,
) -> serde_json::Result<String> {
    let nameless = Scenario { name: String::new(), ..scenario.clone() };
    let version = env!("CARGO_PKG_VERSION");
    let text = serde_json::to_string(&(version, EPOCH, backend, series, nameless))?;
    let mut hash = blake3::Hasher::new();
    hash.update(text.as_bytes());
    // How a rival is run is part of it. One that has no file says so when it runs.
    #[cfg(target_os = "linux")]
    if let Some(Stack::Rival(name)) = &scenario.stack {
        hash.update(Rival::text(name).unwrap_or_default().as_bytes());
    }
    Ok(hash.finalize().to_hex()[..16].to_owned())
}
