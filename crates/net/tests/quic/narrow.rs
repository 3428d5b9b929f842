//! Interfaces that take less than an Ethernet's.

use std::net::UdpSocket;

use tack_device::{Netns, NetnsError};

use super::*;

#[tokio::test]
async fn a_transfer_over_an_interface_of_small_packets_loses_only_what_asked_for_their_size() {
    let netns = match Netns::new() {
        Ok(netns) => netns,
        Err(e @ NetnsError::NotPermitted) => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            return;
        }
        Err(e) => panic!("{e}"),
    };
    netns.ip(&["link set dev lo mtu 1400"]).unwrap();
    #[expect(clippy::disallowed_methods, reason = "sockets stay where they were made")]
    let socket = || netns.enter(|| UdpSocket::bind(loopback()).unwrap()).unwrap();
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let tls = Acceptor::new(&identity).unwrap().for_quic(&[PROTOCOL]);
    let server = Endpoint::builder().listen(Listen::new(tls, Config::default()));
    let server = server.from_std(socket()).unwrap();
    let client = Endpoint::builder().from_std(socket()).unwrap();
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint())).unwrap();
    let host = server.local_addr().to_string();
    let connecting = client.connect(&host, &connector, &[PROTOCOL], Config::default());
    let (near, far) = tokio::join!(soon(connecting), soon(server.accept()));
    tokio::spawn(echo(far.unwrap()));
    let near = near.unwrap();
    for _ in 0..4 {
        assert!(soon(echoed(&near, bytes(2_000_000))).await == bytes(2_000_000));
    }
    let refused = [&client, &server].map(|end| end.io_counters().datagrams_refused);
    assert!(refused.iter().all(|&datagrams| datagrams <= 200), "{refused:?}");
}
