//! `tack send`.

use std::path::PathBuf;

use tack_net::tls::{ServerIdentity, config_dir};
use tokio::time::Instant;

use crate::args::send::{SendConfig, What};
use crate::cmd::again::{Files, send_files};
use crate::cmd::lasting::dialled;
use crate::exit::{ExitCode, Failure};
use crate::net::{NetConn, NetDial, Whom};
use crate::progress::Progress;
use crate::stop::Stop;
use crate::terminal::say;
use crate::transfer::frame::{SenderId, What as Carries};
use crate::transfer::pipe::send_stream;
use crate::units::{bytes_text, rate_text};

/// Sends and waits for the receiver's word.
pub async fn run(config: SendConfig, stop: Stop) -> Result<ExitCode, Failure> {
    match config.what.clone() {
        What::Stdin => send_stdin(&config, &stop).await,
        What::Paths(paths) => send_paths(&config, paths, &stop).await,
    }
}

async fn send_stdin(config: &SendConfig, stop: &Stop) -> Result<ExitCode, Failure> {
    let progress = Progress::new(config.quiet);
    let whom = Whom::from(&config.host);
    let opened = stop.or(open(config, &whom)).await;
    let opened = opened.unwrap_or_else(|| Err(Failure::interrupted()))?;
    let started = Instant::now();
    let again = || open_owned(config.clone(), whom.clone());
    let (what, quiet) = (Carries::Stream, config.quiet);
    let sending = async |conn| Ok(send_stream(conn, tokio::io::stdin(), &progress, stop).await?);
    let sent = dialled(opened, again, (what, quiet), stop, sending).await;
    progress.finish();
    // The receiver has confirmed it, whatever it hears of us after that.
    let (bytes, _) = sent?;
    report(config, &format!("sent {}", bytes_text(bytes)), bytes, started);
    Ok(ExitCode::Success)
}

async fn send_paths(
    config: &SendConfig,
    paths: Vec<PathBuf>,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let progress = Progress::new(config.quiet);
    let started = Instant::now();
    let files = Files { paths, follow: config.follow, quiet: config.quiet };
    let whom = Whom::from(&config.host);
    let open = || open_owned(config.clone(), whom.clone());
    let who = |conn: &NetConn| sender_id(config, conn);
    let sent = send_files(&files, open, who, (&progress, stop)).await?;
    let files = if sent.files == 1 { "1 file".into() } else { format!("{} files", sent.files) };
    let mut what = format!("sent {files}, {}, verified", bytes_text(sent.bytes));
    if sent.kept > 0 {
        what += &format!(" ({} were there already)", bytes_text(sent.kept));
    }
    report(config, &what, sent.bytes - sent.kept, started);
    Ok(ExitCode::Success)
}

/// Who we are to this receiver, and to no other.
fn sender_id(config: &SendConfig, conn: &NetConn) -> SenderId {
    let receiver = match conn.peer_fingerprint() {
        Some(key) => key.to_string(),
        None => config.host.to_string(),
    };
    let ours = config_dir().and_then(|dir| ServerIdentity::load_or_generate(&dir));
    ours.map_or_else(
        |error| {
            tracing::warn!(%error, "no key of our own: nothing can be resumed");
            blake3::hash(receiver.as_bytes()).into()
        },
        |identity| identity.derive(&format!("sends to {receiver}")),
    )
}

async fn open(config: &SendConfig, whom: &Whom) -> Result<(NetDial, NetConn), Failure> {
    let connector = config.security.connector()?;
    let transport = config.transport.conn_config();
    let code = config.security.code.clone();
    let dial = NetDial::open(&config.way, whom, transport, connector, code).await?;
    let conn = dial.connect_ahead().await?;
    Ok((dial, conn))
}

async fn open_owned(config: SendConfig, whom: Whom) -> Result<(NetDial, NetConn), Failure> {
    open(&config, &whom).await
}

fn report(config: &SendConfig, what: &str, bytes: u64, started: Instant) {
    if !config.quiet {
        let seconds = started.elapsed().as_secs_f64();
        say(format_args!("{what} in {seconds:.1} s ({})", rate_text(bytes, seconds)));
    }
}
