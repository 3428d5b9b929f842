//! When each connection wants to be woken.

use std::collections::BTreeSet;

use tack_units::Instant;

/// Deadlines of connections by slot; O(log n) per change, and less for a host's only connection. They change with
/// each packet: unlike in [`tack_units::Timers`], each slot keeps its own, and none is looked up.
#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    /// Apart from the others: of a single one, no tree is built and taken down with each packet.
    first: Option<(Instant, u32)>,
    others: BTreeSet<(Instant, u32)>,
}

impl TimerQueue {
    /// Replaces a slot's deadline; `registered` is what was set before and is kept by the slot.
    #[inline]
    pub(crate) fn update(
        &mut self,
        slot: u32,
        registered: &mut Option<Instant>,
        at: Option<Instant>,
    ) {
        if *registered == at {
            return;
        }
        if let Some(old) = registered.take() {
            self.remove((old, slot));
        }
        if let Some(new) = at {
            self.insert((new, slot));
        }
        *registered = at;
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.first.map(|(at, _)| at)
    }

    /// Takes one that is due; the slot forgets what it registered.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let (_, slot) = self.first.filter(|(at, _)| *at <= now)?;
        self.first = self.others.pop_first();
        Some(slot)
    }

    fn insert(&mut self, new: (Instant, u32)) {
        match self.first {
            Some(first) if first < new => {
                self.others.insert(new);
            }
            first => {
                self.others.extend(first);
                self.first = Some(new);
            }
        }
    }

    fn remove(&mut self, old: (Instant, u32)) {
        if self.first == Some(old) {
            self.first = self.others.pop_first();
        } else {
            self.others.remove(&old);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};

    use super::*;

    #[test]
    fn the_earliest_comes_first_whatever_was_replaced_before() {
        let rng = &mut rand_pcg::Pcg64::seed_from_u64(1);
        let (mut queue, mut registered) = (TimerQueue::default(), [None; 4]);
        for _ in 0..20_000 {
            let slot = rng.random_range(0..registered.len());
            let at = Instant::from_nanos(rng.random_range(0..9));
            if rng.random_bool(0.3) {
                let earliest = (0..).zip(registered).filter_map(|(slot, at)| Some((at?, slot)));
                let due = earliest.min().filter(|(due, _)| *due <= at).map(|(_, slot)| slot);
                assert_eq!(queue.pop_due(at), due);
                due.into_iter().for_each(|slot| registered[slot as usize] = None);
            } else {
                let at = Some(at).filter(|_| rng.random_bool(0.7));
                queue.update(slot as u32, &mut registered[slot], at);
            }
            assert_eq!(queue.earliest(), registered.into_iter().flatten().min());
        }
    }
}
