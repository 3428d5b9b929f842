//! Every experiment and scenario of the repository with one mistake in it: refused with the line of the
//! mistake, or planned. Never a panic, never without end.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_lab::bundle;
use tack_lab::experiment::{Experiment, Extent};
use tack_lab::plan::{experiment_or_scenario, plan};
use tack_lab::scenario::ScenarioError;

const ROUNDS: u64 = 1_500;
/// What no file waits for: a plan takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// Values of all types, and numbers that nobody means.
const VALUES: &[&str] = &[
    "-1",
    "0",
    "-0.5",
    "1e300",
    "4294967296",
    "9223372036854775807",
    "nan",
    "inf",
    "true",
    "\"text\"",
    "\"\"",
    "[]",
    "[1, \"a\"]",
    "[[]]",
    "{}",
    "{ a = 1 }",
    "1979-05-27",
];

/// A file with a mistake.
struct Mutant {
    text: String,
    /// Where the mistake is; none where a line is missing.
    line: Option<usize>,
    /// What was there, and what is there now: a message at another place that hangs on it says one.
    words: [String; 2],
}

impl Mutant {
    /// The line of an error is the header of the table that the mistake is in: what serde knows of
    /// values by their `kind`.
    fn is_of_table_at(&self, line: usize, mistake: usize) -> bool {
        let is_header = |l: &&&str| l.starts_with('[') && !l.starts_with("[[\"");
        let lines: Vec<&str> = self.text.lines().collect();
        let headers = |from: usize, to: usize| {
            lines.get(from - 1..to).map_or(0, |part| part.iter().filter(is_header).count())
        };
        line < mistake && headers(line, line) == 1 && headers(line, mistake) == 1
    }

    fn is_said_in(&self, message: &str) -> bool {
        self.words.iter().any(|word| word.len() > 1 && message.contains(word.trim_matches('"')))
    }
}

fn files() -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = bundle::FILES
        .iter()
        .filter(|(path, _)| !path.starts_with("rivals/"))
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for dir in [scenarios.clone(), scenarios.join("envelope")] {
        let mut paths: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        paths.retain(|path| path.is_file());
        paths.sort();
        files.extend(
            paths
                .iter()
                .map(|path| (path.display().to_string(), std::fs::read_to_string(path).unwrap())),
        );
    }
    files
}

/// Where the numbers, texts and truths of a line lie, its keys left out.
fn scalars(line: &str) -> Vec<core::ops::Range<usize>> {
    let Some(value) = line.find('=').map(|at| at + 1) else { return Vec::new() };
    let is_part = |b: u8| b.is_ascii_alphanumeric() || b"_.-+".contains(&b);
    let bytes = line.as_bytes();
    let (mut found, mut i) = (Vec::new(), value);
    while i < bytes.len() {
        let start = i;
        if bytes[i] == b'"' {
            i = bytes[i + 1..].iter().position(|b| *b == b'"').map_or(bytes.len(), |n| i + n + 2);
        } else if is_part(bytes[i]) {
            i += bytes[i..].iter().take_while(|b| is_part(**b)).count();
        } else {
            i += 1;
            continue;
        }
        // What an equals sign follows is a key.
        if !line[i.min(line.len())..].trim_start().starts_with('=') {
            found.push(start..i.min(line.len()));
        }
    }
    found
}

