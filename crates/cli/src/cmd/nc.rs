//! `tack nc`.

use std::io::{self, IsTerminal};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::args::nc::{NcConfig, Side};
use crate::args::transport::ServerSecurity;
use crate::conn::Accept;
use crate::exit::{ExitCode, Failure};
use crate::net::{NetAccept, NetConn, NetDial};

/// Bytes copied at a time.
const CHUNK: usize = 64 << 10;

/// Makes or takes a connection and copies until both directions have ended.
pub async fn run(config: NcConfig) -> Result<ExitCode, Failure> {
    match config.side.clone() {
        Side::Connect { host, security } => {
            let (transport, connector) = (config.transport.conn_config(), security.connector()?);
            let dial =
                NetDial::open(&config.way, &host, transport, connector, config.quiet).await?;
            let conn = waiting(config.wait, dial.connect()).await??;
            let done = converse(conn).await;
            dial.settle().await;
            done
        }
        Side::Listen { local, security } => {
            let identity = security.as_ref().map(ServerSecurity::identity).transpose()?;
            let transport = config.transport.conn_config();
            let mut server = NetAccept::listen(&config.way, local, transport, identity)?;
            if !config.quiet {
                eprintln!("Listening on {} ({}).", server.local_addr(), server.medium());
                if let Some(key) = server.fingerprint() {
                    eprintln!("Key: {key}");
                }
            }
            let conn = waiting(config.wait, server.accept()).await?.map_err(|e| {
                Failure::new(ExitCode::Failed, format!("cannot take connections any more: {e}"))
            })?;
            let done = converse(conn).await;
            server.settle().await;
            done
        }
    }
}

async fn waiting<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Result<T, Failure> {
    let Some(limit) = limit else { return Ok(work.await) };
    timeout(limit, work).await.map_err(|_| {
        Failure::new(ExitCode::Failed, format!("nobody was there within {} s", limit.as_secs()))
    })
}

async fn converse(conn: NetConn) -> Result<ExitCode, Failure> {
    let patient = !io::stdin().is_terminal();
    let (stdin, stdout) = (tokio::io::stdin(), tokio::io::stdout());
    copy_both(conn, stdin, stdout, patient, close_stdout).await?;
    Ok(ExitCode::Success)
}

/// Tells whoever reads our standard output that no more comes, although we go on.
fn close_stdout() {
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    // If that fails, the reader learns of it from our end.
    let _ = null.map(rustix::stdio::dup2_stdout);
}

/// Copies `input` to the peer and the peer to `output`; each direction ends by itself.
/// `on_peer_end` is called when the peer's has; unless `patient`, ours ends with it.
async fn copy_both(
    conn: NetConn,
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    patient: bool,
    on_peer_end: impl FnOnce(),
) -> Result<(), Failure> {
    let (mut reader, mut writer) = tokio::io::split(conn);
    let mut outward = Box::pin(async {
        copy(input, &mut writer, ("read standard input", "send")).await?;
        writer.shutdown().await.map_err(failed("end our direction"))
    });
    let mut inward = Box::pin(async {
        copy(&mut reader, &mut output, ("receive", "write to standard output")).await?;
        on_peer_end();
        Ok::<(), Failure>(())
    });
    let ours_ended = tokio::select! {
        done = &mut outward => {
            done?;
            inward.as_mut().await?;
            true
        }
        done = &mut inward => {
            done?;
            if patient {
                outward.as_mut().await?;
            }
            patient
        }
    };
    drop((outward, inward));
    if !ours_ended {
        writer.shutdown().await.map_err(failed("end our direction"))?;
    }
    let conn = reader.unsplit(writer);
    conn.finished().await.map_err(failed("deliver the last bytes"))
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
