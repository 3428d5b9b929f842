//! How late the host comes to a deadline.
//!
//! Timers are served late: by a scheduler's tick, by interrupts that are gathered, by other work. A packet wakes
//! the host, its TACK is due a moment later and waits for another wake-up; where that is late by as much as a round
//! trip, each round trip takes twice as long. So what is due before the host would likely be awake again leaves with
//! the packets that came before it. The next TACK counts from when it was due, so that the frequency stays what
//! it was [TON §IV-A].

use core::time::Duration;

use tack_units::Instant;

/// A longer delay is a host that slept, and counts as this much.
const MOST: Duration = Duration::from_millis(100);
/// The usual lateness is over about so many deadlines.
const MEMORY: u32 = 8;
/// A sixteenth of a round trip is little. A TACK at its own time then tells more: one that leaves with the packets
/// which came before it does so behind an aggregate of them, and what each interval brought varies by a whole one.
const MUCH: u32 = 16;

#[derive(Debug, Default)]
pub(super) struct Lateness {
    /// `None` before the first deadline.
    usual: Option<Duration>,
    /// The deadline that the host knows and has not come to.
    told: Option<Instant>,
}

impl Lateness {
    /// The host is told to come at `due`, which is not yet, and not when it was told before.
    pub(super) fn on_told(&mut self, due: Option<Instant>) {
        self.told = due;
    }

    /// The host is here, for whatever reason.
    pub(super) fn on_awake(&mut self, now: Instant) {
        if let Some(due) = self.told.take_if(|due| *due <= now) {
            let late = (now - due).min(MOST);
            let usual = self.usual.unwrap_or(late);
            self.usual = Some(usual * (MEMORY - 1) / MEMORY + late / MEMORY);
        }
    }

    /// How late it usually is, where that is much of a round trip of `rtt_min`.
    pub(super) fn usual_of(&self, rtt_min: Duration) -> Duration {
        self.usual.filter(|usual| *usual * MUCH >= rtt_min).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Instant {
        Instant::ZERO + ms * MS
    }

    #[test]
    fn a_host_that_is_always_late_by_the_same_is_usually_as_late() {
        let mut late = Lateness::default();
        for n in 0..100 {
            late.on_told(Some(at(100 * n + 10)));
            late.on_awake(at(100 * n + 5));
            late.on_awake(at(100 * n + 13));
            // It was told of nothing else.
            late.on_awake(at(100 * n + 90));
        }
        let usual = late.usual_of(48 * MS);
        assert!(usual > 299 * MS / 100 && usual <= 3 * MS, "{usual:?}");
        assert_eq!(late.usual_of(49 * MS), Duration::ZERO, "a sixteenth is little");
    }

    #[test]
    fn what_is_not_due_any_more_is_no_lateness_and_sleep_is_a_little() {
        let mut late = Lateness::default();
        late.on_told(Some(at(10)));
        late.on_told(None);
        late.on_awake(at(500));
        assert_eq!(late.usual_of(Duration::ZERO), Duration::ZERO);
        late.on_told(Some(at(550)));
        late.on_awake(at(550));
        late.on_told(Some(at(600)));
        late.on_awake(Instant::from_secs(3_600));
        assert_eq!(late.usual_of(Duration::ZERO), MOST / MEMORY);
    }
}
