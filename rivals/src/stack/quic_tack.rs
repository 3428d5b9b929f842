//! QUIC with TACK in it, by `tack-net`.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Result, anyhow};
use tack_net::quic::{Config, Connection, Endpoint, Listen, QuicStream};
use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};

use super::{MAX_CONNECTIONS, WINDOW_BYTES, any, tack};
use crate::Settings;
use crate::keys::{CERTIFICATE, KEY, NAME};
use crate::stream::Stream;

/// For stacks that want one to be named.
pub(super) const PROTOCOL: &[u8] = b"versus";

pub(crate) struct Client {
    endpoint: Endpoint,
    connector: Connector,
}

fn identity() -> Result<ServerIdentity> {
    Ok(ServerIdentity::from_pem_files(Path::new(CERTIFICATE), Path::new(KEY))?)
}

fn config() -> Config {
    Config {
        max_window: WINDOW_BYTES.into(),
        max_connection_window: WINDOW_BYTES.into(),
        send_buffer: WINDOW_BYTES as usize,
        ..Config::default()
    }
}

pub(super) fn serve(settings: &Settings) -> Result<Endpoint> {
    let tls = Acceptor::new(&identity()?)?.for_quic(&[PROTOCOL]);
    let mut listen = Listen::new(tls, config());
    listen.max_connections = MAX_CONNECTIONS;
    listen.max_handshakes = MAX_CONNECTIONS;
    listen.max_waiting = MAX_CONNECTIONS;
    let endpoint = Endpoint::builder().socket(tack::socket()).listen(listen);
    Ok(endpoint.bind(any(settings.port))?)
}

pub(super) async fn accept(endpoint: &Endpoint) -> Result<Connection> {
    endpoint.accept().await.ok_or_else(|| anyhow!("the endpoint ended"))
}

pub(super) async fn stream(connection: Connection) -> Result<Stream> {
    Ok(Stream::plain(QuicStream::accept(connection).await?))
}

impl Client {
    pub(crate) fn new() -> Result<Client> {
        let trust = ClientTrust::Pinned(identity()?.fingerprint());
        let endpoint = Endpoint::builder().socket(tack::socket()).bind(any(0))?;
        Ok(Client { endpoint, connector: Connector::new(trust)? })
    }

    pub(crate) async fn connect(&self, peer: SocketAddr) -> Result<Stream> {
        let met = self.endpoint.meet(peer, NAME, &self.connector, &[PROTOCOL], config()).await?;
        Ok(Stream::plain(QuicStream::open(met.0).await?))
    }
}
