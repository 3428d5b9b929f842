//! `tack lab reproduce`: a paper's figures beside ours, row by row.
//!
//! A claim is what the paper says; a finding is that and what our runs say, judged. Nothing is
//! tuned until it agrees: where ours differs, the finding says so and why.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::plot::{self, Lines};
use crate::result::RunResult;
use crate::scenario::Scenario;

/// How much to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// For tests: a few short runs of each.
    Short,
    /// Minutes: the paper's settings, runs at 100 Mbit/s shortened.
    Usual,
    /// The paper's settings.
    Full,
}

/// One claim and what our runs say to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Row of the list of claims, e.g. `L6`.
    pub row: &'static str,
    /// What is measured.
    pub what: String,
    /// What the paper says.
    pub paper: String,
    /// What our runs say.
    pub ours: String,
    /// Whether the two agree as the row demands.
    pub agrees: bool,
    /// Why not, where it is known.
    pub why: Option<&'static str>,
}

impl Finding {
    /// A judged claim.
    pub fn new(
        row: &'static str,
        what: impl Into<String>,
        paper: impl Into<String>,
        ours: impl Into<String>,
        agrees: bool,
    ) -> Finding {
        let (what, paper, ours) = (what.into(), paper.into(), ours.into());
        Finding { row, what, paper, ours, agrees, why: None }
    }

    /// With the reason, which is told only where ours differs.
    #[must_use]
    pub fn because(self, why: &'static str) -> Finding {
        let why = (!self.agrees).then_some(why);
        Finding { why, ..self }
    }
}

/// Runs and what they say about one row.
pub trait Claim {
    /// Row of the list of claims.
    fn row(&self) -> &'static str;

    /// Every run it needs.
    fn scenarios(&self) -> Vec<Scenario>;

    /// The judgment, from the results of [`Self::scenarios`] in their order.
    fn findings(&self, results: &[RunResult]) -> Vec<Finding>;

    /// What is worth drawing of the same results, panel by panel.
    fn figures(&self, _results: &[RunResult]) -> Vec<Lines> {
        Vec::new()
    }
}

/// Every run of `claims`, in their order.
pub fn scenarios(claims: &[Box<dyn Claim>]) -> Vec<Scenario> {
    claims.iter().flat_map(|c| c.scenarios()).collect()
}

/// The judgment of each, from the results of [`scenarios`] in their order.
pub fn judge(claims: &[Box<dyn Claim>], results: &[RunResult]) -> Vec<Finding> {
    let own = each(claims, results);
    claims.iter().zip(own).flat_map(|(claim, results)| claim.findings(results)).collect()
}

/// Draws the figures of the claims that have one into `dir`, named after their rows.
///
/// # Errors
/// When a file cannot be written.
pub fn draw(claims: &[Box<dyn Claim>], results: &[RunResult], dir: &Path) -> Result<()> {
    for (claim, results) in claims.iter().zip(each(claims, results)) {
        let figures = claim.figures(results);
        if figures.is_empty() {
            continue;
        }
        let path = dir.join(claim.row()).with_extension("svg");
        plot::lines(&figures, &path)?;
    }
    Ok(())
}

/// The results of each claim's own runs.
fn each<'a>(claims: &[Box<dyn Claim>], results: &'a [RunResult]) -> Vec<&'a [RunResult]> {
    let mut rest = results;
    let mut own = |claim: &dyn Claim| {
        let (own, others) = rest.split_at(claim.scenarios().len().min(rest.len()));
        rest = others;
        own
    };
    claims.iter().map(|claim| own(&**claim)).collect()
}

/// The table a person reads.
pub fn table(findings: &[Finding]) -> String {
    let width = |f: fn(&Finding) -> &str, least: usize| {
        findings.iter().map(|x| f(x).chars().count()).max().unwrap_or(0).max(least)
    };
    let (what, paper) = (width(|f| &f.what, 4), width(|f| &f.paper, 5));
    let mut out = format!("{:<5}{:<what$}  {:<paper$}  {}\n", "", "", "paper", "ours");
    for f in findings {
        let verdict = if f.agrees { "agrees" } else { "DIFFERS" };
        let _ = writeln!(
            out,
            "{:<5}{:<what$}  {:<paper$}  {}  {verdict}",
            f.row, f.what, f.paper, f.ours
        );
        if let Some(why) = f.why {
            let _ = writeln!(out, "{:<5}  {why}", "");
        }
    }
    let agree = findings.iter().filter(|f| f.agrees).count();
    let _ = writeln!(out, "{agree} of {} agree", findings.len());
    out
}
