//! What is printed: a table for each phase, in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::who::Who;
use super::{ConnectsArgs, Phase};

/// Name and decimals.
type Column = (&'static str, usize);

const HOLD: &[Column] = &[
    ("failed", 0),
    ("all open after, s", 1),
    ("CPU for that, s, client", 1),
    ("server", 1),
    ("memory each, kB, client", 1),
    ("server", 1),
    ("the kernel's, both", 1),
    ("then idle, CPU ms/s, client", 1),
    ("server", 1),
];
const STEADY: &[Column] =
    &[("failed", 0), ("per second", 0), ("CPU each, ms, client", 3), ("server", 3)];
const BUSY: &[Column] = &[
    ("failed", 0),
    ("Gbit/s", 2),
    ("CPU s/GB, client", 2),
    ("server", 2),
    ("Jain's index", 3),
    ("least of mean", 2),
    ("memory, MB, client", 0),
    ("server", 0),
];

/// What is found out in a phase.
fn columns(phase: Phase) -> &'static [Column] {
    match phase {
        Phase::Hold | Phase::Kept => HOLD,
        Phase::Steady => STEADY,
        Phase::Busy => BUSY,
    }
}

/// Figures of all rounds.
#[derive(Debug, Default)]
pub(super) struct Table(BTreeMap<(Phase, Who), Vec<Vec<f64>>>);

impl Table {
    pub(super) fn add(&mut self, phase: Phase, who: Who, figures: Vec<f64>) {
        self.0.entry((phase, who)).or_default().push(figures);
    }

    pub(super) fn show(&self, args: &ConnectsArgs) -> String {
        let mut text = String::new();
        for &phase in &args.phase {
            let columns = columns(phase);
            let names: Vec<_> = columns.iter().map(|(name, _)| *name).collect();
            let _ = writeln!(text, "\n{}\n", title(phase, args));
            let _ = writeln!(text, "| | {} |", names.join(" | "));
            let _ = writeln!(text, "|---|{}", "---|".repeat(columns.len()));
            for &who in &args.who {
                let Some(rounds) = self.0.get(&(phase, who)) else { continue };
                let _ = write!(text, "| {who} |");
                for (index, (_, decimals)) in columns.iter().enumerate() {
                    let mut all: Vec<f64> = rounds.iter().map(|row| row[index]).collect();
                    all.sort_by(f64::total_cmp);
                    let _ = write!(text, " {:.decimals$} |", all[all.len() / 2]);
                }
                text.push('\n');
            }
        }
        text
    }
}

fn title(phase: Phase, args: &ConnectsArgs) -> String {
    match phase {
        Phase::Hold => format!("{} at once, then {} s of silence", args.at_once, args.silence),
        Phase::Kept => format!("The same with keep-alives each {} s", args.keepalive),
        Phase::Steady => format!("One after the other, {} tasks", args.tasks),
        Phase::Busy => format!("{} that all send", args.busy),
    }
}
