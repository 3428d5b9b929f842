//! What a user of `tack perf` sees: lines while the test runs, a document at its end, or a line of
//! JSON for each thing that happens.

use std::io::stdout;
use std::time::{Duration, UNIX_EPOCH};

use crate::args::perf::PerfConfig;
use crate::exit::{ExitCode, Failure};
use crate::perf::PerfError;
use crate::perf::background;
use crate::perf::client::Observer;
use crate::perf::control::Output;
use crate::perf::json::partial::Partial;
use crate::perf::json::start::{http_date, start, system_info};
use crate::perf::json::{self, Context};
use crate::perf::out::{Out, Prefix};
use crate::perf::report::{Interrupted, Interval, Report, Start};
use crate::perf::text::{Style, Text};
use tack_net::HostPort;

/// Where lines go.
///
/// # Errors
/// A file cannot be written to.
pub(super) fn out(config: &PerfConfig) -> Result<Out, Failure> {
    let prefix =
        Prefix { timestamps: config.output.timestamps.clone(), title: config.output.title.clone() };
    Ok(match &config.output.logfile {
        Some(path) => Out::new(background::log(path)?, prefix),
        None => Out::new(stdout(), prefix),
    })
}

/// What a server says first.
pub(super) fn listening(port: u16, medium: &str, key: Option<String>) -> Vec<String> {
    let rule = "-----------------------------------------------------------";
    let key = match key {
        Some(key) => format!("Key: {key}"),
        None => "Without encryption: clients need --no-tls".to_owned(),
    };
    vec![rule.to_owned(), format!("Server listening on {port} ({medium})"), key, rule.to_owned()]
}

/// Takes a line.
type TakeLine = Box<dyn FnMut(&str)>;

/// In which form.
enum Form {
    /// Lines for people.
    Text(Text<TakeLine>),
    /// One document; what is known of a test so far, which may end in an error.
    Document(Partial),
    /// A line of JSON for each thing.
    Stream,
}

/// What is shown of one test.
pub(super) struct Shown {
    form: Form,
    out: Out,
    context: Context,
    details: bool,
}

impl Shown {
    /// Of a test that asks `host`, or serves.
    pub(super) fn new(
        config: &PerfConfig,
        out: Out,
        encrypted: bool,
        host: Option<&HostPort>,
    ) -> Self {
        let congestion = config.transport.congestion.map(|a| a.name().to_owned());
        let details = config.output.details;
        let form = match (config.output.json, config.output.json_stream) {
            (true, _) => Form::Document(Partial::default()),
            (_, true) => Form::Stream,
            _ => {
                let named = || congestion.clone().unwrap_or_else(|| "bbr".to_owned());
                let style = Style { unit: config.output.format, details: details.then(named) };
                let lines = out.clone();
                Form::Text(Text::new(host.is_some(), style, Box::new(move |l| lines.line(l))))
            }
        };
        let transport = config.conn_config();
        let context = Context {
            connecting_to: host.map(|h| (h.name.clone(), h.port)),
            timestamp: seconds_since_epoch(),
            encrypted,
            congestion,
            interval: config.interval.map_or(0.0, |i: Duration| i.as_secs_f64()),
            blocks: config.blocks,
            window_bytes: config.window_bytes,
            buffer_bytes: (transport.send_buffer, transport.recv_buffer),
        };
        Self { form, out, context, details }
    }

    /// A line, where there are lines.
    pub(super) fn line(&self, line: &str) {
        if let Form::Text(_) = self.form {
            self.out.line(line);
        }
    }

    /// What runs and where, for those who want to know.
    pub(super) fn versions(&self) {
        if self.details {
            self.line(concat!("tack ", env!("CARGO_PKG_VERSION")));
            self.line(&system_info());
            self.line(&format!("Time: {}", http_date(self.context.timestamp)));
        }
    }

    /// The end of a test that we asked for.
    pub(super) fn asked(&mut self, result: Result<Report, PerfError>) -> Result<ExitCode, Failure> {
        if let Ok(report) = &result {
            self.show(report);
        }
        self.end(result)
    }

    /// The end of a test that we served, and have shown.
    pub(super) fn served_all(
        &mut self,
        result: Result<Report, PerfError>,
    ) -> Result<ExitCode, Failure> {
        self.end(result)
    }

    fn show(&mut self, report: &Report) {
        match &mut self.form {
            Form::Text(text) => {
                text.summary(report);
                match &report.server_output {
                    None => {}
                    Some(Output::Text(lines)) => {
                        self.out.line(&format!("Server output:\n{lines}"));
                    }
                    Some(Output::Json(document)) => {
                        self.out.line(&format!("Server JSON output:\n{document:#}"));
                    }
                }
            }
            Form::Document(_) => {
                self.out.bare(&format!("{:#}", json::document(report, &self.context)));
            }
            Form::Stream => {
                let events = json::last_events(report, &self.context);
                events.iter().for_each(|event| self.out.bare(&event.to_string()));
            }
        }
    }

    fn end(&mut self, result: Result<Report, PerfError>) -> Result<ExitCode, Failure> {
        let is_client = self.context.connecting_to.is_some();
        let report = match result {
            Ok(report) => report,
            Err(error) => {
                let why = error.to_string();
                match &self.form {
                    Form::Text(_) => {}
                    Form::Document(partial) => {
                        self.out.bare(&format!("{:#}", partial.document(&why)));
                    }
                    Form::Stream => self.event("error", why.into()),
                }
                return Err(error.into());
            }
        };
        if let Some(interrupted) = report.interrupted {
            let code = match interrupted {
                Interrupted::Here => ExitCode::Interrupted,
                Interrupted::There => ExitCode::Failed,
            };
            return Err(Failure::new(code, json::interruption(interrupted, is_client)));
        }
        if is_client {
            self.line("tack perf done.");
        }
        // What nobody can read was measured in vain.
        self.out.take_failure().map_or(Ok(ExitCode::Success), |error| {
            let why = format!("cannot write what was measured: {error}");
            Err(Failure::new(ExitCode::Failed, why))
        })
    }

    fn event(&self, name: &str, data: serde_json::Value) {
        self.out.bare(&json::event(name, data).to_string());
    }
}

impl Observer for Shown {
    fn connected(&mut self, begun: &Start) {
        match &mut self.form {
            Form::Text(text) => text.connected(begun),
            Form::Document(partial) => partial.begin(start(begun, &self.context)),
            Form::Stream => self.event("start", start(begun, &self.context)),
        }
    }

    fn interval(&mut self, begun: &Start, interval: &Interval) {
        match &mut self.form {
            Form::Text(text) => text.interval(begun, interval),
            Form::Document(partial) => partial.push(json::interval(begun, interval)),
            Form::Stream => self.event("interval", json::interval(begun, interval)),
        }
    }

    fn served(&mut self, report: &Report) -> Option<Output> {
        self.show(report);
        Some(match self.form {
            Form::Text(_) => Output::Text(self.out.take_heard()),
            Form::Document(_) | Form::Stream => Output::Json(json::document(report, &self.context)),
        })
    }
}

fn seconds_since_epoch() -> u64 {
    #[allow(clippy::disallowed_methods, reason = "the report is dated; nothing is decided by it")]
    let now = std::time::SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
