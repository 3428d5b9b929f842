//! When each connection wants to be woken.

use std::collections::BTreeSet;

use tack_units::Instant;

/// Deadlines of connections by slot; O(log n) per change.
#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    queue: BTreeSet<(Instant, u32)>,
}

impl TimerQueue {
    /// Replaces a slot's deadline; `registered` is what was set before and is kept by the slot.
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
            self.queue.remove(&(old, slot));
        }
        if let Some(new) = at {
            self.queue.insert((new, slot));
        }
        *registered = at;
    }

    pub(crate) fn earliest(&self) -> Option<Instant> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// Takes one that is due; the slot forgets what it registered.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let &(at, slot) = self.queue.first()?;
        (at <= now).then(|| {
            self.queue.pop_first();
            slot
        })
    }
}
