//! The pool: any list of work, on all cores, its results in an order that does not depend on them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most threads at work.
pub const MAX_JOBS: usize = 1_024;

/// Who takes what is done.
pub trait Sink<T>: Sync {
    /// The result of the item at `position` is final; results come in the items' order, whatever
    /// order they were computed in.
    ///
    /// # Errors
    /// Any error ends the work.
    fn take(&self, position: usize, result: T) -> std::io::Result<()>;

    /// One more item is computed (its result follows in order).
    fn progressed(&self) {}

    /// Whether to stop; results so far stay.
    fn cancelled(&self) -> bool {
        false
    }
}

/// Why the work ended early.
#[derive(Debug)]
pub enum Stopped {
    /// An item failed.
    Item {
        /// Its place in the list.
        position: usize,
        /// What was wrong.
        error: anyhow::Error,
    },
    /// The sink could not take a result.
    Output(std::io::Error),
    /// The sink asked to stop.
    Cancelled,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Stopped::Item { position, error } => write!(f, "run {position}: {error:#}"),
            Stopped::Output(e) => write!(f, "results cannot be written: {e}"),
            Stopped::Cancelled => f.write_str("interrupted; what is done is kept"),
        }
    }
}

impl std::error::Error for Stopped {}

/// Results that wait for an earlier one.
struct InOrder<T> {
    next: usize,
    waiting: BTreeMap<usize, T>,
    failed: Option<Stopped>,
}

impl<T> InOrder<T> {
    fn push(&mut self, position: usize, result: T, sink: &dyn Sink<T>) {
        self.waiting.insert(position, result);
        while let Some(result) = self.waiting.remove(&self.next) {
            if let Err(e) = sink.take(self.next, result) {
                // A result after one that could not be written would hide the gap.
                self.failed.get_or_insert(Stopped::Output(e));
                return;
            }
            self.next += 1;
        }
    }
}

/// Does `work` on each of `items`, `jobs` at a time; 0 is one per core.
///
/// Items are begun in order, so that results become final soon after they are computed, and an
/// interruption costs no more than what is under way.
///
/// # Errors
/// The first that came up; the results before it have been handed to the sink.
pub fn run<I, T, F>(items: &[I], jobs: usize, sink: &dyn Sink<T>, work: F) -> Result<(), Stopped>
where
    I: Sync,
    T: Send,
    F: Fn(&I) -> anyhow::Result<T> + Sync,
{
    let order = Mutex::new(InOrder { next: 0, waiting: BTreeMap::new(), failed: None });
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((position, item)) = take(&next, items) {
            if sink.cancelled() {
                lock(&order).failed.get_or_insert(Stopped::Cancelled);
            }
            if lock(&order).failed.is_some() {
                return;
            }
            let result = work(item);
            sink.progressed();
            let mut order = lock(&order);
            match result {
                Ok(result) => order.push(position, result, sink),
                Err(error) => {
                    order.failed.get_or_insert(Stopped::Item { position, error });
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..workers(jobs, items.len()) {
            scope.spawn(work);
        }
        work();
    });
    let order = order.into_inner().unwrap_or_else(PoisonError::into_inner);
    order.failed.map_or(Ok(()), Err)
}

/// The next item nobody has begun, with its position.
fn take<'a, I>(next: &AtomicUsize, items: &'a [I]) -> Option<(usize, &'a I)> {
    let position = next.fetch_add(1, Ordering::Relaxed);
    items.get(position).map(|item| (position, item))
}

/// How many threads: what was asked for, but never more than items or [`MAX_JOBS`].
fn workers(jobs: usize, items: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = if jobs == 0 { cores() } else { jobs };
    wanted.min(items).min(MAX_JOBS)
}

/// A panic in another run must not hide behind a poisoned lock: the scope propagates it.
fn lock<T>(order: &Mutex<T>) -> MutexGuard<'_, T> {
    order.lock().unwrap_or_else(PoisonError::into_inner)
}
