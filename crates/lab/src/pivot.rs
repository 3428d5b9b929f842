//! Records grouped by their keys: means with their intervals, paired ratios, quantiles.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::course;
use crate::data::cell;
use crate::draw::{Word, Words};
use crate::item::{Backend, Plan};
use crate::metric;
use crate::record::Record;
use crate::scenario::Problem;
use crate::stats::{Estimate, quantile};

/// Finished runs of a plan: a record for each of its items, in their order.
#[derive(Clone, Debug)]
pub struct Results<'a> {
    /// What ran.
    pub plan: &'a Plan,
    records: Vec<&'a Record>,
    /// Places by key.
    places: BTreeMap<String, usize>,
    /// A repetition that is not looked at.
    left_out: Option<String>,
}

/// How a figure is held against another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Over the other.
    #[default]
    Ratio,
    /// By how much it is more, relative to the other.
    Change,
    /// Less the other.
    Difference,
}

/// A figure of a record, or of a pair of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity<'a> {
    /// Of the metric table; `GROUP.NAME` of one kind of flows.
    pub metric: &'a str,
    /// Keys of the other record of a pair; the rest of its key, the seed too, is the same.
    pub versus: Option<&'a Words>,
    /// How the two are held against each other.
    pub how: How,
    /// What the figure is multiplied with to be shown; by its unit if left out.
    pub scale: Option<f64>,
    /// What it is called then.
    pub unit: Option<&'a str>,
}

impl Quantity<'_> {
    /// Every figure that it is of, of whichever group: what is shown, and what that is held against.
    pub(crate) fn metrics(&self) -> Vec<String> {
        let other = |key| match self.versus.as_ref()?.get(key)? {
            Word::Text(text) => Some(text.clone()),
            _ => None,
        };
        let group = other("group").map(|group| format!("{group}.{}", metric::base(self.metric)));
        [Some(self.metric.to_owned()), other("metric"), group].into_iter().flatten().collect()
    }

    /// Whether it fits a plan of these axes; else what is wrong, and under which key.
    pub(crate) fn check(&self, axes: &Axes) -> Result<(), Problem> {
        let versus = self.versus.iter().flat_map(|words| words.keys());
        let mut versus = versus.filter(|key| !SAME_RUN.contains(&key.as_str()));
        versus.try_for_each(|axis| known_axis(axes, "versus", axis))?;
        let others = &self.metrics()[1..];
        let known = others.iter().try_for_each(|name| metric::check(name));
        known.map_err(|what| Problem::new("versus", what))?;
        if self.versus.is_none() && self.how != How::default() {
            let what = "needs versus: what the figure is held against";
            return Err(Problem::new("how", what));
        }
        if let Some(scale) = self.scale.filter(|scale| !scale.is_finite() || *scale == 0.0) {
            return Err(Problem::new("scale", format!("is {scale}, but must be finite and not 0")));
        }
        if self.scale.is_some() && self.unit.is_none() {
            let what = "needs `unit`: what the figure is called that it makes, or \"\" for nothing";
            return Err(Problem::new("scale", what));
        }
        Ok(())
    }

    /// Factor and unit of what is shown: Mbit/s, ms, per cent.
    pub fn shown(&self) -> (f64, String) {
        let own = match metric::unit(self.metric).or(course::unit(self.metric)).unwrap_or("") {
            "bit/s" => (1e-6, "Mbit/s"),
            "B/s" => (1e-3, "kB/s"),
            "us" => (1e-3, "ms"),
            "share" => (100.0, "%"),
            other => (1.0, other),
        };
        let (factor, unit) = match (self.versus, self.how) {
            (Some(_), How::Ratio) => (1.0, "times"),
            (Some(_), How::Change) => (100.0, "%"),
            _ => own,
        };
        (self.scale.unwrap_or(factor), self.unit.unwrap_or(unit).to_owned())
    }
}

