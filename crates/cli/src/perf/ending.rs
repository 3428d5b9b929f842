//! The end of a test, the same on either side: what ended it, and what each side counted.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::perf::PerfError;
use crate::perf::control::{Inbox, Message, Results, send};
use crate::perf::engine::{Ended, Engine};
use crate::perf::report::Interrupted;
use crate::stop::Stop;

/// How long streams may take to end after a test.
const STREAMS_LIMIT: Duration = Duration::from_secs(4);

/// Which side of a test this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that asked for it, and says when it is over.
    Client,
    /// The side that serves it.
    Server,
}

/// What came of a test.
#[derive(Debug)]
pub struct Conclusion {
    /// What this side counted.
    pub local: Results,
    /// What the other side counted. Only of an interrupted test it may be unknown.
    pub remote: Option<Results>,
    /// Whether it ended before its time.
    pub interrupted: Option<Interrupted>,
}

/// Waits for what ends a test from outside: our user, or a word of the peer.
///
/// Cancel safe.
pub async fn ended<R: AsyncRead + Unpin>(
    side: Side,
    inbox: &mut Inbox<R>,
    stop: &Stop,
) -> Result<Ended, PerfError> {
    match stop.or(inbox.next()).await.transpose()? {
        None => Ok(Ended::Interrupted(Interrupted::Here)),
        Some(Message::End { interrupted: true }) => Ok(Ended::Interrupted(Interrupted::There)),
        Some(Message::End { .. }) if side == Side::Server => Ok(Ended::Asked),
        Some(_) => Err(PerfError::Protocol("something else than the end of the test")),
    }
}

/// Ends the streams, says what this side counted and hears what the other did.
///
/// # Errors
/// The other side did not say, and the test was to run to its end.
pub async fn conclude<R: AsyncRead + Unpin>(
    side: Side,
    engine: Engine,
    ended: Ended,
    inbox: &mut Inbox<R>,
    to: &mut (impl AsyncWrite + Unpin),
    stop: &Stop,
) -> Result<Conclusion, PerfError> {
    let local = engine.results();
    let mut interrupted = match ended {
        Ended::Interrupted(whose) => Some(whose),
        Ended::Complete | Ended::Asked => None,
    };
    // Of the little time that a user gives us, half is for closing the streams in order.
    let limit = stop.time_left().map_or(STREAMS_LIMIT, |left| left / 2);
    let exchange = exchange(side, ended, &local, inbox, to, &mut interrupted);
    let (remote, _) = tokio::join!(
        stop.or_soon(Duration::MAX, exchange),
        stop.or_soon(Duration::MAX, engine.stop(limit)),
    );
    let remote = match remote {
        None => {
            interrupted.get_or_insert(Interrupted::Here);
            None
        }
        Some(Err(_)) if interrupted.is_some() => None,
        Some(remote) => Some(remote?),
    };
    Ok(Conclusion { local, remote, interrupted })
}

async fn exchange<R: AsyncRead + Unpin>(
    side: Side,
    ended: Ended,
    local: &Results,
    inbox: &mut Inbox<R>,
    to: &mut (impl AsyncWrite + Unpin),
    interrupted: &mut Option<Interrupted>,
) -> Result<Results, PerfError> {
    let here = *interrupted == Some(Interrupted::Here);
    if here || side == Side::Client {
        send(to, &Message::End { interrupted: here }).await?;
    }
    // All bytes are through; the client is about to notice.
    let mut end_is_due = side == Side::Server && ended == Ended::Complete;
    // Ours may have crossed one of theirs.
    let mut end_may_come = end_is_due || here || side == Side::Client;
    if !end_is_due {
        send(to, &Message::Results { results: local.clone() }).await?;
    }
    loop {
        match inbox.soon().await? {
            Message::End { interrupted: theirs } if end_may_come => {
                end_may_come = false;
                if theirs {
                    // The end of its streams was here first, and looked like that of the test.
                    interrupted.get_or_insert(Interrupted::There);
                }
                if std::mem::take(&mut end_is_due) {
                    send(to, &Message::Results { results: local.clone() }).await?;
                }
            }
            Message::Results { results } if !end_is_due => return checked(results, local),
            _ => return Err(PerfError::Protocol("neither the end of the test nor results")),
        }
    }
}

/// A peer's results may be anything; ours and theirs must be about the same streams.
fn checked(theirs: Results, ours: &Results) -> Result<Results, PerfError> {
    let finite = theirs.streams.iter().all(|s| s.seconds.is_finite());
    if finite && theirs.streams.len() == ours.streams.len() {
        return Ok(theirs);
    }
    Err(PerfError::Protocol("its results are about other streams"))
}
