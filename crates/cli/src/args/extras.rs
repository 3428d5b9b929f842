//! `tack completions` and `tack man`.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// Print a script that completes commands and options.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  source <(tack completions bash)")]
pub struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// Print the manual page of `tack`, or write a page for each command.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  tack man ~/.local/share/man/man1")]
pub struct ManArgs {
    /// Write tack.1, tack-send.1, … into this directory
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}
