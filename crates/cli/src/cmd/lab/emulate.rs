//! `tack lab emulate`: programs around a path.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::{Command, ExitStatus};

use tack_device::Netns;
use tack_emu::{EmulationConfig, ipv4, ipv6};
use tack_lab::emulate::Emulated;
use tack_lab::program::{Program, with_addresses};
use tack_link::End;

use super::{at, failed, print_json};
use crate::args::lab::EmulateArgs;
use crate::exit::{ExitCode, Failure};
use crate::stop;
use crate::terminal::say;

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
    let config = EmulationConfig { quantum: args.quantum, capture, ..Emulated::config() };
    let emulated = Emulated::start(&path, config).map_err(|e| failed(format!("{e:#}")))?;
    if args.command.is_empty() {
        say(format_args!(
            "client {} and {}, server {} and {}; `exit` ends it",
            ipv4(End::A),
            ipv6(End::A),
            ipv4(End::B),
            ipv6(End::B)
        ));
    }
    let server = match &args.server {
        None => None,
        Some(command) => {
            let started = Program::start(emulated.netns(End::B), command);
            Some(started.map_err(|e| failed(format!("{e:#}")))?)
        }
    };
    let status = run_client(emulated.netns(End::A), &args.command);
    drop(server);
    let account = emulated.finish().map_err(|e| failed(format!("{e:#}")))?;
    if args.json {
        print_json(&account)?;
    } else {
        say(account.to_string().trim_end());
    }
    Ok(if status?.success() { ExitCode::Success } else { ExitCode::Failed })
}

/// Runs `words`, or the user's shell, to its end. Ctrl-C is for it alone.
fn run_client(netns: &Netns, words: &[String]) -> Result<ExitStatus, Failure> {
    let shell = || std::env::var_os("SHELL").unwrap_or_else(|| OsString::from("/bin/sh"));
    let program = words.first().map_or_else(shell, OsString::from);
    let mut command = Command::new(&program);
    command.args(words.iter().skip(1));
    let not_run = |e: &dyn std::fmt::Display| failed(format!("{}: {e}", program.display()));
    let runtime = stop::runtime().map_err(|e| failed(format!("cannot start: {e}")))?;
    runtime.block_on(async {
        // From here on the signal has a reader, and does not end this process.
        let mut interrupts = tokio::signal::unix::signal(
            tokio::signal::unix::SignalKind::interrupt(),
        )
        .map_err(|e| failed(format!("cannot start: {e}")))?;
        let mut child =
            netns.spawn(with_addresses(&mut command)).map_err(|e| not_run(&io::Error::from(e)))?;
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
