//! What a server survives: clients that move, noise, repetition, change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use tack_net::quic::{Config, Endpoint};
use tokio::net::UdpSocket;

use super::{PROTOCOL, Server, bytes, echo, echoed, loopback, soon};

/// A way for datagrams between a client and a server, as a NAT is: towards the server they leave from
/// another socket, which can be exchanged.
struct Nat {
    address: SocketAddr,
    rebind: Arc<AtomicBool>,
}

impl Nat {
    async fn new(server: SocketAddr, mut change: impl FnMut(&mut Vec<u8>) + Send + 'static) -> Nat {
        let inside = UdpSocket::bind(loopback()).await.unwrap();
        let address = inside.local_addr().unwrap();
        let rebind = Arc::new(AtomicBool::new(false));
        let asked = rebind.clone();
        tokio::spawn(async move {
            let mut outside = UdpSocket::bind(loopback()).await.unwrap();
            let mut client = None;
            let (mut out, mut back) = (vec![0; 65_536], vec![0; 65_536]);
            loop {
                if asked.swap(false, Ordering::Relaxed) {
                    outside = UdpSocket::bind(loopback()).await.unwrap();
                }
                tokio::select! {
                    Ok((n, from)) = inside.recv_from(&mut out) => {
                        client = Some(from);
                        let mut datagram = out[..n].to_vec();
                        change(&mut datagram);
                        let _ = outside.send_to(&datagram, server).await;
                    }
                    Ok((n, _)) = outside.recv_from(&mut back) => {
                        if let Some(client) = client {
                            let _ = inside.send_to(&back[..n], client).await;
                        }
                    }
                }
            }
        });
        Nat { address, rebind }
    }
}

#[tokio::test]
async fn a_connection_survives_that_its_client_s_port_is_another() {
    let server = Server::new(Config::default());
    let nat = Nat::new(server.endpoint.local_addr(), |_| {}).await;
    let client = Endpoint::client(loopback()).unwrap();
    let host = nat.address.to_string();
    let connecting = client.connect(&host, &server.connector, &[PROTOCOL], Config::default());
    let (near, far) = tokio::join!(soon(connecting), soon(server.endpoint.accept()));
    let (near, far) = (near.unwrap(), far.unwrap());
    tokio::spawn(echo(far.clone()));
    let mut seen = vec![far.remote_address()];
    for _ in 0..3 {
        assert!(soon(echoed(&near, bytes(300_000))).await == bytes(300_000));
        nat.rebind.store(true, Ordering::Relaxed);
        assert!(soon(echoed(&near, bytes(300_000))).await == bytes(300_000));
        seen.push(far.remote_address());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "each port was another");
}

#[tokio::test]
async fn damage_on_the_way_costs_packets_and_no_byte() {
    let server = Server::new(Config::default());
    let mut count = 0;
    let damage = move |datagram: &mut Vec<u8>| {
        count += 1;
        if count % 13 == 0 {
            let middle = datagram.len() / 2;
            datagram[middle] ^= 0x10;
        }
    };
    let nat = Nat::new(server.endpoint.local_addr(), damage).await;
    let client = Endpoint::client(loopback()).unwrap();
    let host = nat.address.to_string();
    let connecting = client.connect(&host, &server.connector, &[PROTOCOL], Config::default());
    let (near, far) = tokio::join!(soon(connecting), soon(server.endpoint.accept()));
    let (near, far) = (near.unwrap(), far.unwrap());
    tokio::spawn(echo(far.clone()));
    assert!(soon(echoed(&near, bytes(500_000))).await == bytes(500_000));
    assert!(far.info().counters.packets_dropped > 0, "{:?}", far.info());
}

