//! Timers the connection itself keeps: one enum, one array. Recovery, acknowledgment policy and
//! pacer keep their own; the connection asks all of them for the earliest.

use tack_units::Instant;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// SYN or SYN/ACK again.
    Handshake,
    /// Probe a closed window [RFC 9293 §3.8.6.1].
    Persist,
    /// Probe a silent peer, or give it up.
    Keepalive,
    /// Data stayed unacknowledged too long.
    User,
    /// The pacer lets the next burst go.
    Pacing,
    /// FIN-WAIT-2 without an application.
    Orphan,
    /// Give unused buffer memory back.
    Idle,
}

const ALL: [Timer; 7] = [
    Timer::Handshake,
    Timer::Persist,
    Timer::Keepalive,
    Timer::User,
    Timer::Pacing,
    Timer::Orphan,
    Timer::Idle,
];

/// When each fires.
#[derive(Debug, Default)]
pub(crate) struct Timers([Option<Instant>; ALL.len()]);

impl Timers {
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = Some(at);
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    pub(crate) fn stop_all(&mut self) {
        self.0 = Default::default();
    }

    pub(crate) fn get(&self, timer: Timer) -> Option<Instant> {
        self.0[timer as usize]
    }

    /// The earliest.
    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }

    /// Stops and returns one that is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Timer> {
        let due = ALL.into_iter().find(|&t| self.get(t).is_some_and(|at| at <= now))?;
        self.stop(due);
        Some(due)
    }
}
