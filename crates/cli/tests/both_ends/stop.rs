//! Told to end, each command says what came of it, and the other end hears of it.

#![allow(clippy::disallowed_methods, reason = "processes are waited for in real time")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::tempdir;

use crate::support::{Listening, random_bytes, rng, succeeded, tack};

/// Far more than anything takes that does not wait for a timeout, on however busy a machine.
const SOON: Duration = Duration::from_secs(20);

/// One of these tests at a time: two measuring commands take a processor each.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running command and what it says, line by line.
pub(crate) struct Talking {
    child: Listening,
    pub(crate) out: Receiver<String>,
    pub(crate) err: Receiver<String>,
}

impl Talking {
    pub(crate) fn start(mut command: Command) -> Talking {
        let mut child = Listening(command.spawn().unwrap());
        let out = lines(child.0.stdout.take().unwrap());
        let err = lines(child.0.stderr.take().unwrap());
        Talking { child, out, err }
    }

    pub(crate) fn signal(&self, to: Signal) {
        signal(&self.child.0, to);
    }

    /// Its status, and the rest of what it says on standard output and error.
    pub(crate) fn ends(mut self) -> (i32, String, String) {
        let status = ended(&mut self.child.0);
        let (out, err): (Vec<_>, Vec<_>) = (self.out.iter().collect(), self.err.iter().collect());
        (status, out.join("\n"), err.join("\n"))
    }
}

pub(crate) fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// The status with which it ends, soon. Of one that a signal ended it is that, negative.
pub(crate) fn ended(child: &mut Child) -> i32 {
    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().or(status.signal().map(|signal| -signal)).unwrap();
        }
        assert!(since.elapsed() < SOON, "it does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (say, said) = channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if say.send(line).is_err() {
                break;
            }
        }
    });
    said
}

/// The first line, soon, of which `find` makes something.
pub(crate) fn wait_for<T>(
    said: &Receiver<String>,
    what: &str,
    find: impl Fn(&str) -> Option<T>,
) -> T {
    let mut before = String::new();
    let since = Instant::now();
    loop {
        let line = said.recv_timeout(SOON.saturating_sub(since.elapsed()));
        let line = line.unwrap_or_else(|e| panic!("no {what} ({e}) after:\n{before}"));
        if let Some(found) = find(&line) {
            return found;
        }
        before += &line;
        before.push('\n');
    }
}

fn contains<'a>(part: &'a str) -> impl Fn(&str) -> Option<()> + 'a {
    move |line| line.contains(part).then_some(())
}

/// A measuring server, and its port.
fn perf_server(home: &Path, flags: &str) -> (Talking, String) {
    let server = Talking::start(tack(home, &format!("perf -s -p 0 -B 127.0.0.1 {flags}")));
    let port = wait_for(&server.out, "port", |line| {
        Some(line.strip_prefix("Server listening on ")?.split(' ').next()?.to_owned())
    });
    (server, port)
}

/// Waits until a test is under way.
fn measuring(side: &Talking) {
    wait_for(&side.out, "interval", |line| line.contains(" sec  ").then_some(()));
}

