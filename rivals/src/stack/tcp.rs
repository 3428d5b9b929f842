//! The kernel's TCP, with TLS by rustls or without. Its controller is the namespace's.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ServerConfig};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::any;
use crate::Settings;
use crate::keys::{NAME, certificate, key, roots};
use crate::stream::Stream;

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;

pub(crate) struct Server {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
}

pub(crate) struct Incoming {
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
}

pub(crate) struct Client {
    tls: Option<TlsConnector>,
}

impl Server {
    pub(crate) async fn bind(settings: &Settings, tls: bool) -> Result<Server> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(any(settings.port))?;
        let listener = socket.listen(BACKLOG)?;
        let config = || -> Result<TlsAcceptor> {
            let config = ServerConfig::builder().with_no_client_auth();
            let config = config.with_single_cert(vec![certificate()?], key()?)?;
            Ok(TlsAcceptor::from(Arc::new(config)))
        };
        Ok(Server { listener, tls: tls.then(config).transpose()? })
    }

    pub(crate) async fn accept(&self) -> Result<Incoming> {
        let (stream, _peer) = self.listener.accept().await?;
        Ok(Incoming { stream, tls: self.tls.clone() })
    }
}

impl Incoming {
    pub(crate) async fn stream(self) -> Result<Stream> {
        self.stream.set_nodelay(true)?;
        match self.tls {
            None => Ok(Stream::plain(self.stream)),
            Some(tls) => Ok(Stream::plain(tls.accept(self.stream).await?)),
        }
    }
}

impl Client {
    pub(crate) fn new(tls: bool) -> Result<Client> {
        let config = || -> Result<TlsConnector> {
            let config = ClientConfig::builder().with_root_certificates(roots()?);
            Ok(TlsConnector::from(Arc::new(config.with_no_client_auth())))
        };
        Ok(Client { tls: tls.then(config).transpose()? })
    }

    pub(crate) async fn connect(&self, peer: SocketAddr) -> Result<Stream> {
        let stream = TcpStream::connect(peer).await?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => Ok(Stream::plain(stream)),
            Some(tls) => Ok(Stream::plain(tls.connect(ServerName::try_from(NAME)?, stream).await?)),
        }
    }
}
