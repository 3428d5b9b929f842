//! Encrypted streams of an endpoint: connecting, and listening.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use tack_tcp::ListenConfig;

use crate::dial::{Reach, any_addr_like, resolve};
use crate::lobby::{HandshakeLimits, Lobby};
use crate::race::first_of;
use crate::tls::{Acceptor, Connector, TlsError, TlsStream};
use crate::{
    ConnectError, ConnectionError, Endpoint, HostPort, ListenError, TackListener, TackStream,
};

/// An encrypted stream over TACK.
pub type SecureStream = TlsStream<TackStream>;

impl Endpoint {
    /// Connects to the server called `host` (`example.org:9000`, `[fd00::1]:9000`), whose key or
    /// certificate `connector` believes. All addresses of a name are tried.
    ///
    /// A host that [`ClientTrust::FirstUse`](crate::tls::ClientTrust::FirstUse) never met is an
    /// error that tells its key: whoever has compared it [remembers](Connector::remember) it and
    /// connects again.
    ///
    /// Cancel safe: an attempt that is given up ends.
    ///
    /// # Errors
    /// Those of [`Endpoint::connect_plain`]; the server is not to be believed, or would not have us.
    pub async fn connect(
        &self,
        host: &str,
        connector: &Connector,
    ) -> Result<SecureStream, ConnectError> {
        let at: HostPort = host.parse()?;
        let stream = self.connect_plain((at.name.as_str(), at.port)).await;
        secure(stream, &at, connector).await
    }

    /// Listens for encrypted streams on the TCP port that equals the UDP port.
    ///
    /// # Errors
    /// Those of [`Endpoint::listen_plain`].
    pub fn listen(&self, acceptor: Acceptor) -> Result<SecureListener, ListenError> {
        Ok(SecureListener::new(self.listen_plain()?, acceptor))
    }

    /// As [`Endpoint::listen`], on another TCP port, or with a configuration of its own.
    ///
    /// # Errors
    /// Those of [`Endpoint::listen_plain_with`].
    pub fn listen_with(
        &self,
        port: u16,
        config: ListenConfig,
        acceptor: Acceptor,
    ) -> Result<SecureListener, ListenError> {
        Ok(SecureListener::new(self.listen_plain_with(port, config)?, acceptor))
    }
}

impl SecureStream {
    /// Connects from an endpoint of its own with defaults; see [`Endpoint::connect`].
    ///
    /// # Errors
    /// As there, or no socket.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn connect(host: &str, connector: &Connector) -> Result<SecureStream, ConnectError> {
        let at: HostPort = host.parse()?;
        let addresses = resolve((at.name.as_str(), at.port), Reach::ALL).await?;
        let stream = first_of(addresses, |peer| async move {
            Endpoint::bind(any_addr_like(peer))?.connect_plain(peer).await
        });
        secure(stream.await.map_err(ConnectError::from), &at, connector).await
    }
}

async fn secure(
    stream: Result<TackStream, ConnectError>,
    host: &HostPort,
    connector: &Connector,
) -> Result<SecureStream, ConnectError> {
    // Of a server that turned it away this may be heard as soon as that it answered.
    let turned_away = |e| TlsError::Reset(io::Error::new(io::ErrorKind::ConnectionReset, e));
    let stream = stream.map_err(|e| match e {
        ConnectError::Failed(reset @ ConnectionError::Reset) => turned_away(reset).into(),
        e => e,
    })?;
    let host = host.to_string();
    let stream = connector.connect(&host, stream).await?;
    if !stream.is_first_use() {
        return Ok(stream);
    }
    let found = stream.peer_fingerprint().ok_or(TlsError::NoCertificate)?;
    Err(TlsError::NotKnown { host, found }.into())
}

/// Listens for encrypted streams. Handshakes run beside each other, so that a stranger who is silent
/// delays nobody.
#[derive(Debug)]
pub struct SecureListener {
    listener: TackListener,
    acceptor: Acceptor,
    lobby: Lobby<SecureStream>,
}

impl SecureListener {
    /// An endpoint of its own on `local` with defaults, and a listener on its port.
    ///
    /// # Errors
    /// The address is taken or not ours.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn bind(local: SocketAddr, acceptor: Acceptor) -> Result<SecureListener, ListenError> {
        Endpoint::bind(local)?.listen(acceptor)
    }

    fn new(listener: TackListener, acceptor: Acceptor) -> SecureListener {
        SecureListener { listener, acceptor, lobby: Lobby::new() }
    }

    /// Other limits: by default 32 handshakes of one peer at once.
    #[must_use]
    pub fn limits(self, limits: HandshakeLimits) -> SecureListener {
        SecureListener { lobby: self.lobby.limits(limits), ..self }
    }

    /// What is said on each stream after the handshake and before it is accepted, beside the others
    /// and within the same limits: who the client is, say. A stream that it fails is let go of.
    #[must_use]
    pub fn admitting<F, R>(self, admit: F) -> SecureListener
    where
        F: Fn(SecureStream) -> R + Send + Sync + 'static,
        R: Future<Output = Result<SecureStream, TlsError>> + Send + 'static,
    {
        SecureListener { lobby: self.lobby.admitting(admit), ..self }
    }

    /// The socket's address, with the TCP port listened on.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// The next stream whose handshake succeeded, and where it comes from. Those that failed are
    /// forgotten, and said in the log.
    ///
    /// Cancel safe: a stream is taken only when it is returned. One task waits at a time; others
    /// wait for it.
    ///
    /// # Errors
    /// The endpoint was closed.
    pub async fn accept(&self) -> io::Result<(SecureStream, SocketAddr)> {
        let shake = |stream| {
            let acceptor = self.acceptor.clone();
            async move { acceptor.accept(stream).await }
        };
        self.lobby.next(|| self.listener.accept(), shake, TackStream::abort).await
    }

    /// Turns away who was not accepted yet.
    pub async fn close(self) {
        self.lobby.close().await;
    }
}
