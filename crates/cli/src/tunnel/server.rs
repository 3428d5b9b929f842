//! `tack tunnel serve`: what clients ask for, connected from here.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::allow::AllowList;
use super::egress::connect;
use super::limits::{LOOK, Ledger, Limits};
use super::message::read_message;
use super::protocol::{Answer, Cause, Greeting, Name, Open, Opened, Refusal};
use super::sockets::datagrams;
use super::streams::Streams;
use super::target::Target;
use super::udp;
use crate::conn::{Accept, Connection};
use crate::exit::{ExitCode, Failure};
use crate::stop::Stop;
use crate::task::task;
use tack_net::budget::{Exhausted, Grant, Peer};

/// How long a client that was refused may take to hear of it.
const PARTING: Duration = Duration::from_secs(5);

/// Serves until it is told to end.
///
/// # Errors
/// The listener failed.
pub async fn serve<A: Accept>(
    server: &mut A,
    allow: AllowList,
    limits: &Limits,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let ledger = Ledger::new(limits);
    let greeting = Greeting::draw()
        .map_err(|e| Failure::new(ExitCode::Failed, format!("no number for this process: {e}")))?;
    let service = Service {
        greeting,
        streams: Arc::new(Streams::default()),
        allow: Arc::new(allow),
        ledger: ledger.clone(),
        stop: stop.clone(),
    };
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    loop {
        tokio::select! {
            conn = server.accept() => {
                let conn = conn.map_err(|e| {
                    let why = format!("cannot take connections any more: {e}");
                    Failure::new(ExitCode::Failed, why)
                })?;
                let peer = conn.addresses().map(|(_, peer)| peer);
                let Ok(place) = ledger.waiting.take_or_replace(Peer::of(peer), 1) else {
                    tracing::warn!(?peer, "as many connections as there may be");
                    conn.abort();
                    continue;
                };
                let (service, alive) = (service.clone(), alive.clone());
                tokio::spawn(task(async move {
                    if let Err(error) = service.serve(conn, Peer::of(peer), place).await {
                        tracing::info!(?peer, %error, "a stream ended");
                    }
                    drop(alive);
                }));
            }
            _ = look.tick() => ledger.look(),
            () = stop.asked() => break,
        }
    }
    drop(alive);
    let _ = stop.or_soon(PARTING, all_gone.recv()).await;
    Ok(ExitCode::Interrupted)
}

/// What every connection is served with.
struct Service<C> {
    greeting: Greeting,
    streams: Arc<Streams<C>>,
    allow: Arc<AllowList>,
    ledger: Ledger,
    stop: Stop,
}

impl<C> Clone for Service<C> {
    fn clone(&self) -> Service<C> {
        Service {
            greeting: self.greeting,
            streams: self.streams.clone(),
            allow: self.allow.clone(),
            ledger: self.ledger.clone(),
            stop: self.stop.clone(),
        }
    }
}

impl<C: Connection> Service<C> {
    /// One connection: from its opening to its end, or until it is handed to the stream that goes on over it.
    async fn serve(&self, mut conn: C, peer: Peer, waits: Grant) -> io::Result<()> {
        conn.write_all(&self.greeting.bytes()).await?;
        conn.flush().await?;
        let opening = tokio::select! {
            biased;
            () = waits.revoked() => None,
            opening = self.stop.or(read_message(&mut conn, Open::read)) => opening,
        };
        let Some(opening) = opening else {
            // A spare: nobody is waiting.
            conn.abort();
            return Ok(());
        };
        let open = match opening? {
            Ok(open) => open,
            Err(error) => {
                let refusal = Refusal::new(Cause::Failed, error.to_string());
                refuse(conn, refusal).await;
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
        };
        match open {
            Open::Associate => self.associate(conn, peer, waits).await,
            Open::Connect(name, target) => self.open(conn, (name, target), peer, waits).await,
            Open::Again(name, target) => match self.streams.hand_over(name, conn, 0) {
                Ok(()) => Ok(()),
                Err(back) => self.open(back, (name, target), peer, waits).await,
            },
            Open::Resume(name, position) => {
                if let Err(back) = self.streams.hand_over(name, conn, position) {
                    gone(back).await;
                }
                Ok(())
            }
        }
    }

    /// A new stream.
    async fn open(
        &self,
        conn: C,
        (name, target): (Name, Target),
        peer: Peer,
        waits: Grant,
    ) -> io::Result<()> {
        let seat = match self.ledger.stream(peer) {
            Ok(seat) => seat,
            Err(exhausted) => {
                refuse(conn, busy("streams", exhausted)).await;
                return Ok(());
            }
        };
        let Some(place) = self.streams.enter(name, seat) else {
            refuse(conn, Refusal::new(Cause::Failed, "a stream has that name")).await;
            return Ok(());
        };
        let connecting = self.stop.or(self.connect(&target, peer));
        let connected = place.while_held(connecting).await.flatten();
        match connected {
            Some(Ok(program)) => {
                drop(waits);
                tracing::info!(%target, ?name, "open");
                let carried = place.carry(conn, program, &self.stop).await;
                let passed = carried.map_err(io::Error::other)?;
                tracing::info!(%target, to = passed.to, from = passed.from, "bytes passed");
            }
            Some(Err(refusal)) => {
                tracing::info!(%target, why = refusal.why, "refused");
                refuse(place.latest(conn), refusal).await;
            }
            None => conn.abort(),
        }
        Ok(())
    }

    async fn connect(&self, target: &Target, peer: Peer) -> Result<TcpStream, Refusal> {
        let attempt = self.ledger.attempts.take_or_displace(peer, 1);
        let attempt = attempt.map_err(|exhausted| busy("connections under way", exhausted))?;
        tokio::select! {
            biased;
            () = attempt.revoked() => Err(busy("connections under way", Exhausted::All)),
            connected = connect(target, &self.allow) => connected,
        }
    }

    async fn associate(&self, mut conn: C, peer: Peer, waits: Grant) -> io::Result<()> {
        let seat = match self.ledger.association(peer) {
            Ok(seat) => seat,
            Err(exhausted) => {
                refuse(conn, busy("associations", exhausted)).await;
                return Ok(());
            }
        };
        drop(waits);
        seat.holding().carried_by(&conn);
        let socket = datagrams()?;
        let answer = Answer::Opened(Opened { position: 0, from: socket.local_addr()? });
        conn.write_all(&answer.bytes()).await?;
        conn.flush().await?;
        let serving = self.stop.or(udp::serve(conn, socket, &self.allow));
        seat.while_held(serving).await.flatten().unwrap_or(Ok(()))
    }
}

/// Too many of them.
fn busy(what: &str, exhausted: Exhausted) -> Refusal {
    let whose = match exhausted {
        Exhausted::Peer => "from your address",
        Exhausted::All => "in all",
    };
    Refusal::new(Cause::Busy, format!("the server takes no more {what} {whose} for now"))
}

async fn gone(conn: impl Connection) {
    let why = "the server does not know this stream any more";
    refuse(conn, Refusal::new(Cause::Gone, why)).await;
}

/// Says no, and waits for the client to have heard it: what it sent meanwhile must not reset the
/// connection before.
async fn refuse(mut conn: impl Connection, refusal: Refusal) {
    let telling = async {
        conn.write_all(&Answer::Refused(refusal).bytes()).await?;
        conn.shutdown().await?;
        let mut ignored = [0; 4_096];
        while conn.read(&mut ignored).await? > 0 {}
        Ok::<(), io::Error>(())
    };
    let _ = timeout(PARTING, telling).await;
}
