//! `tack lab run`, `tack lab reproduce`, and the commands that run a file of the repository with
//! changes: one way from a plan to its records and what is shown of them.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use serde_json::json;
use tack_lab::backend::record_of;
use tack_lab::claim::Finding;
use tack_lab::experiment::{Experiment, Extent};
use tack_lab::host::{Controllers, Host};
use tack_lab::item::{Backend, Item, Plan, distinct};
use tack_lab::output::write_csv;
use tack_lab::plan::experiment_or_scenario;
#[cfg(feature = "png")]
use tack_lab::png::png;
use tack_lab::record::Record;
use tack_lab::recorder::run_items;
use tack_lab::reproduce::{Loaded, Report, findings_text};
use tack_lab::scenario::Stack;
use tack_lab::store::merge;
use tack_lab::svg::{Plot, stacked};
use tack_lab::{Recordings, bundle, html, results, simulate_recorded};

use super::{at, failed, interruptible, print_json, progress, recorder, texts, typed, why_stopped};
use crate::args::lab::{
    CompareArgs, FigureArgs, FigureFile, HowArgs, ReproduceArgs, RunArgs, StoreArgs, files,
};
use crate::exit::{ExitCode, Failure};
use crate::terminal::print;
use crate::terminal::say;

/// What came of the runs.
struct Outcome {
    /// By run; those of an interrupted part are missing.
    records: BTreeMap<String, Record>,
    /// Why some are missing.
    stopped: Option<Failure>,
}

/// Runs what `items` still need, keeping it in `path`.
fn execute(
    items: &[Item],
    path: Option<&Path>,
    args: &StoreArgs,
    how: &HowArgs,
) -> Result<Outcome, Failure> {
    if !args.merge.is_empty() {
        return merged(items, path, args);
    }
    let controller = |item: &Item| item.scenario.controllers().min().map(str::to_owned);
    if let Some((item, name)) = items.iter().find_map(|item| Some((item, controller(item)?))) {
        let why = format!(
            "{}: `controller` is \"{name}\", which a program of Python's brings: docs/python.md; the \
             names that a command knows are those of `cc`",
            item.scenario.name
        );
        return Err(Failure::usage(why));
    }
    let own: Vec<Item> = match args.shard {
        None => items.to_vec(),
        Some((i, n)) => items.iter().skip(i - 1).step_by(n).cloned().collect(),
    };
    let recorder = recorder::<Record>(path, !args.no_resume, progress(how.quiet))?;
    let missing = recorder.store().missing(&own);
    let bar = recorder.progress();
    bar.set_length(own.len() as u64);
    bar.set_position((own.len() - missing.len()) as u64);
    bar.reset_eta();
    let (work, jobs) = (Arc::clone(&recorder), how.jobs);
    let stops = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stops);
    let work = move || {
        let go_on = || !told.load(Ordering::Relaxed);
        let host = Host { controllers: &Controllers::new(), go_on: &go_on };
        run_items(missing, jobs, &*work, host)
    };
    let done = interruptible(work, Some(&stops))?;
    recorder.progress().finish_and_clear();
    let records = recorder.end();
    let have = own.iter().filter(|item| records.contains_key(&item.id)).count();
    let kept = path.map(|p| format!("{have} of {} runs are in {}", own.len(), p.display()));
    Ok(Outcome { records, stopped: why_stopped(done, kept) })
}

/// Takes the results of other files, beside what is there already of other runs.
fn merged(items: &[Item], path: Option<&Path>, args: &StoreArgs) -> Result<Outcome, Failure> {
    let runs: Vec<String> = items.iter().map(|item| item.id.clone()).collect();
    let describe = |run: &String| {
        items.iter().find(|item| item.id == *run).map_or(run.clone(), Item::describe)
    };
    let records: Vec<Record> = merge(&texts(&args.merge)?, &runs, describe).map_err(failed)?;
    let recorder = recorder(path, !args.no_resume, ProgressBar::hidden())?;
    for record in records {
        recorder.store().append(record).map_err(failed)?;
    }
    let told = path
        .map(|p| format!("; all {} results are in {}, in another order", runs.len(), p.display()));
    let arranged = recorder.store().arrange(&runs);
    arranged.map_err(|e| failed(format!("{e}{}", told.unwrap_or_default())))?;
    Ok(Outcome { records: recorder.end(), stopped: None })
}

/// Refuses a file that cannot be written, before the work whose results go there.
fn can_write(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    is_a_file(path)?;
    // Where there can be no such directory, the file says why.
    let _ = path.parent().map(std::fs::create_dir_all);
    let is_new = !path.exists();
    OpenOptions::new().append(true).create(true).open(path).map_err(|e| at(path, e))?;
    if is_new { std::fs::remove_file(path).map_err(|e| at(path, e)) } else { Ok(()) }
}