/// Keys of `versus` that name another figure, or the same of another group, and no axis.
pub(crate) const SAME_RUN: [&str; 2] = ["metric", "group"];

/// A plan's axes: their names and values.
type Axes = [(String, Vec<Word>)];

pub(crate) fn axis_names(axes: &Axes) -> String {
    match axes {
        [] => "there is none".to_owned(),
        some => some.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "),
    }
}

/// Refuses a name that is no axis.
pub(crate) fn known_axis(axes: &Axes, key: &str, name: &str) -> Result<(), Problem> {
    if axes.iter().any(|(axis, _)| axis == name) {
        return Ok(());
    }
    let what = format!("names `{name}`, which is no axis: {}", axis_names(axes));
    Err(Problem::new(key, what))
}

/// Seed and draw: what else differs between runs is no chance.
fn repetition(key: &Words) -> String {
    let words = ["draw", "seed"].iter().filter_map(|axis| key.get(*axis));
    words.map(Word::to_string).collect::<Vec<_>>().join(" ")
}

/// How many of the runs have a figure.
#[derive(Clone, Copy)]
pub(crate) struct Lacking {
    have: usize,
    all: usize,
}

/// What a table says of it, such as ` (7 of 8)`.
pub(crate) fn said(lacking: Option<Lacking>) -> String {
    lacking.map_or(String::new(), |it| format!(" ({} of {})", it.have, it.all))
}

/// What a program reads of it.
pub(crate) fn runs_of(lacking: Option<Lacking>) -> String {
    lacking.map_or(String::new(), |it| it.have.to_string())
}

/// A quantity with its interval, and in how many of the runs it is, if not in all.
pub(crate) struct Found {
    pub(crate) estimate: Estimate,
    lacking: Option<Lacking>,
}

impl Found {
    /// In a table.
    pub(crate) fn text(found: Option<&Found>) -> String {
        let text = |it: &Found| with_interval(&it.estimate) + &said(it.lacking);
        found.map_or("-".to_owned(), text)
    }

    /// For programs: mean, half of the interval, number of runs.
    pub(crate) fn cells(found: Option<&Found>) -> [String; 3] {
        let cells = |Found { estimate, lacking }: &Found| {
            [cell(Some(estimate.mean)), cell(estimate.interval()), runs_of(*lacking)]
        };
        found.map(cells).unwrap_or_default()
    }
}

fn place(key: &Words) -> String {
    key.iter().map(|(name, word)| format!("{name}={word};")).collect()
}