#[tokio::test]
async fn noise_from_strangers_changes_nothing_for_others() {
    let server = Server::new(Config::default());
    let at = server.endpoint.local_addr();
    let (near, far) = server.pair().await;
    tokio::spawn(echo(far));
    let stranger = UdpSocket::bind(loopback()).await.unwrap();
    let mut rng = Pcg64::seed_from_u64(14);
    for round in 0..3_000 {
        let len = match round % 4 {
            0 => rng.random_range(0..40),
            1 => 1_200,
            _ => rng.random_range(0..1_500),
        };
        let mut datagram: Vec<u8> = (0..len).map(|_| rng.random()).collect();
        // Half of it looks like an Initial of one of our versions.
        if let Some(header) = datagram.get_mut(..6).filter(|_| round % 2 == 0) {
            header.copy_from_slice(&[0xc0 | rng.random::<u8>() & 0x0f, 0, 0, 0, 1, 8]);
        }
        stranger.send_to(&datagram, at).await.unwrap();
        if round % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert!(soon(echoed(&near, bytes(200_000))).await == bytes(200_000));
    // Whoever comes afterwards is let in, if perhaps not before it has shown where it is.
    let (again, far) = server.pair().await;
    tokio::spawn(echo(far));
    assert!(soon(echoed(&again, bytes(10_000))).await == bytes(10_000));
}

#[tokio::test]
async fn a_first_packet_that_comes_a_thousand_times_is_one_connection() {
    let server = Server::new(Config::default());
    let nat = Nat::new(server.endpoint.local_addr(), |_| {}).await;
    let recorder = UdpSocket::bind(loopback()).await.unwrap();
    let client = Endpoint::client(loopback()).unwrap();
    let host = recorder.local_addr().unwrap().to_string();
    let connector = server.connector.clone();
    let attempt = tokio::spawn(async move {
        let config = Config { idle_timeout: Some(Duration::from_secs(1)), ..Config::default() };
        let _ = client.connect(&host, &connector, &[PROTOCOL], config).await;
    });
    let mut first = vec![0; 2_000];
    let n = soon(recorder.recv(&mut first)).await.unwrap();
    let replayer = UdpSocket::bind(loopback()).await.unwrap();
    for _ in 0..1_000 {
        replayer.send_to(&first[..n], nat.address).await.unwrap();
        tokio::task::yield_now().await;
    }
    let (near, far) = server.pair().await;
    tokio::spawn(echo(far));
    assert!(soon(echoed(&near, bytes(10_000))).await == bytes(10_000));
    let counters = server.endpoint.counters();
    assert_eq!(counters.accepted, 2, "{counters:?}");
    attempt.abort();
}

#[tokio::test]
async fn a_connection_goes_on_when_its_endpoint_leaves_its_socket_for_another() {
    let server = Server::new(Config::default());
    let client = Endpoint::client(loopback()).unwrap();
    let (near, far) = tokio::join!(server.connect(&client), soon(server.endpoint.accept()));
    let far = far.unwrap();
    tokio::spawn(echo(far.clone()));
    let mut seen = Vec::new();
    for moves in 0..4 {
        assert!(soon(echoed(&near, bytes(300_000))).await == bytes(300_000));
        assert_eq!(far.remote_address(), client.local_addr());
        assert_eq!(near.info().counters.moves, moves);
        seen.push(near.local_address());
        client.rebind(loopback()).unwrap();
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 4, "each socket was another");
    // One that connects afterwards does so from there.
    let (again, far) = tokio::join!(server.connect(&client), soon(server.endpoint.accept()));
    tokio::spawn(echo(far.unwrap()));
    assert!(soon(echoed(&again, bytes(10_000))).await == bytes(10_000));
}

#[tokio::test]
async fn a_socket_is_left_in_the_midst_of_a_transfer_and_no_byte_is_lost() {
    let server = Server::new(Config::default());
    let client = Endpoint::client(loopback()).unwrap();
    let (near, far) = tokio::join!(server.connect(&client), soon(server.endpoint.accept()));
    tokio::spawn(echo(far.unwrap()));
    let moving = tokio::spawn(async move {
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            client.rebind(loopback()).unwrap();
        }
    });
    assert!(soon(echoed(&near, bytes(8_000_000))).await == bytes(8_000_000));
    moving.await.unwrap();
}

#[tokio::test]
async fn an_address_that_is_not_ours_is_not_moved_to() {
    let server = Server::new(Config::default());
    let client = Endpoint::client(loopback()).unwrap();
    let (near, far) = tokio::join!(server.connect(&client), soon(server.endpoint.accept()));
    tokio::spawn(echo(far.unwrap()));
    let before = client.local_addr();
    client.rebind("192.0.2.1:0".parse().unwrap()).unwrap_err();
    assert_eq!(client.local_addr(), before);
    assert!(soon(echoed(&near, bytes(10_000))).await == bytes(10_000));
}
