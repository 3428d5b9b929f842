//! TACK over UDP with TLS, by `tack-net`.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use tack_net::tls::{Acceptor, ClientTrust, Connector, ServerIdentity};
use tack_net::{ConnConfig, Endpoint, SocketConfig, TackListener, TackStream};

use super::{RECV_BUFFER_BYTES, SEND_BUFFER_BYTES, WINDOW_BYTES, any};
use crate::Settings;
use crate::keys::{CERTIFICATE, KEY, NAME};
use crate::stream::Stream;

pub(crate) struct Server {
    listener: TackListener,
    acceptor: Acceptor,
    _endpoint: Endpoint,
}

pub(crate) struct Incoming {
    stream: TackStream,
    acceptor: Acceptor,
}

pub(crate) struct Client {
    endpoint: Endpoint,
    connector: Connector,
}

fn identity() -> Result<ServerIdentity> {
    Ok(ServerIdentity::from_pem_files(Path::new(CERTIFICATE), Path::new(KEY))?)
}

/// Sockets with the buffers that all have.
pub(super) fn socket() -> SocketConfig {
    SocketConfig::default().with(|it| {
        it.recv_buffer_bytes = RECV_BUFFER_BYTES;
        it.send_buffer_bytes = SEND_BUFFER_BYTES;
    })
}

fn endpoint(port: u16) -> Result<Endpoint> {
    let conn = ConnConfig::default().with(|it| {
        it.send_buffer = WINDOW_BYTES as usize;
        it.recv_buffer = WINDOW_BYTES as usize;
    });
    Ok(Endpoint::builder().socket(socket()).conn(conn).bind(any(port))?)
}

impl Server {
    pub(crate) fn bind(settings: &Settings) -> Result<Server> {
        let endpoint = endpoint(settings.port)?;
        let listener = endpoint.listen_plain()?;
        Ok(Server { listener, acceptor: Acceptor::new(&identity()?)?, _endpoint: endpoint })
    }

    pub(crate) async fn accept(&self) -> Result<Incoming> {
        let (stream, _peer) = self.listener.accept().await?;
        Ok(Incoming { stream, acceptor: self.acceptor.clone() })
    }
}

impl Incoming {
    pub(crate) async fn stream(self) -> Result<Stream> {
        Ok(Stream::plain(self.acceptor.accept(self.stream).await?))
    }
}

impl Client {
    pub(crate) fn new() -> Result<Client> {
        let trust = ClientTrust::Pinned(identity()?.fingerprint());
        let endpoint = endpoint(0)?;
        Ok(Client { endpoint, connector: Connector::new(trust)? })
    }

    pub(crate) async fn connect(&self, peer: SocketAddr) -> Result<Stream> {
        let stream = self.endpoint.connect_plain(peer).await?;
        Ok(Stream::plain(self.connector.connect(NAME, stream).await?))
    }
}