/// One mistake, at random; nothing where the drawn line has no place for the drawn mistake.
fn mutant(text: &str, rng: &mut Pcg64) -> Option<Mutant> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = rng.random_range(0..lines.len());
    let line = lines[at].clone();
    // A text of several lines ends elsewhere, and so does what is wrong with it.
    let in_text = lines[..at].join("\n").matches("\"\"\"").count() % 2 == 1;
    if in_text || line.contains("\"\"\"") {
        return None;
    }
    let mut words = [String::new(), String::new()];
    let mut where_it_is = Some(at + 1);
    match rng.random_range(0..8) {
        0 => {
            lines.remove(at);
            where_it_is = None;
        }
        1 => {
            lines.insert(at, line);
            // An empty entry of a list shifts the numbers of those behind it.
            let is_entry = lines[at].starts_with("[[");
            where_it_is = (!is_entry).then_some(at + 2);
        }
        2 => {
            let key = line.find('=').filter(|_| !line.starts_with(' '))?;
            let letter = line[..key].rfind(|c: char| c.is_alphanumeric())?;
            words[0] = line[..=letter].trim_matches(['"', ' ']).to_owned();
            lines[at].insert(letter + 1, 'x');
        }
        3 => {
            let record = lines[at..].iter().position(|l| l.starts_with("[[")).map(|n| at + n)?;
            let end = lines[record + 1..].iter().position(|l| l.starts_with('['));
            let end = end.map_or(lines.len(), |n| record + 1 + n);
            let copy = lines[record..end].to_vec();
            lines.splice(end..end, copy);
            where_it_is = None;
        }
        _ => {
            let places = scalars(&line);
            let place = places.get(rng.random_range(0..places.len().max(1)))?;
            let value = VALUES[rng.random_range(0..VALUES.len())];
            words = [line[place.clone()].to_owned(), value.to_owned()];
            lines[at].replace_range(place.clone(), value);
        }
    }
    Some(Mutant { text: lines.join("\n") + "\n", line: where_it_is, words })
}

fn planned(text: &str) -> Result<(), ScenarioError> {
    let experiment = experiment_or_scenario(text, "mutant")?;
    if experiment.base.is_none() {
        return Experiment::parse(text).map(|_| ());
    }
    [Extent::Short, Extent::Usual, Extent::Full]
        .into_iter()
        .try_for_each(|extent| plan(&experiment, extent, text).map(|_| ()))
}

/// The text of the mistake, if this file breaks a promise.
fn broken(name: &str, mutant: &Mutant) -> Option<String> {
    let refused = match std::panic::catch_unwind(|| planned(&mutant.text)) {
        Err(_) => return Some("panics".to_owned()),
        Ok(Ok(())) => return None,
        Ok(Err(e)) => e,
    };
    let shown = |line: usize| mutant.text.lines().nth(line - 1).unwrap_or("(none)").to_owned();
    let wrong = |what: &str| {
        let mistake = mutant.line.map(|line| format!("line {line}: {}", shown(line)));
        let named = refused.line.map(shown).unwrap_or_default();
        let mistake = mistake.unwrap_or_default();
        Some(format!(
            "{name}: {what}\n  error    {refused}\n  names    {named}\n  mistake  {mistake}"
        ))
    };
    let lines = mutant.text.lines().count();
    match (refused.line, mutant.line) {
        (None, Some(_)) => wrong("names no line"),
        (Some(line), _) if line == 0 || line > lines + 1 => wrong("names no line of the file"),
        (Some(line), Some(mistake)) if line != mistake => {
            let near =
                mutant.is_said_in(&refused.to_string()) || mutant.is_of_table_at(line, mistake);
            if near { None } else { wrong("names another line") }
        }
        _ => None,
    }
}

#[test]
fn a_file_with_one_mistake_is_refused_with_its_line_or_planned() {
    let rounds = std::env::var("TACK_MUTATIONS").ok().and_then(|n| n.parse().ok());
    let (said, hear) = mpsc::channel();
    #[allow(clippy::disallowed_methods, reason = "what has no end must not keep the test")]
    std::thread::spawn(move || {
        let files = files();
        for seed in 0..rounds.unwrap_or(ROUNDS) {
            let mut rng = Pcg64::seed_from_u64(seed);
            let (name, text) = &files[rng.random_range(0..files.len())];
            let mutant = mutant(text, &mut rng);
            let _ = said.send((format!("seed {seed} of {name}"), None));
            let broken = mutant.and_then(|mutant| broken(name, &mutant));
            let _ = said.send((format!("seed {seed} of {name}"), broken));
        }
    });
    let (mut last, mut broken) = (String::new(), Vec::new());
    loop {
        match hear.recv_timeout(PATIENCE) {
            Ok((name, what)) => {
                broken.extend(what.map(|what| format!("{name}: {what}")));
                last = name;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{last} is without end"),
        }
    }
    assert!(broken.is_empty(), "{} broken:\n{}", broken.len(), broken.join("\n"));
}
