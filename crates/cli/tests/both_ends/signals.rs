//! Either end is told to end at a moment drawn at random, by any of the signals that ask for it: its status
//! says so, the other end hears of it, nothing that is not whole has its name, and the next attempt completes.
//!
//! `TACK_SIGNALS` says how many times, 6 by default, over each transport.

#![allow(clippy::disallowed_methods, reason = "processes are waited for in real time")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rand::RngExt;
use rand_pcg::Pcg64;
use rustix::process::Signal;
use tempfile::tempdir;

use crate::network::TRANSPORTS;
use crate::stop::{RELAY, Relay, Talking, alone, wait_for};
use crate::support::{random_bytes, random_tree, rng, snapshot, succeeded, tack};
use crate::tunnel::tunnel;

/// From the first word to the last, a transfer over the relay takes about as long.
const TRANSFER: Duration = Duration::from_millis(2_500);
/// Far more than the next attempt takes, on however busy a machine.
const NEXT: Duration = Duration::from_secs(20);

fn times() -> u64 {
    std::env::var("TACK_SIGNALS").ok().and_then(|times| times.parse().ok()).unwrap_or(6)
}

/// Which signal, and when: the beginning has as many phases as all the rest.
fn fate(rng: &mut Pcg64) -> (Signal, Duration) {
    let signal = [Signal::INT, Signal::TERM, Signal::HUP][rng.random_range(0..3)];
    let share = rng.random_range(0.0_f64..1.0).powi(2);
    (signal, TRANSFER.mul_f64(share))
}

fn receiver(home: &Path, over: &str) -> (Talking, u16, String) {
    let receiver = Talking::start(tack(home, &format!("recv in -p 0 -B 127.0.0.1 --open{over}")));
    let (port, key) = wait_for(&receiver.err, "command to type", |line| {
        let (_, host) = line.split_once("tack send PATH… 127.0.0.1:")?;
        let (port, key) = host.split_once(" --fingerprint ")?;
        Some((port.parse().ok()?, key.split(' ').next()?.to_owned()))
    });
    (receiver, port, key)
}

fn sender(home: &Path, host: &str, (port, key): (u16, &str), over: &str) -> Command {
    tack(home, &format!("send tree {host}:{port} --fingerprint {key}{over}"))
}

/// Whatever lies under its name is whole.
fn nothing_is_there_in_part(home: &Path, seed: u64) {
    let (sent, arrived) = (snapshot(&home.join("tree")), home.join("in/tree"));
    if !arrived.exists() {
        return;
    }
    for (name, (.., bytes)) in snapshot(&arrived) {
        assert!(sent[&name].3 == bytes, "seed {seed}: {name} is not what was sent");
    }
}

/// One transfer that is interrupted, and the next. How long that one took.
fn interrupted(seed: u64, over: &str) -> Duration {
    let mut rng = rng(seed);
    let (signal, after) = fate(&mut rng);
    let of_sender = rng.random_bool(0.5);
    let what = format!("seed {seed}{over}, {signal:?} to sender: {of_sender} after {after:?}");
    let home = tempdir().unwrap();
    let home = home.path();
    random_tree(&home.join("tree"), &mut rng);
    fs::write(home.join("tree/late"), random_bytes(&mut rng, 6_000_000)).unwrap();
    let (receiving, port, key) = receiver(home, over);
    let relay = Relay::to(port);
    let sending = Talking::start(sender(home, RELAY, (port, &key), over));
    thread::sleep(after);
    let (told, other) = if of_sender { (sending, receiving) } else { (receiving, sending) };
    told.signal(signal);
    let (status, _, said) = told.ends();
    // Whoever was done, or had not begun to listen for signals, is as well.
    assert!([0, 130, -signal.as_raw()].contains(&status), "{what}: {status}: {said}");
    let mut words = said;
    let is_waiting = of_sender && status != 0;
    let mut waiting = None;
    if is_waiting {
        waiting = Some(other);
    } else {
        let (status, _, said) = other.ends();
        let expected = if of_sender { [0, 0] } else { [0, 1] };
        assert!(expected.contains(&status), "{what}: the other end: {status}: {said}");
        words += &said;
    }
    drop(relay);
    nothing_is_there_in_part(home, seed);
    // Over a receiver that is left, or a new one.
    let (receiving, port, key) = match waiting {
        Some(receiving) if !home.join("in/tree/late").exists() => (receiving, port, key),
        _ => receiver(home, over),
    };
    let begun = Instant::now();
    let next = sender(home, "127.0.0.1", (port, &key), over).output().unwrap();
    let took = begun.elapsed();
    words += &String::from_utf8_lossy(&next.stderr);
    let is_there = words.contains("exists");
    if !is_there {
        succeeded(&next);
        let (status, _, said) = receiving.ends();
        assert_eq!(status, 0, "{what}: {said}");
        words += &said;
        assert!(!home.join("in/.tack-partial").exists(), "{what}");
    }
    assert_eq!(snapshot(&home.join("tree")), snapshot(&home.join("in/tree")), "{what}: {words}");
    assert!(!words.contains("panicked"), "{what}: {words}");
    took
}

