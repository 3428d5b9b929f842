//! Each command: what the user meant, done.

pub mod extras;
pub mod lab;
pub mod nc;
pub mod perf;
pub mod recv;
pub mod send;

use crate::args::{Cli, Command};
use crate::exit::{ExitCode, Failure};

/// Runs the command line and says how it ended.
pub fn run(cli: Cli) -> ExitCode {
    log_to_stderr(cli.verbose);
    match dispatch(cli.command) {
        Ok(code) => code,
        Err(failure) => {
            eprintln!("tack: {failure}");
            failure.code
        }
    }
}

fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Send(args) => on_runtime(send::run(args.resolve()?)),
        Command::Recv(args) => on_runtime(recv::run(args.resolve()?)),
        Command::Perf(args) => on_runtime(perf::run(args.resolve()?)),
        Command::Nc(args) => to_its_end(nc::run(args.resolve()?)),
        Command::Demo(args) => on_runtime(crate::demo::run(args)),
        Command::Lab(args) => lab::run(args),
        Command::Completions(args) => extras::completions(&args),
        Command::Man(args) => extras::man(&args),
    }
}

/// Runs `work` until it is done or the user stops it.
fn on_runtime(work: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    to_its_end(async {
        tokio::select! {
            done = work => done,
            _ = tokio::signal::ctrl_c() => Err(Failure::new(
                ExitCode::Interrupted,
                "stopped",
            )),
        }
    })
}

/// One thread runs everything: one connection is fastest when nothing crosses a thread. Disks have
/// threads of their own.
fn to_its_end(work: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::new(ExitCode::Failed, format!("cannot start: {e}")))?;
    let result = runtime.block_on(work);
    // A thread that waits for standard input cannot be stopped, and need not be waited for.
    runtime.shutdown_background();
    result
}

fn log_to_stderr(verbose: u8) {
    use tracing_subscriber::filter::LevelFilter;
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // A second subscriber, as in tests, is refused: the first one stays.
    let _ = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_target(verbose > 1)
        .try_init();
}
