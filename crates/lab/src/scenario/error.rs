//! Where a scenario file is wrong, and how to mend it.

use std::fmt;

/// A problem found by checking values: a dotted key and a sentence about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) key: String,
    pub(crate) what: String,
}

impl Problem {
    pub(crate) fn new(key: impl Into<String>, what: impl Into<String>) -> Self {
        Problem { key: key.into(), what: what.into() }
    }

    /// The same of a key of the table `table`.
    pub(crate) fn of(self, table: &str) -> Self {
        Problem { key: format!("{table}.{}", self.key), ..self }
    }
}

/// As people write it: not with three hundred digits.
pub(crate) fn plain(v: f64) -> String {
    let has_few_digits = v == 0.0 || (1e-9..1e16).contains(&v.abs());
    if has_few_digits || !v.is_finite() { v.to_string() } else { format!("{v:e}") }
}

/// Refuses a value that is there and does not lie between `least` and `most`.
pub(crate) fn within(
    key: &str,
    value: impl Into<Option<f64>>,
    least: f64,
    most: f64,
) -> Result<(), Problem> {
    match value.into() {
        Some(v) if !(least..=most).contains(&v) => {
            let what = format!("is {}, but must lie between {least} and {most}", plain(v));
            Err(Problem::new(key, what))
        }
        _ => Ok(()),
    }
}

/// Refuses a value that is not above 0 and at most `most`.
pub(super) fn above_zero(key: &str, v: f64, most: f64) -> Result<(), Problem> {
    if v > 0.0 && v <= most {
        return Ok(());
    }
    Err(Problem::new(key, format!("is {}, but must be above 0 and at most {most}", plain(v))))
}

/// A mistake in a scenario file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScenarioError {
    /// Line, counted from 1; `None` when the file says nothing about the key at all.
    pub line: Option<usize>,
    /// Dotted key, empty where the text is not TOML.
    pub key: String,
    /// What is wrong with it and what would be right.
    pub what: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "`{}` ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for ScenarioError {}

impl ScenarioError {
    /// `key` is wrong; its line (or that of the nearest parent the file names) is looked up.
    pub(crate) fn at(text: &str, key: &str, what: String) -> Self {
        ScenarioError { line: line_of(text, key), key: key.to_owned(), what }
    }

    /// The same of what was found by checking values.
    pub(crate) fn of(text: &str, Problem { key, what }: Problem) -> Self {
        ScenarioError::at(text, &key, what)
    }

    /// The text is not TOML, or a key has the wrong name or type.
    pub(crate) fn from_toml(text: &str, e: &toml::de::Error) -> Self {
        let line = e.span().map(|s| line_at(text, s.start));
        let key = e.span().and_then(|s| key_in(text, &s).or_else(|| key_at(text, s.start)));
        let key = key.unwrap_or_default();
        ScenarioError { line, key, what: plainly(e.message()) }
    }
}

/// What is wrong with a table that has no text any more: the dotted key as far as it is known, and what.
pub(super) fn of_table(e: &toml::de::Error) -> Problem {
    let whole = e.to_string();
    let within = whole.lines().last().and_then(|l| l.strip_prefix("in `")?.strip_suffix('`'));
    let unknown = e.message().strip_prefix("unknown field `").and_then(|m| m.split_once('`'));
    let parts = within.into_iter().chain(unknown.map(|u| u.0));
    Problem::new(parts.collect::<Vec<_>>().join("."), plainly(e.message()))
}

/// What toml says in words of Rust, in those of a file.
fn plainly(message: &str) -> String {
    const WORDS: [(&str, &str); 6] = [
        // What it says of a number where a variant's name should be is as strange as it is wrong.
        ("invalid type: unit variant, expected string only", "wanted string or table"),
        (
            "invalid type: map, expected a sequence",
            "is one table, but must be a list of them: [[…]]",
        ),
        ("expected a tuple of size 2", "expected a list of two values"),
        ("expected f64", "expected a number"),
        ("expected u64", "expected a whole number from 0 on"),
        ("expected u32", "expected a whole number from 0 to 4294967295"),
    ];
    let plain = WORDS.iter().fold(message.replace('\n', " "), |m, (from, to)| m.replace(from, to));
    plain.trim().to_owned()
}

fn line_at(text: &str, offset: usize) -> usize {
    let end = offset.min(text.len());
    text.as_bytes()[..end].iter().filter(|&&b| b == b'\n').count() + 1
}

/// The key that `span` is, if a value is behind it.
fn key_in(text: &str, span: &core::ops::Range<usize>) -> Option<String> {
    let key = text.get(span.clone())?.trim_matches('"');
    let is_key = text.get(span.end..)?.trim_start().starts_with('=');
    (is_key && !key.is_empty() && key.len() < 80).then(|| key.to_owned())
}

/// The key written on the line of `offset`, for messages about its value.
fn key_at(text: &str, offset: usize) -> Option<String> {
    let line = text.lines().nth(line_at(text, offset) - 1)?;
    let key = match line.split_once('=') {
        Some((key, _)) => key,
        None => line.trim().trim_matches(['[', ']']),
    };
    let key = key.trim().trim_matches('"');
    (!key.is_empty() && key.len() < 80).then(|| key.to_owned())
}

/// The line that defines `key`, else that of its nearest parent. Parts of a key that the file writes as
/// one, in quotes, are found as one, and entries of lists go by number.
pub(crate) fn line_of(text: &str, key: &str) -> Option<usize> {
    let document = toml::de::DeTable::parse(text).ok()?;
    let parts: Vec<&str> = key.split('.').collect();
    let offset = offset_in_table(document.get_ref(), &parts)?;
    Some(line_at(text, offset))
}

/// Where the value that `parts` lead to begins, or its key, or what leads there of it.
fn offset_in_table(table: &toml::de::DeTable<'_>, parts: &[&str]) -> Option<usize> {
    (1..=parts.len()).find_map(|taken| {
        let (name, value) = table.get_key_value(parts[..taken].join(".").as_str())?;
        offset_in(value, &parts[taken..]).or(Some(name.span().start))
    })
}

fn offset_in(value: &toml::Spanned<toml::de::DeValue<'_>>, parts: &[&str]) -> Option<usize> {
    match (value.get_ref(), parts) {
        (toml::de::DeValue::Table(_), []) => None,
        (toml::de::DeValue::Table(table), parts) => offset_in_table(table, parts),
        (toml::de::DeValue::Array(_), []) => None,
        (toml::de::DeValue::Array(items), [first, rest @ ..]) => match first.parse::<usize>() {
            Ok(i) => {
                let item = items.get(i)?;
                offset_in(item, rest).or(Some(item.span().start))
            }
            // Whoever wrote the key did not know which entry; the first that has it.
            Err(_) => items.iter().find_map(|item| offset_in(item, parts)),
        },
        _ => Some(value.span().start),
    }
}
