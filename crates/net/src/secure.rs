//! Encrypted streams of an endpoint: connecting, and listening.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tack_tcp::ListenConfig;
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinSet};
use tokio::time::timeout;

use crate::budget::{Budget, Grant, Peer};
use crate::dial::{Reach, first_of, resolve};
use crate::endpoint::any_addr_like;
use crate::tls::{Acceptor, Connector, TlsError, TlsStream};
use crate::{ConnectError, Endpoint, HostPort, ListenError, TackListener, TackStream};

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
        let stream = self.connect_plain((at.name.as_str(), at.port)).await?;
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
        secure(stream.await?, &at, connector).await
    }
}

async fn secure(
    stream: TackStream,
    host: &HostPort,
    connector: &Connector,
) -> Result<SecureStream, ConnectError> {
    let host = host.to_string();
    let stream = connector.connect(&host, stream).await?;
    if !stream.is_first_use() {
        return Ok(stream);
    }
    let found = stream.peer_fingerprint().ok_or(TlsError::NoCertificate)?;
    Err(TlsError::NotKnown { host, found }.into())
}

/// What strangers may make a [`SecureListener`] hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandshakeLimits {
    /// Time for a handshake, and for what [`SecureListener::admitting`] does. 10 s.
    pub time: Duration,
    /// Handshakes under way at once. 128; beyond it, who has the most makes room.
    pub at_once: usize,
    /// The same of one peer, an IPv4 address or an IPv6 network of 64 bits. 32.
    pub of_one_peer: usize,
}

impl Default for HandshakeLimits {
    fn default() -> Self {
        HandshakeLimits { time: Duration::from_secs(10), at_once: 128, of_one_peer: 32 }
    }
}

impl HandshakeLimits {
    /// The same with changes: fields may be added in later versions, so none is written as a whole.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

type Shaken = Result<(SecureStream, SocketAddr), TlsError>;
type Admitting = Pin<Box<dyn Future<Output = Result<SecureStream, TlsError>> + Send>>;
type Admit = Arc<dyn Fn(SecureStream) -> Admitting + Send + Sync>;

/// Listens for encrypted streams. Handshakes run beside each other, so that a stranger who is silent
/// delays nobody.
pub struct SecureListener {
    listener: TackListener,
    acceptor: Acceptor,
    limits: HandshakeLimits,
    places: Budget,
    admit: Option<Admit>,
    handshakes: Mutex<JoinSet<Shaken>>,
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
        let limits = HandshakeLimits::default();
        SecureListener {
            listener,
            acceptor,
            places: Budget::new(limits.at_once, limits.of_one_peer),
            limits,
            admit: None,
            handshakes: Mutex::default(),
        }
    }

    /// Other limits.
    #[must_use]
    pub fn limits(mut self, limits: HandshakeLimits) -> SecureListener {
        self.places = Budget::new(limits.at_once, limits.of_one_peer);
        self.limits = limits;
        self
    }

    /// What is said on each stream after the handshake and before it is accepted, beside the others
    /// and within the same limits: who the client is, say. A stream that it fails is let go of.
    #[must_use]
    pub fn admitting<F, R>(mut self, admit: F) -> SecureListener
    where
        F: Fn(SecureStream) -> R + Send + Sync + 'static,
        R: Future<Output = Result<SecureStream, TlsError>> + Send + 'static,
    {
        self.admit = Some(Arc::new(move |stream| Box::pin(admit(stream))));
        self
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
        let mut handshakes = self.handshakes.lock().await;
        loop {
            tokio::select! {
                arrived = self.listener.accept() => {
                    let (stream, peer) = arrived?;
                    tracing::info!(%peer, "connection");
                    match self.places.take_or_displace(Peer::of(Some(peer)), 1) {
                        Ok(place) => drop(handshakes.spawn(self.shake(stream, peer, place))),
                        Err(_) => {
                            tracing::warn!(%peer, "too many handshakes");
                            stream.abort();
                        }
                    }
                }
                Some(shaken) = handshakes.join_next() => {
                    if let Some(accepted) = heeded(shaken) {
                        return Ok(accepted);
                    }
                }
            }
        }
    }

    /// Turns away who was not accepted yet.
    pub async fn close(self) {
        self.handshakes.into_inner().shutdown().await;
    }

    fn shake(
        &self,
        stream: TackStream,
        peer: SocketAddr,
        place: Grant,
    ) -> impl Future<Output = Shaken> + Send + use<> {
        let (acceptor, admit, limit) =
            (self.acceptor.clone(), self.admit.clone(), self.limits.time);
        let shaking = async move {
            let stream = acceptor.accept(stream).await?;
            match admit {
                Some(admit) => admit(stream).await,
                None => Ok(stream),
            }
        };
        async move {
            let stream = tokio::select! {
                biased;
                shaken = timeout(limit, shaking) => shaken.map_err(|_| TlsError::TimedOut(limit))??,
                () = place.revoked() => return Err(TlsError::Displaced),
            };
            Ok((stream, peer))
        }
    }
}

/// The stream, or a word in the log.
fn heeded(shaken: Result<Shaken, JoinError>) -> Option<(SecureStream, SocketAddr)> {
    match shaken {
        Ok(Ok(accepted)) => return Some(accepted),
        Ok(Err(error)) => tracing::warn!(%error, "a handshake failed"),
        Err(error) => tracing::warn!(%error, "a handshake was aborted"),
    }
    None
}

impl fmt::Debug for SecureListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SecureListener { listener, limits, .. } = self;
        f.debug_struct("SecureListener")
            .field("listener", listener)
            .field("limits", limits)
            .finish()
    }
}
