//! The server's streams, which outlive the connections that carry them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::limits::{Holding, Seat};
use super::protocol::{Answer, Name, Opened};
use super::relay::{Broken, Passed, Session};
use super::stream::PATIENCE;
use crate::conn::Connection;
use crate::stop::Stop;

/// How long a client may take to end the connection of a stream that is over. One that cannot asks once more.
const PARTING: Duration = Duration::from_secs(60);
/// Connections that wait for a stream to look at them: a client that is impatient has the last one.
const MOST_WAITING: usize = 4;

/// Another connection for a stream, whose client has everything before a position.
type Handover<C> = (C, u64);

/// See the [module's text](self). `C` is what carries them.
#[derive(Debug)]
pub struct Streams<C>(All<C>);

type All<C> = Arc<Mutex<BTreeMap<Name, mpsc::Sender<Handover<C>>>>>;

impl<C> Default for Streams<C> {
    fn default() -> Streams<C> {
        Streams(Arc::default())
    }
}

impl<C: Connection> Streams<C> {
    /// A place for a new stream, which holds this seat; `None`: one has that name.
    pub fn enter(&self, name: Name, seat: Seat) -> Option<Place<C>> {
        let (hand, handed) = mpsc::channel(MOST_WAITING);
        let mut all = lock(&self.0);
        if all.contains_key(&name) {
            return None;
        }
        all.insert(name, hand);
        Some(Place { name, all: self.0.clone(), handed, seat: Arc::new(seat) })
    }

    /// The stream with this name is to go on over `conn`.
    ///
    /// # Errors
    /// There is none; `conn` comes back.
    pub fn hand_over(&self, name: Name, conn: C, position: u64) -> Result<(), C> {
        let all = lock(&self.0);
        let Some(stream) = all.get(&name) else { return Err(conn) };
        match stream.try_send((conn, position)) {
            Ok(()) => Ok(()),
            // Its client tries again.
            Err(mpsc::error::TrySendError::Full((conn, _))) => {
                conn.abort();
                Ok(())
            }
            Err(mpsc::error::TrySendError::Closed((conn, _))) => Err(conn),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream's place, as long as this lives.
#[derive(Debug)]
pub struct Place<C> {
    name: Name,
    all: All<C>,
    handed: mpsc::Receiver<Handover<C>>,
    seat: Arc<Seat>,
}

impl<C> Drop for Place<C> {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.name);
    }
}

impl<C: Connection> Place<C> {
    /// The connection that was handed over last, or else `conn`.
    pub fn latest(mut self, mut conn: C) -> C {
        while let Ok((next, _)) = self.handed.try_recv() {
            std::mem::replace(&mut conn, next).abort();
        }
        conn
    }

    /// What comes of `work`; `None`: the stream has to make room.
    pub async fn while_held<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        self.seat.while_held(work).await
    }

    /// Carries bytes between the target's connection and the client, over `conn` and whatever is handed over
    /// after it.
    ///
    /// # Errors
    /// How the stream ended, if not in order.
    pub async fn carry(
        mut self,
        conn: C,
        mut program: TcpStream,
        stop: &Stop,
    ) -> Result<Passed, Broken> {
        let from = program.local_addr().map_err(Broken::Program)?;
        let seat = self.seat.clone();
        let mut carrier = Carrier::new(conn, from, seat.holding().clone());
        carrier.answer();
        let carrying = stop.or(self.carry_on(&mut carrier, &mut program));
        let carried = seat.while_held(carrying).await;
        match carried.unwrap_or(Some(Err(Broken::TakenAway))) {
            Some(Ok(())) => {
                drop(program);
                let lingering = stop.or(timeout(PARTING, self.linger(&mut carrier)));
                let _ = seat.while_held(lingering).await;
                Ok(carrier.session.passed())
            }
            Some(Err(Broken::Program(error))) => {
                drop(program);
                let insisting = stop.or(timeout(PATIENCE, self.insist(&mut carrier)));
                let _ = seat.while_held(insisting).await;
                Err(Broken::Program(error))
            }
            Some(Err(Broken::Reset)) => {
                program.abort();
                carrier.part().await;
                Err(Broken::Reset)
            }
            None => {
                program.abort();
                let _ = stop.or_soon(PARTING, carrier.part()).await;
                Err(Broken::Reset)
            }
            Some(Err(other)) => {
                program.abort();
                if let Some(conn) = carrier.conn {
                    conn.abort();
                }
                Err(other)
            }
        }
    }

