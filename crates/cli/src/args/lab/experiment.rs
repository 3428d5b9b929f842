//! `tack lab run` and `tack lab reproduce`.

use std::fmt::Display;
use std::path::PathBuf;

use clap::{ArgAction, Args};
use tack_lab::bundle;
use tack_lab::experiment::{Experiment, Extent, keep_only};
use tack_lab::scenario::ScenarioError;
use toml::Value;

use super::{HowArgs, parse_shard};
use crate::exit::{ExitCode, Failure};

/// Where results are kept and how they are put together; the same for every experiment.
#[derive(Clone, Debug, Default, Args)]
pub struct StoreArgs {
    /// Go on with what was interrupted: the default
    #[arg(long, action = ArgAction::SetTrue, overrides_with = "no_resume")]
    pub resume: bool,
    /// Delete earlier results and start afresh
    #[arg(long)]
    pub no_resume: bool,
    /// Run only part I of N; `--merge` puts the parts' files together
    #[arg(long, value_name = "I/N", value_parser = parse_shard)]
    pub shard: Option<(usize, usize)>,
    /// Run nothing: take the results of these files, which must hold every run
    #[arg(long, value_name = "FILE.jsonl…", num_args = 1.., conflicts_with = "shard")]
    pub merge: Vec<PathBuf>,
    /// A few short runs of each
    #[arg(long, conflicts_with = "full")]
    pub short: bool,
    /// The papers' settings, and more seeds: hours
    #[arg(long)]
    pub full: bool,
    /// Write one HTML page with pictures, tables and judgments
    #[arg(long, value_name = "FILE.html")]
    pub report: Option<PathBuf>,
}

impl StoreArgs {
    /// How much runs.
    pub fn extent(&self) -> Extent {
        match (self.short, self.full) {
            (true, _) => Extent::Short,
            (_, true) => Extent::Full,
            _ => Extent::Usual,
        }
    }
}

/// What is changed of a file on the command line.
#[derive(Clone, Debug, Args)]
pub struct ChangeArgs {
    /// Another value of a key, a list to sweep, or `seeds=N`
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_change)]
    pub set: Vec<(String, Value)>,
    /// Only these cases and variants
    #[arg(long, value_name = "NAME,…")]
    pub only: Vec<String>,
}

impl ChangeArgs {
    /// Changes all of `experiments` so, at `extent`. Returns of each whether `--only` leaves anything of it: a name
    /// is one of any of them.
    pub fn apply(
        &self,
        experiments: &mut [Experiment],
        extent: Extent,
    ) -> Result<Vec<bool>, Failure> {
        for experiment in &mut *experiments {
            for (key, value) in &self.set {
                let done = experiment.change(extent, key, value.clone());
                done.map_err(|what| {
                    Failure::usage(format!("--set {key}={value}: `{key}` {what}"))
                })?;
            }
        }
        let left = self.keep_only(experiments, extent)?;
        for (experiment, _) in experiments.iter().zip(&left).filter(|(_, left)| **left) {
            for (key, value) in &self.set {
                if let Some(whose) = experiment.overruled(extent, key) {
                    let id = &experiment.id;
                    return Err(Failure::usage(format!(
                        "--set {key}={value}: every {whose} of {id} sets `{key}` itself: change it in a copy of the file"
                    )));
                }
            }
        }
        Ok(left)
    }

