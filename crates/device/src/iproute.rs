//! Interfaces are configured by `ip`: addresses, routes and links change rarely, and iproute2 knows
//! every kernel's ways.

use std::io::{self, Write};
use std::process::{Command, Stdio};

/// Why an interface could not be configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigureError {
    /// There is no `ip` to run.
    #[error("cannot run ip (the package is called iproute2): {0}")]
    NoIproute(#[source] io::Error),
    /// `ip` refused. The lines it was given, and what it said.
    #[error("ip refused one of [{lines}]: {message}")]
    Refused {
        /// Its input, separated by semicolons.
        lines: String,
        /// Its error output.
        message: String,
    },
}

/// Runs `ip -batch` on lines without the word `ip`, in the network namespace of this thread.
pub(crate) fn run(lines: &[String]) -> Result<(), ConfigureError> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut child = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(ConfigureError::NoIproute)?;
    if let Some(mut stdin) = child.stdin.take() {
        let mut script = lines.join("\n");
        script.push('\n');
        // If it stops reading it says why below.
        let _ = stdin.write_all(script.as_bytes());
    }
    let output = child.wait_with_output().map_err(ConfigureError::NoIproute)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(ConfigureError::Refused { lines: lines.join("; "), message })
}
