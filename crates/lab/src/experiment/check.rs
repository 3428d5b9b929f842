//! What the parts of a file say of each other: names that are unique, and names that are known.
//!
//! An extent or a flag may leave values out of a plan, and then what is said of them is not looked at.
//! Whether a file names what it has at all is seen from the file alone, here.

use std::collections::BTreeSet;

use super::{Changes, Experiment, Extent, Limits, Sample, Variant, each_of};
use crate::claim::Said;
use crate::draw::{Word, Words};
use crate::pivot::SAME_RUN;
use crate::scenario::Problem;
use crate::view::Kind;

/// Longest id: files are named after it.
pub(super) const MAX_ID: usize = 64;

/// Whether an id may have it.
pub(super) fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "-_.".contains(c)
}

impl Experiment {
    /// Whether the parts fit each other; else what is wrong, and under which key.
    pub(super) fn check(&self) -> Result<(), Problem> {
        if self.id.is_empty() || self.id.len() > MAX_ID || !self.id.chars().all(is_plain) {
            let what = format!("must be 1 to {MAX_ID} letters, digits, - _ .: files are named so");
            return Err(Problem::new("id", what));
        }
        let of_envelopes = [
            ("limits", self.limits != Limits::default()),
            ("property", !self.property.is_empty()),
            ("sample", self.sample != Sample::default()),
        ];
        if let Some((key, _)) = of_envelopes.into_iter().find(|(_, is_there)| *is_there) {
            let what = "is for envelopes, which have no [base]";
            return Err(Problem::new(key, what));
        }
        check_names("case", &self.case)?;
        check_names("variant", &self.variant)?;
        self.check_set_once()?;
        self.check_extents()?;
        for (i, claim) in self.claim.iter().enumerate() {
            let key = |key: &str| format!("claim.{i}.{key}");
            self.check_words(&key("at"), &claim.at)?;
            let versus = claim.versus.clone().unwrap_or_default();
            self.check_words(&key("versus"), &versus)?;
            let labels = || self.labels(&claim.each, claim.along.as_deref());
            let said = [("paper", Some(&claim.paper)), ("because", claim.because.as_ref())];
            for (name, said) in said {
                if let Some(Said::Each(texts)) = said {
                    check_labels(&key(name), texts.keys(), &labels())?;
                }
            }
            if let Some(than) = claim.expect.than() {
                self.check_words(&key("expect.than"), than)?;
            }
            if let Some(values) = claim.expect.values() {
                check_labels(&key("expect.values"), values.keys(), &labels())?;
            }
            if let Some(groups) = claim.expect.groups() {
                let named = groups.iter().flatten();
                check_labels(&key("expect.groups"), named, &labels())?;
            }
        }
        for (i, view) in self.view.iter().enumerate() {
            self.check_words(&format!("view.{i}.at"), &view.at)?;
            let versus = view.versus.clone().unwrap_or_default();
            self.check_words(&format!("view.{i}.versus"), &versus)?;
            if matches!(view.kind, Kind::Lines | Kind::Bars) {
                let axes: Vec<String> = view.panels.iter().chain(&view.lines).cloned().collect();
                let labels = self.labels(&axes, view.lines.as_deref());
                check_labels(&format!("view.{i}.paper"), view.paper.keys(), &labels)?;
            }
        }
        Ok(())
    }

    pub(super) fn extents(&self) -> [(&'static str, &Changes); 3] {
        [Extent::Short, Extent::Usual, Extent::Full]
            .map(|extent| (extent.name(), self.extent.of(extent)))
    }

    fn check_extents(&self) -> Result<(), Problem> {
        let names: Vec<&str> =
            self.case.iter().chain(&self.variant).map(|v| v.name.as_str()).collect();
        for (extent, changes) in self.extents() {
            if let Some(name) = changes.only.iter().find(|name| !names.contains(&name.as_str())) {
                let what = format!("names `{name}`, which is no case and no variant");
                return Err(Problem::new(format!("extent.{extent}.only"), what));
            }
            if changes.draws.is_some() && self.draw.is_empty() {
                let what = "but there is no [draw]";
                return Err(Problem::new(format!("extent.{extent}.draws"), what));
            }
        }
        Ok(())
    }

    /// Values of an axis in any extent; `None` where it is none of the file's, or counts.
    fn values(&self, axis: &str) -> Option<Vec<Word>> {
        let names = |sets: &[Variant]| {
            let words = sets.iter().map(|s| Word::Text(s.name.clone()));
            (!sets.is_empty()).then(|| words.collect())
        };
        match axis {
            "case" => names(&self.case),
            "variant" => names(&self.variant),
            _ => {
                let first = |keys: &str| keys.split(',').next().map(str::trim) == Some(axis);
                let own = self.sweep.iter().find(|(keys, _)| first(keys))?;
                let others = self.extents().into_iter();
                let others = others.filter_map(|(_, changes)| changes.sweep.get(own.0));
                let lists = core::iter::once(own.1).chain(others).filter_map(|v| v.as_array());
                let names = own.0.split(',').count();
                let label = |value| each_of(names, value).into_iter().next().map(Word::from);
                Some(lists.flatten().filter_map(label).collect())
            }
        }
    }

    fn check_words(&self, key: &str, at: &Words) -> Result<(), Problem> {
        for (axis, word) in at.iter().filter(|(axis, _)| !SAME_RUN.contains(&axis.as_str())) {
            let Some(values) = self.values(axis) else { continue };
            // A list of none is refused by itself.
            if !values.is_empty() && !values.contains(word) {
                let values: Vec<String> = values.iter().map(Word::to_string).collect();
                let what = format!("has {axis} = {word}, which never runs: {}", values.join("; "));
                return Err(Problem::new(key, what));
            }
        }
        Ok(())
    }

    /// What texts and values may be told apart by: values of `along`, and those of `each` joined.
    /// `None` where not all are known.
    fn labels(&self, each: &[String], along: Option<&str>) -> Option<BTreeSet<String>> {
        let mut labels = BTreeSet::from([String::new()]);
        for axis in each {
            let values = self.values(axis)?;
            let joined = |value: &Word| {
                let value = value.to_string();
                labels.iter().map(|l| format!("{l} {value}").trim().to_owned()).collect::<Vec<_>>()
            };
            labels = values.iter().flat_map(joined).collect();
        }
        if let Some(axis) = along {
            labels.extend(self.values(axis)?.iter().map(Word::to_string));
        }
        Some(labels)
    }
}

fn check_names(axis: &str, sets: &[Variant]) -> Result<(), Problem> {
    for (i, set) in sets.iter().enumerate() {
        let key = format!("{axis}.{i}.name");
        if set.name.trim().is_empty() || set.name.trim() != set.name {
            let what = format!("is `{}`, but must begin and end with a letter", set.name);
            return Err(Problem::new(key, what));
        }
        if sets[..i].iter().any(|other| other.name == set.name) {
            return Err(Problem::new(
                key,
                format!("is `{}`, as another's: records would be one", set.name),
            ));
        }
    }
    Ok(())
}

fn check_labels<'a>(
    key: &str,
    named: impl Iterator<Item = &'a String>,
    labels: &Option<BTreeSet<String>>,
) -> Result<(), Problem> {
    let Some(labels) = labels else { return Ok(()) };
    let mut named = named;
    match named.find(|name| !labels.contains(*name)) {
        None => Ok(()),
        Some(name) => {
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            let there = labels.join("; ");
            Err(Problem::new(key, format!("has `{name}`, which never runs: {there}")))
        }
    }
}
