//! How long a peer is waited for: silence is one thing, saying nothing of use another.
//!
//! A peer that says anything at all lives, at whatever pace its path allows. But a place that others
//! want is not for whoever only says that it lives: where that matters, a *phase* has an allowance
//! of time, from which waiting is taken and to which every useful byte adds a millisecond, so that
//! [`LEAST_PACE`] is enough for ever. Time in which we do not wait counts for nothing.

use std::time::Duration;

use tokio::time::Instant;

use crate::transfer::error::TransferError;

/// Bytes per second on average that keep a place: a third of a path of 24 kbit/s.
pub const LEAST_PACE: u32 = 1_000;

/// More than any limit.
const FAR_AWAY: Duration = Duration::from_secs(1 << 30);

/// What one peer has left of our patience. A plain state machine: times go in, a deadline comes out.
#[derive(Debug, Default)]
pub struct Patience {
    /// When it last said something, or when we began to wait if that was later. `None`: we do not
    /// wait for it.
    silent_since: Option<Instant>,
    phase: Option<Phase>,
}

#[derive(Debug)]
struct Phase {
    grace: Duration,
    left: Duration,
    /// Until when waiting has been taken from `left`.
    charged: Option<Instant>,
}

impl Patience {
    /// From here on, useful bytes have to come: `grace` is how long it may take to begin with, and
    /// the longest pause.
    pub fn begin_phase(&mut self, grace: Duration) {
        self.phase = Some(Phase { grace, left: grace, charged: None });
        self.silent_since = None;
    }

    /// From here on, only silence counts.
    pub fn end_phase(&mut self) {
        self.phase = None;
    }

    /// We wait, again or still, and bear `silence`. Until when.
    pub fn wait(&mut self, silence: Duration, now: Instant) -> Instant {
        let since = *self.silent_since.get_or_insert(now);
        let until = since.checked_add(silence).unwrap_or(since + FAR_AWAY);
        let Some(phase) = &mut self.phase else { return until };
        phase.charge(now);
        until.min(now + phase.left)
    }

    /// The deadline has passed: why.
    pub fn exhausted(
        &mut self,
        silence: Duration,
        during: &'static str,
        now: Instant,
    ) -> TransferError {
        let silent = self.silent_since.is_some_and(|since| now.duration_since(since) >= silence);
        match &self.phase {
            Some(phase) if !silent => {
                TransferError::TooSlow { during, seconds: phase.grace.as_secs() }
            }
            _ => TransferError::Silent { during, seconds: silence.as_secs() },
        }
    }

    /// Bytes came, of which so many are of use.
    pub fn heard(&mut self, useful_bytes: usize, now: Instant) {
        self.silent_since = Some(now);
        if let Some(phase) = &mut self.phase {
            phase.charge(now);
            let earned = Duration::from_secs(useful_bytes as u64) / LEAST_PACE;
            phase.left = (phase.left + earned).min(phase.grace);
        }
    }

    /// What we waited for is here.
    pub fn done(&mut self) {
        self.silent_since = None;
        if let Some(phase) = &mut self.phase {
            phase.charged = None;
        }
    }
}

impl Phase {
    fn charge(&mut self, now: Instant) {
        let waited = self.charged.map_or(Duration::ZERO, |since| now.duration_since(since));
        self.left = self.left.saturating_sub(waited);
        self.charged = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(60);
    const GRACE: Duration = Duration::from_secs(100);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn waiting_again_is_waiting_still() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        for s in 0..60 {
            assert_eq!(patience.wait(SILENCE, start + seconds(s)), start + SILENCE);
        }
        let late = patience.exhausted(SILENCE, "waiting", start + SILENCE);
        assert!(matches!(late, TransferError::Silent { .. }), "{late}");
    }

    #[test]
    fn signs_of_life_use_up_a_phase_and_useful_bytes_make_up_for_it() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        patience.begin_phase(GRACE);
        for s in 0..10 {
            let now = start + seconds(10 * s);
            patience.wait(SILENCE, now);
            patience.heard(0, now + seconds(10));
            patience.done();
        }
        let now = start + GRACE;
        assert_eq!(patience.wait(SILENCE, now), now, "nothing is left");
        let late = patience.exhausted(SILENCE, "waiting", now);
        assert!(matches!(late, TransferError::TooSlow { seconds: 100, .. }), "{late}");
        // The least pace is enough, for ever.
        patience.begin_phase(GRACE);
        for s in 0..100_000 {
            let now = start + seconds(5 * s);
            assert!(patience.wait(SILENCE, now) > now + seconds(5));
            patience.heard(5_000, now + seconds(5));
            patience.done();
        }
    }

    #[test]
    fn time_in_which_we_are_busy_ourselves_is_not_held_against_the_peer() {
        let (mut patience, start) = (Patience::default(), Instant::now());
        patience.begin_phase(GRACE);
        patience.wait(SILENCE, start);
        patience.heard(1, start);
        patience.done();
        let later = start + seconds(5_000);
        assert_eq!(patience.wait(SILENCE, later), later + SILENCE);
    }
}
