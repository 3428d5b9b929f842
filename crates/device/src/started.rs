//! How this program was started, for what starts it again.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A program and its arguments, the program's own name not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// What runs when it is started again.
    pub program: PathBuf,
    /// With which arguments it was.
    pub args: Vec<OsString>,
}

static SAID: OnceLock<Started> = OnceLock::new();

/// Says so where the process is another program's, as in an interpreter that we are a module of.
/// What is said first counts.
pub fn set_started(started: Started) {
    let _ = SAID.set(started);
}

/// How this program was started: as was said, else as the kernel has it.
///
/// # Errors
/// The kernel does not tell.
pub fn started() -> io::Result<Started> {
    if let Some(said) = SAID.get() {
        return Ok(said.clone());
    }
    let args = std::env::args_os().skip(1).collect();
    Ok(Started { program: std::env::current_exe()?, args })
}
