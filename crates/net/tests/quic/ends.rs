//! How streams and connections end.

use std::io::ErrorKind;
use std::time::Duration;

use tack_net::ConnectError;
use tack_net::quic::{Config, ConnectionError, Endpoint, QuicStream};
use tack_net::tls::{ClientTrust, Connector, ServerIdentity, TlsError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{PROTOCOL, Server, bytes, echo, echoed, loopback, pair, soon};

#[tokio::test]
async fn a_direction_ends_while_the_other_goes_on() {
    let (near, far) = pair().await;
    let (mut near_w, mut near_r) = near.open_bi().await.unwrap();
    near_w.write_all(b"question").await.unwrap();
    near_w.shutdown().await.unwrap();
    assert_eq!(near_w.write(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    let (mut far_w, mut far_r) = soon(far.accept_bi()).await.unwrap();
    let mut got = String::new();
    soon(far_r.read_to_string(&mut got)).await.unwrap();
    assert_eq!(got, "question");
    far_w.write_all(&bytes(100_000)).await.unwrap();
    far_w.shutdown().await.unwrap();
    let mut answer = Vec::new();
    soon(near_r.read_to_end(&mut answer)).await.unwrap();
    assert!(answer == bytes(100_000));
    soon(near_w.finished()).await.unwrap();
    soon(far_w.finished()).await.unwrap();
}

#[tokio::test]
async fn a_reset_is_read_and_a_stop_is_written_and_both_say_why() {
    let (near, far) = pair().await;
    let mut reset = near.open_uni().await.unwrap();
    reset.write_all(&[7; 10]).await.unwrap();
    let mut reset_r = soon(far.accept_uni()).await.unwrap();
    reset.reset(5);
    for _ in 0..2 {
        // However often it is asked: there is no end that could be taken for the whole.
        let error = soon(reset_r.read_to_end(&mut Vec::new())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        assert!(error.to_string().contains("code 5"), "{error}");
    }

    let mut stopped = near.open_uni().await.unwrap();
    stopped.write_all(&[7; 10]).await.unwrap();
    let mut stopped_r = soon(far.accept_uni()).await.unwrap();
    stopped_r.stop(6);
    let error = soon(async {
        loop {
            if let Err(error) = stopped.write_all(&[7; 10_000]).await {
                break error;
            }
            tokio::task::yield_now().await;
        }
    });
    let error = error.await;
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn a_stream_that_was_reset_is_done_with_once_the_peer_knows() {
    let (near, _far) = pair().await;
    let mut send = near.open_uni().await.unwrap();
    send.write_all(&[7; 10]).await.unwrap();
    send.reset(5);
    soon(send.finished()).await.unwrap();
}

#[tokio::test]
async fn whoever_asks_late_whether_all_has_arrived_hears_that_the_peer_wanted_no_more() {
    let (near, far) = pair().await;
    let mut send = near.open_uni().await.unwrap();
    // More than the peer's window, so that its end cannot be there.
    let writes = async {
        let _ = send.write_all(&bytes(4 << 20)).await;
        send
    };
    let (send, mut recv) = tokio::join!(writes, async {
        let mut recv = soon(far.accept_uni()).await.unwrap();
        recv.read_exact(&mut [0; 1_000]).await.unwrap();
        recv.stop(6);
        recv
    });
    // The peer knows of the reset when another stream is answered.
    let mut later = near.open_uni().await.unwrap();
    later.shutdown().await.unwrap();
    soon(later.finished()).await.unwrap();
    let error = soon(send.finished()).await.unwrap_err();
    assert!(error.to_string().contains("code 6"), "{error}");
    assert_eq!(recv.read(&mut [0; 9]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_close_is_heard_with_its_code_and_what_came_before_is_read() {
    let (near, far) = pair().await;
    let mut send = near.open_uni().await.unwrap();
    send.write_all(b"last words").await.unwrap();
    send.shutdown().await.unwrap();
    soon(send.finished()).await.unwrap();
    near.close(7, b"enough");
    let (code, reason) = (7, b"enough".to_vec());
    let closed = ConnectionError::ClosedByApplication { code, reason };
    assert_eq!(soon(far.closed()).await, closed);
    assert_eq!(near.close_reason(), Some(ConnectionError::Closed));
    let mut recv = soon(far.accept_uni()).await.unwrap();
    let mut got = String::new();
    soon(recv.read_to_string(&mut got)).await.unwrap();
    assert_eq!(got, "last words");
    assert_eq!(soon(far.accept_uni()).await.unwrap_err().kind(), ErrorKind::ConnectionAborted);
    assert_eq!(near.open_bi().await.unwrap_err().kind(), ErrorKind::NotConnected);
}

#[tokio::test]
async fn dropping_the_last_handle_closes_and_the_endpoint_is_idle_then() {
    let server = Server::new(Config::default());
    let (near, far) = server.pair().await;
    let stream = near.open_bi().await.unwrap();
    drop(near);
    assert_eq!(far.close_reason(), None, "a stream keeps the connection");
    drop(stream);
    let ConnectionError::ClosedByApplication { code: 0, .. } = soon(far.closed()).await else {
        panic!("{:?}", far.close_reason());
    };
    drop(far);
    soon(server.endpoint.wait_idle()).await;
}

#[tokio::test]
async fn closing_an_endpoint_ends_its_connections_and_who_waits_for_more() {
    let server = Server::new(Config::default());
    let (near, _far) = server.pair().await;
    let accepting = tokio::spawn({
        let endpoint = server.endpoint.clone();
        async move { endpoint.accept().await.is_none() }
    });
    tokio::task::yield_now().await;
    server.endpoint.close(9, b"");
    assert!(soon(accepting).await.unwrap());
    let closed = ConnectionError::ClosedByApplication { code: 9, reason: Vec::new() };
    assert_eq!(soon(near.closed()).await, closed);
    soon(server.endpoint.wait_idle()).await;
}

#[tokio::test]
async fn a_wrong_pin_ends_the_handshake_and_says_which_key_it_found() {
    let server = Server::new(Config::default());
    let other = ServerIdentity::generate(&["localhost"]).unwrap();
    let wary = Connector::new(ClientTrust::Pinned(other.fingerprint())).unwrap();
    let client = Endpoint::client(loopback()).unwrap();
    let connecting = client.connect(&server.host, &wary, &[PROTOCOL], Config::default());
    let refused = soon(connecting).await.unwrap_err();
    let ConnectError::Tls(TlsError::PinMismatch { .. }) = refused else {
        panic!("{refused}");
    };
}

#[tokio::test]
async fn a_protocol_that_the_server_does_not_speak_is_refused() {
    let server = Server::new(Config::default());
    let client = Endpoint::client(loopback()).unwrap();
    let connecting =
        client.connect(&server.host, &server.connector, &[b"other"], Config::default());
    let refused = soon(connecting).await.unwrap_err();
    let ConnectError::Tls(TlsError::Refused(reason)) = refused else { panic!("{refused}") };
    assert_eq!(reason, tack_net::tls::AlertDescription::NoApplicationProtocol);
}

#[tokio::test]
async fn a_certificate_of_nobody_s_authority_is_told_as_over_a_stream() {
    let server = Server::new(Config::default());
    let other = rcgen::generate_simple_self_signed(["other.test".to_owned()]).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(other.cert.der().clone()).unwrap();
    let wary = Connector::new(ClientTrust::Authorities(roots.into())).unwrap();
    let client = Endpoint::client(loopback()).unwrap();
    let connecting = client.connect(&server.host, &wary, &[PROTOCOL], Config::default());
    let refused = soon(connecting).await.unwrap_err();
    let ConnectError::Tls(TlsError::Protocol(_)) = refused else { panic!("{refused:?}") };
}

#[tokio::test]
async fn a_stream_ends_its_connection_when_what_was_written_has_arrived() {
    let Server { host, connector, endpoint, .. } = Server::new(Config::default());
    let listener = tack_net::quic::Listener::new(endpoint);
    let client = Endpoint::client(loopback()).unwrap();
    let connecting = client.connect(&host, &connector, &[PROTOCOL], Config::default());
    let connection = soon(connecting).await.unwrap();
    let mut near = soon(QuicStream::open(connection)).await.unwrap();
    near.write_all(&[7; 60_000]).await.unwrap();
    let (mut far, peer) = soon(listener.accept()).await.unwrap();
    assert_eq!(peer.port(), near.local_addr().port());
    // Dropped, it still delivers; the other side answers into the void, and knows that all was read.
    drop(near);
    let mut got = Vec::new();
    soon(far.read_to_end(&mut got)).await.unwrap();
    assert_eq!(got, [7; 60_000]);
    far.shutdown().await.unwrap_or(());
    soon(far.finished()).await.unwrap();
}

#[tokio::test]
async fn a_stream_that_is_given_up_is_heard_of_at_the_other_end() {
    let Server { host, connector, endpoint, .. } = Server::new(Config::default());
    let listener = tack_net::quic::Listener::new(endpoint);
    let client = Endpoint::client(loopback()).unwrap();
    let connecting = client.connect(&host, &connector, &[PROTOCOL], Config::default());
    let connection = soon(connecting).await.unwrap();
    let mut near = soon(QuicStream::open(connection)).await.unwrap();
    near.write_all(b"a word").await.unwrap();
    let (mut far, _) = soon(listener.accept()).await.unwrap();
    let mut word = [0; 6];
    soon(far.read_exact(&mut word)).await.unwrap();
    near.abort();
    let ended = soon(far.read(&mut word)).await.unwrap_err();
    assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionAborted);
    assert!(soon(far.finished()).await.is_err());
}

#[tokio::test]
async fn nobody_at_the_port_is_known_at_once() {
    #[allow(clippy::disallowed_methods, reason = "a port where nobody listens any more")]
    let port = std::net::UdpSocket::bind(loopback()).unwrap().local_addr().unwrap();
    let identity = ServerIdentity::generate(&["localhost"]).unwrap();
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint())).unwrap();
    let client = Endpoint::client(loopback()).unwrap();
    let host = port.to_string();
    let connecting = client.connect(&host, &connector, &[PROTOCOL], Config::default());
    let refused = soon(connecting).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Failed(_)), "{refused}");
}

#[tokio::test]
async fn a_waiter_that_is_given_up_leaves_the_others_waiting() {
    let (near, far) = pair().await;
    let waiting = tokio::spawn({
        let near = near.clone();
        async move { near.closed().await }
    });
    {
        let given_up = near.closed();
        tokio::select! {
            biased;
            _ = given_up => panic!("it is open"),
            () = tokio::task::yield_now() => {}
        }
    }
    far.close(1, b"");
    assert!(matches!(
        soon(waiting).await.unwrap(),
        ConnectionError::ClosedByApplication { code: 1, .. }
    ));
    // And a connection that has ended needs no patience.
    assert!(soon(near.open_bi()).await.is_err());
}

#[tokio::test]
async fn a_connection_that_one_task_uses_goes_on_after_another_left() {
    let (near, far) = pair().await;
    tokio::spawn(echo(far));
    let first = near.clone();
    assert_eq!(soon(echoed(&first, bytes(1_000))).await, bytes(1_000));
    drop(first);
    assert_eq!(soon(echoed(&near, bytes(1_000))).await, bytes(1_000));
}

#[test]
fn what_another_runtime_waits_for_ends_with_that_of_the_endpoint() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (theirs, other) = (runtime(), runtime());
    let ((near, far), server) = theirs.block_on(async {
        let server = Server::new(Config::default());
        (server.pair().await, server)
    });
    let waiting = other.spawn(async move {
        tokio::join!(soon(near.accept_bi()), soon(far.closed()), soon(server.endpoint.accept()))
    });
    other.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    drop(theirs);
    let (opened, _, accepted) = other.block_on(waiting).unwrap();
    assert!(opened.is_err() && accepted.is_none());
}
