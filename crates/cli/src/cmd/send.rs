//! `tack send`.

use std::path::PathBuf;

use tack_net::tls::{ServerIdentity, config_dir};
use tokio::time::{Duration, Instant, sleep};

use crate::args::send::{SendConfig, What};
use crate::cmd::another_way::{PROBES, another_way};
use crate::cmd::lasting::{RETURN_LIMIT, dialled};
use crate::exit::{ExitCode, Failure};
use crate::net::{NetConn, NetDial};
use crate::progress::Progress;
use crate::stop::Stop;
use crate::transfer::TransferError;
use crate::transfer::disk::blocking;
use crate::transfer::frame::{SenderId, What as Carries};
use crate::transfer::pipe::send_stream;
use crate::transfer::scan::{Scan, scan};
use crate::transfer::send::send_tree;
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
    let opened = stop.or(open(config)).await;
    let opened = opened.unwrap_or_else(|| Err(Failure::interrupted()))?;
    let started = Instant::now();
    let again = || open_owned(config.clone());
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
    let mut lost: Option<Instant> = None;
    let mut next = None;
    let sent = loop {
        let opening = begin(config, &paths, lost.is_some(), next.take());
        let opened = stop.or(opening).await;
        let (found, (dial, conn)) = match opened.unwrap_or_else(|| Err(Failure::interrupted())) {
            Ok(opened) => opened,
            Err(failure) => {
                // Whoever does not want us need not be asked again.
                if failure.code != ExitCode::Failed || !may_return(lost) {
                    return Err(failure);
                }
                stop.or(sleep(RETRY_INTERVAL)).await;
                continue;
            }
        };
        let sender = sender_id(config, &conn);
        let watch = conn.watched(PROBES);
        let error = tokio::select! {
            biased;
            sent = send_tree(conn, sender, found, &progress, stop) => {
                dial.settle_unless(sent.is_err(), stop).await;
                match sent {
                    Err(error) if error.may_be_resumed_at_once() && !stop.is_asked() => error,
                    Err(error) if error.may_pass() && may_return(lost) && !stop.is_asked() => {
                        tracing::info!(%error, "not received again yet");
                        stop.or(sleep(RETRY_INTERVAL)).await;
                        continue;
                    }
                    sent => break sent?,
                }
            }
            Ok(moved) = another_way(Some(&watch), || open_owned(config.clone()), |_| true) => {
                next = Some(moved);
                TransferError::Moved
            }
        };
        if next.is_none() && lost.is_some_and(|since| since.elapsed() < LEAST_SPELL) {
            // No sooner back than lost again: not without end.
            stop.or(sleep(RETRY_INTERVAL)).await;
        }
        if !config.quiet {
            eprintln!("tack: {error}; reconnecting");
        }
        lost = Some(Instant::now());
    };
    let files = if sent.files == 1 { "1 file".into() } else { format!("{} files", sent.files) };
    let mut what = format!("sent {files}, {}, verified", bytes_text(sent.bytes));
    if sent.kept > 0 {
        what += &format!(" ({} were there already)", bytes_text(sent.kept));
    }
    report(config, &what, sent.bytes - sent.kept, started);
    Ok(ExitCode::Success)
}

/// Whether there was a receiver, and not too long ago to be looked for.
fn may_return(lost: Option<Instant>) -> bool {
    lost.is_some_and(|since| since.elapsed() <= RETURN_LIMIT)
}

/// How long to wait between attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// A connection that lasts no longer is not worth one more at once.
const LEAST_SPELL: Duration = Duration::from_secs(2);

/// Looks at what is to be sent, and connects, unless somebody has. What was left out, and what
/// arrives otherwise than it is, is said once.
async fn begin(
    config: &SendConfig,
    paths: &[PathBuf],
    again: bool,
    opened: Option<(NetDial, NetConn)>,
) -> Result<(Scan, (NetDial, NetConn)), Failure> {
    // What is wrong with the paths should show before anything is connected.
    let (paths, follow) = (paths.to_owned(), config.follow);
    let found = blocking(move || scan(&paths, follow)).await?;
    if !again {
        found.skipped.iter().for_each(|why| eprintln!("tack: left out: {why}"));
        found.notes.iter().for_each(|note| eprintln!("tack: {note}"));
    }
    let opened = match opened {
        Some(opened) => opened,
        None => open(config).await?,
    };
    Ok((found, opened))
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

async fn open(config: &SendConfig) -> Result<(NetDial, NetConn), Failure> {
    let connector = config.security.connector()?;
    let transport = config.transport.conn_config();
    let (way, host) = (&config.way, &config.host);
    let dial = NetDial::open(way, host, transport, connector, config.security.code.clone()).await?;
    let conn = dial.connect().await?;
    Ok((dial, conn))
}

async fn open_owned(config: SendConfig) -> Result<(NetDial, NetConn), Failure> {
    open(&config).await
}

fn report(config: &SendConfig, what: &str, bytes: u64, started: Instant) {
    if !config.quiet {
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("{what} in {seconds:.1} s ({})", rate_text(bytes, seconds));
    }
}
