//! Zero-window probes: the persist timer [RFC 9293 §3.8.6.1].
//!
//! A probe is an empty segment one before SND.UNA: unacceptable, so the peer must answer with its
//! window, and without text, so nothing changes when the window opens meanwhile.

use core::time::Duration;

/// How often the closed window was probed.
#[derive(Debug, Default)]
pub(crate) struct Persist {
    /// Probes without any answer.
    unanswered: u32,
    /// Probes since the window closed: the interval doubles with each.
    sent: u32,
    /// The window is open, but so little that silly window avoidance waited: no longer.
    overrides: bool,
}

const MAX_INTERVAL: Duration = Duration::from_secs(60);

impl Persist {
    /// Time to the next probe.
    pub(crate) fn interval(&self, rto: Duration) -> Duration {
        let least = Duration::from_millis(200);
        (rto.max(least) * (1 << self.sent.min(10))).min(MAX_INTERVAL)
    }

    /// The timer fired: a probe must leave, unless the window is `open`: there is some window, and
    /// the override timeout of [RFC 9293 §3.8.6.2.1] is what it was.
    pub(crate) fn on_timer(&mut self, open: bool) {
        self.overrides = open;
    }

    /// Silly window avoidance is overridden once.
    pub(crate) fn overrides(&self) -> bool {
        self.overrides
    }

    /// New data left.
    pub(crate) fn on_fresh_sent(&mut self) {
        self.overrides = false;
    }

    /// A probe left.
    pub(crate) fn on_sent(&mut self) {
        self.sent = self.sent.saturating_add(1);
        self.unanswered = self.unanswered.saturating_add(1);
    }

    /// The peer was heard; its window may still be closed for as long as it likes.
    pub(crate) fn on_answer(&mut self) {
        self.unanswered = 0;
    }

    /// The window is open.
    pub(crate) fn on_open(&mut self) {
        *self = Persist::default();
    }

    /// Probes that brought nothing: those without an answer. To an orphan an answer is nothing, either: as long
    /// as the peer likes would be for ever.
    pub(crate) fn in_vain(&self, orphaned: bool) -> u32 {
        if orphaned { self.sent } else { self.unanswered }
    }
}
