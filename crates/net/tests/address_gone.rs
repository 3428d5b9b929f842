//! Endpoints on the wildcard address of a machine that loses an address, in network namespaces of their own.
#![cfg(target_os = "linux")]

use std::net::UdpSocket;
use std::time::Duration;

use tack_device::{Netns, NetnsError, Prefix};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

const SERVER: &str = "10.9.9.2:5201";

/// A client's machine and a server's with a cable between, or `None` where we may not have them: the test
/// says so and passes.
fn two_machines() -> Option<(Netns, Netns)> {
    let (client, server) = match (Netns::new(), Netns::new()) {
        (Ok(client), Ok(server)) => (client, server),
        (Err(e @ NetnsError::NotPermitted), _) => {
            assert!(std::env::var_os("TACK_INTEROP_REQUIRED").is_none(), "{e}");
            eprintln!("skipped: {e}");
            return None;
        }
        (Err(e), _) | (_, Err(e)) => panic!("{e}"),
    };
    let [here, there] = ["10.9.9.1/24", "10.9.9.2/24"].map(|p| p.parse::<Prefix>().unwrap());
    client.link(&server, "wire", &[here], &[there]).unwrap();
    Some((client, server))
}

fn socket_in(netns: &Netns, at: &str) -> UdpSocket {
    #[expect(clippy::disallowed_methods, reason = "sockets stay where they were made")]
    netns.enter(|| UdpSocket::bind(at).unwrap()).unwrap()
}

/// As another lease does it.
fn change_address(client: &Netns) {
    client.ip(&["addr flush dev wire scope global", "addr add 10.9.9.3/24 dev wire"]).unwrap();
}

/// Runs what `begin` begins on a thread of the client's machine.
fn run_on<F: Future<Output = ()>>(machine: &Netns, begin: impl FnOnce() -> F + Send) {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(begin());
    };
    machine.enter(run).unwrap();
}

/// Fails rather than hangs.
async fn soon<F: Future>(f: F) -> F::Output {
    timeout(Duration::from_secs(10), f).await.expect("took too long")
}

#[test]
fn an_endpoint_connects_anew_from_the_address_that_its_machine_has_now() {
    use tack_net::Endpoint;

    let Some((here, there)) = two_machines() else { return };
    run_on(&here, || async {
        let server = Endpoint::builder().from_std(socket_in(&there, SERVER)).unwrap();
        let client = Endpoint::bind("0.0.0.0:0".parse().unwrap()).unwrap();
        let listener = server.listen_plain().unwrap();
        let mut peers = Vec::new();
        for _ in 0..2 {
            let mut near = soon(client.connect_plain(SERVER)).await.unwrap();
            let (mut far, peer) = soon(listener.accept()).await.unwrap();
            peers.push(peer.ip().to_string());
            near.write_all(b"hello").await.unwrap();
            soon(far.read_exact(&mut [0; 5])).await.unwrap();
            change_address(&here);
        }
        assert_eq!(peers, ["10.9.9.1", "10.9.9.3"]);
    });
}

#[cfg(feature = "quic")]
#[test]
fn a_quic_connection_goes_on_from_the_address_that_its_machine_has_now() {
    use tack_net::quic::{Config, Endpoint, Listen};
    use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};

    let Some((here, there)) = two_machines() else { return };
    run_on(&here, || async {
        let identity = ServerIdentity::generate(&["localhost"]).unwrap();
        let tls = Acceptor::new(&identity).unwrap().for_quic(&[b"test"]);
        let server = Endpoint::builder().listen(Listen::new(tls, Config::default()));
        let server = server.from_std(socket_in(&there, SERVER)).unwrap();
        let client = Endpoint::client("0.0.0.0:0".parse().unwrap()).unwrap();
        let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint())).unwrap();
        let connecting = client.connect(SERVER, &connector, &[b"test"], Config::default());
        let near = soon(connecting).await.unwrap();
        let far = soon(server.accept()).await.unwrap();
        let mut send = near.open_uni().await.unwrap();
        send.write_all(b"hello").await.unwrap();
        let mut recv = soon(far.accept_uni()).await.unwrap();
        soon(recv.read_exact(&mut [0; 5])).await.unwrap();
        assert_eq!(far.remote_address().ip().to_string(), "10.9.9.1");
        change_address(&here);
        send.write_all(b"again").await.unwrap();
        soon(recv.read_exact(&mut [0; 5])).await.unwrap();
        assert_eq!(far.remote_address().ip().to_string(), "10.9.9.3");
    });
}
