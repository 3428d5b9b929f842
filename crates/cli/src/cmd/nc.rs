//! `tack nc`.

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::time::Duration;

use tack_net::HostPort;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::args::nc::{NcConfig, Side};
use crate::args::transport::{ClientSecurity, ServerSecurity};
use crate::cmd::lasting::{Over, dialled, keepalive, served, waiting};
use crate::conn::{Accept, Connection};
use crate::exit::{ExitCode, Failure};
use crate::net::{NetAccept, NetDial, Whom};
use crate::stop::Stop;
use crate::terminal::say;
use crate::transfer::frame::What;

/// Bytes copied at a time.
const CHUNK: usize = 64 << 10;

/// Makes or takes a connection and copies until both directions have ended, or we are told to end. Between
/// two of us, what is copied outlives the connection.
pub async fn run(config: NcConfig, stop: Stop) -> Result<ExitCode, Failure> {
    match config.side.clone() {
        Side::Connect { host, security } => connect(&config, host, security, &stop).await,
        Side::Listen { local, security } => listen(&config, local, security, &stop).await,
    }
}

async fn connect(
    config: &NcConfig,
    host: HostPort,
    security: ClientSecurity,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let is_plain = security.connector()?.is_none();
    let (way, transport) = (config.way.clone(), config.transport.conn_config());
    let whom = Whom::from(&host);
    let open = move || {
        let (way, whom, transport) = (way.clone(), whom.clone(), transport.clone());
        let security = security.clone();
        async move {
            let connector = security.connector()?;
            let dial = NetDial::open(&way, &whom, transport, connector, security.code).await?;
            let conn = dial.connect_ahead().await?;
            Ok((dial, conn))
        }
    };
    let Some(opened) = stop.or(waiting(config.wait, open())).await else {
        return Ok(ExitCode::Interrupted);
    };
    let (dial, conn) = opened??;
    if is_plain {
        let done = converse(conn, stop).await;
        dial.settle(stop).await;
        return done;
    }
    // Its terminal is another program's.
    let (what, quiet) = (What::Talk, true);
    let talk = async |conn| converse(conn, stop).await;
    delivered(dialled((dial, conn), open, (what, quiet), stop, talk).await?)
}

async fn listen(
    config: &NcConfig,
    local: SocketAddr,
    security: Option<ServerSecurity>,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let identity = security.as_ref().map(|s| s.admitting(false)).transpose()?;
    let is_plain = identity.is_none();
    let transport = config.transport.conn_config();
    let keepalive = if is_plain { transport.keepalive } else { Some(keepalive()) };
    let transport = transport.with(|it| it.keepalive = keepalive);
    let mut server = NetAccept::listen(&config.way, local, transport, identity)?;
    if !config.quiet {
        say(format_args!("Listening on {} ({}).", server.local_addr(), server.medium()));
        if let Some(key) = server.fingerprint() {
            say(format_args!("Key: {key}"));
        }
        if let Some(code) = server.door().code() {
            say(format_args!("Code: {code} (the other side needs --code {code})"));
        }
    }
    let done = if is_plain {
        let Some(conn) = stop.or(waiting(config.wait, server.accept())).await else {
            return Ok(ExitCode::Interrupted);
        };
        converse(conn?.map_err(failed("take connections any more"))?, stop).await
    } else {
        let talk = async |conn| converse(conn, stop).await;
        let done = served(&mut server, What::Talk, config.wait, stop, talk).await;
        done.and_then(delivered)
    };
    server.settle(stop).await;
    match done {
        // For want of anybody.
        Err(failure) if failure.code == ExitCode::Interrupted => Ok(ExitCode::Interrupted),
        done => done,
    }
}

/// How a talk ended that was over at this end.
fn delivered((code, told): Over<ExitCode>) -> Result<ExitCode, Failure> {
    match told {
        Err(failure) if code == ExitCode::Success => Err(failure),
        _ => Ok(code),
    }
}

async fn converse(conn: impl Connection, stop: &Stop) -> Result<ExitCode, Failure> {
    let patient = !io::stdin().is_terminal();
    let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
    let (mut reader, mut writer) = tokio::io::split(conn);
    let copying = copy_both((&mut reader, &mut writer), stdin, stdout, patient, close_stdout);
    let copied = stop.or(copying).await;
    let conn = reader.unsplit(writer);
    match copied {
        Some(copied) => {
            copied?;
            conn.finished().await.map_err(failed("deliver the last bytes"))?;
            Ok(ExitCode::Success)
        }
        None => {
            take_leave(conn, stop).await;
            Ok(ExitCode::Interrupted)
        }
    }
}

/// Ends both directions as well as can be. A kernel does that for programs that are ended; our
/// TCP goes with the process, and the peer must hear of it before. ssh hangs up on its proxy as
/// soon as it is done.
async fn take_leave(mut conn: impl Connection, stop: &Stop) {
    let leaving = async {
        conn.shutdown().await?;
        tokio::io::copy(&mut conn, &mut tokio::io::sink()).await?;
        conn.finished().await
    };
    if stop.or_soon(Duration::MAX, leaving).await.is_none() {
        conn.abort();
    }
}

/// Tells whoever reads our standard output that no more comes, although we go on.
fn close_stdout() {
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    // If that fails, the reader learns of it from our end.
    let _ = null.map(rustix::stdio::dup2_stdout);
}

/// How long what came is written out once nothing can be sent any more.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Copies `input` to the peer and the peer to `output`; each direction ends by itself.
/// `on_peer_end` is called when the peer's has; unless `patient`, ours ends with it.
async fn copy_both<W: AsyncWrite + Unpin>(
    (reader, writer): (impl AsyncRead + Unpin, &mut W),
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    patient: bool,
    on_peer_end: impl FnOnce(),
) -> Result<(), Failure> {
    let mut outward = Box::pin(async {
        copy(input, &mut *writer, ("read standard input", "send")).await?;
        writer.shutdown().await.map_err(failed("end our direction"))
    });
    let mut inward = Box::pin(async {
        copy(reader, &mut output, ("receive", "write to standard output")).await?;
        on_peer_end();
        Ok::<(), Failure>(())
    });
    tokio::select! {
        done = &mut outward => {
            let Err(failure) = done else { return inward.await };
            // What the peer said before it went lies here already.
            let _ = timeout(LAST_WORDS, inward).await;
            return Err(failure);
        }
        done = &mut inward => done?,
    }
    if patient {
        return outward.await;
    }
    drop(outward);
    writer.shutdown().await.map_err(failed("end our direction"))
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    (reading, writing): (&'static str, &'static str),
) -> Result<(), Failure> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let n = from.read(&mut buffer).await.map_err(failed(reading))?;
        if n == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..n]).await.map_err(failed(writing))?;
        // Whoever waits at the other end should have it, however little it is.
        to.flush().await.map_err(failed(writing))?;
    }
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |e| Failure::new(ExitCode::Failed, format!("cannot {what}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_the_peer_said_before_it_reset_is_written_out() {
        for _ in 0..20 {
            let (mut writer, peer) = tokio::io::duplex(64);
            drop(peer);
            let (said, mut got) = (vec![7; 5 * CHUNK], Vec::new());
            let copied =
                copy_both((&said[..], &mut writer), &b"x"[..], &mut got, true, || {}).await;
            assert_eq!(copied.unwrap_err().code, ExitCode::Failed);
            assert!(got == said, "{} bytes", got.len());
        }
    }
}
