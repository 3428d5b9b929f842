//! `tack perf`.

use std::time::{Duration, UNIX_EPOCH};

use tack_net::ConnConfig;

use crate::args::host::HostPort;
use crate::args::perf::{PerfConfig, Side};
use crate::args::transport::ServerSecurity;
use crate::exit::{ExitCode, Failure};
use crate::net::{NetAccept, NetDial};
use crate::perf::client::Observer;
use crate::perf::json::{self, Context};
use crate::perf::params::TestParams;
use crate::perf::report::{Interval, Lane, Report};
use crate::perf::server::{Door, serve_one};
use crate::perf::text::Text;
use crate::perf::{PerfError, client};

/// Serves tests or runs one.
pub async fn run(config: PerfConfig) -> Result<ExitCode, Failure> {
    match config.side.clone() {
        Side::Client { host, params, security } => {
            let connector = security.connector()?;
            let encrypted = connector.is_some();
            let dial =
                NetDial::open(&config.way, &host, config.conn_config(), connector, config.json)
                    .await?;
            let mut shown = Shown::new(&config, encrypted, Some(&host));
            shown.line(&format!("Connecting to host {}, port {}", host.name, host.port));
            let result = client::run(&dial, &params, config.interval, &mut shown).await;
            let done = shown.finish(result);
            dial.settle().await;
            done
        }
        Side::Server { local, one_off, security } => {
            let identity = security.as_ref().map(ServerSecurity::identity).transpose()?;
            let encrypted = identity.is_some();
            let mut server = NetAccept::listen(&config.way, local, config.conn_config(), identity)?;
            let (port, key) = (server.local_addr().port(), server.fingerprint());
            let medium = server.medium();
            let done = {
                let mut door = Door::new(&mut server);
                loop {
                    let mut shown = Shown::new(&config, encrypted, None);
                    shown.listening(port, &medium, key.map(|k| k.to_string()));
                    let result = serve_one(&mut door, config.interval, &mut shown).await;
                    let done = shown.finish(result);
                    match done {
                        done if one_off => break done,
                        Ok(_) => {}
                        Err(failure) => eprintln!("tack: {failure}"),
                    }
                }
            };
            server.settle().await;
            done
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
        match (&mut self.text, result) {
            (Some(text), Ok(report)) => {
                text.summary(&report);
                if self.is_client {
                    print_line("tack perf done.");
                }
                Ok(ExitCode::Success)
            }
            (None, Ok(report)) => {
                print_line(&format!("{:#}", json::document(&report, &self.context)));
                Ok(ExitCode::Success)
            }
            (None, Err(error)) => {
                print_line(&format!("{:#}", json::failure(&error.to_string())));
                Err(error.into())
            }
            (Some(_), Err(error)) => Err(error.into()),
        }
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
