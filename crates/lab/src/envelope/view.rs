//! What a person reads of many draws: the share that holds each property, the worst, the ratios.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::property::property;
use super::trial::Trial;
use crate::draw::{Word, Words};
use crate::experiment::Experiment;
use crate::stats::quantile;

/// How many of the worst draws are named.
const WORST: usize = 5;

/// Many draws in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct View {
    /// Of the experiment.
    pub id: String,
    /// How many ran.
    pub draws: usize,
    /// In the file's order.
    pub properties: Vec<PropertyView>,
    /// Over TCP's, by figure.
    pub ratios: Vec<RatioView>,
    /// Draws in which the variant that is held against had no figures, and why.
    pub void: BTreeMap<u64, String>,
}

/// One property over all draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PropertyView {
    /// As in the table.
    pub name: String,
    /// Draws of which it says something.
    pub judged: usize,
    /// Of them, those that hold it.
    pub held: usize,
    /// The worst that do not, worst first.
    pub worst: Vec<Broken>,
}

/// A draw that breaks a property.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Broken {
    /// Its number.
    pub draw: u64,
    /// How far beyond the bar, relative to it.
    pub excess: f64,
    /// Its words, and what is to be said of the breach.
    pub what: String,
}

/// A figure over TCP's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RatioView {
    /// Of the metric.
    pub name: &'static str,
    /// Draws that have it.
    pub draws: usize,
    /// Quantiles over the draws.
    pub p05: f64,
    /// See `p05`.
    pub median: f64,
    /// See `p05`.
    pub p95: f64,
}

impl PropertyView {
    /// Share of the judged draws that hold it; 1 of none.
    pub fn share(&self) -> f64 {
        if self.judged == 0 { 1.0 } else { self.held as f64 / self.judged as f64 }
    }
}

/// The view of `trials`.
pub fn view(experiment: &Experiment, trials: &[Trial], names: &[&str]) -> View {
    let void = |t: &Trial| Some((t.draw.index, t.records.get(1)?.void.clone()?));
    View {
        id: experiment.id.clone(),
        draws: trials.len(),
        properties: names.iter().filter_map(|name| one(name, trials)).collect(),
        ratios: ["goodput", "acks", "completion"]
            .iter()
            .filter_map(|name| ratios(name, trials))
            .collect(),
        void: trials.iter().filter_map(void).collect(),
    }
}

fn one(name: &str, trials: &[Trial]) -> Option<PropertyView> {
    let property = property(name)?;
    let mut view = PropertyView { name: name.to_owned(), judged: 0, held: 0, worst: Vec::new() };
    for trial in trials {
        let Some(pair) = trial.pair() else { continue };
        let Some(excess) = (property.excess)(&pair) else { continue };
        view.judged += 1;
        if excess <= 0.0 {
            view.held += 1;
            continue;
        }
        let mut what = describe(&trial.draw.words);
        if let Some(void) = pair.tack.void.as_ref().filter(|_| name == "stall") {
            let _ = write!(what, ": {void}");
        }
        view.worst.push(Broken { draw: trial.draw.index, excess, what });
    }
    view.worst.sort_by(|a, b| b.excess.total_cmp(&a.excess).then(a.draw.cmp(&b.draw)));
    Some(view)
}

fn ratios(name: &'static str, trials: &[Trial]) -> Option<RatioView> {
    let mut all: Vec<f64> =
        trials.iter().filter_map(|t| t.pair()?.ratio(name)).filter(|r| r.is_finite()).collect();
    Some(RatioView {
        name,
        draws: all.len(),
        p05: quantile(&mut all, 0.05)?,
        median: quantile(&mut all, 0.5)?,
        p95: quantile(&mut all, 0.95)?,
    })
}

/// A draw in a line: its words without those that say "nothing special".
pub(super) fn describe(words: &Words) -> String {
    let word = |(name, word): (&String, &Word)| match word {
        Word::Number(v) => Some(format!("{name} {v}")),
        Word::Text(text) if text == "none" => None,
        Word::Text(text) => Some(format!("{name} {text}")),
        Word::List(values) => {
            let values: Vec<String> = values.iter().map(f64::to_string).collect();
            Some(format!("{name} [{}]", values.join(" ")))
        }
        Word::Other(value) => Some(format!("{name} {value}")),
    };
    words.iter().filter(|w| is_used(w.0, words)).filter_map(word).collect::<Vec<_>>().join(", ")
}

/// Whether the other words leave this one anything to say.
pub(super) fn is_used(name: &str, words: &Words) -> bool {
    let text = |name: &str| match words.get(name) {
        Some(Word::Text(text)) => text.as_str(),
        _ => "",
    };
    let has = |name: &str| words.contains_key(name);
    let air = !matches!(text("wifi"), "" | "none");
    let wired = !air || text("wan_limit") == "yes";
    match name {
        "stations" | "mpdu_error" | "wan_limit" => air,
        "buffer_bdp" => wired && !has("buffer_packets"),
        "rate_mbps" | "buffer_packets" | "ack_filter" | "return_ratio" | "rate_steps" => wired,
        "loss_burst" => has("loss") || has("ack_loss"),
        "reordering_ms" => has("reordering"),
        "outage_rtts" | "outage_way" => has("outages"),
        "company_cc" | "company_way" | "company_from" => has("company"),
        "file_bytes" => text("app") == "file",
        "load" => text("app") == "cbr",
        "request_bytes" | "response_bytes" | "think_ms" => text("app") == "request-response",
        "on_ms" | "off_ms" => text("app") == "on-off",
        _ => true,
    }
}

impl View {
    /// How many draws hold what, and what TACK has over TCP.
    pub fn summary(&self) -> String {
        let mut out = format!("{} draws of `{}`\n\n", self.draws, self.id);
        let _ =
            writeln!(out, "{:<12} {:>7} {:>7} {:>8}  what", "property", "judged", "broken", "held");
        for p in &self.properties {
            let what = property(&p.name).map_or("", |p| p.what);
            let broken = p.judged - p.held;
            let held = match p.judged {
                0 => "-".to_owned(),
                _ => format!("{:.1}%", p.share() * 100.0),
            };
            let _ = writeln!(out, "{:<12} {:>7} {broken:>7} {held:>8}  {what}", p.name, p.judged);
        }
        let header = ["over TCP's", "draws", "5 %", "median", "95 %"];
        let [name, draws, low, mid, high] = header;
        let _ = writeln!(out, "\n{name:<12} {draws:>7} {low:>8} {mid:>8} {high:>8}");
        for r in &self.ratios {
            let (name, draws) = (r.name, r.draws);
            let _ = writeln!(
                out,
                "{name:<12} {draws:>7} {:>8.3} {:>8.3} {:>8.3}",
                r.p05, r.median, r.p95
            );
        }
        out
    }

    /// As text.
    pub fn table(&self) -> String {
        let mut out = self.summary();
        for p in self.properties.iter().filter(|p| !p.worst.is_empty()) {
            let _ = writeln!(out, "\nworst for {}", p.name);
            for broken in p.worst.iter().take(WORST) {
                let (excess, what) = (broken.excess * 100.0, &broken.what);
                let _ = writeln!(out, "  draw {:<6} {excess:+.0} %  {what}", broken.draw);
            }
        }
        for (draw, why) in &self.void {
            let _ = writeln!(out, "\ndraw {draw} has nothing to be held against: {why}");
        }
        out
    }
}
