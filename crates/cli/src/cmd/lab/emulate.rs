//! `tack lab emulate`: programs around a path.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tack_device::Netns;
use tack_emu::{LatenessBound, ipv4, ipv6};
use tack_lab::emulate::{EmulateSettings, Emulated};
use tack_link::End;

use super::{at, failed, print_json};
use crate::args::lab::EmulateArgs;
use crate::exit::{ExitCode, Failure};

/// How long the server's program may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs both programs and prints what the path did.
pub(super) fn emulate(args: &EmulateArgs) -> Result<ExitCode, Failure> {
    let path = args.path()?;
    let capture = match &args.pcap {
        None => None,
        Some(path) => {
            let file = File::create(path).map_err(|e| at(path, e))?;
            Some(Box::new(BufWriter::new(file)) as Box<dyn Write + Send>)
        }
    };
    let bound = LatenessBound::default();
    let settings = EmulateSettings { quantum: args.quantum, bound, capture };
    let emulated = Emulated::start(&path, settings).map_err(|e| failed(format!("{e:#}")))?;
    if args.command.is_empty() {
        eprintln!(
            "client {} and {}, server {} and {}; `exit` ends it",
            ipv4(End::A),
            ipv6(End::A),
            ipv4(End::B),
            ipv6(End::B)
        );
    }
    let server = match &args.server {
        None => None,
        Some(command) => Some(Server::start(emulated.netns(End::B), command)?),
    };
    let status = run_client(emulated.netns(End::A), &args.command);
    drop(server);
    let account = emulated.finish().map_err(|e| failed(format!("{e:#}")))?;
    if args.json {
        print_json(&account)?;
    } else {
        eprint!("{account}");
    }
    Ok(if status?.success() { ExitCode::Success } else { ExitCode::Failed })
}

/// What tells programs where they are.
fn with_addresses(command: &mut Command) -> &mut Command {
    command
        .env("TACK_CLIENT", ipv4(End::A).to_string())
        .env("TACK_SERVER", ipv4(End::B).to_string())
        .env("TACK_CLIENT6", ipv6(End::A).to_string())
        .env("TACK_SERVER6", ipv6(End::B).to_string())
}

/// Runs `words`, or the user's shell, to its end. Ctrl-C is for it alone.
fn run_client(netns: &Netns, words: &[String]) -> Result<ExitStatus, Failure> {
    let shell = || std::env::var_os("SHELL").unwrap_or_else(|| OsString::from("/bin/sh"));
    let program = words.first().map_or_else(shell, OsString::from);
    let mut command = Command::new(&program);
    command.args(words.iter().skip(1));
    let not_run = |e: &dyn std::fmt::Display| failed(format!("{}: {e}", program.display()));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| failed(format!("cannot start: {e}")))?;
    runtime.block_on(async {
        // From here on the signal has a reader, and does not end this process.
        let mut interrupts = tokio::signal::unix::signal(
            tokio::signal::unix::SignalKind::interrupt(),
        )
        .map_err(|e| failed(format!("cannot start: {e}")))?;
        let mut child =
            netns.spawn(with_addresses(&mut command)).map_err(|e| not_run(&e))?;
        let waiting = tokio::task::spawn_blocking(move || child.wait());
        tokio::pin!(waiting);
        loop {
            tokio::select! {
                status = &mut waiting => {
                    let status = status.unwrap_or_else(|e| std::panic::resume_unwind(e.into_panic()));
                    return status.map_err(|e| not_run(&e));
                }
                _ = interrupts.recv() => {}
            }
        }
    })
}

/// The server's program and all it started; asked to end, then ended, when dropped.
struct Server(Child);

impl Server {
    fn start(netns: &Netns, command: &str) -> Result<Server, Failure> {
        let mut shell = Command::new("/bin/sh");
        // A group of its own: what the shell starts ends with it, and Ctrl-C is the client's.
        shell.args(["-c", command]).process_group(0).stdin(Stdio::null());
        let child = netns.spawn(with_addresses(&mut shell));
        Ok(Server(child.map_err(|e| failed(format!("{command}: {e}")))?))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            // Gone already is as good.
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        if !ends_within(&mut self.0, PATIENCE).unwrap_or(false) {
            self.signal(Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "another program is given time")]
fn ends_within(child: &mut Child, patience: Duration) -> io::Result<bool> {
    const STEP: Duration = Duration::from_millis(10);
    let mut left = patience;
    while child.try_wait()?.is_none() {
        if left.is_zero() {
            return Ok(false);
        }
        std::thread::sleep(STEP);
        left = left.saturating_sub(STEP);
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_program_ends_with_all_it_started() {
        let netns = match Netns::new() {
            Ok(netns) => netns,
            Err(e) => return println!("skipped: {e}"),
        };
        let dir = tempfile::tempdir().unwrap();
        let (pid, out) = (dir.path().join("pid"), dir.path().join("out"));
        // One program in the background, one that the shell waits for and that ignores requests.
        let command = format!(
            "echo $TACK_SERVER > {}; sleep 100 & echo $! > {}; trap '' TERM; sleep 100",
            out.display(),
            pid.display()
        );
        let server = Server::start(&netns, &command).unwrap();
        let read = || std::fs::read_to_string(&pid).ok().and_then(|t| t.trim().parse::<i32>().ok());
        let mut sleeper = read();
        for _ in 0..500 {
            if sleeper.is_some() {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(10));
            sleeper = read();
        }
        let sleeper = sleeper.expect("the shell ran");
        drop(server);
        assert_eq!(std::fs::read_to_string(&out).unwrap().trim(), "10.77.0.2");
        // Its parent is gone, so whoever adopted it has to reap it: dead or a zombie.
        let stat = std::fs::read_to_string(format!("/proc/{sleeper}/stat"));
        assert!(stat.is_err() || stat.is_ok_and(|s| s.contains(") Z ")));
    }
}
