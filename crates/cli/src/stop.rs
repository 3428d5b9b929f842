//! Being told to end: the first signal asks a command to come to an end, which its parts see in a
//! [`Stop`]; the second ends it at once.

use std::future::{pending, poll_fn};
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::task::task;

/// How long a command may take to end once it is told to.
const LEAVE_LIMIT: Duration = Duration::from_secs(2);

/// How long of that it may wait for others. The rest is for saying what came of it.
const PARTING_LIMIT: Duration = Duration::from_millis(1600);

/// What carries out a command's work, all in this thread: one connection is fastest when nothing crosses a
/// thread. Disks have threads of their own.
///
/// # Errors
/// Fewer descriptors are left than it needs.
pub(crate) fn runtime() -> io::Result<Runtime> {
    // Where it gets none for its signals tokio panics: as many as it opens in all are to be had.
    let room = [UnixStream::pair()?, UnixStream::pair()?, UnixStream::pair()?];
    drop(room);
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// What comes of `work`, which the first signal asks to end. `None` if it did not within
/// two seconds, or if a second signal came.
///
/// # Errors
/// The system takes no handler.
///
/// # Panics
/// Outside a tokio runtime.
pub async fn heeding<W: Future>(work: impl FnOnce(Stop) -> W) -> io::Result<Option<W::Output>> {
    let mut signals = StopSignals::new()?;
    let (ask, asked) = watch::channel(None);
    let mut work = pin!(work(Stop(asked)));
    tokio::select! {
        biased;
        done = &mut work => return Ok(Some(done)),
        () = signals.recv() => {}
    }
    tracing::info!("told to end");
    ask.send_replace(Some(Instant::now() + PARTING_LIMIT));
    Ok(tokio::select! {
        biased;
        left = timeout(LEAVE_LIMIT, work) => left.ok(),
        () = signals.recv() => None,
    })
}

/// Whether the command is to end. Clones are told the same.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Option<Instant>>);

impl Stop {
    /// Of a command that goes on to its end.
    pub fn never() -> Stop {
        Stop(watch::channel(None).1)
    }

    /// Of a command that is told to end after this time.
    pub fn after(delay: Duration) -> Stop {
        let (ask, asked) = watch::channel(None);
        tokio::spawn(task(async move {
            sleep(delay).await;
            ask.send_replace(Some(Instant::now() + PARTING_LIMIT));
        }));
        Stop(asked)
    }

    /// Whether the command is to end.
    pub fn is_asked(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until the command is to end.
    ///
    /// Cancel safe.
    pub async fn asked(&self) {
        self.deadline().await;
    }

    /// What comes of `work`, unless the command is to end before: then `work` is given up.
    ///
    /// Cancel safe if `work` is.
    pub async fn or<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.asked() => None,
        }
    }

    /// What comes of `work`, which may take `limit`, and little once the command is to end.
    ///
    /// Cancel safe if `work` is.
    pub async fn or_soon<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = sleep(limit) => None,
            () = async { sleep_until(self.deadline().await).await } => None,
        }
    }

    /// How long others may still be waited for, if the command is to end.
    pub fn time_left(&self) -> Option<Duration> {
        self.0.borrow().map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Until when others may be waited for, once the command is to end.
    async fn deadline(&self) -> Instant {
        let mut asked = self.0.clone();
        let told = asked.wait_for(Option::is_some).await.map(|until| *until);
        match told {
            Ok(Some(until)) => until,
            // Nobody is left to ask.
            _ => pending().await,
        }
    }
}

/// SIGHUP, SIGINT and SIGTERM, as long as this lives: they do not end the process any more.
#[derive(Debug)]
pub(crate) struct StopSignals(Vec<Signal>);

impl StopSignals {
    /// Those of them that were not to be ignored, as under `nohup` or in a script's background.
    pub(crate) fn new() -> io::Result<StopSignals> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()];
        let heeded = kinds.into_iter().filter(|k| ignored >> (k.as_raw_value() - 1) & 1 == 0);
        // A write beyond what a file may have here (`ulimit -f`) ends the process unless somebody heeds
        // this one: then it fails, as on a file system that has no larger files.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?;
        heeded.map(signal).collect::<Result<_, _>>().map(StopSignals)
    }

    /// Waits for one.
    pub(crate) async fn recv(&mut self) {
        let Self(signals) = self;
        poll_fn(|cx| {
            match signals.iter_mut().any(|s| matches!(s.poll_recv(cx), Poll::Ready(Some(())))) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// The signals that a process ignores, as Linux tells it: the lowest bit is signal 1. Where nothing
/// is told, none.
fn ignored(status: &str) -> u64 {
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_the_bits_of_one_line() {
        assert_eq!(
            ignored("Name:\ttack\nSigIgn:\t0000000000001001\nSigCgt:\t0000000000000004\n"),
            0x1001
        );
        assert_eq!(ignored("SigIgn:\tnone"), 0);
        assert_eq!(ignored(""), 0);
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(work)
    }

    #[test]
    fn work_is_given_up_when_the_command_is_to_end_and_not_before() {
        run(async {
            let stop = Stop::after(Duration::from_millis(20));
            assert_eq!(stop.or(async { 1 }).await, Some(1));
            assert_eq!(stop.or(pending::<()>()).await, None);
            // What is done already counts, even now.
            assert_eq!(stop.or(async { 2 }).await, Some(2));
            assert_eq!(stop.or_soon(Duration::MAX, async { 3 }).await, Some(3));
        });
    }

    #[test]
    fn others_are_waited_for_within_a_limit_that_is_short_once_the_command_is_to_end() {
        run(async {
            let moment = Duration::from_millis(20);
            assert_eq!(Stop::never().or_soon(moment, pending::<()>()).await, None);
            let stop = Stop::after(moment);
            assert_eq!(stop.or_soon(Duration::from_secs(3600), pending::<()>()).await, None);
        });
    }
}
