//! A server in the background (`-D`), and the file with its number (`-I`).
//!
//! The command starts itself anew and shows what that one says until it listens: the key, the code,
//! or why it does not. Then the new one lets go of the terminal, and the old one ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tack_device::{Started, started};

use crate::exit::{ExitCode, Failure};

/// The flag of the one that was started.
pub const DETACHED: &str = "--detached";

/// The last byte that one says: it listens.
const LISTENS: u8 = 0;

/// Starts this command line anew, and returns once that one listens or has ended.
///
/// # Errors
/// It did not come to listen.
pub fn start() -> Result<ExitCode, Failure> {
    let failed = |e: io::Error| Failure::new(ExitCode::Failed, format!("-D: {e}"));
    let Started { program, args } = started().map_err(failed)?;
    let mut command = Command::new(program);
    command.args(args).arg(DETACHED);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let mut said = Vec::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_end(&mut said).map_err(failed)?;
    }
    // Its output ends in both cases, and one that ends is not at once one that has ended.
    let listens = said.last() == Some(&LISTENS);
    said.truncate(said.len() - usize::from(listens));
    io::stdout().write_all(&said).map_err(failed)?;
    if listens {
        return Ok(ExitCode::Success);
    }
    child.wait().map_err(failed)?;
    Err(Failure::new(ExitCode::Failed, "-D: the server in the background ended"))
}

/// Lets go of the terminal and of whoever started us.
///
/// # Errors
/// There is no `/dev/null`.
pub fn detach() -> io::Result<()> {
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    // Who leads a session already has no terminal to lose.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    io::stdout().write_all(&[LISTENS])?;
    io::stdout().flush()?;
    // The last: whoever waits goes on.
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(())
}

/// Lines go to the end of this file.
///
/// # Errors
/// It cannot be written to.
pub fn log(path: &Path) -> Result<File, Failure> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|e| {
        Failure::new(ExitCode::Failed, format!("--logfile: `{}`: {e}", path.display()))
    })
}

/// A file with this process's number, as long as it lives.
#[derive(Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Writes it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(path: &Path) -> Result<Self, Failure> {
        let written = std::path::absolute(path).and_then(|path| {
            let mut file = File::create(&path)?;
            writeln!(file, "{}", std::process::id())?;
            Ok(Self(path))
        });
        written.map_err(|e| {
            Failure::new(ExitCode::Failed, format!("--pidfile: `{}`: {e}", path.display()))
        })
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Who removed it before us wanted that, too.
        let _ = fs::remove_file(&self.0);
    }
}
