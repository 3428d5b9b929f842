//! quinn at the other end.

use std::sync::Arc;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tack_net::quic::{Config, Connection, Endpoint, Listen};
use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};

use super::{PROTOCOL, bytes, echo, echoed, loopback, soon};

/// A key and a certificate for `localhost`, as quinn and we want them.
pub(super) fn identity() -> (ServerIdentity, CertificateDer<'static>, PrivateKeyDer<'static>) {
    let key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned()];
    let certificate = rcgen::CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let (pem, key_pem) = (certificate.pem(), key.serialize_pem());
    let ours = ServerIdentity::from_pem(pem.as_bytes(), key_pem.as_bytes()).unwrap();
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    (ours, certificate, PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).unwrap())
}

pub(super) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A client's TLS that trusts this certificate.
pub(super) fn trusting(certificate: CertificateDer<'static>) -> rustls::ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    tls
}

#[tokio::test]
async fn a_quinn_client_is_served() {
    let (identity, certificate, _) = identity();
    let tls = Acceptor::new(&identity).unwrap().for_quic(&[PROTOCOL]);
    let server = Endpoint::server(loopback(), Listen::new(tls, Config::default())).unwrap();
    let tls = trusting(certificate);
    let config = quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let client = quinn::Endpoint::client(loopback()).unwrap();
    let connecting = client.connect_with(config, server.local_addr(), "localhost").unwrap();
    let (theirs, ours) = tokio::join!(soon(connecting), soon(server.accept()));
    let (theirs, ours) = (theirs.unwrap(), ours.unwrap());
    assert!(!ours.info().is_tack);
    tokio::spawn(echo(ours.clone()));
    for len in [0, 1, 1_000, 5_000_000] {
        let (mut send, mut recv) = theirs.open_bi().await.unwrap();
        let data = bytes(len);
        let sent = data.clone();
        let writing = tokio::spawn(async move {
            send.write_all(&sent).await.unwrap();
            send.finish().unwrap();
            send.stopped().await.unwrap();
        });
        assert!(soon(recv.read_to_end(usize::MAX)).await.unwrap() == data);
        soon(writing).await.unwrap();
    }
    theirs.send_datagram(vec![7; 900].into()).unwrap();
    assert_eq!(soon(ours.read_datagram()).await.unwrap(), [7; 900]);
    ours.send_datagram(&[8; 900]).unwrap();
    assert_eq!(soon(theirs.read_datagram()).await.unwrap().to_vec(), [8; 900]);
    theirs.close(3u32.into(), b"thanks");
    let reason = b"thanks".to_vec();
    let closed = tack_net::quic::ConnectionError::ClosedByApplication { code: 3, reason };
    assert_eq!(soon(ours.closed()).await, closed);
}

async fn to_quinn(config: Config) -> (Connection, quinn::Connection) {
    let (identity, certificate, key) = identity();
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let tls = QuicServerConfig::try_from(tls).unwrap();
    let serving = quinn::ServerConfig::with_crypto(Arc::new(tls));
    let server = quinn::Endpoint::server(serving, loopback()).unwrap();
    let connector = Connector::new(ClientTrust::Pinned(identity.fingerprint())).unwrap();
    let client = Endpoint::client(loopback()).unwrap();
    let host = format!("localhost:{}", server.local_addr().unwrap().port());
    let connecting = client.connect(&host, &connector, &[PROTOCOL], config);
    let accepting = async { server.accept().await.unwrap().await };
    let (ours, theirs) = tokio::join!(soon(connecting), soon(accepting));
    (ours.unwrap(), theirs.unwrap())
}

#[tokio::test]
async fn a_quinn_server_serves_us() {
    let (ours, theirs) = to_quinn(Config::default()).await;
    let echoing = theirs.clone();
    tokio::spawn(async move {
        while let Ok((mut send, mut recv)) = echoing.accept_bi().await {
            tokio::spawn(async move {
                if tokio::io::copy(&mut recv, &mut send).await.is_ok() {
                    let _ = send.finish();
                }
            });
        }
    });
    for len in [0, 1, 1_000, 5_000_000] {
        assert!(soon(echoed(&ours, bytes(len))).await == bytes(len));
    }
    assert!(!ours.info().is_tack);
    ours.close(4, b"bye");
    let quinn::ConnectionError::ApplicationClosed(closed) = soon(theirs.closed()).await else {
        panic!("{:?}", theirs.close_reason());
    };
    assert_eq!((closed.error_code.into_inner(), &closed.reason[..]), (4, &b"bye"[..]));
}

#[tokio::test]
async fn a_quinn_that_resets_and_stops_is_understood() {
    let (ours, theirs) = to_quinn(Config::default()).await;
    let (mut send, mut recv) = theirs.open_bi().await.unwrap();
    send.write_all(b"half").await.unwrap();
    let (mut our_send, mut our_recv) = soon(ours.accept_bi()).await.unwrap();
    send.reset(11u32.into()).unwrap();
    recv.stop(12u32.into()).unwrap();
    let mut got = Vec::new();
    let error = soon(tokio::io::AsyncReadExt::read_to_end(&mut our_recv, &mut got)).await;
    assert!(error.unwrap_err().to_string().contains("code 11"));
    let written = soon(async {
        loop {
            let write = tokio::io::AsyncWriteExt::write_all(&mut our_send, &[1; 10_000]);
            if let Err(error) = write.await {
                break error;
            }
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(written.await.kind(), std::io::ErrorKind::BrokenPipe);
}
