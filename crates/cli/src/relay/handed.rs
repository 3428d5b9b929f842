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

/// The one that was handed over last, `first` or after it: its client relies on no other any more.
pub fn newest<C: Connection>(
    mut first: Handover<C>,
    handed: &mut mpsc::Receiver<Handover<C>>,
) -> Handover<C> {
    while let Ok(next) = handed.try_recv() {
        std::mem::replace(&mut first, next).0.abort();
    }
    first
}

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
        let (conn, theirs) = newest(next?, self.handed);
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::relay::frame::{End, Frame};
    use crate::relay::{Carrier, Session};

    #[test]
    fn a_reset_is_told_over_the_connection_that_was_handed_over_last_however_many_dead_ones_wait() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().start_paused(true).build().unwrap().block_on(async {
            let (hand, mut handed) = mpsc::channel(MOST_WAITING);
            let hand_over = || -> DuplexStream {
                let (near, far) = duplex(1_000);
                hand.try_send((near, 0)).expect("there is room");
                far
            };
            let supply = Handed::new(None, &mut handed, Duration::MAX, |_: &_, _| b"!".to_vec());
            let mut carrier = Carrier::new(supply, Session::default());
            let since = Instant::now();
            let client = async {
                let _dies_while_it_is_told = hand_over();
                sleep(Duration::from_millis(100)).await;
                let _dead = [hand_over(), hand_over()];
                let mut last = hand_over();
                Session::default().part(&mut last).await;
                let mut heard = Vec::new();
                last.read_to_end(&mut heard).await.expect("the end");
                assert_eq!(heard, [b"!", &Frame::End(End::Reset).bytes()[..]].concat());
            };
            tokio::join!(carrier.insist(), client);
            assert_eq!(since.elapsed(), Duration::from_millis(100));
        });
    }
}
