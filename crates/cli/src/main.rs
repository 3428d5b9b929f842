//! The command `tack`.

use clap::Parser;

fn main() -> std::process::ExitCode {
    tack_cli::cmd::run(tack_cli::args::Cli::parse()).into()
}
