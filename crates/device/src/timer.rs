//! One absolute deadline as a file descriptor.

use core::num::NonZeroU64;
use core::sync::atomic::{AtomicU64, Ordering};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tack_units::Instant;

use crate::Clock;

/// A `timerfd` on the monotonic clock: readable once its deadline has passed.
///
/// Deadlines of a transport mostly move away (every acknowledgment postpones the retransmission
/// timer), and setting a timer is a system call. So a later deadline is not handed to the kernel
/// at once: the timer may become readable *early*, never late. A driver asks the clock after every
/// wake-up and arms again.
#[derive(Debug)]
pub struct Timer {
    fd: OwnedFd,
    clock: Clock,
    /// When the kernel will make `fd` readable, in nanoseconds; [`NEVER`] when it will not.
    armed: AtomicU64,
}

const NEVER: u64 = u64::MAX;

impl Timer {
    /// A timer that is not armed.
    ///
    /// # Errors
    /// No file descriptor is left.
    pub fn new(clock: Clock) -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Timer { fd, clock, armed: AtomicU64::new(NEVER) })
    }

    /// Become readable at `at`, or possibly before; `None`: nothing needs a wake-up any more.
    ///
    /// Calls must not overlap: whoever shares a timer arms it under the lock that guards its
    /// deadlines.
    pub fn arm(&self, at: Option<Instant>) -> io::Result<()> {
        let Some(at) = at else { return Ok(()) };
        if self.armed.load(Ordering::Relaxed) <= at.as_nanos() {
            return Ok(());
        }
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Absolute zero would disarm, but kernel time is past it since boot.
        let value = self.clock.kernel_time(at);
        let timer = Itimerspec { it_interval: none, it_value: value };
        timerfd_settime(&self.fd, TimerfdTimerFlags::ABSTIME, &timer)?;
        self.armed.store(at.as_nanos(), Ordering::Relaxed);
        Ok(())
    }

    /// Takes note that the descriptor was readable and makes it unreadable.
    ///
    /// Returns whether it had fired; if not, it stays armed. Same rule as for [`Timer::arm`].
    pub fn acknowledge(&self) -> io::Result<bool> {
        let mut expirations = [0u8; 8];
        match rustix::io::read(&self.fd, &mut expirations) {
            Ok(_) => {
                self.armed.store(NEVER, Ordering::Relaxed);
                Ok(true)
            }
            Err(rustix::io::Errno::AGAIN) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Timer {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// Asks the kernel not to defer this thread's sleeps (`PR_SET_TIMERSLACK` of 1 ns instead of the
/// default 50 µs). Matters to [`wait`](crate::wait()); a [`Timer`] is exact without.
pub fn sharpen_timers() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN))?)
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn block_until_readable(timer: &Timer) {
        let mut fds = [PollFd::new(timer, PollFlags::IN)];
        let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert_eq!(poll(&mut fds, Some(&limit)).unwrap(), 1, "the timer never fired");
    }

    #[test]
    fn fires_once_and_not_before_its_deadline() {
        let clock = Clock::start();
        let timer = Timer::new(clock).unwrap();
        assert!(!timer.acknowledge().unwrap());
        let at = clock.now() + Duration::from_millis(3);
        timer.arm(Some(at)).unwrap();
        block_until_readable(&timer);
        assert!(clock.now() >= at);
        assert!(timer.acknowledge().unwrap());
        assert!(!timer.acknowledge().unwrap());
    }

    #[test]
    fn a_deadline_in_the_past_fires_at_once() {
        let clock = Clock::start();
        let timer = Timer::new(clock).unwrap();
        timer.arm(Some(Instant::ZERO)).unwrap();
        block_until_readable(&timer);
    }

    #[test]
    fn an_earlier_deadline_replaces_a_later_one_but_not_the_reverse() {
        let clock = Clock::start();
        let timer = Timer::new(clock).unwrap();
        let soon = clock.now() + Duration::from_millis(2);
        timer.arm(Some(clock.now() + Duration::from_secs(3600))).unwrap();
        timer.arm(Some(soon)).unwrap();
        timer.arm(Some(clock.now() + Duration::from_secs(1800))).unwrap();
        timer.arm(None).unwrap();
        block_until_readable(&timer);
        assert!(clock.now() >= soon);
    }
}
