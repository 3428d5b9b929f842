//! Completions and manual pages, generated from the command line's own definition.

use clap::CommandFactory;

use crate::args::Cli;
use crate::args::extras::{CompletionsArgs, ManArgs};
use crate::args::transport::own_identity;
use crate::cmd::manual;
use crate::exit::{ExitCode, Failure};
use crate::terminal::print;
use crate::transfer::name::printable;

/// Prints a completion script.
pub fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tack", &mut script);
    print(&script)
}

/// Prints the manual page or writes all of them.
pub fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    let failed = |e: std::io::Error| Failure::new(ExitCode::Failed, format!("manual page: {e}"));
    let Some(dir) = &args.dir else {
        return print(manual::page().map_err(failed)?.as_bytes());
    };
    manual::write_all(dir).map_err(|e| {
        Failure::new(ExitCode::Failed, format!("cannot write to `{}`: {e}", dir.display()))
    })?;
    Ok(ExitCode::Success)
}

/// `tack key`: the fingerprint of this user's key, and whose it is.
pub fn key() -> Result<ExitCode, Failure> {
    let key = own_identity()?.fingerprint();
    let user = std::env::var("USER").unwrap_or_default();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let whose = printable(format!("{user}@{host}").as_bytes());
    print(format!("{key} {whose}\n").as_bytes())
}
