//! What a server says of strangers: each once, and of many a few.

use std::fs;
use std::io::Read;

use tempfile::tempdir;

use crate::network::{TRANSPORTS, listen};
use crate::stop::signal;
use crate::support::tack;
use rustix::process::Signal;

/// What `recv` has said, after these commands were run beside it.
fn said_beside(line: &str, commands: impl FnOnce(&std::path::Path, &str)) -> String {
    let home = tempdir().unwrap();
    fs::write(home.path().join("file"), "contents").unwrap();
    fs::write(home.path().join("nobody"), "# none\n").unwrap();
    let (mut receiver, send) = listen(home.path(), line, "file");
    commands(home.path(), &send);
    signal(&receiver.0, Signal::TERM);
    let mut said = String::new();
    receiver.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    said
}

#[test]
fn who_is_turned_away_is_told_of_once() {
    for over in TRANSPORTS {
        let line = format!("recv in -k -p 0 -B 127.0.0.1 --authorized-keys nobody{over}");
        let said = said_beside(&line, |home, send| {
            // The key of the server's own user comes in.
            let elsewhere = home.join("elsewhere");
            fs::create_dir(&elsewhere).unwrap();
            fs::write(elsewhere.join("file"), "contents").unwrap();
            let refused = tack(&elsewhere, send).output().unwrap();
            assert_eq!(refused.status.code(), Some(4), "{refused:?}");
        });
        let lines: Vec<_> = said.lines().filter(|it| it.contains("not authorized")).collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(!said.contains("WARN"), "{said}");
    }
}

#[test]
fn of_many_handshakes_that_fail_twenty_are_told_of_and_the_rest_is_not() {
    let said = said_beside("recv in -k -p 0 -B 127.0.0.1", |home, send| {
        let (plain, _) = send.split_once(" --code ").unwrap();
        let plain = format!("{plain} --insecure-plaintext");
        let all = (0..30).map(|_| tack(home, &plain).spawn().unwrap()).collect::<Vec<_>>();
        for child in all {
            let output = child.wait_with_output().unwrap();
            assert!(!output.status.success(), "{output:?}");
        }
    });
    let lines = said.lines().filter(|it| it.contains("a handshake failed")).count();
    // A machine that takes ten seconds for them says a few more.
    assert!((1..30).contains(&lines), "{lines} lines: {said}");
}
