//! Runs into medians and ratios.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::contestant::{Contestant, Share};
use crate::path::PathKind;

/// One transfer.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) goodput_bps: f64,
    pub(crate) cpu_s_per_gb: f64,
    sender_cpu_s_per_gb: f64,
    notes: [String; 2],
}

impl Run {
    pub(crate) fn new(received: &Share, sent: &Share) -> Run {
        let gigabytes = received.bytes as f64 / 1e9;
        Run {
            goodput_bps: received.bytes as f64 * 8.0 / received.seconds,
            cpu_s_per_gb: (received.cpu_seconds + sent.cpu_seconds) / gigabytes,
            sender_cpu_s_per_gb: sent.cpu_seconds / gigabytes,
            notes: [sent.note.clone(), received.note.clone()],
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.2} Gbit/s, {:.3} CPU s/GB ({:.3} of them the sender's)\n  sender: {}\n  receiver: {}",
            self.goodput_bps / 1e9,
            self.cpu_s_per_gb,
            self.sender_cpu_s_per_gb,
            self.notes[0],
            self.notes[1],
        )
    }
}

/// All runs.
#[derive(Debug, Default)]
pub(crate) struct Report {
    runs: BTreeMap<(PathKind, Contestant), Vec<Run>>,
}

/// Medians of one contestant on one path.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Summary {
    path: PathKind,
    contestant: Contestant,
    runs: usize,
    goodput_bps: f64,
    goodput_bps_min: f64,
    goodput_bps_max: f64,
    cpu_s_per_gb: f64,
    /// Goodput relative to quinn's on this path.
    goodput_ratio: Option<f64>,
    /// CPU per byte relative to quinn's on this path.
    cpu_ratio: Option<f64>,
}

impl Report {
    pub(crate) fn add(&mut self, path: PathKind, contestant: Contestant, run: Run) {
        self.runs.entry((path, contestant)).or_default().push(run);
    }

    pub(crate) fn summary(&self) -> Vec<Summary> {
        let medians = |key: &(PathKind, Contestant)| -> Option<(f64, f64)> {
            let runs = self.runs.get(key)?;
            Some((median(runs, |r| r.goodput_bps), median(runs, |r| r.cpu_s_per_gb)))
        };
        let row = |(key, runs): (&(PathKind, Contestant), &Vec<Run>)| {
            let (path, contestant) = *key;
            let goodput_bps = median(runs, |r| r.goodput_bps);
            let cpu_s_per_gb = median(runs, |r| r.cpu_s_per_gb);
            let quinn = medians(&(path, Contestant::Quinn));
            let goodputs = runs.iter().map(|r| r.goodput_bps);
            Summary {
                path,
                contestant,
                runs: runs.len(),
                goodput_bps,
                goodput_bps_min: goodputs.clone().fold(f64::INFINITY, f64::min),
                goodput_bps_max: goodputs.fold(0.0, f64::max),
                cpu_s_per_gb,
                goodput_ratio: quinn.map(|q| goodput_bps / q.0),
                cpu_ratio: quinn.map(|q| cpu_s_per_gb / q.1),
            }
        };
        self.runs.iter().map(row).collect()
    }
}

fn median(runs: &[Run], value: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 0 => (values[middle - 1] + values[middle]) / 2.0,
        _ => values[middle],
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<9} {:<11} {:>4} {:>8} {:>15} {:>10} {:>16} {:>12}",
            "path",
            "who",
            "runs",
            "Gbit/s",
            "min-max",
            "CPU s/GB",
            "goodput/quinn's",
            "CPU/quinn's"
        )?;
        for s in self.summary() {
            let ratio = |r: Option<f64>| r.map_or("-".to_owned(), |r| format!("{r:.2}"));
            writeln!(
                f,
                "{:<9} {:<11} {:>4} {:>8.2} {:>15} {:>10.3} {:>16} {:>12}",
                s.path,
                s.contestant,
                s.runs,
                s.goodput_bps / 1e9,
                format!("{:.2}-{:.2}", s.goodput_bps_min / 1e9, s.goodput_bps_max / 1e9),
                s.cpu_s_per_gb,
                ratio(s.goodput_ratio),
                ratio(s.cpu_ratio),
            )?;
        }
        Ok(())
    }
}