    /// What is wrong with `file` as it is to run: its own line, or the change that brought it.
    pub fn wrong(&self, file: impl Display, e: &ScenarioError) -> Failure {
        let bare = ["base.", "sweep."].iter().find_map(|table| e.key.strip_prefix(table));
        let bare = bare.unwrap_or(&e.key);
        let is_new = e.what.starts_with("unknown field");
        let brought = |key: &str| {
            let is_part = |whole: &str, part: &str| {
                part.strip_prefix(whole)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            is_part(key, bare) || is_new && !bare.is_empty() && is_part(bare, key)
        };
        Failure::usage(match self.set.iter().find(|(key, _)| brought(key)) {
            Some((key, value)) => format!("--set {key}={value}: `{bare}` {}", e.what),
            None => format!("{file}, {e}"),
        })
    }

    /// Of each whether `--only` leaves anything of it.
    fn keep_only(
        &self,
        experiments: &mut [Experiment],
        extent: Extent,
    ) -> Result<Vec<bool>, Failure> {
        if self.only.is_empty() {
            return Ok(vec![true; experiments.len()]);
        }
        let all: Vec<&str> = experiments.iter().flat_map(Experiment::names).collect();
        let chosen: Result<Vec<Vec<String>>, _> =
            self.only.iter().map(|list| named(list, &all)).collect();
        let chosen = chosen.map_err(|name| {
            let told: Vec<String> = experiments.iter().map(Experiment::choice).collect();
            Failure::usage(format!("--only {name}: {}", told.join("; ")))
        })?;
        Ok(keep_only(experiments, extent, &chosen.concat()))
    }
}

/// Names of a list with commas between them; a name may have commas of its own. Otherwise the piece that
/// is none.
fn named(list: &str, names: &[&str]) -> Result<Vec<String>, String> {
    let pieces: Vec<&str> = list.split(',').collect();
    let (mut chosen, mut at) = (Vec::new(), 0);
    while at < pieces.len() {
        let longest = (at + 1..=pieces.len()).rev().find_map(|end| {
            let name = pieces[at..end].join(",").trim().to_owned();
            names.contains(&name.as_str()).then_some((name, end))
        });
        let (name, end) = longest.ok_or_else(|| pieces[at].trim().to_owned())?;
        chosen.push(name);
        at = end;
    }
    Ok(chosen)
}

/// Reads `wan.delay_ms=40`, `flow.0.strategy=tack,ae` and TOML such as `flow.0.cc=["bbr"]`.
fn parse_change(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| format!("`{text}` is no change: write KEY=VALUE, as in wan.delay_ms=40"))?;
    let read = |text: &str| {
        let table = format!("value = {text}").parse::<toml::Table>().ok();
        let value = table.and_then(|mut table| table.remove("value"));
        value.unwrap_or_else(|| Value::String(text.to_owned()))
    };
    let is_list = value.contains(',') && !value.starts_with(['[', '{', '"', '\'']);
    let value = if is_list {
        Value::Array(value.split(',').map(|one| read(one.trim())).collect())
    } else {
        read(value)
    };
    Ok((key.to_owned(), value))
}

const RUN_AFTER: &str = "\
Results are JSON lines, one per run, with every parameter and the seed. What is there already is not
run again: an interrupted sweep goes on, and after a change of the file only what changed runs.

Examples:
  tack lab run scenarios/sweep-beta.toml --out results/ --csv
  tack lab run experiments/tack/T-6b.toml --short --report t6b.html
  tack lab run scenarios/sweep-beta.toml --set wan.delay_ms=10,40 --set seeds=3
  tack lab run my.toml --shard 1/4 --out part1.jsonl
  tack lab run my.toml --merge part*.jsonl --out whole.jsonl
  tack lab run my.toml --pcap packets.pcapng --series cwnd.csv";

/// Run a scenario or an experiment file.
#[derive(Clone, Debug, Args)]
#[command(after_help = RUN_AFTER)]
pub struct RunArgs {
    /// The scenario or experiment, in TOML
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// Where results go: a .jsonl file, or a directory [default: FILE.jsonl in this directory]
    #[arg(short, long, value_name = "PATH")]
    pub out: Option<PathBuf>,
    /// Write a CSV file beside it
    #[arg(long)]
    pub csv: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// What is changed of it.
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Where results are kept.
    #[command(flatten)]
    pub store: StoreArgs,
    /// Capture the packets of a scenario's only run, for Wireshark: at both ends of its Wi-Fi, or of its path where there is none
    #[arg(long, value_name = "FILE.pcapng", conflicts_with_all = ["out", "csv", "shard", "merge", "report"])]
    pub pcap: Option<PathBuf>,
    /// Write the senders' windows, rates and round trips over time of a scenario's only run
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["out", "csv", "shard", "merge", "report"])]
    pub series: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub how: HowArgs,
}

impl RunArgs {
    /// Where the JSON lines go.
    pub fn results(&self) -> PathBuf {
        let mut name = self.file.file_stem().unwrap_or("results".as_ref()).to_owned();
        name.push(".jsonl");
        match &self.out {
            None => name.into(),
            Some(path) if path.extension().is_some_and(|e| e == "jsonl") => path.clone(),
            Some(dir) => dir.join(name),
        }
    }
}

const REPRODUCE_AFTER: &str = "\
Every claim is judged by its own tolerance, and what differs says why. Nothing is tuned to agree:
the exit status is 0 whatever the verdicts are.

