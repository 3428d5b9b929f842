//! Whom a client believes.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
};

use super::known_hosts::Known;
use super::{Fingerprint, KnownHosts, TlsError, provider};

/// What makes a client believe that a server is who it claims to be.
#[derive(Clone, Debug)]
pub enum ClientTrust {
    /// Certificate authorities: the server's certificate must be issued by one of them for the
    /// name connected to, and be valid today.
    Authorities(Arc<RootCertStore>),
    /// The server's key has this fingerprint. Its certificate's name and dates do not matter.
    Pinned(Fingerprint),
    /// The key on record for a host, and no other. A host that is met for the first time
    /// [is let through](super::TlsStream::is_first_use) and not put on record: whoever connects has
    /// to find out whether it is the right one, and then [remember](KnownHosts::remember) it.
    FirstUse(KnownHosts),
}

impl ClientTrust {
    /// The authorities in a PEM file.
    ///
    /// # Errors
    /// The file cannot be read or holds no certificate.
    pub fn authorities_from_file(path: &Path) -> Result<ClientTrust, TlsError> {
        let at = |source| TlsError::File { path: path.to_owned(), source };
        let pem = fs::read(path).map_err(at)?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate?)?;
        }
        if roots.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        Ok(ClientTrust::Authorities(Arc::new(roots)))
    }
}

/// Believes a key rather than a certificate.
pub(super) struct KeyVerifier {
    rule: Rule,
    algorithms: WebPkiSupportedAlgorithms,
    /// Why the last verification failed, in full: rustls has no room for it.
    verdict: Arc<Mutex<Verdict>>,
}

/// What a verification found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) error: Option<TlsError>,
    /// The host was met for the first time.
    pub(crate) first_use: bool,
}

#[derive(Debug)]
enum Rule {
    Pinned(Fingerprint),
    FirstUse { hosts: KnownHosts, host: String },
}

impl KeyVerifier {
    /// For a connection to `host`; `None` if `trust` asks authorities.
    pub(super) fn new(trust: &ClientTrust, host: &str) -> Option<KeyVerifier> {
        let rule = match trust {
            ClientTrust::Authorities(_) => return None,
            ClientTrust::Pinned(fingerprint) => Rule::Pinned(*fingerprint),
            ClientTrust::FirstUse(hosts) => {
                Rule::FirstUse { hosts: hosts.clone(), host: host.to_owned() }
            }
        };
        let algorithms = provider().signature_verification_algorithms;
        Some(KeyVerifier { rule, algorithms, verdict: Arc::default() })
    }

    pub(super) fn verdict(&self) -> Arc<Mutex<Verdict>> {
        self.verdict.clone()
    }

    /// Whether the key may be believed, and whether it is a first meeting.
    fn check(&self, found: Fingerprint) -> Result<bool, TlsError> {
        match &self.rule {
            &Rule::Pinned(expected) if expected == found => Ok(false),
            &Rule::Pinned(expected) => Err(TlsError::PinMismatch { expected, found }),
            Rule::FirstUse { hosts, host } => match hosts.look_up(host)? {
                Known::No => Ok(true),
                Known::Key(expected, _) if expected == found => Ok(false),
                Known::Key(expected, line) => {
                    let (host, path) = (host.clone(), hosts.path().to_owned());
                    Err(TlsError::KeyChanged { host, expected, found, path, line })
                }
            },
        }
    }
}

impl fmt::Debug for KeyVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KeyVerifier").field(&self.rule).finish()
    }
}

/// Believes every client that it owns the key it shows, and leaves it to others whose that is.
#[derive(Debug)]
pub(super) struct AnyClient {
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyClient {
    pub(super) fn new() -> AnyClient {
        AnyClient { algorithms: provider().signature_verification_algorithms }
    }
}

/// The methods about signatures, which rustls asks of those who verify servers and clients alike.
macro_rules! signatures_of_tls13 {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            Err(rustls::PeerIncompatible::Tls12NotOffered.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, rustls::Error> {
            verify_tls13_signature(message, cert, dss, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.algorithms.supported_schemes()
        }
    };
}

impl ClientCertVerifier for AnyClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Fingerprint::of(end_entity).map(|_| ClientCertVerified::assertion())
    }

    signatures_of_tls13!();
}

impl ServerCertVerifier for KeyVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let checked = self.check(Fingerprint::of(end_entity)?);
        let mut verdict = self.verdict.lock().unwrap_or_else(PoisonError::into_inner);
        match checked {
            Ok(first_use) => {
                verdict.first_use = first_use;
                Ok(ServerCertVerified::assertion())
            }
            Err(e) => {
                verdict.error = Some(e);
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
        }
    }

    signatures_of_tls13!();
}
