//! Networks that change under a transfer.

#![allow(clippy::disallowed_methods, reason = "a path between processes runs in real time")]

use std::fs;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tempfile::tempdir;

use crate::network::listen;
use crate::support::{random_bytes, rng, succeeded, tack};

/// A port forwarding, from a port of its own to `server`, that takes another address towards it
/// after so many datagrams, again and again. Returns its port.
fn forward(server: u16, rebinds_after: usize, over: &Arc<AtomicBool>) -> u16 {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = front.local_addr().unwrap().port();
    let over = Arc::clone(over);
    front.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let towards = || {
            let back = UdpSocket::bind("127.0.0.1:0").unwrap();
            back.set_nonblocking(true).unwrap();
            back
        };
        let (mut back, mut client, mut passed) = (towards(), None, 0);
        let mut buffer = vec![0; 1 << 16];
        while !over.load(Ordering::Relaxed) {
            let mut idle = true;
            if let Ok((n, from)) = front.recv_from(&mut buffer) {
                (client, idle) = (Some(from), false);
                let _ = back.send_to(&buffer[..n], ("127.0.0.1", server));
                passed += 1;
                if passed % rebinds_after == 0 {
                    back = towards();
                }
            }
            if let (Ok((n, _)), Some(client)) = (back.recv_from(&mut buffer), client) {
                idle = false;
                let _ = front.send_to(&buffer[..n], client);
            }
            if idle {
                thread::sleep(Duration::from_micros(100));
            }
        }
    });
    port
}

#[test]
fn a_transfer_goes_on_through_a_nat_that_rebinds_and_a_port_that_is_forwarded() {
    let (here, there) = (tempdir().unwrap(), tempdir().unwrap());
    let film = random_bytes(&mut rng(51), 30_000_000);
    fs::write(there.path().join("film"), &film).unwrap();
    let (mut receiver, send) = listen(here.path(), "recv in -p 0 -B 127.0.0.1", "film");
    let (outer, over) = {
        let inner = send.split("127.0.0.1:").nth(1).unwrap().split(' ').next().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        // Some 25 000 datagrams carry it.
        (send.replace(inner, &forward(inner.parse().unwrap(), 10_000, &over).to_string()), over)
    };
    let sent = tack(there.path(), &outer).output().unwrap();
    over.store(true, Ordering::Relaxed);
    succeeded(&sent);
    let said = String::from_utf8_lossy(&sent.stderr);
    assert!(said.contains("reconnecting") && said.contains("were there already"), "{said}");
    assert!(receiver.0.wait().unwrap().success());
    assert!(fs::read(here.path().join("in/film")).unwrap() == film);
}
