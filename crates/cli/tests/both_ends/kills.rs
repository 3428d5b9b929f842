//! Real processes, killed at random.

#![allow(clippy::disallowed_methods, reason = "processes are killed in real time")]

use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rand::RngExt;
use tempfile::tempdir;

use crate::support::{Listening, random_bytes, random_tree, rng, snapshot, succeeded, tack};

/// How often to kill, unless `TACK_KILLS` says otherwise: a thousand times by hand.
const KILLS: usize = 12;

fn receiver(home: &Path, port: u16) -> Listening {
    let line = format!("recv in --keep -q -p {port} -B 127.0.0.1");
    let receiving = Listening(tack(home, &line).spawn().unwrap());
    // It listens once nobody else can.
    while UdpSocket::bind(("127.0.0.1", port)).is_ok() {
        thread::sleep(Duration::from_millis(5));
    }
    receiving
}

#[test]
fn either_end_may_be_killed_at_any_time_and_the_next_attempt_completes() {
    let kills = std::env::var("TACK_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let seed = 0x0dead;
    let mut rng = rng(seed);
    let home = tempdir().unwrap();
    let (home, port) = (home.path(), free_port());
    random_tree(&home.join("tree"), &mut rng);
    fs::write(home.join("tree/late"), random_bytes(&mut rng, 6_000_000)).unwrap();
    let line = format!("send tree 127.0.0.1:{port} -q");
    let mut receiving = receiver(home, port);
    for round in 0..kills {
        let mut sending = Listening(tack(home, &line).spawn().unwrap());
        thread::sleep(Duration::from_millis(rng.random_range(0..400)));
        if rng.random_bool(0.5) {
            // Dropped, it is killed.
            receiving = receiver(home, {
                drop(receiving);
                port
            });
        }
        if sending.0.try_wait().unwrap().is_some_and(|status| status.success()) {
            let arrived = snapshot(&home.join("in/tree"));
            assert_eq!(arrived, snapshot(&home.join("tree")), "seed {seed} round {round}");
            // Once more from the beginning, or from the middle.
            if rng.random_bool(0.5) {
                fs::remove_dir_all(home.join("in/tree")).unwrap();
            } else {
                let _ = fs::remove_file(home.join("in/tree/late"));
            }
        }
    }
    succeeded(&tack(home, &line).output().unwrap());
    assert_eq!(snapshot(&home.join("in/tree")), snapshot(&home.join("tree")), "seed {seed}");
    drop(receiving);
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
