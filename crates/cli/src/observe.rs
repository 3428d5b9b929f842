//! Seeing inside a running command: `--capture`, `--qlog`, `--metrics`.
//!
//! Like the log, what is observed concerns the whole process, whichever of its parts opens
//! endpoints: so there is one `Observer` for all of them, set up before the command runs.

pub mod metrics;
pub mod pcapng;
pub mod qlog;
mod said;

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use clap::Args;
use tack_net::tls::Secrets;
use tack_net::{Builder, Direction, Gauge, Seen, SharedTap, Tap, quic};
use tack_units::Instant;

use crate::exit::{ExitCode, Failure};
use crate::task::task;
use crate::terminal::say;

/// What the user wants to see.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "See inside")]
pub struct ObserveArgs {
    /// Write every datagram here, as pcapng for Wireshark (tack.lua in the documentation decodes TCP-TACK;
    /// SSLKEYLOGFILE in the environment names a file for the keys)
    #[arg(long, global = true, value_name = "FILE.pcapng")]
    pub capture: Option<PathBuf>,
    /// Put the secrets of each connection into the capture: Wireshark then decrypts it by itself, as
    /// does whoever else has the file
    #[arg(long, global = true, requires = "capture")]
    pub capture_secrets: bool,
    /// Write what each connection sent and received here, with the reason of every
    /// acknowledgment, as qlog (JSON-SEQ)
    #[arg(long, global = true, value_name = "FILE.sqlog")]
    pub qlog: Option<PathBuf>,
    /// Serve counters here in Prometheus' format, over HTTP
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
}

static OBSERVER: OnceLock<Observer> = OnceLock::new();

/// Who looks, and at what.
#[derive(Debug)]
struct Observer {
    tap: Option<SharedTap>,
    secrets: Option<Arc<Within<BufWriter<File>>>>,
    metrics: Option<SocketAddr>,
    /// What passed, while metrics are served.
    passed: Arc<Mutex<metrics::Passed>>,
    gauges: Mutex<Vec<Gauge>>,
}

/// Sets up what was asked for; from then on, every endpoint is looked at.
///
/// # Errors
/// A file cannot be made.
pub fn begin(args: &ObserveArgs) -> Result<(), Failure> {
    let mut taps: Vec<SharedTap> = Vec::new();
    let passed = Arc::<Mutex<metrics::Passed>>::default();
    if args.metrics.is_some() {
        taps.push(passed.clone());
    }
    let mut secrets = None;
    if let Some(path) = &args.capture {
        let capture = create(path).and_then(match args.capture_secrets {
            true => pcapng::Capture::with_secrets,
            false => pcapng::Capture::new,
        });
        let capture = Arc::new(Mutex::new(capture.map_err(|e| cannot_write(path, &e))?));
        secrets = args.capture_secrets.then(|| Arc::new(Within(capture.clone())));
        taps.push(capture);
    }
    if let Some(path) = &args.qlog {
        let began_ms = jiff::Timestamp::now().as_millisecond() as f64;
        let log = create(path).and_then(|out| qlog::Log::new(out, began_ms));
        taps.push(Arc::new(Mutex::new(log.map_err(|e| cannot_write(path, &e))?)));
    }
    let tap = (!taps.is_empty()).then(|| Arc::new(Mutex::new(All(taps))) as SharedTap);
    let observer =
        Observer { tap, secrets, metrics: args.metrics, passed, gauges: Mutex::default() };
    // A second one, as in tests, is refused: the first one stays.
    let _ = OBSERVER.set(observer);
    Ok(())
}

/// Serves metrics, if they were asked for, as long as what is returned lives.
///
/// # Errors
/// The address is taken or not ours.
pub async fn serve_metrics() -> Result<(), Failure> {
    let Some(address) = OBSERVER.get().and_then(|observer| observer.metrics) else {
        return Ok(());
    };
    let listener = tokio::net::TcpListener::bind(address).await.map_err(|e| {
        Failure::new(ExitCode::Failed, format!("--metrics: cannot listen on {address}: {e}"))
    })?;
    tracing::info!(address = ?listener.local_addr(), "metrics");
    tokio::spawn(task(metrics::serve(listener)));
    Ok(())
}

