//! Sleeping on sockets until a deadline, for a thread of one's own.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tack_units::Instant;

use crate::Clock;

/// Most sockets [`wait`] takes.
const MAX_SOCKETS: usize = 8;

/// Sleeps until one of `sockets` (or TUN devices, or timers) has something to read or `until` has
/// passed, whichever is first; `None` waits for a packet only. Calling it with a deadline in the past just polls.
///
/// The deadline is met some tens of microseconds late; see [`sharpen_timers`] (Linux).
///
/// # Panics
/// With more than eight sockets.
///
/// [`sharpen_timers`]: https://man7.org/linux/man-pages/man2/PR_SET_TIMERSLACK.2const.html
pub fn wait<S: AsFd>(sockets: &[S], until: Option<Instant>, clock: &Clock) -> io::Result<()> {
    assert!(sockets.len() <= MAX_SOCKETS, "a thread waits for at most {MAX_SOCKETS} sockets");
    let timeout = until.map(|at| {
        let left = at - clock.now();
        Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
    });
    let mut fds: Vec<PollFd<'_>> = sockets.iter().map(|s| PollFd::new(s, PollFlags::IN)).collect();
    match poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}
