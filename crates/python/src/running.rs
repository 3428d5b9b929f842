//! Runs without the interpreter's lock: Python's own thread listens meanwhile, for Ctrl-C and for
//! how far the work is.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use pyo3::prelude::*;
use tack_device::Clock;
use tack_lab::host::Host;
use tack_lab::item::Item;
use tack_lab::record::Record;
use tack_lab::recorder::{Progress, Recorder, run_items};
use tack_lab::runner::Stopped;
use tack_lab::store::Store;
use tack_units::Instant;

use crate::controller::Brought;
use crate::failure;

/// How long Ctrl-C may go unheard. Between looks the lock is free.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is to be done.
pub(crate) struct Work {
    pub(crate) items: Vec<Item>,
    /// At a time; 0 is one per core.
    pub(crate) jobs: usize,
    /// Where records go.
    pub(crate) store: Store<Record>,
}

/// Work under way.
pub(crate) struct Running<'a> {
    brought: &'a Brought,
    /// Called with how many runs are done, and of how many.
    told: Option<&'a Py<PyAny>>,
    total: usize,
    done: AtomicUsize,
    /// Python wants it to end.
    stop: AtomicBool,
    clock: Clock,
    /// Nothing more is begun after this.
    until: Option<Instant>,
    begun: usize,
    ended: Mutex<bool>,
    end: Condvar,
}

impl<'a> Running<'a> {
    /// Of so many runs so many are done; with `seconds`, none is begun after that, but for the first.
    pub(crate) fn new(
        brought: &'a Brought,
        told: Option<&'a Py<PyAny>>,
        (done, total): (usize, usize),
        seconds: Option<f64>,
    ) -> Self {
        let clock = Clock::start();
        // A day and no time at all bound what was asked for.
        let limit = |s: f64| clock.now() + Duration::from_secs_f64(s.clamp(0.0, 86_400.0));
        Running {
            brought,
            told,
            total,
            done: AtomicUsize::new(done),
            stop: AtomicBool::new(false),
            until: seconds.map(limit),
            clock,
            begun: done,
            ended: Mutex::new(false),
            end: Condvar::new(),
        }
    }

    /// Does it; the records that the store has then.
    pub(crate) fn run(self, py: Python<'_>, work: Work) -> PyResult<BTreeMap<String, Record>> {
        // The first word is of what was done before.
        self.tell(py, self.begun)?;
        let recorder = Recorder::new(work.store, self);
        let (items, jobs) = (work.items, work.jobs);
        let (done, heard) = py.detach(|| {
            let own = recorder.progress();
            std::thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    let _ended = Ended(own);
                    let go_on = || !own.is_told_to_stop();
                    let host = Host { controllers: own.brought.factories(), go_on: &go_on };
                    run_items(items, jobs, &recorder, host)
                });
                let heard = own.listen();
                let done = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (done, heard)
            })
        });
        heard?;
        let own = recorder.progress();
        if let Some(e) = own.brought.failed().take() {
            return Err(e);
        }
        match done {
            Ok(()) => {}
            Err(Stopped::Cancelled) if own.is_late() => {}
            Err(e) => return Err(failure::stopped(py, e)),
        }
        Ok(recorder.end())
    }

    /// Hears Ctrl-C and tells how far it is, until the work has ended.
    fn listen(&self) -> PyResult<()> {
        let mut heard = Ok(());
        let mut said = self.begun;
        loop {
            let ended = self.wait();
            let done = self.done.load(Ordering::Relaxed);
            if heard.is_ok() {
                heard = Python::attach(|py| {
                    py.check_signals()?;
                    if said == done {
                        return Ok(());
                    }
                    said = done;
                    self.tell(py, done)
                });
                if heard.is_err() {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            if ended {
                return heard;
            }
        }
    }

    fn tell(&self, py: Python<'_>, done: usize) -> PyResult<()> {
        self.told.map_or(Ok(()), |told| told.call1(py, (done, self.total)).map(drop))
    }

    /// Waits for the end of the work, but not long; whether it has come.
    fn wait(&self) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.end.wait_timeout_while(ended, LOOK_EVERY, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn is_told_to_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.brought.failed().is_some()
    }

    /// Whether time is over, and something was done in it.
    fn is_late(&self) -> bool {
        let is_over = self.until.is_some_and(|until| self.clock.now() >= until);
        is_over && self.done.load(Ordering::Relaxed) > self.begun
    }
}

impl Progress for Running<'_> {
    fn progressed(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    fn cancelled(&self) -> bool {
        self.is_told_to_stop() || self.is_late()
    }
}

/// Says that the work has ended, in whatever way.
struct Ended<'a, 'b>(&'a Running<'b>);

impl Drop for Ended<'_, '_> {
    fn drop(&mut self) {
        *self.0.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.end.notify_all();
    }
}
