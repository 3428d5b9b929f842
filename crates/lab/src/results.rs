//! RESULTS.md: the blessed tables of all figures, put together. A blessed table is what the short
//! extent of a figure gives; it lies beside the figure's file, and tests hold runs against it.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use crate::bundle::{PAPERS, figures};
use crate::claim::{SINGLE, Verdict};
use crate::envelope::View;
use crate::experiment::Experiment;
use crate::reproduce::{Loaded, Report, tally};

/// The blessed table of a figure.
pub fn blessed(report: &Report) -> String {
    report.markdown().trim_end().to_owned() + "\n"
}

/// What runs in real time gave, under a heading for each: figures of one machine at one time, which the
/// code does not give again to the byte. `command` is what was typed, `setting` where, when and of what commit.
pub fn of_real_time(whole: &[(Loaded, Report)], command: &str, setting: &str) -> String {
    let mut out = format!(
        "# Beside the programs of today\n\nWritten by\n\n```\n{command}\n```\n\n{setting} Real programs in \
         real time: another run gives other numbers, and no test holds this page to the code. Runs \
         alternate, so ratios within a path say more than numbers; an interval is 95 % over the \
         repetitions. What could not run is named below its table.\n"
    );
    for (loaded, report) in whole {
        let Experiment { id, title, note, .. } = &loaded.experiment;
        let _ = writeln!(out, "\n## {id} {title}\n\n{}\n", note.trim());
        out += &blessed(report);
    }
    out
}

/// What many draws of the envelope gave, to lie beside its file. `command` is what was typed.
pub fn blessed_envelope(view: &View, command: &str) -> String {
    format!("`{command}`\n\n```\n{}```\n", view.summary())
}

/// The envelope whose blessed table is part of the document.
const ENVELOPE: &str = "envelope/random.md";

/// The document, from the blessed tables under `experiments`.
///
/// # Errors
/// Which file cannot be read.
pub fn document(experiments: &Path) -> io::Result<String> {
    let mut out = String::from(
        "# Results\n\nWhat `tack lab reproduce --short --bless .` printed: every figure of the papers \
         with a few short runs, ours beside theirs. CI holds each table to what the code gives, and \
         this file to the tables. The usual extent (`tack lab reproduce --report figures.html`) has \
         more seeds, longer runs and pictures. An interval is 95 % over seeds. A row is open where the \
         interval of what is judged holds the bar, so that another seed could turn the verdict; where there \
         is but one run, or every seed is the same run again, it goes by that and says so: `1 run`.\n",
    );
    let (mut counts, mut single) = ([0; 3], 0);
    let mut sections = String::new();
    for (dir, paper) in PAPERS {
        let _ = writeln!(sections, "\n## {paper}");
        for (path, text) in figures().into_iter().filter(|(path, _)| path.starts_with(dir)) {
            let file = experiments.join(path).with_extension("md");
            let table = read(&file)?;
            let experiment = Experiment::parse(text).unwrap_or_default();
            let _ = writeln!(sections, "\n### {}\n", experiment.heading());
            if !experiment.note.is_empty() {
                let _ = writeln!(sections, "{}\n", experiment.note.trim());
            }
            sections += &table;
            for (count, verdict) in counts.iter_mut().zip(Verdict::ALL) {
                *count += table.matches(&format!("| {} |", verdict.word())).count();
                single += table.matches(&format!("{SINGLE} | {} |", verdict.word())).count();
            }
        }
    }
    let envelope = read(&experiments.join(ENVELOPE))?;
    let _ = write!(
        sections,
        "\n## The envelope: what holds for all traffic\n\nPaths and traffic drawn at random; \
         [docs/lab.md](docs/lab.md) says from what. CI runs a sample of other draws.\n\n{envelope}"
    );
    let _ = writeln!(out, "\nClaims: {}.", tally(counts, single));
    Ok(out + &sections)
}

fn read(path: &Path) -> io::Result<String> {
    std::fs::read_to_string(path)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}
