//! One end of a stream, carried by one connection after another.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::session::{Broken, Passed, Session};
use crate::conn::Connection;

/// Where a stream's connections come from.
pub trait Supply: Send {
    /// What they are.
    type Conn: Connection;

    /// Whether this end ends the last connection when all is over. The other one waits for that, since it cannot
    /// know that its last word was heard.
    const LEAVES: bool;

    /// Another connection; `None`: there will be none any more. While the last one is not `broken` this may take
    /// for ever.
    ///
    /// Cancel safe as long as it is not.
    fn next(&mut self, broken: bool) -> impl Future<Output = Option<Self::Conn>> + Send;

    /// Both ends say what they have: we everything before `position`, the other end everything before what is
    /// returned. `None`: it does not go on with this stream.
    ///
    /// # Errors
    /// The connection broke.
    fn agree(
        &mut self,
        conn: &mut Self::Conn,
        position: u64,
    ) -> impl Future<Output = io::Result<Option<u64>>> + Send;
}

/// See the [module's text](self).
#[derive(Debug)]
pub struct Carrier<S: Supply> {
    supply: S,
    session: Session,
    conn: Option<S::Conn>,
}

impl<S: Supply> Carrier<S> {
    /// One that nothing carries yet.
    pub fn new(supply: S, session: Session) -> Carrier<S> {
        Carrier { supply, session, conn: None }
    }

    /// Where its connections come from.
    pub fn supply(&mut self) -> &mut S {
        &mut self.supply
    }

    /// What carries it now, if anything, and what it has come to.
    pub fn current(&mut self) -> (Option<&mut S::Conn>, &mut Session) {
        (self.conn.as_mut(), &mut self.session)
    }

    /// What passed so far.
    pub fn passed(&self) -> Passed {
        self.session.passed()
    }

    /// Begins on this connection, on which nothing need be agreed.
    pub fn begin_on(&mut self, conn: S::Conn) {
        self.conn = Some(conn);
    }

    /// Waits until something carries it.
    ///
    /// # Errors
    /// Nothing will.
    pub async fn begin(&mut self) -> Result<(), Broken> {
        while self.conn.is_none() {
            let next = self.supply.next(true).await;
            self.go_on_over(next).await?;
        }
        Ok(())
    }

    /// Moves bytes until both directions have ended and the other end knows.
    ///
    /// # Errors
    /// What broke, if it was not only a connection: [`Self::end`] is next.
    pub async fn carry(
        &mut self,
        program: &mut (impl AsyncRead + AsyncWrite + Unpin + Send),
    ) -> Result<(), Broken> {
        loop {
            let carrying = async |session: &mut Session, conn: &mut S::Conn| {
                session.carry(conn, program).await
            };
            match self.on_a_connection(carrying).await? {
                None => {}
                Some(Err(Broken::Connection(error))) => {
                    tracing::info!(%error, "waiting for another connection");
                    self.give_up();
                }
                Some(carried) => return carried,
            }
        }
    }

    /// What comes of `work` on a connection; `None`: there is another one, on which to begin again.
    async fn on_a_connection<T>(
        &mut self,
        work: impl AsyncFnOnce(&mut Session, &mut S::Conn) -> T,
    ) -> Result<Option<T>, Broken> {
        self.begin().await?;
        let Some(conn) = &mut self.conn else { return Ok(None) };
        let next = tokio::select! {
            biased;
            next = self.supply.next(false) => next,
            done = work(&mut self.session, conn) => return Ok(Some(done)),
        };
        self.go_on_over(next).await?;
        Ok(None)
    }

    async fn go_on_over(&mut self, next: Option<S::Conn>) -> Result<(), Broken> {
        self.give_up();
        let mut conn = next.ok_or(Broken::Abandoned)?;
        match self.supply.agree(&mut conn, self.session.position()).await {
            Ok(Some(theirs)) => {
                self.session.restart(theirs)?;
                self.conn = Some(conn);
            }
            Ok(None) => return Err(Broken::Abandoned),
            Err(error) => {
                tracing::debug!(%error, "that connection broke too");
                conn.abort();
            }
        }
        Ok(())
    }

    /// Has the other end know how [`Self::carry`] ended, as far as that can be. It may take as long as connections
    /// can be had.
    pub async fn end(&mut self, carried: &Result<(), Broken>) {
        match carried {
            Ok(()) if S::LEAVES => self.leave().await,
            Ok(()) => self.linger().await,
            Err(Broken::Program(_)) => self.insist().await,
            Err(Broken::Reset) => self.part().await,
            Err(_) => self.give_up(),
        }
    }

    /// The other end is told, once, that the stream broke off.
    pub async fn part(&mut self) {
        if let Some(conn) = &mut self.conn {
            self.session.part(conn).await;
        }
        self.leave().await;
    }

    /// That the program broke is certain to be heard.
    pub async fn insist(&mut self) {
        let telling =
            async |session: &mut Session, conn: &mut S::Conn| session.farewell(conn).await;
        while let Ok(told) = self.on_a_connection(telling).await {
            match told {
                None => {}
                Some(Ok(())) => return self.leave().await,
                Some(Err(error)) => {
                    tracing::debug!(%error, "the other end may not have heard of a reset");
                    self.give_up();
                }
            }
        }
        self.give_up();
    }

    /// All is over, and the other end ends the connection when it knows.
    async fn linger(&mut self) {
        let listening = async |session: &mut Session, conn: &mut S::Conn| {
            session.flush(conn).await;
            let mut ignored = [0; 64];
            loop {
                match conn.read(&mut ignored).await {
                    Ok(1..) => {}
                    end => return end,
                }
            }
        };
        while let Ok(ended) = self.on_a_connection(listening).await {
            match ended {
                None => {}
                Some(Ok(_)) => return self.leave().await,
                Some(Err(_)) => self.give_up(),
            }
        }
        self.give_up();
    }

    /// Ends the connection in order.
    pub async fn leave(&mut self) {
        if let Some(mut conn) = self.conn.take() {
            // The other end knows all that matters.
            let _ = conn.shutdown().await;
        }
    }

    /// Ends the connection, which carries nothing any more.
    pub fn give_up(&mut self) {
        if let Some(conn) = self.conn.take() {
            conn.abort();
        }
    }
}
