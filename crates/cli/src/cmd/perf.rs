//! `tack perf`.

mod shown;

use tack_net::ConnConfig;

use crate::args::perf::{PerfConfig, Side};
use crate::exit::{ExitCode, Failure};
use crate::net::{NetAccept, NetDial};
use crate::perf::PerfError;
use crate::perf::affinity::Pinned;
use crate::perf::background::{self, PidFile};
use crate::perf::client;
use crate::perf::out::Out;
use crate::perf::server::{Door, serve_one};
use crate::stop::Stop;
use crate::terminal::say;

use shown::Shown;

/// Serves tests or runs one.
pub async fn run(config: PerfConfig, stop: Stop) -> Result<ExitCode, Failure> {
    if config.output.daemon && !config.detached {
        return background::start();
    }
    config.notes.iter().for_each(|note| say(format_args!("tack: {note}")));
    let pin = |processor| {
        let no = |e| format!("-A {processor}: there is no such processor, or it is not ours ({e})");
        Pinned::to(processor).map_err(|e| Failure::usage(no(e)))
    };
    let _pinned = config.processor.map(pin).transpose()?;
    let _pid = config.output.pidfile.as_deref().map(PidFile::write).transpose()?;
    match config.side.clone() {
        Side::Client { host, params, origin, security, connect_timeout } => {
            let out = shown::out(&config)?;
            let connector = security.connector()?;
            let encrypted = connector.is_some();
            let (way, transport) = (&config.way, config.conn_config());
            let dial = NetDial::open_from(&origin, way, &host, transport, connector, security.code);
            let dial = stop.or(dial).await.unwrap_or_else(|| Err(Failure::interrupted()));
            let mut shown = Shown::new(&config, out, encrypted, Some(&host));
            let dial = match dial {
                Ok(dial) => dial.within(connect_timeout),
                Err(failure) => return shown.asked(Err(PerfError::Dial(failure))),
            };
            shown.versions();
            shown.line(&format!("Connecting to host {}, port {}", host.name, host.port));
            let result = client::run(&dial, &params, config.interval, &mut shown, &stop).await;
            let done = shown.asked(result);
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
    let mut attached = config.detached;
    let out = shown::out(config)?;
    loop {
        let mut shown = Shown::new(config, out.clone(), key.is_some(), None);
        shown.versions();
        let mut lines = shown::listening(port, &medium, key.map(|k| k.to_string()));
        if let Some(code) = who.code() {
            lines.push(format!("Code: {code} (clients need --code {code})"));
        }
        lines.iter().for_each(|line| shown.line(line));
        if std::mem::take(&mut attached) {
            let_go(config, &out, &lines)?;
        }
        let Some(control) = stop.or(door.client()).await else {
            return Err(Failure::interrupted());
        };
        let result = match control {
            Ok(control) => serve_one(&mut door, control, config.interval, &mut shown, stop).await,
            Err(error) => Err(error),
        };
        match shown.served_all(result) {
            done if one_off || stop.is_asked() => return done,
            Ok(_) => {}
            // Where there are no lines, it was said as JSON.
            Err(failure) if config.detached => shown.line(&format!("tack: {failure}")),
            Err(failure) => say(format_args!("tack: {failure}")),
        }
    }
}

/// It listens, and whoever started it may go.
fn let_go(config: &PerfConfig, out: &Out, lines: &[String]) -> Result<(), Failure> {
    // What goes to a file is still owed to the user, who has to know the key.
    if config.output.logfile.is_some() || config.output.json || config.output.json_stream {
        crate::terminal::print(format!("{}\n", lines.join("\n")).as_bytes())?;
    }
    out.take_heard();
    background::detach().map_err(|e| Failure::new(ExitCode::Failed, format!("-D: {e}")))
}

impl PerfConfig {
    pub(super) fn conn_config(&self) -> ConnConfig {
        let base = self.transport.conn_config().with(|it| it.mss = self.mss);
        let Some(window) = self.window_bytes else { return base };
        base.with(|it| {
            it.send_buffer = window;
            it.recv_buffer = window;
            it.initial_recv_buffer = it.initial_recv_buffer.min(window);
        })
    }
}