#[test]
fn an_interrupted_perf_client_sums_up_and_the_server_does_too_and_serves_the_next_test() {
    let _alone = alone();
    let home = tempdir().unwrap();
    let (server, port) = perf_server(home.path(), "");
    let ask = |flags: &str| tack(home.path(), &format!("perf -c 127.0.0.1 -p {port} {flags}"));
    for (signal, flags) in [(Signal::INT, "-t 600 -i 0.1"), (Signal::TERM, "-t 600 -i 0.1 -P 2 -R")]
    {
        let client = Talking::start(ask(flags));
        measuring(&client);
        client.signal(signal);
        let (status, out, err) = client.ends();
        assert_eq!(status, 130, "{flags}: {out}{err}");
        assert!(out.contains("Interrupted: this is what"), "{flags}: {out}");
        let counted = if flags.contains("-R") { "receiver" } else { "sender" };
        assert!(out.lines().any(|l| l.ends_with(counted)), "{flags}: {out}");
        assert!(err.contains("the client has terminated"), "{flags}: {err}");
        wait_for(&server.out, "notice", contains("Interrupted by the other side"));
        wait_for(&server.out, "summary", contains("CPU: local"));
        wait_for(&server.err, "reason", contains("the client has terminated"));
    }
    succeeded(&ask("-n 1M").output().unwrap());
    wait_for(&server.out, "summary", |line| line.ends_with("receiver").then_some(()));
    wait_for(&server.out, "next turn", contains("Server listening"));
    server.signal(Signal::INT);
    let (status, _, err) = server.ends();
    assert_eq!((status, err.as_str()), (130, "tack: stopped"));
}

#[test]
fn a_test_by_bytes_in_both_directions_is_interrupted_like_one_by_time() {
    let _alone = alone();
    let home = tempdir().unwrap();
    let (server, port) = perf_server(home.path(), "-1 -i 0.1 --no-tls");
    let flags = "-n 900G -i 0.1 --bidir --no-tls -J";
    let client = Talking::start(tack(home.path(), &format!("perf -c 127.0.0.1 -p {port} {flags}")));
    measuring(&server);
    client.signal(Signal::HUP);
    let (status, out, _) = client.ends();
    assert_eq!(status, 130);
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(document["error"], "interrupt - the client has terminated");
    assert!(!document["intervals"].as_array().unwrap().is_empty());
    for sum in ["sum_sent", "sum_received_bidir_reverse"] {
        assert!(document["end"][sum]["bytes"].as_u64().unwrap() > 0, "{}", document["end"]);
    }
    let (status, out, err) = server.ends();
    assert_eq!(status, 1, "its only test did not run to its end: {out}{err}");
    assert!(out.contains("Interrupted by the other side"), "{out}");
}

#[test]
fn an_interrupted_perf_server_sums_up_and_the_client_does_too() {
    let _alone = alone();
    let home = tempdir().unwrap();
    for (signal, flags) in [(Signal::INT, "-t 600"), (Signal::TERM, "-n 900G -R")] {
        let (server, port) = perf_server(home.path(), "-i 0.1");
        let ask = format!("perf -c 127.0.0.1 -p {port} {flags} -J --fingerprint {}", key(&server));
        let client = Talking::start(tack(home.path(), &ask));
        measuring(&server);
        server.signal(signal);
        let (status, out, err) = server.ends();
        assert_eq!(status, 130, "{out}{err}");
        assert!(out.contains("Interrupted: this is what"), "{out}");
        assert!(err.contains("interrupt - the server has terminated"), "{err}");
        let (status, out, err) = client.ends();
        assert_eq!(status, 1, "{out}{err}");
        let document: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(document["error"], "the server has terminated");
        let counted = if flags.contains("-R") { "sum_received" } else { "sum_sent" };
        assert!(document["end"][counted]["bytes"].as_u64().unwrap() > 0, "{out}");
    }
}

fn key(server: &Talking) -> String {
    wait_for(&server.out, "key", |line| Some(line.strip_prefix("Key: ")?.to_owned()))
}

#[test]
fn an_interrupted_perf_client_does_not_wait_for_a_server_that_hangs() {
    let _alone = alone();
    let home = tempdir().unwrap();
    let (server, port) = perf_server(home.path(), "");
    let ask = format!("perf -c 127.0.0.1 -p {port} -t 600 -i 0.1");
    let client = Talking::start(tack(home.path(), &ask));
    measuring(&client);
    server.signal(Signal::STOP);
    client.signal(Signal::INT);
    let (status, out, _) = client.ends();
    assert_eq!(status, 130);
    assert!(out.lines().any(|l| l.ends_with("sender")), "{out}");
    assert!(out.contains("remote unknown") && !out.contains("receiver"), "{out}");
}

