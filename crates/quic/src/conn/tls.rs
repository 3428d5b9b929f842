//! The TLS session [RFC 9001 §4], by rustls.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::quic::{self, KeyChange};
use rustls::{ClientConfig, HandshakeKind, ServerConfig};

use crate::error::{Violation, code};
use crate::wire::{Parameters, Sender, Version};

/// See the [module's text](self).
pub(crate) struct Tls(quic::Connection);

impl core::fmt::Debug for Tls {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Tls(handshaking: {})", self.0.is_handshaking())
    }
}

fn version(version: Version) -> quic::Version {
    match version {
        Version::V1 => quic::Version::V1,
        Version::V2 => quic::Version::V2,
    }
}

impl Tls {
    pub(crate) fn client(
        config: Arc<ClientConfig>,
        v: Version,
        name: ServerName<'static>,
        ours: &Parameters,
    ) -> Result<Tls, rustls::Error> {
        let mut parameters = Vec::new();
        ours.emit(&mut parameters);
        let session = quic::ClientConnection::new(config, version(v), name, parameters)?;
        Ok(Tls(session.into()))
    }

    pub(crate) fn server(
        config: Arc<ServerConfig>,
        v: Version,
        ours: &Parameters,
    ) -> Result<Tls, rustls::Error> {
        let mut parameters = Vec::new();
        ours.emit(&mut parameters);
        Ok(Tls(quic::ServerConnection::new(config, version(v), parameters)?.into()))
    }

    /// Bytes of the handshake came, in order.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        self.0.read_hs(bytes).map_err(|_| {
            let alert = self.0.alert().map_or(0, |alert| u64::from(u8::from(alert)));
            Violation::new(code::CRYPTO_ERROR + alert, "the handshake failed")
        })
    }

    /// Appends what is to be sent at the present level; with new keys the level changes behind it.
    pub(crate) fn write(&mut self, out: &mut Vec<u8>) -> Option<KeyChange> {
        self.0.write_hs(out)
    }

    pub(crate) fn is_resumed(&self) -> bool {
        self.0.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// The peer's transport parameters, once they came; `sender` is the peer.
    pub(crate) fn peer_parameters(&self, sender: Sender) -> Result<Option<Parameters>, Violation> {
        let Some(bytes) = self.0.quic_transport_parameters() else { return Ok(None) };
        let parameters = Parameters::parse(bytes, sender);
        parameters.map(Some).map_err(|_| {
            Violation::new(code::TRANSPORT_PARAMETER_ERROR, "transport parameters cannot be read")
        })
    }

    /// The application protocol agreed on.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.0.alpn_protocol()
    }

    /// The peer's certificates, its own first.
    pub(crate) fn peer_certificates(
        &self,
    ) -> Option<&[rustls::pki_types::CertificateDer<'static>]> {
        self.0.peer_certificates()
    }
}
