//! Encrypted streams on loopback: who is believed, who is let in, who holds up whom.
#![cfg(feature = "tls")]

use std::net::SocketAddr;
use std::time::Duration;

use tack_net::tls::{
    Acceptor, AlertDescription, ClientTrust, Connector, KnownHosts, ServerIdentity, TlsError,
};
use tack_net::{
    ConnectError, Endpoint, HandshakeLimits, HostError, SecureListener, SecureStream, TackStream,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 255 + i / 65_537) as u8).collect()
}

/// Fails rather than hangs.
async fn soon<F: Future>(f: F) -> F::Output {
    timeout(Duration::from_secs(20), f).await.expect("took too long")
}

/// A listener, who it is, and its host as a client writes it.
fn server() -> (SecureListener, ServerIdentity, String) {
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let listener = SecureListener::bind(loopback(), Acceptor::new(&identity).unwrap()).unwrap();
    let host = format!("localhost:{}", listener.local_addr().port());
    (listener, identity, host)
}

fn pinned(identity: &ServerIdentity) -> Connector {
    Connector::new(ClientTrust::Pinned(identity.fingerprint())).unwrap()
}

async fn pair() -> (SecureStream, SecureStream) {
    let (listener, identity, host) = server();
    let connector = pinned(&identity);
    let (near, far) =
        tokio::join!(soon(SecureStream::connect(&host, &connector)), soon(listener.accept()));
    (near.unwrap(), far.unwrap().0)
}

#[tokio::test]
async fn bulk_goes_both_ways_at_once() {
    let (near, far) = pair().await;
    let (mut near_r, mut near_w) = tokio::io::split(near);
    let (mut far_r, mut far_w) = tokio::io::split(far);
    let data = bytes(2_000_000);
    let (up, down) = (data.clone(), data.clone());
    let send = async {
        tokio::join!(
            async { (near_w.write_all(&up).await.unwrap(), near_w.shutdown().await.unwrap()) },
            async { (far_w.write_all(&down).await.unwrap(), far_w.shutdown().await.unwrap()) },
        )
    };
    let (mut at_near, mut at_far) = (Vec::new(), Vec::new());
    let receive = async {
        let (a, b) = tokio::join!(near_r.read_to_end(&mut at_near), far_r.read_to_end(&mut at_far));
        (a.unwrap(), b.unwrap())
    };
    soon(async { tokio::join!(send, receive) }).await;
    assert!(at_near == data && at_far == data);
}

#[tokio::test]
async fn a_wrong_pin_stops_it_before_a_byte_and_the_server_learns_why() {
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let other = ServerIdentity::generate(&["localhost"]).unwrap();
    let endpoint = Endpoint::bind(loopback()).unwrap();
    let listener = endpoint.listen_plain().unwrap();
    let acceptor = Acceptor::new(&identity).unwrap();
    let (host, wary) = (endpoint.local_addr().to_string(), pinned(&other));
    let serving = async { acceptor.accept(listener.accept().await.unwrap().0).await };
    let (near, far) = tokio::join!(soon(SecureStream::connect(&host, &wary)), soon(serving));
    let near = near.unwrap_err();
    assert!(matches!(near, ConnectError::Tls(TlsError::PinMismatch { .. })), "{near}");
    let far = far.unwrap_err();
    assert!(matches!(far, TlsError::Refused(AlertDescription::AccessDenied)), "{far}");
}

#[tokio::test]
async fn a_host_that_was_never_met_is_told_and_not_connected_to() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = KnownHosts::new(dir.path().join("known_hosts"));
    let connector = Connector::new(ClientTrust::FirstUse(hosts)).unwrap();
    let (listener, identity, host) = server();
    let endpoint = Endpoint::bind(loopback()).unwrap();
    let (first, _) =
        tokio::join!(soon(endpoint.connect(&host, &connector)), soon(listener.accept()));
    let key = match first.unwrap_err() {
        ConnectError::Tls(TlsError::NotKnown { host: named, found }) if named == host => found,
        e => panic!("{e}"),
    };
    assert_eq!(key, identity.fingerprint());
    connector.remember(&host, key).unwrap();
    let (again, _) =
        tokio::join!(soon(endpoint.connect(&host, &connector)), soon(listener.accept()));
    assert_eq!(again.unwrap().peer_fingerprint(), Some(key));
}