/// Passes datagrams on to a server, slowly enough that there is time to end what sends them. It
/// has the server's port, for that is the TCP port as well, and an address of its own.
pub(crate) struct Relay {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    pub(crate) fn to(server: u16) -> Relay {
        // Another test's client, on all addresses, may have been given the same port for a while.
        let tries = (0..100).map(|n| {
            thread::sleep(Duration::from_millis(if n > 0 { 100 } else { 0 }));
            UdpSocket::bind((RELAY, server))
        });
        let socket = tries.flatten().next().expect("the server's port at the relay's address");
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let thread = thread::spawn(move || relay(&socket, server, &until));
        Relay { over, thread: Some(thread) }
    }
}

pub(crate) const RELAY: &str = "127.0.0.2";

impl Drop for Relay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn relay(socket: &UdpSocket, server: u16, over: &AtomicBool) {
    let server = SocketAddr::from(([127, 0, 0, 1], server));
    let mut client = server;
    let mut buffer = vec![0; 1 << 16];
    while !over.load(Ordering::Relaxed) {
        let Ok((n, from)) = socket.recv_from(&mut buffer) else { continue };
        let to = if from == server {
            client
        } else {
            client = from;
            thread::sleep(Duration::from_micros(200));
            server
        };
        // A side that is gone refuses it: so be it.
        let _ = socket.send_to(&buffer[..n], to);
    }
}

/// `tack recv in`, its port, and its key.
fn receiver(home: &Path) -> (Talking, u16, String) {
    let receiver = Talking::start(tack(home, "recv in -p 0 -B 127.0.0.1 --open"));
    let (port, key) = wait_for(&receiver.err, "command to type", |line| {
        let (_, host) = line.split_once("tack send PATH… 127.0.0.1:")?;
        let (port, key) = host.split_once(" --fingerprint ")?;
        Some((port.parse().ok()?, key.to_owned()))
    });
    (receiver, port, key)
}

fn sender(home: &Path, host: &str, port: u16, key: &str) -> Command {
    tack(home, &format!("send film {host}:{port} --fingerprint {key}"))
}

/// Waits until another megabyte of the file has arrived.
fn arriving(home: &Path) {
    let (since, before) = (Instant::now(), partial_bytes(home));
    while partial_bytes(home) < before + (1 << 20) {
        assert!(since.elapsed() < SOON, "nothing arrives");
        thread::sleep(Duration::from_millis(2));
    }
}

/// How much of it lies in its partial file.
fn partial_bytes(home: &Path) -> u64 {
    let Ok(dir) = fs::read_dir(home.join("in/.tack-partial")) else { return 0 };
    let parts = dir.flatten().filter(|e| e.path().extension().is_some_and(|e| e == "part"));
    parts.filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum()
}

/// Thirty megabytes to send, which the relay makes last.
fn film(home: &Path, seed: u64) -> Vec<u8> {
    let bytes = random_bytes(&mut rng(seed), 30_000_000);
    fs::write(home.join("film"), &bytes).unwrap();
    bytes
}

/// Sends without a relay and checks that all is there and nothing else.
fn completes(home: &Path, port: u16, key: &str, film: &[u8]) -> String {
    let sent: Output = sender(home, "127.0.0.1", port, key).output().unwrap();
    succeeded(&sent);
    assert!(fs::read(home.join("in/film")).unwrap() == film);
    String::from_utf8(sent.stderr).unwrap()
}

