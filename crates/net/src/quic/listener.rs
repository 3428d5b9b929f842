//! Taking connections with one stream in.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use super::{Connection, Endpoint, QuicStream};
use crate::lobby::Lobby;
use crate::tls::TlsError;
use crate::{HandshakeLimits, ListenError};

/// What a connection is closed with for which there is no place.
const NO_PLACE: u64 = 2;

/// Takes in connections whose client opens one stream: what [`SecureListener`](crate::SecureListener) is
/// to TCP-TACK. Nobody who connects and says nothing delays others.
#[derive(Debug)]
pub struct Listener {
    endpoint: Endpoint,
    lobby: Lobby<QuicStream>,
}

impl Listener {
    /// Of an endpoint that [others may connect to](super::Builder::listen).
    pub fn new(endpoint: Endpoint) -> Listener {
        Listener { endpoint, lobby: Lobby::new() }
    }

    /// Other limits, on the time from the end of the handshake on.
    #[must_use]
    pub fn limits(self, limits: HandshakeLimits) -> Listener {
        Listener { lobby: self.lobby.limits(limits), ..self }
    }

    /// What is said on each stream before it is accepted, beside the others and within the same limits:
    /// who the client is, say. A stream that it fails is let go of.
    #[must_use]
    pub fn admitting<F, R>(self, admit: F) -> Listener
    where
        F: Fn(QuicStream) -> R + Send + Sync + 'static,
        R: Future<Output = Result<QuicStream, TlsError>> + Send + 'static,
    {
        Listener { lobby: self.lobby.admitting(admit), ..self }
    }

    /// The socket's address.
    pub fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// The next stream, and where it comes from.
    ///
    /// Cancel safe: a stream is taken only when it is returned. One task waits at a time; others wait
    /// for it.
    ///
    /// # Errors
    /// The endpoint was closed.
    pub async fn accept(&self) -> io::Result<(QuicStream, SocketAddr)> {
        let arrive = || async {
            let connection = self.endpoint.accept().await.ok_or(ListenError::EndpointClosed)?;
            let peer = connection.remote_address();
            Ok((connection, peer))
        };
        let shake = |connection| async { Ok(QuicStream::accept(connection).await?) };
        let turn_away = |connection: Connection| connection.close(NO_PLACE, b"too many at once");
        self.lobby.next(arrive, shake, turn_away).await
    }

    /// Turns away who was not accepted yet.
    pub async fn close(self) {
        self.lobby.close().await;
    }
}