    async fn carry_on(
        &mut self,
        carrier: &mut Carrier<C>,
        program: &mut TcpStream,
    ) -> Result<(), Broken> {
        loop {
            let Some(conn) = &mut carrier.conn else {
                self.wait(carrier).await?;
                continue;
            };
            tokio::select! {
                biased;
                Some(next) = self.handed.recv() => carrier.go_on_over(next)?,
                carried = carrier.session.carry(conn, program) => match carried {
                    Err(Broken::Connection(error)) => {
                        tracing::info!(name = ?self.name, %error, "waiting for another connection");
                        carrier.give_up();
                    }
                    carried => return carried,
                }
            }
        }
    }

    /// Waits for another connection.
    async fn wait(&mut self, carrier: &mut Carrier<C>) -> Result<(), Broken> {
        let next = timeout(PATIENCE, self.handed.recv()).await.ok().flatten();
        let next = next.ok_or(Broken::Connection(std::io::ErrorKind::TimedOut.into()))?;
        carrier.go_on_over(next)
    }

    /// That the program broke is certain to be heard.
    async fn insist(&mut self, carrier: &mut Carrier<C>) {
        loop {
            if let Some(conn) = &mut carrier.conn {
                if carrier.session.farewell(conn).await.is_ok() {
                    return carrier.leave().await;
                }
                carrier.give_up();
            }
            if self.wait(carrier).await.is_err() {
                return;
            }
        }
    }

    /// All is over, and the client ends the connection when it knows.
    async fn linger(&mut self, carrier: &mut Carrier<C>) {
        loop {
            let Some(conn) = &mut carrier.conn else { return };
            let mut ignored = [0; 64];
            tokio::select! {
                biased;
                Some(next) = self.handed.recv() => {
                    if carrier.go_on_over(next).is_err() {
                        return carrier.give_up();
                    }
                    carrier.part_in_order().await;
                }
                read = conn.read(&mut ignored) => match read {
                    Ok(1..) => {}
                    Ok(0) => return carrier.leave().await,
                    Err(_) => {
                        carrier.give_up();
                        if self.wait(carrier).await.is_err() {
                            return;
                        }
                        carrier.part_in_order().await;
                    }
                }
            }
        }
    }
}

/// What carries a stream now.
#[derive(Debug)]
struct Carrier<C> {
    conn: Option<C>,
    session: Session,
    from: std::net::SocketAddr,
    holding: Arc<Holding>,
}

impl<C: Connection> Carrier<C> {
    fn new(conn: C, from: std::net::SocketAddr, holding: Arc<Holding>) -> Carrier<C> {
        holding.carried_by(&conn);
        let session = Session::told(holding.kept());
        Carrier { conn: Some(conn), session, from, holding }
    }

    fn answer(&mut self) {
        let opened = Opened { position: self.session.position(), from: self.from };
        self.session.say(&Answer::Opened(opened).bytes());
    }

    fn go_on_over(&mut self, (conn, position): Handover<C>) -> Result<(), Broken> {
        self.give_up();
        self.holding.carried_by(&conn);
        self.conn = Some(conn);
        self.session.restart(position)?;
        self.answer();
        Ok(())
    }

    fn give_up(&mut self) {
        if let Some(conn) = self.conn.take() {
            conn.abort();
        }
    }

    /// The client is told, once, that the stream broke off.
    async fn part(&mut self) {
        if let Some(conn) = &mut self.conn {
            self.session.part(conn).await;
        }
        self.leave().await;
    }

    /// The client is told that we have everything.
    async fn part_in_order(&mut self) {
        if let Some(conn) = &mut self.conn {
            self.session.flush(conn).await;
        }
    }

    async fn leave(&mut self) {
        if let Some(mut conn) = self.conn.take() {
            // The client knows all that matters.
            let _ = conn.shutdown().await;
        }
    }
}
