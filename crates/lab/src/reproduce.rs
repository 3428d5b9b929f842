//! An experiment that was run: its tables, its pictures, and a paper's claims judged.
//!
//! A claim is what the paper says; a finding is that and what our runs say. Nothing is tuned until
//! it agrees: where ours differs, the finding says so and why.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::claim::{Finding, Verdict, judge};
use crate::data::{Data, count_name, interval_name};
use crate::draw::{Word, Words};
use crate::experiment::{Experiment, Extent};
use crate::item::{Backend, Plan};
use crate::pivot::Results;
use crate::plan::plan;
use crate::record::Record;
use crate::scenario::{Problem, ScenarioError};
use crate::stats::Estimate;
use crate::table::Table;
use crate::view::{Kind, Shown, View, short};

/// An experiment with its file and its runs.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// As in its file.
    pub experiment: Experiment,
    /// The file.
    pub text: String,
    /// How much of it runs.
    pub extent: Extent,
    /// What runs.
    pub plan: Plan,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// By view, in the file's order.
    pub shown: Vec<Shown>,
    /// By claim.
    pub findings: Vec<Finding>,
    /// Runs without figures: their key, and why.
    pub void: Vec<String>,
}

impl Loaded {
    /// An experiment's file, planned for `extent`.
    ///
    /// # Errors
    /// What is wrong, with line, key and the remedy.
    pub fn parse(text: &str, extent: Extent) -> Result<Loaded, ScenarioError> {
        Loaded::of(Experiment::parse(text)?, text, extent)
    }

    /// An experiment, planned and checked.
    ///
    /// # Errors
    /// As [`Loaded::parse`].
    pub fn of(experiment: Experiment, text: &str, extent: Extent) -> Result<Loaded, ScenarioError> {
        let plan = plan(&experiment, extent, text)?;
        let wrong = |p: Problem, at: String| ScenarioError::of(text, p.of(&at));
        for (i, claim) in experiment.claim.iter().enumerate() {
            let found = claim.check(&plan.axes).and_then(|()| check_at(&claim.at, &plan));
            let found = found.and_then(|()| check_groups(&claim.quantity().metrics(), &plan));
            found.map_err(|p| wrong(p, format!("claim.{i}")))?;
        }
        for (i, view) in experiment.view.iter().enumerate() {
            let found = view.check(&plan.axes).and_then(|()| check_at(&view.at, &plan));
            let found = found.and_then(|()| check_groups(&view.all_metrics(), &plan));
            found.map_err(|p| wrong(p, format!("view.{i}")))?;
        }
        Ok(Loaded { experiment, text: text.to_owned(), extent, plan })
    }

    /// What `records`, by run, say; `None` while one is missing.
    pub fn report(&self, records: &BTreeMap<String, Record>) -> Option<Report> {
        let results = Results::new(&self.plan, records)?;
        let usual = [View::default()];
        let views = if self.experiment.view.is_empty() && self.experiment.claim.is_empty() {
            &usual
        } else {
            self.experiment.view.as_slice()
        };
        let void = results.void().into_iter().map(|(key, why)| {
            let words: Vec<String> = key.iter().map(|(k, v)| format!("{k} = {v}")).collect();
            format!("{}: {why}", words.join(", "))
        });
        let mut shown: Vec<Shown> = views.iter().map(|view| view.show(&results)).collect();
        shown.extend(self.participants(records));
        let findings = judge(&self.experiment.id, &self.experiment.claim, &results);
        Some(Report { shown, findings, void: void.collect() })
    }

