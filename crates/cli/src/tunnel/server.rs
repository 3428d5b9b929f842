//! `tack tunnel serve`: what clients ask for, connected from here.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::MAX_STREAMS;
use super::allow::AllowList;
use super::egress::connect;
use super::protocol::{Answer, Cause, Greeting, Open, Opened, Refusal};
use super::relay::read_message;
use super::streams::Streams;
use super::udp;
use crate::conn::{Accept, Connection};
use crate::exit::{ExitCode, Failure};
use crate::stop::Stop;
use tack_net::budget::{Budget, Peer};

/// How long a client that was refused may take to hear of it.
const PARTING: Duration = Duration::from_secs(5);

/// Most streams and spare connections in all, and of one address. Most, not all: others get in.
const CONNECTIONS: (usize, usize) = (MAX_STREAMS + 1_024, MAX_STREAMS / 8 * 7);

/// Serves until it is told to end.
///
/// # Errors
/// The listener failed.
pub async fn serve<A: Accept>(
    server: &mut A,
    allow: AllowList,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let allow = Arc::new(allow);
    let connections = Budget::new(CONNECTIONS.0, CONNECTIONS.1);
    let greeting = Greeting::draw()
        .map_err(|e| Failure::new(ExitCode::Failed, format!("no number for this process: {e}")))?;
    let streams = Arc::new(Streams::default());
    let (alive, mut all_gone) = mpsc::channel::<()>(1);
    loop {
        tokio::select! {
            conn = server.accept() => {
                let conn = conn.map_err(|e| {
                    let why = format!("cannot take connections any more: {e}");
                    Failure::new(ExitCode::Failed, why)
                })?;
                let peer = conn.addresses().map(|(_, peer)| peer);
                let Ok(place) = connections.take(Peer::of(peer), 1) else {
                    tracing::warn!(?peer, "as many connections as there may be");
                    conn.abort();
                    continue;
                };
                let (allow, stop, alive) = (allow.clone(), stop.clone(), alive.clone());
                let streams = streams.clone();
                tokio::spawn(async move {
                    if let Err(error) = serve_one(conn, greeting, &streams, &allow, &stop).await {
                        tracing::info!(?peer, %error, "a stream ended");
                    }
                    drop((place, alive));
                });
            }
            () = stop.asked() => break,
        }
    }
    drop(alive);
    let _ = stop.or_soon(PARTING, all_gone.recv()).await;
    Ok(ExitCode::Interrupted)
}

/// One connection: from its opening to its end, or until it is handed to the stream that goes on over it.
async fn serve_one<C: Connection>(
    mut conn: C,
    greeting: Greeting,
    streams: &Streams<C>,
    allow: &Arc<AllowList>,
    stop: &Stop,
) -> io::Result<()> {
    conn.write_all(&greeting.bytes()).await?;
    conn.flush().await?;
    let opening = stop.or(read_message(&mut conn, Open::read)).await;
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
    let (name, target) = match open {
        Open::Associate => return associate(conn, allow, stop).await,
        Open::Connect(name, target) => (name, target),
        Open::Again(name, target) => match streams.hand_over(name, conn, 0) {
            Ok(()) => return Ok(()),
            Err(back) => {
                conn = back;
                (name, target)
            }
        },
        Open::Resume(name, position) => match streams.hand_over(name, conn, position) {
            Ok(()) => return Ok(()),
            Err(back) => {
                gone(back).await;
                return Ok(());
            }
        },
    };
    let Some(place) = streams.enter(name) else {
        refuse(conn, Refusal::new(Cause::Failed, "a stream has that name")).await;
        return Ok(());
    };
    match stop.or(connect(&target, allow)).await {
        Some(Ok(program)) => {
            tracing::info!(%target, ?name, "open");
            let passed = place.carry(conn, program, stop).await.map_err(io::Error::other)?;
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

async fn associate<C: Connection>(
    mut conn: C,
    allow: &Arc<AllowList>,
    stop: &Stop,
) -> io::Result<()> {
    let socket = udp::any_socket().await?;
    let answer = Answer::Opened(Opened { position: 0, from: socket.local_addr()? });
    conn.write_all(&answer.bytes()).await?;
    conn.flush().await?;
    stop.or(udp::serve(conn, socket, allow)).await.unwrap_or(Ok(()))
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
