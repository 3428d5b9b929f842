//! `tack nc` over UDP, through the built command.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Output, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal};
use tempfile::tempdir;

use crate::course::{Course, STEADY, forward};
use crate::support::{Listening, random_bytes, rng, succeeded, tack};

/// What it says once it listens, and the port.
fn listening(child: &mut Listening) -> u16 {
    let mut lines = BufReader::new(child.0.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let said = line.strip_prefix("Listening on ").unwrap_or_else(|| panic!("{line}"));
    let address = said.split(' ').next().unwrap();
    child.0.stderr = Some(lines.into_inner());
    address.rsplit(':').next().unwrap().parse().unwrap()
}

/// Feeds both ends at once and reads both; returns what each read and how the client ended.
fn converse(flags: &str, there: Vec<u8>, here: Vec<u8>) -> (Vec<u8>, Vec<u8>, Output) {
    converse_by(flags, |port| port, there, here)
}

/// The same, where the client reaches the server's port through the one that `path` makes of it.
fn converse_by(
    flags: &str,
    path: impl FnOnce(u16) -> u16,
    there: Vec<u8>,
    here: Vec<u8>,
) -> (Vec<u8>, Vec<u8>, Output) {
    let home = tempdir().unwrap();
    let listen = format!("nc -l 127.0.0.1 0 {flags}");
    let mut server = Listening(tack(home.path(), &listen).stdin(Stdio::piped()).spawn().unwrap());
    let port = path(listening(&mut server));
    let connect = format!("nc 127.0.0.1 {port} {flags}");
    let mut client = tack(home.path(), &connect).stdin(Stdio::piped()).spawn().unwrap();
    let mut read_there = Vec::new();
    let feed = |mut stdin: ChildStdin, bytes: Vec<u8>| move || stdin.write_all(&bytes).unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(feed(server.0.stdin.take().unwrap(), there));
        scope.spawn(feed(client.stdin.take().unwrap(), here));
        let mut out = server.0.stdout.take().unwrap();
        let reading = scope.spawn(move || {
            let mut got = Vec::new();
            out.read_to_end(&mut got).map(|_| got).unwrap()
        });
        let output = client.wait_with_output().unwrap();
        read_there = reading.join().unwrap();
        output
    });
    assert!(server.0.wait().unwrap().success());
    (read_there, output.stdout.clone(), output)
}

#[test]
fn bytes_go_both_ways_at_once_encrypted_and_not() {
    let mut rng = rng(31);
    let (there, here) = (random_bytes(&mut rng, 3_000_001), random_bytes(&mut rng, 2_000_003));
    for flags in ["", "--no-tls", "--no-tls --strategy tcp-l2 --congestion cubic", "--quic"] {
        let (read_there, read_here, output) = converse(flags, there.clone(), here.clone());
        succeeded(&output);
        assert!(read_there == here && read_here == there, "{flags}");
    }
}

#[test]
fn a_talk_outlives_a_nat_that_rebinds_again_and_again() {
    let mut rng = rng(32);
    let (there, here) = (random_bytes(&mut rng, 12_000_001), random_bytes(&mut rng, 6_000_003));
    for flags in ["", "--quic"] {
        // Some 5 000 datagrams of the client's carry it.
        let course = Course { rebinds_after: 900, ..STEADY };
        let orders = Arc::default();
        let path = |port| forward(port, course, &orders);
        let (read_there, read_here, output) = converse_by(flags, path, there.clone(), here.clone());
        orders.end();
        succeeded(&output);
        assert!(read_there == here && read_here == there, "{flags}");
    }
}

#[test]
fn a_side_with_nothing_to_say_still_hears_all() {
    let bytes = random_bytes(&mut rng(32), 1_000_001);
    for flags in ["", "--quic"] {
        let (heard, _, output) = converse(flags, Vec::new(), bytes.clone());
        succeeded(&output);
        assert!(heard == bytes);
        let (_, heard, output) = converse(flags, bytes.clone(), Vec::new());
        succeeded(&output);
        assert!(heard == bytes);
    }
}

#[test]
fn nobody_there_ends_with_status_1_and_a_reason() {
    let home = tempdir().unwrap();
    let output = tack(home.path(), "nc 127.0.0.1 9 --no-tls -w 1").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("refused"), "{said}");
}

/// As a kernel does for the programs that it ends.
#[test]
fn whoever_is_told_to_end_tells_the_other_side() {
    let over = [(Signal::HUP, "--no-tls"), (Signal::INT, "--no-tls"), (Signal::TERM, "--quic")];
    for (signal, flags) in over {
        let home = tempdir().unwrap();
        let mut listener = tack(home.path(), &format!("nc -l 127.0.0.1 0 {flags}"));
        let mut server = Listening(listener.spawn().unwrap());
        let port = listening(&mut server);
        let mut client = tack(home.path(), &format!("nc 127.0.0.1 {port} {flags}"));
        let mut client = Listening(client.stdin(Stdio::piped()).spawn().unwrap());
        // Its direction stays open to the end, and both sides have each other.
        let mut stdin = client.0.stdin.take().unwrap();
        stdin.write_all(b"a word").unwrap();
        let mut heard = [0; 6];
        server.0.stdout.as_mut().unwrap().read_exact(&mut heard).unwrap();
        rustix::process::kill_process(Pid::from_child(&client.0), signal).unwrap();
        assert_eq!(client.0.wait().unwrap().code(), Some(130), "{signal:?}");
        // It says nothing, for its terminal is another program's.
        let mut said = String::new();
        client.0.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "");
        assert!(server.0.wait().unwrap().success(), "{signal:?}");
        drop(stdin);
    }
}