    /// Who ran, where that were programs of others: a row per variant.
    fn participants(&self, records: &BTreeMap<String, Record>) -> Option<Shown> {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for record in self.plan.items.iter().filter_map(|item| records.get(&item.id)) {
            if record.about.is_empty() {
                continue;
            }
            let name = record.key.get("variant").map(ToString::to_string).unwrap_or_default();
            let word = |key| record.about.get(key).cloned().unwrap_or_default();
            let row = vec![name, word("who"), word("encryption"), word("version")];
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        let header =
            |first: &str| [first, "who", "encryption", "version"].map(str::to_owned).to_vec();
        let data = Data { header: header("variant"), rows: rows.clone() };
        let table = Table { title: "Who ran".to_owned(), keys: 4, header: header(""), rows };
        (!table.rows.is_empty()).then(|| Shown { table, data, plots: Vec::new() })
    }

    /// Means over the runs of each point of the plan; none while a run is missing.
    pub fn means(&self, records: &BTreeMap<String, Record>) -> Vec<Means> {
        let Some(results) = Results::new(&self.plan, records) else { return Vec::new() };
        let axes: Vec<String> = self.plan.axes.iter().map(|(name, _)| name.clone()).collect();
        let means = |key: Words| {
            let runs = results.select(&key);
            let names: BTreeSet<&String> =
                runs.iter().flat_map(|(_, r)| r.metrics.keys()).collect();
            let figure = |name: &String| {
                let values: Vec<f64> = runs.iter().filter_map(|(_, r)| r.get(name)).collect();
                let estimate = Estimate::of(&values)?;
                Some((name.clone(), Figure { estimate, runs: values.len() }))
            };
            let figures = names.into_iter().filter_map(figure).collect();
            Means { runs: runs.len(), figures, key }
        };
        results.combinations(&axes, &Words::new()).into_iter().map(means).collect()
    }

    /// Means by key: an object per point of the plan, every figure with its interval.
    pub fn rows(&self, records: &BTreeMap<String, Record>) -> Vec<Value> {
        let row = |means: Means| {
            let mut out = serde_json::Map::new();
            for (axis, word) in &means.key {
                let value = match word {
                    Word::Number(v) => json!(v),
                    other => json!(other.to_string()),
                };
                out.insert(short(axis, &self.plan.axes).to_owned(), value);
            }
            out.insert("seeds".to_owned(), json!(means.runs));
            for (name, Figure { estimate, runs }) in means.figures {
                out.extend(estimate.ci95.map(|half| (interval_name(&name), json!(half))));
                if runs < means.runs {
                    out.insert(count_name(&name), json!(runs));
                }
                out.insert(name, json!(estimate.mean));
            }
            Value::Object(out)
        };
        self.means(records).into_iter().map(row).collect()
    }

    /// What one more view shows of `records`, by run.
    ///
    /// # Errors
    /// What is wrong with the view, or that runs are missing.
    pub fn show(&self, view: &View, records: &BTreeMap<String, Record>) -> Result<Shown, String> {
        if view.kind == Kind::Series && !self.plan.items.iter().any(|item| item.series) {
            let what = "`kind` is \"series\", but the plan keeps none: it takes `series = true`, or a \
                        view of series, in the file";
            return Err(what.to_owned());
        }
        let found = view.check(&self.plan.axes);
        found
            .and_then(|()| check_groups(&view.all_metrics(), &self.plan))
            .map_err(|p| format!("`{}` {}", p.key, p.what))?;
        let runs = |axis: &String, word: &Word| {
            self.plan.axes.iter().any(|(name, words)| name == axis && words.contains(word))
        };
        if let Some((axis, word)) = view.at.iter().find(|(axis, word)| !runs(axis, word)) {
            return Err(format!("`at` has {axis} = {word}, and of that nothing runs"));
        }
        let results = Results::new(&self.plan, records).ok_or("runs are missing")?;
        Ok(view.show(&results))
    }

    /// All of it for programs: means by key, the judgments, and what is void.
    pub fn json(&self, report: &Report, records: &BTreeMap<String, Record>) -> Value {
        json!({
            "id": self.experiment.id,
            "rows": self.rows(records),
            "findings": report.findings,
            "void": report.void,
        })
    }
}

/// Means over the runs of one point of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Means {
    /// Which point.
    pub key: Words,
    /// How many runs it has.
    pub runs: usize,
    /// By name.
    pub figures: BTreeMap<String, Figure>,
}

/// A figure's mean over the runs that have it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The mean, and its interval.
    pub estimate: Estimate,
    /// How many have it.
    pub runs: usize,
}

/// Whether some run has the seed, or the draw, that is asked for: no axis of the file has either.
fn check_at(at: &Words, plan: &Plan) -> Result<(), Problem> {
    for axis in ["seed", "draw"] {
        let Some(word) = at.get(axis) else { continue };
        let mut there: Vec<&Word> = plan.items.iter().filter_map(|i| i.key.get(axis)).collect();
        there.dedup();
        if !there.contains(&word) {
            let there: Vec<String> = there.iter().take(20).map(ToString::to_string).collect();
            let what = format!("has {axis} = {word}, which never runs: {}", there.join("; "));
            return Err(Problem::new("at", what));
        }
    }
    Ok(())
}

