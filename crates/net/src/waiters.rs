//! Who waits for what.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::task::{Context, Waker};

/// Tells tasks apart that wait for the same thing.
pub(crate) type Ticket = u64;

/// All tasks that wait for something of one endpoint. Of what only one task at a time may wait for, as
/// `AsyncRead` and `AsyncWrite` have it, the ticket is 0.
#[derive(Debug)]
pub(crate) struct Waiters<K> {
    wakers: BTreeMap<(K, Ticket), Waker>,
    idle: Vec<Waker>,
    tickets: Ticket,
}

/// Keeps `cx`'s waker in `slot`.
pub(crate) fn park(slot: &mut Option<Waker>, cx: &Context<'_>) {
    match slot {
        Some(waker) if waker.will_wake(cx.waker()) => {}
        _ => *slot = Some(cx.waker().clone()),
    }
}

impl<K: Ord + Copy> Waiters<K> {
    pub(crate) fn new() -> Waiters<K> {
        Waiters { wakers: BTreeMap::new(), idle: Vec::new(), tickets: 0 }
    }

    /// The one task that waits for `what`: of several, the last to ask is woken.
    pub(crate) fn park(&mut self, what: K, cx: &Context<'_>) {
        self.park_as((what, 0), cx);
    }

    /// One of many tasks that wait for `what`, by its ticket.
    pub(crate) fn park_as(&mut self, who: (K, Ticket), cx: &Context<'_>) {
        match self.wakers.get(&who) {
            Some(waker) if waker.will_wake(cx.waker()) => {}
            _ => drop(self.wakers.insert(who, cx.waker().clone())),
        }
    }

    /// A ticket that nobody has.
    pub(crate) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        self.tickets
    }

    /// Somebody waits no more.
    pub(crate) fn leave(&mut self, who: (K, Ticket)) {
        self.wakers.remove(&who);
    }

    /// Wakes who waits for `what`.
    pub(crate) fn wake(&mut self, what: K) {
        self.wake_all(what..=what);
    }

    /// Wakes who waits for anything of these.
    pub(crate) fn wake_all(&mut self, these: RangeInclusive<K>) {
        let (first, last) = (*these.start(), *these.end());
        while let Some((&who, _)) = self.wakers.range((first, 0)..=(last, Ticket::MAX)).next() {
            if let Some(waker) = self.wakers.remove(&who) {
                waker.wake();
            }
        }
    }

    /// Nobody is there any more to wait for these.
    pub(crate) fn forget(&mut self, these: RangeInclusive<K>) {
        let (first, last) = (*these.start(), *these.end());
        while let Some((&who, _)) = self.wakers.range((first, 0)..=(last, Ticket::MAX)).next() {
            self.wakers.remove(&who);
        }
    }

    /// Adds a task that waits until nothing is left to do.
    pub(crate) fn await_idle(&mut self, cx: &Context<'_>) {
        if !self.idle.iter().any(|w| w.will_wake(cx.waker())) {
            self.idle.push(cx.waker().clone());
        }
    }

    pub(crate) fn somebody_awaits_idle(&self) -> bool {
        !self.idle.is_empty()
    }

    pub(crate) fn wake_idle(&mut self) {
        self.idle.drain(..).for_each(Waker::wake);
    }

    /// The endpoint is over.
    pub(crate) fn wake_everyone(&mut self) {
        std::mem::take(&mut self.wakers).into_values().for_each(Waker::wake);
        self.wake_idle();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn who_waits_for_what_happened_is_woken_once_and_nobody_else() {
        let tasks = [(); 3].map(|()| Arc::new(Count::default()));
        let wakers = tasks.clone().map(Waker::from);
        let counts = || tasks.clone().map(|task| task.0.load(Ordering::Relaxed));
        let mut waiters = Waiters::new();
        waiters.park(1, &Context::from_waker(&wakers[0]));
        waiters.park_as((2, 1), &Context::from_waker(&wakers[1]));
        waiters.park_as((2, 2), &Context::from_waker(&wakers[2]));
        waiters.wake(2);
        assert_eq!(counts(), [0, 1, 1]);
        waiters.wake(2);
        waiters.park(3, &Context::from_waker(&wakers[1]));
        waiters.forget(2..=3);
        waiters.wake_all(0..=9);
        assert_eq!(counts(), [1, 1, 1]);
    }
}
