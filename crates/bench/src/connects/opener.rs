//! Opens connections, whoever's they are.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rustix::net::sockopt::{
    set_socket_keepalive, set_socket_recv_buffer_size, set_socket_send_buffer_size,
    set_tcp_keepidle, set_tcp_keepintvl,
};
use tack_net::tls::{ClientTrust, Connector};
use tack_net::{ConnConfig, Endpoint, Keepalive, SocketConfig, quic};
use tokio::net::TcpStream;

use super::PATIENCE;
use super::stream::Stream;
use super::who::Who;
use crate::tack::{any, identity};

/// What a QUIC connection is for.
pub(super) const PROTOCOL: &[u8] = b"bench";

/// Opens connections to one server.
#[derive(Clone)]
pub(super) struct Opener {
    peer: SocketAddr,
    keepalive: Option<Duration>,
    means: Means,
}

#[derive(Clone)]
enum Means {
    Kernel(Option<Connector>),
    Tack(Endpoint, Option<Connector>),
    Quic(quic::Endpoint, Connector),
    Quinn(quinn::Endpoint),
}

impl Opener {
    pub(super) fn new(
        who: Who,
        peer: SocketAddr,
        keepalive: Option<Duration>,
        keys: &Path,
    ) -> Result<Opener> {
        let trust = ClientTrust::Pinned(identity(keys)?.fingerprint());
        let connector = Connector::new(trust)?.with_limit(PATIENCE);
        let from = SocketAddr::new(any(peer), 0);
        let tack = || {
            let probes = |every| Keepalive { idle: every, interval: every, probes: 9 };
            let conn = tack_config(who).with(|it| it.keepalive = keepalive.map(probes));
            Endpoint::builder().conn(conn).connect_timeout(Some(PATIENCE)).bind(from)
        };
        let means = match who {
            Who::KernelTls => Means::Kernel(Some(connector)),
            Who::Kernel | Who::Tunnel | Who::TunnelQuic => Means::Kernel(None),
            Who::Tack => Means::Tack(tack()?, Some(connector)),
            Who::TackClear | Who::PlainClear => Means::Tack(tack()?, None),
            Who::QuicTack => {
                let endpoint = quic::Endpoint::builder().connect_timeout(Some(PATIENCE));
                Means::Quic(endpoint.bind(from)?, connector)
            }
            Who::Quinn => {
                let mut endpoint = quinn_endpoint(from, None)?;
                let mut config = crate::quic::client_config(keys)?;
                let mut transport = quinn::TransportConfig::default();
                transport.max_idle_timeout(None).keep_alive_interval(keepalive);
                config.transport_config(Arc::new(transport));
                endpoint.set_default_client_config(config);
                Means::Quinn(endpoint)
            }
        };
        Ok(Opener { peer, keepalive, means })
    }

    pub(super) async fn open(&self) -> io::Result<Stream> {
        let peer = self.peer;
        match &self.means {
            Means::Kernel(tls) => {
                let stream = TcpStream::connect(peer).await?;
                stream.set_nodelay(true)?;
                if let Some(every) = self.keepalive {
                    set_socket_keepalive(&stream, true)?;
                    set_tcp_keepidle(&stream, every)?;
                    set_tcp_keepintvl(&stream, every)?;
                }
                secured(tls.as_ref(), stream).await
            }
            Means::Tack(endpoint, tls) => {
                secured(tls.as_ref(), endpoint.connect_plain(peer).await?).await
            }
            Means::Quic(endpoint, tls) => {
                let (host, config) = (peer.to_string(), quic_config(self.keepalive));
                let connecting = endpoint.connect(&host, tls, &[PROTOCOL], config);
                let connection = connecting.await.map_err(io::Error::other)?;
                Ok(Stream::of(quic::QuicStream::open(connection).await?))
            }
            Means::Quinn(endpoint) => {
                let connecting = endpoint.connect(peer, "localhost").map_err(io::Error::other)?;
                let connection = connecting.await?;
                let (send, recv) = connection.open_bi().await?;
                Ok(Stream::Quinn(connection, send, recv))
            }
        }
    }
}

async fn secured<S>(tls: Option<&Connector>, stream: S) -> io::Result<Stream>
where
    S: super::stream::Duplex + 'static,
{
    match tls {
        Some(tls) => Ok(Stream::of(tls.connect("localhost", stream).await?)),
        None => Ok(Stream::of(stream)),
    }
}

/// Of both ends, with the socket's buffers that ours asks for: with the system's own, handshakes that begin together
/// are lost.
#[expect(clippy::disallowed_methods, reason = "quinn takes a socket of the standard library")]
pub(super) fn quinn_endpoint(
    at: SocketAddr,
    server: Option<quinn::ServerConfig>,
) -> io::Result<quinn::Endpoint> {
    let socket = std::net::UdpSocket::bind(at)?;
    let ours = SocketConfig::default();
    set_socket_recv_buffer_size(&socket, ours.recv_buffer_bytes)?;
    set_socket_send_buffer_size(&socket, ours.send_buffer_bytes)?;
    let (config, runtime) = (quinn::EndpointConfig::default(), Arc::new(quinn::TokioRuntime));
    quinn::Endpoint::new(config, server, socket, runtime)
}

/// Of both ends.
pub(super) fn tack_config(who: Who) -> ConnConfig {
    if who == Who::PlainClear { ConnConfig::plain() } else { ConnConfig::default() }
}

/// Of both ends. Silence ends nothing.
pub(super) fn quic_config(keep_alive: Option<Duration>) -> quic::Config {
    quic::Config { keep_alive, idle_timeout: None, ..quic::Config::default() }
}
