//! UDP sockets on interfaces that take less than they send, each test in a network namespace of its own.
#![cfg(target_os = "linux")]

use std::time::Duration;

use tack_device::{
    Clock, Netns, NetnsError, RecvBatch, SendOutcome, SocketConfig, Transmit, UdpSocket, is_ours,
    wait,
};

/// A namespace, or `None` where we may not have one: the test says so and passes.
fn namespace(lines: &[&str]) -> Option<Netns> {
    match Netns::new() {
        Ok(netns) => {
            netns.ip(lines).unwrap();
            Some(netns)
        }
        Err(e @ NetnsError::NotPermitted) => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn bound(netns: &Netns) -> UdpSocket {
    let bind = || UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &SocketConfig::default());
    netns.enter(bind).unwrap().unwrap()
}

fn send(from: &UdpSocket, to: &UdpSocket, datagrams: usize, segment_bytes: usize) -> SendOutcome {
    let bytes = vec![7; datagrams * segment_bytes];
    let to = to.local_addr();
    from.send(&Transmit { to, from: None, ecn: None, bytes: &bytes, segment_bytes })
}

/// Lengths of the datagrams that come until `want` have, or none does.
fn received(socket: &UdpSocket, want: usize) -> Vec<usize> {
    let clock = Clock::start();
    let limit = clock.now() + Duration::from_secs(5);
    let mut batch = RecvBatch::new();
    let mut got = Vec::new();
    while got.len() < want && clock.now() < limit {
        wait(&[socket], Some(limit), &clock).unwrap();
        if socket.recv(&mut batch).is_ok() {
            got.extend(batch.messages().flatten().map(<[u8]>::len));
        }
    }
    got
}

#[test]
fn a_burst_of_segments_larger_than_the_interface_takes_arrives_in_fragments() {
    let Some(netns) = namespace(&["link set dev lo mtu 1400"]) else { return };
    let (a, b) = (bound(&netns), bound(&netns));
    for _ in 0..2 {
        assert_eq!(send(&a, &b, 3, 1_452), SendOutcome::Sent);
        assert_eq!(received(&b, 3), [1_452; 3]);
    }
    assert_eq!(send(&a, &b, 3, 1_000), SendOutcome::Sent);
    assert_eq!(received(&b, 3), [1_000; 3]);
    assert_eq!(a.refused_datagrams(), 0);
}

#[test]
fn a_socket_without_fragments_refuses_what_is_too_large_and_sends_what_is_not() {
    let Some(netns) = namespace(&["link set dev lo mtu 1400"]) else { return };
    let (a, b) = (bound(&netns).without_fragments(), bound(&netns));
    for datagrams in [1, 3, 1] {
        assert_eq!(send(&a, &b, datagrams, 1_373), SendOutcome::TooBig);
        assert_eq!(send(&a, &b, datagrams, 1_372), SendOutcome::Sent);
        assert_eq!(received(&b, datagrams), vec![1_372; datagrams]);
    }
    assert_eq!(a.refused_datagrams(), 5);
}

#[test]
fn an_address_is_ours_until_it_is_taken_away() {
    let Some(netns) = namespace(&["addr add 10.9.9.1/32 dev lo"]) else { return };
    let ask = |address: &str| netns.enter(|| is_ours(address.parse().unwrap())).unwrap();
    assert!(ask("10.9.9.1") && ask("::ffff:10.9.9.1") && ask("127.0.0.1"));
    netns.ip(&["addr del 10.9.9.1/32 dev lo"]).unwrap();
    assert!(!ask("10.9.9.1") && !ask("::ffff:10.9.9.1") && ask("127.0.0.1"));
}
