//! DATAGRAM frames: how long they may be, and which arrive.

use std::time::Duration;

use tack_quic::streams::Dir;
use tack_quic::{Config, UseError};

use super::listen;
use super::pair::Pair;

#[test]
fn datagrams_arrive_and_none_longer_than_a_packet_is_taken() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let most = pair.client(id).max_datagram();
    let (packet, beside) = (usize::from(pair.client(id).info().mtu), 1 + 8 + 4 + 16 + 6 + 5);
    assert_eq!(most, packet - beside, "header, tag, TACK_STAMP, and its own header");
    assert!(pair.client(id).send_datagram(&vec![0; most + 1]).is_err());
    pair.client(id).send_datagram(&vec![7; most]).unwrap();
    pair.client(id).send_datagram(b"two").unwrap();
    pair.run(Duration::from_millis(100));
    assert_eq!(pair.server().recv_datagram(), Some(vec![7; most]));
    assert_eq!(pair.server().recv_datagram().as_deref(), Some(&b"two"[..]));
    assert_eq!(pair.server().recv_datagram(), None);
}

#[test]
fn datagrams_alone_find_out_what_the_path_takes_and_arrive_beside_those_of_the_peer() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let mut arrived = [0; 2];
    for round in 0..200_u8 {
        // Both ends owe an acknowledgment nearly always.
        let most = pair.client(id).max_datagram().min(pair.server().max_datagram());
        pair.client(id).send_datagram(&vec![round; most]).unwrap();
        pair.server().send_datagram(&vec![round; most]).unwrap();
        pair.run(Duration::from_millis(3));
        arrived[0] += usize::from(pair.client(id).recv_datagram().is_some());
        arrived[1] += usize::from(pair.server().recv_datagram().is_some());
    }
    assert!(arrived.iter().all(|n| *n > 190), "{arrived:?} of 200");
    for info in [pair.client(id).info(), pair.server().info()] {
        assert_eq!(info.mtu, 1_452);
        assert!(info.counters.data_packets_sent >= 200, "{info:?}");
    }
}

#[test]
fn where_none_is_taken_not_even_an_empty_one_is_sent() {
    let mut listen = listen();
    listen.config.datagram_buffer = 0;
    let mut pair = Pair::new(listen);
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.client(id).max_datagram(), 0);
    assert_eq!(pair.client(id).send_datagram(b""), Err(UseError::Datagram(0)));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.client(id).closed(), None);
    pair.server().send_datagram(b"").unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.client(id).recv_datagram().as_deref(), Some(&b""[..]));
}

#[test]
fn a_datagram_that_became_too_long_keeps_none_behind_it_waiting() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    pair.transfer(id, 50_000);
    assert_eq!(pair.client(id).info().mtu, 1_452);
    pair.most = 1_300;
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Uni, now).unwrap();
    pair.client(id).write(stream, &[7; 400_000]).unwrap();
    pair.run(Duration::from_millis(500));
    let long = vec![7; pair.client(id).max_datagram()];
    while pair.client(id).info().mtu > 1_200 {
        pair.client(id).send_datagram(&long).unwrap();
        pair.run(Duration::from_millis(100));
    }
    pair.client(id).send_datagram(b"short").unwrap();
    pair.run(Duration::from_secs(20));
    let mut last = None;
    while let Some(datagram) = pair.server().recv_datagram() {
        last = Some(datagram);
    }
    assert_eq!(last.as_deref(), Some(&b"short"[..]));
}

#[test]
fn a_datagram_that_is_longer_than_the_one_before_it_leaves_in_a_burst_of_its_own() {
    let mut pair = Pair::new(listen());
    let id = pair.connect(Config::default());
    pair.run(Duration::from_secs(1));
    let most = pair.client(id).max_datagram();
    let sent = [vec![1; 100], vec![2; most], vec![3; 5], vec![4; most]];
    for datagram in &sent {
        pair.client(id).send_datagram(datagram).unwrap();
    }
    pair.run(Duration::from_millis(100));
    for datagram in &sent {
        assert!(pair.server().recv_datagram().as_ref() == Some(datagram));
    }
}

#[test]
fn of_a_path_that_takes_fewer_datagrams_than_are_sent_streams_have_their_part() {
    let config = Config { congestion: tack_cc::Algorithm::NewReno, ..Config::default() };
    let mut pair = Pair::new(listen());
    let id = pair.connect(config);
    pair.run(Duration::from_secs(1));
    pair.one_lost_in = Some(20);
    let now = pair.now;
    let stream = pair.client(id).open(Dir::Uni, now).unwrap();
    let (mut of_stream, mut of_datagrams, mut buffer) = (0, 0, vec![0; 100_000]);
    for _ in 0..200 {
        pair.client(id).write(stream, &[1; 50_000]).unwrap();
        let datagram = vec![2; pair.client(id).max_datagram()];
        (0..500).for_each(|_| pair.client(id).send_datagram(&datagram).unwrap());
        pair.run(Duration::from_millis(10));
        while let Some(datagram) = pair.server().recv_datagram() {
            of_datagrams += datagram.len();
        }
        of_stream += pair.server().read(stream, &mut buffer).ok().flatten().unwrap_or(0);
    }
    assert!(of_datagrams > 200_000, "{of_datagrams} bytes");
    assert!(2 * of_stream > of_datagrams, "{of_stream} bytes beside {of_datagrams}");
}
