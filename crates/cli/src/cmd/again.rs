//! Files that are sent over as many connections as it takes.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::time::{Duration, Instant, sleep};

use crate::cmd::another_way::{PROBES, Watched, another_way};
use crate::cmd::lasting::RETURN_LIMIT;
use crate::conn::Connection;
use crate::exit::{ExitCode, Failure};
use crate::net::{NetConn, NetDial, Watch};
use crate::progress::Progress;
use crate::stop::Stop;
use crate::terminal::say;
use crate::transfer::TransferError;
use crate::transfer::disk::blocking;
use crate::transfer::frame::SenderId;
use crate::transfer::known::Known;
use crate::transfer::scan::{Scan, scan};
use crate::transfer::send::{Sent, send_tree};

/// How long to wait between attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// A connection that lasts no longer is not worth one more at once.
const LEAST_SPELL: Duration = Duration::from_secs(2);

/// What is sent, and how.
#[derive(Clone, Debug)]
pub struct Files {
    /// These, and all beneath them.
    pub paths: Vec<PathBuf>,
    /// Whether links are followed.
    pub follow: bool,
    /// Whether to say nothing.
    pub quiet: bool,
}

/// A connection that is looked at while it is used.
pub trait Line: Connection {
    /// What looks at it.
    type Watch: Watched;

    /// Looks at it from beside, and has its peer say now and then that it is there.
    fn watch(&self) -> Self::Watch;
}

impl Line for NetConn {
    type Watch = Watch;

    fn watch(&self) -> Watch {
        self.watched(PROBES)
    }
}

/// What a connection was opened from.
pub trait Origin {
    /// Waits until what was written is acknowledged, for a while, unless the connection is `lost`.
    fn settle(&self, lost: bool, stop: &Stop) -> impl Future<Output = ()>;
}

impl Origin for NetDial {
    async fn settle(&self, lost: bool, stop: &Stop) {
        self.settle_unless(lost, stop).await;
    }
}

/// Sends files over a connection that `open` opens, and over others when that one is lost. `who` says who we
/// are to the receiver at its end.
///
/// # Errors
/// What ended it: a connection that broke does so only where none can be opened for a minute.
pub async fn send_files<D, C, F>(
    files: &Files,
    open: impl Fn() -> F,
    who: impl Fn(&C) -> SenderId,
    (progress, stop): (&Progress, &Stop),
) -> Result<Sent, Failure>
where
    D: Origin + Send + 'static,
    C: Line,
    F: Future<Output = Result<(D, C), Failure>> + Send + 'static,
{
    let mut lost: Option<Instant> = None;
    let mut next = None;
    let known = Arc::<Known>::default();
    loop {
        let opening = begin(files, (lost.is_some(), &known), &open, next.take());
        let opened = stop.or(opening).await;
        let (found, (dial, conn)) = match opened.unwrap_or_else(|| Err(Failure::interrupted())) {
            Ok(opened) => opened,
            Err(failure) => {
                // Whoever does not want us need not be asked again.
                if failure.code != ExitCode::Failed || !may_return(lost) {
                    return Err(failure);
                }
                stop.or(sleep(RETRY_INTERVAL)).await;
                continue;
            }
        };
        let sender = who(&conn);
        let watch = conn.watch();
        let error = tokio::select! {
            biased;
            sent = send_tree(conn, sender, found, progress, stop) => {
                dial.settle(sent.is_err(), stop).await;
                match sent {
                    Err(error) if error.may_be_resumed_at_once() && !stop.is_asked() => error,
                    Err(error) if error.may_pass() && may_return(lost) && !stop.is_asked() => {
                        tracing::info!(%error, "not received again yet");
                        stop.or(sleep(RETRY_INTERVAL)).await;
                        continue;
                    }
                    sent => return Ok(sent?),
                }
            }
            Ok(moved) = another_way(Some(&watch), &open, |_| true) => {
                next = Some(moved);
                TransferError::Moved
            }
        };
        if next.is_none() && lost.is_some_and(|since| since.elapsed() < LEAST_SPELL) {
            // No sooner back than lost again: not without end.
            stop.or(sleep(RETRY_INTERVAL)).await;
        }
        if !files.quiet {
            say(format_args!("tack: {error}; reconnecting"));
        }
        lost = Some(Instant::now());
    }
}

/// Whether there was a receiver, and not too long ago to be looked for.
fn may_return(lost: Option<Instant>) -> bool {
    lost.is_some_and(|since| since.elapsed() <= RETURN_LIMIT)
}

/// Looks at what is to be sent, of which some is `known`, and connects, unless somebody has. What was left out, and what
/// arrives otherwise than it is, is said once.
async fn begin<T, F>(
    files: &Files,
    (again, known): (bool, &Arc<Known>),
    open: impl Fn() -> F,
    opened: Option<T>,
) -> Result<(Scan, T), Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    // What is wrong with the paths should show before anything is connected.
    let (paths, follow) = (files.paths.clone(), files.follow);
    let mut found = blocking(move || scan(&paths, follow)).await?;
    found.known = Arc::clone(known);
    if !again {
        found.skipped.iter().for_each(|why| say(format_args!("tack: left out: {why}")));
        found.notes.iter().for_each(|note| say(format_args!("tack: {note}")));
    }
    let opened = match opened {
        Some(opened) => opened,
        None => open().await?,
    };
    Ok((found, opened))
}
