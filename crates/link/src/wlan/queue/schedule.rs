//! Which receiver the next PPDU is for: deficit round robin over airtime, as mac80211 has it.
//!
//! A receiver may send while its deficit is not negative; what it sends and what it is sent is
//! taken from its deficit, and a quantum is added whenever its turn comes and it is negative. So
//! receivers that always have something get equal airtime, whatever their rates
//! [Hoiland-Jorgensen 2017 §3.2].
//!
//! Linux scheduled by virtual time from 5.14 on and went back to this in 2022. As since then, what
//! is committed but not yet sent counts as spent, and a receiver in debt stays in the round for
//! 100 ms after it was last served, so that it does not carry old debts into its next burst.

use std::collections::VecDeque;

use super::super::phy::Ns;
use super::super::txq::{TxqConfig, Txqs};
use super::round::{KEEP_ACTIVE, Schedule, signed};
use super::{Flow, Queue};

impl Flow {
    fn has_something(&self) -> bool {
        self.bar_pending || !self.queue.is_empty()
    }

    /// Airtime of what is committed, without preambles.
    pub(super) fn pending(&self) -> Ns {
        self.bytes * 8_000_000 / self.times.rate.kbps().max(1)
    }

    /// Whether another MPDU fits into `ppdus` PPDUs. The last may be one too many for them, which
    /// then begins the next.
    fn has_room(&self, ppdus: usize) -> bool {
        if !self.limits.aggregates() {
            return self.queue.len() < ppdus;
        }
        let max_mpdus = usize::from(self.limits.max_mpdus) * ppdus;
        self.queue.is_empty()
            || self.queue.len() < max_mpdus
                && self.bytes < u64::from(self.max_psdu_bytes) * ppdus as u64
    }
}

impl Queue {
    /// Puts queues per flow ahead of this one.
    pub(in super::super) fn schedule_by_airtime(&mut self, config: &TxqConfig) {
        self.schedule = Some(Schedule::new(config, self.flows.len()));
    }

    /// Something waits for `flow`.
    pub(in super::super) fn wake(&mut self, flow: usize, now: Ns) {
        if let Some(s) = &mut self.schedule {
            s.wake(flow, now);
        }
    }

    /// `flow`'s receiver used `airtime`, as sender or receiver.
    pub(in super::super) fn charge(&mut self, flow: usize, airtime: Ns, now: Ns) {
        let Some(s) = &mut self.schedule else { return };
        let r = &mut s.receivers[flow];
        if now.saturating_sub(r.last_active) <= KEEP_ACTIVE {
            r.deficit = r.deficit.saturating_sub(signed(airtime));
        }
    }

    /// A committed PPDU of `flow` went out; the exchange lasts until `end`.
    pub(super) fn retire(&mut self, flow: usize, end: Ns) {
        let rest = self.flows[flow].has_something();
        let Some(s) = &mut self.schedule else { return };
        if let Some(at) = s.committed.iter().position(|f| *f == flow) {
            s.committed.remove(at);
        }
        s.on_air_until = end;
        if rest {
            s.wake(flow, end);
        }
    }

    /// Airtime of everything committed, without preambles.
    pub(in super::super) fn pending(&self) -> Ns {
        self.flows.iter().map(Flow::pending).sum()
    }

    /// Whether packets wait for a receiver that is there.
    pub(in super::super) fn wants_to_commit(&self, txqs: &Txqs, category: usize) -> bool {
        self.schedule.as_ref().is_some_and(|s| {
            s.round.iter().any(|f| !self.flows[*f].paused && self.is_due(*f, txqs, category))
        })
    }

    /// Whether `flow` has more to send than is committed already.
    fn is_due(&self, flow: usize, txqs: &Txqs, category: usize) -> bool {
        txqs.waiting(flow, category) > 0
            || self.flows[flow].has_something()
                && self.schedule.as_ref().is_some_and(|s| s.tickets(flow) == 0)
    }

    /// Commits PPDUs while the hardware takes some. `elsewhere` is the airtime committed by the
    /// device's other categories.
    pub(in super::super) fn commit(
        &mut self,
        txqs: &mut Txqs,
        category: usize,
        elsewhere: Ns,
        now: Ns,
    ) {
        let Queue { schedule: Some(s), flows, .. } = self else { return };
        s.committed.retain(|f| flows[*f].has_something());
        loop {
            let Queue { schedule: Some(s), flows, .. } = &*self else { return };
            let present = s.committed.iter().filter(|f| !flows[**f].paused).count();
            if present + usize::from(now < s.on_air_until) >= s.max_committed {
                return;
            }
            let Some(flow) = self.next_receiver(txqs, category, elsewhere, now) else { return };
            self.committed().push_back(flow);
            self.fill(flow, txqs, category, elsewhere, now);
            if !self.flows[flow].has_something() {
                // CoDel left nothing.
                self.committed().pop_back();
            }
        }
    }

    fn committed(&mut self) -> &mut VecDeque<usize> {
        &mut self.schedule.as_mut().expect("only scheduled queues commit").committed
    }

    /// Whose turn it is, of those that may send.
    fn next_receiver(
        &mut self,
        txqs: &Txqs,
        category: usize,
        elsewhere: Ns,
        now: Ns,
    ) -> Option<usize> {
        let total = elsewhere + self.pending();
        let allowed = |q: &Queue, f: usize| {
            let aql = txqs.config.aql.is_none_or(|a| a.allow(q.flows[f].pending(), total));
            !q.flows[f].paused && aql && q.is_due(f, txqs, category)
        };
        let round = &self.schedule.as_ref()?.round;
        if !round.iter().any(|f| allowed(self, *f)) {
            return None;
        }
        loop {
            let flow = *self.schedule.as_ref()?.round.front()?;
            let (may, due) = (allowed(self, flow), self.is_due(flow, txqs, category));
            let pending = signed(self.flows[flow].pending());
            // With one receiver there is nothing to share.
            let alone = self.flows.len() == 1;
            let s = self.schedule.as_mut()?;
            let r = &mut s.receivers[flow];
            let in_debt = !alone && r.deficit.saturating_sub(pending) < 0;
            if in_debt {
                r.deficit += s.quantum;
            } else if may {
                r.last_active = now;
                return Some(flow);
            }
            s.round.pop_front();
            if due || in_debt && now.saturating_sub(r.last_active) <= KEEP_ACTIVE {
                s.round.push_back(flow);
            } else {
                r.listed = false;
            }
        }
    }

    /// Takes packets for what is committed to `flow`.
    pub(in super::super) fn fill(
        &mut self,
        flow: usize,
        txqs: &mut Txqs,
        category: usize,
        elsewhere: Ns,
        now: Ns,
    ) {
        let Some(ppdus) = self.schedule.as_ref().map(|s| s.tickets(flow)) else { return };
        let aql = txqs.config.aql;
        let mut total = elsewhere + self.pending();
        while self.flows[flow].has_room(ppdus) {
            let before = self.flows[flow].pending();
            if aql.is_some_and(|a| !a.allow(before, total)) {
                return;
            }
            let Some(packet) = txqs.pop(flow, category, now) else { return };
            self.append(flow, packet);
            total += self.flows[flow].pending() - before;
        }
    }
}
