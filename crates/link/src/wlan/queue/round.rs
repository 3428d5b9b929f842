//! What a device's scheduler knows: who is in the round, who owes airtime, what is committed.

use std::collections::VecDeque;

use super::super::phy::Ns;
use super::super::txq::TxqConfig;
use crate::draw::nanos;

/// How long a receiver without packets keeps its place to work off its debt.
pub(super) const KEEP_ACTIVE: Ns = 100_000_000;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Receiver {
    /// Airtime in hand, nanoseconds.
    pub(super) deficit: i64,
    pub(super) last_active: Ns,
    pub(super) listed: bool,
}

/// The hardware's queue of one contender, and the receivers' turns.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Receivers of the committed PPDUs, oldest first.
    pub(super) committed: VecDeque<usize>,
    /// Until then one more PPDU, which is on the air, takes a place.
    pub(super) on_air_until: Ns,
    /// Receivers in their order of turns.
    pub(super) round: VecDeque<usize>,
    pub(super) receivers: Vec<Receiver>,
    pub(super) quantum: i64,
    pub(super) max_committed: usize,
}

impl Schedule {
    pub(super) fn new(config: &TxqConfig, receivers: usize) -> Schedule {
        Schedule {
            committed: VecDeque::new(),
            on_air_until: 0,
            round: VecDeque::new(),
            receivers: vec![Receiver::default(); receivers],
            quantum: signed(nanos(config.airtime_quantum)),
            max_committed: config.committed_ppdus,
        }
    }

    pub(super) fn wake(&mut self, receiver: usize, now: Ns) {
        let r = &mut self.receivers[receiver];
        r.last_active = now;
        if !std::mem::replace(&mut r.listed, true) {
            // To the head: a debt moves it back soon enough.
            self.round.push_front(receiver);
        }
    }

    pub(super) fn tickets(&self, receiver: usize) -> usize {
        self.committed.iter().filter(|r| **r == receiver).count()
    }
}

pub(super) fn signed(ns: Ns) -> i64 {
    i64::try_from(ns).unwrap_or(i64::MAX)
}
