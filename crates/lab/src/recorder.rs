//! Results on their way from the pool into a store.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::backend::run_hosted;
use crate::host::Host;
use crate::item::{Backend, Item};
use crate::record::Record;
use crate::runner::{Sink, Stopped, run};
use crate::store::{Kept, Store};

/// Who is told how far the work is, and may end it.
pub trait Progress: Sync {
    /// One more item is computed.
    fn progressed(&self);

    /// Whether to stop; results so far stay.
    fn cancelled(&self) -> bool {
        false
    }
}

/// A store that takes what the pool gives.
pub struct Recorder<T: Kept, P> {
    store: Mutex<Store<T>>,
    progress: P,
}

impl<T: Kept, P> Recorder<T, P> {
    /// Into `store`; `progress` is told of it.
    pub fn new(store: Store<T>, progress: P) -> Self {
        Recorder { store: Mutex::new(store), progress }
    }

    /// Who is told.
    pub fn progress(&self) -> &P {
        &self.progress
    }

    /// The store, for as long as nothing is to be taken.
    pub fn store(&self) -> MutexGuard<'_, Store<T>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is. A run that an interruption left under way is kept nowhere from now on:
    /// what is said of the results stays true.
    pub fn end(&self) -> BTreeMap<T::Run, T> {
        std::mem::replace(&mut *self.store(), Store::transient()).into_kept()
    }
}

impl<T: Kept + Send, P: Progress> Sink<T> for Recorder<T, P>
where
    T::Run: Send,
{
    fn take(&self, _position: usize, result: T) -> std::io::Result<()> {
        self.store().append(result)
    }

    fn progressed(&self) {
        self.progress.progressed();
    }

    fn cancelled(&self) -> bool {
        self.progress.cancelled()
    }
}

/// Runs `items`, `jobs` at a time (0: one per core, of those in real time one), with what `host`
/// brings; programs of others take turns.
///
/// # Errors
/// As [`run`].
pub fn run_items(
    items: Vec<Item>,
    jobs: usize,
    sink: &dyn Sink<Record>,
    host: Host<'_>,
) -> Result<(), Stopped> {
    #[cfg(target_os = "linux")]
    let items = crate::versus::order::in_turns(items);
    // What runs in real time wants the machine for itself.
    let is_live = items.iter().any(|item| item.backend == Backend::Live);
    let jobs = if is_live && jobs == 0 { 1 } else { jobs };
    run(&items, jobs, sink, |item| run_hosted(item, host))
}
