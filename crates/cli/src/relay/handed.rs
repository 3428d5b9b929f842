//! Connections that are handed to a stream by whoever takes them in.

use std::future::pending;
use std::io;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::carrier::Supply;
use crate::conn::Connection;

/// Connections that wait for a stream to look at them: a client that is impatient has the last one.
pub const MOST_WAITING: usize = 4;
/// How long it may take to say where we are, on a connection that has carried nothing.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Another connection for a stream, whose client has everything before a position.
pub type Handover<C> = (C, u64);

/// Where they arrive. `F` says, on a connection, that we have everything before a position.
#[derive(Debug)]
pub struct Handed<'a, C, F> {
    first: Option<Handover<C>>,
    handed: &'a mut mpsc::Receiver<Handover<C>>,
    patience: Duration,
    answer: F,
    /// What the client of the last one has; `None`: there was none yet.
    theirs: Option<u64>,
}

impl<'a, C, F> Handed<'a, C, F> {
    /// After `first`, or else whichever comes first whenever that is, each next one is waited for so long.
    pub fn new(
        first: Option<Handover<C>>,
        handed: &'a mut mpsc::Receiver<Handover<C>>,
        patience: Duration,
        answer: F,
    ) -> Handed<'a, C, F> {
        Handed { first, handed, patience, answer, theirs: None }
    }
}

impl<C: Connection, F: Fn(&C, u64) -> Vec<u8> + Send> Supply for Handed<'_, C, F> {
    type Conn = C;
    const LEAVES: bool = false;

    async fn next(&mut self, broken: bool) -> Option<C> {
        let next = match self.first.take() {
            Some(first) => Some(first),
            None if broken && self.theirs.is_some() => {
                timeout(self.patience, self.handed.recv()).await.ok().flatten()
            }
            None => match self.handed.recv().await {
                None if !broken => pending().await,
                next => next,
            },
        };
        let (conn, theirs) = next?;
        self.theirs = Some(theirs);
        Some(conn)
    }

    async fn agree(&mut self, conn: &mut C, position: u64) -> io::Result<Option<u64>> {
        let answer = (self.answer)(conn, position);
        let saying = async {
            conn.write_all(&answer).await?;
            conn.flush().await
        };
        let late = || Err(io::ErrorKind::TimedOut.into());
        timeout(ANSWER_LIMIT, saying).await.unwrap_or_else(|_| late())?;
        Ok(self.theirs)
    }
}