/// Has the endpoint that is built looked at.
pub fn tapped(builder: Builder) -> Builder {
    match OBSERVER.get().and_then(|observer| observer.tap.clone()) {
        Some(tap) => builder.tap(tap),
        None => builder,
    }
}

/// Has the QUIC endpoint that is built looked at.
pub fn tapped_quic(builder: quic::Builder) -> quic::Builder {
    match OBSERVER.get().and_then(|observer| observer.tap.clone()) {
        Some(tap) => builder.tap(tap),
        None => builder,
    }
}

/// Who is to be told the secrets of connections.
pub fn secrets() -> Option<Arc<dyn Secrets>> {
    let secrets = OBSERVER.get().and_then(|observer| observer.secrets.clone());
    secrets.map(|secrets| secrets as Arc<dyn Secrets>)
}

/// The command is over: what waits to be written is written.
pub fn end() {
    if let Some(secrets) = OBSERVER.get().and_then(|observer| observer.secrets.as_ref()) {
        secrets.0.lock().unwrap_or_else(PoisonError::into_inner).flush();
    }
}

/// An endpoint was opened, which `gauge` reads.
pub fn opened(gauge: impl FnOnce() -> Gauge) {
    if let Some(observer) = OBSERVER.get().filter(|observer| observer.metrics.is_some()) {
        let mut gauges = observer.gauges.lock().unwrap_or_else(PoisonError::into_inner);
        gauges.retain(|gauge| gauge.read().is_some());
        gauges.push(gauge());
    }
}

/// All endpoints there are, now.
fn readings() -> Vec<tack_net::Reading> {
    let Some(observer) = OBSERVER.get() else { return Vec::new() };
    let gauges = observer.gauges.lock().unwrap_or_else(PoisonError::into_inner);
    gauges.iter().filter_map(Gauge::read).collect()
}

/// What passed so far.
fn passed() -> metrics::Passed {
    let observer = OBSERVER.get();
    let passed = observer.map(|o| o.passed.lock().unwrap_or_else(PoisonError::into_inner).clone());
    passed.unwrap_or_default()
}

fn create(path: &Path) -> io::Result<BufWriter<File>> {
    File::create(path).map(BufWriter::new)
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::new(ExitCode::Failed, format!("cannot write to `{}`: {error}", path.display()))
}

/// Several taps as one; others may look at them, too.
#[derive(Debug)]
struct All(Vec<SharedTap>);

impl Tap for All {
    fn passed(
        &mut self,
        direction: Direction,
        local: SocketAddr,
        peer: SocketAddr,
        datagram: &[u8],
        at: Instant,
    ) {
        for tap in &self.0 {
            let mut tap = tap.lock().unwrap_or_else(PoisonError::into_inner);
            tap.passed(direction, local, peer, datagram, at);
        }
    }

    fn seen(&mut self, peer: SocketAddr, seen: &Seen<'_>, at: Instant) {
        for tap in &self.0 {
            tap.lock().unwrap_or_else(PoisonError::into_inner).seen(peer, seen, at);
        }
    }
}

/// A capture that secrets are written into.
#[derive(Debug)]
struct Within<W>(Arc<Mutex<pcapng::Capture<W>>>);

impl<W: io::Write + Send + std::fmt::Debug> Secrets for Within<W> {
    fn told(&self, line: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).secret(line);
    }
}

/// Ends a file with what it has as soon as writing fails, and says so once.
#[derive(Debug)]
struct Output<W> {
    /// `None` after an error.
    out: Option<W>,
    what: &'static str,
}

impl<W: io::Write> Output<W> {
    fn write(&mut self, write: impl FnOnce(&mut W) -> io::Result<()>) {
        let Some(out) = &mut self.out else { return };
        // What was observed should be there when the process is ended.
        if let Err(error) = write(out).and_then(|()| out.flush()) {
            say(format_args!("tack: --{}: {error}; it ends here", self.what));
            self.out = None;
        }
    }
}
