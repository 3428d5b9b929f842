//! Being told to end, for commands that have something to finish first.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGHUP, SIGINT and SIGTERM, as long as this lives: they do not end the process any more.
#[derive(Debug)]
pub struct StopSignals(Vec<Signal>);

impl StopSignals {
    /// Those of them that were not to be ignored, as under `nohup` or in a script's background.
    ///
    /// # Errors
    /// The system takes no handler.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new() -> io::Result<StopSignals> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let kinds = [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()];
        let heeded = kinds.into_iter().filter(|k| ignored >> (k.as_raw_value() - 1) & 1 == 0);
        heeded.map(signal).collect::<Result<_, _>>().map(StopSignals)
    }

    /// What comes of `work`, unless one arrives before.
    ///
    /// Cancel safe if `work` is.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            () = self.recv() => None,
        }
    }

    async fn recv(&mut self) {
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
}
