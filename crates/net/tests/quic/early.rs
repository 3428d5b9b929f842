//! What is said before the handshake is done (0-RTT), among ours and with quinn.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::pki_types::{CertificateDer, ServerName};
use tack_net::quic::{Config, Connection, Early, Endpoint, Listen};
use tack_net::tls::{Acceptor, ServerIdentity};

use super::stock::{identity, provider, trusting};
use super::{PROTOCOL, bytes, echo, echoed, loopback, soon};

fn name() -> ServerName<'static> {
    "localhost".try_into().unwrap()
}

/// A client's TLS that remembers servers.
fn remembering(certificate: CertificateDer<'static>) -> Arc<rustls::ClientConfig> {
    let mut tls = trusting(certificate);
    tls.enable_early_data = true;
    Arc::new(tls)
}

/// A server of ours that echoes, whatever was said early too.
fn serve(identity: &ServerIdentity, max_early_data: u64) -> Endpoint {
    let tls = Acceptor::new(identity).unwrap().for_quic(&[PROTOCOL]);
    let config = Config { max_early_data, ..Config::default() };
    let server = Endpoint::server(loopback(), Listen::new(tls, config)).unwrap();
    let accepting = server.clone();
    tokio::spawn(async move {
        while let Some(connection) = accepting.accept().await {
            tokio::spawn(echo(connection));
        }
    });
    server
}

/// Says something and hears it back, from the first moment on.
async fn converse(client: &Endpoint, server: &Endpoint, tls: &Arc<rustls::ClientConfig>) -> Early {
    let at = server.local_addr();
    let connection = client.connect_early(at, name(), tls.clone(), Config::default()).unwrap();
    assert!(matches!(connection.early(), Early::None | Early::Open));
    assert!(soon(echoed(&connection, bytes(40_000))).await == bytes(40_000));
    soon(connection.established()).await.unwrap();
    let early = connection.early();
    connection.close(0, b"");
    early
}

#[tokio::test]
async fn a_client_that_was_there_before_speaks_before_the_handshake_is_done() {
    let (identity, certificate, _) = identity();
    let server = serve(&identity, 100_000);
    let (client, tls) = (Endpoint::client(loopback()).unwrap(), remembering(certificate));
    assert_eq!(converse(&client, &server, &tls).await, Early::None, "it has not met it");
    for _ in 0..3 {
        assert_eq!(converse(&client, &server, &tls).await, Early::Accepted);
    }
}

#[tokio::test]
async fn what_a_server_that_was_started_anew_does_not_take_early_arrives_all_the_same() {
    let (identity, certificate, _) = identity();
    let server = serve(&identity, 100_000);
    let (client, tls) = (Endpoint::client(loopback()).unwrap(), remembering(certificate));
    assert_eq!(converse(&client, &server, &tls).await, Early::None);
    for max_early_data in [100_000, 0] {
        let anew = serve(&identity, max_early_data);
        let early = converse(&client, &anew, &tls).await;
        assert_eq!(early, Early::Rejected, "{max_early_data}");
        converse(&client, &server, &tls).await;
    }
}

#[tokio::test]
async fn a_stream_that_waits_for_an_unknown_server_is_opened_when_the_handshake_is_done() {
    let (identity, certificate, _) = identity();
    let server = serve(&identity, 0);
    let (client, tls) = (Endpoint::client(loopback()).unwrap(), remembering(certificate));
    for _ in 0..2 {
        assert_eq!(converse(&client, &server, &tls).await, Early::None, "it takes none, ever");
    }
}

#[tokio::test]
async fn a_quinn_server_takes_what_is_said_early() {
    let (_, certificate, key) = identity();
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    tls.max_early_data_size = u32::MAX;
    let config = QuicServerConfig::try_from(tls).unwrap();
    let config = quinn::ServerConfig::with_crypto(Arc::new(config));
    let server = quinn::Endpoint::server(config, loopback()).unwrap();
    let at = server.local_addr().unwrap();
    tokio::spawn(async move {
        while let Some(incoming) = server.accept().await {
            let (connection, _) = incoming.accept().unwrap().into_0rtt().ok().unwrap();
            tokio::spawn(async move {
                while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                    if tokio::io::copy(&mut recv, &mut send).await.is_ok() {
                        let _ = send.finish();
                    }
                }
            });
        }
    });
    let (client, tls) = (Endpoint::client(loopback()).unwrap(), remembering(certificate));
    for expected in [Early::None, Early::Accepted, Early::Accepted] {
        let connection: Connection =
            client.connect_early(at, name(), tls.clone(), Config::default()).unwrap();
        assert!(soon(echoed(&connection, bytes(40_000))).await == bytes(40_000));
        soon(connection.established()).await.unwrap();
        assert_eq!(connection.early(), expected);
    }
}

#[tokio::test]
async fn a_quinn_client_is_heard_early() {
    let (identity, certificate, _) = identity();
    let server = serve(&identity, 100_000);
    let tls = remembering(certificate);
    let client = quinn::Endpoint::client(loopback()).unwrap();
    for again in [false, true, true] {
        let config = QuicClientConfig::try_from(tls.clone()).unwrap();
        let config = quinn::ClientConfig::new(Arc::new(config));
        let connecting = client.connect_with(config, server.local_addr(), "localhost").unwrap();
        let connection = match connecting.into_0rtt() {
            Ok((connection, accepted)) => {
                let (mut send, mut recv) = connection.open_bi().await.unwrap();
                send.write_all(&bytes(5_000)).await.unwrap();
                send.finish().unwrap();
                assert!(again && soon(accepted).await);
                assert!(soon(recv.read_to_end(usize::MAX)).await.unwrap() == bytes(5_000));
                connection
            }
            Err(connecting) => {
                assert!(!again);
                soon(connecting).await.unwrap()
            }
        };
        let (mut send, mut recv) = connection.open_bi().await.unwrap();
        send.write_all(b"more").await.unwrap();
        send.finish().unwrap();
        assert_eq!(soon(recv.read_to_end(usize::MAX)).await.unwrap(), b"more");
        connection.close(0u32.into(), b"");
    }
}