/// Refuses what elsewhere is standard output.
fn is_a_file(path: &Path) -> Result<(), Failure> {
    if path != Path::new("-") {
        return Ok(());
    }
    let why = "`-` is not standard output here, which has tables or JSON: what goes to files may go to ./-";
    Err(Failure::usage(why))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|e| at(path, e))
}

/// `tack lab run`.
pub(super) fn run_file(args: &RunArgs) -> Result<ExitCode, Failure> {
    let text = std::fs::read_to_string(&args.file).map_err(|e| at(&args.file, e))?;
    let wrong = |e| args.change.wrong(args.file.display(), &e);
    let stem = args.file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let mut experiment = [experiment_or_scenario(&text, &stem).map_err(wrong)?];
    args.change.apply(&mut experiment, args.store.extent())?;
    let [experiment] = experiment;
    let loaded = Loaded::of(experiment, &text, args.store.extent()).map_err(wrong)?;
    args.out.iter().try_for_each(|out| is_a_file(out))?;
    can_write(args.store.report.as_deref())?;
    if args.pcap.is_some() || args.series.is_some() {
        return record(args, &loaded);
    }
    let path = args.results();
    let items = distinct(&[&loaded.plan]);
    let outcome = execute(&items, Some(&path), &args.store, &args.how)?;
    if args.csv {
        let csv = path.with_extension("csv");
        let mut out = BufWriter::new(File::create(&csv).map_err(|e| at(&csv, e))?);
        let records = items.iter().filter_map(|i| outcome.records.get(&i.id));
        write_csv(records, &mut out).and_then(|()| out.flush()).map_err(|e| at(&csv, e))?;
    }
    if let Some(stopped) = outcome.stopped {
        return Err(Failure {
            message: format!("{}: {}", args.file.display(), stopped.message),
            ..stopped
        });
    }
    let Some(report) = loaded.report(&outcome.records) else {
        say(format_args!("part of {} runs in {}", items.len(), path.display()));
        return Ok(ExitCode::Success);
    };
    let whole = vec![(loaded, report)];
    write_page(args.store.report.as_deref(), &whole, &typed())?;
    if args.json {
        print_json(&whole[0].0.json(&whole[0].1, &outcome.records))?;
        return any_figures(&items, &outcome);
    }
    print(whole[0].1.text().as_bytes())?;
    say(format_args!("{} runs in {}", items.len(), path.display()));
    any_figures(&items, &outcome)
}

/// Success, unless every run is void: then the first one's reason.
fn any_figures(items: &[Item], outcome: &Outcome) -> Result<ExitCode, Failure> {
    let void = |item: &Item| outcome.records.get(&item.id)?.void.as_deref();
    let why: Option<Vec<&str>> = items.iter().map(void).collect();
    let Some(first) = why.as_deref().map(|why| why.first()) else {
        return Ok(ExitCode::Success);
    };
    let is_live = items.iter().any(|item| item.backend == Backend::Live);
    let remedy = if is_live { " (a busy machine: leave it alone, or try `chrt -r 1`)" } else { "" };
    let why = first.map_or(String::new(), |why| format!(": {why}{remedy}"));
    Err(failed(format!("no run gave figures{why}")))
}

fn record(args: &RunArgs, loaded: &Loaded) -> Result<ExitCode, Failure> {
    let [item] = loaded.plan.items.as_slice() else {
        let why = format!(
            "--pcap and --series record one run, but {} asks for {}: set runs = 1 and sweep nothing",
            args.file.display(),
            loaded.plan.items.len()
        );
        return Err(Failure::usage(why));
    };
    let is_simulated = match item.backend {
        Backend::Sim | Backend::SimAndIdeal | Backend::SimAndResponse => true,
        Backend::Live => item.scenario.stack == Some(Stack::Simulated),
        Backend::OpenLoop | Backend::OpenLoopRelay | Backend::Formula => false,
    };
    if !is_simulated {
        let why = format!(
            "--pcap and --series record simulated runs, and {} has another `backend`",
            args.file.display()
        );
        return Err(Failure::usage(why));
    }
    args.pcap.iter().chain(&args.series).try_for_each(|path| is_a_file(path))?;
    let open = |path: &Option<PathBuf>| -> Result<Option<Box<dyn Write + Send>>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let file = File::create(path).map_err(|e| at(path, e))?;
        Ok(Some(Box::new(BufWriter::new(file))))
    };
    let recordings = Recordings { packets: open(&args.pcap)?, series: open(&args.series)? };
    let scenario = item.scenario.clone();
    let done = interruptible(move || simulate_recorded(&scenario, recordings), None)?;
    let Some(result) = done else {
        return Err(Failure::new(ExitCode::Interrupted, "stopped; recordings are incomplete"));
    };
    let result = result.map_err(|e| at(&args.file, format!("{e:#}")))?;
    let record = record_of(item, &result).map_err(failed)?;
    let records = BTreeMap::from([(item.id.clone(), record)]);
    let report = loaded.report(&records).ok_or_else(|| failed("the run is missing"))?;
    match args.json {
        true => print_json(&loaded.json(&report, &records)),
        false => print(report.text().as_bytes()),
    }
}

