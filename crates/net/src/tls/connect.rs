//! From a plain stream to an encrypted one.

use std::fmt;
use std::io::ErrorKind;
#[cfg(feature = "quic")]
use std::sync::Mutex;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use rustls::client::{Resumption, UnbufferedClientConnection, WantsClientCert};
use rustls::pki_types::ServerName;
use rustls::server::{NoServerSessionStorage, UnbufferedServerConnection};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{ClientConfig, ConfigBuilder, KeyLog, KeyLogFile, NoKeyLog, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use super::secrets::{Secrets, Told};
use super::session::{Session, Side};
use super::today::Today;
#[cfg(feature = "quic")]
use super::trust::Verdict;
use super::trust::{AnyClient, KeyVerifier};
use super::{ClientTrust, Fingerprint, ServerIdentity, TlsError, TlsStream, provider};

/// Time for a handshake unless told otherwise.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// The name sent where the host's own cannot stand in a certificate and is not checked either.
const UNCHECKED_NAME: &str = "tack.invalid";

/// Makes the server's end of TLS streams.
#[derive(Clone)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
    secret: [u8; 32],
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").finish_non_exhaustive()
    }
}

impl Acceptor {
    /// A server that shows `identity`. Clients may show a key, too, and have then proved that they
    /// own it: [`TlsStream::peer_fingerprint`]. Whether it is one that may come in is the caller's
    /// affair.
    ///
    /// # Errors
    /// Key and certificate do not belong together, or are of a kind we do not speak.
    pub fn new(identity: &ServerIdentity) -> Result<Acceptor, TlsError> {
        let mut config = ServerConfig::builder_with_details(provider(), Arc::new(Today))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::new(AnyClient::new()))
            .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        // Ours is ordered by speed, and a client's need not be.
        config.ignore_client_order = true;
        let secret = identity.derive("what endpoints may lose by a restart");
        Ok(Acceptor { config: Arc::new(config), secret })
    }

    /// A secret that follows from the identity, the same whenever and wherever it is used, and tells
    /// nothing of its key.
    pub fn secret(&self) -> [u8; 32] {
        self.secret
    }

    /// The same, and the secrets of each connection are appended to the file that the environment
    /// names in `SSLKEYLOGFILE`, if it does: for reading a capture. Whoever has that file reads
    /// everything.
    #[must_use]
    pub fn with_key_log(self) -> Acceptor {
        let mut config = ServerConfig::clone(&self.config);
        config.key_log = Arc::new(KeyLogFile::new());
        Acceptor { config: Arc::new(config), ..self }
    }

    /// The same, and `secrets` is told those of each connection, too.
    #[must_use]
    pub fn with_secrets(self, secrets: Arc<dyn Secrets>) -> Acceptor {
        let mut config = ServerConfig::clone(&self.config);
        config.key_log = Arc::new(Told { also: config.key_log.clone(), secrets });
        Acceptor { config: Arc::new(config), ..self }
    }

    /// The same for QUIC, to speak one of `protocols`, the first that the client knows.
    #[cfg(feature = "quic")]
    #[must_use]
    pub fn for_quic(&self, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }

    /// Does the handshake on `stream`, however long it takes: a
    /// [`SecureListener`](crate::SecureListener) bounds it.
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

/// A QUIC client's TLS.
#[cfg(feature = "quic")]
pub(crate) struct ForQuic {
    pub(crate) name: ServerName<'static>,
    pub(crate) config: Arc<ClientConfig>,
    /// What was found of the server's key, if it is believed by that.
    pub(crate) verdict: Option<Arc<Mutex<Verdict>>>,
}

