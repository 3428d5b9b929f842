//! What a person reads after a sweep: one line per combination, means over its seeds.

use std::fmt::Write as _;

use crate::output::Row;
use crate::result::RunResult;
use crate::scenario::Run;
use crate::stats::Estimate;

/// A table of `rows`, which are those of `runs`, some of which may be missing.
pub fn summary(runs: &[Run], rows: &[Row]) -> String {
    let mut groups: Vec<(String, Vec<&RunResult>)> = Vec::new();
    let mut rows = rows.iter().peekable();
    for run in runs {
        let Some(row) = rows.next_if(|row| row.index == run.index) else { continue };
        let label = label(run);
        match groups.last_mut() {
            Some((last, results)) if *last == label => results.push(&row.result),
            _ => groups.push((label, vec![&row.result])),
        }
    }
    let width = groups.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0).max(8);
    let mut out = format!(
        "{:<width$} {:>17} {:>8} {:>8} {:>7} {:>8} {:>8} {:>8} {:>5}\n",
        "", "goodput Mbit/s", "data/s", "ACK/s", "rtx", "drops", "RTT p50", "p95 ms", "runs",
    );
    for (label, results) in &groups {
        let _ = writeln!(out, "{label:<width$} {}", figures(results));
    }
    out
}

/// The swept values, or the scenario's name where nothing is swept.
fn label(run: &Run) -> String {
    if run.swept.is_empty() {
        return run.scenario.name.clone();
    }
    let values = run.swept.iter().map(|(key, value)| match value {
        toml::Value::String(text) => format!("{key}={text}"),
        other => format!("{key}={other}"),
    });
    values.collect::<Vec<_>>().join(" ")
}

fn figures(results: &[&RunResult]) -> String {
    let each = |f: &dyn Fn(&RunResult) -> Option<f64>| {
        let samples: Vec<f64> = results.iter().filter_map(|r| f(r)).collect();
        Estimate::of(&samples)
    };
    let mean = |f: &dyn Fn(&RunResult) -> Option<f64>| each(f).map_or(0.0, |e| e.mean);
    let ms = |f: &dyn Fn(&RunResult) -> Option<f64>| {
        each(f).map_or_else(|| "-".to_owned(), |e| format!("{:.1}", e.mean / 1e3))
    };
    let goodput = match each(&|r| Some(r.total.goodput_bps / 1e6)) {
        Some(Estimate { mean, ci95: Some(ci) }) => format!("{mean:.2} ± {ci:.2}"),
        Some(Estimate { mean, ci95: None }) => format!("{mean:.2}"),
        None => "-".to_owned(),
    };
    format!(
        "{goodput:>17} {:>8.0} {:>8.0} {:>7.0} {:>8.0} {:>8} {:>8} {:>5}",
        mean(&|r| Some(r.total.data_packets_per_s)),
        mean(&|r| Some(r.total.ack_packets_per_s)),
        mean(&|r| Some(r.total.retransmissions as f64)),
        mean(&|r| Some((r.queue_drops + r.link_losses) as f64)),
        ms(&|r| r.total.rtt_p50_us),
        ms(&|r| r.total.rtt_p95_us),
        results.len(),
    )
}