/// Whether every `GROUP.NAME` is of a group that some run of the plan has.
fn check_groups(names: &[String], plan: &Plan) -> Result<(), Problem> {
    // A formula's figures are told apart by what it counts, not by flows.
    let counts = plan.items.iter().any(|item| item.backend == Backend::Formula);
    if counts || !names.iter().any(|name| name.contains('.')) {
        return Ok(());
    }
    let several = plan.items.iter().map(|i| i.scenario.groups()).filter(|g| g.len() > 1);
    let groups: BTreeSet<String> = several.flatten().map(|(name, _)| name).collect();
    let is_known =
        |name: &&String| name.rsplit_once('.').is_none_or(|(group, _)| groups.contains(group));
    match names.iter().find(|name| !is_known(name)) {
        None => Ok(()),
        Some(name) if groups.is_empty() => Err(Problem::new(
            "metric",
            format!("is `{name}`, but there are no kinds of flows to tell apart"),
        )),
        Some(name) => {
            let there: Vec<&str> = groups.iter().map(String::as_str).collect();
            Err(Problem::new(
                "metric",
                format!("is `{name}`: kinds of flows are {}", there.join("; ")),
            ))
        }
    }
}

impl Report {
    /// For a person at a terminal.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for shown in &self.shown {
            let _ = writeln!(out, "{}", shown.table.text());
        }
        if !self.findings.is_empty() {
            out.push_str(&findings_text(&self.findings));
        }
        for void in &self.void {
            let _ = writeln!(out, "void: {void}");
        }
        out
    }

    /// For a document, under a heading.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        for shown in &self.shown {
            if !shown.table.title.is_empty() {
                let _ = writeln!(out, "{}:\n", shown.table.title);
            }
            let _ = writeln!(out, "{}", shown.table.markdown());
        }
        if !self.findings.is_empty() {
            let _ = writeln!(out, "{}", findings_table(&self.findings).markdown());
        }
        for why in self.reasons() {
            let _ = writeln!(out, "{why}\n");
        }
        for void in &self.void {
            let _ = writeln!(out, "Void: {void}\n");
        }
        out
    }

    /// Why what differs differs, each reason once, with the first of what it is about.
    pub fn reasons(&self) -> Vec<String> {
        let mut out: Vec<(&str, Vec<&Finding>)> = Vec::new();
        for finding in &self.findings {
            let Some(why) = &finding.why else { continue };
            match out.iter_mut().find(|(text, _)| text == why) {
                Some((_, of)) => of.push(finding),
                None => out.push((why, vec![finding])),
            }
        }
        let text = |(why, of): (&str, Vec<&Finding>)| {
            let mut rows: Vec<&str> = of.iter().map(|finding| finding.row.as_str()).collect();
            rows.dedup();
            let worst = of.iter().map(|finding| finding.verdict).min();
            let is = if worst == Some(Verdict::Open) { "is open" } else { "differs" };
            let more =
                if of.len() > 1 { format!(" and {} more", of.len() - 1) } else { String::new() };
            format!("{} {is} ({}{more}): {why}", rows.join(", "), of[0].what)
        };
        out.into_iter().map(text).collect()
    }
}

/// How many claims have which verdict: `2 of 4 claims agree, 1 is open, ..`.
pub fn tally(counts: [usize; 3], single: usize) -> String {
    let [agree, open, differ] = counts;
    let all = agree + open + differ;
    format!("{agree} of {all} agree, {open} open, {differ} differ; {single} stand on one run")
}

/// The same of `findings`.
pub fn tally_of<'a>(findings: impl Iterator<Item = &'a Finding> + Clone) -> String {
    let count = |verdict| findings.clone().filter(|f| f.verdict == verdict).count();
    tally(Verdict::ALL.map(count), findings.clone().filter(|f| f.is_single()).count())
}

/// The judgments as a table.
pub fn findings_table(findings: &[Finding]) -> Table {
    let header = ["", "what", "paper", "ours", "verdict"].map(str::to_owned).to_vec();
    let row = |f: &Finding| {
        let verdict = f.verdict.word().to_owned();
        vec![f.row.clone(), f.what.clone(), f.paper.clone(), f.ours.clone(), verdict]
    };
    Table { title: String::new(), keys: 5, header, rows: findings.iter().map(row).collect() }
}

/// The judgments for a person at a terminal: what does not agree says why.
pub fn findings_text(findings: &[Finding]) -> String {
    let table = findings_table(findings).text();
    let mut out = String::new();
    for (i, line) in table.lines().enumerate() {
        let _ = writeln!(out, "{line}");
        let why = i.checked_sub(1).and_then(|i| findings.get(i)).and_then(|f| f.why.as_ref());
        if let Some(why) = why {
            let _ = writeln!(out, "      {why}");
        }
    }
    let _ = writeln!(out, "{}", tally_of(findings.iter()));
    out
}
