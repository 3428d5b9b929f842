//! When the driver looks at what arrived.
//!
//! Packets of a fast flow come one by one, tens of microseconds apart, wherever no device coalesces
//! them, and to wake for each costs several times as much as to take it. TACK's receiver does not need
//! them so soon: it says by how much they may be late ([`leeway`](tack_transport::Endpoint::leeway)), and
//! for so long they gather. As an interrupt's moderation in a network card, but only while enough come.

use core::time::Duration;
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsFd;
use std::task::{Context, Poll};

#[cfg(target_os = "linux")]
use tack_device::Gate;
use tack_units::Instant;
use tokio::io::unix::{AsyncFd, AsyncFdReadyGuard};

use crate::link::Link;

/// Packets never gather for longer: one of a file's last is late by so much.
const MOST: Duration = Duration::from_micros(500);
/// A timer is late by tens of microseconds itself.
const LEAST: Duration = Duration::from_micros(50);
/// Messages that a wait must bring to be worth its timer.
const WORTH: u128 = 4;
/// Looks in a row that found them fast enough before they may gather.
const RUN: u32 = 2;

/// Decides how long arrivals gather.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    looked: Option<Instant>,
    run: u32,
    until: Option<Instant>,
}

impl Gather {
    /// All that had arrived was read at `now`, `messages` since the last time. What comes next may lie
    /// unread for `leeway`.
    pub(crate) fn on_drained(&mut self, messages: u64, leeway: Duration, now: Instant) {
        let since = self.looked.replace(now).map(|at| now.saturating_since(at));
        let wait = leeway.min(MOST);
        let brings =
            |since: Duration| u128::from(messages) * wait.as_nanos() >= WORTH * since.as_nanos();
        let worth = wait >= LEAST && since.is_some_and(brings);
        self.run = if worth { self.run.saturating_add(1) } else { 0 };
        self.until = (self.run > RUN).then(|| now + wait);
    }

    /// When to look again whether or not anything arrives; `None`: as soon as something does.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }
}

/// Tells the driver of arrivals, unless they gather.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Arrivals(AsyncFd<Gate>);

#[cfg(target_os = "linux")]
impl Arrivals {
    /// Arrivals of `link`, which has to outlive them.
    pub(crate) fn of(link: &Link) -> io::Result<Arrivals> {
        Ok(Arrivals(crate::watch::watch(Gate::new(link.as_fd())?)?))
    }

    /// Whether something arrived; else registers `cx` for when it does.
    pub(crate) fn poll<'a>(
        &'a self,
        _link: &'a AsyncFd<Link>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, Gate>>> {
        self.0.poll_read_ready(cx)
    }

    /// Arrivals of `link` wake the driver from now on, or do not. Returns whether that could be done.
    pub(crate) fn set_awake(&self, link: &Link, awake: bool) -> bool {
        let done = self.0.get_ref().set_open(link.as_fd(), awake);
        if let Err(e) = &done {
            tracing::error!(error = %e, "cannot watch for arrivals");
        }
        done.is_ok()
    }
}

/// Tells the driver of arrivals.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct Arrivals;

#[cfg(not(target_os = "linux"))]
impl Arrivals {
    pub(crate) fn of(_link: &Link) -> io::Result<Arrivals> {
        Ok(Arrivals)
    }

    pub(crate) fn poll<'a>(
        &'a self,
        link: &'a AsyncFd<Link>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<AsyncFdReadyGuard<'a, Link>>> {
        link.poll_read_ready(cx)
    }

    /// The runtime's timers are too coarse to come back by.
    pub(crate) fn set_awake(&self, _link: &Link, awake: bool) -> bool {
        awake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets `spacing` apart for `ms` milliseconds, each looked at as it comes unless they gather.
    /// Returns how often somebody looked.
    fn looks(spacing: Duration, leeway: Duration, ms: u64) -> u32 {
        let mut gather = Gather::default();
        let (mut now, mut read, mut looks) = (Instant::ZERO, 0, 0);
        while now < Instant::from_millis(ms) {
            now = gather.until().unwrap_or(now + spacing).max(now + spacing);
            let come = ((now - Instant::ZERO).as_nanos() / spacing.as_nanos()) as u64;
            gather.on_drained(come - read, leeway, now);
            read = come;
            looks += 1;
        }
        looks
    }

    const MS: Duration = Duration::from_millis(1);
    const US: Duration = Duration::from_micros(1);

    #[test]
    fn a_fast_flow_is_looked_at_as_seldom_as_it_allows() {
        // 590 Mbit/s: a packet each 20 us, 5 000 in all.
        assert_eq!(looks(20 * US, Duration::ZERO, 100), 5_000);
        assert!(looks(20 * US, 100 * US, 100) < 1_010);
        assert!(looks(20 * US, MS, 100) < 210, "no longer than half a millisecond");
    }

    #[test]
    fn what_comes_seldom_is_looked_at_as_it_comes() {
        assert_eq!(looks(200 * US, 10 * MS, 100), 500);
        assert_eq!(looks(20 * US, 40 * US, 100), 5_000, "a timer is not worth it");
    }

    #[test]
    fn a_flow_that_ends_is_not_waited_for_twice() {
        let mut gather = Gather::default();
        for n in 1..=10 {
            gather.on_drained(1, MS, Instant::from_micros(n * 20));
        }
        let until = gather.until().expect("it is fast");
        gather.on_drained(0, MS, until);
        assert_eq!(gather.until(), None);
    }
}
