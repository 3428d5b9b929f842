//! Commands whose standard error nobody hears: a log on a full disk, or a pipe that was closed.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::tempdir;

use crate::support::{Listening, succeeded, tack};

/// A port that nobody has just now.
#[expect(clippy::disallowed_methods, reason = "a port to be told before anybody listens on it")]
fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Sends until somebody is there.
fn send(mut command: impl FnMut() -> Command) {
    for _ in 0..100 {
        let output = command().output().unwrap();
        if output.status.success() {
            return;
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("connection refused"), "{said}");
        #[expect(clippy::disallowed_methods, reason = "what listens cannot say so here")]
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nobody listens");
}

/// A standard error that takes nothing.
fn nowhere(is_pipe: bool) -> Stdio {
    if is_pipe {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        return writer.into();
    }
    File::options().write(true).open("/dev/full").unwrap().into()
}

#[test]
fn a_receiver_that_nobody_hears_goes_on_receiving_and_ends_as_told() {
    for (is_pipe, log) in [(false, ""), (false, "-vvv"), (true, "")] {
        let home = tempdir().unwrap();
        let port = free_port();
        let listen = format!("recv in --keep --insecure-plaintext -B 127.0.0.1 -p {port} {log}");
        let mut receiver =
            Listening(tack(home.path(), &listen).stderr(nowhere(is_pipe)).spawn().unwrap());
        for name in ["first", "second"] {
            fs::write(home.path().join(name), name).unwrap();
            send(|| {
                tack(home.path(), &format!("send {name} 127.0.0.1:{port} --insecure-plaintext"))
            });
            assert_eq!(fs::read(home.path().join("in").join(name)).unwrap(), name.as_bytes());
        }
        kill_process(Pid::from_child(&receiver.0), Signal::TERM).unwrap();
        assert_eq!(receiver.0.wait().unwrap().code(), Some(130), "{is_pipe} {log}");
    }
}

#[test]
fn what_a_command_came_to_is_in_its_status_though_nobody_hears_why() {
    let home = tempdir().unwrap();
    for (line, status) in [("send missing 127.0.0.1:9", 1), ("nc 127.0.0.1", 2), ("key", 0)] {
        let ended = tack(home.path(), line).stderr(nowhere(false)).status().unwrap();
        assert_eq!(ended.code(), Some(status), "{line}");
    }
    for (is_pipe, status) in [(false, 1), (true, 0)] {
        let ended = tack(home.path(), "--help").stdout(nowhere(is_pipe)).status().unwrap();
        assert_eq!(ended.code(), Some(status), "help, to a pipe: {is_pipe}");
    }
    let demo = tack(home.path(), "demo --size 1M --rate 1G --rtt 1ms --loss 0 --ack-loss 0")
        .stdout(nowhere(true))
        .output();
    succeeded(&demo.unwrap());
}