#[tokio::test]
async fn a_stranger_who_is_silent_delays_nobody_and_more_of_his_are_turned_away() {
    let (listener, identity, host) = server();
    let listener = listener.limits(HandshakeLimits::default().with(|it| it.of_one_peer = 3));
    let at = listener.local_addr();
    let accepting = tokio::spawn(async move { (listener.accept().await.unwrap(), listener) });
    let mut silent = Vec::new();
    for _ in 0..2 {
        silent.push(soon(TackStream::connect_plain(at)).await.unwrap());
    }
    soon(SecureStream::connect(&host, &pinned(&identity))).await.unwrap();
    let (_, listener) = soon(accepting).await.unwrap();
    let accepting = tokio::spawn(async move { listener.accept().await.map(drop) });
    silent.push(soon(TackStream::connect_plain(at)).await.unwrap());
    let mut fourth = soon(TackStream::connect_plain(at)).await.unwrap();
    let turned_away = soon(fourth.read(&mut [0; 1])).await.unwrap_err();
    assert_eq!(turned_away.kind(), std::io::ErrorKind::ConnectionReset);
    let told = soon(SecureStream::connect(&host, &pinned(&identity))).await.unwrap_err();
    assert!(matches!(told, ConnectError::Tls(TlsError::Reset(_))), "{told:?}");
    assert_eq!(told.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(told.to_string().contains("too many of them at once from one address"), "{told}");
    accepting.abort();
}

#[tokio::test]
async fn who_fails_what_is_asked_after_the_handshake_is_not_accepted() {
    let (listener, identity, host) = server();
    let listener = listener.admitting(|mut stream| async move {
        match stream.read_u8().await? {
            b'y' => Ok(stream),
            _ => Err(TlsError::Io(std::io::ErrorKind::PermissionDenied.into())),
        }
    });
    let accepting = tokio::spawn(async move { listener.accept().await.unwrap().0.read_u8().await });
    for word in [*b"nA", *b"yB"] {
        let mut stream = soon(SecureStream::connect(&host, &pinned(&identity))).await.unwrap();
        stream.write_all(&word).await.unwrap();
        stream.flush().await.unwrap();
        if word[0] == b'n' {
            assert!(soon(stream.read_u8()).await.is_err());
        } else {
            assert_eq!(soon(accepting).await.unwrap().unwrap(), b'B');
            break;
        }
    }
}

#[tokio::test]
async fn a_host_needs_a_port() {
    let connector = pinned(&ServerIdentity::generate(&["localhost"]).unwrap());
    let error = SecureStream::connect("localhost", &connector).await.unwrap_err();
    assert!(matches!(error, ConnectError::Host(HostError::NoPort(_))), "{error}");
}

#[tokio::test]
async fn a_request_is_answered_after_its_end() {
    let (listener, identity, host) = server();
    let serving = tokio::spawn(async move {
        let (mut stream, _peer) = listener.accept().await.unwrap();
        let mut request = String::new();
        stream.read_to_string(&mut request).await.unwrap();
        stream.write_all(request.to_uppercase().as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        stream.get_ref().finished().await.unwrap();
    });
    let mut stream = SecureStream::connect(&host, &pinned(&identity)).await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    soon(stream.read_to_string(&mut answer)).await.unwrap();
    assert_eq!(answer, "HELLO");
    soon(serving).await.unwrap();
}

/// As of a plain stream: a server refuses an upload, says why and leaves.
#[tokio::test]
async fn what_came_before_a_reset_is_read_although_writing_failed() {
    let (mut near, mut far) = pair().await;
    soon(far.write_all(b"too long")).await.unwrap();
    soon(far.shutdown()).await.unwrap();
    let refused = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        drop(far);
    });
    let upload = bytes(64 << 10);
    while soon(near.write(&upload)).await.is_ok() {}
    refused.await.unwrap();
    let mut got = String::new();
    soon(near.read_to_string(&mut got)).await.unwrap();
    assert_eq!(got, "too long");
}
