//! `tack recv`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::args::recv::{Destination, RecvConfig};
use crate::args::transport::ServerSecurity;
use crate::cmd::invite::Invitation;
use crate::cmd::lasting::{RETURN_LIMIT, keepalive, served};
use crate::conn::{Accept, Connection};
use crate::exit::{ExitCode, Failure};
use crate::net::NetAccept;
use crate::notices::Notices;
use crate::progress::Progress;
use crate::stop::Stop;
use crate::task::task;
use crate::terminal::say;
use crate::transfer::disk::blocking;
use crate::transfer::error::{Standing, TransferError};
use crate::transfer::frame::What;
use crate::transfer::pipe::receive_stream;
use crate::transfer::received::Received;
use crate::transfer::recv::{Intake, Limits, busy, decline, receive_tree};
use crate::transfer::sessions::Sessions;
use crate::transfer::store::{Durability, Store};
use crate::units::bytes_text;
use tack_net::budget::{Budget, Exhausted, Peer};

/// Most connections that are served at once, if only by being turned away; and of one peer.
const MAX_CONNECTIONS: (usize, usize) = (256, 64);

/// Listens and receives.
pub async fn run(config: RecvConfig, stop: Stop) -> Result<ExitCode, Failure> {
    if let Destination::Dir(dir) = &config.destination {
        // What is wrong with the directory should show before anybody connects.
        Store::open(dir, config.durability)?.tidy();
    }
    let admitting = |s: &ServerSecurity| s.admitting(config.keep);
    let identity = config.security.as_ref().map(admitting).transpose()?;
    let mut transport = config.transport.conn_config();
    if config.destination == Destination::Stdout {
        transport.keepalive = Some(keepalive());
    }
    let mut server = NetAccept::listen(&config.way, config.local, transport, identity)?;
    if !config.quiet {
        explain(&config, &server).await;
        config.note.iter().for_each(|note| say(format_args!("tack: {note}")));
    }
    let result = match &config.destination {
        Destination::Stdout => {
            to_stdout(&mut server, tokio::io::stdout(), config.quiet, &stop).await
        }
        Destination::Dir(dir) => {
            let RecvConfig { overwrite, quiet, durability, .. } = config;
            let open = server.door().is_open();
            let session = Session { overwrite, quiet, durability, open };
            to_dir(&mut server, dir, session, config.keep, &stop).await
        }
    };
    server.settle(&stop).await;
    result
}

/// Tells what to type on the other machine.
async fn explain(config: &RecvConfig, server: &NetAccept) {
    let (what, into) = match &config.destination {
        Destination::Stdout => ("-", "standard output".to_owned()),
        Destination::Dir(dir) => ("PATH…", format!("`{}`", dir.display())),
    };
    let doing = format!("Receiving into {into}");
    let invitation = Invitation { doing: &doing, what: "what comes", may: "send" };
    let way = config.way.flags();
    invitation.tell(server, |host, proof| format!("tack send {what} {host} {proof}{way}")).await;
}

/// How a transfer is taken in.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// Whether files may be replaced.
    pub overwrite: bool,
    /// Whether to say nothing.
    pub quiet: bool,
    /// When what comes has to be on the disk.
    pub durability: Durability,
    /// Whether anybody may send: then a transfer without a file is not the one waited for.
    pub open: bool,
}

