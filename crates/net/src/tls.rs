//! TLS 1.3 over a stream.
//!
//! A server needs a [`ServerIdentity`]: a certificate from elsewhere, or a key of its own made on
//! first use. A client needs a [`ClientTrust`]: certificate authorities, a fingerprint it was told,
//! or a file of keys seen before, the way ssh does it.
//!
//! [`Endpoint::connect`](crate::Endpoint::connect) and [`Endpoint::listen`](crate::Endpoint::listen) do
//! the rest; the two halves here work over any stream.
//!
//! ```
//! use tack_net::tls::{ClientTrust, Connector, Acceptor, ServerIdentity};
//!
//! let identity = ServerIdentity::generate(&["localhost"])?;
//! let trust = ClientTrust::Pinned(identity.fingerprint());
//! let acceptor = Acceptor::new(&identity)?;
//! let connector = Connector::new(trust)?;
//! # Ok::<(), tack_net::tls::TlsError>(())
//! ```
//!
//! Only TLS 1.3 is spoken. AES-128-GCM comes first where the processor has instructions for it,
//! ChaCha20-Poly1305 elsewhere. There is no session resumption and no early data, but for
//! QUIC servers that are told to take some (`quic::Config::max_early_data`).

mod connect;
mod fingerprint;
mod identity;
mod known_hosts;
mod secrets;
mod session;
mod stream;
#[cfg(test)]
mod tests;
mod today;
mod trust;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};

#[cfg(feature = "quic")]
pub(crate) use connect::ForQuic;
pub use connect::{Acceptor, Connector};
pub use fingerprint::Fingerprint;
pub use identity::ServerIdentity;
pub use known_hosts::KnownHosts;
pub use rustls::{AlertDescription, Error as ProtocolError};
pub use secrets::Secrets;
pub use session::WRITE_BYTES;
pub use stream::TlsStream;
pub use trust::ClientTrust;

/// Why TLS cannot be set up or was broken off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A certificate or key file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others than its user can read or change a private key.
    #[error(
        "{path}: others can read or change it (mode {mode:o}): chmod 600, or remove it if it may be known"
    )]
    Readable {
        /// Which.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// There is no certificate in what was given.
    #[error("no certificate found")]
    NoCertificate,
    /// A PEM file is malformed, or its key is missing.
    #[error("not usable PEM: {0}")]
    Pem(#[from] rustls::pki_types::pem::Error),
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Generate(#[from] rcgen::Error),
    /// No directory for configuration is known: neither XDG_CONFIG_HOME nor HOME is set.
    #[error("no home directory: set XDG_CONFIG_HOME")]
    NoConfigDir,
    /// The name of a host cannot be checked against a certificate.
    #[error("{0:?} is not a host name")]
    BadName(String),
    /// A line of the known-hosts file is malformed.
    #[error("{path}:{line}: expected a host and a SHA256: fingerprint")]
    BadKnownHost {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// The server's key is not the one known for it: somebody may be in between, or the server was
    /// set up anew.
    #[error(
        "the key of {host} is not the one seen before: expected {expected}, got {found}; somebody \
         may be intercepting the connection. If the server was set up anew, remove line {line} of \
         {path}"
    )]
    KeyChanged {
        /// The host as the caller named it.
        host: String,
        /// The fingerprint on record.
        expected: Fingerprint,
        /// The server's.
        found: Fingerprint,
        /// The known-hosts file.
        path: PathBuf,
        /// Line of the record, from 1.
        line: usize,
    },
    /// The server's key is not the pinned one.
    #[error("the server's key is {found}, but {expected} was required")]
    PinMismatch {
        /// The pin.
        expected: Fingerprint,
        /// The server's.
        found: Fingerprint,
    },
    /// A host that was never met, where nobody is to be believed at first sight. Its key may be
    /// compared and [remembered](Connector::remember).
    #[error("{host} was never met before, and its key is {found}")]
    NotKnown {
        /// The host as the caller named it.
        host: String,
        /// The server's key.
        found: Fingerprint,
    },
    /// The other side broke it off, for this reason of its own [RFC 8446 §6].
    #[error("the other side refused: {0:?}")]
    Refused(AlertDescription),
    /// The other side took too long over the handshake.
    #[error("no handshake within {0:?}")]
    TimedOut(Duration),
    /// A handshake that was under way had to make room for another.
    #[error("too many handshakes at once")]
    Displaced,
    /// The other side reset the stream in the handshake. A server turns away so whoever is one too many of its
    /// address: see [`HandshakeLimits`](crate::HandshakeLimits), which a server may raise, or begin fewer at once.
    #[error(
        "{0} in the handshake; a server that has too many of them at once from one address does so"
    )]
    Reset(io::Error),
    /// The protocol was violated, or a certificate is not valid.
    #[error(transparent)]
    Protocol(rustls::Error),
    /// The stream beneath failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<rustls::Error> for TlsError {
    fn from(e: rustls::Error) -> TlsError {
        match e {
            rustls::Error::AlertReceived(reason) => TlsError::Refused(reason),
            e => TlsError::Protocol(e),
        }
    }
}

