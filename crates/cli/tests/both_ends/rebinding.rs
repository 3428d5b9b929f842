//! Networks that change under a transfer.

#![allow(clippy::disallowed_methods, reason = "a path between processes runs in real time")]

use std::fs;
use std::net::{SocketAddr, UdpSocket};
#[cfg(target_os = "linux")]
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_pcg::Pcg64;
#[cfg(target_os = "linux")]
use tack_device::{Netns, NetnsError, Prefix};
use tempfile::tempdir;

use crate::network::listen;
use crate::support::{random_bytes, rng, succeeded, tack};

/// What a path does to datagrams, beside carrying them to another port.
#[derive(Clone, Debug)]
struct Course {
    /// After so many, all that comes later has another address towards the server.
    rebinds_after: usize,
    /// For how long nothing passes then, either way.
    silent: Duration,
    /// One in so many of those with data has a few bits turned, and a checksum that is right.
    damages: Option<usize>,
    seed: u64,
}

const STEADY: Course =
    Course { rebinds_after: usize::MAX, silent: Duration::ZERO, damages: None, seed: 1 };

/// Carries datagrams between a port of its own, which it returns, and `server`.
fn forward(server: u16, path: Course, over: &Arc<AtomicBool>) -> u16 {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = front.local_addr().unwrap().port();
    front.set_nonblocking(true).unwrap();
    let over = Arc::clone(over);
    thread::spawn(move || {
        let mut carrier = Carrier {
            back: towards(),
            front,
            server: ([127, 0, 0, 1], server).into(),
            client: None,
            passed: 0,
            with_data: 0,
            silent_until: Instant::now(),
            rng: rng(path.seed),
            path,
        };
        while !over.load(Ordering::Relaxed) {
            if !carrier.carry() {
                thread::sleep(Duration::from_micros(100));
            }
        }
    });
    port
}

fn towards() -> UdpSocket {
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.set_nonblocking(true).unwrap();
    back
}

struct Carrier {
    front: UdpSocket,
    back: UdpSocket,
    server: SocketAddr,
    client: Option<SocketAddr>,
    passed: usize,
    with_data: usize,
    silent_until: Instant,
    path: Course,
    rng: Pcg64,
}

impl Carrier {
    /// Carries one datagram each way. Whether there was one.
    fn carry(&mut self) -> bool {
        let mut buffer = vec![0; 1 << 16];
        let mut busy = false;
        if let Ok((n, from)) = self.front.recv_from(&mut buffer) {
            (self.client, busy) = (Some(from), true);
            self.passed += 1;
            if self.passed.is_multiple_of(self.path.rebinds_after) {
                self.back = towards();
                self.silent_until = Instant::now() + self.path.silent;
            }
            if Instant::now() >= self.silent_until {
                self.damage(&mut buffer[..n]);
                let _ = self.back.send_to(&buffer[..n], self.server);
            }
        }
        if let (Ok((n, _)), Some(client)) = (self.back.recv_from(&mut buffer), self.client) {
            busy = true;
            if Instant::now() >= self.silent_until {
                self.damage(&mut buffer[..n]);
                let _ = self.front.send_to(&buffer[..n], client);
            }
        }
        busy
    }

    /// Behind the headers: what is turned there, TLS alone can notice.
    fn damage(&mut self, datagram: &mut [u8]) {
        const HEADERS: usize = 200;
        let Some(one_in) = self.path.damages.filter(|_| datagram.len() > 2 * HEADERS) else {
            return;
        };
        self.with_data += 1;
        if self.with_data.is_multiple_of(one_in) {
            for _ in 0..self.rng.random_range(1..4) {
                let at = self.rng.random_range(HEADERS..datagram.len());
                datagram[at] ^= 1 << self.rng.random_range(0..8);
            }
        }
    }
}

/// Sends a film of so many bytes over `path`. It arrives whatever happens.
fn send_over(path: Course, bytes: usize) -> Output {
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let film = random_bytes(&mut rng(51), bytes);
    fs::write(there.path().join("film"), &film).unwrap();
    let (mut receiver, send) = listen(here.path(), "recv in -p 0 -B 127.0.0.1", "film");
    let inner = send.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let outer = forward(inner.parse().unwrap(), path, &over);
    let sent = tack(there.path(), &send.replace(inner, &outer.to_string())).output().unwrap();
    over.store(true, Ordering::Relaxed);
    succeeded(&sent);
    assert!(receiver.0.wait().unwrap().success());
    assert!(fs::read(here.path().join("in/film")).unwrap() == film);
    sent
}

fn went_on(sent: &Output) {
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(said.contains("reconnecting") && said.contains("were there already"), "{said}");
}