#[test]
fn an_interrupted_send_tells_the_receiver_which_goes_on_listening_and_resumes() {
    let _alone = alone();
    let home = tempdir().unwrap();
    let home = home.path();
    let film = film(home, 41);
    let (receiver, port, key) = receiver(home);
    for signal in [Signal::INT, Signal::TERM] {
        let _relay = Relay::to(port);
        let sender = Talking::start(sender(home, RELAY, port, &key));
        arriving(home);
        sender.signal(signal);
        let (status, _, said) = sender.ends();
        assert_eq!(status, 130, "{said}");
        assert!(said.contains("stopped: 0 of 1 file"), "{said}");
        assert!(said.contains("run the same command again to resume"), "{said}");
        wait_for(&receiver.err, "word of it", |line| {
            let told = line.contains("its user stopped it, and may resume it; still listening");
            // Behind what our own network holds, a reset is what comes first.
            (told || line.contains("reset")).then_some(())
        });
    }
    let said = completes(home, port, &key, &film);
    assert!(said.contains("were there already"), "{said}");
    let (status, _, _) = receiver.ends();
    assert_eq!(status, 0);
    assert!(!home.join("in/.tack-partial").exists());
}

#[test]
fn an_interrupted_recv_tells_the_sender_and_both_resume() {
    let _alone = alone();
    let home = tempdir().unwrap();
    let home = home.path();
    let film = film(home, 42);
    for signal in [Signal::HUP, Signal::INT] {
        let (receiver, port, key) = receiver(home);
        let _relay = Relay::to(port);
        let sender = Talking::start(sender(home, RELAY, port, &key));
        arriving(home);
        receiver.signal(signal);
        let (status, _, said) = receiver.ends();
        assert_eq!(status, 130, "{said}");
        assert!(said.contains("stopped: 0 of 1 file stored"), "{said}");
        assert!(said.contains("to resume"), "{said}");
        let (status, _, said) = sender.ends();
        assert_eq!(status, 1, "{said}");
        assert!(said.contains("its user stopped it, and may resume it"), "{said}");
    }
    let (receiver, port, key) = receiver(home);
    let said = completes(home, port, &key, &film);
    assert!(said.contains("were there already"), "{said}");
    assert_eq!(receiver.ends().0, 0);
    assert!(!home.join("in/.tack-partial").exists());
}

#[test]
fn a_waiting_recv_ends_at_once_and_leaves_nothing() {
    let _alone = alone();
    let home = tempdir().unwrap();
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        let (receiver, ..) = receiver(home.path());
        receiver.signal(signal);
        let (status, _, said) = receiver.ends();
        assert_eq!((status, said.lines().last()), (130, Some("tack: stopped")), "{signal:?}");
        assert_eq!(fs::read_dir(home.path().join("in")).unwrap().count(), 0);
    }
}

#[test]
fn an_interrupted_send_does_not_wait_for_a_receiver_that_hangs() {
    let _alone = alone();
    let home = tempdir().unwrap();
    let home = home.path();
    film(home, 43);
    let (receiver, port, key) = receiver(home);
    let _relay = Relay::to(port);
    let sender = Talking::start(sender(home, RELAY, port, &key));
    arriving(home);
    receiver.signal(Signal::STOP);
    sender.signal(Signal::INT);
    let (status, _, said) = sender.ends();
    assert_eq!(status, 130, "{said}");
    assert!(said.contains("run the same command again to resume"), "{said}");
}

#[test]
fn an_interrupted_stream_is_a_failure_of_its_reader() {
    let _alone = alone();
    let home = tempdir().unwrap();
    let receiver = Talking::start(tack(home.path(), "recv - -p 0 -B 127.0.0.1"));
    let line = wait_for(&receiver.err, "command to type", |line| {
        Some(line.trim().strip_prefix("tack ")?.to_owned())
    });
    let mut command = tack(home.path(), &line);
    let sender = {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, b"a line\n").unwrap();
        (child, stdin)
    };
    wait_for(&receiver.out, "line", contains("a line"));
    let (child, stdin) = sender;
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("stopped after 7.00 Bytes; a stream cannot be resumed"), "{said}");
    let (status, _, said) = receiver.ends();
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("the peer ended the transfer: its user stopped it"), "{said}");
    drop(stdin);
}
