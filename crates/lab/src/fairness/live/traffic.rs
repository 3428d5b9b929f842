//! What the flows of either stack have in common: threads at both ends, and what arrived.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle};

use super::Class;

/// Bytes that applications read, by class.
#[derive(Debug, Default)]
pub(super) struct Received([AtomicU64; Class::ALL.len()]);

impl Received {
    pub(super) fn add(&self, class: Class, bytes: u64) {
        self.0[class as usize].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn all(&self) -> [u64; Class::ALL.len()] {
        core::array::from_fn(|i| self.0[i].load(Ordering::Relaxed))
    }
}

/// The threads of both ends, which end when it is dropped.
#[derive(Default)]
pub(super) struct Traffic {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Traffic {
    pub(super) fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce(&AtomicBool) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let stop = Arc::clone(&self.stop);
        let thread = Builder::new().name(name.to_owned());
        self.threads.push(thread.spawn(move || work(&stop))?);
        Ok(())
    }

    /// Ends it.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = |thread: JoinHandle<io::Result<()>>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        self.threads.drain(..).try_for_each(ended)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
