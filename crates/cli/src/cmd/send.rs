//! `tack send`.

use tokio::time::Instant;

use crate::args::send::{SendConfig, What};
use crate::exit::{ExitCode, Failure};
use crate::net::NetDial;
use crate::progress::Progress;
use crate::transfer::disk::blocking;
use crate::transfer::pipe::send_stream;
use crate::transfer::scan::scan;
use crate::transfer::send::send_tree;
use crate::units::{bytes_text, rate_text};

/// Sends and waits for the receiver's word.
pub async fn run(config: SendConfig) -> Result<ExitCode, Failure> {
    let progress = Progress::new(config.quiet);
    match config.what.clone() {
        What::Stdin => {
            let dial = open(&config).await?;
            let conn = dial.connect().await?;
            let started = Instant::now();
            let bytes = send_stream(conn, tokio::io::stdin(), &progress).await?;
            dial.settle().await;
            report(&config, &format!("sent {}", bytes_text(bytes)), bytes, started);
        }
        What::Paths(paths) => {
            // What is wrong with the paths should show before anything is connected.
            let follow = config.follow;
            let found = blocking(move || scan(&paths, follow)).await?;
            for why in &found.skipped {
                eprintln!("tack: left out: {why}");
            }
            let dial = open(&config).await?;
            let conn = dial.connect().await?;
            let started = Instant::now();
            let sent = send_tree(conn, found, &progress).await;
            dial.settle().await;
            let sent = sent?;
            let files =
                if sent.files == 1 { "1 file".into() } else { format!("{} files", sent.files) };
            let mut what = format!("sent {files}, {}, verified", bytes_text(sent.bytes));
            if sent.kept > 0 {
                what += &format!(" ({} were there already)", bytes_text(sent.kept));
            }
            report(&config, &what, sent.bytes - sent.kept, started);
        }
    }
    Ok(ExitCode::Success)
}

async fn open(config: &SendConfig) -> Result<NetDial, Failure> {
    let connector = config.security.connector()?;
    let transport = config.transport.conn_config();
    NetDial::open(&config.way, &config.host, transport, connector, config.quiet).await
}

fn report(config: &SendConfig, what: &str, bytes: u64, started: Instant) {
    if !config.quiet {
        let seconds = started.elapsed().as_secs_f64();
        eprintln!("{what} in {seconds:.1} s ({})", rate_text(bytes, seconds));
    }
}
