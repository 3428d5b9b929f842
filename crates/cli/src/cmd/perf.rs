//! `tack perf`.

use std::time::{Duration, UNIX_EPOCH};

use tack_net::ConnConfig;

use crate::args::host::HostPort;
use crate::args::perf::{PerfConfig, Side};
use crate::exit::{ExitCode, Failure};
use crate::net::{NetAccept, NetDial};
use crate::perf::client::Observer;
use crate::perf::json::{self, Context};
use crate::perf::params::TestParams;
use crate::perf::report::{Interrupted, Interval, Lane, Report};
use crate::perf::server::{Door, serve_one};
use crate::perf::text::Text;
use crate::perf::{PerfError, client};
use crate::stop::Stop;

/// Serves tests or runs one.
pub async fn run(config: PerfConfig, stop: Stop) -> Result<ExitCode, Failure> {
    match config.side.clone() {
        Side::Client { host, params, security } => {
            let connector = security.connector()?;
            let encrypted = connector.is_some();
            let transport = config.conn_config();
            let dial = NetDial::open(&config.way, &host, transport, connector, security.code);
            let dial = stop.or(dial).await.unwrap_or_else(|| Err(Failure::interrupted()))?;
            let mut shown = Shown::new(&config, encrypted, Some(&host));
            shown.line(&format!("Connecting to host {}, port {}", host.name, host.port));
            let result = client::run(&dial, &params, config.interval, &mut shown, &stop).await;
            let done = shown.finish(result);
            dial.settle(&stop).await;
            done
        }
        Side::Server { local, one_off, security } => {
            let identity = security.as_ref().map(|s| s.admitting(!one_off)).transpose()?;
            let transport = config.conn_config();
            let mut server = NetAccept::listen(&config.way, local, transport, identity)?;
            let done = serve(&config, &mut server, one_off, &stop).await;
            server.settle(&stop).await;
            done
        }
    }
}

async fn serve(
    config: &PerfConfig,
    server: &mut NetAccept,
    one_off: bool,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let (port, key) = (server.local_addr().port(), server.fingerprint());
    let who = server.door().clone();
    let medium = server.medium();
    let mut door = Door::new(server);
    loop {
        let mut shown = Shown::new(config, key.is_some(), None);
        shown.listening(port, &medium, key.map(|k| k.to_string()));
        if let Some(code) = who.code() {
            shown.line(&format!("Code: {code} (clients need --code {code})"));
        }
        let Some(control) = stop.or(door.client()).await else {
            return Err(Failure::interrupted());
        };
        let result = match control {
            Ok(control) => serve_one(&mut door, control, config.interval, &mut shown, stop).await,
            Err(error) => Err(error),
        };
        match shown.finish(result) {
            done if one_off || stop.is_asked() => return done,
            Ok(_) => {}
            Err(failure) => eprintln!("tack: {failure}"),
        }
    }
}

impl PerfConfig {
    fn conn_config(&self) -> ConnConfig {
        let base = self.transport.conn_config();
        let Some(window) = self.window_bytes else { return base };
        ConnConfig {
            send_buffer: window,
            recv_buffer: window,
            initial_recv_buffer: base.initial_recv_buffer.min(window),
            ..base
        }
    }
}

/// Lines while the test runs, or one document at its end.
struct Shown {
    text: Option<Text<fn(&str)>>,
    context: Context,
    is_client: bool,
}

impl Shown {
    fn new(config: &PerfConfig, encrypted: bool, host: Option<&HostPort>) -> Self {
        let is_client = host.is_some();
        let print: fn(&str) = print_line;
        Self {
            text: (!config.json).then(|| Text::new(is_client, print)),
            context: Context {
                connecting_to: host.map(|h| (h.name.clone(), h.port)),
                timestamp: seconds_since_epoch(),
                encrypted,
                congestion: config.transport.congestion.map(|a| a.name().to_owned()),
                interval: config.interval.map_or(0.0, |i: Duration| i.as_secs_f64()),
            },
            is_client,
        }
    }

    fn line(&self, line: &str) {
        if self.text.is_some() {
            print_line(line);
        }
    }

    fn listening(&self, port: u16, medium: &str, key: Option<String>) {
        let rule = "-----------------------------------------------------------";
        self.line(rule);
        self.line(&format!("Server listening on {port} ({medium})"));
        match key {
            Some(key) => self.line(&format!("Key: {key}")),
            None => self.line("Without encryption: clients need --no-tls"),
        }
        self.line(rule);
    }

    fn finish(&mut self, result: Result<Report, PerfError>) -> Result<ExitCode, Failure> {
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                if self.text.is_none() {
                    print_line(&format!("{:#}", json::failure(&error.to_string())));
                }
                return Err(error.into());
            }
        };
        match &mut self.text {
            Some(text) => text.summary(&report),
            None => print_line(&format!("{:#}", json::document(&report, &self.context))),
        }
        if let Some(interrupted) = report.interrupted {
            let code = match interrupted {
                Interrupted::Here => ExitCode::Interrupted,
                Interrupted::There => ExitCode::Failed,
            };
            return Err(Failure::new(code, json::interruption(interrupted, self.is_client)));
        }
        if self.is_client {
            self.line("tack perf done.");
        }
        Ok(ExitCode::Success)
    }
}

impl Observer for Shown {
    fn connected(&mut self, params: &TestParams, lanes: &[Lane]) {
        if let Some(text) = &mut self.text {
            text.connected(params, lanes);
        }
    }

    fn interval(&mut self, interval: &Interval) {
        if let Some(text) = &mut self.text {
            text.interval(interval);
        }
    }
}

/// A reader of our lines that has seen enough is no reason to stop measuring.
fn print_line(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn seconds_since_epoch() -> u64 {
    #[allow(clippy::disallowed_methods, reason = "the report is dated; nothing is decided by it")]
    let now = std::time::SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
