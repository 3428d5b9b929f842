//! `tack top` in a terminal multiplexer, looking at a measurement.

#![allow(clippy::disallowed_methods, reason = "processes are waited for in real time")]

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tack_interop::program::is_installed;
use tempfile::tempdir;

use crate::network::TRANSPORTS;
use crate::support::{Listening, tack};

const LIMIT: Duration = Duration::from_secs(30);

/// A terminal of its own, which ends with the test.
pub(crate) struct Terminal(String);

impl Terminal {
    /// One in which `line` runs.
    pub(crate) fn running(home: &Path, line: &str) -> Terminal {
        // Each has a server of its own: one that is about to end still answers on its socket.
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        let server = SERVERS.fetch_add(1, Ordering::Relaxed);
        let terminal = Terminal(home.join(format!("tmux{server}")).display().to_string());
        let [home, tack] = [home.display().to_string(), env!("CARGO_BIN_EXE_tack").to_owned()];
        let program = format!("cd '{home}' && XDG_CONFIG_HOME='{home}' '{tack}' {line}");
        let size = ["-x", "110", "-y", "30"];
        let mut start = terminal.tmux();
        start.args(["-f", "/dev/null", "new-session", "-d"]).args(size).arg(program);
        assert!(start.status().unwrap().success());
        terminal
    }

    fn tmux(&self) -> Command {
        let mut command = Command::new("tmux");
        command.args(["-S", &self.0]).env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
        command
    }

    fn screen(&self) -> String {
        let output = self.tmux().args(["capture-pane", "-p", "-J"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The screen once it has all of `parts`.
    pub(crate) fn shows(&self, parts: &[&str]) -> String {
        let since = Instant::now();
        loop {
            let screen = self.screen();
            if parts.iter().all(|part| screen.contains(part)) {
                return screen;
            }
            assert!(since.elapsed() < LIMIT, "no {parts:?}:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn press(&self, key: &str) {
        assert!(self.tmux().args(["send-keys", key]).status().unwrap().success());
    }

    pub(crate) fn is_there(&self) -> bool {
        self.tmux().arg("has-session").output().unwrap().status.success()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").output();
    }
}

#[test]
fn a_measurement_is_seen_while_it_runs_and_q_ends_the_view() {
    if !is_installed("tmux") {
        return;
    }
    for over in TRANSPORTS {
        is_seen(over);
    }
}

fn is_seen(over: &str) {
    let home = tempdir().unwrap();
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (metrics, nobody) = (free(), free());
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let quiet = |line: &str| {
        let mut command = tack(home.path(), line);
        command.stdout(std::process::Stdio::null());
        Listening(command.spawn().unwrap())
    };
    let serve =
        format!("perf -s -p {port} --open -B 127.0.0.1 --metrics 127.0.0.1:{metrics}{over}");
    let _server = quiet(&serve);
    let view = format!("top -i 0.2 127.0.0.1:{nobody} 127.0.0.1:{metrics}");
    let terminal = Terminal::running(home.path(), &view);
    terminal.shows(&["no answer", "q quit"]);
    let _client = quiet(&format!("perf -c 127.0.0.1 -p {port} -t 60 -b 20M -l 20K{over}"));
    terminal.press("Down");
    let screen = terminal.shows(&["tack  ", "data", "round trip", "2 TACK, 0 plain", "Mbits/s"]);
    let rate = screen.split_once(" received ").unwrap().1;
    let rate = rate.split_once(" received ").map_or(rate, |(_, after)| after);
    let rate = rate.split_whitespace().next().unwrap();
    assert!(rate.parse::<f64>().is_ok(), "{screen}");
    terminal.press("p");
    terminal.shows(&["paused"]);
    terminal.press("q");
    let since = Instant::now();
    while terminal.is_there() {
        assert!(since.elapsed() < LIMIT, "it does not end: {}", terminal.screen());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn without_a_terminal_it_says_what_is_meant_for_programs() {
    let home = tempdir().unwrap();
    let output = tack(home.path(), "top").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("by HTTP"));
}