/// `tack lab reproduce`.
pub(super) fn reproduce(args: &ReproduceArgs) -> Result<ExitCode, Failure> {
    let papers = Papers { bless: args.bless.as_deref(), document: None };
    show(&args.files()?, &args.figure, papers, &typed())
}

/// A command that is named after files: those, as `reproduce` runs them.
pub(super) fn figures(which: &[&str], args: &FigureArgs) -> Result<ExitCode, Failure> {
    let which: Vec<String> = which.iter().map(|w| (*w).to_owned()).collect();
    show(&files(&which)?, args, Papers::default(), &typed())
}

/// What is written for the repository.
#[derive(Clone, Copy, Default)]
pub(super) struct Papers<'a> {
    /// Blessed tables and RESULTS.md, under this directory.
    pub(super) bless: Option<&'a Path>,
    /// What runs in real time gave, into this file, with where and when.
    pub(super) document: Option<(&'a Path, &'a str)>,
}

/// The files as they are to run, without those of which `--only` leaves nothing.
fn load<'a>(
    files: &'a [FigureFile],
    args: &FigureArgs,
) -> Result<Vec<(&'a String, Loaded)>, Failure> {
    let extent = args.store.extent();
    let wrong = |file: &FigureFile, e| args.change.wrong(&file.path, &e);
    let read = |file: &FigureFile| {
        experiment_or_scenario(&file.text, bundle::stem(&file.path)).map_err(|e| wrong(file, e))
    };
    let mut experiments: Vec<_> = files.iter().map(read).collect::<Result<_, _>>()?;
    let left = args.change.apply(&mut experiments, extent)?;
    let mut all = Vec::new();
    for ((file, experiment), is_left) in files.iter().zip(experiments).zip(left) {
        if !is_left {
            say(format_args!("without {}: --only leaves nothing of it", experiment.id));
            continue;
        }
        let loaded = Loaded::of(experiment, &file.text, extent).map_err(|e| wrong(file, e))?;
        all.push((&file.path, loaded));
    }
    let mut named: BTreeMap<String, &str> = BTreeMap::new();
    for (path, loaded) in &all {
        if let Some(other) = named.insert(loaded.experiment.file_name(), path) {
            let why = format!(
                "{other} and {path} are both called {}, and so would be what is written of them: \
                 give one another `id`",
                loaded.experiment.id
            );
            return Err(Failure::usage(why));
        }
    }
    match all.is_empty() {
        true => Err(Failure::usage("--only leaves nothing: no file has all that it names")),
        false => Ok(all),
    }
}

pub(super) fn show(
    files: &[FigureFile],
    args: &FigureArgs,
    papers: Papers<'_>,
    command: &str,
) -> Result<ExitCode, Failure> {
    if args.store.shard.is_some() && args.out.is_none() {
        let why = "--shard needs --out DIR: a part that is kept nowhere is part of nothing";
        return Err(Failure::usage(why));
    }
    let all = load(files, args)?;
    args.out.iter().try_for_each(|out| is_a_file(out))?;
    can_write(args.store.report.as_deref())?;
    can_write(papers.document.map(|document| document.0))?;
    let plans: Vec<&Plan> = all.iter().map(|(_, loaded)| &loaded.plan).collect();
    let items = distinct(&plans);
    let store = args.out.as_ref().map(|dir| dir.join("runs.jsonl"));
    let outcome = execute(&items, store.as_deref(), &args.store, &args.how)?;
    if let Some(stopped) = outcome.stopped {
        return Err(stopped);
    }
    if args.store.shard.is_some() {
        say(format_args!("a part of {} runs; --merge puts parts together", items.len()));
        return Ok(ExitCode::Success);
    }
    let mut whole = Vec::new();
    for (path, loaded) in all {
        let report = loaded.report(&outcome.records).ok_or_else(|| failed("runs are missing"))?;
        if let Some(dir) = papers.bless {
            let file = dir.join("experiments").join(path).with_extension("md");
            write(&file, results::blessed(&report).as_bytes())?;
        }
        whole.push((loaded, report));
    }
    if let Some((path, setting)) = papers.document {
        write(path, results::of_real_time(&whole, command, setting).as_bytes())?;
    }
    if let Some(dir) = papers.bless {
        let text = results::document(&dir.join("experiments")).map_err(|e| at(dir, e))?;
        write(&dir.join("RESULTS.md"), text.as_bytes())?;
    }
    write_page(args.store.report.as_deref(), &whole, command)?;
    if let Some(dir) = &args.out {
        for (loaded, report) in &whole {
            write_figure(dir, loaded, report, &outcome.records)?;
        }
        let page = dir.join("report.html");
        write_page(Some(&page), &whole, command)?;
        let text = summary(&whole);
        write(&dir.join("findings.txt"), text.as_bytes())?;
    }
    if args.json {
        let findings: Vec<&Finding> = whole.iter().flat_map(|(_, r)| &r.findings).collect();
        let figures: Vec<_> = whole.iter().map(|(l, r)| l.json(r, &outcome.records)).collect();
        print_json(&json!({ "findings": findings, "figures": figures }))?;
    } else {
        print(summary(&whole).as_bytes())?;
    }
    any_figures(&items, &outcome)
}