#[test]
fn a_port_that_is_forwarded_to_another_is_no_difference() {
    let sent = send_over(STEADY, 3_000_000);
    assert!(!String::from_utf8_lossy(&sent.stderr).contains("reconnecting"));
}

#[test]
fn a_transfer_goes_on_through_a_nat_that_rebinds() {
    // Some 25 000 datagrams carry it.
    went_on(&send_over(Course { rebinds_after: 10_000, ..STEADY }, 30_000_000));
}

#[test]
fn a_transfer_goes_on_after_a_silence_in_which_the_address_changed() {
    let silent = Duration::from_secs(4);
    went_on(&send_over(Course { rebinds_after: 12_000, silent, ..STEADY }, 20_000_000));
}

#[test]
fn a_datagram_damaged_behind_the_checksum_ends_a_connection_and_not_the_transfer() {
    // TLS notices, and the command goes on over another connection.
    for seed in 0..3 {
        went_on(&send_over(Course { damages: Some(4_000), seed, ..STEADY }, 20_000_000));
    }
}

/// A receiver beyond two networks, as a laptop with Wi-Fi and a modem has them.
#[cfg(target_os = "linux")]
fn two_networks() -> Option<(Netns, Netns)> {
    let made = Netns::new().and_then(|laptop| Ok((laptop, Netns::new()?)));
    let (laptop, server) = match made {
        Ok(made) => made,
        Err(e @ NetnsError::NotPermitted) => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            return None;
        }
        Err(e) => panic!("{e}"),
    };
    for (name, net) in [("wifi", 1), ("lte", 2)] {
        let address = |host| [format!("10.9.{net}.{host}/24").parse::<Prefix>().unwrap()];
        laptop.link(&server, name, &address(2), &address(1)).unwrap();
        laptop.ip(&[format!("route add 10.9.9.9 via 10.9.{net}.1 metric {net}")]).unwrap();
        // Slow enough that what happens to it happens in the middle of a transfer.
        let shape = "rate 150mbit burst 64kb latency 20ms";
        let line = format!("qdisc replace dev {name} root tbf {shape}");
        let mut tc = std::process::Command::new("tc");
        assert!(laptop.spawn(tc.args(line.split(' '))).unwrap().wait().unwrap().success());
    }
    server.ip(&["link set lo up", "addr add 10.9.9.9/32 dev lo"]).unwrap();
    Some((laptop, server))
}

/// How long nothing more arrives in `inbox`, at most, until `over`.
#[cfg(target_os = "linux")]
fn longest_pause(inbox: &Path, over: &AtomicBool) -> Duration {
    let size = || -> u64 {
        let folders = [inbox.to_owned(), inbox.join(".tack-partial")];
        let entries = folders.iter().filter_map(|f| fs::read_dir(f).ok()).flatten().flatten();
        entries.filter_map(|e| e.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
    };
    let (mut last, mut since, mut longest) = (size(), Instant::now(), Duration::ZERO);
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
        let now = size();
        if now != last {
            longest = longest.max(since.elapsed());
            (last, since) = (now, Instant::now());
        }
    }
    longest
}

#[cfg(target_os = "linux")]
#[test]
fn a_laptop_that_changes_networks_in_the_middle_of_a_send_goes_on() {
    let Some((laptop, server)) = two_networks() else { return };
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let film = random_bytes(&mut rng(52), 60_000_000);
    fs::write(there.path().join("film"), &film).unwrap();
    let line = "recv in -p 8225 -B 10.9.9.9 --open";
    let mut receiver =
        crate::support::Listening(server.spawn(&mut tack(here.path(), line)).unwrap());
    let key = {
        use std::io::{BufRead, BufReader};
        let mut lines = BufReader::new(receiver.0.stderr.take().unwrap()).lines();
        let key = lines.find_map(|l| Some(l.unwrap().strip_prefix("Key: ")?.to_owned())).unwrap();
        thread::spawn(move || lines.for_each(drop));
        key
    };
    let send = format!("send film 10.9.9.9:8225 --fingerprint {key}");
    let sending = laptop.spawn(&mut tack(there.path(), &send)).unwrap();
    let over = AtomicBool::new(false);
    let (sent, pause) = thread::scope(|scope| {
        let watching = scope.spawn(|| longest_pause(&here.path().join("in"), &over));
        thread::sleep(Duration::from_millis(1_200));
        // No word of farewell: its packets just go nowhere, and then the route is another.
        laptop.ip(&["link set wifi down"]).unwrap();
        let sent = sending.wait_with_output().unwrap();
        over.store(true, Ordering::Relaxed);
        (sent, watching.join().unwrap())
    });
    succeeded(&sent);
    went_on(&sent);
    assert!(fs::read(here.path().join("in/film")).unwrap() == film);
    println!("nothing arrived for {pause:?} at most");
}
