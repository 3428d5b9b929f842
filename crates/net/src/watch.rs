//! Descriptors that the runtime watches.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::link::Link;

/// Registers `inner` with the runtime, for what there is to read.
#[cfg(target_os = "linux")]
pub(crate) fn watch<T: AsRawFd>(inner: T) -> io::Result<AsyncFd<T>> {
    watch_for(inner, Interest::READABLE)
}

/// Registers a link: on Linux what there is to read of it is told by its
/// [`Arrivals`](crate::arrivals::Arrivals).
pub(crate) fn watch_link(link: Link) -> io::Result<AsyncFd<Link>> {
    let arrivals_tell = cfg!(target_os = "linux");
    let all = Interest::READABLE | Interest::WRITABLE;
    watch_for(link, if arrivals_tell { Interest::WRITABLE } else { all })
}

#[allow(deprecated, reason = "the successor is unsafe, and our types own one open descriptor")]
fn watch_for<T: AsRawFd>(inner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(inner, interest)
}