#[test]
fn whoever_is_told_to_end_whenever_nothing_partial_has_its_name_and_the_next_attempt_completes() {
    let _alone = alone();
    for over in TRANSPORTS {
        let slowest = (0..times()).map(|seed| interrupted(seed, over)).max();
        println!("the slowest next attempt{over}: {slowest:?}");
        assert!(slowest.is_some_and(|took| took < NEXT), "{over}: {slowest:?}");
    }
}

/// A program behind the tunnel hears of the end of either of its ends, and the next tunnel serves it.
fn tunnel_interrupted(seed: u64, over: &str) {
    let mut rng = rng(seed);
    let (signal, _) = fate(&mut rng);
    let (of_client, pauses) = (rng.random_bool(0.5), rng.random_bool(0.5));
    let what = format!("seed {seed}{over}, {signal:?} to client: {of_client}, pauses: {pauses}");
    let target = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let options = format!("-L 0:{}{over}", target.local_addr().unwrap());
    let both = tunnel("any", &options);
    let mut program = TcpStream::connect(both.locals[0]).unwrap();
    let (mut far, _) = target.accept().unwrap();
    let talking = thread::spawn(move || {
        // Until the end, of whichever kind.
        while far.write_all(&[7; 10_000]).is_ok() {}
    });
    program.set_read_timeout(Some(NEXT)).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let until = Instant::now() + Duration::from_millis(rng.random_range(0..300));
    while Instant::now() < until {
        let _some = program.read(&mut buffer).unwrap();
    }
    let crate::tunnel::Tunnel { server, client, .. } = both;
    let server = server.unwrap();
    let (mut told, other) = if of_client { (client, server) } else { (server, client) };
    crate::stop::signal(&told.0, signal);
    let listening = thread::spawn(move || {
        // One that reads all the while, or has something else to do.
        if pauses {
            thread::sleep(Duration::from_secs(1));
        }
        loop {
            match program.read(&mut buffer) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(error) => break !matches!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    });
    let status = crate::stop::ended(&mut told.0);
    assert_eq!(status, 130, "{what}");
    assert!(listening.join().unwrap(), "{what}: the program waits for more");
    drop(other);
    talking.join().unwrap();
    let both = tunnel("any", &options);
    let mut program = TcpStream::connect(both.locals[0]).unwrap();
    let (mut far, _) = target.accept().unwrap();
    far.write_all(b"again").unwrap();
    let mut again = [0; 5];
    program.read_exact(&mut again).unwrap();
    assert_eq!(&again, b"again", "{what}");
}

#[test]
fn a_program_hears_of_the_end_of_either_end_of_its_tunnel() {
    let _alone = alone();
    for over in TRANSPORTS {
        (0..times() / 2).for_each(|seed| tunnel_interrupted(seed, over));
    }
}
