//! `tack demo`: one file, twice, over real sockets and an emulated path in this process.
//!
//! ```text
//!  client socket --> relay: rate, queue, loss, delay --> server socket
//!                <--                                 <--
//! ```
//!
//! Once with TACK, once as plain TCP of the same stack, over the same path with the same seed. What
//! can be counted on the path is counted by the relay, which sees every packet and both clocks.

mod args;
mod census;
mod emulator;
mod file;
mod path;
mod relay;
mod report;
mod transfer;

use std::io;

pub use args::DemoArgs;
pub(crate) use args::{parse_preset, parse_standard};
pub use path::{Medium, Path};

use crate::exit::{ExitCode, Failure};
use crate::terminal::print;
use crate::terminal::say;
use report::Report;

/// Runs the demo and prints what it found. The status says whether every byte arrived.
///
/// # Errors
/// No socket or temporary file could be made, or a transfer broke off.
pub async fn run(args: DemoArgs) -> Result<ExitCode, Failure> {
    let path = args.path()?;
    let failed = |e: io::Error| Failure::new(ExitCode::Failed, e.to_string());
    let file = file::SourceFile::random(args.bytes()).map_err(failed)?;
    if !args.json {
        print(format!("{}\n", report::headline(args.bytes(), &path)).as_bytes())?;
    }
    let mut report = Report::default();
    for strategy in transfer::Strategy::BOTH {
        let run = transfer::run(strategy, &file, &path).await.map_err(failed)?;
        for warning in run.warnings() {
            say(format_args!("tack: with {strategy}: {warning}"));
        }
        report.runs.push(run);
    }
    let shown = if args.json { report.to_json() } else { report.to_string() };
    print(shown.as_bytes())?;
    let intact = report.runs.iter().all(|r| r.sha256_ok);
    Ok(if intact { ExitCode::Success } else { ExitCode::Integrity })
}
