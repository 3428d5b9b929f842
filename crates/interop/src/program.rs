//! Processes inside a namespace that never outlive their test.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tack_device::Netns;

/// Longest life of a program, if nothing else ends it: a test's own limit is shorter.
const MAX_LIFE_S: u32 = 140;

/// A running program. Dropping it ends it and everything it started.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    stdout: File,
    stderr: File,
}

/// What a program left behind.
#[derive(Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its output.
    pub stdout: Vec<u8>,
    /// Its errors.
    pub stderr: String,
}

impl Outcome {
    /// Itself, if the program was successful.
    ///
    /// # Panics
    /// If it was not, with all it said.
    pub fn expect_success(self, what: &str) -> Outcome {
        let (status, said) = (self.status, self.stderr.trim());
        assert!(
            status.success(),
            "{what} ended with {status}: {said} {}",
            String::from_utf8_lossy(&self.stdout[..self.stdout.len().min(2_000)])
        );
        self
    }
}

/// Where a program is, also if it is an administrator's.
pub fn path_of(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = [PathBuf::from("/usr/sbin"), "/sbin".into()];
    let mut files = std::env::split_paths(&path).chain(usual).map(|dir| dir.join(name));
    files.find(|file| file.is_file())
}

/// Whether there is such a program; if not, says so on standard error.
pub fn is_installed(name: &str) -> bool {
    let found = path_of(name).is_some();
    if !found {
        crate::world::say_skipped(&format!("{name} is not installed: `script/setup --tests`"));
    }
    found
}

impl Program {
    /// Starts `name` inside `netns`, with standard input from `input`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(netns: &Netns, name: &str, args: &[&str], input: Stdio) -> io::Result<Program> {
        let (stdout, stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let path = std::env::var("PATH").unwrap_or_default();
        // `timeout` ends it even if this process is killed. The PID namespace takes along what
        // the program started, also in sessions of its own, as sshd does.
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=1", &MAX_LIFE_S.to_string()])
            .args(["unshare", "--pid", "--fork", "--kill-child=KILL", "--", name])
            .args(args)
            .env("PATH", format!("{path}:/usr/sbin:/sbin"))
            .env("LC_ALL", "C")
            .process_group(0)
            .stdin(input)
            .stdout(stdout.try_clone()?)
            .stderr(stderr.try_clone()?);
        let child = netns.spawn(&mut command)?;
        Ok(Program { name: name.to_owned(), child, stdout, stderr })
    }

    /// Its process id, or rather that of the one that watches over it.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it wrote to standard output so far, as text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn stdout(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&contents(&self.stdout)?).into_owned())
    }

    /// What it wrote to standard error so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn stderr(&self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(&contents(&self.stderr)?).into_owned())
    }

    /// Whether it has not ended.
    ///
    /// # Errors
    /// As [`Child::try_wait`].
    pub fn is_running(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// `TimedOut` when it takes longer than `limit`, with what it said.
    pub async fn wait(mut self, limit: Duration) -> io::Result<Outcome> {
        const PAUSE: Duration = Duration::from_millis(5);
        let ended = async {
            loop {
                match self.child.try_wait()? {
                    Some(status) => return Ok::<_, io::Error>(status),
                    None => tokio::time::sleep(PAUSE).await,
                }
            }
        };
        let ended = tokio::time::timeout(limit, ended).await;
        let stdout = contents(&self.stdout)?;
        let stderr = self.stderr()?;
        let Ok(status) = ended else {
            let message = format!("{} did not end within {limit:?}: {stderr}", self.name);
            return Err(io::Error::new(io::ErrorKind::TimedOut, message));
        };
        Ok(Outcome { status: status?, stdout, stderr })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All of a file. Reading must not move the position, which the program's writes share.
fn contents(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}
