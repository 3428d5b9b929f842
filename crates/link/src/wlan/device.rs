//! A Linux device ahead of its hardware's queues: packets go to their flow's queue, PPDUs to the hardware.

use tack_units::Instant;

use super::edca::CATEGORIES;
use super::phy::Ns;
use super::{AP, Wlan};
use crate::link::Packet;

impl Wlan {
    /// Puts `packet` into `node`'s queue for its flow to `receiver`.
    pub(super) fn enqueue_flow(
        &mut self,
        node: usize,
        receiver: usize,
        category: usize,
        packet: Packet,
        now: Ns,
    ) {
        let Some(txqs) = &mut self.txqs[node] else { return };
        let group = receiver * CATEGORIES + category;
        txqs.fq.push(group, packet, Instant::from_nanos(now));
        let q = node * CATEGORIES + category;
        self.queues[q].wake(receiver, now);
        self.commit(q, now);
        self.refresh(q as u32, now);
    }

    /// Hands PPDUs to the hardware while it takes some, where there are flows' queues.
    pub(super) fn commit(&mut self, q: usize, now: Ns) {
        let node = q / CATEGORIES;
        if self.txqs[node].is_none() {
            return;
        }
        let elsewhere = self.committed_elsewhere(q);
        let Some(txqs) = &mut self.txqs[node] else { return };
        self.queues[q].commit(txqs, q % CATEGORIES, elsewhere, now);
        self.note_drops(node);
    }

    /// Contender `q` is about to send: what it has committed is filled up.
    pub(super) fn prepare(&mut self, q: usize, now: Ns) {
        if self.txqs[q / CATEGORIES].is_none() {
            return;
        }
        self.commit(q, now);
        let elsewhere = self.committed_elsewhere(q);
        if let (Some(txqs), Some(next)) = (&mut self.txqs[q / CATEGORIES], self.queues[q].choose())
        {
            self.queues[q].fill(next, txqs, q % CATEGORIES, elsewhere, now);
            self.note_drops(q / CATEGORIES);
        }
    }

    /// Airtime committed by the device's other categories.
    fn committed_elsewhere(&self, q: usize) -> Ns {
        let first = q / CATEGORIES * CATEGORIES;
        let others = (first..first + CATEGORIES).filter(|i| *i != q);
        others.map(|i| self.queues[i].pending()).sum()
    }

    /// Whether contender `q` has something to send.
    pub(super) fn has_work(&self, q: usize) -> bool {
        let queue = &self.queues[q];
        let waits = |t| queue.wants_to_commit(t, q % CATEGORIES);
        queue.ready() || self.txqs[q / CATEGORIES].as_ref().is_some_and(waits)
    }

    /// A station's PPDU of `airtime` arrived: what it sends counts against what it gets.
    pub(super) fn charge_uplink(&mut self, station: usize, category: usize, airtime: Ns, now: Ns) {
        self.queues[AP * CATEGORIES + category].charge(station, airtime, now);
    }

    fn note_drops(&mut self, node: usize) {
        let Some(txqs) = &mut self.txqs[node] else { return };
        let c = txqs.fq.counters();
        let seen = [c.tail_dropped + c.aqm_dropped, c.aqm_dropped, c.ce_marked];
        let [drops, aqm, marks] = [0, 1, 2].map(|i| seen[i] - txqs.noted[i]);
        txqs.noted = seen;
        let stats = &mut self.stats[node];
        stats.queue_drops += drops;
        stats.aqm_drops += aqm;
        stats.ce_marks += marks;
        self.ledger.queue_drops += drops;
    }
}
