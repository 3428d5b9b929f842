//! Lines about strangers: however many come, a terminal and a log stay readable.

use std::fmt::Display;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::terminal::say;
use tokio::time::Instant;

/// Lines that are said within [`PERIOD`]; those beyond it are counted, and told with the next one.
const MOST_LINES: u32 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// Says so much and no more. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Notices(Arc<Mutex<Ration>>);

impl Notices {
    /// Says it on standard error, or counts it.
    pub fn say(&self, line: impl Display) {
        let mut ration = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match ration.take(Instant::now()) {
            Some(0) => say(format_args!("tack: {line}")),
            Some(withheld) => say(format_args!("tack: {line} (and {withheld} lines like this)")),
            None => {}
        }
    }
}

/// A log, whose lines come each in one piece.
impl io::Write for Notices {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.say(String::from_utf8_lossy(line).trim_end());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How much was said lately.
#[derive(Debug, Default)]
struct Ration {
    since: Option<Instant>,
    said: u32,
    withheld: u64,
}

impl Ration {
    /// Whether a line may be said, and how many were not since the last one.
    fn take(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= PERIOD) {
            (self.since, self.said) = (Some(now), 0);
        }
        if self.said == MOST_LINES {
            self.withheld += 1;
            return None;
        }
        self.said += 1;
        Some(std::mem::take(&mut self.withheld))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_a_few_are_said_and_the_rest_counted() {
        let (mut ration, start) = (Ration::default(), Instant::now());
        // A hundred a second, for a minute.
        let told: Vec<_> =
            (0..6_000).map(|n| ration.take(start + Duration::from_millis(10 * n))).collect();
        let said: Vec<u64> = told.iter().flatten().copied().collect();
        assert_eq!(said.len(), 6 * MOST_LINES as usize);
        let withheld: u64 = said.iter().sum::<u64>() + ration.withheld;
        assert_eq!(withheld + said.len() as u64, 6_000, "every line is told or counted");
        assert_eq!(said[..MOST_LINES as usize], [0; MOST_LINES as usize]);
        // Whoever comes now and then is always told of.
        let mut ration = Ration::default();
        assert!((0..100).all(|n| ration.take(start + Duration::from_secs(n)) == Some(0)));
    }
}