impl TlsError {
    /// Whether this is a judgement, ours or the other side's, which another attempt would only hear
    /// again. Everything else may be a connection that broke: bytes that were damaged on their way
    /// look like a protocol that was violated, to either side.
    pub fn is_verdict(&self) -> bool {
        use rustls::Error as E;
        match self {
            TlsError::Io(_) | TlsError::Reset(_) | TlsError::TimedOut(_) | TlsError::Displaced => {
                false
            }
            // Of the peer it says nothing, and there may be descriptors again in a moment.
            TlsError::File { .. } => false,
            TlsError::Refused(alert) => is_about_trust(*alert),
            TlsError::Protocol(violation) => !matches!(
                violation,
                E::InappropriateMessage { .. }
                    | E::InappropriateHandshakeMessage { .. }
                    | E::InvalidMessage(_)
                    | E::DecryptError
                    | E::PeerIncompatible(_)
                    | E::PeerMisbehaved(_)
                    | E::PeerSentOversizedRecord
            ),
            _ => true,
        }
    }

    /// What a stream reports it as.
    pub(crate) fn kind(&self) -> io::ErrorKind {
        match self {
            TlsError::Io(e) | TlsError::Reset(e) | TlsError::File { source: e, .. } => e.kind(),
            TlsError::TimedOut(_) => io::ErrorKind::TimedOut,
            TlsError::Refused(_) => io::ErrorKind::ConnectionAborted,
            _ => io::ErrorKind::InvalidData,
        }
    }
}

/// Alerts about keys, certificates and what both sides speak [RFC 8446 §6.2].
fn is_about_trust(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
            | A::UnrecognisedName
            | A::BadCertificateStatusResponse
            | A::CertificateRequired
            | A::NoApplicationProtocol
    )
}

impl From<TlsError> for io::Error {
    fn from(e: TlsError) -> io::Error {
        match e {
            TlsError::Io(e) => e,
            e => io::Error::new(e.kind(), e),
        }
    }
}

/// Algorithms, the fastest first.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    let make = || {
        let [a, b, c] = if has_aes() {
            [TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256]
        } else {
            [TLS13_CHACHA20_POLY1305_SHA256, TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384]
        };
        let cipher_suites = vec![a, b, c];
        Arc::new(CryptoProvider { cipher_suites, ..rustls::crypto::ring::default_provider() })
    };
    PROVIDER.get_or_init(make).clone()
}

/// The processor has instructions for AES.
fn has_aes() -> bool {
    #[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
    false
}

/// Where this user's identity and known hosts live: `tack` in the configuration directory.
///
/// # Errors
/// [`TlsError::NoConfigDir`].
pub fn config_dir() -> Result<PathBuf, TlsError> {
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("XDG_CONFIG_HOME")
        .or_else(|| set("APPDATA"))
        .or_else(|| Some(set("HOME")?.join(".config")))
        .map(|dir| dir.join("tack"))
        .ok_or(TlsError::NoConfigDir)
}
