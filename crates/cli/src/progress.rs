//! The progress bar: on standard error, only when a person is looking.

use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::units::{bytes_text, rate_text};

const KNOWN: &str = "{bar:30} {percent:>3} %  {done} of {all}  {rate}  {eta} left  {wide_msg}";
const UNKNOWN: &str = "{spinner} {done}  {rate}  {elapsed}  {wide_msg}";

/// How far a transfer is. Costs nothing when hidden, and is not drawn before there is something to tell: until
/// then the user may be asked something, over which it would be drawn.
#[derive(Clone, Debug)]
pub struct Progress {
    bar: ProgressBar,
    is_drawn: Arc<AtomicBool>,
}

impl Progress {
    /// Shown if standard error is a terminal and `quiet` is false.
    pub fn new(quiet: bool) -> Self {
        if quiet || !stderr().is_terminal() {
            return Self::hidden();
        }
        let bar = ProgressBar::no_length();
        bar.set_style(style(UNKNOWN));
        Self { bar, is_drawn: Arc::default() }
    }

    /// Never shown.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), is_drawn: Arc::new(true.into()) }
    }

    fn draw(&self) {
        if !self.is_drawn.swap(true, Relaxed) {
            self.bar.enable_steady_tick(Duration::from_millis(200));
        }
    }

    /// The transfer has `total` bytes, of which `done` need not be sent.
    pub fn start(&self, total: u64, done: u64) {
        self.bar.set_style(style(KNOWN));
        self.bar.set_length(total);
        self.bar.set_position(done);
        // Rate and time left count what is really sent, not what was there.
        self.bar.reset_eta();
        self.draw();
    }

    /// `bytes` more have been dealt with.
    pub fn advance(&self, bytes: u64) {
        self.draw();
        self.bar.inc(bytes);
    }

    /// What is under way.
    pub fn say(&self, what: impl Into<String>) {
        if !self.bar.is_hidden() {
            self.draw();
            self.bar.set_message(what.into());
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// What is shown for a key.
type Text = fn(&ProgressState) -> String;

/// In the units of the summary that follows.
fn style(template: &str) -> ProgressStyle {
    let texts: [(_, Text); 3] = [
        ("done", |bar| bytes_text(bar.pos())),
        ("all", |bar| bytes_text(bar.len().unwrap_or(0))),
        ("rate", |bar| rate_text(bar.per_sec() as u64, 1.0)),
    ];
    let style =
        ProgressStyle::with_template(template).expect("the template is a constant that parses");
    texts.into_iter().fold(style, |style, (key, text)| {
        style.with_key(key, move |bar: &ProgressState, to: &mut dyn Write| {
            // What is written to only collects it.
            let _ = to.write_str(&text(bar));
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_templates_parse() {
        style(KNOWN);
        style(UNKNOWN);
    }
}
