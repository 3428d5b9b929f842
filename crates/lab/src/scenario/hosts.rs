//! What the hosts at both ends are like: what `[hosts]` may say.

use core::time::Duration;

use super::error::{Problem, within};
use super::keys::keys;

/// A host that is late by more is one that stands still.
const MAX_LATE_MS: f64 = 1e3;

keys! {
    /// Hosts of a run; what is left out is a host that notices everything at once.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Hosts {
        ;
        /// Processors come so late at most to packets and timers, milliseconds: each time by another share
        /// of it, and to all that happened meanwhile together.
        late_ms: f64,
        /// The clients' (stations'), instead.
        client_late_ms: f64,
        /// The servers', instead.
        server_late_ms: f64,
    }
}

impl Hosts {
    /// How late clients are at most.
    pub fn client_late(&self) -> Duration {
        self.late(self.client_late_ms)
    }

    /// How late servers are at most.
    pub fn server_late(&self) -> Duration {
        self.late(self.server_late_ms)
    }

    fn late(&self, own_ms: Option<f64>) -> Duration {
        Duration::from_secs_f64(own_ms.or(self.late_ms).unwrap_or(0.0) / 1e3)
    }

    pub(super) fn check(&self) -> Result<(), Problem> {
        within("late_ms", self.late_ms, 0.0, MAX_LATE_MS)?;
        within("client_late_ms", self.client_late_ms, 0.0, MAX_LATE_MS)?;
        within("server_late_ms", self.server_late_ms, 0.0, MAX_LATE_MS)
    }
}
