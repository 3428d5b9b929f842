//! Where every [`Instant`] of a real run comes from.

use tack_units::Instant;

/// The monotonic clock, counted from the start of the run.
///
/// Copies share the start, so instants from any copy compare. One run should start one clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Kernel time (`CLOCK_MONOTONIC`) that counts as zero.
    #[cfg(unix)]
    start_ns: u64,
    #[cfg(not(unix))]
    start: std::time::Instant,
}

#[cfg(unix)]
impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Clock {
        Clock { start_ns: monotonic_ns() }
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        Instant::from_nanos(monotonic_ns().saturating_sub(self.start_ns))
    }

    /// The kernel's name for `at`, for absolute timers.
    #[cfg(target_os = "linux")]
    pub(crate) fn kernel_time(&self, at: Instant) -> rustix::time::Timespec {
        let ns = self.start_ns.saturating_add(at.as_nanos());
        rustix::time::Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as _,
        }
    }
}

#[cfg(unix)]
fn monotonic_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The monotonic clock starts at boot: both parts are non-negative.
    (t.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(t.tv_nsec as u64)
}

#[cfg(not(unix))]
impl Clock {
    /// A clock that reads zero now.
    #[expect(clippy::disallowed_methods, reason = "this crate owns the clock")]
    pub fn start() -> Clock {
        Clock { start: std::time::Instant::now() }
    }

    /// The time now.
    pub fn now(&self) -> Instant {
        Instant::ZERO + self.start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_their_start_and_never_run_backwards() {
        let clock = Clock::start();
        let copy = clock;
        let mut last = Instant::ZERO;
        for i in 0..10_000 {
            let now = if i % 2 == 0 { clock.now() } else { copy.now() };
            assert!(now >= last);
            last = now;
        }
    }
}