/// Receives trees into `dir` until one is complete, or, with `keep`, for ever.
///
/// # Errors
/// Only if the listener or the directory fails, or `stop` says so; a failed transfer is reported,
/// and its sender may try again.
pub async fn to_dir<A: Accept>(
    server: &mut A,
    dir: &Path,
    session: Session,
    keep: bool,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let mut running: JoinSet<Result<Received, TransferError>> = JoinSet::new();
    let (sessions, limits) = (Sessions::default(), Limits::default());
    let connections = Budget::new(MAX_CONNECTIONS.0, MAX_CONNECTIONS.1);
    let (mut stopping, notices) = (false, Notices::default());
    // Until when a sender is waited for that may not know that all of it is here.
    let mut unheard: Option<Instant> = None;
    let done = loop {
        let until = unheard.unwrap_or_else(Instant::now);
        tokio::select! {
            conn = server.accept(), if !stopping => {
                let conn = conn.map_err(listener_failed)?;
                let Ok(served) = connections.take_or_displace(peer_of(&conn), 1) else {
                    // It is answered at once, and by no more than this.
                    conn.abort();
                    continue;
                };
                let shared = (sessions.clone(), limits.clone());
                let receiving =
                    receive_one(conn, dir.to_owned(), shared, session, stop.clone());
                running.spawn(task(async move {
                    tokio::select! {
                        biased;
                        received = receiving => received,
                        () = served.revoked() => Err(busy(Exhausted::All)),
                    }
                }));
            }
            Some(ended) = running.join_next() => {
                let ended = ended.unwrap_or(Err(TransferError::Stopped(Standing::Unknown)));
                let complete = ended.as_ref().ok().filter(|got| got.files > 0 || !session.open);
                let unknown = complete.filter(|got| !got.is_known_there).map(|got| got.sender);
                let over = complete.is_some() && !keep && (!stopping || running.is_empty());
                // Whoever comes back has been told of.
                if unheard.is_none() || ended.is_err() {
                    report(ended, session.quiet, &notices);
                }
                match unknown {
                    _ if !over => {}
                    Some(sender) if !stopping => {
                        running.shutdown().await;
                        sessions.reserve_for(sender);
                        unheard = Some(Instant::now() + RETURN_LIMIT);
                        say(format_args!(
                            "tack: the sender may not know that yet; waiting for it, {RETURN_LIMIT:?} at most"
                        ));
                    }
                    _ => break Ok(ExitCode::Success),
                }
            }
            () = sleep_until(until), if unheard.is_some() => break Ok(ExitCode::Success),
            () = stop.asked(), if !stopping => {
                if unheard.is_some() {
                    break Ok(ExitCode::Success);
                }
                if running.is_empty() {
                    break Err(Failure::interrupted());
                }
                // Each is told, too, and says what came of it.
                stopping = true;
            }
            else => break Ok(ExitCode::Interrupted),
        }
    };
    tidy(dir, session.durability);
    done
}

/// Leaves no trace but what was received. If that cannot be, it is no reason to fail.
fn tidy(dir: &Path, durability: Durability) {
    if dir.is_dir()
        && let Ok(store) = Store::open(dir, durability)
    {
        store.tidy();
    }
}

async fn receive_one<C: Connection>(
    conn: C,
    dir: PathBuf,
    (sessions, limits): (Sessions, Limits),
    session: Session,
    stop: Stop,
) -> Result<Received, TransferError> {
    let progress = Progress::new(session.quiet);
    let Session { overwrite, durability, .. } = session;
    // What is wrong with the directory now concerns this sender, and the next one perhaps not.
    let opening = dir.clone();
    let store = blocking(move || Store::open(&opening, durability)).await;
    let received = match store {
        Ok(store) => {
            let intake = Intake { store: Arc::new(store), overwrite, sessions, limits };
            receive_tree(conn, &intake, &progress, &stop).await
        }
        Err(error) => decline(conn, error, &stop).await,
    };
    tidy(&dir, durability);
    received
}

fn report(ended: Result<Received, TransferError>, quiet: bool, notices: &Notices) {
    match ended {
        Err(error @ TransferError::Stopped(_)) => say(format_args!("tack: {error}")),
        Ok(received) => {
            for why in &received.skipped {
                say(format_args!("tack: the sender left out: {why}"));
            }
            if !quiet {
                let files = match received.files {
                    1 => "1 file".to_owned(),
                    n => format!("{n} files"),
                };
                say(format_args!("received {files}, {}, verified", bytes_text(received.bytes)));
            }
        }
        Err(error) => notices.say(format_args!("{error}; still listening")),
    }
}

/// Receives one stream. Strangers that don't even open properly are passed over.
pub async fn to_stdout<A: Accept>(
    server: &mut A,
    mut out: impl tokio::io::AsyncWrite + Unpin,
    quiet: bool,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let progress = Progress::new(quiet);
    let receiving = async |conn| Ok(receive_stream(conn, &mut out, &progress, stop).await?);
    let received = served(server, What::Stream, None, stop, receiving).await;
    progress.finish();
    // It is right and it is out, whatever the sender hears of that.
    let (bytes, _) = received?;
    if !quiet {
        say(format_args!("received {}, verified", bytes_text(bytes)));
    }
    Ok(ExitCode::Success)
}

fn peer_of(conn: &impl Connection) -> Peer {
    Peer::of(conn.addresses().map(|(_, peer)| peer))
}

fn listener_failed(error: io::Error) -> Failure {
    Failure::new(ExitCode::Failed, format!("cannot take connections any more: {error}"))
}
