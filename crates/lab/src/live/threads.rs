//! What the flows of either stack have in common: threads at both ends.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// The threads of both ends, which end when it is dropped.
#[derive(Default)]
pub(super) struct Threads {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Threads {
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

    /// Ends them.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = |thread: JoinHandle<io::Result<()>>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        self.threads.drain(..).try_for_each(ended)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
