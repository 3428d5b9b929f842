//! Whoever sits at the terminal: told, and asked.

use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal, Write};

use crate::exit::{ExitCode, Failure};

/// Says a line on standard error. Where nobody can hear it, since a pipe was closed or a log's disk is full, that
/// is no reason to end what it is about, as `eprintln!` would.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints on standard output. A reader that has seen enough (`| head`) is no failure.
pub(crate) fn print(bytes: &[u8]) -> Result<ExitCode, Failure> {
    match io::stdout().lock().write_all(bytes) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(ExitCode::Failed, format!("cannot print: {e}")))
        }
        _ => Ok(ExitCode::Success),
    }
}

/// What the user types in answer to a question; `None` if nobody is looking.
pub fn ask(question: &str) -> Option<String> {
    // Standard input may be what is sent.
    let terminal = std::fs::File::options().read(true).write(true).open("/dev/tty").ok()?;
    if !io::stderr().is_terminal() || !terminal.is_terminal() {
        return None;
    }
    (&terminal).write_all(question.as_bytes()).ok()?;
    let mut answer = String::new();
    io::BufReader::new(io::Read::take(&terminal, 100)).read_line(&mut answer).ok()?;
    Some(answer)
}
