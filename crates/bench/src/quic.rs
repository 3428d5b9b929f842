//! quinn's ends, as quinn's own bulk transfer does it: one unidirectional stream, shared chunks.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{RootCertStore, version};
use tack_device::Clock;

use crate::contestant::{Share, WRITE_BYTES};

fn certificate(keys: &Path) -> Result<CertificateDer<'static>> {
    Ok(CertificateDer::from_pem_slice(&fs::read(keys.join("cert.pem"))?)?)
}

/// What clients ask for: attackers of a siege, which speak ours, among them.
const PROTOCOL: &[u8] = b"tack";

pub(crate) fn server_config(keys: &Path) -> Result<ServerConfig> {
    let key = PrivateKeyDer::from_pem_slice(&fs::read(keys.join("key.pem"))?)?;
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate(keys)?], key)?;
    // As quinn has it where it makes the configuration itself.
    tls.max_early_data_size = u32::MAX;
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?)))
}

pub(crate) fn client_config(keys: &Path) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate(keys)?)?;
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)))
}

pub(crate) async fn serve(local: SocketAddr, keys: &Path) -> Result<Share> {
    let endpoint = Endpoint::server(server_config(keys)?, local)?;
    println!("{}", endpoint.local_addr()?);
    let connection = endpoint.accept().await.context("the endpoint ended")?.await?;
    let mut stream = connection.accept_uni().await?;
    let clock = Clock::start();
    let (mut bytes, mut first) = (0, None);
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        first.get_or_insert_with(|| clock.now());
        bytes += chunk.bytes.len() as u64;
    }
    let elapsed = clock.now() - first.context("nothing came")?;
    let stats = connection.stats();
    let note = format!("{} datagrams received", stats.udp_rx.datagrams);
    let share = Share::new(bytes, elapsed, note);
    connection.close(0u32.into(), b"all read");
    endpoint.wait_idle().await;
    Ok(share)
}

pub(crate) async fn send(peer: SocketAddr, keys: &Path, duration: Duration) -> Result<Share> {
    let local = match peer {
        SocketAddr::V4(_) => "0.0.0.0:0".parse()?,
        SocketAddr::V6(_) => "[::]:0".parse()?,
    };
    let mut endpoint = Endpoint::client(local)?;
    endpoint.set_default_client_config(client_config(keys)?);
    let connection = endpoint.connect(peer, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    let clock = Clock::start();
    let start = clock.now();
    let data = Bytes::from(vec![0x5a; WRITE_BYTES]);
    let mut bytes = 0;
    while clock.now() < start + duration {
        stream.write_chunk(data.clone()).await?;
        bytes += data.len() as u64;
    }
    stream.finish()?;
    connection.closed().await;
    let stats = connection.stats();
    let note = format!(
        "{} datagrams sent in {} calls, {} ACK frames received, {} lost, rtt {:?}, mtu {}",
        stats.udp_tx.datagrams,
        stats.udp_tx.ios,
        stats.frame_rx.acks,
        stats.path.lost_packets,
        stats.path.rtt,
        stats.path.current_mtu,
    );
    Ok(Share::new(bytes, clock.now() - start, note))
}
