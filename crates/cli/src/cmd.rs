//! Each command: what the user meant, done.

pub mod again;
pub mod another_way;
pub mod doctor;
pub mod extras;
mod invite;
pub mod lab;
pub mod lasting;
mod manual;
pub mod nc;
pub mod perf;
pub mod recv;
pub mod send;
pub mod top;
pub mod tunnel;

use std::io::{self, IsTerminal as _};
use std::pin::Pin;

use crate::args::{Cli, Command};
use crate::exit::{ExitCode, Failure};
use crate::notices::Notices;
use crate::observe;
use crate::stop::{self, Stop};
use crate::terminal::say;

/// Runs the command line and says how it ended.
pub fn run(cli: Cli) -> ExitCode {
    log_to_stderr(cli.verbose);
    let begun = cli.command.observe().map_or(Ok(()), observe::begin);
    let done = begun.and_then(|()| dispatch(cli.command));
    observe::end();
    match done {
        Ok(code) => code,
        Err(failure) => {
            say(format_args!("tack: {failure}"));
            failure.code
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Send(args) => heeding(args.resolve()?, send::run),
        Command::Recv(args) => heeding(args.resolve()?, recv::run),
        Command::Perf(args) => heeding(args.resolve()?, perf::run),
        Command::Nc(args) => heeding(args.resolve()?, nc::run),
        Command::Doctor(args) => heeding(args.resolve()?, doctor::run),
        Command::Top(args) => heeding(args.resolve()?, top::run),
        Command::Tunnel(args) => heeding(args.resolve()?, tunnel::run),
        Command::Demo(args) => heeding(args, async move |args, stop: Stop| {
            // It talks to itself only: there is nobody to tell.
            stop.or(crate::demo::run(args)).await.unwrap_or_else(|| Err(Failure::interrupted()))
        }),
        Command::Lab(args) => lab::run(args),
        Command::Key(_) => extras::key(),
        Command::Completions(args) => extras::completions(&args),
        Command::Man(args) => extras::man(&args),
    }
}

/// What a command does, whichever it is.
type Work = Pin<Box<dyn Future<Output = Result<ExitCode, Failure>>>>;

/// Runs `work` until it is done or the user has stopped it.
fn heeding<A: 'static, W: Future<Output = Result<ExitCode, Failure>> + 'static>(
    args: A,
    work: impl FnOnce(A, Stop) -> W + 'static,
) -> Result<ExitCode, Failure> {
    // Of one type, or what runs a command would be in the program once for each.
    carry_out(Box::new(move |stop| Box::pin(work(args, stop))))
}

fn carry_out(work: Box<dyn FnOnce(Stop) -> Work>) -> Result<ExitCode, Failure> {
    let failed = |e| Failure::new(ExitCode::Failed, format!("cannot start: {e}"));
    let runtime = stop::runtime().map_err(failed)?;
    let result = runtime.block_on(stop::heeding(async |stop| {
        observe::serve_metrics().await?;
        work(stop).await
    }));
    // A thread that waits for standard input cannot be stopped, and need not be waited for.
    runtime.shutdown_background();
    result.map_err(failed)?.unwrap_or(Ok(ExitCode::Interrupted))
}

fn log_to_stderr(verbose: u8) {
    use tracing_subscriber::filter::LevelFilter;
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // Colours are escapes in a file or a journal.
    let plain = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
    let is_coloured = !plain && io::stderr().is_terminal();
    // Nobody has asked for more: of what strangers may have us say, as much as elsewhere.
    let rationed = (verbose == 0).then(Notices::default);
    let writer = move || match &rationed {
        Some(notices) => Box::new(notices.clone()) as Box<dyn io::Write>,
        None => Box::new(io::stderr()),
    };
    // A second subscriber, as in tests, is refused: the first one stays.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(writer)
        .with_ansi(is_coloured)
        // They would be told by `eprintln!`, and where a line cannot be written that panics.
        .log_internal_errors(false)
        .with_target(verbose > 1)
        .try_init();
}
