//! The server's streams, which outlive the connections that carry them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::limits::Seat;
use super::protocol::{Answer, Name, Opened};
use super::stream::PATIENCE;
use crate::conn::Connection;
use crate::relay::handed::{Handed, Handover, MOST_WAITING, newest};
use crate::relay::{Broken, Carrier, Passed, Session};
use crate::stop::Stop;

/// How long a client may take to end the connection of a stream that is over. One that cannot asks once more.
const PARTING: Duration = Duration::from_secs(60);

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
    pub fn latest(mut self, conn: C) -> C {
        newest((conn, 0), &mut self.handed).0
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
        let (seat, holding) = (self.seat.clone(), self.seat.holding().clone());
        let session = Session::told(holding.kept());
        let answer = move |conn: &C, position| {
            holding.carried_by(conn);
            Answer::Opened(Opened { position, from }).bytes()
        };
        let supply = Handed::new(Some((conn, 0)), &mut self.handed, PATIENCE, answer);
        let mut carrier = Carrier::new(supply, session);
        let carrying = stop.or(carrier.carry(&mut program));
        let Some(carried) = seat.while_held(carrying).await.unwrap_or(Some(Err(Broken::TakenAway)))
        else {
            program.abort();
            let _ = stop.or_soon(PARTING, carrier.part()).await;
            return Err(Broken::Reset);
        };
        match carried {
            Ok(()) | Err(Broken::Program(_)) => drop(program),
            Err(_) => program.abort(),
        }
        let limit = if carried.is_ok() { PARTING } else { PATIENCE };
        let ending = stop.or(timeout(limit, carrier.end(&carried)));
        let _ = seat.while_held(ending).await;
        carried.map(|()| carrier.passed())
    }
}
