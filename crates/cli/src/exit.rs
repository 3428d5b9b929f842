//! Exit statuses, the same for every command.

use std::io::{self, Write};
use std::process;

/// What the process tells its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Everything arrived, or the test ran.
    Success = 0,
    /// The network, the disk or the other end failed.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// What arrived was damaged, or the peer broke the protocol.
    Integrity = 3,
    /// The peer is not who it should be, or would not have us.
    Untrusted = 4,
    /// A side declined: files in the way, no space, server busy.
    Refused = 5,
    /// Stopped by the user.
    Interrupted = 130,
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        process::ExitCode::from(code as u8)
    }
}

/// Says what clap has to say, and how that ends: help that was asked for and cannot be written is no success.
pub fn of_clap(error: &clap::Error) -> process::ExitCode {
    let said = error.print().and_then(|()| io::stdout().flush());
    // Who closes the pipe has read enough.
    let unheard = said.is_err_and(|e| e.kind() != io::ErrorKind::BrokenPipe);
    match u8::try_from(error.exit_code()) {
        Ok(0) if unheard => ExitCode::Failed.into(),
        Ok(code) => code.into(),
        Err(_) => ExitCode::Usage.into(),
    }
}

/// The table for `--help` and the manual page.
pub const EXIT_STATUS_HELP: &str = "\
Exit status:
  0    everything arrived and was verified; the test ran to its end
  1    the network, the disk or the other end failed, or was stopped
  2    the command line makes no sense
  3    what arrived was damaged, or the peer broke the protocol
  4    the peer is not who it should be, or would not have us
  5    declined: files in the way, no space left, server busy
  130  stopped by the user: Ctrl-C, SIGTERM or SIGHUP; a second one ends it at once";

/// An error with the status it ends the process with.
#[derive(Debug)]
pub struct Failure {
    /// Status.
    pub code: ExitCode,
    /// What, where, what to do.
    pub message: String,
    /// A host said that nobody listens there.
    pub is_refusal: bool,
    /// Whoever answered proved to be another than the server that was meant, before anything was said to it.
    pub is_impostor: bool,
}

impl Failure {
    /// A failure with this status and message.
    pub fn new(code: ExitCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), is_refusal: false, is_impostor: false }
    }

    /// The user stopped it before anything was under way.
    pub fn interrupted() -> Self {
        Self::new(ExitCode::Interrupted, "stopped")
    }

    /// A command line that makes no sense.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, message)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<crate::transfer::TransferError> for Failure {
    fn from(error: crate::transfer::TransferError) -> Self {
        if let crate::transfer::TransferError::NotLetIn(failure) = error {
            return failure;
        }
        Self::new(error.exit_code(), error.to_string())
    }
}
