//! A key is said once. What is said twice is what was said last, whatever a row's name promises.
//!
//! `wan.loss = 0.1` in a set of keys is the table `wan = { loss = 0.1 }` to TOML, and means what
//! `"wan.loss" = 0.1` does. So keys are compared as far down as tables go.

use std::collections::BTreeSet;

use toml::Value;

use super::{Changes, Experiment, Variant, each_of};
use crate::scenario::Problem;

/// What sets keys of the base, after those before it.
struct Speaker {
    /// Its key in the file.
    place: String,
    /// What messages call it.
    name: String,
    /// What it sets, in whichever run.
    keys: BTreeSet<String>,
}

impl Speaker {
    fn of_set(axis: &str, i: usize, set: &Variant) -> Speaker {
        Speaker {
            place: format!("{axis}.{i}.set"),
            name: format!("{axis} `{}`", set.name),
            keys: set.set.iter().flat_map(|(key, value)| leaves(key, value)).collect(),
        }
    }

    /// A key of its own that leaves nothing of what one of `before` says.
    fn undoes<'a>(&'a self, before: &'a [Speaker]) -> Option<(&'a str, &'a Speaker)> {
        before.iter().find_map(|other| Some((undone(&other.keys, &self.keys)?, other)))
    }

    fn check(&self, before: &[Speaker]) -> Result<(), Problem> {
        let Some((key, other)) = self.undoes(before) else { return Ok(()) };
        let what = match self.name == other.name {
            true => format!("has `{key}`, which {} has twice: one of them", self.name),
            false => format!("has `{key}`, which {} has, too: one of them", other.name),
        };
        Err(Problem::new(self.place.clone(), what))
    }
}

/// What `value` at `key` sets: of a table its entries, since what else is there stays, and the key as a whole
/// where the table is of a `kind`, which replaces one of another.
fn leaves(key: &str, value: &Value) -> Vec<String> {
    let Value::Table(table) = value else { return vec![key.to_owned()] };
    let own = table.contains_key("kind").then(|| key.to_owned());
    let inner = table.iter().flat_map(|(name, v)| leaves(&format!("{key}.{name}"), v));
    inner.chain(own).collect()
}

/// A key of `later` that leaves nothing of what `before` says.
fn undone<'a>(before: &BTreeSet<String>, later: &'a BTreeSet<String>) -> Option<&'a str> {
    let hides = |key: &&String| {
        let is_below = |old: &String| old.strip_prefix(*key).is_some_and(|r| r.starts_with('.'));
        before.contains(*key) || before.iter().any(is_below)
    };
    later.iter().find(hides).map(String::as_str)
}

impl Experiment {
    /// Refuses what would be set twice.
    pub(crate) fn check_set_once(&self) -> Result<(), Problem> {
        let mut all: Vec<Speaker> = Vec::new();
        for speaker in self.swept_keys() {
            speaker.check(&all)?;
            all.push(speaker);
        }
        let swept = all.len();
        for (axis, sets) in [("case", &self.case), ("variant", &self.variant)] {
            let sets = sets.iter().enumerate();
            let own: Vec<Speaker> = sets.map(|(i, set)| Speaker::of_set(axis, i, set)).collect();
            own.iter().try_for_each(|speaker| speaker.check(&all))?;
            all.extend(own);
        }
        let sets = all.split_off(swept);
        for (key, from) in &self.draw {
            let keys = match from.choices() {
                Some(values) => values.iter().flat_map(|value| leaves(key, value)).collect(),
                None => BTreeSet::from([key.clone()]),
            };
            let (place, name) = (format!("draw.{key}"), "[draw]".to_owned());
            let speaker = Speaker { place, name, keys };
            speaker.check(&all).and_then(|()| speaker.check(&sets))?;
            all.push(speaker);
        }
        let mut extents = self.extents().into_iter();
        extents.try_for_each(|(extent, changes)| check_extent(extent, changes, &all))
    }

    /// Who sweeps: each key, with all values that any extent has.
    fn swept_keys(&self) -> impl Iterator<Item = Speaker> + '_ {
        self.sweep.iter().flat_map(|(keys, usual)| {
            let others = self.extents().into_iter();
            let others = others.filter_map(|(_, changes)| changes.sweep.get(keys));
            let lists = core::iter::once(usual).chain(others).filter_map(Value::as_array);
            let values: Vec<&Value> = lists.flatten().collect();
            let names: Vec<&str> = keys.split(',').map(str::trim).collect();
            let speaker = |i: usize| {
                let own = values.iter().map(|value| each_of(names.len(), value).swap_remove(i));
                Speaker {
                    place: format!("sweep.{keys}"),
                    name: "[sweep]".to_owned(),
                    keys: own.flat_map(|value| leaves(names[i], &value)).collect(),
                }
            };
            (0..names.len()).map(speaker).collect::<Vec<_>>()
        })
    }
}

/// What an extent sets is set before all else, and what each run sets anew has no effect.
fn check_extent(extent: &str, changes: &Changes, all: &[Speaker]) -> Result<(), Problem> {
    for (key, value) in &changes.set {
        let keys = leaves(key, value).into_iter().collect();
        if let Some(other) = all.iter().find(|other| undone(&keys, &other.keys).is_some()) {
            let what = format!("has no effect: {} has `{key}`, too", other.name);
            return Err(Problem::new(format!("extent.{extent}.set.{key}"), what));
        }
    }
    Ok(())
}
