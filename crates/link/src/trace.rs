//! Mahimahi's packet-delivery traces: a link's capacity as a list of opportunities.
//!
//! A trace is text, one whole number of milliseconds per line, never decreasing. Each line is one
//! opportunity to deliver [`OPPORTUNITY_BYTES`]; several lines may share a millisecond. After the
//! last line the trace starts over, so the last number is also the period [mahimahi(1),
//! `mm-link`]. An opportunity serves as many bytes as wait, across packet borders; what it does not
//! use is lost.

use core::time::Duration;

use tack_units::{Instant, Rate};

/// Bytes per opportunity: Mahimahi counts a 1500-byte IP packet and the 4 bytes that its tunnel
/// device puts before it.
pub const OPPORTUNITY_BYTES: u32 = 1_504;
/// What each packet takes from an opportunity beside its IP-level size.
pub const FRAMING_BYTES: u32 = 4;
/// Longest trace accepted, in lines. Half an hour at 100 Mbit/s is 15 million.
pub const MAX_OPPORTUNITIES: usize = 50_000_000;

/// Why a text is not a trace. Lines are counted from one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// Nothing to deliver, ever.
    #[error("the trace has no lines")]
    Empty,
    /// Not digits, or more than fit in 64 bits of nanoseconds.
    #[error("line {line}: {text:?} is not a whole number of milliseconds")]
    NotANumber {
        /// Where.
        line: usize,
        /// The line's first characters.
        text: String,
    },
    /// Time runs backwards.
    #[error("line {line}: {at_ms} ms comes before the previous line's {previous_ms} ms")]
    Backwards {
        /// Where.
        line: usize,
        /// This line.
        at_ms: u64,
        /// The one before.
        previous_ms: u64,
    },
    /// The last line is the period, which cannot be zero.
    #[error("line {line}: the last line is the trace's period and must be positive")]
    NoPeriod {
        /// The last line.
        line: usize,
    },
    /// More lines than [`MAX_OPPORTUNITIES`].
    #[error("line {line}: a trace has at most {MAX_OPPORTUNITIES} lines")]
    TooLong {
        /// The first line too many.
        line: usize,
    },
}

/// A parsed trace. Time zero of the trace is the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTrace {
    /// Milliseconds, never decreasing, not empty; the last is positive and the period.
    at_ms: Vec<u64>,
}

impl DeliveryTrace {
    /// Reads a trace. A final newline and carriage returns before newlines are accepted, blank
    /// lines are not.
    pub fn parse(text: &str) -> Result<DeliveryTrace, TraceError> {
        let mut at_ms = Vec::new();
        let mut previous_ms = 0;
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            if index == MAX_OPPORTUNITIES {
                return Err(TraceError::TooLong { line });
            }
            let at = parse_ms(text).ok_or_else(|| TraceError::NotANumber {
                line,
                text: text.chars().take(40).collect(),
            })?;
            if at < previous_ms {
                return Err(TraceError::Backwards { line, at_ms: at, previous_ms });
            }
            previous_ms = at;
            at_ms.push(at);
        }
        match at_ms.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoPeriod { line: at_ms.len() }),
            Some(_) => Ok(DeliveryTrace { at_ms }),
        }
    }

    /// Opportunities per period.
    pub fn opportunities(&self) -> usize {
        self.at_ms.len()
    }

    /// After this long the trace repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms())
    }

    /// Mean capacity in IP-level bits of 1500-byte packets.
    pub fn mean_rate(&self) -> Rate {
        let bytes = self.at_ms.len() as u64 * u64::from(OPPORTUNITY_BYTES - FRAMING_BYTES);
        Rate::from_bytes_over(bytes, self.period()).expect("the period is positive")
    }

    fn period_ms(&self) -> u64 {
        *self.at_ms.last().expect("a trace is not empty")
    }
}

/// Digits only: `u64::from_str` would also take a plus sign, which Mahimahi refuses.
fn parse_ms(text: &str) -> Option<u64> {
    const MAX_MS: u64 = u64::MAX / 1_000_000;
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let ms = if digits { text.parse().ok()? } else { return None };
    (ms <= MAX_MS).then_some(ms)
}

/// A position in an endlessly repeated trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    cycle: u64,
    index: usize,
}

