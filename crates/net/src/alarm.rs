//! The timer that wakes a driver.

#[cfg(not(target_os = "linux"))]
use std::future::Future as _;
use std::io;
#[cfg(not(target_os = "linux"))]
use std::pin::Pin;
#[cfg(target_os = "linux")]
use std::task::Poll;
use std::task::{Context, Waker};

use tack_device::Clock;
#[cfg(target_os = "linux")]
use tack_device::Timer;
use tack_units::Instant;
#[cfg(target_os = "linux")]
use tokio::io::unix::AsyncFd;

#[cfg(target_os = "linux")]
use crate::watch::watch;

/// Wakes the driver at a deadline: a kernel timer that any thread may arm.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: AsyncFd<Timer>,
}

#[cfg(target_os = "linux")]
impl Alarm {
    pub(crate) fn new(clock: Clock) -> io::Result<Alarm> {
        Ok(Alarm { timer: watch(Timer::new(clock)?)? })
    }

    /// Be due at `at`. Called under the lock, as the timer asks.
    pub(crate) fn set(&self, at: Option<Instant>, _driver: Option<&Waker>) {
        if let Err(e) = self.timer.get_ref().arm(at) {
            // Only bad arguments can fail, and ours are in range by construction.
            tracing::error!(error = %e, "cannot arm a timer");
        }
    }

    /// Registers `cx` for the next time the alarm is due; takes note if it was.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) {
        while let Poll::Ready(Ok(mut guard)) = self.timer.poll_read_ready(cx) {
            if let Err(e) = self.timer.get_ref().acknowledge() {
                tracing::error!(error = %e, "cannot read a timer");
            }
            guard.clear_ready();
        }
    }
}

/// Wakes the driver at a deadline through the runtime's timers, which are a millisecond or two
/// late: what became due in between leaves as one burst.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(crate) struct Alarm {
    clock: Clock,
    sleep: std::sync::Mutex<(Option<Instant>, Pin<Box<tokio::time::Sleep>>)>,
}

#[cfg(not(target_os = "linux"))]
impl Alarm {
    pub(crate) fn new(clock: Clock) -> io::Result<Alarm> {
        let sleep = Box::pin(tokio::time::sleep(core::time::Duration::ZERO));
        Ok(Alarm { clock, sleep: std::sync::Mutex::new((None, sleep)) })
    }

    /// Be due at `at`: the driver has to look, because only it can register for the sleep.
    pub(crate) fn set(&self, at: Option<Instant>, driver: Option<&Waker>) {
        let mut sleep = self.sleep.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Some(at) = at else { return };
        if sleep.0.is_some_and(|armed| armed <= at) {
            return;
        }
        sleep.0 = Some(at);
        let delay = at - self.clock.now();
        sleep.1.as_mut().reset(tokio::time::Instant::now() + delay);
        driver.inspect(|waker| waker.wake_by_ref());
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) {
        let mut sleep = self.sleep.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if sleep.0.is_some() && sleep.1.as_mut().poll(cx).is_ready() {
            sleep.0 = None;
        }
    }
}
