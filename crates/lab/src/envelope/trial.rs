//! One draw, run: both variants with the same seed, and more seeds where the first breaks anything.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tack_sim::Stall;

use super::property::Pair;
use super::shape::scenario;
use crate::draw::{Word, Words, draw, three_digits};
use crate::experiment::{Experiment, Limits, Variant};
use crate::item::EPOCH;
use crate::metric::figures as figures_of;
use crate::record::Record;
use crate::result::FlowResult;
use crate::scenario::Scenario;
use crate::simulate;
use crate::stock::GaveUp;
use crate::store::Kept;

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Draw {
    /// Its number among the draws.
    pub index: u64,
    /// Of every run of it; runs again count up from there.
    pub seed: u64,
    /// What was drawn.
    pub words: Words,
    /// What else its runs depend on, as a hash: how large they may be, and what runs.
    #[serde(default)]
    pub of: String,
}

/// A draw that was run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Trial {
    /// Which.
    pub draw: Draw,
    /// A record for each variant, in the file's order.
    pub records: Vec<Record>,
}

impl Kept for Trial {
    type Run = u64;

    fn run(&self) -> u64 {
        self.draw.index
    }
}

impl Trial {
    /// Both records; `None` where the second has no figures to be held against.
    pub fn pair(&self) -> Option<Pair> {
        let [tack, tcp] = self.records.as_slice() else { return None };
        tcp.void.is_none().then(|| Pair { tack: tack.clone(), tcp: tcp.clone() })
    }
}

/// What tells the trials of one experiment from those of another that draws the same.
fn of(experiment: &Experiment) -> String {
    let Experiment { limits, variant, .. } = experiment;
    let text = format!("{} {EPOCH} {limits:?} {variant:?}", env!("CARGO_PKG_VERSION"));
    blake3::hash(text.as_bytes()).to_hex()[..16].to_owned()
}

impl Draw {
    /// Number `index` of the experiment's draws with `seed`.
    pub fn new(experiment: &Experiment, index: u64, seed: u64) -> Draw {
        // Runs of different draws have nothing in common, and numbers a person can copy.
        let words = draw(&experiment.draw, index, seed);
        Draw {
            index,
            seed: seed.wrapping_mul(1_000_003).wrapping_add(index * 16) % (1 << 40),
            words,
            of: of(experiment),
        }
    }

    /// The scenario of run number `run`. The first is as drawn; later ones have another seed and a
    /// path a per cent or two off, since neighbours on a path differ as seeds do.
    ///
    /// # Errors
    /// When the words make none.
    pub fn scenario(&self, limits: &Limits, run: u64) -> Result<Scenario> {
        let mut words = self.words.clone();
        for name in ["rate_mbps", "rtt_ms"] {
            if let Some(Word::Number(value)) = words.get_mut(name) {
                let off = [0.0, 0.01, -0.01, 0.02, -0.02][(run % 5) as usize];
                *value = three_digits(*value * (1.0 + off));
            }
        }
        scenario(if run == 0 { &self.words } else { &words }, limits, self.seed.wrapping_add(run))
    }
}

/// Runs a draw. `judged` are the properties whose breach calls for more seeds.
///
/// # Errors
/// When a scenario cannot be built, or is wrong in a way that no variant may be: a byte that
/// arrived wrong, packets that were not conserved, a stall of the variant that is held against.
pub fn trial(experiment: &Experiment, draw: &Draw, judged: &[&str]) -> Result<Trial> {
    let mut trial = Trial { draw: draw.clone(), records: Vec::new() };
    for variant in &experiment.variant {
        let mut record = Record::default();
        record.key.insert("variant".to_owned(), Word::Text(variant.name.clone()));
        trial.records.push(record);
    }
    for run in 0..=u64::from(experiment.limits.reruns) {
        let base = draw.scenario(&experiment.limits, run)?;
        for (variant, record) in experiment.variant.iter().zip(&mut trial.records) {
            run_variant(variant, &base, record).with_context(|| format!("draw {}", draw.index))?;
        }
        // One breach that a stall is needs no mean.
        let stalled = trial.records.iter().any(|r| r.void.is_some());
        let is_broken = |p: &Pair| !p.broken(judged.iter().copied()).is_empty();
        if stalled || !trial.pair().is_some_and(|p| is_broken(&p)) {
            break;
        }
    }
    Ok(trial)
}

/// The figures of the flows under test, which are those of the first entry, and their fair share of
/// what all flows got.
#[must_use]
pub fn judged(scenario: &Scenario, flows: &[FlowResult]) -> BTreeMap<String, f64> {
    let tested = scenario.flow.first().map_or(0, |f| f.count) as usize;
    let mut figures = figures_of(scenario, flows.get(..tested).unwrap_or_default());
    if flows.len() > tested
        && let Some(all) = figures_of(scenario, flows).get("goodput")
    {
        figures.insert("fair_share".to_owned(), all * tested as f64 / flows.len() as f64);
    }
    figures
}

fn run_variant(variant: &Variant, base: &Scenario, record: &mut Record) -> Result<()> {
    if record.void.is_some() {
        return Ok(());
    }
    let scenario = variant.of(base)?;
    // A search goes on after a panic of the stack, which is a finding like any other.
    match catch_unwind(AssertUnwindSafe(|| simulate(&scenario))) {
        Ok(Ok(result)) => {
            record.add(&judged(&scenario, &result.flows));
        }
        Ok(Err(e)) => {
            let stall = e.downcast_ref::<Stall>().map(ToString::to_string);
            // A QUIC stack that ends its connection moves no more either.
            let why = stall.or_else(|| e.downcast_ref::<GaveUp>().map(ToString::to_string));
            let Some(why) = why else { bail!("variant {}: {e:#}", variant.name) };
            record.void = Some(format!("seed {}: {why}", scenario.seed));
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let what = text.unwrap_or_else(|| "without a word".to_owned());
            record.void = Some(format!("seed {}: panicked: {what}", scenario.seed));
        }
    }
    Ok(())
}
