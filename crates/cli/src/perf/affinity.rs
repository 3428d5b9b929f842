//! `-A`: the processor that the measuring thread runs on.

use std::io;

/// Keeps this thread on one processor; dropped, it may run where it could before.
#[derive(Debug)]
pub struct Pinned {
    #[cfg(target_os = "linux")]
    before: rustix::thread::CpuSet,
}

impl Pinned {
    /// Pins the calling thread.
    ///
    /// # Errors
    /// There is no such processor, or it is not ours.
    #[cfg(target_os = "linux")]
    pub fn to(processor: u16) -> io::Result<Self> {
        use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

        let processor = usize::from(processor);
        if processor >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let before = sched_getaffinity(None)?;
        let mut only = CpuSet::new();
        only.set(processor);
        sched_setaffinity(None, &only)?;
        Ok(Self { before })
    }

    /// Pins the calling thread.
    ///
    /// # Errors
    /// This system cannot.
    #[cfg(not(target_os = "linux"))]
    pub fn to(_: u16) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(target_os = "linux")]
impl Drop for Pinned {
    fn drop(&mut self) {
        // It was allowed before.
        let _ = rustix::thread::sched_setaffinity(None, &self.before);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::sched_getaffinity;

    use super::*;

    #[test]
    fn a_pinned_thread_runs_on_one_processor_and_afterwards_where_it_did() {
        let before = sched_getaffinity(None).unwrap();
        let last = (0..1_024).rev().find(|&cpu| before.is_set(cpu)).unwrap();
        let pinned = Pinned::to(u16::try_from(last).unwrap()).unwrap();
        let now = sched_getaffinity(None).unwrap();
        assert!(now.is_set(last) && now.count() == 1);
        drop(pinned);
        assert_eq!(sched_getaffinity(None).unwrap(), before);
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused() {
        assert!(Pinned::to(u16::MAX).is_err());
        assert!(Pinned::to(1_023).is_err(), "more processors than any machine this runs on");
    }
}