fn summary(whole: &[(Loaded, Report)]) -> String {
    let mut text = String::new();
    for (loaded, report) in whole {
        text += &format!("== {}\n", loaded.experiment.heading());
        for shown in &report.shown {
            text += &format!("{}\n", shown.table.text());
        }
    }
    let findings: Vec<Finding> = whole.iter().flat_map(|(_, r)| r.findings.clone()).collect();
    if !findings.is_empty() {
        text += &findings_text(&findings);
    }
    for void in whole.iter().flat_map(|(_, r)| &r.void) {
        text += &format!("void: {void}\n");
    }
    text
}

fn write_page(
    path: Option<&Path>,
    whole: &[(Loaded, Report)],
    command: &str,
) -> Result<(), Failure> {
    path.map_or(Ok(()), |path| write(path, html::page(whole, command).as_bytes()))
}

/// Pictures, tables and judgments of a figure, as files.
fn write_figure(
    dir: &Path,
    loaded: &Loaded,
    report: &Report,
    records: &BTreeMap<String, Record>,
) -> Result<(), Failure> {
    let id = loaded.experiment.file_name();
    let numbered = |name: &str, n: usize, of: usize| match of {
        1 => name.to_owned(),
        _ => format!("{name}-{}", n + 1),
    };
    // A view's table and its pictures have one number.
    for (n, shown) in report.shown.iter().enumerate() {
        let view = numbered(&id, n, report.shown.len());
        write(&dir.join(format!("{view}.csv")), shown.data.csv().as_bytes())?;
        for (panel, plot) in shown.plots.iter().enumerate() {
            let (name, svg) = (numbered(&view, panel, shown.plots.len()), plot.svg());
            write(&dir.join(format!("{name}.svg")), svg.as_bytes())?;
            #[cfg(feature = "png")]
            write(&dir.join(format!("{name}.png")), &png(&svg).map_err(failed)?)?;
        }
    }
    let mut text = serde_json::to_vec_pretty(&loaded.json(report, records)).map_err(failed)?;
    text.push(b'\n');
    write(&dir.join(format!("{id}.json")), &text)
}

/// `tack lab compare`.
pub(super) fn compare(args: &CompareArgs) -> Result<ExitCode, Failure> {
    if let Some(path) = &args.plot {
        // Not after minutes of work.
        File::create(path).map_err(|e| at(path, e))?;
    }
    let (path, text) =
        *bundle::find("compare").first().ok_or_else(|| failed("there is no such file"))?;
    let wrong = |e| Failure::usage(format!("{path}, {e}"));
    let mut experiment = Experiment::parse(text).map_err(wrong)?;
    args.apply(&mut experiment)?;
    let loaded = Loaded::of(experiment, text, Extent::Usual).map_err(wrong)?;
    let items = distinct(&[&loaded.plan]);
    let Outcome { records, stopped } = execute(&items, None, &StoreArgs::default(), &args.how)?;
    stopped.map_or(Ok(()), Err)?;
    let report = loaded.report(&records).ok_or_else(|| failed("runs are missing"))?;
    if let Some(path) = &args.plot {
        let plots: Vec<Plot> = report.shown.iter().flat_map(|s| s.plots.clone()).collect();
        write(path, stacked(&plots).as_bytes())?;
    }
    match (args.json, args.csv) {
        (true, _) => print_json(&loaded.json(&report, &records)),
        (_, true) => {
            print(report.shown.first().map(|s| s.data.csv()).unwrap_or_default().as_bytes())
        }
        _ => print(report.text().as_bytes()),
    }
}
