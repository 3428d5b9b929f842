//! Networks that change under a transfer.

#![allow(clippy::disallowed_methods, reason = "a path between processes runs in real time")]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tack_cli::conn::Accept;
use tack_cli::net::{NetAccept, Way};
use tack_cli::progress::Progress;
use tack_cli::stop::Stop;
use tack_cli::transfer::TransferError;
use tack_cli::transfer::recv::{Intake, decline, receive_tree};
use tack_cli::transfer::store::{Durability, Store};
#[cfg(target_os = "linux")]
use tack_device::{Netns, NetnsError, Prefix};
use tack_net::ConnConfig;
use tempfile::tempdir;

use crate::course::{Course, Orders, STEADY, forward};
use crate::network::{listen, started};
use crate::support::{Listening, random_bytes, rng, run, succeeded, tack};

/// Sends a film of so many bytes over `path`. It arrives whatever happens.
fn send_over(path: Course, bytes: usize) -> Output {
    send_by("", path, bytes)
}

/// The same by one of [`TRANSPORTS`](crate::network::TRANSPORTS).
fn send_by(by: &str, path: Course, bytes: usize) -> Output {
    send_under(by, path, bytes, |_| {}).0
}

/// The same with something done to both commands before they start, and what the receiver said.
pub(crate) fn send_under(
    by: &str,
    path: Course,
    bytes: usize,
    mut under: impl FnMut(&mut Command),
) -> (Output, String) {
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let film = random_bytes(&mut rng(51), bytes);
    fs::write(there.path().join("film"), &film).unwrap();
    let mut recv = tack(here.path(), &format!("recv in -p 0 -B 127.0.0.1{by}"));
    under(&mut recv);
    let (mut receiver, send) = started(&mut recv, "film");
    let inner = send.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap();
    let orders = Arc::default();
    let outer = forward(inner.parse().unwrap(), path, &orders);
    let mut send = tack(there.path(), &send.replace(inner, &outer.to_string()));
    under(&mut send);
    let sent = send.output().unwrap();
    orders.end();
    succeeded(&sent);
    let mut said = String::new();
    receiver.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(receiver.0.wait().unwrap().success());
    assert!(fs::read(here.path().join("in/film")).unwrap() == film);
    (sent, said)
}

