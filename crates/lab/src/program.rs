//! Other programs at the ends of an emulated path.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};
use tack_device::{Netns, NetnsId};
use tack_emu::{ipv4, ipv6};
use tack_link::End;

/// How long a program may take to end when it is asked to.
const PATIENCE: Duration = Duration::from_secs(1);

/// What tells programs where they are.
pub fn with_addresses(command: &mut Command) -> &mut Command {
    command
        .env("TACK_CLIENT", ipv4(End::A).to_string())
        .env("TACK_SERVER", ipv4(End::B).to_string())
        .env("TACK_CLIENT6", ipv6(End::A).to_string())
        .env("TACK_SERVER6", ipv6(End::B).to_string())
}

/// A shell command and all it started; asked to end, then ended, when dropped. In a namespace that is
/// whatever runs there: a program can leave its group, and not its namespace.
pub struct Program {
    shell: Child,
    netns: Option<NetnsId>,
}

/// Every process that /proc tells of.
pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

impl Program {
    /// Starts it in a namespace, with the addresses of both ends in its environment.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(netns: &Netns, line: &str) -> Result<Program> {
        Program::of(netns, Program::shell(line)).with_context(|| line.to_owned())
    }

    /// What [`Program::start`] starts, to be changed before [`Program::of`] does.
    pub(crate) fn shell(line: &str) -> Command {
        let mut shell = Command::new("/bin/sh");
        // A group of its own: what the shell starts ends with it, and Ctrl-C is another's.
        shell.args(["-c", line]).process_group(0).stdin(Stdio::null());
        with_addresses(&mut shell);
        shell
    }

    /// Starts a [`Program::shell`] in a namespace, which is this program's alone.
    pub(crate) fn of(netns: &Netns, mut shell: Command) -> Result<Program> {
        let id = netns.id()?;
        Ok(Program { shell: netns.spawn(&mut shell)?, netns: Some(id) })
    }

    /// Starts a [`Program::shell`] where this process is.
    pub(crate) fn here(mut shell: Command) -> io::Result<Program> {
        Ok(Program { shell: shell.spawn()?, netns: None })
    }

    /// The number of the shell, and of its group.
    pub(crate) fn id(&self) -> u32 {
        self.shell.id()
    }

    /// Which namespace it is in, if that is its own.
    pub(crate) fn netns(&self) -> Option<NetnsId> {
        self.netns
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.shell.try_wait()
    }

    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.shell.wait()
    }

    fn group(&self) -> Option<Pid> {
        pid(self.shell.id())
    }

    fn signal(&self, signal: Signal) {
        // Gone already is as good.
        let _ = self.group().map(|group| kill_process_group(group, signal));
    }

    /// Whether the shell has ended, and all it started.
    fn is_gone(&mut self) -> io::Result<bool> {
        let others = |group| test_kill_process_group(group).is_ok();
        Ok(self.shell.try_wait()?.is_some() && !self.group().is_some_and(others))
    }

    #[expect(clippy::disallowed_methods, reason = "another program is given time")]
    fn goes_within(&mut self, patience: Duration) -> io::Result<bool> {
        const STEP: Duration = Duration::from_millis(10);
        let mut left = patience;
        while !self.is_gone()? {
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::sleep(STEP);
            left = left.saturating_sub(STEP);
        }
        Ok(true)
    }
}

fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
}

/// Ends whatever is still in a namespace.
fn clear(netns: NetnsId) {
    /// What is started while the others are looked for is met by the next look.
    const LOOKS: u32 = 100;
    for _ in 0..LOOKS {
        let inside = |process: &u32| NetnsId::of_process(*process) == Some(netns);
        let left: Vec<Pid> = processes().filter(inside).filter_map(pid).collect();
        if left.is_empty() {
            return;
        }
        for process in left {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.signal(Signal::TERM);
        if !self.goes_within(PATIENCE).unwrap_or(false) {
            self.signal(Signal::KILL);
            let _ = self.shell.wait();
        }
        self.netns.into_iter().for_each(clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_ignores_the_request_to_end_does_not_outlive_the_shell_that_started_it() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let line = format!("(trap '' TERM; sleep 100) & echo $! > {}; wait", pid.display());
        let program = Program::here(Program::shell(&line)).unwrap();
        let read = || std::fs::read_to_string(&pid).ok().and_then(|t| t.trim().parse::<i32>().ok());
        let stubborn = (0..500).find_map(|_| {
            std::thread::park_timeout(Duration::from_millis(10));
            read()
        });
        let stubborn = stubborn.expect("the shell ran");
        // What it ignores it has to have said first.
        std::thread::park_timeout(Duration::from_millis(100));
        drop(program);
        let is_dead = |_| {
            std::thread::park_timeout(Duration::from_millis(10));
            let stat = std::fs::read_to_string(format!("/proc/{stubborn}/stat"));
            stat.is_err() || stat.is_ok_and(|s| s.contains(") Z "))
        };
        assert!((0..100).any(is_dead), "{stubborn} goes on");
    }

    #[test]
    fn what_left_its_group_ends_with_the_program_too() {
        let netns = match Netns::new() {
            Ok(netns) => netns,
            Err(e) => return crate::skipped::skipped(e),
        };
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let line =
            format!("setsid sh -c 'echo $$ > {}; exec sleep 101' & exec sleep 102", pid.display());
        let program = Program::start(&netns, &line).unwrap();
        let read = || std::fs::read_to_string(&pid).ok().and_then(|t| t.trim().parse::<u32>().ok());
        let daemon = (0..500).find_map(|_| {
            std::thread::park_timeout(Duration::from_millis(10));
            read()
        });
        let daemon = daemon.expect("the shell ran");
        assert_eq!(NetnsId::of_process(daemon), program.netns());
        drop(program);
        let stat = std::fs::read_to_string(format!("/proc/{daemon}/stat"));
        assert!(stat.is_err() || stat.is_ok_and(|s| s.contains(") Z ")), "{daemon} goes on");
        assert_ne!(NetnsId::of_process(std::process::id()), None, "and nobody else");
    }

    #[test]
    fn a_program_ends_with_all_it_started() {
        let netns = match Netns::new() {
            Ok(netns) => netns,
            Err(e) => return crate::skipped::skipped(e),
        };
        let dir = tempfile::tempdir().unwrap();
        let (pid, out) = (dir.path().join("pid"), dir.path().join("out"));
        // One program in the background, one that the shell waits for and that ignores requests.
        let command = format!(
            "echo $TACK_SERVER > {}; sleep 100 & echo $! > {}; trap '' TERM; sleep 100",
            out.display(),
            pid.display()
        );
        let program = Program::start(&netns, &command).unwrap();
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
        drop(program);
        assert_eq!(std::fs::read_to_string(&out).unwrap().trim(), "10.77.0.2");
        // Its parent is gone, so whoever adopted it has to reap it: dead or a zombie.
        let stat = std::fs::read_to_string(format!("/proc/{sleeper}/stat"));
        assert!(stat.is_err() || stat.is_ok_and(|s| s.contains(") Z ")));
    }
}