Examples:
  tack lab reproduce                          every figure, usual extent
  tack lab reproduce T-6b L8 custura --short
  tack lab reproduce --out figures/ --report figures.html
  tack lab reproduce T-6b --set seeds=20 --set wan.up.loss=0.1 --only poor
  tack lab reproduce T-18 --only 'TACK,TCP BBR'
  tack lab reproduce my-T-6b.toml --out mine/
  tack lab reproduce tack --shard 1/4 --out part1/
  tack lab reproduce tack --merge part*/runs.jsonl --out all/";

/// Put the papers' figures beside ours.
#[derive(Clone, Debug, Args)]
#[command(after_help = REPRODUCE_AFTER)]
pub struct ReproduceArgs {
    /// Papers (tack, landstrom, custura), figures by id, or files of your own [default: all]
    #[arg(value_name = "WHICH")]
    pub which: Vec<String>,
    /// Write the tables of the short extent beside the files under DIR/experiments, and DIR/RESULTS.md
    #[arg(long, value_name = "DIR", requires = "short", conflicts_with_all = ["set", "only"])]
    pub bless: Option<PathBuf>,
    /// How they run and what is shown.
    #[command(flatten)]
    pub figure: FigureArgs,
}

/// How figures run, and what is shown of them.
#[derive(Clone, Debug, Args)]
pub struct FigureArgs {
    /// Keep runs.jsonl in this directory, and write findings, and SVG, PNG, CSV and JSON files of
    /// each figure
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// What is changed of the files.
    #[command(flatten)]
    pub change: ChangeArgs,
    /// Where results are kept.
    #[command(flatten)]
    pub store: StoreArgs,
    /// How it runs.
    #[command(flatten)]
    pub how: HowArgs,
}

impl ReproduceArgs {
    /// The files that were named.
    pub fn files(&self) -> Result<Vec<FigureFile>, Failure> {
        if self.which.is_empty() {
            return Ok(bundle::figures().into_iter().map(FigureFile::from).collect());
        }
        let files = files(&self.which)?;
        match files.iter().find(|file| !file.is_bundled).filter(|_| self.bless.is_some()) {
            Some(own) => {
                let why = format!("--bless is for the repository's own files, not {}", own.path);
                Err(Failure::usage(why))
            }
            None => Ok(files),
        }
    }
}

/// A file with a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureFile {
    /// Under `experiments/`, or the user's own.
    pub path: String,
    /// What it says.
    pub text: String,
    /// It is one of the repository's.
    pub is_bundled: bool,
}

impl From<(&str, &str)> for FigureFile {
    fn from((path, text): (&str, &str)) -> Self {
        FigureFile { path: path.to_owned(), text: text.to_owned(), is_bundled: true }
    }
}

/// The files that `all` name: papers and ids of the repository, and paths, which have a slash or end
/// in `.toml`.
pub fn files(all: &[String]) -> Result<Vec<FigureFile>, Failure> {
    let mut files: Vec<FigureFile> = Vec::new();
    for which in all {
        let mut found: Vec<FigureFile> =
            bundle::find(which).into_iter().map(FigureFile::from).collect();
        if found.is_empty() && (which.contains('/') || which.ends_with(".toml")) {
            let text = std::fs::read_to_string(which)
                .map_err(|e| Failure::new(ExitCode::Failed, format!("{which}: {e}")))?;
            found.push(FigureFile { path: which.clone(), text, is_bundled: false });
        }
        if found.is_empty() {
            let why =
                format!("`{which}` is no paper, no figure and no .toml file: {}", bundle::names());
            return Err(Failure::usage(why));
        }
        found.retain(|file| !files.contains(file));
        files.extend(found);
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart_by_commas_though_they_have_some_themselves() {
        let names = ["TACK", "TCP BBR", "TCP BBR, Linux's ACKs", "20 ms, 1 %"];
        for (list, chosen) in [
            ("TACK", vec!["TACK"]),
            ("TACK,TCP BBR", vec!["TACK", "TCP BBR"]),
            ("TCP BBR, Linux's ACKs", vec!["TCP BBR, Linux's ACKs"]),
            ("TCP BBR, TACK", vec!["TCP BBR", "TACK"]),
            ("20 ms, 1 %,TCP BBR, Linux's ACKs,TACK", vec![names[3], names[2], names[0]]),
        ] {
            assert_eq!(named(list, &names).unwrap(), chosen, "{list}");
        }
        assert_eq!(named("TACK, Linux's ACKs", &names).unwrap_err(), "Linux's ACKs");
        assert_eq!(named("", &names).unwrap_err(), "");
    }
}
