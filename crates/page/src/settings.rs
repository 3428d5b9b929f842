//! The answers to every question, and the link that has them.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::choices::{CHOICES, Choice};

/// Longest link that is read, bytes. One with every answer has a tenth of it.
const MAX_LINK_BYTES: usize = 4_096;

/// Most that is said to be wrong with a link: more than there are questions is no longer read by anybody.
const MAX_PROBLEMS: usize = 16;

/// An answer to each of [`CHOICES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    answers: BTreeMap<&'static str, String>,
}

impl Default for Settings {
    /// Those of a page that was just opened.
    fn default() -> Self {
        Settings { answers: CHOICES.iter().map(|c| (c.key, c.usual.to_owned())).collect() }
    }
}

impl Settings {
    /// Reads `phy=g&rtt=20`, what comes after the `#` of a link, and says what of it cannot be used.
    /// What is missing or cannot be used is as usual.
    pub fn from_link(link: &str) -> (Settings, Vec<String>) {
        let (mut settings, mut problems) = (Settings::default(), Vec::new());
        if link.len() > MAX_LINK_BYTES {
            problems.push(format!("the link is longer than {MAX_LINK_BYTES} bytes"));
            return (settings, problems);
        }
        for part in link.trim_start_matches('#').split('&').filter(|part| !part.is_empty()) {
            let (key, answer) = part.split_once('=').unwrap_or((part, ""));
            match Choice::find(key).map(|choice| (choice, choice.checked(answer))) {
                Some((choice, Ok(taken))) => {
                    problems.extend(choice.rounded(answer, &taken));
                    settings.answers.insert(choice.key, taken);
                }
                Some((_, Err(problem))) => problems.push(problem),
                None => {
                    problems.push(format!("the link asks for `{key}`, which is not on this page"))
                }
            }
        }
        if problems.len() > MAX_PROBLEMS {
            let more = problems.len() - MAX_PROBLEMS;
            problems.truncate(MAX_PROBLEMS);
            problems.push(format!("and {more} more of the link cannot be used"));
        }
        (settings, problems)
    }

    /// An answer.
    ///
    /// # Panics
    /// If there is no such question.
    pub fn get(&self, key: &str) -> &str {
        &self.answers[key]
    }

    /// The answer to a question for a number.
    pub(crate) fn number(&self, key: &str) -> f64 {
        self.get(key).parse().unwrap_or_default()
    }

    /// Every answer, by its question's key.
    pub fn answers(&self) -> &BTreeMap<&'static str, String> {
        &self.answers
    }
}

impl fmt::Display for Settings {
    /// What comes after the `#` of a link, in the form's order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Choice { key, .. }) in CHOICES.iter().enumerate() {
            if i > 0 {
                f.write_char('&')?;
            }
            write!(f, "{key}={}", self.get(key))?;
        }
        Ok(())
    }
}