impl<'a> Results<'a> {
    /// The results of `plan`; `None` while one of its runs has no record.
    pub fn new(plan: &'a Plan, records: &'a BTreeMap<String, Record>) -> Option<Results<'a>> {
        let found: Option<Vec<&Record>> =
            plan.items.iter().map(|item| records.get(&item.id)).collect();
        let places = plan.items.iter().enumerate().map(|(i, item)| (place(&item.key), i));
        Some(Results { plan, records: found?, places: places.collect(), left_out: None })
    }

    /// The same without the runs of one repetition.
    pub(crate) fn without(&self, repetition: &str) -> Results<'a> {
        Results { left_out: Some(repetition.to_owned()), ..self.clone() }
    }

    /// Items and records whose key has all of `at`.
    pub fn select(&self, at: &Words) -> Vec<(usize, &'a Record)> {
        let fits = |key: &Words| {
            at.iter().all(|(name, word)| key.get(name) == Some(word))
                && self.left_out.as_ref().is_none_or(|out| repetition(key) != *out)
        };
        let all = self.plan.items.iter().zip(&self.records).enumerate();
        all.filter(|(_, (item, _))| fits(&item.key)).map(|(i, (_, r))| (i, *r)).collect()
    }

    /// Values of an axis that some record with all of `at` has, in the plan's order.
    pub fn values(&self, axis: &str, at: &Words) -> Vec<Word> {
        let known = self.plan.axes.iter().find(|(name, _)| name == axis);
        let selected = self.select(at);
        let has = |word: &Word| {
            selected.iter().any(|(i, _)| self.plan.items[*i].key.get(axis) == Some(word))
        };
        known
            .map(|(_, words)| words.iter().filter(|w| has(w)).cloned().collect())
            .unwrap_or_default()
    }

    /// Every combination of values of `axes` that occurs at `at`, in the plan's order.
    pub fn combinations(&self, axes: &[String], at: &Words) -> Vec<Words> {
        let mut all = vec![Words::new()];
        for axis in axes {
            let extend = |so_far: Words| {
                let mut within = at.clone();
                within.extend(so_far.clone());
                let with = move |word: Word| {
                    let mut key = so_far.clone();
                    key.insert(axis.clone(), word);
                    key
                };
                self.values(axis, &within).into_iter().map(with).collect::<Vec<_>>()
            };
            all = all.into_iter().flat_map(extend).collect();
        }
        all
    }

    /// The quantity of each record with all of `at` that has it, as shown.
    pub fn samples(&self, of: &Quantity<'_>, at: &Words) -> Vec<f64> {
        let (factor, _) = of.shown();
        let selected = self.select(at).into_iter();
        selected.filter_map(|(i, record)| Some(self.value(of, i, record)? * factor)).collect()
    }

    fn value(&self, of: &Quantity<'_>, i: usize, record: &Record) -> Option<f64> {
        let own = record.get(of.metric)?;
        let Some(versus) = of.versus else { return Some(own) };
        let metric = match (versus.get("metric"), versus.get("group")) {
            (Some(Word::Text(name)), _) => name.clone(),
            (_, Some(Word::Text(group))) => format!("{group}.{}", metric::base(of.metric)),
            _ => of.metric.to_owned(),
        };
        let other = self.other(versus, i)?.get(&metric)?;
        match of.how {
            How::Difference => Some(own - other),
            _ if other == 0.0 => None,
            How::Ratio => Some(own / other),
            How::Change => Some(own / other - 1.0),
        }
    }

    /// The record that the one in place `i` is held against.
    fn other(&self, versus: &Words, i: usize) -> Option<&'a Record> {
        let mut key = self.plan.items[i].key.clone();
        let axes = versus.iter().filter(|(k, _)| !SAME_RUN.contains(&k.as_str()));
        key.extend(axes.map(|(k, w)| (k.clone(), w.clone())));
        Some(self.records[*self.places.get(&place(&key))?])
    }

    /// The repetitions of the records with all of `at`: each seed with each draw.
    pub(crate) fn repetitions(&self, at: &Words) -> BTreeSet<String> {
        self.select(at).iter().map(|(i, _)| repetition(&self.plan.items[*i].key)).collect()
    }

    /// How many of the repetitions with all of `at` took another course: where nothing is left to chance, each seed is
    /// the same run again.
    pub(crate) fn courses(&self, at: &Words) -> usize {
        let mut courses: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (i, record) in self.select(at) {
            let of = repetition(&self.plan.items[i].key);
            courses.entry(of).or_default().push(&record.metrics);
        }
        let mut unlike: Vec<Vec<_>> = Vec::new();
        for course in courses.into_values() {
            if !unlike.contains(&course) {
                unlike.push(course);
            }
        }
        unlike.len()
    }

    /// The quantity at `at` by repetition, the mean over all else that the key does not say.
    pub(crate) fn by_repetition(&self, of: &Quantity<'_>, at: &Words) -> BTreeMap<String, f64> {
        let (factor, _) = of.shown();
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for (i, record) in self.select(at) {
            if let Some(value) = self.value(of, i, record) {
                let sum = sums.entry(repetition(&self.plan.items[i].key)).or_default();
                (sum.0, sum.1) = (sum.0 + value * factor, sum.1 + 1.0);
            }
        }
        sums.into_iter().map(|(run, (sum, n))| (run, sum / n)).collect()
    }

    /// The same of a distribution over time.
    pub(crate) fn lacking_pooled(&self, name: &str, at: &Words) -> Option<Lacking> {
        self.have(at, |(_, record)| Some(record.distribution(name).is_some()))
    }

    /// What has to stand behind a figure that not all runs with all of `at` have: the time
    /// at which a file was complete says nothing of the run in which it never was. Runs that are void are not
    /// counted, they are told apart; nor are those held against one that the machine spoiled.
    pub(crate) fn lacking(&self, of: &Quantity<'_>, at: &Words) -> Option<Lacking> {
        let is_spoiled = |i: usize| {
            let other = of.versus.filter(|_| self.plan.items[i].backend == Backend::Live);
            other.and_then(|versus| self.other(versus, i)).is_some_and(|r| r.void.is_some())
        };
        let has = |(i, record): (usize, &Record)| self.value(of, i, record).is_some();
        self.have(at, |run| (!is_spoiled(run.0)).then(|| has(run)))
    }

    /// Of how many of the runs with all of `at` it is true, if not of all; `None` for one does not count.
    fn have(&self, at: &Words, has: impl Fn((usize, &Record)) -> Option<bool>) -> Option<Lacking> {
        let runs = self.select(at).into_iter().filter(|(_, record)| record.void.is_none());
        let (have, all) = runs
            .filter_map(has)
            .fold((0, 0), |(have, all), has| (have + usize::from(has), all + 1));
        (have < all).then_some(Lacking { have, all })
    }

    /// The quantity at `at` as it is shown; `None` where no run has it.
    pub(crate) fn found(&self, of: &Quantity<'_>, at: &Words) -> Option<Found> {
        Some(Found { estimate: self.estimate(of, at)?, lacking: self.lacking(of, at) })
    }

    /// Mean and interval of the quantity at `at`, over seeds and draws.
    pub fn estimate(&self, of: &Quantity<'_>, at: &Words) -> Option<Estimate> {
        Estimate::of(&self.by_repetition(of, at).into_values().collect::<Vec<f64>>())
    }

    /// The `q` quantile of a distribution over the time of all runs with all of `at`.
    pub fn pooled(&self, name: &str, at: &Words, q: f64) -> Option<f64> {
        let runs = self.select(at).into_iter();
        let all = runs.filter_map(|(_, record)| record.distribution(name));
        quantile(&mut all.flatten().collect::<Vec<f64>>(), q)
    }

    /// Runs without figures, and why.
    pub fn void(&self) -> Vec<(&Words, &str)> {
        let all = self.plan.items.iter().zip(&self.records);
        all.filter_map(|(item, r)| Some((&item.key, r.void.as_deref()?))).collect()
    }
}

/// Short names of values, joined.
pub fn label(words: &Words, order: &[String]) -> String {
    let texts = order.iter().filter_map(|axis| words.get(axis)).map(Word::to_string);
    texts.collect::<Vec<_>>().join(" ")
}

/// A number as tables have it: three significant digits, or all before the point.
pub fn number(v: f64) -> String {
    match v.abs() {
        0.0 => "0".to_owned(),
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        a if a >= 1.0 => format!("{v:.2}"),
        a if a >= 0.001 => format!("{v:.3}"),
        _ => format!("{v:.1e}"),
    }
}

/// `mean ± half of the interval`, the interval with as many decimals as the mean.
pub fn with_interval(e: &Estimate) -> String {
    let mean = number(e.mean);
    match e.interval() {
        Some(ci) => {
            let decimals = mean.split_once('.').map_or(0, |parts| parts.1.len());
            if mean.contains('e') {
                format!("{mean} ± {ci:.1e}")
            } else {
                format!("{mean} ± {ci:.decimals$}")
            }
        }
        None => mean,
    }
}
