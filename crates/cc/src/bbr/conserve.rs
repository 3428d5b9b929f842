//! The window during loss recovery of plain TCP: first conserve packets, then grow back.
//!
//! BBR does not take loss for congestion, but a burst of it may mean that the path changed and the
//! estimates are wrong. So for one round only as much leaves as arrives; afterwards the window
//! grows by what is acknowledged, and returns to its old size when recovery ends.

/// Recovery as the window sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conserve {
    phase: Phase,
    /// Window to return to, in bytes.
    saved: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// No recovery.
    #[default]
    Open,
    /// First round of recovery.
    Conserving,
    /// Later rounds, and the time after a timeout.
    Growing,
}

impl Conserve {
    pub(crate) fn in_recovery(&self) -> bool {
        self.phase != Phase::Open
    }

    pub(crate) fn is_conserving(&self) -> bool {
        self.phase == Phase::Conserving
    }

    /// Recovery begins with a window of `cwnd` bytes.
    pub(crate) fn begin(&mut self, cwnd: u64) {
        self.save(cwnd);
        self.phase = Phase::Conserving;
    }

    /// The timer fired.
    pub(crate) fn time_out(&mut self, cwnd: u64) {
        self.save(cwnd);
        self.phase = Phase::Growing;
    }

    /// Remembers the window. In recovery it is already cut, so the larger one counts.
    fn save(&mut self, cwnd: u64) {
        self.saved = if self.in_recovery() { self.saved.max(cwnd) } else { cwnd };
    }

    /// A round passed.
    pub(crate) fn on_round(&mut self) {
        if self.phase == Phase::Conserving {
            self.phase = Phase::Growing;
        }
    }

    /// Window before recovery cut it; `None` outside recovery.
    pub(crate) fn window_before(&self) -> Option<u64> {
        self.in_recovery().then_some(self.saved)
    }

    /// Recovery ended, or proved needless; returns the window to return to.
    pub(crate) fn end(&mut self) -> u64 {
        self.phase = Phase::Open;
        self.saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_conserves_for_a_round_and_returns_to_the_window_before_it() {
        let mut c = Conserve::default();
        c.begin(100);
        assert!(c.is_conserving());
        c.on_round();
        assert!(c.in_recovery() && !c.is_conserving());
        c.time_out(10);
        assert_eq!(c.window_before(), Some(100));
        assert_eq!(c.end(), 100);
        assert!(!c.in_recovery() && c.window_before().is_none());
    }
}
