//! From a plain stream to an encrypted one.

use std::sync::{Arc, PoisonError};

use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection};
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};

use super::session::{Session, Side};
use super::trust::KeyVerifier;
use super::{ClientTrust, Fingerprint, ServerIdentity, TlsError, TlsStream, provider};

/// The name sent where the host's own cannot stand in a certificate and is not checked either.
const UNCHECKED_NAME: &str = "tack.invalid";

/// Makes the server's end of TLS streams.
#[derive(Clone, Debug)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
}

impl Acceptor {
    /// A server that shows `identity`.
    ///
    /// # Errors
    /// Key and certificate do not belong together, or are of a kind we do not speak.
    pub fn new(identity: &ServerIdentity) -> Result<Acceptor, TlsError> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        // Ours is ordered by speed, and a client's need not be.
        config.ignore_client_order = true;
        Ok(Acceptor { config: Arc::new(config) })
    }

    /// Does the handshake on `stream`.
    ///
    /// # Errors
    /// The stream failed, or the client violated the protocol or would not believe us.
    pub async fn accept<S>(&self, stream: S) -> Result<TlsStream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let conn = UnbufferedServerConnection::new(self.config.clone())?;
        let mut tls = TlsStream::new(stream, Session::new(Side::Server(conn)));
        tls.handshake().await?;
        Ok(tls)
    }
}

/// Makes the client's end of TLS streams.
#[derive(Clone, Debug)]
pub struct Connector {
    trust: ClientTrust,
}

impl Connector {
    /// A client that believes whom `trust` says.
    ///
    /// # Errors
    /// No authority is given.
    pub fn new(trust: ClientTrust) -> Result<Connector, TlsError> {
        if matches!(&trust, ClientTrust::Authorities(roots) if roots.is_empty()) {
            return Err(TlsError::NoCertificate);
        }
        Ok(Connector { trust })
    }

    /// Does the handshake on `stream` with the server called `host`: a DNS name or IP address,
    /// with a port (`host:port`) where known hosts should be told apart by it.
    ///
    /// # Errors
    /// The stream failed, or the server violated the protocol or is not to be believed; see
    /// [`TlsError::KeyChanged`], [`TlsError::PinMismatch`].
    pub async fn connect<S>(&self, host: &str, stream: S) -> Result<TlsStream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let verifier = KeyVerifier::new(&self.trust, host);
        let verdict = verifier.as_ref().map(KeyVerifier::verdict);
        let name = self.server_name(host)?;
        let conn = UnbufferedClientConnection::new(self.config(verifier)?, name)?;
        let mut tls = TlsStream::new(stream, Session::new(Side::Client(conn)));
        let shaken = tls.handshake().await;
        let Some(verdict) = verdict else { return shaken.map(|()| tls) };
        let mut verdict = verdict.lock().unwrap_or_else(PoisonError::into_inner);
        match (shaken, verdict.error.take()) {
            (Err(TlsError::Protocol(_)), Some(reason)) => return Err(reason),
            (Err(e), _) => return Err(e),
            (Ok(()), _) => {}
        }
        if verdict.first_use {
            // Only now has the server proved that it owns the key.
            self.remember(host, &mut tls)?;
        }
        Ok(tls)
    }

    fn remember<S>(&self, host: &str, tls: &mut TlsStream<S>) -> Result<(), TlsError> {
        let ClientTrust::FirstUse(hosts) = &self.trust else { return Ok(()) };
        let key: Fingerprint = tls.peer_fingerprint().ok_or(TlsError::NoCertificate)?;
        hosts.remember(host, key)?;
        tls.set_first_use();
        Ok(())
    }

    fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        let bare = match host.rsplit_once(':') {
            // More colons than one: an IPv6 address, with brackets if a port follows.
            Some((name, _)) if !name.contains(':') || name.ends_with(']') => name,
            _ => host,
        };
        let bare = bare.trim_start_matches('[').trim_end_matches(']');
        match (ServerName::try_from(bare.to_owned()), &self.trust) {
            (Ok(name), _) => Ok(name),
            (Err(_), ClientTrust::Authorities(_)) => Err(TlsError::BadName(host.to_owned())),
            (Err(_), _) => Ok(ServerName::try_from(UNCHECKED_NAME).expect("a valid DNS name")),
        }
    }

    fn config(&self, verifier: Option<KeyVerifier>) -> Result<Arc<ClientConfig>, TlsError> {
        let builder =
            ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13])?;
        let mut config = match (&self.trust, verifier) {
            (ClientTrust::Authorities(roots), None) => {
                builder.with_root_certificates(roots.clone()).with_no_client_auth()
            }
            (_, verifier) => {
                let verifier = verifier.expect("every trust but authorities has a verifier");
                builder
                    .dangerous()
                    .with_custom_certificate_verifier(Arc::new(verifier))
                    .with_no_client_auth()
            }
        };
        // A resumed session would skip the verifier.
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}