pub(crate) fn went_on(sent: &Output) {
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
fn over_quic_a_connection_outlives_a_nat_that_rebinds() {
    let sent = send_by(" --quic", Course { rebinds_after: 5_000, ..STEADY }, 20_000_000);
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(!said.contains("reconnecting"), "{said}");
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

#[test]
fn a_handshake_that_is_damaged_is_tried_again_by_a_sender_that_begins_and_by_one_that_comes_back() {
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let film = random_bytes(&mut rng(55), 30_000_000);
    fs::write(there.path().join("film"), &film).unwrap();
    let (mut receiver, send) = listen(here.path(), "recv in -p 0 -B 127.0.0.1 --open", "film");
    let inner = send.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap();
    let orders = Arc::<Orders>::default();
    orders.garble(1);
    let outer = forward(inner.parse().unwrap(), STEADY, &orders);
    let sender = tack(there.path(), &send.replace(inner, &outer.to_string())).spawn().unwrap();
    let partial = here.path().join("in/.tack-partial");
    let since = Instant::now();
    while bytes_in(&partial) < 2_000_000 {
        assert!(since.elapsed() < Duration::from_secs(60), "nothing arrives");
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(orders.to_garble(), 0);
    // What is under way ends, and so do the first handshakes after it: more than are tried in a row.
    orders.garble(8);
    orders.rebind();
    let sent = sender.wait_with_output().unwrap();
    assert_eq!(orders.to_garble(), 0);
    orders.end();
    succeeded(&sent);
    went_on(&sent);
    assert!(receiver.0.wait().unwrap().success());
    assert!(fs::read(here.path().join("in/film")).unwrap() == film);
}

/// Bytes of what lies in a folder.
fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
}

/// Neither side gives in: one has nothing left to repeat, the other waits for it, and both answer.
#[test]
fn a_damaged_acknowledgment_of_what_never_arrived_is_noticed_though_the_peer_is_heard() {
    let began = Instant::now();
    went_on(&send_over(Course { forges_after: Some(5_000), ..STEADY }, 20_000_000));
    // What takes three seconds took the sixty after which a frame's absence is silence.
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
}

/// Eight connections that are silent are all that one address may have, and eight new ones come.
#[test]
fn eight_transfers_behind_one_nat_go_on_when_it_rebinds() {
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let (receiver, send) = listen(here.path(), "recv in -k -p 0 -B 127.0.0.1 --open", "FILM");
    let inner = send.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap();
    let films: Vec<_> = (0..8).map(|n| random_bytes(&mut rng(60 + n), 20_000_000)).collect();
    let orders = Arc::<Orders>::default();
    // Long enough that all have come to the middle of theirs before the first one comes back.
    let path = Course { rebinds_after: 9_000, silent: Duration::from_secs(6), ..STEADY };
    let sending: Vec<_> = films
        .iter()
        .enumerate()
        .map(|(n, film)| {
            fs::write(there.path().join(format!("film{n}")), film).unwrap();
            let outer = forward(inner.parse().unwrap(), path.clone(), &orders).to_string();
            let line = send.replace(inner, &outer).replace("FILM", &format!("film{n}"));
            tack(there.path(), &line).spawn().unwrap()
        })
        .collect();
    let sent: Vec<_> = sending.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    orders.end();
    drop(receiver);
    for (n, film) in films.iter().enumerate() {
        succeeded(&sent[n]);
        went_on(&sent[n]);
        assert!(fs::read(here.path().join(format!("in/film{n}"))).unwrap() == *film);
    }
}

/// A receiver that breaks off, has no place for a moment, is gone before it says a word, and then goes on.
#[test]
fn a_sender_that_comes_back_asks_again_while_there_is_no_place_for_it() {
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let film = random_bytes(&mut rng(54), 20_000_000);
    fs::write(there.path().join("film"), &film).unwrap();
    let (inbox, partial) = (here.path().join("in"), here.path().join("in/.tack-partial"));
    let begun = async {
        while bytes_in(&partial) < 1_000_000 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let sent = run(async {
        let local = "127.0.0.1:0".parse().unwrap();
        let mut server = NetAccept::listen(&Way::Udp, local, ConnConfig::default(), None).unwrap();
        let port = server.local_addr().port();
        let line = format!("send film 127.0.0.1:{port} --insecure-plaintext");
        let sender = tack(there.path(), &line).spawn().unwrap();
        let sent = tokio::task::spawn_blocking(|| sender.wait_with_output().unwrap());
        let intake = Intake::alone(Store::open(&inbox, Durability::Lazy).unwrap());
        let (quiet, never) = (Progress::hidden(), Stop::never());
        let course = async {
            let conn = server.accept().await.unwrap();
            tokio::select! {
                ended = receive_tree(conn, &intake, &quiet, &never) => panic!("too soon: {ended:?}"),
                () = begun => {}
            }
            let conn = server.accept().await.unwrap();
            let _ = decline(conn, TransferError::Busy("no place".to_owned()), &never).await;
            drop(server.accept().await.unwrap());
            // It may have given one up that took long.
            loop {
                let conn = server.accept().await.unwrap();
                let _ = receive_tree(conn, &intake, &quiet, &never).await;
            }
        };
        tokio::select! {
            sent = sent => sent.unwrap(),
            _ = course => unreachable!("it goes on"),
        }
    });
    succeeded(&sent);
    went_on(&sent);
    assert!(fs::read(inbox.join("film")).unwrap() == film);
}

/// A network of our own; `None`, with a word, where that is not allowed.
#[cfg(target_os = "linux")]
pub(crate) fn namespace() -> Option<Netns> {
    match Netns::new() {
        Ok(made) => Some(made),
        Err(e @ NetnsError::NotPermitted) => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// A receiver beyond two networks, as a laptop with Wi-Fi and a modem has them.
#[cfg(target_os = "linux")]
fn two_networks() -> Option<(Netns, Netns)> {
    let (laptop, server) = (namespace()?, namespace()?);
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
    let size = || bytes_in(inbox) + bytes_in(&inbox.join(".tack-partial"));
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
    let mut receiver = Listening(server.spawn(&mut tack(here.path(), line)).unwrap());
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
    // Two seconds or so, and much more for a machine that is busy; silence alone would show after sixty.
    assert!(pause < Duration::from_secs(30), "nothing arrived for {pause:?}");
}

#[test]
fn a_receiver_that_was_killed_and_started_again_is_sent_the_rest() {
    for over in crate::network::TRANSPORTS {
        let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
        let film = random_bytes(&mut rng(53), 40_000_000);
        fs::write(there.path().join("film"), &film).unwrap();
        let recv = |port: &str| format!("recv in --no-sync -p {port} -B 127.0.0.1 --open{over}");
        let (receiver, send) = listen(here.path(), &recv("0"), "film");
        let port = send.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let mut sender = Listening(tack(there.path(), &send).spawn().unwrap());
        let partial = here.path().join("in/.tack-partial");
        let since = Instant::now();
        while bytes_in(&partial) < 4_000_000 {
            assert!(since.elapsed() < Duration::from_secs(60), "nothing arrives{over}");
            thread::sleep(Duration::from_millis(1));
        }
        // Dropped, it is killed, and says nothing.
        drop(receiver);
        assert!(!here.path().join("in/film").exists(), "too fast to be killed in the middle{over}");
        let (mut receiver, _) = listen(here.path(), &recv(&port), "film");
        let mut said = String::new();
        sender.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(sender.0.wait().unwrap().success(), "{said}");
        assert!(said.contains("reconnecting") && said.contains("were there already"), "{said}");
        assert!(receiver.0.wait().unwrap().success());
        assert!(fs::read(here.path().join("in/film")).unwrap() == film);
    }
}