impl Cursor {
    /// The opportunity under the cursor.
    pub(crate) fn at(self, trace: &DeliveryTrace) -> Instant {
        let ms = self.cycle.saturating_mul(trace.period_ms());
        Instant::from_millis(ms.saturating_add(trace.at_ms[self.index]))
    }

    /// Moves to the next one.
    pub(crate) fn step(&mut self, trace: &DeliveryTrace) {
        self.index += 1;
        if self.index == trace.at_ms.len() {
            self.index = 0;
            self.cycle += 1;
        }
    }

    /// Moves to the first opportunity at or after `t`, unless the cursor is already past it.
    pub(crate) fn skip_until(&mut self, trace: &DeliveryTrace, t: Instant) {
        if self.at(trace) >= t {
            return;
        }
        let t_ms = t.as_nanos().div_ceil(1_000_000);
        let period_ms = trace.period_ms();
        // The last opportunity of a cycle falls together with the start of the next one.
        let cycle = (t_ms.saturating_sub(1) / period_ms).max(self.cycle);
        let within_ms = t_ms - cycle * period_ms;
        let first = trace.at_ms.partition_point(|at| *at < within_ms);
        let index = if cycle == self.cycle { first.max(self.index) } else { first };
        *self = Cursor { cycle, index };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(at_ms: &[u64]) -> DeliveryTrace {
        let text: String = at_ms.iter().map(|t| format!("{t}\n")).collect();
        DeliveryTrace::parse(&text).unwrap()
    }

    #[test]
    fn a_trace_of_one_packet_per_millisecond_is_12_mbit_per_second() {
        let t = DeliveryTrace::parse("1\r\n2\n3\n4").unwrap();
        assert_eq!((t.opportunities(), t.period()), (4, Duration::from_millis(4)));
        assert_eq!(t.mean_rate(), Rate::from_mbps(12));
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| DeliveryTrace::parse(text).unwrap_err();
        let not_a_number = |line, text: &str| TraceError::NotANumber { line, text: text.into() };
        assert_eq!(error(""), TraceError::Empty);
        assert_eq!(error("1\n\n2\n"), not_a_number(2, ""));
        assert_eq!(error("1\n2 \n"), not_a_number(2, "2 "));
        assert_eq!(error("+1\n"), not_a_number(1, "+1"));
        assert_eq!(error("1\n-1\n"), not_a_number(2, "-1"));
        assert_eq!(error("99999999999999999999\n"), not_a_number(1, "99999999999999999999"));
        assert_eq!(error("18446744073709551615\n"), not_a_number(1, "18446744073709551615"));
        assert_eq!(error("5\n7\n6\n"), TraceError::Backwards { line: 3, at_ms: 6, previous_ms: 7 });
        assert_eq!(error("0\n0\n"), TraceError::NoPeriod { line: 2 });
        let long = "x".repeat(1_000_000);
        assert!(error(&long).to_string().len() < 200, "an error does not echo a whole file");
    }

    #[test]
    fn skipping_agrees_with_stepping_one_by_one() {
        let traces =
            [vec![1], vec![0, 5], vec![0, 0, 3, 3, 7], vec![10, 10, 10], vec![2, 3, 3, 9, 20]];
        for at_ms in traces {
            let t = trace(&at_ms);
            let mut fast = Cursor::default();
            let mut slow = Cursor::default();
            for us in (0..100_000).step_by(171).chain((100_000..900_000).step_by(33_333)) {
                let until = Instant::from_micros(us);
                fast.skip_until(&t, until);
                while slow.at(&t) < until {
                    slow.step(&t);
                }
                assert_eq!(fast.at(&t), slow.at(&t), "{at_ms:?} at {until}");
                assert_eq!((fast.cycle, fast.index), (slow.cycle, slow.index), "{at_ms:?}");
                fast.step(&t);
                slow.step(&t);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic_the_parser() {
        let mut rng = crate::draw::stream(3, 0);
        for _ in 0..2_000 {
            let alphabet = b"0123456789\n\r -+x.";
            let text: String = (0..crate::draw::below(&mut rng, 40))
                .map(|_| alphabet[crate::draw::below(&mut rng, 17) as usize] as char)
                .collect();
            if let Ok(t) = DeliveryTrace::parse(&text) {
                let again: String = t.at_ms.iter().map(|a| format!("{a}\n")).collect();
                assert_eq!(DeliveryTrace::parse(&again).unwrap(), t);
            }
        }
    }
}
