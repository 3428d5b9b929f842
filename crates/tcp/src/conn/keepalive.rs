//! Whether the peer still lives: keepalive, user timeout, timeouts in a row.

use core::time::Duration;

use tack_units::Instant;

use crate::config::Keepalive;

/// When the peer was last heard, and what was tried since.
#[derive(Debug, Default)]
pub(crate) struct Liveness {
    heard: Instant,
    probes: u32,
    /// Timeouts since an acknowledgment last brought something new.
    timeouts: u32,
    /// The peer sent a PKT.SEQ or an ACK-Type: the path lets them through.
    pub(crate) confirmed_tack: bool,
    /// Routers on the way may take options away.
    bare: bool,
}

/// What the keepalive timer asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepaliveAction {
    /// Look again then.
    Wait(Instant),
    /// Send a probe, and look again then.
    Probe(Instant),
    /// The peer is gone.
    GiveUp,
}

/// Timeouts in a row that are no outage, where TACK has not worked yet.
const UNCONFIRMED: u32 = 3;
/// And where it has: 17 s at least.
const CONFIRMED: u32 = 8;

impl Liveness {
    pub(crate) fn new(bare: bool) -> Liveness {
        Liveness { bare, ..Liveness::default() }
    }

    /// Routers on the way may take options away, or drop what has them: nobody rewrites datagrams of ours.
    pub(crate) fn may_lose_options(&self) -> bool {
        self.bare
    }

    /// Timeouts in a row after which TACK is given up, where so many are chance: within datagrams of ours, which
    /// nobody rewrites, never.
    pub(crate) fn patience(&self, by_chance: u32) -> u32 {
        match (self.confirmed_tack, self.bare) {
            (_, false) => u32::MAX,
            (false, true) => UNCONFIRMED,
            (true, true) => CONFIRMED.max(by_chance),
        }
    }

    pub(crate) fn on_heard(&mut self, now: Instant) {
        self.heard = now;
        self.probes = 0;
    }

    /// The keepalive timer fired.
    pub(crate) fn on_keepalive(&mut self, config: &Keepalive, now: Instant) -> KeepaliveAction {
        let due = self.heard + config.idle + config.interval.saturating_mul(self.probes);
        if now < due {
            return KeepaliveAction::Wait(due);
        }
        if self.probes >= config.probes {
            return KeepaliveAction::GiveUp;
        }
        self.probes += 1;
        KeepaliveAction::Probe(now + config.interval.max(Duration::from_millis(1)))
    }

    /// Data was newly acknowledged.
    pub(crate) fn on_progress(&mut self) {
        self.timeouts = 0;
    }

    /// A timeout passed, and nothing new was acknowledged since.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.timeouts > 0
    }

    /// A retransmission timeout; returns how many in a row.
    pub(crate) fn on_timeout(&mut self) -> u32 {
        self.timeouts += 1;
        self.timeouts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_follow_silence_and_end_in_giving_up() {
        let config = Keepalive {
            idle: Duration::from_secs(10),
            interval: Duration::from_secs(1),
            probes: 2,
        };
        let at = Instant::from_secs;
        let mut liveness = Liveness::default();
        liveness.on_heard(at(5));
        assert_eq!(liveness.on_keepalive(&config, at(10)), KeepaliveAction::Wait(at(15)));
        assert_eq!(liveness.on_keepalive(&config, at(15)), KeepaliveAction::Probe(at(16)));
        assert_eq!(liveness.on_keepalive(&config, at(16)), KeepaliveAction::Probe(at(17)));
        liveness.on_heard(at(17));
        assert_eq!(liveness.on_keepalive(&config, at(17)), KeepaliveAction::Wait(at(27)));
        for s in 27..29 {
            assert_eq!(liveness.on_keepalive(&config, at(s)), KeepaliveAction::Probe(at(s + 1)));
        }
        assert_eq!(liveness.on_keepalive(&config, at(29)), KeepaliveAction::GiveUp);
        // Told to be patient when probes are under way.
        let config = Keepalive { interval: Duration::MAX, ..config };
        assert!(matches!(liveness.on_keepalive(&config, at(30)), KeepaliveAction::Wait(_)));
    }
}