/// Makes the client's end of TLS streams.
#[derive(Clone, Debug)]
pub struct Connector {
    trust: ClientTrust,
    identity: Option<Arc<ServerIdentity>>,
    /// The key as rustls signs with it, read once and not for each handshake.
    signer: Arc<OnceLock<Arc<SingleCertAndKey>>>,
    key_log: Option<Arc<dyn KeyLog>>,
    limit: Duration,
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
        Ok(Connector {
            trust,
            identity: None,
            signer: Arc::default(),
            key_log: None,
            limit: HANDSHAKE_LIMIT,
        })
    }

    /// The same, and shows the server this key.
    #[must_use]
    pub fn with_identity(self, identity: Arc<ServerIdentity>) -> Connector {
        Connector { identity: Some(identity), signer: Arc::default(), ..self }
    }

    /// The same, and the secrets of each connection are appended to the file that the environment
    /// names in `SSLKEYLOGFILE`; see [`Acceptor::with_key_log`].
    #[must_use]
    pub fn with_key_log(self) -> Connector {
        Connector { key_log: Some(Arc::new(KeyLogFile::new())), ..self }
    }

    /// The same, and `secrets` is told those of each connection, too.
    #[must_use]
    pub fn with_secrets(self, secrets: Arc<dyn Secrets>) -> Connector {
        let also = self.key_log.unwrap_or_else(|| Arc::new(NoKeyLog {}));
        Connector { key_log: Some(Arc::new(Told { also, secrets })), ..self }
    }

    /// The same, with so much time for a handshake instead of 10 s.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Connector {
        Connector { limit, ..self }
    }

    /// The key that servers see.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        self.identity.as_ref().map(|identity| identity.fingerprint())
    }

    /// Puts a host on record that was met for the first time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remember(&self, host: &str, key: Fingerprint) -> Result<(), TlsError> {
        match &self.trust {
            ClientTrust::FirstUse(hosts) => hosts.remember(host, key),
            _ => Ok(()),
        }
    }

    /// Does the handshake on `stream` with the server called `host`: a DNS name or IP address,
    /// with a port (`host:port`) where known hosts should be told apart by it.
    ///
    /// # Errors
    /// The stream failed, the server took too long, violated the protocol or is not to be believed;
    /// see [`TlsError::KeyChanged`], [`TlsError::PinMismatch`].
    pub async fn connect<S>(&self, host: &str, stream: S) -> Result<TlsStream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let verifier = KeyVerifier::new(&self.trust, host);
        let verdict = verifier.as_ref().map(KeyVerifier::verdict);
        let name = self.server_name(host)?;
        let conn = UnbufferedClientConnection::new(self.config(verifier)?, name)?;
        let mut tls = TlsStream::new(stream, Session::new(Side::Client(conn)));
        let limit = self.limit;
        let shaken = timeout(limit, tls.handshake()).await;
        let shaken = match shaken.map_err(|_| TlsError::TimedOut(limit))? {
            Err(TlsError::Io(e)) if e.kind() == ErrorKind::ConnectionReset => {
                Err(TlsError::Reset(e))
            }
            shaken => shaken,
        };
        let Some(verdict) = verdict else { return shaken.map(|()| tls) };
        let mut verdict = verdict.lock().unwrap_or_else(PoisonError::into_inner);
        match (shaken, verdict.error.take()) {
            (Err(TlsError::Protocol(_)), Some(reason)) => return Err(reason),
            (Err(e), _) => return Err(e),
            (Ok(()), _) => {}
        }
        if verdict.first_use {
            tls.set_first_use();
        }
        Ok(tls)
    }

    /// What a QUIC connection to the server called `host` needs to speak one of `protocols`.
    #[cfg(feature = "quic")]
    pub(crate) fn for_quic(&self, host: &str, protocols: &[&[u8]]) -> Result<ForQuic, TlsError> {
        let verifier = KeyVerifier::new(&self.trust, host);
        let verdict = verifier.as_ref().map(KeyVerifier::verdict);
        let name = self.server_name(host)?;
        let mut config = ClientConfig::clone(&*self.config(verifier)?);
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Ok(ForQuic { name, config: Arc::new(config), verdict })
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
        let builder = ClientConfig::builder_with_details(provider(), Arc::new(Today))
            .with_protocol_versions(&[&TLS13])?;
        let mut config = match (&self.trust, verifier) {
            (ClientTrust::Authorities(roots), None) => {
                self.with_key(builder.with_root_certificates(roots.clone()))?
            }
            (_, verifier) => {
                let verifier = verifier.expect("every trust but authorities has a verifier");
                let believing = builder.dangerous();
                self.with_key(believing.with_custom_certificate_verifier(Arc::new(verifier)))?
            }
        };
        // A resumed session would skip the verifier.
        config.resumption = Resumption::disabled();
        if let Some(key_log) = &self.key_log {
            config.key_log = key_log.clone();
        }
        Ok(Arc::new(config))
    }

    fn with_key(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<ClientConfig, TlsError> {
        let Some(identity) = &self.identity else { return Ok(builder.with_no_client_auth()) };
        if let Some(signer) = self.signer.get() {
            return Ok(builder.with_client_cert_resolver(signer.clone()));
        }
        let (chain, key) = (identity.chain.clone(), identity.key.clone_key());
        let signer = Arc::new(CertifiedKey::from_der(chain, key, &provider())?.into());
        let signer = self.signer.get_or_init(|| signer);
        Ok(builder.with_client_cert_resolver(signer.clone()))
    }
}
